import pytest
from azure.core import MatchConditions
from azure.data.tables import RequestTooLargeError, TableTransactionError, UpdateMode
from conftest import entity, refused

MERGE, REPLACE = {"mode": UpdateMode.MERGE}, {"mode": UpdateMode.REPLACE}


def rows(table):
    return {row["RowKey"]: row for row in table.list_entities()}


def row(i, **properties):
    return entity(row_key=f"{i:03}", **properties)


def test_every_operation_in_one_batch(table):
    for i in range(1, 6):
        table.create_entity(row(i, A=5, B="x"))
    results = table.submit_transaction([
        ("create", row(0, A=6)),
        ("update", row(1, A=6), MERGE),
        ("update", row(2, A=6), REPLACE),
        ("upsert", row(3, A=6), MERGE),
        ("upsert", row(4, A=6), REPLACE),
        ("delete", row(5)),
        ("upsert", row(6, A=6), MERGE),
        ("upsert", row(7, A=6), REPLACE),
    ])
    merged = {1, 3}
    assert rows(table) == {
        f"{i:03}": row(i, A=6, B="x") if i in merged else row(i, A=6) for i in (0, 1, 2, 3, 4, 6, 7)
    }
    assert ["etag" in result for result in results] == [True] * 5 + [False] + [True] * 2
    assert table.get_entity("p", "000").metadata["etag"] == results[0]["etag"]


def test_100_operations(table):
    table.submit_transaction([("create", row(i, A=i)) for i in range(100)])
    assert len(rows(table)) == 100
    kinds = [
        lambda i: ("update", row(i, B=i), MERGE),
        lambda i: ("update", row(i, B=i), REPLACE),
        lambda i: ("upsert", row(i, B=i), MERGE),
        lambda i: ("delete", row(i)),
    ]
    assert len(table.submit_transaction([kinds[i % 4](i) for i in range(100)])) == 100
    assert rows(table) == {
        f"{i:03}": row(i, B=i) if i % 4 == 1 else row(i, A=i, B=i) for i in range(100) if i % 4 != 3
    }


def test_with_etags(table):
    etag = table.create_entity(row(1))["etag"]
    unchanged = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    table.submit_transaction([("create", row(0)), ("update", row(1, A=6), {**REPLACE, **unchanged})])
    with refused(412, "UpdateConditionNotSatisfied", TableTransactionError) as refusal:
        table.submit_transaction([("delete", row(0)), ("delete", row(1), unchanged)])
    assert refusal.info.value.index == 1
    assert rows(table) == {"000": row(0), "001": row(1, A=6)}


@pytest.mark.parametrize(
    "failing, status, code",
    [
        (("create", row(9)), 409, "EntityAlreadyExists"),
        (("update", row(8), MERGE), 404, "ResourceNotFound"),
        (("update", row(8), REPLACE), 404, "ResourceNotFound"),
        (("delete", row(8)), 404, "ResourceNotFound"),
        (("create", row(2, A="x" * 32769)), 400, "PropertyValueTooLarge"),
    ],
    ids=["insert existing", "merge missing", "replace missing", "delete missing", "value too large"],
)
def test_a_failing_operation_undoes_all(table, failing, status, code):
    table.create_entity(row(9))
    with refused(status, code, TableTransactionError) as refusal:
        table.submit_transaction([("create", row(0)), ("create", row(1)), failing, ("upsert", row(3))])
    if code != "PropertyValueTooLarge":  # The service gives no index for this one.
        assert refusal.info.value.index == 2
    assert rows(table) == {"009": row(9)}


def test_101_operations_are_refused(table):
    with refused(400, "InvalidInput", TableTransactionError):
        table.submit_transaction([("create", row(i)) for i in range(101)])
    assert rows(table) == {}


def test_two_partitions_are_refused(table):
    # The SDK itself refuses it.
    with pytest.raises(ValueError, match="Partition Keys in the batch must all be the same"):
        table.submit_transaction([("create", entity("p", "r")), ("create", entity("q", "r"))])


def test_the_same_row_twice_is_refused(table):
    with refused(400, "InvalidDuplicateRow", TableTransactionError) as refusal:
        table.submit_transaction([("create", row(0)), ("upsert", row(1)), ("upsert", row(0))])
    assert refusal.info.value.index == 2
    assert rows(table) == {}


def test_over_4_mib_is_refused(table):
    with refused(413, "RequestBodyTooLarge", RequestTooLargeError):
        table.submit_transaction([("create", row(i, A=bytes(65536))) for i in range(70)])
    assert rows(table) == {}


def test_a_missing_table(missing_table):
    with refused(404, "TableNotFound", TableTransactionError) as refusal:
        missing_table.submit_transaction([("create", row(0)), ("create", row(1))])
    assert refusal.info.value.index == 0
