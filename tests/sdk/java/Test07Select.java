import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.util.Context;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import java.util.List;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class Test07Select extends Helpers.WithTable {
    final TableEntity row = Helpers.scenarioRow(Helpers.cases("rows").get(1));

    @BeforeEach
    void insert() {
        table.createEntity(row);
    }

    /** The row, read in both ways. */
    List<TableEntity> read(List<String> select) {
        var got = table.getEntityWithResponse("b", "2", select, null, Context.NONE).getValue();
        var listed = Helpers.find(table, new ListEntitiesOptions().setSelect(select));
        return List.of(got, listed.get(0));
    }

    /** These properties of the row, printed. */
    String of(String... names) {
        var properties = new TreeMap<String, String>();
        for (String name : names) {
            properties.put(name, Helpers.shown(row.getProperty(name)));
        }
        return properties.toString();
    }

    @Test
    void only_the_named() {
        read(List.of("String", "Int32")).forEach(e -> assertEquals(of("String", "Int32"), Helpers.plain(e)));
    }

    @Test
    void the_keys_only_when_named() {
        List<String> keys = List.of("PartitionKey", "RowKey");
        read(keys).forEach(e -> assertEquals(of("PartitionKey", "RowKey"), Helpers.plain(e)));
    }

    @Test
    void timestamp_only_when_named() {
        read(List.of("Timestamp")).forEach(e -> assertNotNull(e.getTimestamp()));
        read(List.of("String")).forEach(e -> assertNull(e.getTimestamp()));
    }

    @Test
    void a_missing_property() {
        read(List.of("String", "Missing")).forEach(e -> assertEquals(of("String"), Helpers.plain(e)));
    }

    @Test
    void the_etag_stays() {
        read(List.of("String")).forEach(e -> assertTrue(e.getETag().startsWith("W/\"datetime"), e::getETag));
    }

    @Test
    void the_types_stay() {
        String[] names = {"Int64", "Guid", "Binary", "Double"};
        read(List.of(names)).forEach(e -> assertEquals(of(names), Helpers.plain(e)));
    }

    @Test
    void all() {
        read(List.of("*")).forEach(e -> assertEquals(Helpers.plain(row), Helpers.plain(e)));
        read(null).forEach(e -> assertEquals(Helpers.plain(row), Helpers.plain(e)));
    }

    @Test
    void the_filter_may_use_other_properties() {
        var options = new ListEntitiesOptions().setFilter("Int32 eq 7").setSelect(List.of("String"));
        assertEquals(List.of(of("String")), Helpers.find(table, options).stream().map(Helpers::plain).toList());
    }
}
