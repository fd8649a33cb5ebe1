package sdk

// What the tests of credentials share: every operation with its outcome, and where the https server is.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// `cargo xtask sdk` sets all variables; without the first there is no such server to test.
var (
	httpsEndpoint    = os.Getenv("TAVOLA_HTTPS_ENDPOINT")
	binary           = serverVariable("TAVOLA_BINARY")
	caFile           = serverVariable("TAVOLA_CA_FILE")
	key2             = serverVariable("TAVOLA_KEY2")
	oidcURL          = serverVariable("TAVOLA_OIDC_URL")
	otherOidcURL     = serverVariable("TAVOLA_OTHER_OIDC_URL")
	authorizationURI = serverVariable("TAVOLA_AUTHORIZATION_URI")
)

func serverVariable(name string) string {
	value := os.Getenv(name)
	if value == "" && os.Getenv("TAVOLA_HTTPS_ENDPOINT") != "" {
		panic(name + " is not set")
	}
	return value
}

func needsServer(t *testing.T) {
	t.Helper()
	if httpsEndpoint == "" {
		t.Skip("TAVOLA_HTTPS_ENDPOINT is not set")
	}
}

func needsBinary(t *testing.T) {
	t.Helper()
	if binary == "" {
		t.Skip("TAVOLA_BINARY is not set")
	}
}

// outcomes says what each operation got: okay, or status and code of the refusal.
type outcomes map[string]string

const (
	okay            = "ok"
	notPermitted    = "403 AuthorizationPermissionMismatch"
	wrongType       = "403 AuthorizationResourceTypeMismatch"
	outside         = "403 AuthorizationFailure"
	unauthenticated = "403 AuthenticationFailed"
)

// Clients

// trusting makes a transport that trusts the authorities of this file and no others.
func trusting(t *testing.T, file string) *http.Transport {
	t.Helper()
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(must(os.ReadFile(file))(t)) {
		t.Fatal("no certificate in ", file)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// through is the options of a client that uses this transport and these policies.
func through(transport http.RoundTripper, policies ...policy.Policy) *aztables.ClientOptions {
	own := *options
	own.Transport = &http.Client{Transport: transport}
	own.PerCallPolicies = policies
	return &own
}

func withKey(t *testing.T, endpoint, key string, options *aztables.ClientOptions) *aztables.ServiceClient {
	t.Helper()
	credential := must(aztables.NewSharedKeyCredential(account, key))(t)
	return must(aztables.NewServiceClientWithSharedKey(endpoint, credential, options))(t)
}

// withSas makes a client with a signature in its URL, which is where this SDK wants it.
func withSas(t *testing.T, endpoint, sas string, options *aztables.ClientOptions) *aztables.ServiceClient {
	t.Helper()
	return must(aztables.NewServiceClientWithNoCredential(endpoint+"/?"+sas, options))(t)
}

func tableOf(service *aztables.ServiceClient, name string) table {
	return table{service.NewClient(name), name}
}

// httpsTable gives a client of the https server that may do everything, and the name of a fresh table there.
func httpsTable(t *testing.T) (*aztables.ServiceClient, string) {
	t.Helper()
	owner := withKey(t, httpsEndpoint, key, through(trusting(t, caFile)))
	name := tableName()
	must(owner.CreateTable(ctx, name, nil))(t)
	t.Cleanup(func() { dropAll(owner, name) })
	return owner, name
}

// dropAll deletes a table, and those that checkOutcomes leaves behind.
func dropAll(owner *aztables.ServiceClient, name string) {
	for _, suffix := range []string{"", "created", "deleted"} {
		_, _ = owner.DeleteTable(ctx, name+suffix, nil)
	}
}

// Operations

var partOfBatch = regexp.MustCompile(`HTTP/1\.1 (\d+) (?s:.*)"code":"(\w+)"`)

// outcome is okay, or status and code of the refusal. Of a failed batch the SDK gives the status of the whole, 202.
func outcome(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return okay
	}
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatal(err)
	}
	if response.StatusCode == http.StatusAccepted {
		part := partOfBatch.FindStringSubmatch(err.Error())
		if part == nil {
			t.Fatal(err)
		}
		return part[1] + " " + part[2]
	}
	return fmt.Sprint(response.StatusCode, " ", response.ErrorCode)
}

type operation func(*aztables.ServiceClient, table) error

var operations = map[string]operation{
	"properties": func(service *aztables.ServiceClient, _ table) error {
		_, err := service.GetProperties(ctx, nil)
		return err
	},
	"list tables": func(service *aztables.ServiceClient, _ table) error {
		_, err := all(service.NewListTablesPager(nil))
		return err
	},
	"create table": func(service *aztables.ServiceClient, table table) error {
		_, err := service.CreateTable(ctx, table.name+"created", nil)
		return err
	},
	"delete table": func(service *aztables.ServiceClient, table table) error {
		_, err := service.DeleteTable(ctx, table.name+"deleted", nil)
		return err
	},
	"get": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.GetEntity(ctx, "p", "get", nil)
		return err
	},
	"query": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.find(nil)
		return err
	},
	"insert": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.AddEntity(ctx, body(changed("insert")), nil)
		return err
	},
	"merge": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.update(changed("merge"), merge, nil)
		return err
	},
	"replace": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.update(changed("replace"), replace, nil)
		return err
	},
	"upsert": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.upsert(changed("upsert"), merge)
		return err
	},
	"delete": func(_ *aztables.ServiceClient, table table) error {
		_, err := table.DeleteEntity(ctx, "p", "delete", nil)
		return err
	},
	"batch": func(_ *aztables.ServiceClient, table table) error {
		return submit(table,
			action(add, changed("batch insert")),
			action(updateMerge, changed("batch merge")),
			action(remove, entity("p", "batch delete", nil)))
	},
}

func changed(name string) props {
	return entity("p", name, props{"Changed": true})
}

var before = []string{"get", "merge", "replace", "upsert", "delete", "batch merge", "batch delete"}

// effects is what each operation does to the rows: changed, or (false) gone.
var effects = map[string]map[string]bool{
	"insert":  {"insert": true},
	"merge":   {"merge": true},
	"replace": {"replace": true},
	"upsert":  {"upsert": true},
	"delete":  {"delete": false},
	"batch":   {"batch insert": true, "batch merge": true, "batch delete": false},
}

// checkOutcomes tries the operations with a client. What is refused must also have no effect.
func checkOutcomes(t *testing.T, owner, client *aztables.ServiceClient, name string, expected outcomes) {
	t.Helper()
	mine, theirs := tableOf(owner, name), tableOf(client, name)
	rows := map[string]bool{}
	for _, rowKey := range before {
		mine.insert(t, entity("p", rowKey, nil))
		rows[rowKey] = false
	}
	must(owner.CreateTable(ctx, name+"deleted", nil))(t)
	found := outcomes{}
	for operation := range expected {
		found[operation] = outcome(t, operations[operation](client, theirs))
		if expected[operation] != okay {
			continue
		}
		for rowKey, isChanged := range effects[operation] {
			if rows[rowKey] = isChanged; !isChanged {
				delete(rows, rowKey)
			}
		}
	}
	equal(t, found, expected)

	stored := map[string]bool{}
	for _, row := range mine.list(t) {
		_, isChanged := row["Changed"]
		stored[row["RowKey"].(string)] = isChanged
	}
	equal(t, stored, rows)
	tables := tableNames(t, owner)
	equal(t, slices.Contains(tables, name+"created"), expected["create table"] == okay)
	equal(t, slices.Contains(tables, name+"deleted"), expected["delete table"] != okay)
}

func tableNames(t *testing.T, service *aztables.ServiceClient) (names []string) {
	t.Helper()
	for _, page := range must(all(service.NewListTablesPager(nil)))(t) {
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
	}
	return names
}

// Signatures

// inMinutes is in UTC: the SDK writes a Z after whatever time it gets.
func inMinutes(minutes int) time.Time {
	return time.Now().UTC().Add(time.Duration(minutes) * time.Minute)
}

// rangeCase is a key range of the scenario, and the rows in it.
type rangeCase struct{ Name, Spk, Srk, Epk, Erk, Rows string }

// query is the range as part of a signature. The SDK signs a range but forgets to write it: the caller has to.
func (r rangeCase) query() string {
	query := url.Values{}
	for name, value := range map[string]string{"spk": r.Spk, "srk": r.Srk, "epk": r.Epk, "erk": r.Erk} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// tableSas signs for a table; without other terms for the next hour.
func tableSas(t *testing.T, values aztables.SASSignatureValues, key string) string {
	t.Helper()
	if values.ExpiryTime.IsZero() && values.Identifier == "" {
		values.ExpiryTime = inMinutes(60)
	}
	return must(values.Sign(must(aztables.NewSharedKeyCredential(account, key))(t)))(t)
}

// accountSas signs for the account; without other terms for tables and the next hour.
func accountSas(t *testing.T, values aztables.AccountSASSignatureValues, key string) string {
	t.Helper()
	if values.ExpiryTime.IsZero() {
		values.ExpiryTime = inMinutes(60)
	}
	if values.Services == "" {
		values.Services = "t"
	}
	parameters := must(values.Sign(must(aztables.NewSharedKeyCredential(account, key))(t)))(t)
	return parameters.Encode()
}

func isSubset(some, all string) bool {
	return !strings.ContainsFunc(some, func(letter rune) bool { return !strings.ContainsRune(all, letter) })
}

// allowedBy is what each operation on a table gets with these permissions.
func allowedBy(permissions string) outcomes {
	expected := outcomes{}
	for _, operation := range scenario.TableOperations {
		expected[operation.Name] = okay
		if !isSubset(operation.Needs, permissions) {
			expected[operation.Name] = notPermitted
		}
	}
	return expected
}

func everyOperation(result string) outcomes {
	expected := outcomes{}
	for _, operation := range scenario.AccountOperations {
		expected[operation.Name] = result
	}
	return expected
}

// tavola is what the command prints. It gets no variables of the suite: it would take some for its own settings.
func tavola(t *testing.T, connectionString string, words ...string) string {
	t.Helper()
	command := exec.Command(binary, words...)
	command.Env = append(os.Environ(), "AZURE_STORAGE_CONNECTION_STRING="+connectionString)
	command.Env = slices.DeleteFunc(command.Env, func(variable string) bool {
		return strings.HasPrefix(variable, "TAVOLA_")
	})
	command.Stderr = os.Stderr
	return strings.TrimSpace(string(must(command.Output())(t)))
}
