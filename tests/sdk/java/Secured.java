import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.HttpClient;
import com.azure.core.http.netty.NettyAsyncHttpClientBuilder;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableItem;
import com.azure.data.tables.models.TableServiceException;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import com.azure.data.tables.sas.TableAccountSasPermission;
import com.azure.data.tables.sas.TableAccountSasResourceType;
import com.azure.data.tables.sas.TableAccountSasService;
import com.azure.data.tables.sas.TableAccountSasSignatureValues;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasSignatureValues;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.net.ssl.SSLException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** What the tests of credentials share: every operation with its outcome, and where the https server is. */
final class Secured {
    /** `cargo xtask sdk` sets all variables; without the first there is no such server to test. */
    static final String HTTPS_ENDPOINT = System.getenv("TAVOLA_HTTPS_ENDPOINT");
    static final String BINARY = serverVariable("TAVOLA_BINARY");
    static final String CA_FILE = serverVariable("TAVOLA_CA_FILE");
    static final String KEY2 = serverVariable("TAVOLA_KEY2");
    static final String OIDC_URL = serverVariable("TAVOLA_OIDC_URL");
    static final String OTHER_OIDC_URL = serverVariable("TAVOLA_OTHER_OIDC_URL");
    static final String AUTHORIZATION_URI = serverVariable("TAVOLA_AUTHORIZATION_URI");

    static final String OK = "ok";
    static final String NOT_PERMITTED = "403 AuthorizationPermissionMismatch";
    static final String WRONG_TYPE = "403 AuthorizationResourceTypeMismatch";
    static final String OUTSIDE = "403 AuthorizationFailure";
    static final String UNAUTHENTICATED = "403 AuthenticationFailed";

    private Secured() {}

    private static String serverVariable(String name) {
        String value = System.getenv(name);
        if (value == null && HTTPS_ENDPOINT != null) {
            throw new IllegalStateException(name + " is not set");
        }
        return value;
    }

    static void needsServer() {
        assumeTrue(HTTPS_ENDPOINT != null, "TAVOLA_HTTPS_ENDPOINT is not set");
    }

    static void needsBinary() {
        assumeTrue(BINARY != null, "TAVOLA_BINARY is not set");
    }

    // Clients

    /** A client of HTTP that trusts as this context says. */
    static HttpClient through(SslContext context) {
        var netty = reactor.netty.http.client.HttpClient.create().secure(spec -> spec.sslContext(context));
        return new NettyAsyncHttpClientBuilder(netty).build();
    }

    /** A builder of clients that trust the authorities of this file and no others. */
    static TableServiceClientBuilder trusting(File authorities) {
        try {
            SslContext context = SslContextBuilder.forClient().trustManager(authorities).build();
            return Helpers.builder().httpClient(through(context));
        } catch (SSLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A builder of clients of the https server. */
    static TableServiceClientBuilder https() {
        return trusting(new File(CA_FILE)).endpoint(HTTPS_ENDPOINT);
    }

    static AzureNamedKeyCredential namedKey(String key) {
        return new AzureNamedKeyCredential(Helpers.ACCOUNT, key);
    }

    static TableServiceClient withSas(String sas) {
        return withSas(Helpers.builder().endpoint(Helpers.ENDPOINT), sas);
    }

    static TableServiceClient withSas(TableServiceClientBuilder builder, String sas) {
        return builder.credential(new AzureSasCredential(sas)).buildClient();
    }

    /** A test class for the https server, where each test has a fresh, empty table. */
    abstract static class WithHttpsTable {
        TableServiceClient owner;
        String name;

        @BeforeEach
        void createTable() {
            needsServer();
            owner = https().credential(namedKey(Helpers.KEY)).buildClient();
            name = Helpers.tableName();
            owner.createTable(name);
        }

        @AfterEach
        void deleteTables() {
            if (owner != null) {
                dropAll(owner, name);
            }
        }
    }

    /** Deletes a table, and those that `checkOutcomes` leaves behind. */
    static void dropAll(TableServiceClient owner, String name) {
        List.of("", "created", "deleted").forEach(suffix -> owner.deleteTable(name + suffix));
    }

    // Operations

    /** `ok`, or status and code of the refusal. */
    static String outcome(Runnable call) {
        try {
            call.run();
            return OK;
        } catch (HttpResponseException error) {
            return status(error) + " " + code(error);
        }
    }

    /** Of an operation that fails in a batch the SDK keeps the code only; all that the tests expect go with 403. */
    private static int status(HttpResponseException error) {
        return error instanceof TableTransactionFailedException ? 403 : error.getResponse().getStatusCode();
    }

    /** For pages and XML the SDK throws exceptions that are not public: the code is only in the text. */
    private static String code(HttpResponseException error) {
        if (error instanceof TableServiceException exception && exception.getValue() != null) {
            return exception.getValue().getErrorCode().toString();
        }
        var code = Pattern.compile("\"code\":\"(\\w+)\"|<m:code>(\\w+)</m:code>").matcher(error.getMessage());
        if (!code.find()) {
            throw error;
        }
        return code.group(1) != null ? code.group(1) : code.group(2);
    }

    /** Something that can be done with clients of a service and of one of its tables. */
    interface Operation {
        void run(TableServiceClient service, TableClient table);
    }

    static final Map<String, Operation> OPERATIONS = Map.ofEntries(
        Map.entry("properties", (service, table) -> service.getProperties()),
        Map.entry("list tables", (service, table) -> names(service)),
        Map.entry("create table", (service, table) -> service.createTable(table.getTableName() + "created")),
        Map.entry("delete table", (service, table) -> service.deleteTable(table.getTableName() + "deleted")),
        Map.entry("get", (service, table) -> table.getEntity("p", "get")),
        Map.entry("query", (service, table) -> Helpers.list(table)),
        Map.entry("insert", (service, table) -> table.createEntity(changed("insert"))),
        Map.entry("merge", (service, table) -> table.updateEntity(changed("merge"), TableEntityUpdateMode.MERGE)),
        Map.entry("replace", (service, table) -> table.updateEntity(changed("replace"), TableEntityUpdateMode.REPLACE)),
        Map.entry("upsert", (service, table) -> table.upsertEntity(changed("upsert"))),
        Map.entry("delete", (service, table) -> table.deleteEntity("p", "delete")),
        Map.entry("batch", (service, table) -> table.submitTransaction(List.of(
            new TableTransactionAction(TableTransactionActionType.CREATE, changed("batch insert")),
            new TableTransactionAction(TableTransactionActionType.UPDATE_MERGE, changed("batch merge")),
            new TableTransactionAction(TableTransactionActionType.DELETE, Helpers.entity("p", "batch delete"))))));

    private static final List<String> BEFORE =
        List.of("get", "merge", "replace", "upsert", "delete", "batch merge", "batch delete");

    /** What each operation does to the rows: changed, or (false) gone. */
    private static final Map<String, Map<String, Boolean>> EFFECTS = Map.of(
        "insert", Map.of("insert", true),
        "merge", Map.of("merge", true),
        "replace", Map.of("replace", true),
        "upsert", Map.of("upsert", true),
        "delete", Map.of("delete", false),
        "batch", Map.of("batch insert", true, "batch merge", true, "batch delete", false));

    private static TableEntity changed(String name) {
        return Helpers.entity("p", name, "Changed", true);
    }

    static List<String> names(TableServiceClient service) {
        return service.listTables().stream().map(TableItem::getName).toList();
    }

    /** Tries the operations with a client. What is refused must also have no effect. */
    static void checkOutcomes(
        TableServiceClient owner, TableServiceClient client, String name, Map<String, String> expected) {
        TableClient mine = owner.getTableClient(name);
        TableClient theirs = client.getTableClient(name);
        var rows = new TreeMap<String, Boolean>();
        BEFORE.forEach(rowKey -> {
            mine.createEntity(Helpers.entity("p", rowKey));
            rows.put(rowKey, false);
        });
        owner.createTable(name + "deleted");
        var found = new TreeMap<String, String>();
        expected.keySet().forEach(
            operation -> found.put(operation, outcome(() -> OPERATIONS.get(operation).run(client, theirs))));
        assertEquals(new TreeMap<>(expected), found);

        expected.forEach((operation, result) -> {
            var effects = result.equals(OK) ? EFFECTS.getOrDefault(operation, Map.of()) : Map.<String, Boolean>of();
            effects.forEach((rowKey, isChanged) -> rows.compute(rowKey, (key, before) -> isChanged ? true : null));
        });
        var stored = new TreeMap<String, Boolean>();
        mine.listEntities().forEach(row -> stored.put(row.getRowKey(), row.getProperty("Changed") != null));
        assertEquals(rows, stored);
        var tables = names(owner);
        assertEquals(OK.equals(expected.get("create table")), tables.contains(name + "created"));
        assertEquals(!OK.equals(expected.get("delete table")), tables.contains(name + "deleted"));
    }

    // Signatures

    static OffsetDateTime inMinutes(int minutes) {
        return OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(minutes);
    }

    static TableSasSignatureValues forTable(String permissions) {
        return new TableSasSignatureValues(inMinutes(60), TableSasPermission.parse(permissions));
    }

    static TableAccountSasSignatureValues forAccount(String types, String permissions) {
        return forAccount(inMinutes(60), "t", types, permissions);
    }

    static TableAccountSasSignatureValues forAccount(
        OffsetDateTime expiry, String services, String types, String permissions) {
        return new TableAccountSasSignatureValues(expiry, TableAccountSasPermission.parse(permissions),
            TableAccountSasService.parse(services), TableAccountSasResourceType.parse(types));
    }

    static boolean isSubset(String some, String all) {
        return some.chars().allMatch(letter -> all.indexOf(letter) >= 0);
    }

    /** What each operation on a table gets with these permissions. */
    static Map<String, String> allowedBy(String permissions) {
        return Helpers.cases("table_operations").stream().collect(Collectors.toMap(
            operation -> operation.get("name"),
            operation -> isSubset(operation.get("needs"), permissions) ? OK : NOT_PERMITTED));
    }

    static Map<String, String> everyOperation(String result) {
        return Helpers.cases("account_operations").stream()
            .collect(Collectors.toMap(operation -> operation.get("name"), operation -> result));
    }

    /** What the command prints. It gets no variables of the suite: it would take some for its own settings. */
    static String tavola(String connectionString, List<String> words) {
        var command = new ProcessBuilder(new ArrayList<>(words)).redirectError(Redirect.INHERIT);
        command.command().add(0, BINARY);
        command.environment().keySet().removeIf(name -> name.startsWith("TAVOLA_"));
        command.environment().put("AZURE_STORAGE_CONNECTION_STRING", connectionString);
        try {
            Process process = command.start();
            var output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
            assertEquals(0, process.waitFor(), output);
            return output;
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
