package sdk

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func Test07Select(t *testing.T) {
	// The SDK has $select for lists only, not for GetEntity.
	table := freshTable(t)
	row := scenarioRow(t, scenario.Rows[1])
	table.insert(t, row)

	read := func(t *testing.T, names string) (props, aztables.EDMEntity) {
		t.Helper()
		options := &aztables.ListEntitiesOptions{}
		if names != "" {
			options.Select = &names
		}
		pages := must(all(table.NewListEntitiesPager(options)))(t)
		return stored(t, pages[0].Entities[0])
	}
	of := func(names ...string) props {
		selected := props{}
		for _, name := range names {
			selected[name] = row[name]
		}
		return selected
	}

	cases := []struct {
		name, names string
		want        props
	}{
		{"only the named", "String,Int32", of("String", "Int32")},
		{"the keys only when named", "PartitionKey,RowKey", of("PartitionKey", "RowKey")},
		{"a missing property", "String, Missing", of("String")},
		{"the types stay", "Int64,Guid,Binary,Double", of("Int64", "Guid", "Binary", "Double")},
		{"all: *", "*", row},
		{"all", "", row},
	}
	for _, item := range cases {
		t.Run(item.name, func(t *testing.T) {
			got, _ := read(t, item.names)
			equal(t, got, item.want)
		})
	}

	t.Run("timestamp only when named", func(t *testing.T) {
		_, with := read(t, "Timestamp")
		_, without := read(t, "String")
		equal(t, time.Time(with.Timestamp).IsZero(), false)
		equal(t, time.Time(without.Timestamp).IsZero(), true)
	})

	t.Run("the etag stays", func(t *testing.T) {
		_, e := read(t, "String")
		equal(t, strings.HasPrefix(e.ETag, `W/"datetime`), true)
	})

	t.Run("the filter may use other properties", func(t *testing.T) {
		options := &aztables.ListEntitiesOptions{Filter: to.Ptr("Int32 eq 7"), Select: to.Ptr("String")}
		equal(t, must(table.find(options))(t), []props{of("String")})
	})
}
