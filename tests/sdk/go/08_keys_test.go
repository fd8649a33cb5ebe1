package sdk

import (
	"strings"
	"testing"
)

func lookUp(t *testing.T, table table, key string) []props {
	t.Helper()
	return must(table.query("PartitionKey eq " + quoted(key) + " and RowKey eq " + quoted(key)))(t)
}

// clientRefuses expects the SDK's own refusal of an empty PartitionKey in a URL.
func clientRefuses(t *testing.T, err error) {
	t.Helper()
	if err == nil || err.Error() != "parameter partitionKey cannot be empty" {
		t.Fatalf("want the SDK to refuse the empty key, got %v", err)
	}
}

func Test08Keys(t *testing.T) {
	five := props{"A": int32(5)}

	for _, item := range scenario.Keys {
		key := item.value()

		withTable(t, "round trip: "+item.Name, func(t *testing.T, table table) {
			table.insert(t, entity(key, key, five))
			equal(t, lookUp(t, table, key), []props{entity(key, key, five)})
			if key == "" {
				_, err := table.GetEntity(ctx, key, key, nil)
				clientRefuses(t, err)
				table.insert(t, entity("p", key, five)) // The RowKey may be empty.
				equal(t, table.get(t, "p", key), entity("p", key, five))
				return
			}
			equal(t, table.get(t, key, key), entity(key, key, five))

			must(table.update(entity(key, key, props{"B": int32(6)}), merge, nil))(t)
			equal(t, table.get(t, key, key), entity(key, key, props{"A": int32(5), "B": int32(6)}))
			must(table.update(entity(key, key, props{"C": int32(7)}), replace, nil))(t)
			equal(t, table.get(t, key, key), entity(key, key, props{"C": int32(7)}))
			must(table.upsert(entity(key, key, props{"D": int32(8)}), merge))(t)
			equal(t, table.get(t, key, key), entity(key, key, props{"C": int32(7), "D": int32(8)}))

			must(table.DeleteEntity(ctx, key, key, nil))(t)
			equal(t, table.list(t), []props{})
		})

		withTable(t, "batch: "+item.Name, func(t *testing.T, table table) {
			other := entity(key, "other", nil)
			ok(t, submit(table, action(add, entity(key, key, five)), action(add, other)))
			update := action(updateMerge, entity(key, key, props{"B": int32(6)}))
			if key == "" {
				clientRefuses(t, submit(table, update))
				equal(t, lookUp(t, table, key), []props{entity(key, key, five)})
				return
			}
			ok(t, submit(table, update, action(upsertMerge, other)))
			equal(t, lookUp(t, table, key), []props{entity(key, key, props{"A": int32(5), "B": int32(6)})})
			ok(t, submit(table, action(remove, entity(key, key, nil)), action(remove, other)))
			equal(t, table.list(t), []props{})
		})
	}

	for _, key := range scenario.ForbiddenKeys {
		withTable(t, "a forbidden character is refused: "+key, func(t *testing.T, table table) {
			for _, e := range []props{entity(key, "r", nil), entity("p", key, nil)} {
				_, err := table.AddEntity(ctx, body(e), nil)
				refused(t, err, 400, "OutOfRangeInput")
				_, err = table.upsert(e, merge)
				refused(t, err, 400, "") // In a URL the code depends on the character.
			}
			equal(t, table.list(t), []props{})
		})
	}

	withTable(t, "513 characters are refused", func(t *testing.T, table table) {
		long := strings.Repeat("k", 513)
		for _, e := range []props{entity(long, "r", nil), entity("p", long, nil)} {
			_, err := table.AddEntity(ctx, body(e), nil)
			refused(t, err, 400, "")
		}
		equal(t, table.list(t), []props{})
	})

	withTable(t, "keys that differ by case are two", func(t *testing.T, table table) {
		table.insert(t, entity("p", "a", nil))
		table.insert(t, entity("p", "A", nil))
		equal(t, table.list(t), []props{entity("p", "A", nil), entity("p", "a", nil)})
	})
}
