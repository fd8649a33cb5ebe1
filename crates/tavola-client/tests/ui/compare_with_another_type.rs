use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

fn main() {
    let _ = Employee::LAST.gt(5);
}
