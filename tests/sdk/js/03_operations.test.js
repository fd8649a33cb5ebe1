"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { all, entity, freshTable, get, list, missingTable, refused } = require("./helpers.js");

const MODES = ["Replace", "Merge"];
const STALE = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"";
const row = (properties) => entity("p", "r", properties);

/** What an update of `old` with `changed` leaves behind. */
const after = (mode, old, changed) => (mode === "Merge" ? { ...old, ...changed } : changed);

describe("03 operations", () => {
  test("insert and get", async (t) => {
    const table = await freshTable(t);
    const { etag } = await table.createEntity(row({ A: 5 }));
    assert.deepEqual(await get(table), row({ A: 5 }));
    assert.equal((await table.getEntity("p", "r")).etag, etag);
  });

  test("insert an existing entity", async (t) => {
    const table = await freshTable(t);
    await table.createEntity(row({ A: 5 }));
    await refused(409, "EntityAlreadyExists", table.createEntity(row({ A: 6 })));
    assert.deepEqual(await get(table), row({ A: 5 }));
  });

  for (const mode of MODES) {
    test(`update any version: ${mode}`, async (t) => {
      const table = await freshTable(t);
      await table.createEntity(row({ A: 5, B: "x" }));
      await table.updateEntity(row({ A: 6, C: true }), mode);
      assert.deepEqual(await get(table), after(mode, row({ A: 5, B: "x" }), row({ A: 6, C: true })));
    });

    test(`update with the etag: ${mode}`, async (t) => {
      const table = await freshTable(t);
      const { etag } = await table.createEntity(row({ A: 5, B: "x" }));
      const updated = await table.updateEntity(row({ A: "other type" }), mode, { etag });
      assert.deepEqual(await get(table), after(mode, row({ A: 5, B: "x" }), row({ A: "other type" })));
      assert.equal((await table.getEntity("p", "r")).etag, updated.etag);
      assert.notEqual(updated.etag, etag);
    });

    test(`upsert: ${mode}`, async (t) => {
      const table = await freshTable(t);
      await table.upsertEntity(row({ A: 5, B: "x" }), mode);
      assert.deepEqual(await get(table), row({ A: 5, B: "x" }));
      await table.upsertEntity(row({ A: 6 }), mode);
      assert.deepEqual(await get(table), after(mode, row({ A: 5, B: "x" }), row({ A: 6 })));
    });
  }

  test("delete any version", async (t) => {
    const table = await freshTable(t);
    await table.createEntity(row());
    await table.deleteEntity("p", "r");
    assert.deepEqual(await list(table), []);
  });

  test("delete with the etag", async (t) => {
    const table = await freshTable(t);
    const { etag } = await table.createEntity(row());
    await table.deleteEntity("p", "r", { etag });
    assert.deepEqual(await list(table), []);
  });

  const conditional = {
    "update with a stale etag: Replace": (table, etag) => table.updateEntity(row({ A: 7 }), "Replace", { etag }),
    "update with a stale etag: Merge": (table, etag) => table.updateEntity(row({ A: 7 }), "Merge", { etag }),
    "delete with a stale etag": (table, etag) => table.deleteEntity("p", "r", { etag }),
  };
  for (const [name, write] of Object.entries(conditional)) {
    test(name, async (t) => {
      const table = await freshTable(t);
      const old = await table.createEntity(row({ A: 5 }));
      await table.updateEntity(row({ A: 6 }));
      for (const etag of [old.etag, STALE]) {
        await refused(412, "UpdateConditionNotSatisfied", write(table, etag));
      }
      assert.deepEqual(await get(table), row({ A: 6 }));
    });
  }

  test("a missing entity", async (t) => {
    const table = await freshTable(t);
    await refused(404, "ResourceNotFound", table.getEntity("p", "r"));
    for (const mode of MODES) await refused(404, "ResourceNotFound", table.updateEntity(row(), mode));
    await refused(404, "ResourceNotFound", table.deleteEntity("p", "r"));
  });

  test("a missing table", async () => {
    const missing = missingTable();
    const calls = [
      () => missing.createEntity(row()),
      () => missing.getEntity("p", "r"),
      () => missing.updateEntity(row(), "Replace"),
      () => missing.updateEntity(row(), "Merge"),
      () => missing.upsertEntity(row(), "Replace"),
      () => missing.upsertEntity(row(), "Merge"),
      () => missing.deleteEntity("p", "r"),
      () => all(missing.listEntities()),
    ];
    for (const call of calls) await refused(404, "TableNotFound", call());
  });

  test("each write changes etag and timestamp", async (t) => {
    const table = await freshTable(t);
    const writes = [
      () => table.createEntity(row({ A: 5 })),
      () => table.updateEntity(row({ A: 5 }), "Merge"),
      () => table.updateEntity(row({ A: 5 }), "Replace"),
      () => table.upsertEntity(row({ A: 5 }), "Merge"),
      () => table.upsertEntity(row({ A: 5 }), "Replace"),
    ];
    const seen = [];
    for (const write of writes) {
      const { etag } = await write();
      const stored = await table.getEntity("p", "r");
      assert.equal(stored.etag, etag);
      assert.equal(etag, `W/"datetime'${stored.timestamp.replaceAll(":", "%3A")}'"`);
      const [seconds, ticks = ""] = stored.timestamp.slice(0, -1).split(".");
      seen.push(`${seconds}.${ticks.padEnd(7, "0")}`);
    }
    assert.deepEqual(seen, [...new Set(seen)].sort());
  });
});
