use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "{name:06}")]
struct Employee {
    name: String,
}

fn main() {}
