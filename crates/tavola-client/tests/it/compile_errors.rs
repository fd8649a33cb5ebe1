//! The messages of mistakes that do not compile. `TRYBUILD=overwrite` stores new ones; they hold for
//! the compiler that the workspace is built with.

/// G59: among them, a projected entity cannot be written back (`projected_is_not_stored.rs`).
#[test]
fn mistakes_are_told_at_the_field() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
