// Package sdk runs the scenario with Go's aztables; see ../README.md.
package sdk

// Clients, tables and values for the scenario.

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

var (
	ctx = context.Background()

	endpoint = os.Getenv("TAVOLA_ENDPOINT")
	account  = os.Getenv("TAVOLA_ACCOUNT")
	key      = os.Getenv("TAVOLA_KEY")
	prefix   = os.Getenv("TAVOLA_PREFIX")

	service = fromConnectionString()
)

// scenario is ../scenario.json.
var scenario = func() (s struct {
	Types, TooLarge    []typeCase
	Rows               []map[string]string
	Operators          []struct{ Operator, Rows, BooleanRows string }
	Filters            []struct{ Name, Filter, Rows string }
	BadFilters         []string
	Keys               []typeCase
	ForbiddenKeys      []string
	Partitions         []string
	TableOperations    []struct{ Name, Needs string }
	TablePermissions   []string
	RangeRows          []string
	Ranges             []rangeCase
	AccountOperations  []struct{ Name, Types, Needs string }
	AccountPermissions []struct{ Types, Permissions string }
}) {
	text, err := os.ReadFile(os.Getenv("TAVOLA_SCENARIO"))
	if err != nil {
		panic(err)
	}
	// The names in the file are in snake case; encoding/json matches names without case.
	text = regexp.MustCompile(`"([a-z]+)_([a-z]+)":`).ReplaceAll(text, []byte(`"$1$2":`))
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err)
	}
	return s
}()

type typeCase struct {
	Name, Type, Text string
	Times            int
}

func (c typeCase) value() string {
	return strings.Repeat(c.Text, max(c.Times, 1))
}

func (c typeCase) String() string {
	if c.Times > 0 {
		return fmt.Sprintf("%s %+q x %d", c.Type, c.Text, c.Times)
	}
	return fmt.Sprintf("%s %+q", c.Type, c.Text)
}

// Clients. No retries: a server error must be seen, not be repaired.

var options = &aztables.ClientOptions{
	ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}},
}

var connectionString = "DefaultEndpointsProtocol=http;AccountName=" + account + ";AccountKey=" + key +
	";TableEndpoint=" + endpoint + ";"

func fromConnectionString() *aztables.ServiceClient {
	client, err := aztables.NewServiceClientFromConnectionString(connectionString, options)
	if err != nil {
		panic(err)
	}
	return client
}

// fromEndpoint makes a client in the other way: from an endpoint and a credential.
func fromEndpoint(t *testing.T, endpoint, key string) *aztables.ServiceClient {
	t.Helper()
	return withKey(t, endpoint, key, options)
}

var numbers int

func tableName() string {
	numbers++
	return fmt.Sprintf("%sn%d", prefix, numbers)
}

// table is a client that knows its table's name, and what the tests ask for.
type table struct {
	*aztables.Client
	name string
}

func missingTable() table {
	name := tableName()
	return table{service.NewClient(name), name}
}

// freshTable gives an empty table, which is deleted when the test ends.
func freshTable(t *testing.T) table {
	t.Helper()
	fresh := missingTable()
	must(fresh.CreateTable(ctx, nil))(t)
	t.Cleanup(func() { _, _ = fresh.Delete(ctx, nil) })
	return fresh
}

// withTable runs a subtest that has a table of its own.
func withTable(t *testing.T, name string, test func(*testing.T, table)) {
	t.Run(name, func(t *testing.T) { test(t, freshTable(t)) })
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %s\nwant %s", short(got), short(want))
	}
}

func short(value any) string {
	text := fmt.Sprint(value)
	return text[:min(len(text), 2000)]
}

// Entities

type props map[string]any

func entity(partitionKey, rowKey string, properties props) props {
	e := props{"PartitionKey": partitionKey, "RowKey": rowKey}
	maps.Copy(e, properties)
	return e
}

// body is the entity as the SDK wants it. aztables.EDMEntity is not used for this: it doubles the quotes in keys
// and cannot say that 3.0 is a Double.
func body(e props) []byte {
	b := props{}
	for name, value := range e {
		annotation := ""
		switch v := value.(type) {
		case float64:
			annotation = "Edm.Double"
			if math.IsNaN(v) || math.IsInf(v, 0) {
				value = strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "+Inf", "Infinity", 1)
				value = strings.Replace(value.(string), "-Inf", "-Infinity", 1)
			}
		case aztables.EDMInt64:
			annotation = "Edm.Int64"
		case aztables.EDMDateTime:
			annotation = "Edm.DateTime"
		case aztables.EDMGUID:
			annotation = "Edm.Guid"
		case aztables.EDMBinary:
			annotation = "Edm.Binary"
		}
		b[name] = value
		if annotation != "" {
			b[name+"@odata.type"] = annotation
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return text
}

// stored is the entity as the SDK gives it, without nulls and what the service adds. aztables.EDMEntity reads the
// types; it does not know a Double that is annotated, and takes a whole one for an Int32 (see number).
func stored(t *testing.T, text []byte) (props, aztables.EDMEntity) {
	t.Helper()
	var e aztables.EDMEntity
	var raw map[string]any
	if err := errors.Join(json.Unmarshal(text, &e), json.Unmarshal(text, &raw)); err != nil {
		t.Fatal(err)
	}
	p := props{}
	for name, value := range raw {
		switch {
		case value == nil || name == "Timestamp" || strings.Contains(name, "odata."):
		case name == "PartitionKey" || name == "RowKey":
			p[name] = value
		case raw[name+"@odata.type"] == "Edm.Double":
			p[name] = must(strconv.ParseFloat(value.(string), 64))(t)
		default:
			p[name] = e.Properties[name]
		}
	}
	return p, e
}

// number undoes what the SDK does to a whole Double: it gives 3 for 3.0.
func number(value any) any {
	if i, ok := value.(int32); ok {
		return float64(i)
	}
	return value
}

func (table table) insert(t *testing.T, e props) azcore.ETag {
	t.Helper()
	return must(table.AddEntity(ctx, body(e), nil))(t).ETag
}

func (table table) get(t *testing.T, partitionKey, rowKey string) props {
	t.Helper()
	e, _ := stored(t, must(table.GetEntity(ctx, partitionKey, rowKey, nil))(t).Value)
	return e
}

func (table table) metadata(t *testing.T, partitionKey, rowKey string) aztables.EDMEntity {
	t.Helper()
	_, e := stored(t, must(table.GetEntity(ctx, partitionKey, rowKey, nil))(t).Value)
	return e
}

func (table table) update(e props, mode aztables.UpdateMode, ifMatch *azcore.ETag) (azcore.ETag, error) {
	response, err := table.UpdateEntity(ctx, body(e), &aztables.UpdateEntityOptions{UpdateMode: mode, IfMatch: ifMatch})
	return response.ETag, err
}

func (table table) upsert(e props, mode aztables.UpdateMode) (azcore.ETag, error) {
	response, err := table.UpsertEntity(ctx, body(e), &aztables.UpsertEntityOptions{UpdateMode: mode})
	return response.ETag, err
}

func (table table) query(filter string) ([]props, error) {
	return table.find(&aztables.ListEntitiesOptions{Filter: to.Ptr(filter)})
}

func (table table) list(t *testing.T) []props {
	t.Helper()
	return must(table.find(nil))(t)
}

// find reads all pages.
func (table table) find(options *aztables.ListEntitiesOptions) ([]props, error) {
	found := []props{}
	pages, err := all(table.NewListEntitiesPager(options))
	for _, page := range pages {
		for _, text := range page.Entities {
			e, _ := stored(&testing.T{}, text)
			found = append(found, e)
		}
	}
	return found, err
}

func all[T any](pager *runtime.Pager[T]) (pages []T, err error) {
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// edm makes the value of an EDM type from its text in the scenario.
func edm(t *testing.T, edmType, text string) any {
	t.Helper()
	switch edmType {
	case "Int32":
		return int32(must(strconv.ParseInt(text, 10, 32))(t))
	case "Int64":
		return aztables.EDMInt64(must(strconv.ParseInt(text, 10, 64))(t))
	case "Double":
		return must(strconv.ParseFloat(text, 64))(t)
	case "DateTime":
		return aztables.EDMDateTime(must(time.Parse(time.RFC3339Nano, text))(t))
	case "Guid":
		return aztables.EDMGUID(text)
	case "Binary":
		return aztables.EDMBinary(must(hex.DecodeString(text))(t))
	case "Boolean":
		return text == "true"
	default:
		return text
	}
}

// scenarioRow makes an entity from one of the scenario's rows.
func scenarioRow(t *testing.T, row map[string]string) props {
	t.Helper()
	e := props{}
	for name, text := range row {
		e[name] = edm(t, name, text)
	}
	return e
}

func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Errors

// refused expects the SDK's own error, with this status and code ("" is any).
func refused(t *testing.T, err error, status int, code string) *azcore.ResponseError {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("want %d %s, got %v", status, code, err)
	}
	if response.StatusCode != status || (code != "" && response.ErrorCode != code) {
		t.Fatalf("want %d %s, got %d %s\n%v", status, code, response.StatusCode, response.ErrorCode, err)
	}
	return response
}

var wrongKey = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("w", 64)))
