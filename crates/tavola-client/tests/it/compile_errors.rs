//! The messages of mistakes that do not compile. `TRYBUILD=overwrite` stores new ones; they hold for
//! the compiler that the workspace is built with.

/// G59: a projected entity is not an entity (`projected_is_not_stored`). G79: two kinds whose rows
/// are alike (`enum_rows_alike`).
#[test]
fn mistakes_are_told_at_the_field() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
