import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from conftest import entity, refused

IF_UNCHANGED = MatchConditions.IfNotModified
MODES = pytest.mark.parametrize("mode", [UpdateMode.REPLACE, UpdateMode.MERGE], ids=["replace", "merge"])
STALE = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\""


def after(mode, old, new):
    """What an update of `old` with `new` leaves behind."""
    return {**old, **new} if mode == UpdateMode.MERGE else new


def test_insert_and_get(table):
    etag = table.create_entity(entity(A=5))["etag"]
    stored = table.get_entity("p", "r")
    assert stored == entity(A=5)
    assert stored.metadata["etag"] == etag


def test_insert_an_existing_entity(table):
    table.create_entity(entity(A=5))
    with refused(409, "EntityAlreadyExists", ResourceExistsError):
        table.create_entity(entity(A=6))
    assert table.get_entity("p", "r") == entity(A=5)


@MODES
def test_update_any_version(table, mode):
    table.create_entity(entity(A=5, B="x"))
    table.update_entity(entity(A=6, C=True), mode=mode)
    assert table.get_entity("p", "r") == after(mode, entity(A=5, B="x"), entity(A=6, C=True))


@MODES
def test_update_with_the_etag(table, mode):
    etag = table.create_entity(entity(A=5, B="x"))["etag"]
    new = table.update_entity(entity(A="other type"), mode=mode, etag=etag, match_condition=IF_UNCHANGED)["etag"]
    stored = table.get_entity("p", "r")
    assert stored == after(mode, entity(A=5, B="x"), entity(A="other type"))
    assert stored.metadata["etag"] == new != etag


@MODES
def test_upsert(table, mode):
    table.upsert_entity(entity(A=5, B="x"), mode=mode)
    assert table.get_entity("p", "r") == entity(A=5, B="x")
    table.upsert_entity(entity(A=6), mode=mode)
    assert table.get_entity("p", "r") == after(mode, entity(A=5, B="x"), entity(A=6))


def test_delete_any_version(table):
    table.create_entity(entity())
    table.delete_entity("p", "r")
    assert list(table.list_entities()) == []


def test_delete_with_the_etag(table):
    etag = table.create_entity(entity())["etag"]
    table.delete_entity("p", "r", etag=etag, match_condition=IF_UNCHANGED)
    assert list(table.list_entities()) == []


@MODES
def test_update_with_a_stale_etag(table, mode):
    old = table.create_entity(entity(A=5))["etag"]
    table.update_entity(entity(A=6))
    for etag in (old, STALE):
        with refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
            table.update_entity(entity(A=7), mode=mode, etag=etag, match_condition=IF_UNCHANGED)
    assert table.get_entity("p", "r") == entity(A=6)


def test_delete_with_a_stale_etag(table):
    old = table.create_entity(entity(A=5))["etag"]
    table.update_entity(entity(A=6))
    for etag in (old, STALE):
        with refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
            table.delete_entity("p", "r", etag=etag, match_condition=IF_UNCHANGED)
    assert table.get_entity("p", "r") == entity(A=6)


def test_a_missing_entity(table):
    with refused(404, "ResourceNotFound", ResourceNotFoundError):
        table.get_entity("p", "r")
    for mode in UpdateMode:
        with refused(404, "ResourceNotFound", ResourceNotFoundError):
            table.update_entity(entity(), mode=mode)
    assert table.delete_entity("p", "r") is None  # The SDK swallows 404.


def test_a_missing_table(missing_table):
    calls = [
        lambda: missing_table.create_entity(entity()),
        lambda: missing_table.get_entity("p", "r"),
        lambda: missing_table.update_entity(entity(), mode=UpdateMode.REPLACE),
        lambda: missing_table.update_entity(entity(), mode=UpdateMode.MERGE),
        lambda: missing_table.upsert_entity(entity(), mode=UpdateMode.REPLACE),
        lambda: missing_table.upsert_entity(entity(), mode=UpdateMode.MERGE),
        lambda: list(missing_table.list_entities()),
    ]
    for call in calls:
        with refused(404, "TableNotFound", ResourceNotFoundError):
            call()
    assert missing_table.delete_entity("p", "r") is None  # The SDK swallows 404.


def test_each_write_changes_etag_and_timestamp(table):
    writes = [
        lambda: table.create_entity(entity(A=5)),
        lambda: table.update_entity(entity(A=5), mode=UpdateMode.MERGE),
        lambda: table.update_entity(entity(A=5), mode=UpdateMode.REPLACE),
        lambda: table.upsert_entity(entity(A=5), mode=UpdateMode.MERGE),
        lambda: table.upsert_entity(entity(A=5), mode=UpdateMode.REPLACE),
    ]
    seen = []
    for write in writes:
        etag = write()["etag"]
        metadata = table.get_entity("p", "r").metadata
        assert metadata["etag"] == etag
        text = metadata["timestamp"].tables_service_value
        assert etag == "W/\"datetime'" + text.replace(":", "%3A") + "'\""
        seconds, _, ticks = text.rstrip("Z").partition(".")
        seen.append((seconds, ticks.ljust(7, "0")))
    assert seen == sorted(set(seen))
