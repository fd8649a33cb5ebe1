use tavola_client::{DynEntity, Entity};

#[derive(Entity)]
#[entity(kind = "a", partition = "{dept}", row = "emp_{id}")]
struct A {
    dept: String,
    id: u32,
}

#[derive(Entity)]
#[entity(kind = "b", partition = "{dept}", row = "emp_mail_{id}")]
struct B {
    dept: String,
    id: u32,
}

#[derive(Entity)]
enum Staff {
    A(A),
    B(B),
    #[entity(other)]
    Other(DynEntity),
}

fn main() {}
