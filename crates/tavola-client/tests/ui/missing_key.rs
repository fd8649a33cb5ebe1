use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p")]
struct Employee {
    id: u32,
}

fn main() {}
