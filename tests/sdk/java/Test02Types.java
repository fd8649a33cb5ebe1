import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.azure.data.tables.models.TableEntity;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class Test02Types extends Helpers.WithTable {
    static List<Helpers.Case> types() {
        return Helpers.cases("types");
    }

    static List<Helpers.Case> tooLarge() {
        return Helpers.cases("too_large");
    }

    static TableEntity numbered(int count, IntFunction<Object> value) {
        TableEntity entity = Helpers.entity("p", "r");
        for (int i = 0; i < count; i++) {
            Helpers.add(entity, "P" + i, value.apply(i));
        }
        return entity;
    }

    static void assertSame(Object expected, Object stored) {
        assertEquals(Helpers.shown(expected), Helpers.shown(stored));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("types")
    void round_trip(Helpers.Case item) {
        table.createEntity(Helpers.entity("p", "r", "Value", item.value()));
        assertSame(item.value(), table.getEntity("p", "r").getProperty("Value"));
        assertSame(item.value(), table.listEntities().iterator().next().getProperty("Value"));
    }

    @Test
    void all_types_in_one_entity() {
        List<Helpers.Case> types = types();
        table.createEntity(numbered(types.size(), i -> types.get(i).value()));
        TableEntity stored = table.getEntity("p", "r");
        for (int i = 0; i < types.size(); i++) {
            assertSame(types.get(i).value(), stored.getProperty("P" + i));
        }
    }

    @Test
    void plain_values_of_the_language() {
        var values = Map.<String, Object>of("Integer", 7, "Float", 2.5, "Flag", true, "Text", "x", "Long", 7L,
            "Bytes", new byte[] {0, (byte) 0xff}, "Id", new UUID(0, 7),
            "Instant", Instant.parse("2024-02-29T12:34:56Z"));
        table.createEntity(Helpers.entity("p", "r").setProperties(values));
        // Each kind of date comes back as the same one.
        var expected = new HashMap<>(values);
        expected.put("Instant", OffsetDateTime.parse("2024-02-29T12:34:56Z"));
        assertEquals(Helpers.plain(Helpers.entity("p", "r").setProperties(expected)), Helpers.get(table, "p", "r"));
    }

    @Test
    void a_whole_double_stays_a_double() {
        table.createEntity(Helpers.entity("p", "r", "Value", 3.0));
        assertEquals(1, Helpers.query(table, "Value eq 3.0").size());
    }

    @Test
    void names_differ_by_case() {
        TableEntity both = Helpers.entity("p", "r", "value", "small", "Value", "big");
        table.createEntity(both);
        assertEquals(Helpers.plain(both), Helpers.get(table, "p", "r"));
    }

    @Test
    void null_is_not_stored() {
        table.createEntity(Helpers.entity("p", "r", "Value", null, "Other", 7));
        assertFalse(table.getEntity("p", "r").getProperties().containsKey("Value"));
    }

    @Test
    void properties_252() {
        TableEntity many = numbered(252, i -> i);
        table.createEntity(many);
        assertEquals(Helpers.plain(many), Helpers.get(table, "p", "r"));
    }

    @Test
    void properties_253_are_refused() {
        Helpers.refused(400, "TooManyProperties", () -> table.createEntity(numbered(253, i -> i)));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("tooLarge")
    void one_more_than_64_kib_is_refused(Helpers.Case item) {
        TableEntity large = Helpers.entity("p", "r", "Value", item.value());
        Helpers.refused(400, "PropertyValueTooLarge", () -> table.createEntity(large));
    }

    @Test
    void an_entity_over_1_mib_is_refused() {
        Helpers.refused(400, "EntityTooLarge", () -> table.createEntity(numbered(16, i -> new byte[65536])));
    }

    @Test
    void a_date_before_1601_is_refused() {
        TableEntity early = Helpers.entity("p", "r", "Value", OffsetDateTime.parse("1600-12-31T23:59:59Z"));
        Helpers.refused(400, "OutOfRangeInput", () -> table.createEntity(early));
    }
}
