use tavola_client::Entity;

// No crate has a trait with a method of this name, which the compiler would propose.
#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{badge_no:06}")]
struct Employee {
    dept: String,
    badge_no: u32,
    last: String,
}

fn main() {
    let _ = Employee::key().badge_no(3);
}
