package sdk

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

const (
	replace = aztables.UpdateModeReplace
	merge   = aztables.UpdateModeMerge
	stale   = azcore.ETag(`W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"`)
)

var modes = []aztables.UpdateMode{replace, merge}

func row(properties props) props {
	return entity("p", "r", properties)
}

// after is what an update of old with changed leaves behind.
func after(mode aztables.UpdateMode, old, changed props) props {
	if mode == replace {
		return changed
	}
	both := maps.Clone(old)
	maps.Copy(both, changed)
	return both
}

func deleteIf(table table, ifMatch *azcore.ETag) error {
	_, err := table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: ifMatch})
	return err
}

func Test03Operations(t *testing.T) {
	five, six := props{"A": int32(5)}, props{"A": int32(6)}
	fiveAndX := row(props{"A": int32(5), "B": "x"})

	withTable(t, "insert and get", func(t *testing.T, table table) {
		etag := table.insert(t, row(five))
		equal(t, table.get(t, "p", "r"), row(five))
		equal(t, table.metadata(t, "p", "r").ETag, string(etag))
		equal(t, must(table.GetEntity(ctx, "p", "r", nil))(t).ETag, etag)
	})

	withTable(t, "insert an existing entity", func(t *testing.T, table table) {
		table.insert(t, row(five))
		_, err := table.AddEntity(ctx, body(row(six)), nil)
		refused(t, err, 409, string(aztables.EntityAlreadyExists))
		equal(t, table.get(t, "p", "r"), row(five))
	})

	for _, mode := range modes {
		withTable(t, "update any version: "+string(mode), func(t *testing.T, table table) {
			table.insert(t, fiveAndX)
			changed := row(props{"A": int32(6), "C": true})
			must(table.update(changed, mode, nil))(t)
			equal(t, table.get(t, "p", "r"), after(mode, fiveAndX, changed))
		})

		withTable(t, "update with the etag: "+string(mode), func(t *testing.T, table table) {
			old := table.insert(t, fiveAndX)
			changed := row(props{"A": "other type"})
			etag := must(table.update(changed, mode, &old))(t)
			equal(t, table.get(t, "p", "r"), after(mode, fiveAndX, changed))
			equal(t, table.metadata(t, "p", "r").ETag, string(etag))
			equal(t, etag != old, true)
		})

		withTable(t, "upsert: "+string(mode), func(t *testing.T, table table) {
			must(table.upsert(fiveAndX, mode))(t)
			equal(t, table.get(t, "p", "r"), fiveAndX)
			must(table.upsert(row(six), mode))(t)
			equal(t, table.get(t, "p", "r"), after(mode, fiveAndX, row(six)))
		})
	}

	withTable(t, "delete any version", func(t *testing.T, table table) {
		table.insert(t, row(nil))
		must(table.DeleteEntity(ctx, "p", "r", nil))(t)
		equal(t, table.list(t), []props{})
	})

	withTable(t, "delete with the etag", func(t *testing.T, table table) {
		etag := table.insert(t, row(nil))
		equal(t, deleteIf(table, &etag), nil)
		equal(t, table.list(t), []props{})
	})

	conditional := map[string]func(table, azcore.ETag) error{
		"update with a stale etag: replace": func(table table, etag azcore.ETag) error {
			_, err := table.update(row(props{"A": int32(7)}), replace, &etag)
			return err
		},
		"update with a stale etag: merge": func(table table, etag azcore.ETag) error {
			_, err := table.update(row(props{"A": int32(7)}), merge, &etag)
			return err
		},
		"delete with a stale etag": func(table table, etag azcore.ETag) error { return deleteIf(table, &etag) },
	}
	for name, write := range conditional {
		withTable(t, name, func(t *testing.T, table table) {
			old := table.insert(t, row(five))
			must(table.update(row(six), merge, nil))(t)
			for _, etag := range []azcore.ETag{old, stale} {
				refused(t, write(table, etag), 412, string(aztables.UpdateConditionNotSatisfied))
			}
			equal(t, table.get(t, "p", "r"), row(six))
		})
	}

	calls := func(table table) map[string]error {
		_, get := table.GetEntity(ctx, "p", "r", nil)
		_, updateReplace := table.update(row(nil), replace, nil)
		_, updateMerge := table.update(row(nil), merge, nil)
		return map[string]error{
			"get": get, "replace": updateReplace, "merge": updateMerge, "delete": deleteIf(table, nil),
		}
	}

	withTable(t, "a missing entity", func(t *testing.T, table table) {
		for _, err := range calls(table) {
			refused(t, err, 404, string(aztables.ResourceNotFound))
		}
	})

	t.Run("a missing table", func(t *testing.T) {
		missing := missingTable()
		errs := calls(missing)
		_, errs["insert"] = missing.AddEntity(ctx, body(row(nil)), nil)
		_, errs["upsert replace"] = missing.upsert(row(nil), replace)
		_, errs["upsert merge"] = missing.upsert(row(nil), merge)
		_, errs["list"] = missing.find(nil)
		for _, err := range errs {
			refused(t, err, 404, string(aztables.TableNotFound))
		}
	})

	withTable(t, "each write changes etag and timestamp", func(t *testing.T, table table) {
		writes := []func() (azcore.ETag, error){
			func() (azcore.ETag, error) { return table.insert(t, row(five)), nil },
			func() (azcore.ETag, error) { return table.update(row(five), merge, nil) },
			func() (azcore.ETag, error) { return table.update(row(five), replace, to.Ptr(azcore.ETagAny)) },
			func() (azcore.ETag, error) { return table.upsert(row(five), merge) },
			func() (azcore.ETag, error) { return table.upsert(row(five), replace) },
		}
		last := time.Time{}
		for _, write := range writes {
			etag := must(write())(t)
			metadata := table.metadata(t, "p", "r")
			equal(t, metadata.ETag, string(etag))
			text := must(metadata.Timestamp.MarshalText())(t)
			equal(t, string(etag), `W/"datetime'`+strings.ReplaceAll(string(text), ":", "%3A")+`'"`)
			equal(t, time.Time(metadata.Timestamp).After(last), true)
			last = time.Time(metadata.Timestamp)
		}
	})
}
