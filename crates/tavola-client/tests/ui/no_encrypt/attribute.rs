use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Patient {
    #[entity(encrypt)]
    ssn: String,
}

fn main() {}
