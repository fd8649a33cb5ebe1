import static com.azure.data.tables.models.TableEntityUpdateMode.MERGE;
import static com.azure.data.tables.models.TableEntityUpdateMode.REPLACE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class Test03Operations extends Helpers.WithTable {
    static final String STALE = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"";

    static TableEntity row(Object... properties) {
        return Helpers.entity("p", "r", properties);
    }

    String get() {
        return Helpers.get(table, "p", "r");
    }

    int delete(TableClient table, String etag) {
        TableEntity entity = row("odata.etag", etag);
        return table.deleteEntityWithResponse(entity, etag != null, null, Context.NONE).getStatusCode();
    }

    @Test
    void insert_and_get() {
        String etag = Helpers.insert(table, row("A", 5));
        assertEquals(Helpers.plain(row("A", 5)), get());
        assertEquals(etag, table.getEntity("p", "r").getETag());
    }

    @Test
    void insert_an_existing_entity() {
        table.createEntity(row("A", 5));
        Helpers.refused(409, "EntityAlreadyExists", () -> table.createEntity(row("A", 6)));
        assertEquals(Helpers.plain(row("A", 5)), get());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void update_any_version(TableEntityUpdateMode mode) {
        table.createEntity(row("A", 5, "B", "x"));
        table.updateEntity(row("A", 6, "C", true), mode);
        TableEntity expected = mode == MERGE ? row("A", 6, "B", "x", "C", true) : row("A", 6, "C", true);
        assertEquals(Helpers.plain(expected), get());
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void update_with_the_etag(TableEntityUpdateMode mode) {
        String old = Helpers.insert(table, row("A", 5, "B", "x"));
        String etag = Helpers.updateIf(table, old, row("A", "other type"), mode);
        TableEntity expected = mode == MERGE ? row("A", "other type", "B", "x") : row("A", "other type");
        assertEquals(Helpers.plain(expected), get());
        assertEquals(etag, table.getEntity("p", "r").getETag());
        assertNotEquals(old, etag);
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void upsert(TableEntityUpdateMode mode) {
        Helpers.upsert(table, row("A", 5, "B", "x"), mode);
        assertEquals(Helpers.plain(row("A", 5, "B", "x")), get());
        Helpers.upsert(table, row("A", 6), mode);
        assertEquals(Helpers.plain(mode == MERGE ? row("A", 6, "B", "x") : row("A", 6)), get());
    }

    @Test
    void delete_any_version() {
        table.createEntity(row());
        table.deleteEntity("p", "r");
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void delete_with_the_etag() {
        String etag = Helpers.insert(table, row());
        assertEquals(204, delete(table, etag));
        assertEquals(List.of(), Helpers.list(table));
    }

    @ParameterizedTest(name = "{0}")
    @EnumSource
    void update_with_a_stale_etag(TableEntityUpdateMode mode) {
        String old = Helpers.insert(table, row("A", 5));
        table.updateEntity(row("A", 6));
        for (String etag : List.of(old, STALE)) {
            Executable write = () -> Helpers.updateIf(table, etag, row("A", 7), mode);
            Helpers.refused(412, "UpdateConditionNotSatisfied", write);
        }
        assertEquals(Helpers.plain(row("A", 6)), get());
    }

    @Test
    void delete_with_a_stale_etag() {
        String old = Helpers.insert(table, row("A", 5));
        table.updateEntity(row("A", 6));
        for (String etag : List.of(old, STALE)) {
            Helpers.refused(412, "UpdateConditionNotSatisfied", () -> delete(table, etag));
        }
        assertEquals(Helpers.plain(row("A", 6)), get());
    }

    @Test
    void a_missing_entity() {
        Helpers.refused(404, "ResourceNotFound", () -> table.getEntity("p", "r"));
        Helpers.refused(404, "ResourceNotFound", () -> table.updateEntity(row(), REPLACE));
        Helpers.refused(404, "ResourceNotFound", () -> table.updateEntity(row(), MERGE));
        assertEquals(404, delete(table, null)); // The SDK swallows 404.
    }

    @Test
    void a_missing_table() {
        TableClient missing = Helpers.missingTable();
        List<Executable> calls = List.of(
            () -> missing.createEntity(row()),
            () -> missing.getEntity("p", "r"),
            () -> missing.updateEntity(row(), REPLACE),
            () -> missing.updateEntity(row(), MERGE),
            () -> Helpers.upsert(missing, row(), REPLACE),
            () -> Helpers.upsert(missing, row(), MERGE));
        calls.forEach(call -> Helpers.refused(404, "TableNotFound", call));
        Helpers.refusedInText(404, "TableNotFound", () -> Helpers.list(missing));
        assertEquals(404, delete(missing, null)); // The SDK swallows 404.
    }

    @Test
    void each_write_changes_etag_and_timestamp() {
        List<Supplier<String>> writes = List.of(
            () -> Helpers.insert(table, row("A", 5)),
            () -> Helpers.update(table, row("A", 5), MERGE),
            () -> Helpers.update(table, row("A", 5), REPLACE),
            () -> Helpers.upsert(table, row("A", 5), MERGE),
            () -> Helpers.upsert(table, row("A", 5), REPLACE));
        OffsetDateTime last = OffsetDateTime.MIN;
        for (Supplier<String> write : writes) {
            String etag = write.get();
            TableEntity stored = table.getEntity("p", "r");
            assertEquals(etag, stored.getETag());
            String text = etag.replaceFirst("W/\"datetime'(.*)'\"", "$1").replace("%3A", ":");
            assertEquals(OffsetDateTime.parse(text), stored.getTimestamp());
            assertTrue(stored.getTimestamp().isAfter(last));
            last = stored.getTimestamp();
        }
    }
}
