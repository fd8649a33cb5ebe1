from datetime import datetime

import pytest
from azure.core.exceptions import HttpResponseError
from conftest import EDM, SCENARIO, refused, table_name

CONSTANTS = SCENARIO["rows"][1]
TYPES = ["PartitionKey", "RowKey", *EDM]


@pytest.fixture(scope="module")
def rows(service):
    table = service.create_table(table_name())
    for row in SCENARIO["rows"]:
        table.create_entity({name: EDM.get(name, str)(text) for name, text in row.items()})
    yield table
    table.delete_table()


def found(entities):
    return "".join(entity["RowKey"] for entity in entities)


def constant(name):
    """The middle one of the three values, as the SDK's parameter substitution wants it."""
    text = CONSTANTS[name]
    if name == "Int64":
        return int(text)
    if name == "DateTime":
        return datetime.fromisoformat(text.replace("Z", "000+00:00"))
    return EDM.get(name, str)(text)


@pytest.mark.parametrize("operator", SCENARIO["operators"], ids=lambda case: case["operator"])
@pytest.mark.parametrize("name", TYPES)
def test_operator(rows, name, operator):
    entities = rows.query_entities(f"{name} {operator['operator']} @value", parameters={"value": constant(name)})
    assert found(entities) == operator["boolean_rows" if name == "Boolean" else "rows"]


@pytest.mark.parametrize("case", SCENARIO["filters"], ids=lambda case: case["name"])
def test_filter(rows, case):
    assert found(rows.query_entities(case["filter"])) == case["rows"]


@pytest.mark.parametrize("bad", SCENARIO["bad_filters"])
def test_a_bad_filter_is_refused(rows, bad):
    with refused(400, "InvalidInput", HttpResponseError):
        list(rows.query_entities(bad))
