import pytest
from azure.data.tables import TableAccessPolicy, TableTransactionError
from conftest import ENDPOINT, SCENARIO, case_name, entity, refused, table_name, text_of
from secured import (
    NOT_PERMITTED,
    OK,
    OPERATIONS,
    OUTSIDE,
    UNAUTHENTICATED,
    WRONG_TYPE,
    account_sas,
    allowed_by,
    check_outcomes,
    in_minutes,
    needs_binary,
    outcome,
    table_sas,
    tavola,
    with_sas,
)

# Signatures that the SDK makes, for a table


@pytest.mark.usefixtures("drop_created")
@pytest.mark.parametrize("permissions", SCENARIO["table_permissions"])
def test_permissions(sdk, service, table, permissions):
    signed = with_sas(sdk, table_sas(table.table_name, permissions))
    check_outcomes(service, signed, table.table_name, allowed_by(permissions))


@pytest.mark.usefixtures("drop_created")
def test_what_no_signature_for_a_table_opens(sdk, service, table):
    signed = with_sas(sdk, table_sas(table.table_name))
    closed = ("properties", "list tables", "create table", "delete table")
    check_outcomes(service, signed, table.table_name, dict.fromkeys(closed, OUTSIDE))
    theirs = signed.get_table_client(table.table_name)
    assert outcome(theirs.get_table_access_policy) == OUTSIDE
    assert outcome(lambda: theirs.set_table_access_policy({})) == OUTSIDE


def test_another_table(sdk, service, table):
    other = service.create_table(table_name())
    other.create_entity(entity("p", "get"))
    signed = with_sas(sdk, table_sas(table.table_name)).get_table_client(other.table_name)
    for name in ("get", "query", "insert", "upsert", "delete", "batch"):
        assert outcome(lambda: OPERATIONS[name](None, signed)) == OUTSIDE, name
    other.delete_table()


@pytest.mark.parametrize(
    "start, expiry, expected",
    [(None, 60, OK), (-60, 60, OK), (60, 120, UNAUTHENTICATED), (-60, -1, UNAUTHENTICATED)],
    ids=["no start", "now", "not yet", "no more"],
)
def test_times(sdk, table, start, expiry, expected):
    start = None if start is None else in_minutes(start)
    for sas in (
        table_sas(table.table_name, start=start, expiry=in_minutes(expiry)),
        account_sas(start=start, expiry=in_minutes(expiry)),
    ):
        signed = with_sas(sdk, sas).get_table_client(table.table_name)
        assert outcome(lambda: list(signed.list_entities())) == expected
        assert outcome(lambda: signed.submit_transaction([("upsert", entity())])) == expected


@pytest.mark.parametrize(
    "ip, expected",
    [
        ("127.0.0.1", OK),
        ("127.0.0.0-127.0.0.9", OK),
        ("203.0.113.7", "403 AuthorizationSourceIPMismatch"),
        ("127.0.0.2-127.0.0.9", "403 AuthorizationSourceIPMismatch"),
    ],
)
def test_addresses(sdk, table, ip, expected):
    for sas in (table_sas(table.table_name, ip_address_or_range=ip), account_sas(ip_address_or_range=ip)):
        signed = with_sas(sdk, sas).get_table_client(table.table_name)
        assert outcome(lambda: list(signed.list_entities())) == expected


@pytest.mark.parametrize("protocol, expected", [("https,http", OK), ("https", "403 AuthorizationProtocolMismatch")])
def test_protocols(sdk, table, protocol, expected):
    for sas in (table_sas(table.table_name, protocol=protocol), account_sas(protocol=protocol)):
        signed = with_sas(sdk, sas).get_table_client(table.table_name)
        assert outcome(lambda: list(signed.list_entities())) == expected


def test_a_stored_policy(sdk, table):
    sas = table_sas(table.table_name, None, expiry=None, policy_id="readers & writers")
    signed = with_sas(sdk, sas).get_table_client(table.table_name)
    read, write = (lambda: list(signed.list_entities())), (lambda: signed.upsert_entity(entity()))
    assert outcome(read) == UNAUTHENTICATED

    def store(permission, minutes=60):
        policy = TableAccessPolicy(expiry=in_minutes(minutes), permission=permission)
        table.set_table_access_policy({"readers & writers": policy})

    store("r")
    assert (outcome(read), outcome(write)) == (OK, NOT_PERMITTED)
    store("au")
    assert (outcome(read), outcome(write)) == (NOT_PERMITTED, OK)
    store("raud", minutes=-1)
    assert (outcome(read), outcome(write)) == (UNAUTHENTICATED, UNAUTHENTICATED)
    store("raud")
    assert (outcome(read), outcome(write)) == (OK, OK)
    table.set_table_access_policy({})
    assert (outcome(read), outcome(write)) == (UNAUTHENTICATED, UNAUTHENTICATED)


def test_a_field_in_both_signature_and_policy(sdk, table):
    table.set_table_access_policy({"all": TableAccessPolicy(expiry=in_minutes(60), permission="raud")})
    for terms, expected in (({"expiry": None}, OK), ({"expiry": in_minutes(30)}, UNAUTHENTICATED)):
        sas = table_sas(table.table_name, None, policy_id="all", **terms)
        assert outcome(lambda: list(with_sas(sdk, sas).get_table_client(table.table_name).list_entities())) == expected


def ranged(case):
    names = {"spk": "start_pk", "srk": "start_rk", "epk": "end_pk", "erk": "end_rk"}
    return {names[name]: case[name] for name in names if name in case}


@pytest.mark.parametrize("case", SCENARIO["ranges"], ids=case_name)
def test_ranges(sdk, table, case):
    rows = [tuple(name) for name in SCENARIO["range_rows"]]
    for key in rows:
        table.create_entity(entity(*key))
    signed = with_sas(sdk, table_sas(table.table_name, **ranged(case))).get_table_client(table.table_name)
    inside = [tuple(name) for name in case["rows"].split()]

    def keys(entities):
        return [(found["PartitionKey"], found["RowKey"]) for found in entities]

    assert keys(signed.list_entities()) == inside
    assert keys(signed.list_entities(results_per_page=1)) == inside
    assert keys(signed.query_entities("RowKey ge '2'")) == [key for key in inside if key[1] >= "2"]
    expected = {key: OK if key in inside else OUTSIDE for key in rows}
    assert {key: outcome(lambda: signed.get_entity(*key)) for key in rows} == expected
    assert {key: outcome(lambda: signed.upsert_entity(entity(*key, A=5))) for key in rows} == expected
    assert {key: outcome(lambda: signed.submit_transaction([("upsert", entity(*key))])) for key in rows} == expected
    assert {key: outcome(lambda: signed.delete_entity(*key)) for key in rows} == expected
    assert {key: outcome(lambda: signed.create_entity(entity(*key))) for key in rows} == expected
    # A last word on what lies outside: nothing of all that reached it.
    assert [key for key in keys(table.query_entities("A eq 5")) if key not in inside] == []


def test_a_batch_half_outside_of_the_range(sdk, table):
    signed = with_sas(sdk, table_sas(table.table_name, start_pk="p", start_rk="2", end_pk="p", end_rk="3"))
    signed = signed.get_table_client(table.table_name)
    batch = [("create", entity("p", name)) for name in "234"]
    with refused(403, "AuthorizationFailure", TableTransactionError) as refusal:
        signed.submit_transaction(batch)
    assert refusal.info.value.index == 2
    assert list(table.list_entities()) == []
    signed.submit_transaction(batch[:2])
    assert [found["RowKey"] for found in table.list_entities()] == ["2", "3"]


@pytest.mark.parametrize("case", [case for case in SCENARIO["keys"] if case["text"]], ids=case_name)
def test_ranges_of_unusual_keys(sdk, table, case):
    key = text_of(case)
    for name in (key, "other"):
        table.create_entity(entity(name, name))
    sas = table_sas(table.table_name, start_pk=key, start_rk=key, end_pk=key, end_rk=key)
    signed = with_sas(sdk, sas).get_table_client(table.table_name)
    assert list(signed.list_entities()) == [entity(key, key)]
    assert signed.get_entity(key, key) == entity(key, key)
    assert outcome(lambda: signed.get_entity("other", "other")) == OUTSIDE


def test_the_name_in_another_case(sdk, table):
    signed = with_sas(sdk, table_sas(table.table_name.upper()))
    signed.get_table_client(table.table_name).create_entity(entity())
    assert list(table.list_entities()) == [entity()]


def test_a_changed_signature(sdk, table):
    for before, after in (("sp=r&", "sp=raud&"), ("sv=2019-02-02", "sv=2020-12-06"), ("tn=", "tn=x")):
        sas = table_sas(table.table_name, "r")
        assert before in sas
        signed = with_sas(sdk, sas.replace(before, after)).get_table_client(table.table_name)
        assert outcome(lambda: list(signed.list_entities())) in (UNAUTHENTICATED, OUTSIDE)
        assert outcome(lambda: signed.upsert_entity(entity())) in (UNAUTHENTICATED, OUTSIDE)


# Signatures that the SDK makes, for the account


@pytest.mark.usefixtures("drop_created")
@pytest.mark.parametrize(
    "case", SCENARIO["account_permissions"], ids=lambda case: f"{case['types']} {case['permissions']}"
)
def test_account_permissions(sdk, service, table, case):
    signed = with_sas(sdk, account_sas(case["permissions"], case["types"]))

    def expected(operation):
        if not set(operation["types"]) & set(case["types"]):
            return WRONG_TYPE
        return OK if set(operation["needs"]) <= set(case["permissions"]) else NOT_PERMITTED

    operations = SCENARIO["account_operations"]
    expectations = {operation["name"]: expected(operation) for operation in operations}
    check_outcomes(service, signed, table.table_name, expectations)


def test_access_policies_are_for_the_owner(sdk, table):
    theirs = with_sas(sdk, account_sas()).get_table_client(table.table_name)
    assert outcome(theirs.get_table_access_policy) == OUTSIDE
    assert outcome(lambda: theirs.set_table_access_policy({})) == OUTSIDE


# Signatures that `tavola sas` makes


@needs_binary
@pytest.mark.parametrize("permissions", ["r", "au", "raud"])
@pytest.mark.usefixtures("drop_created")
def test_ours_for_a_table(sdk, service, table, permissions):
    sas = tavola("sas", "table", table.table_name, "--permissions", permissions, "--expires-in", "1h", "-o", "sas")
    check_outcomes(service, with_sas(sdk, sas), table.table_name, allowed_by(permissions))


@needs_binary
def test_ours_as_url(sdk, table):
    url = tavola("sas", "table", table.table_name, "--permissions", "raud", "--expires-in", "1h", "-o", "url")
    assert url.startswith(f"{ENDPOINT}/{table.table_name}?")
    signed = sdk.from_table_url(url)
    assert signed.table_name == table.table_name
    signed.create_entity(entity())
    assert list(signed.list_entities()) == [entity()]
    # The SDK sends a batch without the signature of the URL; see the README.
    assert outcome(lambda: signed.submit_transaction([("upsert", entity())])) == UNAUTHENTICATED


@needs_binary
def test_ours_as_connection_string(sdk, table):
    text = tavola(
        "sas", "table", table.table_name, "--permissions", "raud", "--expires-in", "1h", "-o", "connection-string"
    )
    signed = sdk.from_connection_string(text).get_table_client(table.table_name)
    signed.submit_transaction([("create", entity())])
    assert list(signed.list_entities()) == [entity()]


@needs_binary
@pytest.mark.parametrize("case", SCENARIO["ranges"][:-1], ids=case_name)
def test_ours_with_a_range(sdk, table, case):
    for name in SCENARIO["range_rows"]:
        table.create_entity(entity(*name))
    flags = {"spk": "--from-partition", "srk": "--from-row", "epk": "--to-partition", "erk": "--to-row"}
    terms = [word for name in flags if name in case for word in (flags[name], case[name])]
    sas = tavola("sas", "table", table.table_name, *terms, "-o", "sas")
    signed = with_sas(sdk, sas).get_table_client(table.table_name)
    found = [found["PartitionKey"] + found["RowKey"] for found in signed.list_entities()]
    assert found == case["rows"].split()


@needs_binary
def test_ours_with_a_policy(sdk, table):
    sas = tavola("sas", "table", table.table_name, "--policy", "readers", "-o", "sas")
    signed = with_sas(sdk, sas).get_table_client(table.table_name)
    assert outcome(lambda: list(signed.list_entities())) == UNAUTHENTICATED
    table.set_table_access_policy({"readers": TableAccessPolicy(expiry=in_minutes(60), permission="r")})
    assert outcome(lambda: list(signed.list_entities())) == OK
    assert outcome(lambda: signed.upsert_entity(entity())) == NOT_PERMITTED


@needs_binary
@pytest.mark.usefixtures("drop_created")
def test_ours_for_the_account(sdk, service, table):
    terms = ("--services", "t", "--resource-types", "sco", "--permissions", "rwdlacu", "--expires-in", "1h")
    every = dict.fromkeys((operation["name"] for operation in SCENARIO["account_operations"]), OK)
    sas = tavola("sas", "account", *terms, "--ip", "127.0.0.1", "-o", "sas")
    check_outcomes(service, with_sas(sdk, sas), table.table_name, every)
    text = tavola("sas", "account", *terms, "-o", "connection-string")
    assert table.table_name in {found.name for found in sdk.from_connection_string(text).list_tables()}
    url = tavola("sas", "account", "--resource-types", "o", "--permissions", "r", "-o", "url")
    reader = sdk.with_credential(None, url)
    assert outcome(lambda: list(reader.list_tables())) == WRONG_TYPE
    assert outcome(lambda: list(reader.get_table_client(table.table_name).list_entities())) == OK
