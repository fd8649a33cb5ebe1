import pytest
from azure.core.exceptions import ResourceExistsError
from conftest import PREFIX, refused, table_name


def names(tables):
    return [table.name for table in tables]


def test_create(service):
    name = table_name()
    assert service.create_table(name).table_name == name
    assert names(service.query_tables(f"TableName eq '{name}'")) == [name]


def test_create_again_is_a_conflict(service, table):
    with refused(409, "TableAlreadyExists", ResourceExistsError):
        service.create_table(table.table_name)


def test_the_same_name_in_other_case_is_a_conflict(service, table):
    with refused(409, "TableAlreadyExists", ResourceExistsError):
        service.create_table(table.table_name.upper())


def test_create_if_not_exists(service):
    name = table_name()
    for _ in range(2):
        assert service.create_table_if_not_exists(name).table_name == name


@pytest.mark.parametrize("name", ["ab", "a" * 64, "1abc", "a_b", "a-b", "äbc"])
def test_a_bad_name_is_refused(service, name):
    # The SDK turns InvalidResourceName and OutOfRangeInput into its own ValueError.
    with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):
        service.create_table(name)


def test_the_reserved_name_is_refused(service):
    with refused(400, "InvalidInput"):
        service.create_table("Tables")


def test_list_with_a_filter_and_by_pages(service):
    start = table_name() + "x"
    created = [service.create_table(f"{start}{i}").table_name for i in range(5)]
    of_this_test = f"TableName ge '{start}' and TableName lt '{start}z'"

    assert names(service.query_tables(of_this_test)) == created
    assert names(service.query_tables("TableName eq @name", parameters={"name": created[3]})) == created[3:4]

    pages = [names(page) for page in service.query_tables(of_this_test, results_per_page=2).by_page()]
    assert pages == [created[0:2], created[2:4], created[4:5]]
    assert set(created) <= set(names(service.list_tables(results_per_page=3)))

    for name in created:
        service.delete_table(name)
    assert names(service.query_tables(of_this_test)) == []


def test_delete(service):
    name = table_name()
    service.create_table(name)
    service.delete_table(name)
    assert names(service.query_tables(f"TableName eq '{name}'")) == []


def test_delete_a_missing_table(service):
    # The SDK swallows 404.
    assert service.delete_table(table_name()) is None


@pytest.fixture(scope="module", autouse=True)
def delete_all(service):
    yield
    for name in names(service.query_tables(f"TableName ge '{PREFIX}' and TableName lt '{PREFIX}z'")):
        service.delete_table(name)
