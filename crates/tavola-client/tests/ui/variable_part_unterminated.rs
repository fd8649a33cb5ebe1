use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "{dept}_{last}")]
struct Employee {
    dept: String,
    last: String,
}

fn main() {}
