use tavola_client::Entity;

struct Employee;

fn needs<E: Entity>() {}

fn main() {
    needs::<Employee>();
}
