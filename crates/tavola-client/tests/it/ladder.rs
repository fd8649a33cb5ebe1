//! G173: every filter of the guide's query ladder.

use futures_util::TryStreamExt as _;
use tavola_client::{Access, AnyFilter, DynEntity, Error, TableClient, TableServiceClient, prop};

#[derive(Debug)]
struct Rung {
    filter: &'static str,
    here: Access,
    azure: Access,
    /// The RowKeys of what is returned.
    returned: &'static [&'static str],
}

const LADDER: [Rung; 6] = [
    Rung {
        filter: "PartitionKey eq 'Sales' and RowKey eq '000002'",
        here: Access::Point,
        azure: Access::Point,
        returned: &["000002"],
    },
    Rung {
        filter: "PartitionKey eq 'Sales' and RowKey ge '0001' and RowKey lt '0003'",
        here: Access::RowRange,
        azure: Access::RowRange,
        returned: &["000121"],
    },
    Rung {
        filter: "PartitionKey eq 'Sales' and Last eq 'Smith'",
        here: Access::PartitionScan,
        azure: Access::PartitionScan,
        returned: &["000002"],
    },
    Rung {
        filter: "Last eq 'Jones'",
        here: Access::TableScan,
        azure: Access::TableScan,
        returned: &["000007", "000322"],
    },
    Rung {
        filter: "RowKey eq '000007'",
        here: Access::TableScan,
        azure: Access::TableScan,
        returned: &["000007"],
    },
    Rung {
        filter: "PartitionKey eq 'Sales' and (RowKey eq '000121' or RowKey eq '000322')",
        here: Access::Point,
        azure: Access::PartitionScan,
        returned: &["000121", "000322"],
    },
];

/// The guide's five rows.
async fn staff_of_the_guide() -> Result<TableClient, Error> {
    let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("Staff");
    table.create().await?;
    let rows = [
        ("Ops", "000007", "Jones"),
        ("Sales", "000002", "Smith"),
        ("Sales", "000121", "Adler"),
        ("Sales", "000322", "Jones"),
    ];
    for (partition, row, last) in rows {
        let mut entity = DynEntity::new(partition, row);
        entity.set("Last", last);
        table.insert(&entity).await?;
    }
    let mut department = DynEntity::new("Sales", "dept");
    department.set("Headcount", 3);
    table.insert(&department).await?;
    Ok(table)
}

/// Each filter as text and built from names: its class here and on Azure, and what it returns.
#[tokio::test]
async fn the_query_ladder() -> Result<(), Error> {
    let t = staff_of_the_guide().await?;
    let (row, last) = (|| prop("RowKey"), || prop("Last"));
    let sales = || prop("PartitionKey").eq("Sales");
    let built = [
        sales().and(row().eq("000002")),
        sales().and(row().ge("0001")).and(row().lt("0003")),
        sales().and(last().eq("Smith")),
        last().eq("Jones"),
        row().eq("000007"),
        sales().and(row().eq("000121").or(row().eq("000322"))),
    ];
    for (rung, built) in LADDER.iter().zip(built) {
        assert_eq!(built.to_string(), rung.filter);
        let query = t.filter::<DynEntity>(built);
        let explain = query.explain()?;
        assert_eq!((explain.here, explain.azure), (rung.here, rung.azure), "{rung:?}");
        let rows: Vec<_> = query.stream().try_collect().await?;
        assert_eq!(rows.iter().map(|row| row.row()).collect::<Vec<_>>(), rung.returned, "{rung:?}");
        // Scans are refused where they are one.
        let read = t.filter::<DynEntity>(AnyFilter::parse(rung.filter)?).deny_scans();
        let read = read.stream().try_collect::<Vec<_>>().await.map(|rows| rows.len());
        let expected = (rung.here < Access::PartitionScan).then_some(rung.returned.len());
        assert_eq!(read.ok(), expected, "{rung:?}");
    }
    Ok(())
}
