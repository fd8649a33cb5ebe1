use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "{id}")]
struct Employee {
    id: Option<u32>,
}

fn main() {}
