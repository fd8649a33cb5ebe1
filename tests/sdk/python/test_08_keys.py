import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import UpdateMode
from conftest import SCENARIO, case_name, entity, refused, text_of

KEYS = pytest.mark.parametrize("case", SCENARIO["keys"], ids=case_name)
FORBIDDEN = pytest.mark.parametrize("key", SCENARIO["forbidden_keys"])


def found(table, key):
    """Looked up with a query, by both keys."""
    keys = {"key": key}
    return list(table.query_entities("PartitionKey eq @key and RowKey eq @key", parameters=keys))


@KEYS
def test_round_trip(table, case):
    key = text_of(case)
    table.create_entity(entity(key, key, A=5))
    assert table.get_entity(key, key) == entity(key, key, A=5)
    assert found(table, key) == [entity(key, key, A=5)]

    table.update_entity(entity(key, key, B=6), mode=UpdateMode.MERGE)
    assert table.get_entity(key, key) == entity(key, key, A=5, B=6)
    table.update_entity(entity(key, key, C=7), mode=UpdateMode.REPLACE)
    assert table.get_entity(key, key) == entity(key, key, C=7)
    table.upsert_entity(entity(key, key, D=8))
    assert table.get_entity(key, key) == entity(key, key, C=7, D=8)

    table.delete_entity(key, key)
    assert list(table.list_entities()) == []


@KEYS
def test_batch(table, case):
    key = text_of(case)
    table.submit_transaction([("create", entity(key, key, A=5)), ("create", entity(key, "other"))])
    table.submit_transaction([("update", entity(key, key, B=6)), ("upsert", entity(key, "other", B=6))])
    assert found(table, key) == [entity(key, key, A=5, B=6)]
    table.submit_transaction([("delete", entity(key, key)), ("delete", entity(key, "other"))])
    assert list(table.list_entities()) == []


@FORBIDDEN
def test_a_forbidden_character_is_refused(table, key):
    for keys in ((key, "r"), ("p", key)):
        with refused(400, "OutOfRangeInput"):
            table.create_entity(entity(*keys))
        # In a URL the code depends on the character.
        with pytest.raises(HttpResponseError) as refusal:
            table.upsert_entity(entity(*keys))
        assert refusal.value.status_code == 400
    assert list(table.list_entities()) == []


def test_513_characters_are_refused(table):
    for keys in (("k" * 513, "r"), ("p", "k" * 513)):
        with pytest.raises(HttpResponseError) as refusal:
            table.create_entity(entity(*keys))
        assert refusal.value.status_code == 400
    assert list(table.list_entities()) == []


def test_keys_that_differ_by_case_are_two(table):
    table.create_entity(entity("p", "a"))
    table.create_entity(entity("p", "A"))
    assert [row["RowKey"] for row in table.list_entities()] == ["A", "a"]
