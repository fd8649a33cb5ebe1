package sdk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

type keyPair struct{ partition, row string }

func keysOf(t *testing.T, page aztables.ListEntitiesResponse) (keys []keyPair) {
	t.Helper()
	for _, text := range page.Entities {
		e, _ := stored(t, text)
		keys = append(keys, keyPair{e["PartitionKey"].(string), e["RowKey"].(string)})
	}
	return keys
}

// pagesOf reads all pages; gives the keys, and how many the largest page had.
func pagesOf(
	t *testing.T, table *aztables.Client, options *aztables.ListEntitiesOptions,
) (keys []keyPair, largest int) {
	t.Helper()
	for _, page := range must(all(table.NewListEntitiesPager(options)))(t) {
		keys = append(keys, keysOf(t, page)...)
		largest = max(largest, len(page.Entities))
	}
	return keys, largest
}

func Test06Paging(t *testing.T) {
	partitions := scenario.Partitions // In ascending order, as are the row keys.
	keys := []keyPair{}
	for _, partition := range partitions {
		for i := range 500 {
			keys = append(keys, keyPair{partition, fmt.Sprintf("%04d", i)})
		}
	}

	// 2,500 entities, the partitions in reverse order of their keys.
	table := freshTable(t)
	for start := len(keys) - 100; start >= 0; start -= 100 {
		actions := []aztables.TransactionAction{}
		for i, key := range keys[start : start+100] {
			actions = append(actions, action(add, entity(key.partition, key.row, props{"Value": (start + i) % 500})))
		}
		ok(t, submit(table, actions...))
	}

	t.Run("all to the end in order", func(t *testing.T) {
		found, _ := pagesOf(t, table.Client, nil)
		equal(t, found, keys)
	})

	t.Run("a page has at most 1000", func(t *testing.T) {
		_, largest := pagesOf(t, table.Client, nil)
		equal(t, largest <= 1000, true)
	})

	for _, size := range []int32{1000, 499, 77} {
		t.Run(fmt.Sprint("page size: ", size), func(t *testing.T) {
			found, largest := pagesOf(t, table.Client, &aztables.ListEntitiesOptions{Top: &size})
			equal(t, largest, int(size))
			equal(t, found, keys)
		})
	}

	t.Run("a filter with pages", func(t *testing.T) {
		options := &aztables.ListEntitiesOptions{Filter: to.Ptr("Value ge 490"), Top: to.Ptr(int32(7))}
		found, largest := pagesOf(t, table.Client, options)
		equal(t, largest <= 7, true)
		equal(t, found, slices.DeleteFunc(slices.Clone(keys), func(key keyPair) bool { return key.row < "0490" }))
	})

	t.Run("a range with pages", func(t *testing.T) {
		filter := "PartitionKey ge " + quoted(partitions[1]) + " and PartitionKey lt " + quoted(partitions[4])
		found, _ := pagesOf(t, table.Client, &aztables.ListEntitiesOptions{Filter: &filter, Top: to.Ptr(int32(300))})
		equal(t, found, keys[500:2000])
	})

	t.Run("a token resumes with a fresh client", func(t *testing.T) {
		// The three tokens point into a partition, to the start of one, and into the one beyond ASCII.
		pager := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr(int32(750))})
		read := []keyPair{}
		for range 3 {
			page := must(pager.NextPage(ctx))(t)
			read = append(read, keysOf(t, page)...)
			fresh := fromEndpoint(t, endpoint, key).NewClient(table.name)
			rest, _ := pagesOf(t, fresh, &aztables.ListEntitiesOptions{
				Top: to.Ptr(int32(1000)), NextPartitionKey: page.NextPartitionKey, NextRowKey: page.NextRowKey,
			})
			equal(t, slices.Concat(read, rest), keys)
		}
	})
}
