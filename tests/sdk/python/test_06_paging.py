import pytest
from conftest import SCENARIO, entity, table_name

PARTITIONS = SCENARIO["partitions"]  # In ascending order, as are the row keys.
KEYS = [(partition, f"{i:04}") for partition in PARTITIONS for i in range(500)]


@pytest.fixture(scope="module")
def table(service):
    """2,500 entities, the partitions in reverse order of their keys."""
    table = service.create_table(table_name())
    for start in reversed(range(0, len(KEYS), 100)):
        batch = KEYS[start : start + 100]
        table.submit_transaction([("create", entity(pk, rk, Value=int(rk))) for pk, rk in batch])
    yield table
    table.delete_table()


def keys(entities):
    return [(entity["PartitionKey"], entity["RowKey"]) for entity in entities]


def pages(pager, **options):
    return [keys(page) for page in pager.by_page(**options)]


def flat(pages):
    return [key for page in pages for key in page]


def test_all_to_the_end_in_order(table):
    assert keys(table.list_entities()) == KEYS


def test_a_page_has_at_most_1000(table):
    found = pages(table.list_entities())
    assert max(map(len, found)) <= 1000
    assert flat(found) == KEYS


@pytest.mark.parametrize("size", [1000, 499, 77])
def test_page_size(table, size):
    found = pages(table.list_entities(results_per_page=size))
    assert max(map(len, found)) == size
    assert flat(found) == KEYS


def test_a_filter_with_pages(table):
    found = pages(table.query_entities("Value ge 490", results_per_page=7))
    assert max(map(len, found)) <= 7
    assert flat(found) == [key for key in KEYS if key[1] >= "0490"]


def test_a_range_with_pages(table):
    pager = table.query_entities(
        "PartitionKey ge @first and PartitionKey lt @last",
        parameters={"first": PARTITIONS[1], "last": PARTITIONS[4]},
        results_per_page=300,
    )
    assert flat(pages(pager)) == KEYS[500:2000]


def test_a_token_resumes_with_a_fresh_client(sdk, table):
    # The three tokens point into a partition, to the start of one, and into the one beyond ASCII.
    pager = table.list_entities(results_per_page=750).by_page()
    read = []
    for _ in range(3):
        read += keys(next(pager))
        fresh = sdk.from_endpoint()
        rest = fresh.get_table_client(table.table_name).list_entities(results_per_page=1000)
        assert read + flat(pages(rest, continuation_token=pager.continuation_token)) == KEYS
