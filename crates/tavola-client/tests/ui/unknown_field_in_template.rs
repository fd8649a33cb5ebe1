use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "{dept}", row = "{nr:06}")]
struct Employee {
    dept: String,
    id: u32,
}

fn main() {}
