from datetime import datetime, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
)
from conftest import refused


@pytest.fixture
def restored(service):
    """The service, whose properties are put back afterwards."""
    before = service.get_service_properties()
    yield service
    service.set_service_properties(**before)


def plain(value):
    """Models of the SDK as dicts and lists, to compare them."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return plain(vars(value)) if hasattr(value, "__dict__") else value


def test_properties_round_trip(restored):
    week = TableRetentionPolicy(enabled=True, days=7)
    never = TableRetentionPolicy(enabled=False)
    properties = {
        "analytics_logging": TableAnalyticsLogging(
            version="1.0", delete=True, read=False, write=True, retention_policy=week
        ),
        "hour_metrics": TableMetrics(version="1.0", enabled=True, include_apis=True, retention_policy=week),
        "minute_metrics": TableMetrics(version="1.0", enabled=False, retention_policy=never),
        "cors": [
            TableCorsRule(["http://a.example"], ["GET"]),
            TableCorsRule(
                ["http://b.example", "http://*.c.example"],
                ["GET", "PUT", "MERGE"],
                allowed_headers=["x-ms-meta-*", "content-type"],
                exposed_headers=["x-ms-*"],
                max_age_in_seconds=500,
            ),
        ],
    }
    restored.set_service_properties(**properties)
    assert plain(restored.get_service_properties()) == plain(properties)


def test_an_omitted_group_keeps_its_value(restored):
    restored.set_service_properties(cors=[TableCorsRule(["*"], ["GET"])])
    before = plain(restored.get_service_properties())
    metrics = TableMetrics(
        version="1.0", enabled=True, include_apis=False, retention_policy=TableRetentionPolicy(enabled=True, days=3)
    )
    restored.set_service_properties(minute_metrics=metrics)
    assert plain(restored.get_service_properties()) == {**before, "minute_metrics": plain(metrics)}


def test_an_empty_list_removes_the_cors_rules(restored):
    restored.set_service_properties(cors=[TableCorsRule(["*"], ["GET"])])
    restored.set_service_properties(cors=[])
    assert restored.get_service_properties()["cors"] == []


def test_six_cors_rules_are_refused(restored):
    with refused(400, "InvalidXmlDocument"):
        restored.set_service_properties(cors=[TableCorsRule([f"http://{i}.example"], ["GET"]) for i in range(6)])


def test_a_retention_of_366_days_is_refused(restored):
    policy = TableRetentionPolicy(enabled=True, days=366)
    with refused(400, "InvalidXmlDocument"):
        restored.set_service_properties(hour_metrics=TableMetrics(enabled=True, retention_policy=policy))


def test_access_policies_round_trip(table):
    assert table.get_table_access_policy() == {}
    start, expiry = (datetime(2030, 1, day, 12, 30, 15, tzinfo=timezone.utc) for day in (1, 2))
    policies = {
        "all": TableAccessPolicy(start=start, expiry=expiry, permission="raud"),
        "read": TableAccessPolicy(expiry=expiry, permission="r"),
        "empty": None,
    }
    table.set_table_access_policy(policies)
    stored = table.get_table_access_policy()
    assert list(stored) == ["all", "read", "empty"]
    assert (stored["all"].start, stored["all"].expiry, stored["all"].permission) == (start, expiry, "raud")
    assert (stored["read"].expiry, stored["read"].permission) == (expiry, "r")

    table.set_table_access_policy({})
    assert table.get_table_access_policy() == {}


def test_six_access_policies_are_refused(table):
    # The SDK turns InvalidXmlDocument into its own ValueError.
    with pytest.raises(ValueError, match="Too many access policies"):
        table.set_table_access_policy({f"id{i}": TableAccessPolicy(permission="r") for i in range(6)})
    assert table.get_table_access_policy() == {}


def test_access_policies_of_a_missing_table(missing_table):
    with pytest.raises(HttpResponseError) as refusal:
        missing_table.get_table_access_policy()
    assert refusal.value.status_code == 404


def test_statistics_of_the_secondary(service):
    replication = service.get_service_stats()["geo_replication"]
    assert replication["status"] == "live"
    assert isinstance(replication["last_sync_time"], datetime)
