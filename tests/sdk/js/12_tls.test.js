"use strict";
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { describe } = require("node:test");
const { ACCOUNT, KEY, OPTIONS, all, entity } = require("./helpers.js");
const {
  CA_FILE, HTTPS_ENDPOINT, KEY2, accountSas, allowedBy, checkOutcomes, clients, everyOperation, httpsTable, namedKey,
  outcome, tableSas, tavola, testWithServer: test, trusting, withSas,
} = require("./secured.js");

const KEYS = { "key 1": KEY, "key 2": KEY2 };
const names = async ({ service }) => (await all(service.listTables())).map(({ name }) => name);

/** Expects that there is no connection, because of the certificate. */
async function refusedConnection(client) {
  await assert.rejects(all(client.service.listTables()), { name: "RestError", code: /CERT|VERIFY|ISSUER/ });
}

/** A folder that is gone when the test ends. */
function scratchFolder(context) {
  const folder = mkdtempSync(join(tmpdir(), "tavola-sdk-"));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

describe("12 tls", () => {
  for (const [keyName, key] of Object.entries(KEYS)) {
    for (const host of ["127.0.0.1", "localhost"]) {
      test(`every operation: ${keyName}, ${host}`, async (t) => {
        const { owner, name } = await httpsTable(t);
        const endpoint = HTTPS_ENDPOINT.replace("127.0.0.1", host);
        await checkOutcomes(owner, clients(endpoint, namedKey(key), trusting()), name, everyOperation("ok"));
      });
    }
  }

  test("pages and large bodies", async (t) => {
    const { owner, name } = await httpsTable(t);
    const table = owner.table(name);
    const rowKeys = Array.from({ length: 300 }, (_, i) => String(i).padStart(3, "0"));
    for (let i = 0; i < 300; i += 100) {
      const rows = rowKeys.slice(i, i + 100).map((rowKey) => entity("p", rowKey, { Text: "x".repeat(30_000) }));
      await table.submitTransaction(rows.map((row) => ["create", row]));
    }
    const pages = await all(table.listEntities().byPage({ maxPageSize: 70 }));
    assert.deepEqual(pages.flat().map(({ rowKey }) => rowKey), rowKeys);
  });

  test("an authority that is not trusted", async () => {
    await refusedConnection(clients(HTTPS_ENDPOINT, namedKey(), OPTIONS));
  });

  test("another authority", async (t) => {
    const folder = scratchFolder(t);
    tavola(["cert", "--authority", "--out", folder]);
    const ca = readFileSync(join(folder, "ca.pem"));
    await refusedConnection(clients(HTTPS_ENDPOINT, namedKey(), trusting({ tlsOptions: { ca } })));
  });

  // What `tavola cert` recommends. Node reads the variable when it starts.
  test("trust by variable", async (t) => {
    const { name } = await httpsTable(t);
    const program = `
      const { AzureNamedKeyCredential, TableServiceClient } = require("@azure/data-tables");
      const [endpoint, account, key] = process.argv.slice(1);
      const credential = new AzureNamedKeyCredential(account, key);
      const service = new TableServiceClient(endpoint, credential, { retryOptions: { maxRetries: 0 } });
      (async () => { for await (const { name } of service.listTables()) console.log(name); })();`;
    const run = (variables) => execFileSync(process.execPath, ["-e", program, HTTPS_ENDPOINT, ACCOUNT, KEY], {
      env: { ...process.env, ...variables }, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"],
    });
    assert.ok(run({ NODE_EXTRA_CA_CERTS: CA_FILE }).split("\n").includes(name));
    assert.throws(() => run({ NODE_EXTRA_CA_CERTS: "" }), (error) => /CERT|VERIFY|ISSUER/.test(error.stderr));
  });

  for (const [keyName, key] of Object.entries(KEYS)) {
    test(`signatures for https only: ${keyName}`, async (t) => {
      const { owner, name } = await httpsTable(t);
      const ofTable = tableSas(name, "raud", { key, protocol: "https" });
      await checkOutcomes(owner, withSas(ofTable, HTTPS_ENDPOINT, trusting()), name, allowedBy("raud"));
      const ofAccount = accountSas("l", "s", { key, protocol: "https" });
      assert.ok((await names(withSas(ofAccount, HTTPS_ENDPOINT, trusting()))).includes(name));
    });
  }

  test("our signatures for https only", async (t) => {
    const { owner, name } = await httpsTable(t);
    const string = `AccountName=${ACCOUNT};AccountKey=${KEY2};TableEndpoint=${HTTPS_ENDPOINT};`;
    const terms = ["--permissions", "raud", "--expires-in", "1h", "--https-only", "-o", "sas"];
    const sas = tavola(["sas", "table", name, ...terms], string);
    assert.ok(sas.includes("spr=https"), "for https only");
    await checkOutcomes(owner, withSas(sas, HTTPS_ENDPOINT, trusting()), name, allowedBy("raud"));
    assert.notEqual(await outcome(all(withSas(sas).table(name).listEntities())), "ok");
  });
});
