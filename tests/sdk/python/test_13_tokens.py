import time
from urllib.parse import urlencode, urlparse
from urllib.request import urlopen

import pytest
from azure.core.credentials import AccessToken, AccessTokenInfo
from azure.core.exceptions import ClientAuthenticationError
from conftest import ENDPOINT, SCENARIO, entity, refused
from secured import (
    AUTHORIZATION_URI,
    HTTPS_ENDPOINT,
    NOT_PERMITTED,
    OIDC_URL,
    OK,
    OTHER_OIDC_URL,
    TRUST,
    check_outcomes,
    needs_server,
    outcome,
)

pytestmark = needs_server

AUDIENCE = "https://storage.azure.com"
SCOPE = AUDIENCE + "/.default"
TENANT = urlparse(AUTHORIZATION_URI).path.split("/")[1] if AUTHORIZATION_URI else None
OPERATIONS = [operation["name"] for operation in SCENARIO["account_operations"]]
READS = {"properties", "list tables", "get", "query"}


class Credential:
    """Gives tokens of the issuer with these claims; notes what it was asked for."""

    def __init__(self, issuer=OIDC_URL, roles="contributor", **claims):
        self.claims = [{"roles": roles, "aud": AUDIENCE, "sub": "sdk", "exp_in": 3600, **claims}]
        self.issuer = issuer
        self.asked = []

    def then(self, **claims):
        """Other claims for the next token."""
        self.claims.append({**self.claims[-1], **claims})
        return self

    def token(self, scopes, tenant):
        claims = self.claims[min(len(self.asked), len(self.claims) - 1)]
        self.asked.append((*scopes, tenant))
        with urlopen(f"{self.issuer}/token?{urlencode(claims)}") as response:
            # The SDK shall believe that every token is good, or it would not send it.
            return response.read().decode(), int(time.time()) + 3600


class SyncCredential(Credential):
    def get_token(self, *scopes, tenant_id=None, **options):
        return AccessToken(*self.token(scopes, tenant_id))


class AsyncCredential(Credential):
    async def get_token(self, *scopes, tenant_id=None, **options):
        return AccessToken(*self.token(scopes, tenant_id))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        pass

    async def close(self):
        pass


class SyncInfoCredential(SyncCredential):
    def get_token_info(self, *scopes, options=None):
        return AccessTokenInfo(*self.token(scopes, (options or {}).get("tenant_id")))


class AsyncInfoCredential(AsyncCredential):
    async def get_token_info(self, *scopes, options=None):
        return AccessTokenInfo(*self.token(scopes, (options or {}).get("tenant_id")))


CREDENTIALS = {
    ("sync", "token"): SyncCredential,
    ("async", "token"): AsyncCredential,
    ("sync", "info"): SyncInfoCredential,
    ("async", "info"): AsyncInfoCredential,
}


def credential(sdk, *arguments, kind="token", **claims):
    return CREDENTIALS[sdk.flavour, kind](*arguments, **claims)


def with_token(sdk, credential, **options):
    return sdk.with_credential(credential, HTTPS_ENDPOINT, **TRUST, **options)


@pytest.mark.parametrize("kind", ["token", "info"])
def test_a_contributor(sdk, https_owner, https_table, kind):
    contributor = credential(sdk, kind=kind)
    check_outcomes(https_owner, with_token(sdk, contributor), https_table, dict.fromkeys(OPERATIONS, OK))
    assert contributor.asked == [(SCOPE, None)]


def test_a_reader(sdk, https_owner, https_table):
    reader = with_token(sdk, credential(sdk, roles="reader"))
    expected = {operation: OK if operation in READS else NOT_PERMITTED for operation in OPERATIONS}
    check_outcomes(https_owner, reader, https_table, expected)


@pytest.mark.parametrize("roles", ["", "stranger", "reader2"])
def test_no_role(sdk, https_owner, https_table, roles):
    nobody = with_token(sdk, credential(sdk, roles=roles))
    check_outcomes(https_owner, nobody, https_table, dict.fromkeys(OPERATIONS, NOT_PERMITTED))


def test_several_roles(sdk, https_owner, https_table):
    both = with_token(sdk, credential(sdk, roles="stranger,reader,contributor"))
    check_outcomes(https_owner, both, https_table, dict.fromkeys(OPERATIONS, OK))


def test_access_policies(sdk, https_table):
    table = with_token(sdk, credential(sdk)).get_table_client(https_table)
    assert outcome(table.get_table_access_policy) == "404 ResourceNotFound"
    assert outcome(lambda: table.set_table_access_policy({})) == "404 ResourceNotFound"


BAD = {
    "expired": (OIDC_URL, {"exp_in": -3600}),
    "of another issuer": (OTHER_OIDC_URL, {}),
    "of another issuer, who pretends": (OTHER_OIDC_URL, {"iss": OIDC_URL}),
    "for another audience": (OIDC_URL, {"aud": "https://vault.azure.net"}),
}


@pytest.mark.parametrize("issuer, claims", BAD.values(), ids=BAD)
def test_a_bad_token(sdk, https_table, issuer, claims):
    table = with_token(sdk, credential(sdk, issuer, **claims)).get_table_client(https_table)
    for call in (
        lambda: list(table.list_entities()),
        lambda: table.upsert_entity(entity()),
        lambda: table.submit_transaction([("create", entity())]),
    ):
        with refused(403, "AuthenticationFailed", ClientAuthenticationError):
            call()


@pytest.mark.parametrize("issuer, claims", BAD.values(), ids=BAD)
def test_the_challenge(sdk, https_table, issuer, claims):
    """With a version that knows it. The SDK then asks the credential again, for the tenant that the server names."""
    bad = credential(sdk, issuer, **claims)
    table = with_token(sdk, bad, api_version="2020-12-06").get_table_client(https_table)
    with pytest.raises(ClientAuthenticationError) as refusal:
        table.create_entity(entity())
    error = refusal.value
    assert (error.status_code, error.response.headers["x-ms-error-code"]) == (401, "InvalidAuthenticationInfo")
    challenge = error.response.headers["WWW-Authenticate"]
    assert challenge == f"Bearer authorization_uri={AUTHORIZATION_URI} resource_id={AUDIENCE}"
    assert bad.asked == [(SCOPE, None), (SCOPE, TENANT)]


def test_a_token_that_is_renewed_by_the_challenge(sdk, https_table):
    late = credential(sdk, exp_in=-3600).then(exp_in=3600)
    table = with_token(sdk, late, api_version="2020-12-06").get_table_client(https_table)
    table.create_entity(entity())
    assert list(table.list_entities()) == [entity()]
    assert late.asked == [(SCOPE, None), (SCOPE, TENANT)]


def test_not_over_plain_http(sdk):
    with pytest.raises(ValueError, match="HTTPS"):
        sdk.with_credential(credential(sdk), ENDPOINT)
