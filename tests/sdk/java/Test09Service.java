import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.azure.data.tables.models.TableAccessPolicy;
import com.azure.data.tables.models.TableServiceCorsRule;
import com.azure.data.tables.models.TableServiceGeoReplicationStatus;
import com.azure.data.tables.models.TableServiceLogging;
import com.azure.data.tables.models.TableServiceMetrics;
import com.azure.data.tables.models.TableServiceProperties;
import com.azure.data.tables.models.TableServiceRetentionPolicy;
import com.azure.data.tables.models.TableSignedIdentifier;
import com.azure.xml.XmlWriter;
import java.io.StringWriter;
import java.time.OffsetDateTime;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import javax.xml.stream.XMLStreamException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class Test09Service extends Helpers.WithTable {
    TableServiceProperties before;

    @BeforeEach
    void remember() {
        before = properties();
    }

    @AfterEach
    void restore() {
        Helpers.SERVICE.setProperties(before);
    }

    /** The stored properties. What is empty the SDK reads as null, which it would not write again. */
    static TableServiceProperties properties() {
        var stored = Helpers.SERVICE.getProperties();
        List<TableServiceCorsRule> rules = Objects.requireNonNullElse(stored.getCorsRules(), List.of());
        rules.forEach(rule -> rule
            .setAllowedHeaders(Objects.requireNonNullElse(rule.getAllowedHeaders(), ""))
            .setExposedHeaders(Objects.requireNonNullElse(rule.getExposedHeaders(), "")));
        return stored.setCorsRules(rules);
    }

    static TableServiceCorsRule rule(String origins, String methods, String allowed, String exposed, int maxAge) {
        return new TableServiceCorsRule().setAllowedOrigins(origins).setAllowedMethods(methods)
            .setAllowedHeaders(allowed).setExposedHeaders(exposed).setMaxAgeInSeconds(maxAge);
    }

    static TableServiceRetentionPolicy days(Integer days) {
        return new TableServiceRetentionPolicy().setEnabled(days != null).setDaysToRetain(days);
    }

    static TableServiceMetrics metrics(boolean enabled, Boolean includeApis, TableServiceRetentionPolicy retention) {
        return new TableServiceMetrics().setVersion("1.0").setEnabled(enabled).setIncludeApis(includeApis)
            .setRetentionPolicy(retention);
    }

    /** The properties as the SDK writes them, to compare them. */
    static String shown(TableServiceProperties properties) throws XMLStreamException {
        var text = new StringWriter();
        try (var xml = XmlWriter.toWriter(text)) {
            properties.toXml(xml).flush();
        }
        return text.toString();
    }

    @Test
    void properties_round_trip() throws XMLStreamException {
        var changed = new TableServiceProperties()
            .setLogging(new TableServiceLogging().setAnalyticsVersion("1.0").setDeleteLogged(true).setReadLogged(false)
                .setWriteLogged(true).setRetentionPolicy(days(7)))
            .setHourMetrics(metrics(true, true, days(7)))
            .setMinuteMetrics(metrics(false, null, days(null)))
            .setCorsRules(List.of(
                rule("http://a.example", "GET", "", "", 0),
                rule("http://b.example,http://*.c.example", "GET,PUT,MERGE",
                    "x-ms-meta-*,content-type", "x-ms-*", 500)));
        Helpers.SERVICE.setProperties(changed);
        assertEquals(shown(changed), shown(properties()));
    }

    @Test
    void an_omitted_group_keeps_its_value() throws XMLStreamException {
        var rules = List.of(rule("*", "GET", "", "", 0));
        Helpers.SERVICE.setProperties(new TableServiceProperties().setCorsRules(rules));
        var expected = properties().setMinuteMetrics(metrics(true, false, days(3)));
        Helpers.SERVICE.setProperties(new TableServiceProperties().setMinuteMetrics(expected.getMinuteMetrics()));
        assertEquals(shown(expected), shown(properties()));
    }

    @Test
    void an_empty_list_removes_the_cors_rules() {
        var rules = List.of(rule("*", "GET", "", "", 0));
        Helpers.SERVICE.setProperties(new TableServiceProperties().setCorsRules(rules));
        Helpers.SERVICE.setProperties(new TableServiceProperties().setCorsRules(List.of()));
        assertEquals(List.of(), properties().getCorsRules());
    }

    @Test
    void six_cors_rules_are_refused() {
        var six = new TableServiceProperties().setCorsRules(Collections.nCopies(6, rule("*", "GET", "", "", 0)));
        Helpers.refusedInText(400, "InvalidXmlDocument", () -> Helpers.SERVICE.setProperties(six));
    }

    @Test
    void a_retention_of_366_days_is_refused() {
        var long366 = new TableServiceProperties().setHourMetrics(metrics(true, true, days(366)));
        Helpers.refusedInText(400, "InvalidXmlDocument", () -> Helpers.SERVICE.setProperties(long366));
    }

    /** The stored policies, printed. The SDK gives null for none. */
    List<String> policies() {
        var stored = table.getAccessPolicies().getIdentifiers();
        return stored == null ? List.of() : stored.stream().map(Test09Service::shown).toList();
    }

    static String shown(TableSignedIdentifier identifier) {
        TableAccessPolicy policy = identifier.getAccessPolicy();
        return identifier.getId() + (policy == null ? " null null null"
            : " " + policy.getStartsOn() + " " + policy.getExpiresOn() + " " + policy.getPermissions());
    }

    @Test
    void access_policies_round_trip() {
        assertEquals(List.of(), policies());
        var start = OffsetDateTime.parse("2030-01-01T12:30:15Z");
        var expiry = start.plusDays(1);
        var wanted = List.of(
            new TableSignedIdentifier("all").setAccessPolicy(
                new TableAccessPolicy().setStartsOn(start).setExpiresOn(expiry).setPermissions("raud")),
            new TableSignedIdentifier("read").setAccessPolicy(
                new TableAccessPolicy().setExpiresOn(expiry).setPermissions("r")),
            new TableSignedIdentifier("empty"));
        table.setAccessPolicies(wanted);
        assertEquals(wanted.stream().map(Test09Service::shown).toList(), policies());

        table.setAccessPolicies(List.of());
        assertEquals(List.of(), policies());
    }

    @Test
    void six_access_policies_are_refused() {
        var policy = new TableAccessPolicy().setPermissions("r");
        var six = IntStream.range(0, 6).mapToObj(i -> new TableSignedIdentifier("id" + i).setAccessPolicy(policy));
        Helpers.refusedInText(400, "InvalidXmlDocument", () -> table.setAccessPolicies(six.toList()));
        assertEquals(List.of(), policies());
    }

    @Test
    void access_policies_of_a_missing_table() {
        Helpers.refusedInText(404, "", () -> Helpers.missingTable().getAccessPolicies());
    }

    @Test
    void statistics_of_the_secondary() {
        var secondary = Helpers.fromEndpoint(Helpers.ENDPOINT + "-secondary", Helpers.KEY);
        var replication = secondary.getStatistics().getGeoReplication();
        assertEquals(TableServiceGeoReplicationStatus.LIVE, replication.getStatus());
        assertNotNull(replication.getLastSyncTime());
    }
}
