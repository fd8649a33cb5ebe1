//! The names of a type's properties as a tree, so that flattened ones join at compile time.

/// A property's name, or the names of a flattened type behind a prefix.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Name {
    One(&'static str),
    Flattened { prefix: &'static str, names: &'static [Name] },
}

/// Properties of an entity, at most.
const PROPERTIES_MAX: usize = tavola_core::limits::PROPERTIES_MAX;

/// How many names there are.
#[doc(hidden)]
#[must_use]
pub const fn count(names: &[Name]) -> usize {
    let mut total = 0;
    let mut at = 0;
    while at < names.len() {
        total += match names[at] {
            Name::One(_) => 1,
            Name::Flattened { names, .. } => count(names),
        };
        at += 1;
    }
    total
}

/// True if there are no more than an entity can have.
#[doc(hidden)]
#[must_use]
pub const fn fit(names: &[Name]) -> bool {
    count(names) <= PROPERTIES_MAX
}

/// Own properties of a part of a wide entity, at most: one is for the generation.
pub(crate) const PART_PROPERTIES_MAX: usize = PROPERTIES_MAX - 1;
/// Parts of a wide entity, at most.
pub(crate) const PARTS_MAX: usize = tavola_core::limits::TRANSACTION_OPERATIONS_MAX;

/// True if there are no more than the parts of a wide entity can have.
#[doc(hidden)]
#[must_use]
pub const fn fit_by_order(names: &[Name]) -> bool {
    count(names) <= PARTS_MAX * PART_PROPERTIES_MAX
}

/// True if no part has more than it can have; `parts` has the part of each entry of `names`.
#[doc(hidden)]
#[must_use]
pub const fn fit_in_parts(names: &[Name], parts: &[u8]) -> bool {
    let mut counts = [0; PARTS_MAX];
    let mut at = 0;
    while at < names.len() {
        let part = parts[at] as usize;
        counts[part] += match names[at] {
            Name::One(_) => 1,
            Name::Flattened { names, .. } => count(names),
        };
        if counts[part] > PART_PROPERTIES_MAX {
            return false;
        }
        at += 1;
    }
    true
}

/// The part of each name: of those that the type says, or in their order.
pub(crate) fn in_parts(
    names: &[Name],
    parts: Option<&[u8]>,
) -> std::collections::HashMap<String, usize> {
    match parts {
        None => {
            let by_order = |(at, name)| (name, at / PART_PROPERTIES_MAX);
            expand(names).into_iter().enumerate().map(by_order).collect()
        }
        Some(parts) => {
            let of_part = |(name, part): (&Name, &u8)| {
                let part = usize::from(*part);
                expand(std::slice::from_ref(name)).into_iter().map(move |name| (name, part))
            };
            names.iter().zip(parts).flat_map(of_part).collect()
        }
    }
}

/// True if no name comes twice, `N` being how many there are. Names are compared by a hash of 64
/// bits: a prefix and a name cannot be joined in a `const`, but hashed one after the other.
#[doc(hidden)]
#[must_use]
pub const fn distinct<const N: usize>(names: &[Name]) -> bool {
    let mut hashes = [0; N];
    hash_all(names, FNV_BASIS, &mut hashes, 0);
    sort(&mut hashes);
    let mut at = 1;
    while at < N {
        if hashes[at - 1] == hashes[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Heap sort: no comparison of all with all, which the compiler would refuse for a wide entity.
const fn sort(hashes: &mut [u64]) {
    let mut from = hashes.len() / 2;
    while from > 0 {
        from -= 1;
        sift(hashes, from, hashes.len());
    }
    let mut end = hashes.len();
    while end > 1 {
        end -= 1;
        hashes.swap(0, end);
        sift(hashes, 0, end);
    }
}

const fn sift(hashes: &mut [u64], mut root: usize, end: usize) {
    loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && hashes[child] < hashes[child + 1] {
            child += 1;
        }
        if hashes[root] >= hashes[child] {
            return;
        }
        hashes.swap(root, child);
        root = child;
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

const fn hash(mut state: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        state = (state ^ bytes[at] as u64).wrapping_mul(FNV_PRIME);
        at += 1;
    }
    state
}

const fn hash_all(names: &[Name], state: u64, hashes: &mut [u64], mut count: usize) -> usize {
    let mut at = 0;
    while at < names.len() {
        match names[at] {
            Name::One(name) => {
                hashes[count] = hash(state, name);
                count += 1;
            }
            Name::Flattened { prefix, names } => {
                count = hash_all(names, hash(state, prefix), hashes, count);
            }
        }
        at += 1;
    }
    count
}

/// The names, joined.
pub(crate) fn expand(names: &[Name]) -> Vec<String> {
    fn push(prefix: &str, names: &[Name], out: &mut Vec<String>) {
        for name in names {
            match name {
                Name::One(name) => out.push([prefix, name].concat()),
                Name::Flattened { prefix: inner, names } => {
                    push(&[prefix, inner].concat(), names, out);
                }
            }
        }
    }
    let mut out = Vec::with_capacity(count(names));
    push("", names, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::{Name, count, distinct, expand, fit_in_parts, in_parts};

    const ADDRESS: &[Name] = &[Name::One("Street"), Name::One("City")];

    #[test]
    fn names_of_flattened_types_join() {
        let names = [
            Name::One("Last"),
            Name::Flattened { prefix: "Home", names: ADDRESS },
            Name::Flattened { prefix: "", names: ADDRESS },
        ];
        assert_eq!(count(&names), 5);
        assert_eq!(expand(&names), ["Last", "HomeStreet", "HomeCity", "Street", "City"]);
        assert!(distinct::<5>(&names));
    }

    #[test]
    fn names_are_in_parts() {
        let names = [
            Name::One("Last"),
            Name::Flattened { prefix: "Home", names: ADDRESS },
            Name::One("First"),
        ];
        let parts = in_parts(&names, Some(&[0, 3, 1]));
        assert_eq!((parts["Last"], parts["HomeCity"], parts["First"]), (0, 3, 1));
        assert!(fit_in_parts(&names, &[0, 3, 1]) && in_parts(&names, None)["First"] == 0);
        let many = [Name::One("A"); 252];
        assert!(!fit_in_parts(&many, &[7; 252]));
        let mut apart = [7; 252];
        apart[251] = 8;
        assert!(fit_in_parts(&many, &apart));
    }

    #[test]
    fn names_that_come_twice_are_found() {
        let home = Name::Flattened { prefix: "Home", names: ADDRESS };
        assert!(!distinct::<2>(&[Name::One("A"), Name::One("A")]));
        assert!(!distinct::<3>(&[Name::One("HomeCity"), home]));
        assert!(!distinct::<4>(&[home, home]));
        assert!(distinct::<3>(&[Name::One("City"), home]));
    }
}
