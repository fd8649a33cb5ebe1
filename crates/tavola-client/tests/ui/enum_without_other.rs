use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

#[derive(Entity)]
enum Staff {
    Employee(Employee),
}

fn main() {}
