package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

const audience = "https://storage.azure.com"

// credential gives tokens of the issuer with these claims, and notes for what it was asked.
type credential struct {
	issuer string
	claims map[string]string
	asked  []string
}

func (c *credential) GetToken(_ context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.asked = append(c.asked, strings.Join(options.Scopes, " ")+options.TenantID)
	query := url.Values{"roles": {"contributor"}, "aud": {audience}, "sub": {"sdk"}, "exp_in": {"3600"}}
	for name, value := range c.claims {
		query.Set(name, value)
	}
	response, err := http.Get(c.issuer + "/token?" + query.Encode())
	if err != nil {
		return azcore.AccessToken{}, err
	}
	defer response.Body.Close()
	token, err := io.ReadAll(response.Body)
	// The SDK shall believe that every token is good, or it would not send it.
	return azcore.AccessToken{Token: string(token), ExpiresOn: time.Now().Add(time.Hour)}, err
}

func withToken(t *testing.T, c *credential, policies ...policy.Policy) *aztables.ServiceClient {
	t.Helper()
	return must(aztables.NewServiceClient(httpsEndpoint, c, through(trusting(t, caFile), policies...)))(t)
}

// version is a policy that asks for another version than the SDK's, which has no option for it.
type version string

func (v version) Do(request *policy.Request) (*http.Response, error) {
	// The SDK writes the name in lower case, where Header.Set would add a second one beside it.
	request.Raw().Header["x-ms-version"] = []string{string(v)}
	return request.Next()
}

func Test13Tokens(t *testing.T) {
	needsServer(t)

	t.Run("a contributor", func(t *testing.T) {
		owner, name := httpsTable(t)
		contributor := &credential{issuer: oidcURL}
		checkOutcomes(t, owner, withToken(t, contributor), name, everyOperation(okay))
		equal(t, contributor.asked, []string{audience + "/.default"})
	})

	t.Run("a reader", func(t *testing.T) {
		owner, name := httpsTable(t)
		reader := &credential{issuer: oidcURL, claims: map[string]string{"roles": "reader"}}
		expected := everyOperation(notPermitted)
		for _, operation := range []string{"properties", "list tables", "get", "query"} {
			expected[operation] = okay
		}
		checkOutcomes(t, owner, withToken(t, reader), name, expected)
	})

	for _, roles := range []string{"", "stranger", "reader2"} {
		t.Run("no role: "+roles, func(t *testing.T) {
			owner, name := httpsTable(t)
			nobody := &credential{issuer: oidcURL, claims: map[string]string{"roles": roles}}
			checkOutcomes(t, owner, withToken(t, nobody), name, everyOperation(notPermitted))
		})
	}

	t.Run("several roles", func(t *testing.T) {
		owner, name := httpsTable(t)
		both := &credential{issuer: oidcURL, claims: map[string]string{"roles": "stranger,reader,contributor"}}
		checkOutcomes(t, owner, withToken(t, both), name, everyOperation(okay))
	})

	t.Run("access policies", func(t *testing.T) {
		_, name := httpsTable(t)
		table := tableOf(withToken(t, &credential{issuer: oidcURL}), name)
		_, err := table.GetAccessPolicy(ctx, nil)
		equal(t, outcome(t, err), "404 ResourceNotFound")
		equal(t, outcome(t, setPolicies(table)), "404 ResourceNotFound")
	})

	bad := map[string]credential{
		"expired":                         {issuer: oidcURL, claims: map[string]string{"exp_in": "-3600"}},
		"of another issuer":               {issuer: otherOidcURL},
		"of another issuer, who pretends": {issuer: otherOidcURL, claims: map[string]string{"iss": oidcURL}},
		"for another audience":            {issuer: oidcURL, claims: map[string]string{"aud": "https://vault.azure.net"}},
	}
	for kind, bad := range bad {
		t.Run("a bad token: "+kind, func(t *testing.T) {
			_, name := httpsTable(t)
			table := tableOf(withToken(t, &bad), name)
			equal(t, listing(t, table), unauthenticated)
			equal(t, writing(t, table), unauthenticated)
			equal(t, outcome(t, submit(table, action(add, row(nil)))), unauthenticated)
		})

		// With a version that knows it. Unlike the other SDKs, this one does not go back to its credential.
		t.Run("the challenge: "+kind, func(t *testing.T) {
			_, name := httpsTable(t)
			bad := credential{issuer: bad.issuer, claims: bad.claims}
			table := tableOf(withToken(t, &bad, version("2020-12-06")), name)
			_, err := table.AddEntity(ctx, body(row(nil)), nil)
			response := refused(t, err, 401, "InvalidAuthenticationInfo").RawResponse
			challenge := "Bearer authorization_uri=" + authorizationURI + " resource_id=" + audience
			equal(t, response.Header.Get("WWW-Authenticate"), challenge)
			equal(t, bad.asked, []string{audience + "/.default"})
		})
	}

	t.Run("not over plain http", func(t *testing.T) {
		client := must(aztables.NewServiceClient(endpoint, &credential{issuer: oidcURL}, options))(t)
		_, err := all(client.NewListTablesPager(nil))
		equal(t, err != nil && strings.Contains(err.Error(), "not permitted for non TLS"), true)
	})
}
