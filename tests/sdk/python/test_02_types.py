from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from azure.data.tables import EdmType, EntityProperty
from conftest import EDM, SCENARIO, case_name, entity, refused, same, text_of


@pytest.mark.parametrize("case", SCENARIO["types"], ids=case_name)
def test_round_trip(table, case):
    value = EDM[case["type"]](text_of(case))
    table.create_entity(entity(Value=value))

    assert same(table.get_entity("p", "r")["Value"], value)
    [listed] = table.list_entities()
    assert same(listed["Value"], value)


def test_all_types_in_one_entity(table):
    values = {f"P{i}": EDM[case["type"]](text_of(case)) for i, case in enumerate(SCENARIO["types"])}
    table.create_entity(entity(**values))
    stored = table.get_entity("p", "r")
    assert {name for name, value in values.items() if not same(stored[name], value)} == set()


def test_plain_values_of_the_language(table):
    eastern = timezone(timedelta(hours=-5))
    values = {
        "Integer": 7,
        "Float": 2.5,
        "Flag": True,
        "Text": "x",
        "Bytes": b"\x00\xff",
        "Id": UUID(int=7),
        "Date": datetime(2024, 2, 29, 12, 34, 56, 123456, tzinfo=timezone.utc),
        "Elsewhere": datetime(2024, 2, 29, 12, 34, 56, tzinfo=eastern),
    }
    table.create_entity(entity(**values))
    assert table.get_entity("p", "r") == entity(**values)


def test_a_whole_double_stays_a_double(table):
    table.create_entity(entity(Value=3.0))
    assert len(list(table.query_entities("Value eq 3.0"))) == 1


def test_names_differ_by_case(table):
    table.create_entity(entity(value="small", Value="big"))
    stored = table.get_entity("p", "r")
    assert (stored["value"], stored["Value"]) == ("small", "big")


def test_null_is_not_stored(table):
    table.create_entity(entity(Value=None, Other=7))
    assert table.get_entity("p", "r") == entity(Other=7)


def test_252_properties(table):
    properties = {f"P{i}": i for i in range(252)}
    table.create_entity(entity(**properties))
    assert table.get_entity("p", "r") == entity(**properties)


def test_253_properties_are_refused(table):
    with refused(400, "TooManyProperties"):
        table.create_entity(entity(**{f"P{i}": i for i in range(253)}))


@pytest.mark.parametrize("case", SCENARIO["too_large"], ids=case_name)
def test_one_more_than_64_kib_is_refused(table, case):
    with refused(400, "PropertyValueTooLarge"):
        table.create_entity(entity(Value=EDM[case["type"]](text_of(case))))


def test_an_entity_over_1_mib_is_refused(table):
    with refused(400, "EntityTooLarge"):
        table.create_entity(entity(**{f"P{i}": bytes(65536) for i in range(16)}))


def test_a_date_before_1601_is_refused(table):
    with refused(400, "OutOfRangeInput"):
        table.create_entity(entity(Value=EntityProperty("1600-12-31T23:59:59Z", EdmType.DATETIME)))
