import pytest
from conftest import EDM, SCENARIO

ROW = {name: EDM.get(name, str)(text) for name, text in SCENARIO["rows"][1].items()}


@pytest.fixture
def row(table):
    """The table with one row in it, and the two ways to read that row."""
    table.create_entity(ROW)
    keys = ROW["PartitionKey"], ROW["RowKey"]
    return table, [
        lambda select: table.get_entity(*keys, select=select),
        lambda select: next(iter(table.list_entities(select=select))),
    ]


def given(entity):
    """A property that the entity lacks may come as null or not at all."""
    return {name: value for name, value in entity.items() if value is not None}


def test_only_the_named(row):
    for read in row[1]:
        assert given(read(["String", "Int32"])) == {"String": ROW["String"], "Int32": ROW["Int32"]}


def test_the_keys_only_when_named(row):
    for read in row[1]:
        assert given(read(["PartitionKey", "RowKey"])) == {"PartitionKey": "b", "RowKey": "2"}


def test_timestamp_only_when_named(row):
    for read in row[1]:
        assert read(["Timestamp"]).metadata["timestamp"] is not None
        assert read(["String"]).metadata["timestamp"] is None


def test_a_missing_property(row):
    for read in row[1]:
        assert given(read(["String", "Missing"])) == {"String": ROW["String"]}


def test_the_etag_stays(row):
    for read in row[1]:
        assert read(["String"]).metadata["etag"].startswith('W/"datetime')


def test_the_types_stay(row):
    for read in row[1]:
        selected = read(["Int64", "Guid", "Binary", "Double"])
        assert given(selected) == {name: ROW[name] for name in ("Int64", "Guid", "Binary", "Double")}


def test_all(row):
    for read in row[1]:
        assert set(read(["*"])) == set(read(None)) == set(ROW)


def test_the_filter_may_use_other_properties(row):
    found = row[0].query_entities("Int32 eq 7", select=["String"])
    assert [given(entity) for entity in found] == [{"String": ROW["String"]}]
