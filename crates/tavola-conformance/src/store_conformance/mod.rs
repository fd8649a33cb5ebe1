//! The contract of [`tavola_store::Store`] as tests: one named case per guarantee, run on every
//! store and decorator.
//!
//! ```ignore
//! tavola_conformance::store_conformance!(MemoryStore::new());
//! ```
//!
//! The expression is evaluated anew for each case, in an async function, and gives an empty store.

pub mod concurrency;
pub mod fixture;
pub mod imports;
pub mod model;
pub mod operations;
pub mod purges;
pub mod scans;
pub mod transactions;

/// One `#[tokio::test]` per case of the contract, each on a fresh store.
#[macro_export]
macro_rules! store_conformance {
    ($store:expr) => {
        $crate::store_conformance_cases! { $store;
            operations: [
                an_absent_entity_is_none every_type_is_read_back an_entity_may_have_no_properties
                the_largest_entity_is_read_back
                the_longest_keys_are_carried insert_refuses_an_existing_entity replace_writes_all_properties
                replace_without_a_condition_inserts replace_checks_its_condition merge_keeps_what_it_does_not_name
                merge_without_a_condition_inserts merge_checks_its_condition merge_refuses_to_grow_beyond_the_limits
                delete_removes_the_entity delete_checks_its_condition keys_may_be_empty the_longest_keys_are_read_back
            ]
            transactions: [
                a_transaction_is_applied_whole a_refusal_leaves_nothing the_first_failing_operation_is_named
                a_transaction_has_one_version a_hundred_large_operations_are_one_transaction
                partitions_and_tables_are_apart versions_rise_while_the_clock_stands
                versions_rise_while_the_clock_goes_back a_version_never_comes_back_with_the_entity
                a_later_clock_is_followed
            ]
            scans: [
                a_scan_is_in_the_order_of_code_units a_scan_returns_exactly_its_range a_scan_stays_in_its_table
                pages_bounded_by_rows_go_on_exactly pages_bounded_by_bytes_go_on_exactly
                pages_bounded_by_reading_go_on_exactly bounds_of_zero_still_get_on
                a_page_goes_on_whatever_happened_between a_residual_leaves_rows_out a_scan_that_has_to_stop_does
                the_cost_of_a_page_is_the_page a_scan_sees_what_was_committed_before
            ]
            purges: [
                a_purge_removes_its_table_only a_purge_may_be_repeated a_purge_forgets_no_version
                the_last_table_of_all_is_purged
            ]
            concurrency: [
                no_increment_is_lost one_of_many_inserts_wins a_page_sees_transactions_whole
                point_reads_see_transactions_whole versions_of_a_partition_are_all_different
                a_dropped_commit_is_whole_or_absent
            ]
        }
    };
}

/// The body of [`store_conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! store_conformance_cases {
    ($store:expr; $theme:ident: [$($case:ident)*] $($rest:tt)*) => {
        mod $theme {
            #[allow(unused_imports, reason = "not every expression names something of its file")]
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let store = ::std::sync::Arc::new($store);
                    $crate::store_conformance::$theme::$case($crate::store_conformance::fixture::Subject(store)).await;
                }
            )*
        }
        $crate::store_conformance_cases! { $store; $($rest)* }
    };
    ($store:expr;) => {};
}

/// The same for [`tavola_store::Import`].
#[macro_export]
macro_rules! import_conformance {
    ($store:expr) => {
        $crate::import_conformance_cases! { $store;
            rows_are_taken_over_as_they_are an_import_may_be_repeated nothing_is_overwritten
            versions_go_on_above_what_was_brought any_number_of_rows_is_taken_over large_rows_are_taken_over
        }
    };
}

/// The body of [`import_conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! import_conformance_cases {
    ($store:expr; $($case:ident)*) => {
        mod imports {
            #[allow(unused_imports, reason = "not every expression names something of its file")]
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::store_conformance::imports::$case(::std::sync::Arc::new($store)).await;
                }
            )*
        }
    };
}
