use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct System {
    #[entity(rename = "Timestamp")]
    at: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Ours {
    tv_ver: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Twice {
    a: String,
    #[entity(rename = "a")]
    b: String,
}

fn main() {}
