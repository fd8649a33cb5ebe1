"use strict";
// What the tests of credentials share: every operation with its outcome, and where the https server is.

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { test } = require("node:test");
const {
  AzureNamedKeyCredential, AzureSASCredential, RestError, TableClient, TableServiceClient, generateAccountSas,
  generateTableSas,
} = require("@azure/data-tables");
const {
  ACCOUNT, CONNECTION_STRING, ENDPOINT, KEY, OPTIONS, SCENARIO, all, entity, errorCode, tableName,
} = require("./helpers.js");

// `cargo xtask sdk` sets all variables; without the first there is no such server to test.
const HTTPS_ENDPOINT = process.env.TAVOLA_HTTPS_ENDPOINT;
const [BINARY, CA_FILE, KEY2, OIDC_URL, OTHER_OIDC_URL, AUTHORIZATION_URI] =
  ["BINARY", "CA_FILE", "KEY2", "OIDC_URL", "OTHER_OIDC_URL", "AUTHORIZATION_URI"].map((name) => {
    const value = process.env[`TAVOLA_${name}`];
    assert.ok(value || !HTTPS_ENDPOINT, `TAVOLA_${name} is not set`);
    return value;
  });

/** `test`, skipped without a variable. (The runner does not count the tests of a skipped suite.) */
const testWithServer = (name, run) => test(name, { skip: !HTTPS_ENDPOINT && "TAVOLA_HTTPS_ENDPOINT is not set" }, run);
const testWithBinary = (name, run) => test(name, { skip: !BINARY && "TAVOLA_BINARY is not set" }, run);

const NOT_PERMITTED = "403 AuthorizationPermissionMismatch";
const WRONG_TYPE = "403 AuthorizationResourceTypeMismatch";
const OUTSIDE = "403 AuthorizationFailure";
const UNAUTHENTICATED = "403 AuthenticationFailed";

// Clients

/** The options of a client that trusts the server's authority and no other. */
function trusting(options) {
  return { ...OPTIONS, tlsOptions: { ca: readFileSync(CA_FILE) }, ...options };
}

/** Clients with a credential, or with a signature in the URL. */
function clients(endpoint, credential, options = OPTIONS) {
  const rest = credential ? [credential, options] : [options];
  return {
    service: new TableServiceClient(endpoint, ...rest),
    table: (name) => new TableClient(endpoint, name, ...rest),
  };
}

const namedKey = (key = KEY) => new AzureNamedKeyCredential(ACCOUNT, key);
const withSas = (sas, endpoint = ENDPOINT, options = OPTIONS) =>
  clients(endpoint, new AzureSASCredential(sas), options);

/** The owner's clients of the https server, and the name of a fresh table there. */
async function httpsTable(context) {
  const owner = clients(HTTPS_ENDPOINT, namedKey(), trusting());
  const name = tableName();
  await owner.service.createTable(name);
  context.after(() => dropAll(owner, name));
  return { owner, name };
}

/** Deletes a table, and those that `checkOutcomes` leaves behind. */
async function dropAll(owner, name) {
  for (const suffix of ["", "created", "deleted"]) await owner.service.deleteTable(name + suffix);
}

// Operations

/** `ok`, or status and code of the refusal. */
async function outcome(promise) {
  try {
    await promise;
    return "ok";
  } catch (error) {
    if (!(error instanceof RestError) || !error.statusCode) throw error;
    return `${error.statusCode} ${errorCode(error)}`;
  }
}

const row = (name) => entity("p", name);
const changed = (name) => entity("p", name, { Changed: true });

const OPERATIONS = {
  properties: (service) => service.getProperties(),
  "list tables": (service) => all(service.listTables()),
  "create table": (service, table) => service.createTable(`${table.tableName}created`),
  "delete table": (service, table) => service.deleteTable(`${table.tableName}deleted`),
  get: (service, table) => table.getEntity("p", "get"),
  query: (service, table) => all(table.listEntities()),
  insert: (service, table) => table.createEntity(changed("insert")),
  merge: (service, table) => table.updateEntity(changed("merge"), "Merge"),
  replace: (service, table) => table.updateEntity(changed("replace"), "Replace"),
  upsert: (service, table) => table.upsertEntity(changed("upsert"), "Merge"),
  delete: (service, table) => table.deleteEntity("p", "delete"),
  batch: (service, table) => table.submitTransaction([
    ["create", changed("batch insert")],
    ["update", changed("batch merge"), "Merge"],
    ["delete", row("batch delete")],
  ]),
};
const BEFORE = ["get", "merge", "replace", "upsert", "delete", "batch merge", "batch delete"];
const EFFECTS = {
  insert: { insert: true },
  merge: { merge: true },
  replace: { replace: true },
  upsert: { upsert: true },
  delete: { delete: undefined },
  batch: { "batch insert": true, "batch merge": true, "batch delete": undefined },
};

/** Tries operations one after the other: `{ get: "ok", insert: "403 AuthorizationPermissionMismatch", ... }`. */
async function outcomes(names, attempt) {
  const found = {};
  for (const name of names) found[name] = await outcome(attempt(name));
  return found;
}

/** Tries the operations with clients. What is refused must also have no effect. */
async function checkOutcomes(owner, clients, name, expected) {
  const [mine, theirs] = [owner.table(name), clients.table(name)];
  for (const rowKey of BEFORE) await mine.createEntity(row(rowKey));
  await owner.service.createTable(`${name}deleted`);
  const found = await outcomes(Object.keys(expected), (operation) => OPERATIONS[operation](clients.service, theirs));
  assert.deepEqual(found, expected);

  const allowed = Object.keys(expected).filter((operation) => expected[operation] === "ok");
  const rows = Object.assign(
    Object.fromEntries(BEFORE.map((rowKey) => [rowKey, false])),
    ...allowed.map((operation) => EFFECTS[operation] ?? {}),
  );
  const stored = (await all(mine.listEntities())).map(({ rowKey, Changed = false }) => [rowKey, Changed]);
  const wanted = Object.entries(rows).filter(([, isChanged]) => isChanged !== undefined);
  assert.deepEqual(Object.fromEntries(stored), Object.fromEntries(wanted));
  const tables = (await all(owner.service.listTables())).map((table) => table.name);
  assert.equal(tables.includes(`${name}created`), allowed.includes("create table"));
  assert.equal(tables.includes(`${name}deleted`), !allowed.includes("delete table"));
}

// Signatures

const inMinutes = (minutes) => new Date(Date.now() + minutes * 60_000);
const letters = (text, names) => Object.fromEntries([...text].map((letter) => [names[letter], true]));
const tablePermissions = (text) => letters(text, { r: "query", a: "add", u: "update", d: "delete" });

function tableSas(name, permissions = "raud", { key, ...terms } = {}) {
  const given = { permissions: tablePermissions(permissions), expiresOn: inMinutes(60), ...terms };
  return generateTableSas(name, namedKey(key), given);
}

function accountSas(permissions = "rwdlau", types = "sco", { key, ...terms } = {}) {
  const names = { r: "query", w: "write", d: "delete", l: "list", a: "add", u: "update" };
  const given = { permissions: letters(permissions, names), resourceTypes: types, expiresOn: inMinutes(60), ...terms };
  return generateAccountSas(namedKey(key), given);
}

const isSubset = (some, all) => [...some].every((letter) => all.includes(letter));

/** What each operation on a table gets with these permissions. */
function allowedBy(permissions) {
  return Object.fromEntries(SCENARIO.table_operations.map(({ name, needs }) =>
    [name, isSubset(needs, permissions) ? "ok" : NOT_PERMITTED]));
}

/** The same for every operation, whatever it is. */
function everyOperation(result) {
  return Object.fromEntries(SCENARIO.account_operations.map(({ name }) => [name, result]));
}

/** What the command prints. It gets no variables of the suite: it would take some for its own settings. */
function tavola(words, connectionString = CONNECTION_STRING) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TAVOLA_")));
  env.AZURE_STORAGE_CONNECTION_STRING = connectionString;
  return execFileSync(BINARY, words, { env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
}

module.exports = {
  HTTPS_ENDPOINT, CA_FILE, KEY2, OIDC_URL, OTHER_OIDC_URL, AUTHORIZATION_URI, OPERATIONS,
  NOT_PERMITTED, WRONG_TYPE, OUTSIDE, UNAUTHENTICATED, testWithServer, testWithBinary,
  clients, trusting, namedKey, withSas, httpsTable, dropAll, outcome, outcomes, checkOutcomes,
  inMinutes, tableSas, accountSas, allowedBy, everyOperation, isSubset, tavola,
};
