import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.http.rest.Response;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableServiceException;
import com.azure.json.JsonProviders;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;

/** Clients, tables and values for the scenario. */
final class Helpers {
    static final String ENDPOINT = System.getenv("TAVOLA_ENDPOINT");
    static final String ACCOUNT = System.getenv("TAVOLA_ACCOUNT");
    static final String KEY = System.getenv("TAVOLA_KEY");
    static final String CONNECTION_STRING = "DefaultEndpointsProtocol=http;AccountName=" + ACCOUNT + ";AccountKey="
        + KEY + ";TableEndpoint=" + ENDPOINT + ";";
    static final Map<String, Object> SCENARIO = readScenario();
    static final TableServiceClient SERVICE = fromConnectionString();

    private static final AtomicInteger NUMBERS = new AtomicInteger();

    private Helpers() {}

    // The scenario

    @SuppressWarnings("unchecked")
    private static Map<String, Object> readScenario() {
        try (var reader = JsonProviders.createReader(Files.readString(Path.of(System.getenv("TAVOLA_SCENARIO"))))) {
            return (Map<String, Object>) reader.readUntyped();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** One case of the scenario: a few named texts. */
    record Case(Map<String, Object> fields) {
        String get(String name) {
            return (String) fields.get(name);
        }

        /** The text, as often as the case wants it. */
        String text() {
            return get("text").repeat((int) fields.getOrDefault("times", 1));
        }

        Object value() {
            return edm(get("type"), text());
        }

        @Override
        public String toString() {
            String name = (String) fields.getOrDefault("name", get("operator"));
            String times = fields.containsKey("times") ? " x " + fields.get("times") : "";
            return name != null ? name : get("type") + " " + get("text") + times;
        }
    }

    @SuppressWarnings("unchecked")
    static List<Case> cases(String name) {
        return ((List<Map<String, Object>>) SCENARIO.get(name)).stream().map(Case::new).toList();
    }

    @SuppressWarnings("unchecked")
    static List<String> texts(String name) {
        return (List<String>) SCENARIO.get(name);
    }

    // Clients. No retries: a server error must be seen, not be repaired.

    static TableServiceClientBuilder builder() {
        return new TableServiceClientBuilder().retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ZERO)));
    }

    static TableServiceClient fromConnectionString() {
        return builder().connectionString(CONNECTION_STRING).buildClient();
    }

    /** A client made in the other way: from an endpoint and a credential. */
    static TableServiceClient fromEndpoint(String endpoint, String key) {
        return builder().endpoint(endpoint).credential(new AzureNamedKeyCredential(ACCOUNT, key)).buildClient();
    }

    static String tableName() {
        return System.getenv("TAVOLA_PREFIX") + "n" + NUMBERS.getAndIncrement();
    }

    static TableClient missingTable() {
        return SERVICE.getTableClient(tableName());
    }

    /** A test class in which each test has a fresh, empty table. */
    abstract static class WithTable {
        TableClient table;

        @BeforeEach
        void createTable() {
            table = SERVICE.createTable(tableName());
        }

        @AfterEach
        void deleteTable() {
            table.deleteTable();
        }
    }

    // Entities

    /** An entity of these keys and properties: name, value, name, value, ... */
    static TableEntity entity(String partitionKey, String rowKey, Object... properties) {
        TableEntity entity = new TableEntity(partitionKey, rowKey);
        for (int i = 0; i < properties.length; i += 2) {
            add(entity, (String) properties[i], properties[i + 1]);
        }
        return entity;
    }

    /** Adds a property. For what is no number in JSON the SDK has to be told the type. */
    static void add(TableEntity entity, String name, Object value) {
        if (value instanceof Double number && !Double.isFinite(number)) {
            entity.addProperty(name, number.toString()).addProperty(name + "@odata.type", "Edm.Double");
        } else {
            entity.addProperty(name, value);
        }
    }

    static TableEntity scenarioRow(Case row) {
        TableEntity entity = new TableEntity(row.get("PartitionKey"), row.get("RowKey"));
        row.fields().forEach((name, text) -> add(entity, name, edm(name, (String) text)));
        return entity;
    }

    /** How each EDM type is given to the SDK, which is also how it comes back. */
    static Object edm(String type, String text) {
        return switch (type) {
            case "Int32" -> Integer.valueOf(text);
            case "Int64" -> Long.valueOf(text);
            case "Double" -> Double.valueOf(text);
            case "DateTime" -> OffsetDateTime.parse(text);
            case "Guid" -> UUID.fromString(text);
            case "Binary" -> HexFormat.of().parseHex(text);
            case "Boolean" -> Boolean.valueOf(text);
            default -> text;
        };
    }

    /** What was stored, printed: the properties without nulls and without what the service adds. */
    static String plain(TableEntity entity) {
        var properties = new TreeMap<String, String>();
        entity.getProperties().forEach((name, value) -> {
            if (value != null && !name.contains("odata.") && !name.equals("Timestamp")) {
                properties.put(name, shown(value));
            }
        });
        return properties.toString();
    }

    /** A value with its type. There is no negative zero on the wire. */
    static String shown(Object value) {
        if (value instanceof byte[] bytes) {
            return "Binary " + HexFormat.of().formatHex(bytes);
        }
        if (value instanceof Double number) {
            return "Double " + (number + 0.0);
        }
        return value.getClass().getSimpleName() + " " + value;
    }

    static List<TableEntity> find(TableClient table, ListEntitiesOptions options) {
        return table.listEntities(options, null, Context.NONE).stream().toList();
    }

    static List<TableEntity> query(TableClient table, String filter) {
        return find(table, new ListEntitiesOptions().setFilter(filter));
    }

    /** The table's entities, printed. */
    static List<String> list(TableClient table) {
        return table.listEntities().stream().map(Helpers::plain).toList();
    }

    static List<String> plain(TableEntity... entities) {
        return List.of(entities).stream().map(Helpers::plain).toList();
    }

    static String get(TableClient table, String partitionKey, String rowKey) {
        return plain(table.getEntity(partitionKey, rowKey));
    }

    // Writes that give the new ETag

    /** The SDK takes quotes from both ends of the header, also where they belong there. */
    private static String etag(Response<Void> response) {
        return response.getHeaders().getValue("ETag") + '"';
    }

    static String insert(TableClient table, TableEntity entity) {
        return etag(table.createEntityWithResponse(entity, null, Context.NONE));
    }

    static String update(TableClient table, TableEntity entity, TableEntityUpdateMode mode) {
        return etag(table.updateEntityWithResponse(entity, mode, false, null, Context.NONE));
    }

    static String updateIf(TableClient table, String etag, TableEntity entity, TableEntityUpdateMode mode) {
        entity.addProperty("odata.etag", etag);
        return etag(table.updateEntityWithResponse(entity, mode, true, null, Context.NONE));
    }

    static String upsert(TableClient table, TableEntity entity, TableEntityUpdateMode mode) {
        return etag(table.upsertEntityWithResponse(entity, mode, null, Context.NONE));
    }

    static String quoted(String text) {
        return "'" + text.replace("'", "''") + "'";
    }

    // Errors

    /** Expects the SDK's own exception, with this status and code (null is any); gives it. */
    static TableServiceException refused(int status, String code, Executable call) {
        TableServiceException error = assertThrows(TableServiceException.class, call);
        assertEquals(status, error.getResponse().getStatusCode(), error::getMessage);
        if (code != null) {
            assertEquals(code, error.getValue().getErrorCode().toString(), error::getMessage);
        }
        return error;
    }

    /**
     * The same for pages and for XML, where the SDK throws subclasses of HttpResponseException that are not public:
     * the code is only in the text.
     */
    static HttpResponseException refusedInText(int status, String code, Executable call) {
        HttpResponseException error = assertThrows(HttpResponseException.class, call);
        assertEquals(status, error.getResponse().getStatusCode(), error::getMessage);
        assertTrue(error.getMessage().contains(code), error::getMessage);
        return error;
    }
}
