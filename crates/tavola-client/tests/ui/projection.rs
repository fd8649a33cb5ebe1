use tavola_client::{Entity, Projection};

#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

#[derive(Projection)]
#[projection(of = Employee)]
struct NoSuchName {
    salary: i64,
}

#[derive(Projection)]
#[projection(of = Employee)]
struct AnotherType {
    last: i32,
}

fn main() {}
