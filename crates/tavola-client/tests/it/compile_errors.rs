//! The messages of mistakes that do not compile. `TRYBUILD=overwrite` stores new ones; they hold for
//! the compiler that the workspace is built with.

/// G59: a projected entity is not an entity (`projected_is_not_stored`). G79: two kinds whose rows
/// are alike (`enum_rows_alike`).
#[test]
fn mistakes_are_told_at_the_field() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    // G167: encrypted properties are in no key and in no filter.
    #[cfg(feature = "encrypt")]
    cases.compile_fail("tests/ui/encrypt/*.rs");
    #[cfg(not(feature = "encrypt"))]
    cases.compile_fail("tests/ui/no_encrypt/*.rs");
}
