use tavola_client::patterns::Wide;
use tavola_client::{Entity, TableClient, Value};

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct TooManyParts {
    #[entity(part = 100)]
    a: String,
}

#[derive(Entity)]
#[entity(wide, partition = "p", row = "r")]
struct WithRest {
    a: String,
    #[entity(rest)]
    rest: Vec<(String, Value)>,
}

#[derive(Entity)]
#[entity(wide, partition = "p", row = "r", index(a, row = "a_{a}", unique))]
struct WithIndex {
    a: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "{id}")]
struct NoProperty {
    #[entity(part = 1)]
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Narrow {
    a: String,
}

fn narrow(table: &TableClient) {
    let _ = Wide::<Narrow>::new(table);
}

fn main() {}
