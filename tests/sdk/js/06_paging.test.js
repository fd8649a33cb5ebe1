"use strict";
const assert = require("node:assert/strict");
const { after, before, describe, test } = require("node:test");
const { odata } = require("@azure/data-tables");
const { SCENARIO, all, entity, fromEndpoint, tableClient, tableName } = require("./helpers.js");

const PARTITIONS = SCENARIO.partitions; // In ascending order, as are the row keys.
const ROWS = Array.from({ length: 500 }, (_, i) => String(i).padStart(4, "0"));
const KEYS = PARTITIONS.flatMap((partition) => ROWS.map((row) => [partition, row]));

const keys = (entities) => entities.map(({ partitionKey, rowKey }) => [partitionKey, rowKey]);
const largest = (pages) => Math.max(...pages.map((page) => page.length));

describe("06 paging", () => {
  const table = tableClient(tableName());
  const pages = async (settings, queryOptions, of = table) =>
    (await all(of.listEntities({ queryOptions }).byPage(settings))).map(keys);

  before(async () => {
    // 2,500 entities, the partitions in reverse order of their keys.
    await table.createTable();
    for (let start = KEYS.length - 100; start >= 0; start -= 100) {
      const batch = KEYS.slice(start, start + 100);
      await table.submitTransaction(batch.map(([pk, rk]) => ["create", entity(pk, rk, { Value: Number(rk) })]));
    }
  });
  after(() => table.deleteTable());

  test("all to the end in order", async () => {
    assert.deepEqual(keys(await all(table.listEntities())), KEYS);
  });

  test("a page has at most 1000", async () => {
    const found = await pages();
    assert.ok(largest(found) <= 1000);
    assert.deepEqual(found.flat(), KEYS);
  });

  for (const maxPageSize of [1000, 499, 77]) {
    test(`page size: ${maxPageSize}`, async () => {
      const found = await pages({ maxPageSize });
      assert.equal(largest(found), maxPageSize);
      assert.deepEqual(found.flat(), KEYS);
    });
  }

  test("a filter with pages", async () => {
    const found = await pages({ maxPageSize: 7 }, { filter: "Value ge 490" });
    assert.ok(largest(found) <= 7);
    assert.deepEqual(found.flat(), KEYS.filter(([, row]) => row >= "0490"));
  });

  test("a range with pages", async () => {
    const filter = odata`PartitionKey ge ${PARTITIONS[1]} and PartitionKey lt ${PARTITIONS[4]}`;
    const found = await pages({ maxPageSize: 300 }, { filter });
    assert.deepEqual(found.flat(), KEYS.slice(500, 2000));
  });

  test("a token resumes with a fresh client", async () => {
    // The three tokens point into a partition, to the start of one, and into the one beyond ASCII.
    const pager = table.listEntities().byPage({ maxPageSize: 750 });
    const read = [];
    for (let i = 0; i < 3; i++) {
      const { value: page } = await pager.next();
      read.push(...keys(page));
      const settings = { maxPageSize: 1000, continuationToken: page.continuationToken };
      const rest = await pages(settings, undefined, fromEndpoint().table(table.tableName));
      assert.deepEqual([...read, ...rest.flat()], KEYS);
    }
  });
});
