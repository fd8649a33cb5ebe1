import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.util.Context;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableItem;
import java.util.HashSet;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class Test01Tables extends Helpers.WithTable {
    static List<String> names(Stream<TableItem> tables) {
        return tables.map(TableItem::getName).toList();
    }

    static List<String> query(String filter) {
        var options = new ListTablesOptions().setFilter(filter);
        return names(Helpers.SERVICE.listTables(options, null, Context.NONE).stream());
    }

    static List<String> named(String name) {
        return query("TableName eq " + Helpers.quoted(name));
    }

    @Test
    void create() {
        String name = Helpers.tableName();
        assertEquals(name, Helpers.SERVICE.createTable(name).getTableName());
        assertEquals(List.of(name), named(name));
        Helpers.SERVICE.deleteTable(name);
    }

    @Test
    void create_again_is_a_conflict() {
        Helpers.refused(409, "TableAlreadyExists", () -> Helpers.SERVICE.createTable(table.getTableName()));
        Helpers.refused(409, "TableAlreadyExists", () -> table.createTable());
    }

    @Test
    void the_same_name_in_other_case_is_a_conflict() {
        String name = table.getTableName().toUpperCase();
        Helpers.refused(409, "TableAlreadyExists", () -> Helpers.SERVICE.createTable(name));
    }

    @Test
    void create_if_not_exists() {
        String name = Helpers.tableName();
        for (int i = 0; i < 2; i++) {
            assertEquals(name, Helpers.SERVICE.createTableIfNotExists(name).getTableName());
        }
        Helpers.SERVICE.deleteTable(name);
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({
        "ab, OutOfRangeInput",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, OutOfRangeInput",
        "1abc, InvalidResourceName",
        "a_b, InvalidResourceName",
        "a-b, InvalidResourceName",
        "äbc, InvalidResourceName",
    })
    void a_bad_name_is_refused(String name, String code) {
        Helpers.refused(400, code, () -> Helpers.SERVICE.createTable(name));
    }

    @Test
    void the_reserved_name_is_refused() {
        Helpers.refused(400, "InvalidInput", () -> Helpers.SERVICE.createTable("Tables"));
    }

    @Test
    void list_with_a_filter_and_by_pages() {
        String start = Helpers.tableName() + "x";
        List<String> created = IntStream.range(0, 5).mapToObj(i -> start + i).toList();
        created.forEach(Helpers.SERVICE::createTable);
        String ofThisTest =
            "TableName ge " + Helpers.quoted(start) + " and TableName lt " + Helpers.quoted(start + "z");

        assertEquals(created, query(ofThisTest));
        assertEquals(created.subList(3, 4), named(created.get(3)));

        var options = new ListTablesOptions().setFilter(ofThisTest).setTop(2);
        var pages = Helpers.SERVICE.listTables(options, null, Context.NONE).streamByPage();
        assertEquals(
            List.of(created.subList(0, 2), created.subList(2, 4), created.subList(4, 5)),
            pages.map(page -> names(page.getElements().stream())).toList());
        var all = Helpers.SERVICE.listTables(new ListTablesOptions().setTop(3), null, Context.NONE).stream();
        assertTrue(new HashSet<>(names(all)).containsAll(created));

        created.forEach(Helpers.SERVICE::deleteTable);
        assertEquals(List.of(), query(ofThisTest));
    }

    @Test
    void delete() {
        String name = Helpers.tableName();
        Helpers.SERVICE.createTable(name);
        Helpers.SERVICE.deleteTable(name);
        assertEquals(List.of(), named(name));
    }

    @Test
    void delete_a_missing_table() {
        // The SDK swallows 404.
        String name = Helpers.tableName();
        assertEquals(404, Helpers.SERVICE.deleteTableWithResponse(name, null, Context.NONE).getStatusCode());
    }
}
