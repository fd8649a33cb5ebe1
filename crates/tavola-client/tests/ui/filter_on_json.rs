use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Tagged {
    #[entity(json)]
    tags: Vec<String>,
}

fn main() {
    let _ = Tagged::TAGS.eq("x");
}
