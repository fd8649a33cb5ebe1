"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { odata } = require("@azure/data-tables");
const { all, freshTable, refused, service, tableName } = require("./helpers.js");

const names = (tables) => tables.map((table) => table.name);
const query = async (filter) => names(await all(service.listTables({ queryOptions: { filter } })));

/** Creates a table and gives the status of the response: the SDK keeps TableAlreadyExists, and only that, to itself. */
async function create(name) {
  let status;
  await service.createTable(name, { onResponse: (response) => (status = response.status) });
  return status;
}

describe("01 tables", () => {
  test("create", async () => {
    const name = tableName();
    assert.equal(await create(name), 201);
    assert.deepEqual(await query(odata`TableName eq ${name}`), [name]);
    await service.deleteTable(name);
  });

  test("create again is a conflict", async (t) => {
    const table = await freshTable(t);
    assert.equal(await create(table.tableName), 409);
  });

  test("the same name in other case is a conflict", async (t) => {
    const table = await freshTable(t);
    assert.equal(await create(table.tableName.toUpperCase()), 409);
  });

  test("create if not exists", async (t) => {
    const table = await freshTable(t);
    await table.createTable();
    assert.deepEqual(await query(odata`TableName eq ${table.tableName}`), [table.tableName]);
  });

  const badNames = { OutOfRangeInput: ["ab", "a".repeat(64)], InvalidResourceName: ["1abc", "a_b", "a-b", "äbc"] };
  for (const [code, bad] of Object.entries(badNames)) {
    for (const name of bad) {
      test(`a bad name is refused: ${name}`, () => refused(400, code, service.createTable(name)));
    }
  }

  test("the reserved name is refused", () => refused(400, "InvalidInput", service.createTable("Tables")));

  test("list with a filter and by pages", async () => {
    const start = `${tableName()}x`;
    const created = [0, 1, 2, 3, 4].map((i) => `${start}${i}`);
    for (const name of created) await service.createTable(name);
    const ofThisTest = odata`TableName ge ${start} and TableName lt ${`${start}z`}`;

    assert.deepEqual(await query(ofThisTest), created);
    assert.deepEqual(await query(odata`TableName eq ${created[3]}`), [created[3]]);

    const pager = service.listTables({ queryOptions: { filter: ofThisTest } }).byPage({ maxPageSize: 2 });
    assert.deepEqual((await all(pager)).map(names), [created.slice(0, 2), created.slice(2, 4), created.slice(4)]);
    const everything = new Set((await all(service.listTables().byPage({ maxPageSize: 3 }))).flatMap(names));
    assert.ok(created.every((name) => everything.has(name)));

    for (const name of created) await service.deleteTable(name);
    assert.deepEqual(await query(ofThisTest), []);
  });

  test("delete", async () => {
    const name = tableName();
    await service.createTable(name);
    await service.deleteTable(name);
    assert.deepEqual(await query(odata`TableName eq ${name}`), []);
  });

  test("delete a missing table", async () => {
    // The SDK swallows 404.
    await service.deleteTable(tableName());
  });
});
