use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r", colour = "red")]
struct OnTheStruct {
    a: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct OnAField {
    #[entity(encrypted)]
    a: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Both {
    #[entity(json, skip)]
    a: String,
}

fn main() {}
