//! Materialized views: G128, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use tavola_client::patterns::{Project, View};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    DynEntity, Entity, ErrorKind, IfMatch, Mode, Properties, Rule, TableServiceClient,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "orders", row = "{number:010}")]
struct Order {
    number: u64,
    customer: String,
    /// Nothing: the customer takes all orders back.
    amount: Option<i64>,
}

fn order(number: u64, customer: &str, amount: i64) -> Order {
    Order { number, customer: customer.to_owned(), amount: Some(amount) }
}

#[derive(Properties, Debug, Clone, PartialEq, Default)]
struct Total {
    orders: i64,
    amount: i64,
}

/// Sums by customer, times a factor, so that two projections differ.
struct Totals(i64);

impl Project<Order> for Totals {
    type Row = Total;

    fn keys(&self, order: &Order) -> Vec<String> {
        vec![order.customer.clone(), "all".to_owned()]
    }

    fn fold(&self, key: &str, row: Option<Total>, order: &Order) -> Option<Total> {
        let Total { orders, amount } = row.unwrap_or_default();
        match order.amount {
            Some(more) => Some(Total { orders: orders + 1, amount: amount + more * self.0 }),
            None if key == "all" => Some(Total { orders: orders + 1, amount }),
            None => None,
        }
    }
}

fn totals(sim: &Sim) -> View<Order, Totals> {
    view(sim, 1)
}

fn view(sim: &Sim, factor: i64) -> View<Order, Totals> {
    View::new(&sim.table("views"), "totals", &sim.table("orders"), "orders", Totals(factor))
}

async fn seed(sim: Sim) -> Checked {
    sim.table("views").create().await?;
    let orders = sim.table("orders");
    orders.create().await?;
    for (number, customer) in [(1, "ann"), (2, "bob"), (3, "ann")] {
        orders.insert(&order(number, customer, number as i64)).await?;
    }
    Ok(())
}

async fn seed_applied(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    totals(&sim).apply().await?;
    Ok(())
}

async fn apply(sim: Sim) -> Checked {
    totals(&sim).apply().await?;
    Ok(())
}

async fn rebuild(sim: Sim) -> Checked {
    totals(&sim).rebuild().await?;
    Ok(())
}

/// The view is what its changes come to, as far as it has them.
async fn is_clean(sim: Sim) -> Checked {
    let report = totals(&sim).verify().await?;
    if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

/// And it has all of them.
async fn is_complete(sim: Sim) -> Checked {
    is_clean(sim.clone()).await?;
    let lag = totals(&sim).lag().await?;
    if lag.is_none() { Ok(()) } else { Err(format!("{lag:?}").into()) }
}

async fn amount(sim: &Sim, key: &str) -> Result<Option<i64>, tavola_client::Error> {
    Ok(totals(sim).get(key).await?.map(|total| total.amount))
}

/// The gap: a sum that is written beside its position, in two requests, counts twice when the
/// second is lost.
#[tokio::test]
async fn a_position_written_apart_counts_twice() {
    let step = |sim: Sim| async move {
        let table = sim.table("views");
        let read = |row: Option<tavola_client::Stored<DynEntity>>, name: &str| {
            row.map_or(Ok(0), |row| row.get::<i64>(name))
        };
        let at = read(table.get::<DynEntity>(("v", "pos")).await?, "at")?;
        let sum = read(table.get::<DynEntity>(("v", "sum")).await?, "sum")?;
        for (name, row, value) in [("sum", "sum", sum + 1), ("at", "pos", 1)] {
            if at == 0 {
                let mut entity = DynEntity::new("v", row);
                entity.set(name, value);
                table.upsert(&entity, Mode::Replace).await?;
            }
        }
        Ok(())
    };
    let once = |sim: Sim| async move {
        let row = sim.table("views").get::<DynEntity>(("v", "sum")).await?.ok_or("no sum")?;
        let sum = row.get::<i64>("sum")?;
        if sum == 1 { Ok(()) } else { Err(format!("counted {sum} times").into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, step).seed(seed).recover(step).finally(once);
    let broken = cuts.run().await.unwrap_err();
    assert_eq!(broken.reason(), "counted 2 times", "{broken}");
}

/// G128, G129: each request of an application cut in each way: each change counts once.
#[tokio::test]
async fn every_cut_of_an_application() {
    let scenario = |sim: Sim| async move {
        apply(sim.clone()).await?;
        let orders = sim.table("orders");
        orders.insert(&order(4, "bob", 4)).await?;
        orders.insert(&Order { amount: None, ..order(5, "ann", 0) }).await?;
        apply(sim).await
    };
    let recover = |sim: Sim| async move {
        let orders = sim.table("orders");
        for again in [order(4, "bob", 4), Order { amount: None, ..order(5, "ann", 0) }] {
            orders.create_if_missing(&again).await?;
        }
        apply(sim).await
    };
    let finally = |sim: Sim| async move {
        is_complete(sim.clone()).await?;
        match (amount(&sim, "ann").await?, amount(&sim, "bob").await?, amount(&sim, "all").await?) {
            (None, Some(6), Some(10)) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(recover);
    let report = cuts.always(is_clean).finally(finally).run().await.unwrap();
    // Which generation, how far, changes, the rows of two customers and of all, one transaction.
    assert_eq!(report.requests, (3 + 3 + 1) + 2 + (3 + 3 + 1));
}

/// G128, G130: several apply at once while changes come.
#[tokio::test]
async fn applications_race() {
    let append = |sim: Sim| async move {
        for number in [4, 5] {
            sim.table("orders").insert(&order(number, "ann", 10)).await?;
        }
        Ok(())
    };
    let finally = |sim: Sim| async move {
        apply(sim.clone()).await?;
        is_complete(sim.clone()).await?;
        match amount(&sim, "all").await? {
            Some(26) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    for is_applied in [false, true] {
        let race = race(tavola_local::in_memory).writer(append).writer(apply).writer(apply);
        let race = if is_applied { race.seed(seed_applied) } else { race.seed(seed) };
        let race = race.always(is_clean).finally(finally);
        race.at_most(300, 200).run().await.unwrap();
    }
}

/// G128: readers see the old view or the new one, whole, while it is rebuilt with another
/// projection.
#[tokio::test]
async fn readers_see_one_generation() {
    let read = |sim: Sim| async move {
        let rows = totals(&sim).rows().await?;
        let amounts: Vec<_> = rows.iter().map(|(_, total)| total.amount).collect();
        let (all, ann, bob) = (amounts.first(), amounts.get(1), amounts.get(2));
        match (all, ann, bob, amounts.len()) {
            (Some(6), Some(4), Some(2), 3) | (Some(60), Some(40), Some(20), 3) => {}
            _ => return Err(format!("{rows:?}").into()),
        }
        match amount(&sim, "ann").await? {
            Some(4 | 40) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let rebuild = |sim: Sim| async move {
        view(&sim, 10).rebuild().await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let report = view(&sim, 10).verify().await?;
        // Of the old generation nothing is left but its position.
        let rows = sim.table("views");
        let rows = rows.scan::<DynEntity>().stream();
        let rows = futures_util::StreamExt::count(rows).await;
        let is_right = report.is_clean() && rows == 1 + 1 + 4;
        if is_right { Ok(()) } else { Err(format!("{report:?} {rows}").into()) }
    };
    let race = race(tavola_local::in_memory).seed(seed_applied).writer(read).writer(rebuild);
    race.finally(finally).run().await.unwrap();
}

/// G128, G129: a rebuild that is cut leaves the view as it was or the new one; the next ends it.
/// What somebody broke is found, and mended.
#[tokio::test]
async fn every_cut_of_a_rebuild() {
    let seed_broken = |sim: Sim| async move {
        seed_applied(sim.clone()).await?;
        let table = sim.table("views");
        let mut ann = DynEntity::new("totals!000001", "ann");
        ann.set("amount", 99_i64);
        table.update(&ann, Mode::Merge, IfMatch::Any).await?;
        table.delete_at::<DynEntity>(("totals!000001", "bob"), IfMatch::Any).await?;
        let mut eve = DynEntity::new("totals!000001", "eve");
        eve.set("amount", 1_i64);
        eve.set("orders", 1_i64);
        table.insert(&eve).await?;
        let report = totals(&sim).verify().await?;
        assert_eq!((report.missing, report.orphan, report.stale), (1, 1, 1));
        Ok(())
    };
    let whole = |sim: Sim| async move {
        // The broken one, or the new one.
        let rows = totals(&sim).rows().await?;
        let keys: Vec<_> = rows.iter().map(|(key, _)| key.as_str()).collect();
        if keys == ["all", "ann", "eve"] || keys == ["all", "ann", "bob"] {
            return Ok(());
        }
        Err(format!("{rows:?}").into())
    };
    let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_broken).recover(rebuild);
    cuts.always(whole).finally(is_complete).run().await.unwrap();
}

/// G128, G130: rebuilds, applications and new changes at once. Nothing is lost or counted twice.
#[tokio::test]
async fn rebuilds_race() {
    let append = |sim: Sim| async move {
        sim.table("orders").insert(&order(4, "ann", 10)).await?;
        apply(sim).await
    };
    let finally = |sim: Sim| async move {
        apply(sim.clone()).await?;
        is_complete(sim.clone()).await?;
        match amount(&sim, "all").await? {
            Some(16) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    for seed_of_race in [true, false] {
        let race = race(tavola_local::in_memory);
        let race = if seed_of_race { race.seed(seed_applied) } else { race.seed(seed) };
        let race = race.writer(rebuild).writer(append).writer(rebuild);
        race.finally(finally).at_most(100, 200).run().await.unwrap();
    }
}

/// One row of the view for each change, and one for 100 of them.
struct Wider;

impl Project<Order> for Wider {
    type Row = Total;

    fn keys(&self, order: &Order) -> Vec<String> {
        let rows = if order.customer == "many" { 100 } else { 1 };
        (0..rows).map(|row| format!("{}-{row}", order.number)).collect()
    }

    fn fold(&self, _: &str, row: Option<Total>, _: &Order) -> Option<Total> {
        row.or_else(|| Some(Total::default()))
    }
}

/// G131: requests of each call; more rows than a transaction writes.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let (orders, views) = (service.table_client("orders"), service.table_client("views"));
    orders.create().await.unwrap();
    views.create().await.unwrap();
    let all = (0..1001).map(|number| order(number, "ann", 1));
    assert_eq!(orders.bulk().insert_all(all).await.unwrap().written, 1001);
    let totals = View::new(&views, "totals", &orders, "orders", Totals(1));
    let _ = counted.take();
    let cost = || counted.take().len();
    let applied = totals.apply().await.unwrap();
    // 1,000 changes of two rows, and one more.
    assert_eq!((applied.changes, applied.transactions, cost()), (1001, 2, 2 + 4 + 4));
    assert_eq!(totals.apply().await.unwrap().changes, 0);
    assert_eq!(cost(), 3);
    assert_eq!(totals.get("ann").await.unwrap().map(|total| total.amount), Some(1001));
    assert_eq!(cost(), 2);
    assert_eq!((totals.lag().await.unwrap(), cost()), (None, 3));
    orders.insert(&order(2000, "bob", 1)).await.unwrap();
    let _ = cost();
    let lag = totals.lag().await.unwrap().unwrap();
    assert!(lag < std::time::Duration::from_secs(60) && cost() == 3, "{lag:?}");

    let wider = View::new(&views, "wider", &orders, "orders", Wider);
    let applied = wider.apply().await.unwrap();
    assert_eq!((applied.changes, applied.transactions), (1002, 1002_usize.div_ceil(99) + 1));
    assert_eq!(wider.rows().await.unwrap().len(), 1002);
    orders.insert(&order(3000, "many", 1)).await.unwrap();
    let error = wider.apply().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { rule: Rule::Transaction, .. }), "{error}");
}
