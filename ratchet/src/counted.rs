//! The function whose instructions are counted.

use std::hint::black_box;
use std::path::Path;

use crate::failure::Result;

/// What callgrind is told to look for. Its stars stand for what the compiler puts around a
/// function's name.
pub(crate) const SYMBOL_PATTERN: &str = "*only_this_is_counted*";

/// One run of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The count is divided by it, so that what an allocator or a hash table does now and then is
    /// in the mean.
    pub(crate) calls: usize,
    /// For data, empty.
    pub(crate) folder: &'a Path,
}

impl Run<'_> {
    /// Counts calls that need nothing of their own.
    pub(crate) fn count<T>(&self, mut call: impl FnMut() -> T) -> Result {
        // Fills caches and free lists.
        for _ in 0..self.calls.div_ceil(4) {
            black_box(call());
        }
        counted(|| {
            for _ in 0..self.calls {
                black_box(call());
            }
        });
        Ok(())
    }
}

/// Counts what is done in there; a case does it for all of its calls, in one piece or in many.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    only_this_is_counted(&mut || result = work.take().map(|work| work()));
    result.unwrap_or_else(|| unreachable!("the work was done just now"))
}

/// Through a pointer, so that no other function can bear this name or a part of it.
#[inline(never)]
fn only_this_is_counted(work: &mut dyn FnMut()) {
    work();
    // Otherwise the call above would become a jump, and this function would have ended before it.
    black_box(());
}
