use tavola_client::{Entity, Properties};

#[derive(Properties)]
struct Address {
    city: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Employee {
    #[entity(flatten)]
    home: Address,
    #[entity(flatten)]
    work: Address,
}

fn main() {}
