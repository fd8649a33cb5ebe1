"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { EDM, SCENARIO, all, freshTable, list, plain, scenarioRow } = require("./helpers.js");

const ROW = SCENARIO.rows[1];
const stored = (...names) => Object.fromEntries(names.map((name) => [name, EDM[name].read(ROW[name])]));

/** A table with one row in it, and that row read in both ways. */
async function read(context, select) {
  const table = await freshTable(context);
  await table.createEntity(scenarioRow(ROW));
  const queryOptions = { select };
  const got = await table.getEntity(ROW.PartitionKey, ROW.RowKey, { queryOptions });
  const [listed] = await all(table.listEntities({ queryOptions }));
  return [got, listed];
}

describe("07 select", () => {
  test("only the named", async (t) => {
    for (const row of await read(t, ["String", "Int32"])) assert.deepEqual(plain(row), stored("String", "Int32"));
  });

  test("the keys only when named", async (t) => {
    for (const row of await read(t, ["PartitionKey", "RowKey"])) {
      assert.deepEqual(plain(row), { partitionKey: "b", rowKey: "2" });
    }
  });

  test("timestamp only when named", async (t) => {
    for (const row of await read(t, ["Timestamp"])) assert.ok(row.timestamp);
    for (const row of await read(t, ["String"])) assert.equal(row.timestamp, undefined);
  });

  test("a missing property", async (t) => {
    for (const row of await read(t, ["String", "Missing"])) assert.deepEqual(plain(row), stored("String"));
  });

  test("the etag stays", async (t) => {
    for (const row of await read(t, ["String"])) assert.match(row.etag, /^W\/"datetime/);
  });

  test("the types stay", async (t) => {
    const names = ["Int64", "Guid", "Binary", "Double"];
    for (const row of await read(t, names)) assert.deepEqual(plain(row), stored(...names));
  });

  test("all", async (t) => {
    const names = ["partitionKey", "rowKey", ...Object.keys(ROW).slice(2)].sort();
    for (const select of [["*"], undefined]) {
      for (const row of await read(t, select)) assert.deepEqual(Object.keys(plain(row)).sort(), names);
    }
  });

  test("the filter may use other properties", async (t) => {
    const table = await freshTable(t);
    await table.createEntity(scenarioRow(ROW));
    assert.deepEqual(await list(table, { filter: "Int32 eq 7", select: ["String"] }), [stored("String")]);
  });
});
