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

/// True if no name comes twice. Names are compared by a hash of 64 bits: a prefix and a name cannot
/// be joined in a `const`, but hashed one after the other.
#[doc(hidden)]
#[must_use]
pub const fn distinct(names: &[Name]) -> bool {
    let mut hashes = [0; PROPERTIES_MAX];
    if !fit(names) {
        return true;
    }
    let count = hash_all(names, FNV_BASIS, &mut hashes, 0);
    let mut left = 0;
    while left < count {
        let mut right = left + 1;
        while right < count {
            if hashes[left] == hashes[right] {
                return false;
            }
            right += 1;
        }
        left += 1;
    }
    true
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

const fn hash_all(
    names: &[Name],
    state: u64,
    hashes: &mut [u64; PROPERTIES_MAX],
    mut count: usize,
) -> usize {
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
    use super::{Name, count, distinct, expand};

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
        assert!(distinct(&names));
    }

    #[test]
    fn names_that_come_twice_are_found() {
        let home = Name::Flattened { prefix: "Home", names: ADDRESS };
        assert!(!distinct(&[Name::One("A"), Name::One("A")]));
        assert!(!distinct(&[Name::One("HomeCity"), home]));
        assert!(!distinct(&[home, home]));
        assert!(distinct(&[Name::One("City"), home]));
    }
}
