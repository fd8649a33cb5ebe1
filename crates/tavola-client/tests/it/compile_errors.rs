//! The messages of mistakes that do not compile. `TRYBUILD=overwrite` stores new ones; they hold for
//! the compiler that the workspace is built with.

#[test]
fn mistakes_are_told_at_the_field() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
