"use strict";
// Clients, tables and values for the scenario.

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { AzureNamedKeyCredential, RestError, TableClient, TableServiceClient } = require("@azure/data-tables");

const { TAVOLA_ENDPOINT: ENDPOINT, TAVOLA_ACCOUNT: ACCOUNT, TAVOLA_KEY: KEY, TAVOLA_PREFIX: PREFIX } = process.env;
const SCENARIO = JSON.parse(readFileSync(process.env.TAVOLA_SCENARIO, "utf8"));

// Clients. No retries: a server error must be seen, not be repaired.

const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${ENDPOINT};`;

const service = TableServiceClient.fromConnectionString(CONNECTION_STRING, OPTIONS);

function tableClient(name) {
  return TableClient.fromConnectionString(CONNECTION_STRING, name, OPTIONS);
}

/** Clients of the same account, made in the other way: from the endpoint and a credential. */
function fromEndpoint({ endpoint = ENDPOINT, key = KEY } = {}) {
  const credential = new AzureNamedKeyCredential(ACCOUNT, key);
  return {
    service: new TableServiceClient(endpoint, credential, OPTIONS),
    table: (name) => new TableClient(endpoint, name, credential, OPTIONS),
  };
}

let numbers = 0;
function tableName() {
  return `${PREFIX}p${process.pid}n${numbers++}`;
}

/** A client of a fresh, empty table, which is deleted when the test ends. */
async function freshTable(context) {
  const table = tableClient(tableName());
  await table.createTable();
  context.after(() => table.deleteTable());
  return table;
}

function missingTable() {
  return tableClient(tableName());
}

// Entities

function entity(partitionKey, rowKey, properties) {
  return { partitionKey, rowKey, ...properties };
}

/** What was stored: the entity without what the service adds, and without properties that came as null. */
function plain({ etag, timestamp, "odata.metadata": metadata, ...stored }) {
  return Object.fromEntries(Object.entries(stored).filter(([, value]) => value !== null));
}

async function get(table, partitionKey = "p", rowKey = "r") {
  return plain(await table.getEntity(partitionKey, rowKey));
}

async function all(pager) {
  const items = [];
  for await (const item of pager) items.push(item);
  return items;
}

async function list(table, queryOptions) {
  return (await all(table.listEntities({ queryOptions }))).map(plain);
}

function textOf({ text, times = 1 }) {
  return text.repeat(times);
}

function caseName({ name, type, text, times }) {
  return name ?? `${type} ${JSON.stringify(text)}${times ? ` x ${times}` : ""}`;
}

// How each EDM type is given to the SDK, and how it comes back. NaN and the infinities come back as texts, dates
// without what is finer than a millisecond; there is no negative zero on the wire.
const EDM = {
  Int32: { send: Number, read: Number },
  Int64: { send: BigInt, read: BigInt },
  Double: {
    send: (value) => ({ type: "Double", value }),
    read: (text) => (Number.isFinite(Number(text)) ? Number(text) + 0 : text),
  },
  DateTime: { send: (value) => ({ type: "DateTime", value }), read: (text) => new Date(text) },
  Guid: { send: (value) => ({ type: "Guid", value }), read: (value) => ({ type: "Guid", value }) },
  Binary: { send: (text) => Buffer.from(text, "hex"), read: (text) => Buffer.from(text, "hex") },
  String: { send: String, read: String },
  Boolean: { send: (text) => text === "true", read: (text) => text === "true" },
};

/** A row of the scenario, ready to be sent. */
function scenarioRow({ PartitionKey, RowKey, ...texts }) {
  const properties = Object.entries(texts).map(([name, text]) => [name, (EDM[name] ?? EDM.String).send(text)]);
  return entity(PartitionKey, RowKey, Object.fromEntries(properties));
}

// Errors

function errorCode(error) {
  return error.details?.odataError?.code ?? error.code ?? error.details?.errorCode;
}

/** Expects that the promise fails with the SDK's own error, with this status and code; gives the error. */
async function refused(status, code, promise) {
  let error;
  await assert.rejects(promise, (thrown) => ((error = thrown), true));
  assert.ok(error instanceof RestError, `${error}`);
  assert.equal(error.statusCode, status, `${error}`);
  if (code) assert.equal(errorCode(error), code, `${error}`);
  return error;
}

module.exports = {
  ENDPOINT, ACCOUNT, KEY, PREFIX, SCENARIO, OPTIONS, CONNECTION_STRING, EDM,
  service, fromEndpoint, tableClient, tableName, freshTable, missingTable,
  entity, plain, get, all, list, textOf, caseName, scenarioRow, errorCode, refused,
};
