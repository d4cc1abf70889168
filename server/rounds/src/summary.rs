//! What people read: the diff and the closing sentence.

use std::path::Path;

use crate::{Outcome, Round};

/// Unified diff between two texts of one file.
pub fn diff(file: &Path, old: &str, new: &str) -> String {
    let name = file.to_string_lossy().replace('\\', "/");
    let name = name.trim_start_matches('/');
    similar::TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

/// A time in the unit that suits it.
pub fn duration(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.2} us", ns / 1e3)
    } else {
        format!("{:.2} ms", ns / 1e6)
    }
}

/// "12 rounds: 2 effective, 10 ineffective".
pub fn tally(rounds: &[Round]) -> String {
    let names = [
        (Outcome::Effective, "effective"),
        (Outcome::Ineffective, "ineffective"),
        (Outcome::Wrong, "wrong"),
        (Outcome::Suspect, "suspect"),
        (Outcome::FailedToCompile, "refused or not compiling"),
        (Outcome::NotEmitted, "not emitted"),
    ];
    let parts: Vec<String> = names
        .iter()
        .filter_map(|(outcome, name)| {
            let n = rounds.iter().filter(|r| r.outcome == *outcome).count();
            (n > 0).then(|| format!("{n} {name}"))
        })
        .collect();
    let rounds = match rounds.len() {
        1 => "1 round".to_owned(),
        n => format!("{n} rounds"),
    };
    if parts.is_empty() {
        rounds
    } else {
        format!("{rounds}: {}", parts.join(", "))
    }
}

/// The names nearest to `name`, for "did you mean".
pub fn nearest<'a>(name: &str, all: &[&'a str]) -> Vec<&'a str> {
    let mut scored: Vec<(f32, &str)> = all
        .iter()
        .map(|c| (similar::TextDiff::from_chars(name, *c).ratio(), *c))
        .filter(|(score, _)| *score > 0.5)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diff_applies_and_names_the_file() {
        let d = diff(Path::new("/x/k.hip"), "a\nb\nc\n", "a\nB\nc\n");
        assert_eq!(
            d,
            "--- a/x/k.hip\n+++ b/x/k.hip\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
    }

    #[test]
    fn near_names_come_first() {
        assert_eq!(
            nearest("rmsnrom", &["transpose", "rmsnorm", "norm"])[0],
            "rmsnorm"
        );
        assert!(nearest("zzz", &["transpose"]).is_empty());
    }
}
