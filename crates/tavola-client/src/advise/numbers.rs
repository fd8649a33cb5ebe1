//! Numbers in keys that were not padded: `9` sorts above `10`.

use std::collections::HashMap;

/// Places in keys that are looked at.
const PLACES_MAX: usize = 64;
/// Lengths of numbers that are compared at one place.
const LENGTHS_MAX: usize = 8;

/// The numbers at each place of the keys: what stands before a number, with other numbers as `#`.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    places: HashMap<String, Place>,
}

#[derive(Debug, Default)]
struct Place {
    /// The greatest and the least number of each length, with their keys.
    lengths: Vec<(Example, Example)>,
    is_padded: bool,
    misordered: Option<(String, String)>,
}

#[derive(Debug, Clone)]
struct Example {
    digits: String,
    key: String,
}

impl Numbers {
    pub(super) fn add(&mut self, key: &str) {
        for (before, digits) in numbers(key) {
            if self.places.len() == PLACES_MAX && !self.places.contains_key(&before) {
                continue;
            }
            self.places.entry(before).or_default().add(digits, key);
        }
    }

    /// Two keys of which the one with the greater number sorts first: that one, then the other.
    pub(super) fn misordered(&self) -> Option<(&str, &str)> {
        let found = self.places.values().filter(|place| !place.is_padded);
        let mut found: Vec<_> = found.filter_map(|place| place.misordered.as_ref()).collect();
        found.sort();
        found.first().map(|(greater, less)| (greater.as_str(), less.as_str()))
    }
}

impl Place {
    fn add(&mut self, digits: &str, key: &str) {
        if digits.len() > 1 && digits.starts_with('0') {
            self.is_padded = true;
        }
        if self.is_padded || self.misordered.is_some() {
            return;
        }
        let new = Example { digits: digits.to_owned(), key: key.to_owned() };
        for (greatest, least) in &self.lengths {
            // A longer number is greater, so that it must not sort below a shorter one.
            let (shorter, longer) = match greatest.digits.len().cmp(&digits.len()) {
                std::cmp::Ordering::Less => (greatest, &new),
                std::cmp::Ordering::Greater => (&new, least),
                std::cmp::Ordering::Equal => continue,
            };
            if longer.digits < shorter.digits {
                self.misordered = Some((longer.key.clone(), shorter.key.clone()));
                return;
            }
        }
        let has_room = self.lengths.len() < LENGTHS_MAX;
        let same = |(greatest, _): &&mut (Example, Example)| greatest.digits.len() == digits.len();
        match self.lengths.iter_mut().find(same) {
            Some((greatest, _)) if new.digits > greatest.digits => *greatest = new,
            Some((_, least)) if new.digits < least.digits => *least = new,
            Some(_) => {}
            None if has_room => self.lengths.push((new.clone(), new)),
            None => {}
        }
    }
}

/// The numbers of a key, each with its place. Digits among letters are no number (`e29b`), letters
/// before one are its name (`emp7`).
fn numbers(key: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut rest = key;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(word);
        let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &word[name.len()..];
        let is_number = !digits.is_empty() && name.bytes().all(|c| c.is_ascii_alphabetic());
        before.push_str(if is_number { name } else { word });
        if is_number {
            found.push((before.clone(), digits));
            before.push('#');
        }
        let mark = behind.chars().next().map_or(0, char::len_utf8);
        before.push_str(&behind[..mark]);
        rest = &behind[mark..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn unpadded_numbers_are_found() {
        for (keys, expected) in [
            (&["9", "10"][..], Some(("10", "9"))),
            (&["10", "9"], Some(("10", "9"))),
            (&["emp_9_2021", "emp_10_2021"], Some(("emp_10_2021", "emp_9_2021"))),
            (&["emp9", "emp100", "emp20"], Some(("emp100", "emp9"))),
            (&["009", "010", "100"], None),
            (&["1", "2", "3"], None),
            // In order so far, whatever comes.
            (&["1", "10"], None),
            (&["550e8400-e29b-41d4", "660e8400-9-41d4", "770e8400-10-41d4"], None),
            (&["2021", "2022"], None),
            (&["", "a", "é9", "é10"], Some(("é10", "é9"))),
            (&["Sales", "9", "a9b", "10"], Some(("10", "9"))),
        ] {
            let mut numbers = Numbers::default();
            keys.iter().for_each(|key| numbers.add(key));
            assert_eq!(numbers.misordered(), expected, "{keys:?}");
        }
    }

    #[test]
    fn figures_are_bounded() {
        let mut numbers = Numbers::default();
        for at in 0..1000_u32 {
            numbers.add(&format!("{}_{at}", char::from_u32(0x4e00 + at).unwrap()));
        }
        assert_eq!(numbers.places.len(), super::PLACES_MAX);
    }
}
