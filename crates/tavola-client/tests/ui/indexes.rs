use tavola_client::Entity;

#[derive(Entity)]
#[entity(partition = "{dept}", row = "emp_{id:06}")]
#[entity(index(mail, row = "emp_mail_{mail}", unique))]
struct BeginsAlike {
    dept: String,
    id: u32,
    mail: String,
}

#[derive(Entity)]
#[entity(partition = "{dept}", row = "emp_{id:06}")]
#[entity(index(mail, row = "mail_{mail}"))]
struct NotUnique {
    dept: String,
    id: u32,
    mail: String,
}

#[derive(Entity)]
#[entity(partition = "{dept}", row = "emp_{id:06}")]
#[entity(index(mail, row = "mail_{mail}", unique, sorted))]
struct UnknownWord {
    dept: String,
    id: u32,
    mail: String,
}

fn main() {}
