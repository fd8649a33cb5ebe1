use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "{name:desc}")]
struct Employee {
    name: String,
}

fn main() {}
