use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "{id:6}")]
struct Employee {
    id: u32,
}

fn main() {}
