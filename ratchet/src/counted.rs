//! The function whose instructions are counted.

use std::hint::black_box;

use crate::failure::Result;

/// What callgrind is told to look for. Its stars stand for what the compiler puts around a function's name.
pub(crate) const SYMBOL_PATTERN: &str = "*only_this_is_counted*";

/// So many calls are counted, and divided by: what an allocator or a hash table does now and then is then in the mean.
pub(crate) const CALLS: usize = 200;

/// Calls that fill caches and free lists before.
const WARM_UP_CALLS: usize = 50;

/// Counts calls that need nothing of their own.
pub(crate) fn count<T>(mut call: impl FnMut() -> T) -> Result {
    for _ in 0..WARM_UP_CALLS {
        black_box(call());
    }
    count_all(|| {
        for _ in 0..CALLS {
            black_box(call());
        }
    });
    Ok(())
}

/// Counts what makes [`CALLS`] calls.
pub(crate) fn count_all(mut calls: impl FnMut()) {
    only_this_is_counted(&mut calls);
}

/// Through a pointer, so that no other function can bear this name or a part of it.
#[inline(never)]
fn only_this_is_counted(calls: &mut dyn FnMut()) {
    calls();
    // Otherwise the call above would become a jump, and this function would have ended before it.
    black_box(());
}
