use tavola_client::{DynEntity, Entity};

#[derive(Entity)]
#[entity(kind = "a", partition = "{dept}", row = "a_{id}")]
struct A {
    dept: String,
    id: u32,
}

#[derive(Entity)]
#[entity(kind = "a", partition = "{dept}", row = "b_{id}")]
struct B {
    dept: String,
    id: u32,
}

#[derive(Entity)]
#[entity(partition = "{dept}", row = "c_{id}")]
struct C {
    dept: String,
    id: u32,
}

#[derive(Entity)]
enum Staff {
    A(A),
    B(B),
    C(C),
    #[entity(other)]
    Other(DynEntity),
}

fn main() {}
