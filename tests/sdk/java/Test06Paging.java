import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.http.rest.PagedResponse;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class Test06Paging {
    record Key(String partition, String row) {
        static Key of(TableEntity entity) {
            return new Key(entity.getPartitionKey(), entity.getRowKey());
        }
    }

    static final List<String> PARTITIONS = Helpers.texts("partitions"); // In ascending order, as are the row keys.
    static final List<Key> KEYS = PARTITIONS.stream()
        .flatMap(partition -> IntStream.range(0, 500).mapToObj(i -> new Key(partition, "%04d".formatted(i))))
        .toList();

    static TableClient table;

    /** 2,500 entities, the partitions in reverse order of their keys. */
    @BeforeAll
    static void createTable() {
        table = Helpers.SERVICE.createTable(Helpers.tableName());
        for (int start = KEYS.size() - 100; start >= 0; start -= 100) {
            table.submitTransaction(KEYS.subList(start, start + 100).stream()
                .map(key -> Helpers.entity(key.partition, key.row, "Value", Integer.valueOf(key.row)))
                .map(entity -> new TableTransactionAction(TableTransactionActionType.CREATE, entity))
                .toList());
        }
    }

    @AfterAll
    static void deleteTable() {
        table.deleteTable();
    }

    static List<List<Key>> pages(ListEntitiesOptions options) {
        return keys(table.listEntities(options, null, Context.NONE).streamByPage());
    }

    static List<List<Key>> keys(Stream<PagedResponse<TableEntity>> pages) {
        return pages.map(page -> page.getElements().stream().map(Key::of).toList()).toList();
    }

    static List<Key> flat(List<List<Key>> pages) {
        return pages.stream().flatMap(List::stream).toList();
    }

    static int largest(List<List<Key>> pages) {
        return pages.stream().mapToInt(List::size).max().orElseThrow();
    }

    @Test
    void all_to_the_end_in_order() {
        assertEquals(KEYS, table.listEntities().stream().map(Key::of).toList());
    }

    @Test
    void a_page_has_at_most_1000() {
        List<List<Key>> found = pages(new ListEntitiesOptions());
        assertTrue(largest(found) <= 1000);
        assertEquals(KEYS, flat(found));
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(ints = {1000, 499, 77})
    void page_size(int size) {
        List<List<Key>> found = pages(new ListEntitiesOptions().setTop(size));
        assertEquals(size, largest(found));
        assertEquals(KEYS, flat(found));
    }

    @Test
    void a_filter_with_pages() {
        List<List<Key>> found = pages(new ListEntitiesOptions().setFilter("Value ge 490").setTop(7));
        assertTrue(largest(found) <= 7);
        assertEquals(KEYS.stream().filter(key -> key.row.compareTo("0490") >= 0).toList(), flat(found));
    }

    @Test
    void a_range_with_pages() {
        String filter = "PartitionKey ge " + Helpers.quoted(PARTITIONS.get(1))
            + " and PartitionKey lt " + Helpers.quoted(PARTITIONS.get(4));
        assertEquals(KEYS.subList(500, 2000), flat(pages(new ListEntitiesOptions().setFilter(filter).setTop(300))));
    }

    @Test
    void a_token_resumes_with_a_fresh_client() {
        // The three tokens point into a partition, to the start of one, and into the one beyond ASCII.
        var options = new ListEntitiesOptions().setTop(750);
        var pager = table.listEntities(options, null, Context.NONE).iterableByPage().iterator();
        var read = new ArrayList<Key>();
        for (int i = 0; i < 3; i++) {
            PagedResponse<TableEntity> page = pager.next();
            page.getElements().forEach(entity -> read.add(Key.of(entity)));
            var fresh = Helpers.fromEndpoint(Helpers.ENDPOINT, Helpers.KEY).getTableClient(table.getTableName());
            var rest = fresh.listEntities(new ListEntitiesOptions().setTop(1000), null, Context.NONE);
            var both = new ArrayList<>(read);
            both.addAll(flat(keys(rest.streamByPage(page.getContinuationToken()))));
            assertEquals(KEYS, both);
        }
    }
}
