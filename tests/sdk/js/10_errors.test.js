"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { all, entity, freshTable, fromEndpoint, get, list, missingTable, refused } = require("./helpers.js");

const row = (properties) => entity("p", "r", properties);
const ERRORS = {
  exists: [
    (table) => table.createEntity(row()),
    409, "EntityAlreadyExists", "The specified entity already exists.",
  ],
  "no entity": [
    (table) => table.getEntity("p", "missing"),
    404, "ResourceNotFound", "The specified resource does not exist.",
  ],
  "no table": [
    (table, missing) => missing.getEntity("p", "r"),
    404, "TableNotFound", "The table specified does not exist.",
  ],
  changed: [
    (table) => table.updateEntity(row(), "Merge", { etag: 'W/"stale"' }),
    412, "UpdateConditionNotSatisfied", "The update condition specified in the request was not satisfied.",
  ],
  "bad filter": [
    (table) => all(table.listEntities({ queryOptions: { filter: "aaa bbb ccc" } })),
    400, "InvalidInput", "Syntax error at position",
  ],
};

describe("10 errors", () => {
  for (const [name, [call, status, code, text]] of Object.entries(ERRORS)) {
    test(`type, status, code and message: ${name}`, async (t) => {
      const table = await freshTable(t);
      await table.createEntity(row());
      const error = await refused(status, code, call(table, missingTable()));
      assert.equal(error.name, "RestError");
      assert.ok(error.message.includes(text), error.message);
    });
  }

  test("the message names the request", async (t) => {
    const table = await freshTable(t);
    const error = await refused(404, "ResourceNotFound", table.getEntity("p", "missing"));
    const [, requestId, time] = error.details.odataError.message.value.match(/\nRequestId:(\S+)\nTime:(\S+)/);
    assert.equal(requestId, error.response.headers.get("x-ms-request-id"));
    assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/);
  });

  test("the client request id comes back", async (t) => {
    const table = await freshTable(t);
    const call = table.getEntity("p", "missing", { requestId: "my-own-id" });
    const error = await refused(404, "ResourceNotFound", call);
    assert.equal(error.response.headers.get("x-ms-client-request-id"), "my-own-id");
  });

  test("a wrong key", async (t) => {
    const table = await freshTable(t);
    const wrong = fromEndpoint({ key: Buffer.alloc(64, "w").toString("base64") });
    const other = wrong.table(table.tableName);
    const calls = [
      () => other.getEntity("p", "r"),
      () => other.upsertEntity(row()),
      () => all(other.listEntities()),
      () => all(wrong.service.listTables()),
      () => wrong.service.getProperties(),
      () => other.submitTransaction([["create", row()]]),
    ];
    for (const call of calls) await refused(403, "AuthenticationFailed", call());
    assert.deepEqual(await list(table), []);
  });

  test("the client works on after errors", async (t) => {
    const table = await freshTable(t);
    const missing = missingTable();
    for (let i = 0; i < 20; i++) {
      await refused(404, "TableNotFound", missing.createEntity(row({ A: "x".repeat(1000) })));
      await table.upsertEntity(row({ A: 5 }));
      assert.deepEqual(await get(table), row({ A: 5 }));
    }
  });
});
