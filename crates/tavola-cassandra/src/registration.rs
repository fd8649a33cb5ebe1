//! How the directory knows a partition, and what the guard of the next write must therefore assume.
//!
//! A partition is entered into the directory under a generation before its first row is written,
//! and retired when it is empty. A write to a retired partition enters it anew under the next
//! generation, so that a late delete of the old entry cannot hide it. Generations only grow.

/// How the next write of a partition must be guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The directory knows it under this generation.
    Active(i32),
    /// It was never written.
    New,
    /// It was retired; this was its generation.
    Retired(i32),
}

/// The generation of a partition that was never retired.
pub(crate) const FIRST_GENERATION: i32 = 1;

impl Registration {
    /// From the column `gen`, which is negative while the partition is retired.
    pub(crate) fn of(generation: Option<i32>) -> Self {
        match generation {
            None => Self::New,
            Some(generation) if generation < 0 => Self::Retired(generation.saturating_neg()),
            Some(generation) => Self::Active(generation),
        }
    }

    /// True if the next write need not enter the partition into the directory first.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Active(_))
    }

    /// What it is once a write was applied.
    pub(crate) fn after_write(self) -> Self {
        Self::Active(self.generation())
    }

    /// The generation that the next write has.
    pub(crate) fn generation(self) -> i32 {
        match self {
            Self::Active(generation) => generation,
            Self::New => FIRST_GENERATION,
            Self::Retired(generation) => generation.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_GENERATION, Registration};

    #[test]
    fn a_write_to_a_retired_partition_begins_a_generation() {
        assert_eq!(Registration::of(None).after_write(), Registration::Active(FIRST_GENERATION));
        let retired = Registration::of(Some(-3));
        assert!(!retired.is_active());
        assert_eq!(retired.after_write(), Registration::Active(4));
        assert_eq!(Registration::of(Some(3)).after_write(), Registration::Active(3));
    }
}
