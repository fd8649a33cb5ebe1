package sdk

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func one(value any) props {
	return entity("p", "r", props{"Value": value})
}

func numbered(count int, value func(int) any) props {
	p := props{}
	for i := range count {
		p[fmt.Sprint("P", i)] = value(i)
	}
	return p
}

func sameValue(t *testing.T, got, want any) {
	t.Helper()
	if want, ok := want.(float64); ok {
		got, ok := number(got).(float64)
		if !ok || (got != want && !(math.IsNaN(got) && math.IsNaN(want))) {
			t.Errorf("got %v, want %v", got, want)
		}
		return
	}
	equal(t, got, want)
}

func Test02Types(t *testing.T) {
	for _, item := range scenario.Types {
		withTable(t, "round trip: "+item.String(), func(t *testing.T, table table) {
			value := edm(t, item.Type, item.value())
			table.insert(t, one(value))
			sameValue(t, table.get(t, "p", "r")["Value"], value)
			sameValue(t, table.list(t)[0]["Value"], value)
		})
	}

	withTable(t, "all types in one entity", func(t *testing.T, table table) {
		// With the SDK's own type for entities, which leaves Double to JSON.
		sent := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: "p", RowKey: "r"}, Properties: map[string]any{}}
		for i, item := range scenario.Types {
			if item.Type != "Double" {
				sent.Properties[fmt.Sprint("P", i)] = edm(t, item.Type, item.value())
			}
		}
		sent.Properties["Double"] = 2.5
		must(table.AddEntity(ctx, must(json.Marshal(sent))(t), nil))(t)
		got := table.metadata(t, "p", "r").Properties
		equal(t, len(got), len(sent.Properties))
		for name, value := range sent.Properties {
			equal(t, got[name], value)
		}
	})

	withTable(t, "plain values of the language", func(t *testing.T, table table) {
		// A struct with the SDK's Entity in it: it sends a Timestamp of the year 1, which the service ignores.
		type plain struct {
			aztables.Entity
			Integer int32
			Float   float64
			Flag    bool
			Text    string
		}
		sent := plain{aztables.Entity{PartitionKey: "p", RowKey: "r"}, 7, 2.5, true, "x"}
		must(table.AddEntity(ctx, must(json.Marshal(sent))(t), nil))(t)

		var got plain
		ok(t, json.Unmarshal(must(table.GetEntity(ctx, "p", "r", nil))(t).Value, &got))
		equal(t, time.Time(got.Timestamp).Year() > 2000, true)
		got.Timestamp = sent.Timestamp
		equal(t, got, sent)
	})

	withTable(t, "a whole double stays a double", func(t *testing.T, table table) {
		table.insert(t, one(3.0))
		equal(t, len(must(table.query("Value eq 3.0"))(t)), 1)
	})

	withTable(t, "names differ by case", func(t *testing.T, table table) {
		both := entity("p", "r", props{"value": "small", "Value": "big"})
		table.insert(t, both)
		equal(t, table.get(t, "p", "r"), both)
	})

	withTable(t, "null is not stored", func(t *testing.T, table table) {
		table.insert(t, entity("p", "r", props{"Value": nil, "Other": int32(7)}))
		equal(t, table.metadata(t, "p", "r").Properties, map[string]any{"Other": int32(7)})
	})

	withTable(t, "252 properties", func(t *testing.T, table table) {
		many := entity("p", "r", numbered(252, func(i int) any { return int32(i) }))
		table.insert(t, many)
		equal(t, table.get(t, "p", "r"), many)
	})

	withTable(t, "253 properties are refused", func(t *testing.T, table table) {
		many := numbered(253, func(i int) any { return int32(i) })
		_, err := table.AddEntity(ctx, body(entity("p", "r", many)), nil)
		refused(t, err, 400, string(aztables.TooManyProperties))
	})

	for _, item := range scenario.TooLarge {
		withTable(t, "one more than 64 KiB is refused: "+item.String(), func(t *testing.T, table table) {
			_, err := table.AddEntity(ctx, body(one(edm(t, item.Type, item.value()))), nil)
			refused(t, err, 400, string(aztables.PropertyValueTooLarge))
		})
	}

	withTable(t, "an entity over 1 MiB is refused", func(t *testing.T, table table) {
		large := numbered(16, func(int) any { return make(aztables.EDMBinary, 65536) })
		_, err := table.AddEntity(ctx, body(entity("p", "r", large)), nil)
		refused(t, err, 400, string(aztables.EntityTooLarge))
	})

	withTable(t, "a date before 1601 is refused", func(t *testing.T, table table) {
		early := aztables.EDMDateTime(time.Date(1600, 12, 31, 23, 59, 59, 0, time.UTC))
		_, err := table.AddEntity(ctx, body(one(early)), nil)
		refused(t, err, 400, string(aztables.OutOfRangeInput))
	})
}
