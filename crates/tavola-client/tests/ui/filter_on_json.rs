use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Tagged {
    #[entity(json)]
    note: String,
}

fn main() {
    let _ = Tagged::NOTE.eq("x");
}
