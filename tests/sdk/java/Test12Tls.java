import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.sas.TableSasProtocol;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class Test12Tls extends Secured.WithHttpsTable {
    static Stream<Arguments> keys() {
        return Stream.of(arguments("key 1", Helpers.KEY), arguments("key 2", Secured.KEY2));
    }

    static Stream<Arguments> keysAndHosts() {
        return keys().flatMap(key -> Stream.of("127.0.0.1", "localhost")
            .map(host -> arguments(key.get()[0], key.get()[1], host)));
    }

    @ParameterizedTest(name = "{0}, {2}")
    @MethodSource("keysAndHosts")
    void every_operation(String keyName, String key, String host) {
        String endpoint = Secured.HTTPS_ENDPOINT.replace("127.0.0.1", host);
        var client = Secured.https().endpoint(endpoint).credential(Secured.namedKey(key)).buildClient();
        Secured.checkOutcomes(owner, client, name, Secured.everyOperation(Secured.OK));
    }

    @Test
    void pages_and_large_bodies() {
        TableClient table = owner.getTableClient(name);
        var rowKeys = IntStream.range(0, 300).mapToObj("%03d"::formatted).toList();
        for (int i = 0; i < 300; i += 100) {
            table.submitTransaction(rowKeys.subList(i, i + 100).stream()
                .map(rowKey -> Helpers.entity("p", rowKey, "Text", "x".repeat(30_000)))
                .map(row -> new TableTransactionAction(TableTransactionActionType.CREATE, row)).toList());
        }
        var found = Helpers.find(table, new ListEntitiesOptions().setTop(70));
        assertEquals(rowKeys, found.stream().map(TableEntity::getRowKey).toList());
    }

    /** Expects that there is no connection, because of the certificate. */
    static void refusedConnection(TableServiceClient client) {
        Throwable error = assertThrows(RuntimeException.class, () -> Secured.names(client));
        var causes = Stream.iterate(error, cause -> cause != null, Throwable::getCause);
        assertTrue(causes.anyMatch(cause -> cause instanceof SSLHandshakeException), error::toString);
    }

    @Test
    void an_authority_that_is_not_trusted() {
        refusedConnection(Helpers.fromEndpoint(Secured.HTTPS_ENDPOINT, Helpers.KEY));
    }

    @Test
    void another_authority(@TempDir Path folder) {
        Secured.tavola(Helpers.CONNECTION_STRING, List.of("cert", "--authority", "--out", folder.toString()));
        var builder = Secured.trusting(folder.resolve("ca.pem").toFile()).endpoint(Secured.HTTPS_ENDPOINT);
        refusedConnection(builder.credential(Secured.namedKey(Helpers.KEY)).buildClient());
    }

    /** A program of its own. */
    static final class ListTables {
        public static void main(String[] arguments) {
            Secured.names(Helpers.fromEndpoint(Secured.HTTPS_ENDPOINT, Helpers.KEY)).forEach(System.out::println);
            System.exit(0);
        }
    }

    static String run(String... words) throws IOException, InterruptedException {
        var command = new ArrayList<>(List.of(words));
        command.set(0, Path.of(System.getProperty("java.home"), "bin", words[0]).toString());
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        var output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return output;
    }

    /** What `tavola cert` recommends, with a store of our own instead of the machine's. */
    @Test
    void trust_by_keytool(@TempDir Path folder) throws IOException, InterruptedException {
        String store = folder.resolve("store").toString();
        run("keytool", "-importcert", "-noprompt", "-keystore", store, "-storepass", "changeit", "-alias", "tavola",
            "-file", Secured.CA_FILE);
        String path = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        String program = ListTables.class.getName();
        String output = run("java", "-Djavax.net.ssl.trustStore=" + store,
            "-Djavax.net.ssl.trustStorePassword=changeit", "-cp", path, program);
        assertTrue(output.lines().anyMatch(name::equals), output);
        assertTrue(run("java", "-cp", path, program).contains("SSLHandshakeException"));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("keys")
    void signatures_for_https_only(String keyName, String key) {
        var signer = Secured.https().credential(Secured.namedKey(key)).buildClient();
        var values = Secured.forTable("raud").setProtocol(TableSasProtocol.HTTPS_ONLY);
        var client = Secured.withSas(Secured.https(), signer.getTableClient(name).generateSas(values));
        Secured.checkOutcomes(owner, client, name, Secured.allowedBy("raud"));
        var ofAccount = Secured.forAccount("s", "l").setProtocol(TableSasProtocol.HTTPS_ONLY);
        var lister = Secured.withSas(Secured.https(), signer.generateAccountSas(ofAccount));
        assertTrue(Secured.names(lister).contains(name));
    }

    @Test
    void our_signatures_for_https_only() {
        String string = "AccountName=" + Helpers.ACCOUNT + ";AccountKey=" + Secured.KEY2 + ";TableEndpoint="
            + Secured.HTTPS_ENDPOINT + ";";
        String sas = Secured.tavola(string, List.of("sas", "table", name, "--permissions", "raud", "--expires-in", "1h",
            "--https-only", "-o", "sas"));
        assertTrue(sas.contains("spr=https"), "for https only");
        var client = Secured.withSas(Secured.https(), sas);
        Secured.checkOutcomes(owner, client, name, Secured.allowedBy("raud"));
        TableClient plain = Secured.withSas(sas).getTableClient(name);
        assertNotEquals(Secured.OK, Secured.outcome(() -> Helpers.list(plain)));
    }
}
