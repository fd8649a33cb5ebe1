"use strict";
const assert = require("node:assert/strict");
const { describe } = require("node:test");
const { ENDPOINT, SCENARIO, all, entity, list, refused } = require("./helpers.js");
const {
  AUTHORIZATION_URI, HTTPS_ENDPOINT, NOT_PERMITTED, OIDC_URL, OTHER_OIDC_URL, checkOutcomes, clients, everyOperation,
  httpsTable, outcome, testWithServer: test, trusting,
} = require("./secured.js");

const AUDIENCE = "https://storage.azure.com";
const SCOPE = `${AUDIENCE}/.default`;
const TENANT = AUTHORIZATION_URI && new URL(AUTHORIZATION_URI).pathname.split("/")[1];
const READS = ["properties", "list tables", "get", "query"];
const row = entity("p", "r");

/** Gives tokens of the issuer, each with its claims (the last for all further ones); notes what it was asked for. */
function credential(issuer, ...claims) {
  const asked = [];
  return {
    asked,
    async getToken(scopes, { tenantId } = {}) {
      const own = claims[Math.min(asked.length, claims.length - 1)];
      asked.push([scopes, tenantId].flat());
      const query = new URLSearchParams({ roles: "contributor", aud: AUDIENCE, sub: "sdk", exp_in: 3600, ...own });
      const response = await fetch(`${issuer}/token?${query}`);
      // The SDK shall believe that every token is good, or it would not send it.
      return { token: await response.text(), expiresOnTimestamp: Date.now() + 3_600_000 };
    },
  };
}

const good = (claims = {}) => credential(OIDC_URL, claims);
const withToken = (token, options) => clients(HTTPS_ENDPOINT, token, trusting(options));

const BAD = {
  expired: () => good({ exp_in: -3600 }),
  "of another issuer": () => credential(OTHER_OIDC_URL, {}),
  "of another issuer, who pretends": () => credential(OTHER_OIDC_URL, { iss: OIDC_URL }),
  "for another audience": () => good({ aud: "https://vault.azure.net" }),
};

describe("13 tokens", () => {
  test("a contributor", async (t) => {
    const { owner, name } = await httpsTable(t);
    const contributor = good();
    await checkOutcomes(owner, withToken(contributor), name, everyOperation("ok"));
    // One token for each of the two clients.
    assert.deepEqual(contributor.asked, [[SCOPE, undefined], [SCOPE, undefined]]);
  });

  test("a reader", async (t) => {
    const { owner, name } = await httpsTable(t);
    const expected = SCENARIO.account_operations.map((operation) =>
      [operation.name, READS.includes(operation.name) ? "ok" : NOT_PERMITTED]);
    await checkOutcomes(owner, withToken(good({ roles: "reader" })), name, Object.fromEntries(expected));
  });

  for (const roles of ["", "stranger", "reader2"]) {
    test(`no role: ${roles}`, async (t) => {
      const { owner, name } = await httpsTable(t);
      await checkOutcomes(owner, withToken(good({ roles })), name, everyOperation(NOT_PERMITTED));
    });
  }

  test("several roles", async (t) => {
    const { owner, name } = await httpsTable(t);
    const both = withToken(good({ roles: "stranger,reader,contributor" }));
    await checkOutcomes(owner, both, name, everyOperation("ok"));
  });

  test("access policies", async (t) => {
    const { name } = await httpsTable(t);
    const table = withToken(good()).table(name);
    assert.equal(await outcome(table.getAccessPolicy()), "404 ResourceNotFound");
    assert.equal(await outcome(table.setAccessPolicy([])), "404 ResourceNotFound");
  });

  for (const [kind, bad] of Object.entries(BAD)) {
    test(`a bad token: ${kind}`, async (t) => {
      const { name } = await httpsTable(t);
      const table = withToken(bad()).table(name);
      const calls = [
        () => all(table.listEntities()),
        () => table.createEntity(row),
        () => table.submitTransaction([["create", row]]),
      ];
      for (const call of calls) await refused(403, "AuthenticationFailed", call());
    });

    // With a version that knows it. The SDK then asks the credential again, for the tenant that the server names.
    test(`the challenge: ${kind}`, async (t) => {
      const { name } = await httpsTable(t);
      const token = bad();
      const table = withToken(token, { version: "2020-12-06" }).table(name);
      const { response } = await refused(401, null, table.createEntity(row));
      assert.equal(response.headers.get("x-ms-error-code"), "InvalidAuthenticationInfo");
      const challenge = `Bearer authorization_uri=${AUTHORIZATION_URI} resource_id=${AUDIENCE}`;
      assert.equal(response.headers.get("www-authenticate"), challenge);
      assert.deepEqual(token.asked, [[SCOPE, undefined], [SCOPE, TENANT]]);
    });
  }

  test("a token that is renewed by the challenge", async (t) => {
    const { name } = await httpsTable(t);
    const late = credential(OIDC_URL, { exp_in: -3600 }, { exp_in: 3600 });
    const table = withToken(late, { version: "2020-12-06" }).table(name);
    await table.createEntity(row);
    assert.deepEqual(late.asked, [[SCOPE, undefined], [SCOPE, TENANT]]);
    assert.deepEqual(await list(table), [row]);
  });

  test("not over plain http", async () => {
    const { service } = clients(ENDPOINT, good());
    await assert.rejects(all(service.listTables()), /not permitted for non-TLS/);
  });
});
