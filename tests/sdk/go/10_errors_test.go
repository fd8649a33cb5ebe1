package sdk

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
)

func Test10Errors(t *testing.T) {
	cases := []struct {
		name   string
		call   func(table, missing table) error
		status int
		code   string
		text   string
	}{
		{"exists", func(table, missing table) error {
			_, err := table.AddEntity(ctx, body(row(nil)), nil)
			return err
		}, 409, "EntityAlreadyExists", "The specified entity already exists."},
		{"no entity", func(table, missing table) error {
			_, err := table.GetEntity(ctx, "p", "missing", nil)
			return err
		}, 404, "ResourceNotFound", "The specified resource does not exist."},
		{"no table", func(table, missing table) error {
			_, err := missing.GetEntity(ctx, "p", "r", nil)
			return err
		}, 404, "TableNotFound", "The table specified does not exist."},
		{"changed", func(table, missing table) error {
			_, err := table.update(row(nil), merge, to.Ptr(azcore.ETag(`W/"stale"`)))
			return err
		}, 412, "UpdateConditionNotSatisfied", "The update condition specified in the request was not satisfied."},
		{"bad filter", func(table, missing table) error {
			_, err := table.query("aaa bbb ccc")
			return err
		}, 400, "InvalidInput", "Syntax error at position"},
	}
	for _, item := range cases {
		withTable(t, "type, status, code and message: "+item.name, func(t *testing.T, table table) {
			table.insert(t, row(nil))
			err := refused(t, item.call(table, missingTable()), item.status, item.code)
			equal(t, strings.Contains(err.Error(), item.text), true)
		})
	}

	withTable(t, "the message names the request", func(t *testing.T, table table) {
		_, failure := table.GetEntity(ctx, "p", "missing", nil)
		err := refused(t, failure, 404, "ResourceNotFound")
		tail := regexp.MustCompile(`\\nRequestId:(\S+)\\nTime:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z"`)
		found := tail.FindStringSubmatch(err.Error())
		if len(found) != 2 {
			t.Fatal(err)
		}
		equal(t, found[1], err.RawResponse.Header.Get("x-ms-request-id"))
	})

	withTable(t, "the client request id comes back", func(t *testing.T, table table) {
		ctx := policy.WithHTTPHeader(ctx, http.Header{"X-Ms-Client-Request-Id": {"my-own-id"}})
		_, failure := table.GetEntity(ctx, "p", "missing", nil)
		err := refused(t, failure, 404, "ResourceNotFound")
		equal(t, err.RawResponse.Header.Get("x-ms-client-request-id"), "my-own-id")
	})

	withTable(t, "a wrong key", func(t *testing.T, right table) {
		wrong := fromEndpoint(t, endpoint, wrongKey)
		other := table{wrong.NewClient(right.name), right.name}
		_, get := other.GetEntity(ctx, "p", "r", nil)
		_, upsert := other.upsert(row(nil), merge)
		_, list := other.find(nil)
		_, tables := all(wrong.NewListTablesPager(nil))
		_, properties := wrong.GetProperties(ctx, nil)
		batch := submit(other, action(add, row(nil)))
		for _, err := range []error{get, upsert, list, tables, properties, batch} {
			refused(t, err, 403, "AuthenticationFailed")
		}
		equal(t, right.list(t), []props{})
	})

	withTable(t, "the client works on after errors", func(t *testing.T, table table) {
		missing := missingTable()
		large := row(props{"A": strings.Repeat("x", 1000)})
		for range 20 {
			_, err := missing.AddEntity(ctx, body(large), nil)
			refused(t, err, 404, "TableNotFound")
			must(table.upsert(row(props{"A": int32(5)}), merge))(t)
			equal(t, table.get(t, "p", "r"), row(props{"A": int32(5)}))
		}
	})
}
