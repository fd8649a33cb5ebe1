import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.core.credential.AccessToken;
import com.azure.core.credential.TokenCredential;
import com.azure.core.credential.TokenRequestContext;
import com.azure.core.http.HttpHeaderName;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpPipelineNextSyncPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceVersion;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

class Test13Tokens extends Secured.WithHttpsTable {
    static final String AUDIENCE = "https://storage.azure.com";
    static final String SCOPE = AUDIENCE + "/.default";
    static final HttpClient ISSUERS = HttpClient.newHttpClient();

    /** Gives tokens of the issuer, each with its claims (the last for all further ones); notes for what it was asked. */
    static final class Credential implements TokenCredential {
        final List<String> asked = new ArrayList<>();
        private final String issuer;
        private final List<Map<String, String>> claims;

        @SafeVarargs
        Credential(String issuer, Map<String, String>... claims) {
            this.issuer = issuer;
            this.claims = List.of(claims);
        }

        @Override
        public Mono<AccessToken> getToken(TokenRequestContext request) {
            return Mono.fromCallable(() -> token(request));
        }

        private AccessToken token(TokenRequestContext request) throws IOException, InterruptedException {
            var query = new LinkedHashMap<>(
                Map.of("roles", "contributor", "aud", AUDIENCE, "sub", "sdk", "exp_in", "3600"));
            query.putAll(claims.get(Math.min(asked.size(), claims.size() - 1)));
            asked.add(request.getScopes() + " " + request.getTenantId());
            String text = query.entrySet().stream()
                .map(claim -> claim.getKey() + "=" + URLEncoder.encode(claim.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
            var ask = HttpRequest.newBuilder(URI.create(issuer + "/token?" + text)).build();
            // The SDK shall believe that every token is good, or it would not send it.
            return new AccessToken(ISSUERS.send(ask, BodyHandlers.ofString()).body(), OffsetDateTime.now().plusHours(1));
        }
    }

    static Credential good(String... claim) {
        return new Credential(Secured.OIDC_URL, claim.length == 0 ? Map.of() : Map.of(claim[0], claim[1]));
    }

    static TableServiceClient withToken(TokenCredential credential) {
        return Secured.https().credential(credential).buildClient();
    }

    static TableTransactionAction insert() {
        return new TableTransactionAction(TableTransactionActionType.CREATE, Helpers.entity("p", "r"));
    }

    @Test
    void a_contributor() {
        Credential contributor = good();
        Secured.checkOutcomes(owner, withToken(contributor), name, Secured.everyOperation(Secured.OK));
        assertEquals(asked(false), contributor.asked.get(0));
    }

    @Test
    void a_reader() {
        var expected = Secured.everyOperation(Secured.NOT_PERMITTED);
        List.of("properties", "list tables", "get", "query").forEach(read -> expected.put(read, Secured.OK));
        Secured.checkOutcomes(owner, withToken(good("roles", "reader")), name, expected);
    }

    @ParameterizedTest(name = "roles: {0}")
    @ValueSource(strings = {"", "stranger", "reader2"})
    void no_role(String roles) {
        var nobody = withToken(good("roles", roles));
        Secured.checkOutcomes(owner, nobody, name, Secured.everyOperation(Secured.NOT_PERMITTED));
    }

    @Test
    void several_roles() {
        var both = withToken(good("roles", "stranger,reader,contributor"));
        Secured.checkOutcomes(owner, both, name, Secured.everyOperation(Secured.OK));
    }

    @Test
    void access_policies() {
        TableClient table = withToken(good()).getTableClient(name);
        assertEquals("404 ResourceNotFound", Secured.outcome(table::getAccessPolicies));
        assertEquals("404 ResourceNotFound", Secured.outcome(() -> table.setAccessPolicies(List.of())));
    }

    static Stream<Arguments> bad() {
        Map<String, String> pretending = Secured.OIDC_URL == null ? Map.of() : Map.of("iss", Secured.OIDC_URL);
        return Stream.of(
            arguments("expired", good("exp_in", "-3600")),
            arguments("of another issuer", new Credential(Secured.OTHER_OIDC_URL, Map.of())),
            arguments("of another issuer, who pretends", new Credential(Secured.OTHER_OIDC_URL, pretending)),
            arguments("for another audience", good("aud", "https://vault.azure.net")));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("bad")
    void a_bad_token(String kind, Credential bad) {
        var old = Secured.https().serviceVersion(TableServiceVersion.V2019_02_02);
        TableClient table = old.credential(bad).buildClient().getTableClient(name);
        assertEquals(Secured.UNAUTHENTICATED, Secured.outcome(() -> Helpers.list(table)));
        assertEquals(Secured.UNAUTHENTICATED, Secured.outcome(() -> table.createEntity(Helpers.entity("p", "r"))));
        assertEquals(Secured.UNAUTHENTICATED, Secured.outcome(() -> table.submitTransaction(List.of(insert()))));
    }

    /** Keeps the last response, which the SDK does not show. */
    static final class LastResponse implements HttpPipelinePolicy {
        HttpResponse response;

        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            return next.process().doOnNext(response -> this.response = response);
        }

        @Override
        public HttpResponse processSync(HttpPipelineCallContext context, HttpPipelineNextSyncPolicy next) {
            response = next.processSync();
            return response;
        }
    }

    /** What a credential is asked for. */
    static String asked(boolean withTenant) {
        return "[" + SCOPE + "] " + (withTenant ? URI.create(Secured.AUTHORIZATION_URI).getPath().split("/")[1] : null);
    }

    /** The SDK's own version knows the challenge. It then asks again, for the tenant that the server names. */
    @ParameterizedTest(name = "{0}")
    @MethodSource("bad")
    void the_challenge(String kind, Credential bad) {
        var last = new LastResponse();
        TableClient table = Secured.https().addPolicy(last).credential(bad).buildClient().getTableClient(name);
        // The body is XML, as the service's is. The SDK reads XML with a library that it does not bring along.
        assertThrows(LinkageError.class, () -> table.createEntity(Helpers.entity("p", "r")));
        HttpResponse response = last.response;
        assertEquals(401, response.getStatusCode());
        assertEquals("InvalidAuthenticationInfo",
            response.getHeaders().getValue(HttpHeaderName.fromString("x-ms-error-code")));
        assertEquals("Bearer authorization_uri=" + Secured.AUTHORIZATION_URI + " resource_id=" + AUDIENCE,
            response.getHeaders().getValue(HttpHeaderName.WWW_AUTHENTICATE));
        assertEquals(List.of(asked(false), asked(true)), bad.asked);
    }

    @Test
    void a_token_that_is_renewed_by_the_challenge() {
        var late = new Credential(Secured.OIDC_URL, Map.of("exp_in", "-3600"), Map.of());
        TableClient table = withToken(late).getTableClient(name);
        table.createEntity(Helpers.entity("p", "r"));
        assertEquals(List.of(Helpers.plain(Helpers.entity("p", "r"))), Helpers.list(table));
        assertEquals(List.of(asked(false), asked(true)), late.asked.subList(0, 2));
    }

    /** The SDK then sends the first request without a token, to hear the tenant. */
    @Test
    void the_tenant_is_discovered() {
        Credential contributor = good();
        var client = Secured.https().enableTenantDiscovery().credential(contributor).buildClient();
        Secured.checkOutcomes(owner, client, name, Secured.everyOperation(Secured.OK));
        assertEquals(asked(true), contributor.asked.get(0));
    }

    @Test
    void not_over_plain_http() {
        var client = Helpers.builder().endpoint(Helpers.ENDPOINT).credential(good()).buildClient();
        var error = assertThrows(RuntimeException.class, () -> Secured.names(client));
        assertTrue(error.getMessage().contains("token credentials require a URL using the HTTPS protocol scheme"),
            error::getMessage);
    }
}
