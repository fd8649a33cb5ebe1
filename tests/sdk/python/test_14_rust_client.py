"""What this SDK writes is read by `#[derive(Entity)]` of the Rust client, and the other way round."""

import os
import subprocess

import pytest
from conftest import EDM, SCENARIO, entity, same, text_of

PROGRAM = os.environ.get("TAVOLA_RUST_CLIENT")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="TAVOLA_RUST_CLIENT is not set")


def rust_client(what, table):
    done = subprocess.run([PROGRAM, what, table.table_name], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{len(SCENARIO['types'])} cases\n"), done.stderr


def test_it_writes_and_we_read(table):
    rust_client("write", table)
    for number, case in enumerate(SCENARIO["types"]):
        stored = table.get_entity("types", f"{number:03}")
        sent = EDM[case["type"]](text_of(case))
        assert set(stored) == {"PartitionKey", "RowKey", case["type"]}
        assert same(stored[case["type"]], sent), case


def test_we_write_and_it_reads(table):
    for number, case in enumerate(SCENARIO["types"]):
        table.create_entity(entity("types", f"{number:03}", **{case["type"]: EDM[case["type"]](text_of(case))}))
    rust_client("check", table)


def test_it_notices_another_type(table):
    table.create_entity(entity("types", "000", Int32="-2147483648"))
    with pytest.raises(AssertionError, match="Edm.String, not Edm.Int32"):
        rust_client("check", table)
