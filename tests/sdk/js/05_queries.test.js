"use strict";
const assert = require("node:assert/strict");
const { after, before, describe, test } = require("node:test");
const { odata } = require("@azure/data-tables");
const { SCENARIO, list, refused, scenarioRow, tableClient, tableName } = require("./helpers.js");

// The middle one of the three values of each property, written by the SDK's helper as far as it goes: it quotes
// strings and writes dates.
const middle = SCENARIO.rows[1];
const CONSTANTS = {
  PartitionKey: odata` ${middle.PartitionKey}`,
  RowKey: odata` ${middle.RowKey}`,
  Int32: odata` ${Number(middle.Int32)}`,
  Int64: odata` ${BigInt(middle.Int64)}L`,
  Double: odata` ${Number(middle.Double)}`,
  DateTime: odata` ${new Date(middle.DateTime)}`,
  Guid: odata` guid'${middle.Guid}'`,
  Binary: odata` X'${middle.Binary}'`,
  String: odata` ${middle.String}`,
  Boolean: odata` ${true}`,
};

describe("05 queries", () => {
  const table = tableClient(tableName());
  const found = async (filter) => (await list(table, { filter })).map(({ rowKey }) => rowKey).join("");

  before(async () => {
    await table.createTable();
    for (const row of SCENARIO.rows) await table.createEntity(scenarioRow(row));
  });
  after(() => table.deleteTable());

  for (const [name, constant] of Object.entries(CONSTANTS)) {
    for (const { operator, rows, boolean_rows } of SCENARIO.operators) {
      test(`operator: ${name} ${operator}`, async () => {
        assert.equal(await found(`${name} ${operator}${constant}`), name === "Boolean" ? boolean_rows : rows);
      });
    }
  }

  for (const { name, filter, rows } of SCENARIO.filters) {
    test(`filter: ${name}`, async () => assert.equal(await found(filter), rows));
  }

  for (const filter of SCENARIO.bad_filters) {
    test(`a bad filter is refused: ${filter}`, () => refused(400, "InvalidInput", found(filter)));
  }
});
