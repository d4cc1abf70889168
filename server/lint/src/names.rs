//! Names that somebody may have meant.

/// The names nearest to `name`, three at most: those that hold it, or a part of it, or differ in a few letters.
pub fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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
