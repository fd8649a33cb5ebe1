use tavola_client::{Entity, Projected, Stored};

#[derive(Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

fn replace<E: Entity>(_stored: &mut Stored<E>) {}

fn write(projected: &mut Projected<Employee>) {
    replace(projected);
}

fn main() {}
