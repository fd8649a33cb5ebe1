"""What the tests of credentials share: every operation with its outcome, and where the https server is."""

import os
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableSasPermissions,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)
from conftest import ACCOUNT, CONNECTION_STRING, ENDPOINT, KEY, SCENARIO, entity, error_code, table_name

# `cargo xtask sdk` sets all variables; without the first there is no such server to test.
HTTPS_ENDPOINT = os.environ.get("TAVOLA_HTTPS_ENDPOINT", "")
NAMES = ("CA_FILE", "KEY2", "OIDC_URL", "OTHER_OIDC_URL", "AUTHORIZATION_URI")
CA_FILE, KEY2, OIDC_URL, OTHER_OIDC_URL, AUTHORIZATION_URI = (
    os.environ[f"TAVOLA_{name}"] if HTTPS_ENDPOINT else "" for name in NAMES
)
BINARY = os.environ["TAVOLA_BINARY"] if HTTPS_ENDPOINT else os.environ.get("TAVOLA_BINARY", "")

needs_server = pytest.mark.skipif(not HTTPS_ENDPOINT, reason="TAVOLA_HTTPS_ENDPOINT is not set")
needs_binary = pytest.mark.skipif(not BINARY, reason="TAVOLA_BINARY is not set")

OK = "ok"
NOT_PERMITTED = "403 AuthorizationPermissionMismatch"
WRONG_TYPE = "403 AuthorizationResourceTypeMismatch"
OUTSIDE = "403 AuthorizationFailure"
UNAUTHENTICATED = "403 AuthenticationFailed"


# Operations


def outcome(call):
    """`ok`, or status and code of the refusal."""
    try:
        call()
    except HttpResponseError as error:
        return f"{error.status_code} {error_code(error)}"
    return OK


def row(name, **properties):
    return entity("p", name, **properties)


def changed(name):
    return row(name, Changed=True)


MERGE, REPLACE = {"mode": UpdateMode.MERGE}, {"mode": UpdateMode.REPLACE}
OPERATIONS = {
    "properties": lambda service, table: service.get_service_properties(),
    "list tables": lambda service, table: list(service.list_tables()),
    "create table": lambda service, table: service.create_table(table.table_name + "created"),
    "delete table": lambda service, table: service.delete_table(table.table_name + "deleted"),
    "get": lambda service, table: table.get_entity("p", "get"),
    "query": lambda service, table: list(table.list_entities()),
    "insert": lambda service, table: table.create_entity(changed("insert")),
    "merge": lambda service, table: table.update_entity(changed("merge"), **MERGE),
    "replace": lambda service, table: table.update_entity(changed("replace"), **REPLACE),
    "upsert": lambda service, table: table.upsert_entity(changed("upsert"), **MERGE),
    "delete": lambda service, table: table.delete_entity("p", "delete"),
    "batch": lambda service, table: table.submit_transaction([
        ("create", changed("batch insert")),
        ("update", changed("batch merge"), MERGE),
        ("delete", row("batch delete")),
    ]),
}
BEFORE = ("get", "merge", "replace", "upsert", "delete", "batch merge", "batch delete")
EFFECTS = {
    "insert": {"insert": True},
    "merge": {"merge": True},
    "replace": {"replace": True},
    "upsert": {"upsert": True},
    "delete": {"delete": None},
    "batch": {"batch insert": True, "batch merge": True, "batch delete": None},
}


def check_outcomes(owner, service, table_name, expected):
    """Tries the operations with a client of the service. What is refused must also have no effect."""
    mine, theirs = owner.get_table_client(table_name), service.get_table_client(table_name)
    for name in BEFORE:
        mine.create_entity(row(name))
    owner.create_table(table_name + "deleted")
    assert {name: outcome(lambda: OPERATIONS[name](service, theirs)) for name in expected} == expected

    allowed = [name for name, result in expected.items() if result == OK]
    rows = dict.fromkeys(BEFORE, False)
    for name in allowed:
        rows.update(EFFECTS.get(name, {}))
    stored = {row["RowKey"]: row.get("Changed", False) for row in mine.list_entities()}
    assert stored == {name: is_changed for name, is_changed in rows.items() if is_changed is not None}
    tables = {table.name for table in owner.list_tables()}
    assert (table_name + "created" in tables) == ("create table" in allowed)
    assert (table_name + "deleted" in tables) == ("delete table" not in allowed)


@pytest.fixture
def drop_created(service, table):
    """Deletes what `check_outcomes` leaves behind."""
    yield
    for suffix in ("created", "deleted"):
        service.delete_table(table.table_name + suffix)


# The https server

TRUST = {"connection_verify": CA_FILE}


@pytest.fixture
def https_owner(sdk):
    """A client of the https server that may do everything."""
    return sdk.from_endpoint(HTTPS_ENDPOINT, **TRUST)


@pytest.fixture
def https_table(https_owner):
    """The name of a fresh, empty table of the https server."""
    name = table_name()
    https_owner.create_table(name)
    yield name
    for suffix in ("", "created", "deleted"):
        https_owner.delete_table(name + suffix)


# Signatures


def in_minutes(minutes):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)


def named_key(key=KEY):
    return AzureNamedKeyCredential(ACCOUNT, key)


def table_sas(table_name, permission="raud", key=KEY, **terms):
    permission = permission and TableSasPermissions.from_string(permission)
    terms = {"permission": permission, "expiry": in_minutes(60), **terms}
    return generate_table_sas(named_key(key), table_name, **terms)


def account_sas(permission="rwdlau", types="sco", key=KEY, **terms):
    terms = {
        "resource_types": ResourceTypes.from_string(types),
        "permission": AccountSasPermissions.from_string(permission),
        "expiry": in_minutes(60),
        **terms,
    }
    return generate_account_sas(named_key(key), **terms)


def with_sas(sdk, sas, endpoint=ENDPOINT, **options):
    return sdk.with_credential(AzureSasCredential(sas), endpoint, **options)


def allowed_by(permissions):
    """What each operation on a table gets with these permissions."""
    return {
        operation["name"]: OK if set(operation["needs"]) <= set(permissions) else NOT_PERMITTED
        for operation in SCENARIO["table_operations"]
    }


def tavola(*arguments, connection_string=CONNECTION_STRING):
    """What the command prints. It gets no variables of the suite: it would take some for its own settings."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TAVOLA_")}
    variables["AZURE_STORAGE_CONNECTION_STRING"] = connection_string
    done = subprocess.run([BINARY, *arguments], env=variables, check=True, capture_output=True, text=True)
    return done.stdout.strip()
