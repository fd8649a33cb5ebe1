use tavola_client::Entity;

#[derive(Entity)]
#[entity(family, kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
}

#[derive(Entity)]
#[entity(within = Employee, partition = "{dept}", row = "empid_{id:06}_{year:04}")]
struct WithoutKind {
    dept: String,
    id: u32,
    year: u16,
}

#[derive(Entity)]
#[entity(within = Employee, kind = "a", partition = "{dept}", row = "empid_{id:05}_{year:04}")]
struct OtherWidth {
    dept: String,
    id: u32,
    year: u16,
}

#[derive(Entity)]
#[entity(kind = "dept", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
}

#[derive(Entity)]
#[entity(within = Department, kind = "b", partition = "{dept}", row = "dept_{year:04}")]
struct NoFamily {
    dept: String,
    year: u16,
}

fn main() {}
