import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableAccessPolicy;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableSignedIdentifier;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import com.azure.data.tables.sas.TableSasIpRange;
import com.azure.data.tables.sas.TableSasProtocol;
import com.azure.data.tables.sas.TableSasSignatureValues;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class Test11Signatures extends Helpers.WithTable {
    @AfterEach
    void dropCreated() {
        Secured.dropAll(Helpers.SERVICE, table.getTableName());
    }

    /** A client with a signature that the SDK makes for the table. */
    TableServiceClient signed(TableSasSignatureValues values) {
        return Secured.withSas(table.generateSas(values));
    }

    TableClient tableOf(TableServiceClient service) {
        return service.getTableClient(table.getTableName());
    }

    static String listing(TableClient table) {
        return Secured.outcome(() -> Helpers.list(table));
    }

    static String writing(TableClient table) {
        return Secured.outcome(() -> table.upsertEntity(Helpers.entity("p", "r")));
    }

    static TableTransactionAction action(TableTransactionActionType type, TableEntity entity) {
        return new TableTransactionAction(type, entity);
    }

    static String batch(TableClient table, TableEntity entity) {
        var actions = List.of(action(TableTransactionActionType.UPSERT_MERGE, entity));
        return Secured.outcome(() -> table.submitTransaction(actions));
    }

    static TableEntity rowOf(String name, Object... properties) {
        return Helpers.entity(name.substring(0, 1), name.substring(1), properties);
    }

    static List<String> keys(Stream<TableEntity> rows) {
        return rows.map(row -> row.getPartitionKey() + row.getRowKey()).toList();
    }

    // Signatures that the SDK makes, for a table

    static List<String> permissions() {
        return Helpers.texts("table_permissions");
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("permissions")
    void permissions(String permissions) {
        var client = signed(Secured.forTable(permissions));
        Secured.checkOutcomes(Helpers.SERVICE, client, table.getTableName(), Secured.allowedBy(permissions));
    }

    @Test
    void what_no_signature_for_a_table_opens() {
        var client = signed(Secured.forTable("raud"));
        var closed = Stream.of("properties", "list tables", "create table", "delete table");
        Secured.checkOutcomes(Helpers.SERVICE, client, table.getTableName(),
            closed.collect(Collectors.toMap(name -> name, name -> Secured.OUTSIDE)));
        assertEquals(Secured.OUTSIDE, Secured.outcome(() -> tableOf(client).getAccessPolicies()));
        assertEquals(Secured.OUTSIDE, Secured.outcome(() -> tableOf(client).setAccessPolicies(List.of())));
    }

    @Test
    void another_table() {
        TableClient other = Helpers.SERVICE.createTable(Helpers.tableName());
        other.createEntity(Helpers.entity("p", "get"));
        TableClient client = signed(Secured.forTable("raud")).getTableClient(other.getTableName());
        for (String name : List.of("get", "query", "insert", "upsert", "delete", "batch")) {
            var operation = Secured.OPERATIONS.get(name);
            assertEquals(Secured.OUTSIDE, Secured.outcome(() -> operation.run(null, client)), name);
        }
        other.deleteTable();
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({
        "no start,     , 60, ok",
        "now,      -60, 60, ok",
        "not yet,   60, 120, 403 AuthenticationFailed",
        "no more,  -60, -1, 403 AuthenticationFailed",
    })
    void times(String name, Integer start, int expiry, String expected) {
        var from = start == null ? null : Secured.inMinutes(start);
        var until = Secured.inMinutes(expiry);
        String ofTable = table.generateSas(Secured.forTable("raud").setExpiryTime(until).setStartTime(from));
        String ofAccount = Helpers.SERVICE.generateAccountSas(
            Secured.forAccount(until, "t", "sco", "rwdlau").setStartTime(from));
        for (String sas : List.of(ofTable, ofAccount)) {
            TableClient client = tableOf(Secured.withSas(sas));
            assertEquals(expected, listing(client));
            assertEquals(expected, batch(client, Helpers.entity("p", "r")));
        }
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({
        "127.0.0.1, ok",
        "127.0.0.0-127.0.0.9, ok",
        "203.0.113.7, 403 AuthorizationSourceIPMismatch",
        "127.0.0.2-127.0.0.9, 403 AuthorizationSourceIPMismatch",
    })
    void addresses(String addresses, String expected) {
        var range = TableSasIpRange.parse(addresses);
        String ofTable = table.generateSas(Secured.forTable("r").setSasIpRange(range));
        String ofAccount = Helpers.SERVICE.generateAccountSas(Secured.forAccount("o", "r").setSasIpRange(range));
        for (String sas : List.of(ofTable, ofAccount)) {
            assertEquals(expected, listing(tableOf(Secured.withSas(sas))));
        }
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"HTTPS_HTTP, ok", "HTTPS_ONLY, 403 AuthorizationProtocolMismatch"})
    void protocols(TableSasProtocol protocol, String expected) {
        String ofTable = table.generateSas(Secured.forTable("r").setProtocol(protocol));
        String ofAccount = Helpers.SERVICE.generateAccountSas(Secured.forAccount("o", "r").setProtocol(protocol));
        for (String sas : List.of(ofTable, ofAccount)) {
            assertEquals(expected, listing(tableOf(Secured.withSas(sas))));
        }
    }

    void store(String id, String permissions, int minutes) {
        var policy = new TableAccessPolicy().setExpiresOn(Secured.inMinutes(minutes)).setPermissions(permissions);
        table.setAccessPolicies(List.of(new TableSignedIdentifier(id).setAccessPolicy(policy)));
    }

    @Test
    void a_stored_policy() {
        String id = "readers & writers";
        TableClient client = tableOf(signed(new TableSasSignatureValues(id)));
        Consumer<List<String>> both = expected -> assertEquals(expected, List.of(listing(client), writing(client)));
        both.accept(List.of(Secured.UNAUTHENTICATED, Secured.UNAUTHENTICATED));
        store(id, "r", 60);
        both.accept(List.of(Secured.OK, Secured.NOT_PERMITTED));
        store(id, "au", 60);
        both.accept(List.of(Secured.NOT_PERMITTED, Secured.OK));
        store(id, "raud", -1);
        both.accept(List.of(Secured.UNAUTHENTICATED, Secured.UNAUTHENTICATED));
        store(id, "raud", 60);
        both.accept(List.of(Secured.OK, Secured.OK));
        table.setAccessPolicies(List.of());
        both.accept(List.of(Secured.UNAUTHENTICATED, Secured.UNAUTHENTICATED));
    }

    @Test
    void a_field_in_both_signature_and_policy() {
        store("all", "raud", 60);
        var values = new TableSasSignatureValues("all");
        assertEquals(Secured.OK, listing(tableOf(signed(values))));
        values.setExpiryTime(Secured.inMinutes(30));
        assertEquals(Secured.UNAUTHENTICATED, listing(tableOf(signed(values))));
    }

    static List<Helpers.Case> ranges() {
        return Helpers.cases("ranges");
    }

    static List<String> rowsOf(Helpers.Case range) {
        return range.get("rows").isEmpty() ? List.of() : List.of(range.get("rows").split(" "));
    }

    void insertRangeRows() {
        Helpers.texts("range_rows").forEach(name -> table.createEntity(rowOf(name)));
    }

    TableClient ranged(String spk, String srk, String epk, String erk) {
        return tableOf(signed(Secured.forTable("raud").setStartPartitionKey(spk).setStartRowKey(srk)
            .setEndPartitionKey(epk).setEndRowKey(erk)));
    }

    TableClient ranged(Helpers.Case range) {
        return ranged(range.get("spk"), range.get("srk"), range.get("epk"), range.get("erk"));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("ranges")
    void ranges(Helpers.Case range) {
        insertRangeRows();
        if ((range.get("spk") == null) != (range.get("srk") == null)
            || (range.get("epk") == null) != (range.get("erk") == null)) {
            // The service takes partitions without rows, and so do we; the SDK does not sign them.
            assertThrows(IllegalStateException.class, () -> ranged(range));
            return;
        }
        TableClient client = ranged(range);
        List<String> inside = rowsOf(range);

        assertEquals(inside, keys(client.listEntities().stream()));
        assertEquals(inside, keys(Helpers.find(client, new ListEntitiesOptions().setTop(1)).stream()));
        var late = inside.stream().filter(name -> name.charAt(1) >= '2').toList();
        assertEquals(late, keys(Helpers.query(client, "RowKey ge '2'").stream()));
        List<Consumer<TableEntity>> attempts = List.of(
            row -> client.getEntity(row.getPartitionKey(), row.getRowKey()),
            row -> client.upsertEntity(row.addProperty("A", 5)),
            row -> client.submitTransaction(List.of(action(TableTransactionActionType.UPSERT_MERGE, row))),
            row -> client.deleteEntity(row.getPartitionKey(), row.getRowKey()),
            row -> client.createEntity(row));
        for (var attempt : attempts) {
            var found = new TreeMap<String, String>();
            var expected = new TreeMap<String, String>();
            for (String name : Helpers.texts("range_rows")) {
                found.put(name, Secured.outcome(() -> attempt.accept(rowOf(name))));
                expected.put(name, inside.contains(name) ? Secured.OK : Secured.OUTSIDE);
            }
            assertEquals(expected, found);
        }
        // A last word on what lies outside: nothing of all that reached it.
        assertTrue(inside.containsAll(keys(Helpers.query(table, "A eq 5").stream())));
    }

    @Test
    void a_batch_half_outside_of_the_range() {
        TableClient client = ranged("p", "2", "p", "3");
        var batch = Stream.of("2", "3", "4")
            .map(rowKey -> action(TableTransactionActionType.CREATE, Helpers.entity("p", rowKey))).toList();
        var error = assertThrows(TableTransactionFailedException.class, () -> client.submitTransaction(batch));
        assertEquals("AuthorizationFailure", error.getValue().getErrorCode().toString());
        assertEquals(2, error.getFailedTransactionActionIndex());
        assertEquals(List.of(), Helpers.list(table));
        client.submitTransaction(batch.subList(0, 2));
        assertEquals(List.of("p2", "p3"), keys(table.listEntities().stream()));
    }

    static Stream<Helpers.Case> unusualKeys() {
        return Helpers.cases("keys").stream().filter(item -> !item.text().isEmpty());
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("unusualKeys")
    void ranges_of_unusual_keys(Helpers.Case item) {
        String key = item.text();
        List.of(key, "other").forEach(name -> table.createEntity(Helpers.entity(name, name)));
        TableClient client = ranged(key, key, key, key);
        assertEquals(Helpers.plain(Helpers.entity(key, key)), Helpers.list(client).get(0));
        assertEquals(1, Helpers.list(client).size());
        assertEquals(Helpers.plain(Helpers.entity(key, key)), Helpers.get(client, key, key));
        assertEquals(Secured.OUTSIDE, Secured.outcome(() -> client.getEntity("other", "other")));
    }

    @Test
    void the_name_in_another_case() {
        TableClient upper = Helpers.SERVICE.getTableClient(table.getTableName().toUpperCase());
        TableClient client = tableOf(Secured.withSas(upper.generateSas(Secured.forTable("raud"))));
        client.createEntity(Helpers.entity("p", "r"));
        assertEquals(Helpers.plain(new TableEntity[] {Helpers.entity("p", "r")}), Helpers.list(table));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"sp=r&, sp=raud&", "sv=2020-12-06, sv=2019-02-02", "tn=, tn=x"})
    void a_changed_signature(String before, String after) {
        String sas = table.generateSas(Secured.forTable("r"));
        assertTrue(sas.contains(before), before);
        TableClient client = tableOf(Secured.withSas(sas.replace(before, after)));
        var refusals = List.of(Secured.UNAUTHENTICATED, Secured.OUTSIDE);
        assertTrue(refusals.contains(listing(client)));
        assertTrue(refusals.contains(writing(client)));
    }

    // Signatures that the SDK makes, for the account

    static Stream<Arguments> accountPermissions() {
        return Helpers.cases("account_permissions").stream()
            .map(item -> arguments(item.get("types"), item.get("permissions")));
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("accountPermissions")
    void account_permissions(String types, String permissions) {
        var expected = new TreeMap<String, String>();
        for (var operation : Helpers.cases("account_operations")) {
            boolean isType = operation.get("types").chars().anyMatch(letter -> types.indexOf(letter) >= 0);
            boolean isPermitted = Secured.isSubset(operation.get("needs"), permissions);
            String refusal = isType ? Secured.NOT_PERMITTED : Secured.WRONG_TYPE;
            expected.put(operation.get("name"), isType && isPermitted ? Secured.OK : refusal);
        }
        var client = Secured.withSas(Helpers.SERVICE.generateAccountSas(Secured.forAccount(types, permissions)));
        Secured.checkOutcomes(Helpers.SERVICE, client, table.getTableName(), expected);
    }

    @Test
    void access_policies_are_for_the_owner() {
        String sas = Helpers.SERVICE.generateAccountSas(Secured.forAccount("sco", "rwdlau"));
        TableClient client = tableOf(Secured.withSas(sas));
        assertEquals(Secured.OUTSIDE, Secured.outcome(client::getAccessPolicies));
        assertEquals(Secured.OUTSIDE, Secured.outcome(() -> client.setAccessPolicies(List.of())));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"bqf, 403 AuthorizationServiceMismatch", "bt, ok"})
    void other_services(String services, String expected) {
        var values = Secured.forAccount(Secured.inMinutes(60), services, "o", "r");
        assertEquals(expected, listing(tableOf(Secured.withSas(Helpers.SERVICE.generateAccountSas(values)))));
    }

    // Signatures that `tavola sas` makes

    String ours(String... terms) {
        var words = new ArrayList<>(List.of("sas", "table", table.getTableName()));
        words.addAll(List.of(terms));
        return Secured.tavola(Helpers.CONNECTION_STRING, words);
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"r", "au", "raud"})
    void ours_for_a_table(String permissions) {
        Secured.needsBinary();
        var client = Secured.withSas(ours("--permissions", permissions, "--expires-in", "1h", "-o", "sas"));
        Secured.checkOutcomes(Helpers.SERVICE, client, table.getTableName(), Secured.allowedBy(permissions));
    }

    /** The SDK does not take a signature from a URL. */
    static TableServiceClient fromUrl(String url) {
        String[] parts = url.split("\\?", 2);
        return Helpers.builder().endpoint(parts[0]).sasToken(parts[1]).buildClient();
    }

    @Test
    void ours_as_url() {
        Secured.needsBinary();
        String url = ours("--permissions", "raud", "--expires-in", "1h", "-o", "url");
        assertTrue(url.startsWith(Helpers.ENDPOINT + "/" + table.getTableName() + "?"), "the URL of the table");
        // The SDK wants the account's URL; it adds the name of the table itself.
        String endpoint = url.replace("/" + table.getTableName() + "?", "?");
        TableClient client = tableOf(fromUrl(endpoint));
        client.submitTransaction(List.of(action(TableTransactionActionType.CREATE, Helpers.entity("p", "r"))));
        assertEquals(List.of("pr"), keys(client.listEntities().stream()));
    }

    @Test
    void ours_as_connection_string() {
        Secured.needsBinary();
        String text = ours("--permissions", "raud", "--expires-in", "1h", "-o", "connection-string");
        TableClient client = tableOf(Helpers.builder().connectionString(text).buildClient());
        client.submitTransaction(List.of(action(TableTransactionActionType.CREATE, Helpers.entity("p", "r"))));
        assertEquals(List.of("pr"), keys(client.listEntities().stream()));
    }

    static List<Helpers.Case> rangesWithRows() {
        return ranges().stream().filter(range -> !rowsOf(range).isEmpty()).toList();
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("rangesWithRows")
    void ours_with_a_range(Helpers.Case range) {
        Secured.needsBinary();
        insertRangeRows();
        var flags = Map.of("spk", "--from-partition", "srk", "--from-row", "epk", "--to-partition", "erk", "--to-row");
        var terms = new ArrayList<>(List.of("-o", "sas"));
        flags.forEach((name, flag) -> {
            if (range.get(name) != null) {
                terms.addAll(List.of(flag, range.get(name)));
            }
        });
        TableClient client = tableOf(Secured.withSas(ours(terms.toArray(String[]::new))));
        assertEquals(rowsOf(range), keys(client.listEntities().stream()));
    }

    @Test
    void ours_with_a_policy() {
        Secured.needsBinary();
        TableClient client = tableOf(Secured.withSas(ours("--policy", "readers", "-o", "sas")));
        assertEquals(Secured.UNAUTHENTICATED, listing(client));
        store("readers", "r", 60);
        assertEquals(Secured.OK, listing(client));
        assertEquals(Secured.NOT_PERMITTED, writing(client));
    }

    @Test
    void ours_for_the_account() {
        Secured.needsBinary();
        var terms = List.of("sas", "account", "--services", "t", "--resource-types", "sco", "--permissions", "rwdlacu");
        var words = new ArrayList<>(terms);
        words.addAll(List.of("--expires-in", "1h", "--ip", "127.0.0.1", "-o", "sas"));
        var client = Secured.withSas(Secured.tavola(Helpers.CONNECTION_STRING, words));
        Secured.checkOutcomes(Helpers.SERVICE, client, table.getTableName(), Secured.everyOperation(Secured.OK));

        words = new ArrayList<>(terms);
        words.addAll(List.of("-o", "connection-string"));
        String text = Secured.tavola(Helpers.CONNECTION_STRING, words);
        var lister = Helpers.builder().connectionString(text).buildClient();
        assertTrue(Secured.names(lister).contains(table.getTableName()));

        String url = Secured.tavola(Helpers.CONNECTION_STRING,
            List.of("sas", "account", "--resource-types", "o", "--permissions", "r", "-o", "url"));
        var reader = fromUrl(url);
        assertEquals(Secured.WRONG_TYPE, Secured.outcome(() -> Secured.names(reader)));
        assertEquals(Secured.OK, listing(tableOf(reader)));
    }
}
