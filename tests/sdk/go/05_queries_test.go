package sdk

import "testing"

func Test05Queries(t *testing.T) {
	table := freshTable(t)
	for _, row := range scenario.Rows {
		table.insert(t, scenarioRow(t, row))
	}
	found := func(filter string) (rows string, err error) {
		entities, err := table.query(filter)
		for _, e := range entities {
			rows += e["RowKey"].(string)
		}
		return rows, err
	}

	// The middle one of the three values of each property; the SDK has no helper to write it.
	middle := scenario.Rows[1]
	constants := []struct{ name, text string }{
		{"PartitionKey", quoted(middle["PartitionKey"])},
		{"RowKey", quoted(middle["RowKey"])},
		{"Int32", middle["Int32"]},
		{"Int64", middle["Int64"] + "L"},
		{"Double", middle["Double"]},
		{"DateTime", "datetime" + quoted(middle["DateTime"])},
		{"Guid", "guid" + quoted(middle["Guid"])},
		{"Binary", "X" + quoted(middle["Binary"])},
		{"String", quoted(middle["String"])},
		{"Boolean", middle["Boolean"]},
	}
	for _, constant := range constants {
		for _, item := range scenario.Operators {
			t.Run("operator: "+constant.name+" "+item.Operator, func(t *testing.T) {
				want := item.Rows
				if constant.name == "Boolean" {
					want = item.BooleanRows
				}
				equal(t, must(found(constant.name+" "+item.Operator+" "+constant.text))(t), want)
			})
		}
	}

	for _, item := range scenario.Filters {
		t.Run("filter: "+item.Name, func(t *testing.T) {
			equal(t, must(found(item.Filter))(t), item.Rows)
		})
	}

	for _, filter := range scenario.BadFilters {
		t.Run("a bad filter is refused: "+filter, func(t *testing.T) {
			_, err := found(filter)
			refused(t, err, 400, "InvalidInput")
		})
	}
}
