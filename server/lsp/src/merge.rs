//! Carry a job's change over to the text as it is now.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How long to look for the smallest difference; it is computed in the main loop.
const LIMIT: Duration = Duration::from_millis(50);

/// The edits that turn `base` into `new`, by whole lines, as byte ranges of `base`.
pub fn edits(base: &str, new: &str) -> Vec<(Range<usize>, String)> {
    hunks(base, new)
        .into_iter()
        .map(|hunk| (hunk.bytes, hunk.text))
        .collect()
}

/// The edits of `base` → `new`, moved to where those lines stand in `current`. `None` when the person has changed a
/// line that the edits touch or border on: then no place is certainly the right one.
pub fn onto(base: &str, new: &str, current: &str) -> Option<Vec<(Range<usize>, String)>> {
    if base == current {
        return Some(edits(base, new));
    }
    let theirs = hunks(base, current);
    hunks(base, new)
        .into_iter()
        .map(|ours| {
            let mut shift = 0_isize;
            for their in &theirs {
                if their.lines.end < ours.lines.start {
                    shift += their.text.len() as isize - their.bytes.len() as isize;
                } else if their.lines.start <= ours.lines.end {
                    return None;
                }
            }
            let start = ours.bytes.start.checked_add_signed(shift)?;
            let end = ours.bytes.end.checked_add_signed(shift)?;
            Some((start..end, ours.text))
        })
        .collect()
}

struct Hunk {
    lines: Range<usize>,
    bytes: Range<usize>,
    text: String,
}

fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let (a, b): (Vec<&str>, Vec<&str>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let mut starts = vec![0];
    for line in &a {
        starts.push(starts[starts.len() - 1] + line.len());
    }
    // Two texts with nothing in common take quadratic time; a coarser difference is right, too.
    let deadline = Instant::now() + LIMIT;
    capture_diff_slices_deadline(Algorithm::Myers, &a, &b, Some(deadline))
        .into_iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| Hunk {
            lines: op.old_range(),
            bytes: starts[op.old_range().start]..starts[op.old_range().end],
            text: b[op.new_range()].concat(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, edits: &[(Range<usize>, String)]) -> String {
        let mut out = text.to_owned();
        for (range, new) in edits.iter().rev() {
            out.replace_range(range.clone(), new);
        }
        out
    }

    #[test]
    fn edits_turn_the_old_text_into_the_new() {
        for (old, new) in [
            ("a\nb\nc\n", "a\nB\nc\nd\n"),
            ("", "x"),
            ("x", ""),
            ("a\r\nb\r\n", "b\r\n"),
            ("no end", "no end\n"),
        ] {
            assert_eq!(apply(old, &edits(old, new)), new);
        }
    }

    #[test]
    fn changes_elsewhere_move_the_edit() {
        let (base, new) = ("1\n2\n3\n4\n5\n", "1\n2\n3\nFOUR\n5\n");
        let current = "zero\n1\n2\n3\n4\n5\n6\n";
        let moved = onto(base, new, current).unwrap();
        assert_eq!(apply(current, &moved), "zero\n1\n2\n3\nFOUR\n5\n6\n");
    }

    #[test]
    fn a_change_of_the_same_or_a_bordering_line_is_refused() {
        let (base, new) = ("1\n2\n3\n4\n5\n", "1\n2\nTHREE\n4\n5\n");
        for current in [
            "1\n2\nthree\n4\n5\n",
            "1\ntwo\n3\n4\n5\n",
            "1\n2\n3\nfour\n5\n",
            "1\n2\n4\n5\n",
        ] {
            assert!(onto(base, new, current).is_none(), "{current:?}");
        }
    }
}
