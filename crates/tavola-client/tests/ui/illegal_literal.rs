use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r/{id}")]
struct Employee {
    id: u32,
}

fn main() {}
