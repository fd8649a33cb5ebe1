"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { entity, freshTable, list, missingTable, refused } = require("./helpers.js");

const key = (i) => String(i).padStart(3, "0");
const row = (i, properties) => entity("p", key(i), properties);
const range = (length) => Array.from({ length }, (_, i) => i);

/** The failed operation: the SDK gives its index only at the start of the message. */
const failedIndex = (error) => Number(error.message.split(":", 1)[0]);

describe("04 batches", () => {
  test("every operation in one batch", async (t) => {
    const table = await freshTable(t);
    for (const i of [1, 2, 3, 4, 5]) await table.createEntity(row(i, { A: 5, B: "x" }));
    const { subResponses } = await table.submitTransaction([
      ["create", row(0, { A: 6 })],
      ["update", row(1, { A: 6 }), "Merge"],
      ["update", row(2, { A: 6 }), "Replace"],
      ["upsert", row(3, { A: 6 }), "Merge"],
      ["upsert", row(4, { A: 6 }), "Replace"],
      ["delete", row(5)],
      ["upsert", row(6, { A: 6 }), "Merge"],
      ["upsert", row(7, { A: 6 }), "Replace"],
    ]);
    const merged = [1, 3];
    assert.deepEqual(
      await list(table),
      [0, 1, 2, 3, 4, 6, 7].map((i) => row(i, merged.includes(i) ? { A: 6, B: "x" } : { A: 6 })),
    );
    assert.deepEqual(subResponses.map(({ status }) => status), Array(8).fill(204));
    assert.deepEqual(subResponses.map(({ etag }) => Boolean(etag)), [true, true, true, true, true, false, true, true]);
    assert.equal((await table.getEntity("p", "000")).etag, subResponses[0].etag.trim());
  });

  test("100 operations", async (t) => {
    const table = await freshTable(t);
    await table.submitTransaction(range(100).map((i) => ["create", row(i, { A: i })]));
    assert.equal((await list(table)).length, 100);
    const kinds = [
      (i) => ["update", row(i, { B: i }), "Merge"],
      (i) => ["update", row(i, { B: i }), "Replace"],
      (i) => ["upsert", row(i, { B: i }), "Merge"],
      (i) => ["delete", row(i)],
    ];
    const { subResponses } = await table.submitTransaction(range(100).map((i) => kinds[i % 4](i)));
    assert.equal(subResponses.length, 100);
    const left = range(100).filter((i) => i % 4 !== 3);
    assert.deepEqual(await list(table), left.map((i) => row(i, i % 4 === 1 ? { B: i } : { A: i, B: i })));
  });

  test("with etags", async (t) => {
    const table = await freshTable(t);
    const { etag } = await table.createEntity(row(1));
    await table.submitTransaction([["create", row(0)], ["update", row(1, { A: 6 }), "Replace", { etag }]]);
    const batch = [["delete", row(0)], ["update", row(1), "Merge", { etag }]];
    const error = await refused(412, "UpdateConditionNotSatisfied", table.submitTransaction(batch));
    assert.equal(failedIndex(error), 1);
    assert.deepEqual(await list(table), [row(0), row(1, { A: 6 })]);
  });

  const failing = {
    "insert existing": [["create", row(9)], 409, "EntityAlreadyExists"],
    "merge missing": [["update", row(8), "Merge"], 404, "ResourceNotFound"],
    "replace missing": [["update", row(8), "Replace"], 404, "ResourceNotFound"],
    "delete missing": [["delete", row(8)], 404, "ResourceNotFound"],
    "value too large": [["create", row(2, { A: "x".repeat(32769) })], 400, "PropertyValueTooLarge"],
  };
  for (const [name, [operation, status, code]] of Object.entries(failing)) {
    test(`a failing operation undoes all: ${name}`, async (t) => {
      const table = await freshTable(t);
      await table.createEntity(row(9));
      const batch = [["create", row(0)], ["create", row(1)], operation, ["upsert", row(3)]];
      const error = await refused(status, code, table.submitTransaction(batch));
      if (code !== "PropertyValueTooLarge") assert.equal(failedIndex(error), 2); // The service gives no index for it.
      assert.deepEqual(await list(table), [row(9)]);
    });
  }

  test("101 operations are refused", async (t) => {
    const table = await freshTable(t);
    const batch = range(101).map((i) => ["create", row(i)]);
    await refused(400, "InvalidInput", table.submitTransaction(batch));
    assert.deepEqual(await list(table), []);
  });

  test("two partitions are refused", async (t) => {
    // The SDK itself refuses it.
    const table = await freshTable(t);
    const batch = [["create", entity("p", "r")], ["create", entity("q", "r")]];
    await assert.rejects(table.submitTransaction(batch), /must target the same partitionKey/);
  });

  test("the same row twice is refused", async (t) => {
    const table = await freshTable(t);
    const batch = [["create", row(0)], ["upsert", row(1)], ["upsert", row(0)]];
    const error = await refused(400, "InvalidDuplicateRow", table.submitTransaction(batch));
    assert.equal(failedIndex(error), 2);
    assert.deepEqual(await list(table), []);
  });

  test("over 4 MiB is refused", async (t) => {
    const table = await freshTable(t);
    const batch = range(70).map((i) => ["create", row(i, { A: Buffer.alloc(65536) })]);
    await refused(413, "RequestBodyTooLarge", table.submitTransaction(batch));
    assert.deepEqual(await list(table), []);
  });

  test("a missing table", async () => {
    const batch = [["create", row(0)], ["create", row(1)]];
    const error = await refused(404, "TableNotFound", missingTable().submitTransaction(batch));
    assert.equal(failedIndex(error), 0);
  });
});
