import static com.azure.data.tables.models.TableEntityUpdateMode.MERGE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.core.http.HttpHeaderName;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import java.util.Base64;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class Test10Errors extends Helpers.WithTable {
    static final HttpHeaderName REQUEST_ID = HttpHeaderName.fromString("x-ms-request-id");
    static final HttpHeaderName CLIENT_REQUEST_ID = HttpHeaderName.fromString("x-ms-client-request-id");

    static TableEntity row(Object... properties) {
        return Helpers.entity("p", "r", properties);
    }

    static Arguments error(
        String name, int status, String code, String text, BiConsumer<TableClient, TableClient> call) {
        return arguments(name, status, code, text, call);
    }

    static List<Arguments> errors() {
        return List.of(
            error("exists", 409, "EntityAlreadyExists", "The specified entity already exists.",
                (table, missing) -> table.createEntity(row())),
            error("no entity", 404, "ResourceNotFound", "The specified resource does not exist.",
                (table, missing) -> table.getEntity("p", "missing")),
            error("no table", 404, "TableNotFound", "The table specified does not exist.",
                (table, missing) -> missing.getEntity("p", "r")),
            error("changed", 412, "UpdateConditionNotSatisfied",
                "The update condition specified in the request was not satisfied.",
                (table, missing) -> Helpers.updateIf(table, "W/\"stale\"", row(), MERGE)));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("errors")
    void type_status_code_and_message(
        String name, int status, String code, String text, BiConsumer<TableClient, TableClient> call) {
        table.createEntity(row());
        var error = Helpers.refused(status, code, () -> call.accept(table, Helpers.missingTable()));
        assertTrue(error.getMessage().contains(text), error::getMessage);
    }

    @Test
    void type_status_code_and_message_of_a_bad_filter() {
        var error = Helpers.refusedInText(400, "InvalidInput", () -> Helpers.query(table, "aaa bbb ccc"));
        assertTrue(error.getMessage().contains("Syntax error at position"), error::getMessage);
    }

    @Test
    void the_message_names_the_request() {
        var error = Helpers.refused(404, "ResourceNotFound", () -> table.getEntity("p", "missing"));
        var tail = Pattern.compile("\nRequestId:(\\S+)\nTime:\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{7}Z");
        var match = tail.matcher(error.getValue().getErrorMessage());
        assertTrue(match.find(), error::getMessage);
        assertEquals(error.getResponse().getHeaders().getValue(REQUEST_ID), match.group(1));
    }

    @Test
    void the_client_request_id_comes_back() {
        // The SDK makes one for each request.
        var response = Helpers.refused(404, "ResourceNotFound", () -> table.getEntity("p", "missing")).getResponse();
        String sent = response.getRequest().getHeaders().getValue(CLIENT_REQUEST_ID);
        assertNotNull(sent);
        assertEquals(sent, response.getHeaders().getValue(CLIENT_REQUEST_ID));
    }

    @Test
    void a_wrong_key() {
        String key = Base64.getEncoder().encodeToString("w".repeat(64).getBytes());
        var wrong = Helpers.fromEndpoint(Helpers.ENDPOINT, key);
        var other = wrong.getTableClient(table.getTableName());
        var batch = List.of(new TableTransactionAction(TableTransactionActionType.CREATE, row()));
        List<Executable> calls = List.of(
            () -> other.getEntity("p", "r"),
            () -> other.upsertEntity(row()),
            () -> other.submitTransaction(batch));
        calls.forEach(call -> Helpers.refused(403, "AuthenticationFailed", call));
        calls = List.of(
            () -> Helpers.list(other),
            () -> wrong.listTables().stream().toList(),
            () -> wrong.getProperties());
        calls.forEach(call -> Helpers.refusedInText(403, "AuthenticationFailed", call));
        assertEquals(List.of(), Helpers.list(table));
    }

    @Test
    void the_client_works_on_after_errors() {
        TableClient missing = Helpers.missingTable();
        for (int i = 0; i < 20; i++) {
            Helpers.refused(404, "TableNotFound", () -> missing.createEntity(row("A", "x".repeat(1000))));
            table.upsertEntity(row("A", 5));
            assertEquals(Helpers.plain(row("A", 5)), Helpers.get(table, "p", "r"));
        }
    }
}
