use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Visits {
    count: u64,
}

fn main() {}
