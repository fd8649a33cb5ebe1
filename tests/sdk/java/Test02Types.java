import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.azure.data.tables.models.TableEntity;
import java.time.OffsetDateTime;
import java.util.List;
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
