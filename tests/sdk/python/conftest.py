"""Clients, tables and values for the scenario. Each test runs twice: with the sync and with the async SDK."""

import asyncio
import inspect
import itertools
import json
import os
from pathlib import Path
from uuid import UUID

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty, TableClient, TableServiceClient
from azure.data.tables.aio import TableClient as AsyncTableClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

ENDPOINT = os.environ["TAVOLA_ENDPOINT"]
ACCOUNT = os.environ["TAVOLA_ACCOUNT"]
KEY = os.environ["TAVOLA_KEY"]
PREFIX = os.environ["TAVOLA_PREFIX"]
SCENARIO = json.loads(Path(os.environ["TAVOLA_SCENARIO"]).read_text(encoding="utf-8"))

CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={ENDPOINT};"
)

_numbers = itertools.count()

pytest_plugins = ["secured"]  # Its fixtures.


# Clients


class Blocking:
    """An aio client (or pager) that can be used like its sync sister: every coroutine runs to its end at once."""

    loop = asyncio.new_event_loop()

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: _blocking(value(*args, **kwargs))

    def __iter__(self):
        return Blocking(aiter(self._inner))

    def __next__(self):
        try:
            return _blocking(anext(self._inner))
        except StopAsyncIteration:
            raise StopIteration from None


def _blocking(value):
    if inspect.isawaitable(value):
        return _blocking(Blocking.loop.run_until_complete(value))
    is_async = hasattr(value, "__aiter__") or hasattr(value, "__aenter__")
    return Blocking(value) if is_async else value


_opened = []


def opened(client):
    """The client, which is closed when the test ends."""
    _opened.append(_blocking(client))
    return _opened[-1]


@pytest.fixture(autouse=True)
def close_clients():
    yield
    while _opened:
        _opened.pop().close()


class Sdk:
    """One flavour of the SDK. No retries: a server error must be seen, not be repaired."""

    def __init__(self, flavour):
        self.flavour = flavour
        self.client_type = {"sync": TableServiceClient, "async": AsyncTableServiceClient}[flavour]

    def from_connection_string(self, text=CONNECTION_STRING):
        return opened(self.client_type.from_connection_string(text, retry_total=0))

    def from_endpoint(self, endpoint=ENDPOINT, key=KEY, **options):
        return self.with_credential(AzureNamedKeyCredential(ACCOUNT, key), endpoint, **options)

    def with_credential(self, credential, endpoint=ENDPOINT, **options):
        return opened(self.client_type(endpoint=endpoint, credential=credential, retry_total=0, **options))

    def from_table_url(self, url):
        client_type = {"sync": TableClient, "async": AsyncTableClient}[self.flavour]
        return opened(client_type.from_table_url(url, retry_total=0))


@pytest.fixture(scope="session", params=["sync", "async"])
def sdk(request):
    return Sdk(request.param)


@pytest.fixture(scope="session")
def service(sdk):
    client = _blocking(sdk.client_type.from_connection_string(CONNECTION_STRING, retry_total=0))
    yield client
    client.close()


def table_name():
    return f"{PREFIX}n{next(_numbers)}"


@pytest.fixture
def table(service):
    """A client of a fresh, empty table."""
    client = service.create_table(table_name())
    yield client
    client.delete_table()


@pytest.fixture
def missing_table(service):
    return service.get_table_client(table_name())


# Entities


def entity(partition_key="p", row_key="r", **properties):
    return {"PartitionKey": partition_key, "RowKey": row_key, **properties}


def text_of(case):
    return case["text"] * case.get("times", 1)


def case_name(case):
    times = f" x {case['times']}" if "times" in case else ""
    return case.get("name") or f"{case['type']} {case['text']!a}{times}"


# How each EDM type is given to the SDK. It comes back as the same value, except for DateTime (see `same`).
EDM = {
    "Int32": int,
    "Int64": lambda text: EntityProperty(int(text), EdmType.INT64),
    "Double": float,
    "DateTime": lambda text: EntityProperty(text, EdmType.DATETIME),
    "Guid": UUID,
    "Binary": bytes.fromhex,
    "String": str,
    "Boolean": lambda text: text == "true",
}


def same(stored, sent):
    """Is this the value (and the type) that was sent? Python's datetime has no 100 ns, the SDK keeps the text."""
    if hasattr(stored, "tables_service_value"):
        return stored.tables_service_value == sent.value
    if isinstance(sent, float) and sent != sent:
        return isinstance(stored, float) and stored != stored
    return stored == sent and type(stored) is type(sent)


# Errors


def error_code(error):
    """The service's code. create_entity raises an error without `error_code`; the body has it in any case."""
    code = getattr(error, "error_code", None)
    if code is None:
        code = json.loads(error.response.text())["odata.error"]["code"]
    return getattr(code, "value", code)


class Refused:
    def __init__(self, status, code, error_type):
        self.status, self.code = status, code
        self._raises = pytest.raises(error_type)

    def __enter__(self):
        self.info = self._raises.__enter__()
        return self

    def __exit__(self, *exception):
        handled = self._raises.__exit__(*exception)
        if handled:
            error = self.info.value
            assert (error.status_code, error_code(error)) == (self.status, self.code), error.message
        return handled


def refused(status, code, error_type=HttpResponseError):
    """Expects an error of this type, status and code inside the `with` block."""
    return Refused(status, code, error_type)
