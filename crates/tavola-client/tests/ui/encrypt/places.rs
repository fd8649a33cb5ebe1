use tavola_client::{Entity, Properties, Value};

#[derive(Entity)]
#[entity(partition = "{ssn}", row = "r")]
struct InTemplate {
    #[entity(encrypt)]
    ssn: String,
}

#[derive(Entity)]
#[entity(partition = "p")]
struct OnField {
    #[entity(row, encrypt)]
    ssn: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
#[entity(index(ssn, row = "ssn_{ssn}", unique))]
struct InIndex {
    #[entity(encrypt)]
    ssn: String,
}

#[derive(Properties)]
struct Address {
    street: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Flattened {
    #[entity(flatten, encrypt)]
    home: Address,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Rest {
    #[entity(rest, encrypt)]
    rest: Vec<(String, Value)>,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct WriteId {
    #[entity(write_id, encrypt)]
    id: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Skipped {
    #[entity(skip, encrypt)]
    cache: String,
}

fn main() {}
