use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

#[derive(Entity)]
#[entity(partition = "p", row = "r")]
struct Other {
    size: i32,
}

fn main() {
    let _ = Employee::LAST.eq("Jones").and(Other::SIZE.gt(5));
}
