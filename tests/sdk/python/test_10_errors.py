import base64
import re

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from conftest import entity, error_code, refused

STALE = {"etag": 'W/"stale"', "match_condition": MatchConditions.IfNotModified}
ERRORS = {
    "exists": (
        lambda table, missing: table.create_entity(entity()),
        ResourceExistsError, 409, "EntityAlreadyExists", "The specified entity already exists.",
    ),
    "no entity": (
        lambda table, missing: table.get_entity("p", "missing"),
        ResourceNotFoundError, 404, "ResourceNotFound", "The specified resource does not exist.",
    ),
    "no table": (
        lambda table, missing: missing.get_entity("p", "r"),
        ResourceNotFoundError, 404, "TableNotFound", "The table specified does not exist.",
    ),
    "changed": (
        lambda table, missing: table.update_entity(entity(), **STALE),
        ResourceModifiedError, 412, "UpdateConditionNotSatisfied",
        "The update condition specified in the request was not satisfied.",
    ),
    "bad filter": (
        lambda table, missing: list(table.query_entities("aaa bbb ccc")),
        HttpResponseError, 400, "InvalidInput", "Syntax error at position",
    ),
}  # fmt: skip


@pytest.mark.parametrize("call, error_type, status, code, text", ERRORS.values(), ids=ERRORS)
def test_type_status_code_and_message(table, missing_table, call, error_type, status, code, text):
    table.create_entity(entity())
    with pytest.raises(HttpResponseError) as raised:
        call(table, missing_table)
    error = raised.value
    assert type(error) is error_type
    assert (error.status_code, error_code(error)) == (status, code)
    assert text in str(error)


def test_the_message_names_the_request(table):
    with pytest.raises(HttpResponseError) as raised:
        table.get_entity("p", "missing")
    error = raised.value
    request_id, time = re.search(r"\nRequestId:(\S+)\nTime:(\S+)", error.message).groups()
    assert request_id == error.response.headers["x-ms-request-id"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", time)


def test_the_client_request_id_comes_back(table):
    with pytest.raises(HttpResponseError) as raised:
        table.get_entity("p", "missing", request_id="my-own-id")
    assert raised.value.response.headers["x-ms-client-request-id"] == "my-own-id"


def test_a_wrong_key(sdk, table):
    wrong = sdk.from_endpoint(key=base64.b64encode(b"w" * 64).decode())
    other = wrong.get_table_client(table.table_name)
    calls = [
        lambda: other.get_entity("p", "r"),
        lambda: other.upsert_entity(entity()),
        lambda: list(other.list_entities()),
        lambda: list(wrong.list_tables()),
        lambda: wrong.get_service_properties(),
        lambda: other.submit_transaction([("create", entity())]),
    ]
    for call in calls:
        with refused(403, "AuthenticationFailed", ClientAuthenticationError):
            call()
    assert list(table.list_entities()) == []


def test_the_client_works_on_after_errors(table, missing_table):
    for _ in range(20):
        with pytest.raises(HttpResponseError):
            missing_table.create_entity(entity(A="x" * 1000))
        table.upsert_entity(entity(A=5))
        assert table.get_entity("p", "r") == entity(A=5)
