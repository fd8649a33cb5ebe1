import static com.azure.data.tables.models.TableEntityUpdateMode.MERGE;
import static com.azure.data.tables.models.TableEntityUpdateMode.REPLACE;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class Test08Keys extends Helpers.WithTable {
    static List<Helpers.Case> keys() {
        return Helpers.cases("keys");
    }

    static List<String> forbidden() {
        return Helpers.texts("forbidden_keys");
    }

    /** Looked up with a query, by both keys. */
    List<String> found(String key) {
        String filter = "PartitionKey eq " + Helpers.quoted(key) + " and RowKey eq " + Helpers.quoted(key);
        return Helpers.query(table, filter).stream().map(Helpers::plain).toList();
    }

    void submit(TableTransactionActionType type, TableEntity... entities) {
        table.submitTransaction(List.of(entities).stream().map(e -> new TableTransactionAction(type, e)).toList());
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("keys")
    void round_trip(Helpers.Case item) {
        String key = item.text();
        table.createEntity(Helpers.entity(key, key, "A", 5));
        assertEquals(Helpers.plain(Helpers.entity(key, key, "A", 5)), Helpers.get(table, key, key));
        assertEquals(List.of(Helpers.plain(Helpers.entity(key, key, "A", 5))), found(key));

        table.updateEntity(Helpers.entity(key, key, "B", 6), MERGE);
        assertEquals(Helpers.plain(Helpers.entity(key, key, "A", 5, "B", 6)), Helpers.get(table, key, key));
        table.updateEntity(Helpers.entity(key, key, "C", 7), REPLACE);
        assertEquals(Helpers.plain(Helpers.entity(key, key, "C", 7)), Helpers.get(table, key, key));
        table.upsertEntity(Helpers.entity(key, key, "D", 8));
        assertEquals(Helpers.plain(Helpers.entity(key, key, "C", 7, "D", 8)), Helpers.get(table, key, key));

        table.deleteEntity(key, key);
        assertEquals(List.of(), Helpers.list(table));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("keys")
    void batch(Helpers.Case item) {
        String key = item.text();
        submit(TableTransactionActionType.CREATE, Helpers.entity(key, key, "A", 5), Helpers.entity(key, "other"));
        submit(TableTransactionActionType.UPDATE_MERGE, Helpers.entity(key, key, "B", 6), Helpers.entity(key, "other"));
        assertEquals(List.of(Helpers.plain(Helpers.entity(key, key, "A", 5, "B", 6))), found(key));
        submit(TableTransactionActionType.DELETE, Helpers.entity(key, key), Helpers.entity(key, "other"));
        assertEquals(List.of(), Helpers.list(table));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("forbidden")
    void a_forbidden_character_is_refused(String key) {
        for (TableEntity entity : List.of(Helpers.entity(key, "r"), Helpers.entity("p", key))) {
            Helpers.refused(400, "OutOfRangeInput", () -> table.createEntity(entity));
            Helpers.refused(400, null, () -> table.upsertEntity(entity)); // In a URL the code depends on the character.
        }
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void characters_513_are_refused() {
        String key = "k".repeat(513);
        for (TableEntity entity : List.of(Helpers.entity(key, "r"), Helpers.entity("p", key))) {
            Helpers.refused(400, null, () -> table.createEntity(entity));
        }
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void keys_that_differ_by_case_are_two() {
        table.createEntity(Helpers.entity("p", "a"));
        table.createEntity(Helpers.entity("p", "A"));
        assertEquals(Helpers.plain(Helpers.entity("p", "A"), Helpers.entity("p", "a")), Helpers.list(table));
    }
}
