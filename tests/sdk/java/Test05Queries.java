import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class Test05Queries {
    static TableClient table;

    @BeforeAll
    static void createTable() {
        table = Helpers.SERVICE.createTable(Helpers.tableName());
        Helpers.cases("rows").forEach(row -> table.createEntity(Helpers.scenarioRow(row)));
    }

    @AfterAll
    static void deleteTable() {
        table.deleteTable();
    }

    static String found(String filter) {
        return Helpers.query(table, filter).stream().map(TableEntity::getRowKey).collect(Collectors.joining());
    }

    /** The middle one of the three values of each property; the SDK has no helper to write it. */
    static Map<String, String> constants() {
        Helpers.Case middle = Helpers.cases("rows").get(1);
        return Map.of(
            "PartitionKey", Helpers.quoted(middle.get("PartitionKey")),
            "RowKey", Helpers.quoted(middle.get("RowKey")),
            "Int32", middle.get("Int32"),
            "Int64", middle.get("Int64") + "L",
            "Double", middle.get("Double"),
            "DateTime", "datetime" + Helpers.quoted(middle.get("DateTime")),
            "Guid", "guid" + Helpers.quoted(middle.get("Guid")),
            "Binary", "X" + Helpers.quoted(middle.get("Binary")),
            "String", Helpers.quoted(middle.get("String")),
            "Boolean", middle.get("Boolean"));
    }

    static Stream<Arguments> operators() {
        return constants().entrySet().stream().flatMap(constant -> Helpers.cases("operators").stream().map(item -> {
            String rows = constant.getKey().equals("Boolean") ? "boolean_rows" : "rows";
            return arguments(constant.getKey(), item.get("operator"), constant.getValue(), item.get(rows));
        }));
    }

    static List<Helpers.Case> filters() {
        return Helpers.cases("filters");
    }

    static List<String> badFilters() {
        return Helpers.texts("bad_filters");
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("operators")
    void operator(String name, String operator, String constant, String rows) {
        String filter = name + " " + operator + " " + constant;
        assertEquals(rows, found(filter), filter);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("filters")
    void filter(Helpers.Case item) {
        assertEquals(item.get("rows"), found(item.get("filter")), item.get("filter"));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("badFilters")
    void a_bad_filter_is_refused(String filter) {
        assertAll(filter, () -> Helpers.refusedInText(400, "InvalidInput", () -> found(filter)));
    }
}
