package sdk

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

const (
	add           = aztables.TransactionTypeAdd
	updateMerge   = aztables.TransactionTypeUpdateMerge
	updateReplace = aztables.TransactionTypeUpdateReplace
	upsertMerge   = aztables.TransactionTypeInsertMerge
	upsertReplace = aztables.TransactionTypeInsertReplace
	remove        = aztables.TransactionTypeDelete
)

func numberedRow(i int, properties props) props {
	return entity("p", fmt.Sprintf("%03d", i), properties)
}

// action is one operation of a batch. Unlike its other calls, the SDK's SubmitTransaction puts the keys into the URL
// without doubling their quotes: the caller has to.
func action(kind aztables.TransactionType, e props) aztables.TransactionAction {
	if kind != add {
		e = entity(doubled(e["PartitionKey"]), doubled(e["RowKey"]), without(e, "PartitionKey", "RowKey"))
	}
	a := aztables.TransactionAction{ActionType: kind, Entity: body(e)}
	if kind == updateMerge || kind == updateReplace {
		any := azcore.ETagAny
		a.IfMatch = &any // Without it the SDK sends an upsert.
	}
	return a
}

func doubled(key any) string {
	return strings.ReplaceAll(key.(string), "'", "''")
}

func without(e props, names ...string) props {
	rest := entity("", "", e)
	for _, name := range names {
		delete(rest, name)
	}
	return rest
}

func submit(table table, actions ...aztables.TransactionAction) error {
	_, err := table.SubmitTransaction(ctx, actions, nil)
	return err
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var failedIndex = regexp.MustCompile(`"value":"(\d+):`)

// batchRefused expects that this operation failed (-1: any). The SDK's error has the status of the whole, 202; that of
// the operation, its code and its index are in the text.
func batchRefused(t *testing.T, err error, status int, code string, index int) {
	t.Helper()
	refused(t, err, 202, "")
	text := err.Error()
	if !strings.Contains(text, fmt.Sprintf("HTTP/1.1 %d ", status)) || !strings.Contains(text, `"code":"`+code+`"`) {
		t.Fatalf("want %d %s, got %s", status, code, text)
	}
	if index >= 0 {
		found := failedIndex.FindStringSubmatch(text)
		if len(found) != 2 || found[1] != fmt.Sprint(index) {
			t.Fatalf("want the failed index %d, got %s", index, text)
		}
	}
}

func Test04Batches(t *testing.T) {
	six := props{"A": int32(6)}

	withTable(t, "every operation in one batch", func(t *testing.T, table table) {
		for i := 1; i <= 5; i++ {
			table.insert(t, numberedRow(i, props{"A": int32(5), "B": "x"}))
		}
		ok(t, submit(table,
			action(add, numberedRow(0, six)),
			action(updateMerge, numberedRow(1, six)),
			action(updateReplace, numberedRow(2, six)),
			action(upsertMerge, numberedRow(3, six)),
			action(upsertReplace, numberedRow(4, six)),
			action(remove, numberedRow(5, nil)),
			action(upsertMerge, numberedRow(6, six)),
			action(upsertReplace, numberedRow(7, six)),
		))
		merged := props{"A": int32(6), "B": "x"}
		equal(t, table.list(t), []props{
			numberedRow(0, six), numberedRow(1, merged), numberedRow(2, six), numberedRow(3, merged),
			numberedRow(4, six), numberedRow(6, six), numberedRow(7, six),
		})
	})

	withTable(t, "100 operations", func(t *testing.T, table table) {
		actions := []aztables.TransactionAction{}
		for i := range 100 {
			actions = append(actions, action(add, numberedRow(i, props{"A": int32(i)})))
		}
		ok(t, submit(table, actions...))
		equal(t, len(table.list(t)), 100)

		kinds := []aztables.TransactionType{updateMerge, updateReplace, upsertMerge, remove}
		expected := []props{}
		for i := range 100 {
			actions[i] = action(kinds[i%4], numberedRow(i, props{"B": int32(i)}))
			switch i % 4 {
			case 1:
				expected = append(expected, numberedRow(i, props{"B": int32(i)}))
			case 0, 2:
				expected = append(expected, numberedRow(i, props{"A": int32(i), "B": int32(i)}))
			}
		}
		ok(t, submit(table, actions...))
		equal(t, table.list(t), expected)
	})

	withTable(t, "with etags", func(t *testing.T, table table) {
		etag := table.insert(t, numberedRow(1, nil))
		update := action(updateReplace, numberedRow(1, six))
		update.IfMatch = &etag
		ok(t, submit(table, action(add, numberedRow(0, nil)), update))

		removal := action(remove, numberedRow(1, nil))
		removal.IfMatch = &etag
		err := submit(table, action(remove, numberedRow(0, nil)), removal)
		batchRefused(t, err, 412, "UpdateConditionNotSatisfied", 1)
		equal(t, table.list(t), []props{numberedRow(0, nil), numberedRow(1, six)})
	})

	tooLarge := props{"A": strings.Repeat("x", 32769)}
	failing := []struct {
		name   string
		action aztables.TransactionAction
		status int
		code   string
		index  int
	}{
		{"insert existing", action(add, numberedRow(9, nil)), 409, "EntityAlreadyExists", 2},
		{"merge missing", action(updateMerge, numberedRow(8, nil)), 404, "ResourceNotFound", 2},
		{"replace missing", action(updateReplace, numberedRow(8, nil)), 404, "ResourceNotFound", 2},
		{"delete missing", action(remove, numberedRow(8, nil)), 404, "ResourceNotFound", 2},
		// The service gives no index for this one.
		{"value too large", action(add, numberedRow(2, tooLarge)), 400, "PropertyValueTooLarge", -1},
	}
	for _, item := range failing {
		withTable(t, "a failing operation undoes all: "+item.name, func(t *testing.T, table table) {
			table.insert(t, numberedRow(9, nil))
			err := submit(table, action(add, numberedRow(0, nil)), action(add, numberedRow(1, nil)),
				item.action, action(upsertMerge, numberedRow(3, nil)))
			batchRefused(t, err, item.status, item.code, item.index)
			equal(t, table.list(t), []props{numberedRow(9, nil)})
		})
	}

	withTable(t, "101 operations are refused", func(t *testing.T, table table) {
		actions := []aztables.TransactionAction{}
		for i := range 101 {
			actions = append(actions, action(add, numberedRow(i, nil)))
		}
		batchRefused(t, submit(table, actions...), 400, "InvalidInput", -1)
		equal(t, table.list(t), []props{})
	})

	withTable(t, "two partitions are refused", func(t *testing.T, table table) {
		err := submit(table, action(add, entity("p", "r", nil)), action(add, entity("q", "r", nil)))
		batchRefused(t, err, 400, "CommandsInBatchActOnDifferentPartitions", 1)
		equal(t, table.list(t), []props{})
	})

	withTable(t, "the same row twice is refused", func(t *testing.T, table table) {
		err := submit(table, action(add, numberedRow(0, nil)), action(upsertMerge, numberedRow(1, nil)),
			action(upsertMerge, numberedRow(0, nil)))
		batchRefused(t, err, 400, "InvalidDuplicateRow", 2)
		equal(t, table.list(t), []props{})
	})

	withTable(t, "over 4 MiB is refused", func(t *testing.T, table table) {
		actions := []aztables.TransactionAction{}
		for i := range 70 {
			actions = append(actions, action(add, numberedRow(i, props{"A": make(aztables.EDMBinary, 65536)})))
		}
		refused(t, submit(table, actions...), 413, "RequestBodyTooLarge")
		equal(t, table.list(t), []props{})
	})

	t.Run("a missing table", func(t *testing.T) {
		err := submit(missingTable(), action(add, numberedRow(0, nil)), action(add, numberedRow(1, nil)))
		batchRefused(t, err, 404, "TableNotFound", 0)
	})
}
