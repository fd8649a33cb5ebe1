"use strict";
const assert = require("node:assert/strict");
const { afterEach, beforeEach, describe, test } = require("node:test");
const { ENDPOINT, freshTable, fromEndpoint, missingTable, refused, service } = require("./helpers.js");

const WEEK = { enabled: true, days: 7 };
const NEVER = { enabled: false };
const anyone = {
  allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 0,
};

/** The properties without the headers of the response, and without the absent ones, which come as undefined. */
async function properties() {
  const { logging, hourMetrics, minuteMetrics, cors = [] } = await service.getProperties();
  return JSON.parse(JSON.stringify({ logging, hourMetrics, minuteMetrics, cors }));
}

describe("09 service", () => {
  let before;
  beforeEach(async () => (before = await properties()));
  afterEach(() => service.setProperties(before));

  test("properties round trip", async () => {
    const changed = {
      logging: { version: "1.0", delete: true, read: false, write: true, retentionPolicy: WEEK },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: WEEK },
      minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: NEVER },
      cors: [
        { ...anyone, allowedOrigins: "http://a.example" },
        {
          allowedOrigins: "http://b.example,http://*.c.example",
          allowedMethods: "GET,PUT,MERGE",
          allowedHeaders: "x-ms-meta-*,content-type",
          exposedHeaders: "x-ms-*",
          maxAgeInSeconds: 500,
        },
      ],
    };
    await service.setProperties(changed);
    assert.deepEqual(await properties(), changed);
  });

  test("an omitted group keeps its value", async () => {
    await service.setProperties({ cors: [anyone] });
    const expected = await properties();
    const retentionPolicy = { enabled: true, days: 3 };
    expected.minuteMetrics = { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy };
    await service.setProperties({ minuteMetrics: expected.minuteMetrics });
    assert.deepEqual(await properties(), expected);
  });

  test("an empty list removes the cors rules", async () => {
    await service.setProperties({ cors: [anyone] });
    await service.setProperties({ cors: [] });
    assert.deepEqual((await properties()).cors, []);
  });

  test("six cors rules are refused", async () => {
    const cors = Array.from({ length: 6 }, (_, i) => ({ ...anyone, allowedOrigins: `http://${i}.example` }));
    await refused(400, "InvalidXmlDocument", service.setProperties({ cors }));
  });

  test("a retention of 366 days is refused", async () => {
    const hourMetrics = { version: "1.0", enabled: true, retentionPolicy: { enabled: true, days: 366 } };
    await refused(400, "InvalidXmlDocument", service.setProperties({ hourMetrics }));
  });

  const policies = async (table) => [...(await table.getAccessPolicy())];

  test("access policies round trip", async (t) => {
    const table = await freshTable(t);
    assert.deepEqual(await policies(table), []);
    const [start, expiry] = ["2030-01-01T12:30:15Z", "2030-01-02T12:30:15Z"].map((text) => new Date(text));
    const wanted = [
      { id: "all", accessPolicy: { start, expiry, permission: "raud" } },
      { id: "read", accessPolicy: { expiry, permission: "r" } },
      { id: "empty", accessPolicy: {} },
    ];
    await table.setAccessPolicy(wanted);
    assert.deepEqual(await policies(table), wanted);

    await table.setAccessPolicy([]);
    assert.deepEqual(await policies(table), []);
  });

  test("six access policies are refused", async (t) => {
    const table = await freshTable(t);
    const six = Array.from({ length: 6 }, (_, i) => ({ id: `id${i}`, accessPolicy: { permission: "r" } }));
    await refused(400, "InvalidXmlDocument", table.setAccessPolicy(six));
    assert.deepEqual(await policies(table), []);
  });

  test("access policies of a missing table", () => refused(404, null, missingTable().getAccessPolicy()));

  test("statistics of the secondary", async () => {
    // The SDK puts "-secondary" into a host name with dots, which is wrong for an address; "localhost" it leaves alone.
    const endpoint = `${ENDPOINT.replace(/\/\/[\d.]+/, "//localhost")}-secondary`;
    const { geoReplication } = await fromEndpoint({ endpoint }).service.getStatistics();
    assert.equal(geoReplication.status, "live");
    assert.ok(geoReplication.lastSyncTime instanceof Date);
  });
});
