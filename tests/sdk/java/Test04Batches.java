import static com.azure.data.tables.models.TableTransactionActionType.CREATE;
import static com.azure.data.tables.models.TableTransactionActionType.DELETE;
import static com.azure.data.tables.models.TableTransactionActionType.UPDATE_MERGE;
import static com.azure.data.tables.models.TableTransactionActionType.UPDATE_REPLACE;
import static com.azure.data.tables.models.TableTransactionActionType.UPSERT_MERGE;
import static com.azure.data.tables.models.TableTransactionActionType.UPSERT_REPLACE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionResponse;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import com.azure.data.tables.models.TableTransactionResult;
import java.util.Collections;
import java.util.List;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class Test04Batches extends Helpers.WithTable {
    static TableEntity row(int i, Object... properties) {
        return Helpers.entity("p", "%03d".formatted(i), properties);
    }

    static TableTransactionAction action(TableTransactionActionType type, TableEntity entity) {
        return new TableTransactionAction(type, entity);
    }

    static TableTransactionAction ifUnchanged(TableTransactionActionType type, String etag, TableEntity entity) {
        return new TableTransactionAction(type, entity.addProperty("odata.etag", etag), true);
    }

    static List<TableTransactionAction> actions(int count, IntFunction<TableTransactionAction> action) {
        return IntStream.range(0, count).mapToObj(action).toList();
    }

    /** Expects that the batch failed with this status and code, at this operation (null is any). */
    static void refused(TableClient table, String code, Integer index, List<TableTransactionAction> actions) {
        var error = assertThrows(TableTransactionFailedException.class, () -> table.submitTransaction(actions));
        assertEquals(code, error.getValue().getErrorCode().toString(), error::getMessage);
        if (index != null) {
            assertEquals(index, error.getFailedTransactionActionIndex(), error::getMessage);
        }
    }

    static List<Integer> statuses(TableTransactionResult result) {
        var responses = result.getTransactionActionResponses();
        return responses.stream().map(TableTransactionActionResponse::getStatusCode).toList();
    }

    @Test
    void every_operation_in_one_batch() {
        IntStream.rangeClosed(1, 5).forEach(i -> table.createEntity(row(i, "A", 5, "B", "x")));
        var result = table.submitTransaction(List.of(
            action(CREATE, row(0, "A", 6)),
            action(UPDATE_MERGE, row(1, "A", 6)),
            action(UPDATE_REPLACE, row(2, "A", 6)),
            action(UPSERT_MERGE, row(3, "A", 6)),
            action(UPSERT_REPLACE, row(4, "A", 6)),
            action(DELETE, row(5)),
            action(UPSERT_MERGE, row(6, "A", 6)),
            action(UPSERT_REPLACE, row(7, "A", 6))));
        List<TableEntity> expected = List.of(row(0, "A", 6), row(1, "A", 6, "B", "x"), row(2, "A", 6),
            row(3, "A", 6, "B", "x"), row(4, "A", 6), row(6, "A", 6), row(7, "A", 6));
        assertEquals(expected.stream().map(Helpers::plain).toList(), Helpers.list(table));
        assertEquals(Collections.nCopies(8, 204), statuses(result));
    }

    @Test
    void operations_100() {
        table.submitTransaction(actions(100, i -> action(CREATE, row(i, "A", i))));
        assertEquals(100, Helpers.list(table).size());
        var kinds = List.of(UPDATE_MERGE, UPDATE_REPLACE, UPSERT_MERGE, DELETE);
        var result = table.submitTransaction(actions(100, i -> action(kinds.get(i % 4), row(i, "B", i))));
        assertEquals(100, statuses(result).size());
        var expected = IntStream.range(0, 100).filter(i -> i % 4 != 3)
            .mapToObj(i -> i % 4 == 1 ? row(i, "B", i) : row(i, "A", i, "B", i));
        assertEquals(expected.map(Helpers::plain).toList(), Helpers.list(table));
    }

    @Test
    void with_etags() {
        String etag = Helpers.insert(table, row(1));
        table.submitTransaction(List.of(action(CREATE, row(0)), ifUnchanged(UPDATE_REPLACE, etag, row(1, "A", 6))));
        refused(table, "UpdateConditionNotSatisfied", 1,
            List.of(action(DELETE, row(0)), ifUnchanged(DELETE, etag, row(1))));
        assertEquals(Helpers.plain(row(0), row(1, "A", 6)), Helpers.list(table));
    }

    static List<Arguments> failing() {
        return List.of(
            arguments("insert existing", action(CREATE, row(9)), "EntityAlreadyExists", 2),
            arguments("merge missing", action(UPDATE_MERGE, row(8)), "ResourceNotFound", 2),
            arguments("replace missing", action(UPDATE_REPLACE, row(8)), "ResourceNotFound", 2),
            arguments("delete missing", action(DELETE, row(8)), "ResourceNotFound", 2),
            // The service gives no index for this one.
            arguments("value too large", action(CREATE, row(2, "A", "x".repeat(32769))),
                "PropertyValueTooLarge", null));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("failing")
    void a_failing_operation_undoes_all(String name, TableTransactionAction action, String code, Integer index) {
        table.createEntity(row(9));
        refused(table, code, index,
            List.of(action(CREATE, row(0)), action(CREATE, row(1)), action, action(UPSERT_MERGE, row(3))));
        assertEquals(Helpers.plain(row(9)), Helpers.list(table).get(0));
        assertEquals(1, Helpers.list(table).size());
    }

    @Test
    void operations_101_are_refused() {
        refused(table, "InvalidInput", null, actions(101, i -> action(CREATE, row(i))));
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void two_partitions_are_refused() {
        refused(table, "CommandsInBatchActOnDifferentPartitions", 1,
            List.of(action(CREATE, Helpers.entity("p", "r")), action(CREATE, Helpers.entity("q", "r"))));
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void the_same_row_twice_is_refused() {
        refused(table, "InvalidDuplicateRow", 2,
            List.of(action(CREATE, row(0)), action(UPSERT_MERGE, row(1)), action(UPSERT_MERGE, row(0))));
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void over_4_mib_is_refused() {
        var actions = actions(70, i -> action(CREATE, row(i, "A", new byte[65536])));
        Helpers.refused(413, "RequestBodyTooLarge", () -> table.submitTransaction(actions));
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void a_missing_table() {
        refused(Helpers.missingTable(), "TableNotFound", 0, List.of(action(CREATE, row(0)), action(CREATE, row(1))));
    }
}
