//! The words of a text outside comments and strings.

use std::collections::BTreeMap;

/// Every identifier, number and `#` directive line's head with how often it stands there.
pub(super) fn count(text: &str) -> BTreeMap<&str, usize> {
    let mut words = BTreeMap::new();
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let rest = &bytes[i..];
        if rest.starts_with(b"//") {
            i += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            i += rest
                .windows(2)
                .skip(2)
                .position(|w| w == b"*/")
                .map_or(rest.len(), |p| p + 4);
        } else if rest[0] == b'"' || rest[0] == b'\'' {
            let quote = rest[0];
            let mut end = 1;
            while end < rest.len() && rest[end] != quote && rest[end] != b'\n' {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            i += (end + 1).min(rest.len());
        } else if is_word(rest[0]) {
            let end = rest.iter().position(|b| !is_word(*b)).unwrap_or(rest.len());
            *words.entry(&text[i..i + end]).or_insert(0) += 1;
            i += end;
        } else {
            i += 1;
        }
    }
    words
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// Whether `text` uses a word that `original` does not use at all, out of those that `wanted` names.
pub(super) fn new_among<'a>(
    original: &str,
    text: &'a str,
    wanted: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let before = count(original);
    count(text)
        .into_keys()
        .find(|word| wanted(word) && !before.contains_key(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_hold_no_words() {
        let words = count("a /* b */ \"c \\\" d\" 'e' // f\n#include <g> a1'000");
        let all: Vec<_> = words.keys().copied().collect();
        assert!(all.contains(&"a") && all.contains(&"include") && all.contains(&"g"));
        for hidden in ["b", "c", "d", "e", "f"] {
            assert!(!all.contains(&hidden), "{hidden}: {all:?}");
        }
    }

    #[test]
    fn only_words_that_are_not_there_at_all_are_new() {
        assert_eq!(new_among("x", "x asm", |w| w == "asm"), Some("asm"));
        assert_eq!(new_among("asm", "asm asm", |w| w == "asm"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[\\PC\\n\"'/*\\\\]{0,60}") {
            let _ = count(&text);
        }
    }
}
