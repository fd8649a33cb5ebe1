package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func corsRule(origins, methods, allowed, exposed string, maxAge int32) *aztables.CorsRule {
	return &aztables.CorsRule{
		AllowedOrigins: &origins, AllowedMethods: &methods, AllowedHeaders: &allowed, ExposedHeaders: &exposed,
		MaxAgeInSeconds: &maxAge,
	}
}

func days(days int32) *aztables.RetentionPolicy {
	return &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: &days}
}

func metrics(enabled bool, includeAPIs *bool, retention *aztables.RetentionPolicy) *aztables.Metrics {
	return &aztables.Metrics{
		Version: to.Ptr("1.0"), Enabled: &enabled, IncludeAPIs: includeAPIs, RetentionPolicy: retention,
	}
}

func properties(t *testing.T) aztables.ServiceProperties {
	t.Helper()
	return must(service.GetProperties(ctx, nil))(t).ServiceProperties
}

// shown makes values comparable that are full of pointers.
func shown(t *testing.T, value any) string {
	t.Helper()
	return string(must(json.MarshalIndent(value, "", " "))(t))
}

func setProperties(p aztables.ServiceProperties) error {
	_, err := service.SetProperties(ctx, p, nil)
	return err
}

// removeCorsRules is a policy that puts into a request what the SDK cannot write: an empty list of rules.
type removeCorsRules struct{}

func (removeCorsRules) Do(request *policy.Request) (*http.Response, error) {
	body := strings.NewReader("<StorageServiceProperties><Cors/></StorageServiceProperties>")
	if err := request.SetBody(streaming.NopCloser(body), "application/xml"); err != nil {
		return nil, err
	}
	return request.Next()
}

// restore puts the properties back.
func restore(t *testing.T, before aztables.ServiceProperties) {
	credential := must(aztables.NewSharedKeyCredential(account, key))(t)
	withPolicy := *options
	withPolicy.PerCallPolicies = []policy.Policy{removeCorsRules{}}
	remover := must(aztables.NewServiceClientWithSharedKey(endpoint, credential, &withPolicy))(t)
	must(remover.SetProperties(ctx, aztables.ServiceProperties{}, nil))(t)
	ok(t, setProperties(before))
	equal(t, shown(t, properties(t)), shown(t, before))
}

func setPolicies(table table, policies ...*aztables.SignedIdentifier) error {
	_, err := table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: policies})
	return err
}

func policies(t *testing.T, table table) []*aztables.SignedIdentifier {
	t.Helper()
	return must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers
}

func Test09Service(t *testing.T) {
	before := properties(t)
	t.Cleanup(func() { restore(t, before) })
	anyone := corsRule("*", "GET", "", "", 0)

	t.Run("properties round trip", func(t *testing.T) {
		changed := aztables.ServiceProperties{
			Logging: &aztables.Logging{
				Version: to.Ptr("1.0"), Delete: to.Ptr(true), Read: to.Ptr(false), Write: to.Ptr(true),
				RetentionPolicy: days(7),
			},
			HourMetrics:   metrics(true, to.Ptr(true), days(7)),
			MinuteMetrics: metrics(false, nil, &aztables.RetentionPolicy{Enabled: to.Ptr(false)}),
			Cors: []*aztables.CorsRule{
				corsRule("http://a.example", "GET", "", "", 0),
				corsRule("http://b.example,http://*.c.example", "GET,PUT,MERGE", "x-ms-meta-*,content-type", "x-ms-*", 500),
			},
		}
		ok(t, setProperties(changed))
		equal(t, shown(t, properties(t)), shown(t, changed))
	})

	t.Run("an omitted group keeps its value", func(t *testing.T) {
		ok(t, setProperties(aztables.ServiceProperties{Cors: []*aztables.CorsRule{anyone}}))
		expected := properties(t)
		expected.MinuteMetrics = metrics(true, to.Ptr(false), days(3))
		ok(t, setProperties(aztables.ServiceProperties{MinuteMetrics: expected.MinuteMetrics}))
		equal(t, shown(t, properties(t)), shown(t, expected))
	})

	t.Run("an empty list removes the cors rules", func(t *testing.T) {
		// The SDK leaves an empty list out, so that it removes nothing; restore does it.
		ok(t, setProperties(aztables.ServiceProperties{Cors: []*aztables.CorsRule{anyone}}))
		ok(t, setProperties(aztables.ServiceProperties{Cors: []*aztables.CorsRule{}}))
		equal(t, len(properties(t).Cors), 1)
	})

	t.Run("six cors rules are refused", func(t *testing.T) {
		rules := []*aztables.CorsRule{anyone, anyone, anyone, anyone, anyone, anyone}
		refused(t, setProperties(aztables.ServiceProperties{Cors: rules}), 400, string(aztables.InvalidXmlDocument))
	})

	t.Run("a retention of 366 days is refused", func(t *testing.T) {
		err := setProperties(aztables.ServiceProperties{HourMetrics: metrics(true, to.Ptr(true), days(366))})
		refused(t, err, 400, string(aztables.InvalidXmlDocument))
	})

	withTable(t, "access policies round trip", func(t *testing.T, table table) {
		equal(t, len(policies(t, table)), 0)
		start := time.Date(2030, 1, 1, 12, 30, 15, 0, time.UTC)
		expiry := start.AddDate(0, 0, 1)
		wanted := []*aztables.SignedIdentifier{
			{ID: to.Ptr("all"), AccessPolicy: &aztables.AccessPolicy{
				Start: &start, Expiry: &expiry, Permission: to.Ptr("raud"),
			}},
			{ID: to.Ptr("read"), AccessPolicy: &aztables.AccessPolicy{Expiry: &expiry, Permission: to.Ptr("r")}},
		}
		ok(t, setPolicies(table, append(wanted, &aztables.SignedIdentifier{ID: to.Ptr("empty")})...))
		stored := policies(t, table)
		equal(t, shown(t, stored[:2]), shown(t, wanted))
		equal(t, *stored[2].ID, "empty")

		ok(t, setPolicies(table))
		equal(t, len(policies(t, table)), 0)
	})

	withTable(t, "six access policies are refused", func(t *testing.T, table table) {
		six := []*aztables.SignedIdentifier{}
		for i := range 6 {
			read := &aztables.AccessPolicy{Permission: to.Ptr("r")}
			six = append(six, &aztables.SignedIdentifier{ID: to.Ptr(fmt.Sprint("id", i)), AccessPolicy: read})
		}
		// The SDK turns the service's error into its own.
		err := setPolicies(table, six...)
		var response *azcore.ResponseError
		if err == nil || errors.As(err, &response) {
			t.Errorf("want the SDK's own error, got %v", err)
		}
		equal(t, len(policies(t, table)), 0)
	})

	t.Run("access policies of a missing table", func(t *testing.T) {
		_, err := missingTable().GetAccessPolicy(ctx, nil)
		refused(t, err, 404, "")
	})

	t.Run("statistics of the secondary", func(t *testing.T) {
		statistics := must(fromEndpoint(t, endpoint+"-secondary", key).GetStatistics(ctx, nil))(t)
		equal(t, *statistics.GeoReplication.Status, aztables.GeoReplicationStatusLive)
		equal(t, statistics.GeoReplication.LastSyncTime.IsZero(), false)
	})
}
