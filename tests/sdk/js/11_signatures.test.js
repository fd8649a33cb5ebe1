"use strict";
const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { TableClient, TableServiceClient } = require("@azure/data-tables");
const {
  ENDPOINT, OPTIONS, SCENARIO, all, caseName, entity, freshTable, list, refused, service, tableClient, textOf,
} = require("./helpers.js");
const {
  NOT_PERMITTED, OPERATIONS, OUTSIDE, UNAUTHENTICATED, WRONG_TYPE, accountSas, allowedBy, checkOutcomes, clients,
  dropAll, everyOperation, inMinutes, isSubset, outcome, outcomes, tableSas, tavola, testWithBinary, withSas,
} = require("./secured.js");

const owner = { service, table: tableClient };

/** A fresh table; whatever tests make of its name is deleted as well. */
async function tableToTry(context) {
  const table = await freshTable(context);
  context.after(() => dropAll(owner, table.tableName));
  return table;
}

const keyOf = ({ partitionKey, rowKey }) => partitionKey + rowKey;
const rowOf = (name, properties) => entity(name[0], name[1], properties);
const keys = async (pager) => (await all(pager)).map(keyOf);

describe("11 signatures that the SDK makes, for a table", () => {
  for (const permissions of SCENARIO.table_permissions) {
    test(`permissions: ${permissions}`, async (t) => {
      const { tableName } = await tableToTry(t);
      const signed = withSas(tableSas(tableName, permissions));
      await checkOutcomes(owner, signed, tableName, allowedBy(permissions));
    });
  }

  test("the signature in the URL", async (t) => {
    const { tableName } = await tableToTry(t);
    const signed = clients(`${ENDPOINT}?${tableSas(tableName)}`);
    await checkOutcomes(owner, signed, tableName, allowedBy("raud"));
  });

  test("what no signature for a table opens", async (t) => {
    const { tableName } = await tableToTry(t);
    const signed = withSas(tableSas(tableName));
    const closed = ["properties", "list tables", "create table", "delete table"];
    await checkOutcomes(owner, signed, tableName, Object.fromEntries(closed.map((name) => [name, OUTSIDE])));
    assert.equal(await outcome(signed.table(tableName).getAccessPolicy()), OUTSIDE);
    assert.equal(await outcome(signed.table(tableName).setAccessPolicy([])), OUTSIDE);
  });

  test("another table", async (t) => {
    const [table, other] = [await freshTable(t), await freshTable(t)];
    await other.createEntity(entity("p", "get"));
    const signed = withSas(tableSas(table.tableName)).table(other.tableName);
    for (const name of ["get", "query", "insert", "upsert", "delete", "batch"]) {
      assert.equal(await outcome(OPERATIONS[name](null, signed)), OUTSIDE, name);
    }
  });

  const times = {
    "no start": [undefined, 60, "ok"],
    now: [-60, 60, "ok"],
    "not yet": [60, 120, UNAUTHENTICATED],
    "no more": [-60, -1, UNAUTHENTICATED],
  };
  for (const [name, [start, expiry, expected]] of Object.entries(times)) {
    test(`times: ${name}`, async (t) => {
      const { tableName } = await freshTable(t);
      const terms = { startsOn: start && inMinutes(start), expiresOn: inMinutes(expiry) };
      for (const sas of [tableSas(tableName, "raud", terms), accountSas("rwdlau", "sco", terms)]) {
        const signed = withSas(sas).table(tableName);
        assert.equal(await outcome(all(signed.listEntities())), expected);
        assert.equal(await outcome(signed.submitTransaction([["upsert", entity("p", "r")]])), expected);
      }
    });
  }

  const addresses = [
    [{ start: "127.0.0.1" }, "ok"],
    [{ start: "127.0.0.0", end: "127.0.0.9" }, "ok"],
    [{ start: "203.0.113.7" }, "403 AuthorizationSourceIPMismatch"],
    [{ start: "127.0.0.2", end: "127.0.0.9" }, "403 AuthorizationSourceIPMismatch"],
  ];
  for (const [ipRange, expected] of addresses) {
    test(`addresses: ${Object.values(ipRange).join("-")}`, async (t) => {
      const { tableName } = await freshTable(t);
      for (const sas of [tableSas(tableName, "r", { ipRange }), accountSas("r", "o", { ipRange })]) {
        assert.equal(await outcome(all(withSas(sas).table(tableName).listEntities())), expected);
      }
    });
  }

  for (const [protocol, expected] of [["https,http", "ok"], ["https", "403 AuthorizationProtocolMismatch"]]) {
    test(`protocols: ${protocol}`, async (t) => {
      const { tableName } = await freshTable(t);
      for (const sas of [tableSas(tableName, "r", { protocol }), accountSas("r", "o", { protocol })]) {
        assert.equal(await outcome(all(withSas(sas).table(tableName).listEntities())), expected);
      }
    });
  }

  test("a stored policy", async (t) => {
    const table = await freshTable(t);
    const id = "readers & writers";
    const sas = tableSas(table.tableName, "", { identifier: id, expiresOn: undefined });
    const signed = withSas(sas).table(table.tableName);
    const both = async () => [
      await outcome(all(signed.listEntities())),
      await outcome(signed.upsertEntity(entity("p", "r"))),
    ];
    const store = (permission, minutes) =>
      table.setAccessPolicy([{ id, accessPolicy: { expiry: inMinutes(minutes), permission } }]);
    assert.deepEqual(await both(), [UNAUTHENTICATED, UNAUTHENTICATED]);
    await store("r", 60);
    assert.deepEqual(await both(), ["ok", NOT_PERMITTED]);
    await store("au", 60);
    assert.deepEqual(await both(), [NOT_PERMITTED, "ok"]);
    await store("raud", -1);
    assert.deepEqual(await both(), [UNAUTHENTICATED, UNAUTHENTICATED]);
    await store("raud", 60);
    assert.deepEqual(await both(), ["ok", "ok"]);
    await table.setAccessPolicy([]);
    assert.deepEqual(await both(), [UNAUTHENTICATED, UNAUTHENTICATED]);
  });

  test("a field in both signature and policy", async (t) => {
    const table = await freshTable(t);
    const accessPolicy = { expiry: inMinutes(60), permission: "raud" };
    await table.setAccessPolicy([{ id: "all", accessPolicy }]);
    for (const [expiresOn, expected] of [[undefined, "ok"], [inMinutes(30), UNAUTHENTICATED]]) {
      const sas = tableSas(table.tableName, "", { identifier: "all", expiresOn });
      assert.equal(await outcome(all(withSas(sas).table(table.tableName).listEntities())), expected);
    }
  });

  const rangeOf = ({ spk, srk, epk, erk }) =>
    ({ startPartitionKey: spk, startRowKey: srk, endPartitionKey: epk, endRowKey: erk });

  for (const range of SCENARIO.ranges) {
    test(`ranges: ${range.name}`, async (t) => {
      const table = await freshTable(t);
      const rows = SCENARIO.range_rows;
      for (const name of rows) await table.createEntity(rowOf(name));
      const signed = withSas(tableSas(table.tableName, "raud", rangeOf(range))).table(table.tableName);
      const inside = range.rows.split(" ").filter(Boolean);

      assert.deepEqual(await keys(signed.listEntities()), inside);
      const pages = signed.listEntities().byPage({ maxPageSize: 1 });
      assert.deepEqual((await all(pages)).flat().map(keyOf), inside);
      const filtered = signed.listEntities({ queryOptions: { filter: "RowKey ge '2'" } });
      assert.deepEqual(await keys(filtered), inside.filter((name) => name[1] >= "2"));
      const expected = Object.fromEntries(rows.map((name) => [name, inside.includes(name) ? "ok" : OUTSIDE]));
      const attempts = {
        get: (name) => signed.getEntity(name[0], name[1]),
        upsert: (name) => signed.upsertEntity(rowOf(name, { A: 5 })),
        batch: (name) => signed.submitTransaction([["upsert", rowOf(name)]]),
        delete: (name) => signed.deleteEntity(name[0], name[1]),
        insert: (name) => signed.createEntity(rowOf(name)),
      };
      for (const [operation, attempt] of Object.entries(attempts)) {
        assert.deepEqual(await outcomes(rows, attempt), expected, operation);
      }
      // A last word on what lies outside: nothing of all that reached it.
      const touched = (await list(table, { filter: "A eq 5" })).map(keyOf);
      assert.deepEqual(touched.filter((name) => !inside.includes(name)), []);
    });
  }

  test("a batch half outside of the range", async (t) => {
    const table = await freshTable(t);
    const range = rangeOf({ spk: "p", srk: "2", epk: "p", erk: "3" });
    const signed = withSas(tableSas(table.tableName, "raud", range)).table(table.tableName);
    const batch = ["2", "3", "4"].map((name) => ["create", entity("p", name)]);
    const error = await refused(403, "AuthorizationFailure", signed.submitTransaction(batch));
    assert.match(error.message, /^2:/);
    assert.deepEqual(await list(table), []);
    await signed.submitTransaction(batch.slice(0, 2));
    assert.deepEqual(await keys(table.listEntities()), ["p2", "p3"]);
  });

  for (const item of SCENARIO.keys.filter(({ text }) => text)) {
    test(`ranges of unusual keys: ${caseName(item)}`, async (t) => {
      const table = await freshTable(t);
      const key = textOf(item);
      for (const name of [key, "other"]) await table.createEntity(entity(name, name));
      const sas = tableSas(table.tableName, "r", rangeOf({ spk: key, srk: key, epk: key, erk: key }));
      for (const signed of [withSas(sas), clients(`${ENDPOINT}?${sas}`)]) {
        const theirs = signed.table(table.tableName);
        assert.deepEqual(await list(theirs), [entity(key, key)]);
        assert.equal(await outcome(theirs.getEntity(key, key)), "ok");
        assert.equal(await outcome(theirs.getEntity("other", "other")), OUTSIDE);
      }
    });
  }

  test("the name in another case", async (t) => {
    const table = await freshTable(t);
    const signed = withSas(tableSas(table.tableName.toUpperCase())).table(table.tableName);
    await signed.createEntity(entity("p", "r"));
    assert.deepEqual(await list(table), [entity("p", "r")]);
  });

  test("a changed signature", async (t) => {
    const { tableName } = await freshTable(t);
    const sas = tableSas(tableName, "r");
    for (const [before, after] of [["sp=r&", "sp=raud&"], ["sv=2019-02-02", "sv=2020-12-06"], ["tn=", "tn=x"]]) {
      assert.ok(sas.includes(before), before);
      const signed = withSas(sas.replace(before, after)).table(tableName);
      for (const call of [() => all(signed.listEntities()), () => signed.upsertEntity(entity("p", "r"))]) {
        assert.ok([UNAUTHENTICATED, OUTSIDE].includes(await outcome(call())), after);
      }
    }
  });
});

describe("11 signatures that the SDK makes, for the account", () => {
  for (const { types, permissions } of SCENARIO.account_permissions) {
    test(`account permissions: ${types} ${permissions}`, async (t) => {
      const { tableName } = await tableToTry(t);
      const expected = SCENARIO.account_operations.map((operation) => {
        if (![...operation.types].some((letter) => types.includes(letter))) return [operation.name, WRONG_TYPE];
        return [operation.name, isSubset(operation.needs, permissions) ? "ok" : NOT_PERMITTED];
      });
      const signed = withSas(accountSas(permissions, types));
      await checkOutcomes(owner, signed, tableName, Object.fromEntries(expected));
    });
  }

  test("access policies are for the owner", async (t) => {
    const { tableName } = await freshTable(t);
    const theirs = withSas(accountSas()).table(tableName);
    assert.equal(await outcome(theirs.getAccessPolicy()), OUTSIDE);
    assert.equal(await outcome(theirs.setAccessPolicy([])), OUTSIDE);
  });

  test("other services", async (t) => {
    const { tableName } = await freshTable(t);
    const sas = accountSas("rwdlau", "sco", { services: { blob: true, queue: true, file: true } });
    const theirs = withSas(sas).table(tableName);
    assert.equal(await outcome(all(theirs.listEntities())), "403 AuthorizationServiceMismatch");
    const both = withSas(accountSas("r", "o", { services: { blob: true, table: true } })).table(tableName);
    assert.equal(await outcome(all(both.listEntities())), "ok");
  });
});

describe("11 signatures that tavola sas makes", () => {
  for (const permissions of ["r", "au", "raud"]) {
    testWithBinary(`ours for a table: ${permissions}`, async (t) => {
      const { tableName } = await tableToTry(t);
      const terms = ["--permissions", permissions, "--expires-in", "1h", "-o", "sas"];
      const signed = withSas(tavola(["sas", "table", tableName, ...terms]));
      await checkOutcomes(owner, signed, tableName, allowedBy(permissions));
    });
  }

  testWithBinary("ours as url", async (t) => {
    const table = await freshTable(t);
    const url = tavola(["sas", "table", table.tableName, "--permissions", "raud", "--expires-in", "1h", "-o", "url"]);
    // The SDK wants the account's URL; it adds the name of the table itself.
    assert.ok(url.startsWith(`${ENDPOINT}/${table.tableName}?`), "the URL of the table");
    const signed = new TableClient(url.replace(`/${table.tableName}?`, "?"), table.tableName, OPTIONS);
    await signed.submitTransaction([["create", entity("p", "r")]]);
    assert.deepEqual(await list(signed), [entity("p", "r")]);
  });

  testWithBinary("ours as connection string", async (t) => {
    const { tableName } = await freshTable(t);
    const terms = ["--permissions", "raud", "--expires-in", "1h", "-o", "connection-string"];
    const text = tavola(["sas", "table", tableName, ...terms]);
    const signed = TableClient.fromConnectionString(text, tableName, OPTIONS);
    await signed.submitTransaction([["create", entity("p", "r")]]);
    assert.deepEqual(await list(signed), [entity("p", "r")]);
  });

  for (const range of SCENARIO.ranges.slice(0, -1)) {
    testWithBinary(`ours with a range: ${range.name}`, async (t) => {
      const table = await freshTable(t);
      for (const name of SCENARIO.range_rows) await table.createEntity(rowOf(name));
      const flags = { spk: "--from-partition", srk: "--from-row", epk: "--to-partition", erk: "--to-row" };
      const terms = Object.keys(flags).filter((name) => name in range).flatMap((name) => [flags[name], range[name]]);
      const sas = tavola(["sas", "table", table.tableName, ...terms, "-o", "sas"]);
      assert.deepEqual(await keys(withSas(sas).table(table.tableName).listEntities()), range.rows.split(" "));
    });
  }

  testWithBinary("ours with a policy", async (t) => {
    const table = await freshTable(t);
    const sas = tavola(["sas", "table", table.tableName, "--policy", "readers", "-o", "sas"]);
    const signed = withSas(sas).table(table.tableName);
    assert.equal(await outcome(all(signed.listEntities())), UNAUTHENTICATED);
    await table.setAccessPolicy([{ id: "readers", accessPolicy: { expiry: inMinutes(60), permission: "r" } }]);
    assert.equal(await outcome(all(signed.listEntities())), "ok");
    assert.equal(await outcome(signed.upsertEntity(entity("p", "r"))), NOT_PERMITTED);
  });

  testWithBinary("ours for the account", async (t) => {
    const { tableName } = await tableToTry(t);
    const terms = ["--services", "t", "--resource-types", "sco", "--permissions", "rwdlacu", "--expires-in", "1h"];
    const sas = tavola(["sas", "account", ...terms, "--ip", "127.0.0.1", "-o", "sas"]);
    await checkOutcomes(owner, withSas(sas), tableName, everyOperation("ok"));
    const text = tavola(["sas", "account", ...terms, "-o", "connection-string"]);
    const lister = TableServiceClient.fromConnectionString(text, OPTIONS);
    assert.ok((await all(lister.listTables())).some(({ name }) => name === tableName));
    const reader = clients(tavola(["sas", "account", "--resource-types", "o", "--permissions", "r", "-o", "url"]));
    assert.equal(await outcome(all(reader.service.listTables())), WRONG_TYPE);
    assert.equal(await outcome(all(reader.table(tableName).listEntities())), "ok");
  });
});
