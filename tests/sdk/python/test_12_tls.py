import os
import subprocess
import sys

import pytest
from azure.core.exceptions import ServiceRequestError
from conftest import ACCOUNT, KEY, SCENARIO, entity
from secured import (
    CA_FILE,
    HTTPS_ENDPOINT,
    KEY2,
    OK,
    TRUST,
    account_sas,
    allowed_by,
    check_outcomes,
    needs_server,
    outcome,
    table_sas,
    tavola,
    with_sas,
)

pytestmark = needs_server

EVERY_OPERATION = dict.fromkeys((operation["name"] for operation in SCENARIO["account_operations"]), OK)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("key", [KEY, KEY2], ids=["key 1", "key 2"])
def test_every_operation(sdk, https_owner, https_table, host, key):
    endpoint = HTTPS_ENDPOINT.replace("127.0.0.1", host)
    check_outcomes(https_owner, sdk.from_endpoint(endpoint, key, **TRUST), https_table, EVERY_OPERATION)


def test_pages_and_large_bodies(https_owner, https_table):
    table = https_owner.get_table_client(https_table)
    for batch in range(3):
        rows = [entity("p", f"{batch}{i:02}", Text="x" * 30_000) for i in range(100)]
        table.submit_transaction([("create", row) for row in rows])
    found = [row["RowKey"] for row in table.list_entities(results_per_page=70)]
    assert found == [f"{batch}{i:02}" for batch in range(3) for i in range(100)]


def refused_connection(client):
    with pytest.raises(ServiceRequestError, match="(?i)certificate verify failed"):
        list(client.list_tables())


def test_an_authority_that_is_not_trusted(sdk):
    refused_connection(sdk.from_endpoint(HTTPS_ENDPOINT))


def test_another_authority(sdk, tmp_path):
    tavola("cert", "--authority", "--out", str(tmp_path))
    refused_connection(sdk.from_endpoint(HTTPS_ENDPOINT, connection_verify=str(tmp_path / "ca.pem")))


PROGRAM = """
import asyncio, sys
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

endpoint, account, key, flavour = sys.argv[1:]
options = {"endpoint": endpoint, "credential": AzureNamedKeyCredential(account, key), "retry_total": 0}

async def names():
    async with AsyncTableServiceClient(**options) as client:
        return [table.name async for table in client.list_tables()]

if flavour == "async":
    print(*asyncio.run(names()))
else:
    print(*[table.name for table in TableServiceClient(**options).list_tables()])
"""


def test_trust_by_variable(sdk, https_table):
    """What `tavola cert` recommends. Only the sync SDK reads the variable of `requests`; the async one asks OpenSSL."""
    variable = {"sync": "REQUESTS_CA_BUNDLE", "async": "SSL_CERT_FILE"}[sdk.flavour]
    command = [sys.executable, "-c", PROGRAM, HTTPS_ENDPOINT, ACCOUNT, KEY, sdk.flavour]
    trusting = {**os.environ, variable: CA_FILE}
    done = subprocess.run(command, env=trusting, check=True, capture_output=True, text=True)
    assert https_table in done.stdout.split()
    trusting.pop(variable)
    done = subprocess.run(command, env=trusting, check=False, capture_output=True, text=True)
    assert done.returncode != 0 and "certificate verify failed" in done.stderr.lower()


@pytest.mark.parametrize("key", [KEY, KEY2], ids=["key 1", "key 2"])
def test_signatures_for_https_only(sdk, https_owner, https_table, key):
    signed = with_sas(sdk, table_sas(https_table, "raud", key, protocol="https"), HTTPS_ENDPOINT, **TRUST)
    check_outcomes(https_owner, signed, https_table, allowed_by("raud"))
    signed = with_sas(sdk, account_sas("l", "s", key, protocol="https"), HTTPS_ENDPOINT, **TRUST)
    assert https_table in {table.name for table in signed.list_tables()}


def test_our_signatures_for_https_only(sdk, https_owner, https_table):
    string = f"AccountName={ACCOUNT};AccountKey={KEY2};TableEndpoint={HTTPS_ENDPOINT};"
    terms = ("--permissions", "raud", "--expires-in", "1h", "--https-only", "-o", "sas")
    sas = tavola("sas", "table", https_table, *terms, connection_string=string)
    assert "spr=https" in sas
    check_outcomes(https_owner, with_sas(sdk, sas, HTTPS_ENDPOINT, **TRUST), https_table, allowed_by("raud"))
    assert outcome(lambda: list(with_sas(sdk, sas).get_table_client(https_table).list_entities())) != OK
