//! `hipsmith explain`: what a rule is about.

use std::io::Write;
use std::process::ExitCode;

/// Print a rule's page, or list the rules.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The rule, such as lds-over-limit; without it, all rules are listed.
    rule: Option<String>,
}

/// Exit code 2 for a rule that does not exist.
pub fn run(args: &Args) -> ExitCode {
    let Some(name) = &args.rule else {
        let width = hipsmith_lint::rules()
            .iter()
            .map(|r| r.id.len())
            .max()
            .unwrap_or(0);
        let list: String = hipsmith_lint::rules()
            .iter()
            .map(|r| format!("{}  {:width$}  {}\n", r.family.letter(), r.id, r.summary))
            .collect();
        return print(&list);
    };
    match hipsmith_lint::explain(name.trim()) {
        Some(page) => print(&page),
        None => {
            let near = similar(name, hipsmith_lint::rules().iter().map(|r| r.id));
            let hint = if near.is_empty() {
                "`hipsmith explain` lists the rules.".to_owned()
            } else {
                format!("Did you mean {}?", near.join(" or "))
            };
            eprintln!("hipsmith explain: there is no rule `{name}`. {hint}");
            ExitCode::from(2)
        }
    }
}

/// A reader that closes the pipe early has read enough.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The names nearest to `name`, three at most: those that hold it, or a part of it, or differ in a few letters.
fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.trim().to_lowercase().replace('_', "-");
    let mut scored: Vec<(usize, &str)> = names
        .filter_map(|candidate| {
            if !wanted.is_empty() && candidate.contains(&wanted) {
                return Some((0, candidate));
            }
            let shared = wanted
                .split('-')
                .filter(|part| part.len() > 2 && candidate.split('-').any(|c| c == *part))
                .count();
            let distance = edit_distance(&wanted, candidate);
            if shared > 0 {
                Some((100 - shared.min(99), candidate))
            } else if distance <= candidate.len() / 3 {
                Some((200 + distance, candidate))
            } else {
                None
            }
        })
        .collect();
    scored.sort();
    scored.into_iter().map(|(_, c)| c).take(3).collect()
}

/// Letters to add, drop or change to get from `a` to `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    // A rule's name is short; what is much longer cannot be near it.
    for (i, x) in a.chars().take(100).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX - 1);
            let here = (diagonal + usize::from(x != *y))
                .min(above + 1)
                .min(left + 1);
            if let Some(slot) = row.get_mut(j) {
                *slot = left;
            }
            diagonal = above;
            left = here;
        }
        if let Some(last) = row.last_mut() {
            *last = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = ["lds-bank-conflict", "lds-over-limit", "ballot-in-32-bits"];
        let near = |n: &str| similar(n, names.into_iter());
        assert_eq!(near("bank"), ["lds-bank-conflict"]);
        assert_eq!(
            near("lds_bank_conflicts"),
            ["lds-bank-conflict", "lds-over-limit"]
        );
        assert_eq!(near("balot-in-32-bit"), ["ballot-in-32-bits"]);
        assert!(near("zzz").is_empty());
        assert!(near("").is_empty());
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
    }
}
