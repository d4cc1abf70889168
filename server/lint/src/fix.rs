//! Apply fixes in bulk, for `hipsmith fix` and the editor's fix-all alike.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hipsmith_syntax::Document;

use crate::diagnostic::{Diagnostic, Fix, Safety};
use crate::{Config, check};

/// Byte ranges of a text and what to put there; in order, not overlapping.
pub type Edits = Vec<(Range<usize>, String)>;

/// How often the text is checked again for fixes that the ones before made possible, or that overlapped them.
const MAX_PASSES: usize = 16;

/// What [`fix`] did.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The text afterwards, with everything derived from it.
    pub document: Document,
    /// The edits of each pass; those of a pass count in the text that the passes before left.
    pub passes: Vec<Edits>,
    /// How many fixes were applied, by rule.
    pub applied: BTreeMap<&'static str, usize>,
    /// Fixes of the wanted safety that were not applied, since the text would parse worse or they never end.
    pub left: usize,
}

/// Apply all safe fixes of `document` (and with `with_unsafe` those that need a look), and those that show up then,
/// until none is left. A fix after which the text parses worse is left out.
pub fn fix(document: &Document, config: &Config, with_unsafe: bool) -> Fixed {
    let mut out = Fixed {
        document: document.clone(),
        passes: Vec::new(),
        applied: BTreeMap::new(),
        left: 0,
    };
    let mut seen = BTreeSet::from([document.text().to_owned()]);
    loop {
        let found = check(&out.document, config);
        let wanted = candidates(&found, with_unsafe);
        let (chosen, next) = sound(&out.document, disjoint(&wanted));
        let edits = merged(&chosen);
        if edits.is_empty()
            || out.passes.len() == MAX_PASSES
            || !seen.insert(next.text().to_owned())
        {
            out.left = wanted.len();
            return out;
        }
        for (rule, _) in &chosen {
            *out.applied.entry(rule).or_default() += 1;
        }
        out.document = next;
        out.passes.push(edits);
    }
}

/// The edits of all safe fixes among `found` (with `with_unsafe` also those that need a look) that do not touch one
/// another; of fixes that do, the first.
pub fn select(found: &[Diagnostic], with_unsafe: bool) -> Edits {
    merged(&disjoint(&candidates(found, with_unsafe)))
}

/// `source` with the edits applied; `None` when one does not fit the text or overlaps another.
pub fn apply(source: &str, edits: &Edits) -> Option<String> {
    let mut out = String::with_capacity(source.len() + 64);
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(source.get(at..range.start)?);
        source.get(range.clone())?;
        out.push_str(new);
        at = range.end;
    }
    out.push_str(source.get(at..)?);
    Some(out)
}

type Candidate<'a> = (&'static str, &'a Fix);

fn candidates(found: &[Diagnostic], with_unsafe: bool) -> Vec<Candidate<'_>> {
    found
        .iter()
        .filter_map(|d| Some((d.rule, d.fix.as_ref()?)))
        .filter(|(_, f)| match f.safety {
            Safety::Safe => !f.edits.is_empty(),
            Safety::Unsafe => with_unsafe && !f.edits.is_empty(),
            Safety::ShownOnly => false,
        })
        .collect()
}

/// The fixes, in order, that do not touch one taken before; the same edit twice is no conflict.
fn disjoint<'a>(wanted: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let mut taken: BTreeMap<usize, &(Range<usize>, String)> = BTreeMap::new();
    let mut out = Vec::new();
    for (rule, fix) in wanted {
        let clear = fix.edits.iter().all(|edit| {
            let before = taken.range(..=edit.0.end).next_back();
            before.is_none_or(|(_, other)| other.0.end < edit.0.start || *other == edit)
        });
        if clear {
            taken.extend(fix.edits.iter().map(|e| (e.0.start, e)));
            out.push((*rule, *fix));
        }
    }
    out
}

fn merged(fixes: &[Candidate<'_>]) -> Edits {
    let mut edits: Edits = fixes
        .iter()
        .flat_map(|(_, f)| f.edits.iter().cloned())
        .collect();
    edits.sort_by_key(|(r, _)| (r.start, r.end));
    edits.dedup();
    edits
}

/// Of the fixes, those that together leave a text that parses no worse, with that text.
fn sound<'a>(document: &Document, fixes: Vec<Candidate<'a>>) -> (Vec<Candidate<'a>>, Document) {
    let errors = errors(document);
    let result = |fixes: &[Candidate<'_>]| -> Option<Document> {
        let text = apply(document.text(), &merged(fixes))?;
        // Read from scratch: a parse that goes on from an older one guesses otherwise around errors.
        let next = Document::with_options(text, document.version(), document.options().clone());
        (next.is_parsed() == document.is_parsed() && self::errors(&next) <= errors).then_some(next)
    };
    if let Some(next) = result(&fixes) {
        return (fixes, next);
    }
    // Halves first: mostly one fix of many is at fault.
    let mut good: Vec<Candidate<'a>> = Vec::new();
    let mut next = document.clone();
    let mut parts = vec![fixes];
    while let Some(mut part) = parts.pop() {
        let with: Vec<_> = good.iter().chain(&part).copied().collect();
        if let Some(text) = result(&with) {
            (good, next) = (with, text);
        } else if part.len() > 1 {
            let second = part.split_off(part.len() / 2);
            parts.push(second);
            parts.push(part);
        }
    }
    (good, next)
}

fn errors(document: &Document) -> usize {
    let root = document.root();
    if !root.has_error() {
        return 0;
    }
    root.descendants()
        .filter(|n| n.is_error() || n.is_missing())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Family, Severity};

    fn with_fix(edits: &[(Range<usize>, &str)], safety: Safety) -> Diagnostic {
        let edits: Edits = edits
            .iter()
            .map(|(r, t)| (r.clone(), (*t).to_owned()))
            .collect();
        Diagnostic {
            rule: "a-rule",
            family: Family::W,
            severity: Severity::Error,
            range: 0..1,
            message: String::new(),
            related: Vec::new(),
            fix: Some(Fix::new("Fix it", edits, safety)),
        }
    }

    #[test]
    fn the_first_of_touching_fixes_wins_and_a_shared_edit_is_made_once() {
        let found = [
            with_fix(&[(10..12, "a"), (20..20, "b")], Safety::Safe),
            with_fix(&[(12..14, "c")], Safety::Safe),
            with_fix(&[(20..20, "b"), (30..31, "d")], Safety::Safe),
            with_fix(&[(0..40, "e")], Safety::Safe),
            with_fix(&[(50..51, "f")], Safety::Unsafe),
            with_fix(&[(60..61, "g")], Safety::ShownOnly),
        ];
        let starts = |edits: Edits| edits.iter().map(|e| e.0.start).collect::<Vec<_>>();
        assert_eq!(starts(select(&found, false)), [10, 20, 30]);
        assert_eq!(starts(select(&found, true)), [10, 20, 30, 50]);
    }

    #[test]
    fn a_fix_after_which_the_text_parses_worse_is_left_out() {
        let document = Document::new("int a;\nint b;\nint c;\n");
        let fixes = [
            Fix::new("", vec![(4..5, "x".to_owned())], Safety::Safe),
            Fix::new("", vec![(12..13, "] )".to_owned())], Safety::Safe),
            Fix::new("", vec![(18..19, "z".to_owned())], Safety::Safe),
        ];
        let all = fixes.iter().map(|f| ("a-rule", f)).collect();
        let (kept, next) = sound(&document, all);
        assert_eq!(kept.len(), 2);
        assert_eq!(next.text(), "int x;\nint b;\nint z;\n");
    }

    #[test]
    fn passes_go_on_until_no_safe_fix_is_left() {
        let source = "__global__ void k(unsigned* o, bool p) {\n  unsigned m = __ballot(p);\n  o[0] = __popc(m);\n  int i = __ffs(m);\n}\n";
        let document = Document::new(source);
        let config = Config::default();
        let fixed = fix(&document, &config, false);
        assert!(!fixed.passes.is_empty());
        let rest = check(&fixed.document, &config);
        assert!(select(&rest, false).is_empty(), "{rest:#?}");
        let mut text = source.to_owned();
        for pass in &fixed.passes {
            text = apply(&text, pass).expect("the edits fit");
        }
        assert_eq!(text, fixed.document.text());
        assert_eq!(fixed.applied.get("ballot-in-32-bits"), Some(&1));
    }
}
