//! Columns for people. Nothing that is stored can move the cursor or colour the screen: control
//! characters are shown, not sent.

/// Longer texts are cut; the other formats have them whole.
const WIDTH_MAX: usize = 40;
/// What stands for a property that is absent.
const ABSENT: &str = "-";

/// One line, each column as wide as it was decided.
pub(super) fn line(cells: impl Iterator<Item = Option<String>>, widths: &[usize]) -> String {
    let padded = cells.zip(widths).map(|(cell, width)| format!("{:width$}", shown(cell)));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// The width of a column with these texts.
pub(super) fn width(name: &str, texts: Vec<String>) -> usize {
    let names = [name.to_owned()];
    let lengths = names.into_iter().chain(texts).map(|text| shown(Some(text)).chars().count());
    lengths.max().unwrap_or_default()
}

fn shown(cell: Option<String>) -> String {
    let Some(text) = cell else { return ABSENT.to_owned() };
    let mut shown = String::new();
    for (at, character) in text.chars().enumerate() {
        if at == WIDTH_MAX {
            shown.push('…');
            break;
        }
        match character {
            character if is_harmless(character) => shown.push(character),
            other => shown.extend(other.escape_default()),
        }
    }
    shown
}

/// Neither a control character nor one that turns the direction of a text around.
fn is_harmless(character: char) -> bool {
    let turns = matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::{line, width};

    #[test]
    fn columns() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(width("Name", texts(&["a", "longer"])), 6);
        assert_eq!(width("Name", texts(&[&"x".repeat(100)])), 41);
        let cells = [Some("a\u{1b}[31m\nb".to_owned()), None, Some("ü".to_owned())];
        assert_eq!(line(cells.into_iter(), &[4, 3, 5]), r"a\u{1b}[31m\nb  -    ü");
    }
}
