package sdk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func names(page aztables.ListTablesResponse) (names []string) {
	for _, table := range page.Tables {
		names = append(names, *table.Name)
	}
	return names
}

func queryTables(t *testing.T, filter string, top int32) (pages [][]string) {
	t.Helper()
	options := &aztables.ListTablesOptions{Filter: to.Ptr(filter), Top: to.Ptr(top)}
	for _, page := range must(all(service.NewListTablesPager(options)))(t) {
		pages = append(pages, names(page))
	}
	return pages
}

func named(t *testing.T, name string) []string {
	t.Helper()
	return slices.Concat(queryTables(t, "TableName eq "+quoted(name), 1000)...)
}

func Test01Tables(t *testing.T) {
	t.Run("create", func(t *testing.T) {
		name := tableName()
		response := must(service.CreateTable(ctx, name, nil))(t)
		equal(t, *response.TableName, name)
		equal(t, named(t, name), []string{name})
		must(service.DeleteTable(ctx, name, nil))(t)
	})

	withTable(t, "create again is a conflict", func(t *testing.T, table table) {
		_, err := service.CreateTable(ctx, table.name, nil)
		refused(t, err, 409, string(aztables.TableAlreadyExists))
	})

	withTable(t, "the same name in other case is a conflict", func(t *testing.T, table table) {
		_, err := service.CreateTable(ctx, strings.ToUpper(table.name), nil)
		refused(t, err, 409, string(aztables.TableAlreadyExists))
	})

	withTable(t, "create if not exists", func(t *testing.T, table table) {
		// The SDK has no call for it: one creates and takes TableAlreadyExists for success.
		_, err := table.CreateTable(ctx, nil)
		refused(t, err, 409, string(aztables.TableAlreadyExists))
		equal(t, named(t, table.name), []string{table.name})
	})

	badNames := map[string][]string{
		"OutOfRangeInput":     {"ab", strings.Repeat("a", 64)},
		"InvalidResourceName": {"1abc", "a_b", "a-b", "äbc"},
	}
	for code, bad := range badNames {
		for _, name := range bad {
			t.Run("a bad name is refused: "+name, func(t *testing.T) {
				_, err := service.CreateTable(ctx, name, nil)
				refused(t, err, 400, code)
			})
		}
	}

	t.Run("the reserved name is refused", func(t *testing.T) {
		_, err := service.CreateTable(ctx, "Tables", nil)
		refused(t, err, 400, "InvalidInput")
	})

	t.Run("list with a filter and by pages", func(t *testing.T) {
		start := tableName() + "x"
		created := []string{}
		for i := range 5 {
			created = append(created, fmt.Sprint(start, i))
			must(service.CreateTable(ctx, created[i], nil))(t)
		}
		ofThisTest := "TableName ge " + quoted(start) + " and TableName lt " + quoted(start+"z")

		equal(t, queryTables(t, ofThisTest, 1000), [][]string{created})
		equal(t, named(t, created[3]), created[3:4])
		equal(t, queryTables(t, ofThisTest, 2), [][]string{created[0:2], created[2:4], created[4:5]})

		everything := []string{}
		for _, page := range must(all(service.NewListTablesPager(&aztables.ListTablesOptions{Top: to.Ptr(int32(3))})))(t) {
			everything = append(everything, names(page)...)
		}
		for _, name := range created {
			equal(t, slices.Contains(everything, name), true)
			must(service.DeleteTable(ctx, name, nil))(t)
		}
		equal(t, slices.Concat(queryTables(t, ofThisTest, 1000)...), []string(nil))
	})

	t.Run("delete", func(t *testing.T) {
		table := missingTable()
		must(table.CreateTable(ctx, nil))(t)
		must(table.Delete(ctx, nil))(t)
		equal(t, named(t, table.name), []string(nil))
	})

	t.Run("delete a missing table", func(t *testing.T) {
		_, err := service.DeleteTable(ctx, tableName(), nil)
		refused(t, err, 404, string(aztables.ResourceNotFound))
	})
}
