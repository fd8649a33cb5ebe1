"""Point reads one at a time, or new entities by transactions of 100, with azure-data-tables; see bench/src/client/sdk.rs."""

import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import EdmType, EntityProperty, TableServiceClient

ENV = {name[6:]: value for name, value in os.environ.items() if name.startswith("BENCH_")}
TEXT = "x" * 222


def client():
    credential = AzureNamedKeyCredential(ENV["ACCOUNT"], ENV["KEY"])
    service = TableServiceClient(endpoint=ENV["ENDPOINT"], credential=credential)
    return service.get_table_client(ENV["TABLE"])


def get(table):
    things, end, entities = 0, time.monotonic() + float(ENV["SECONDS"]), int(ENV["ENTITIES"])
    while time.monotonic() < end:
        index = random.randrange(entities)
        table.get_entity(f"p{index // 1000:06}", f"r{index:09}")
        things += 1
    return things


def entity(index):
    return {
        "PartitionKey": f"b{index // 100 % 1000:06}",
        "RowKey": f"r{index:09}",
        "Count": 100000,
        "Active": True,
        "Price": 19.99,
        "Total": EntityProperty(9007199254740993, EdmType.INT64),
        "When": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc),
        "Text": TEXT,
    }


def bulk(table):
    start, count = int(ENV["BULK_START"]), int(ENV["BULK_ENTITIES"])
    batches = [
        [("upsert", entity(index), {"mode": "replace"}) for index in range(first, first + 100)]
        for first in range(start, start + count, 100)
    ]
    with ThreadPoolExecutor(int(ENV["PARALLEL"])) as pool:
        for _ in pool.map(table.submit_transaction, batches):
            pass
    return count


table = client()
started, cpu = time.monotonic(), time.process_time()
things = {"get": get, "bulk": bulk}[ENV["TASK"]](table)
print(json.dumps({"things": things, "seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}))
