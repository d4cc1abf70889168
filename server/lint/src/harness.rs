//! Annotated sources for tests.
//!
//! `//^^^ warning: substring` under a line expects a finding whose text starts in the marked columns; `//~ hint: text`
//! expects one anywhere on the line above. What is missing and what is unexpected is shown apart.

use std::sync::Arc;

use hipsmith_syntax::{Document, Options};

use crate::{Config, Diagnostic, Safety, check};

/// A document for `target` (its name).
pub fn document(source: &str, target: &str) -> Document {
    let target = hipsmith_target::by_name(target).expect("a known target");
    let options = Options {
        target,
        ..Options::default()
    };
    Document::with_options(source, 0, Arc::new(options))
}

fn findings(rule: &str, source: &str, target: &str) -> Vec<Diagnostic> {
    let config = Config {
        only: [rule.to_owned()].into(),
        ..Config::default()
    };
    check(&document(source, target), &config)
}

/// Check `rule` on an annotated source at gfx906.
#[track_caller]
pub fn expect(rule: &str, source: &str) {
    expect_on(rule, source, "gfx906");
}

/// Check `rule` on an annotated source.
#[track_caller]
pub fn expect_on(rule: &str, source: &str, target: &str) {
    let found = findings(rule, source, target);
    let mut expected = Vec::new();
    let mut previous = 0;
    for (number, line) in source.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(rest) = trimmed.strip_prefix("//^") {
            let carets = 1 + rest.len() - rest.trim_start_matches('^').len();
            let from = indent + 2;
            expected.push((
                previous,
                Some(from..from + carets),
                rest.trim_start_matches('^').trim(),
            ));
        } else if let Some(rest) = trimmed.strip_prefix("//~") {
            expected.push((previous, None, rest.trim()));
        } else {
            previous = number;
        }
    }
    let place = |d: &Diagnostic| {
        let before = &source[..d.range.start];
        let line = before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |i| i + 1);
        (line, column)
    };
    let mut left: Vec<&Diagnostic> = found.iter().collect();
    let mut missing = Vec::new();
    for (line, columns, wanted) in expected {
        let (severity, text) = wanted.split_once(':').unwrap_or((wanted, ""));
        let at = left.iter().position(|d| {
            let (l, c) = place(d);
            l == line
                && columns.as_ref().is_none_or(|r| r.contains(&c))
                && d.severity.name() == severity.trim()
                && d.message.contains(text.trim())
        });
        match at {
            Some(i) => {
                left.remove(i);
            }
            None => missing.push(format!("line {}: {wanted}", line + 1)),
        }
    }
    let unexpected: Vec<String> = left
        .iter()
        .map(|d| {
            let (l, c) = place(d);
            format!(
                "line {}, column {c}: {}: {}",
                l + 1,
                d.severity.name(),
                d.message
            )
        })
        .collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "{rule}\nmissing: {missing:#?}\nunexpected: {unexpected:#?}\n{source}"
    );
}

/// The first finding of `rule` has a fix of this safety that makes `after` of `before`, and none is left then.
#[track_caller]
pub fn expect_fix(rule: &str, before: &str, after: &str, safety: Safety) {
    expect_fix_on(rule, before, after, safety, "gfx906");
}

/// As [`expect_fix`], on a target.
#[track_caller]
pub fn expect_fix_on(rule: &str, before: &str, after: &str, safety: Safety, target: &str) {
    let found = findings(rule, before, target);
    let fix = found
        .iter()
        .find_map(|d| d.fix.as_ref())
        .unwrap_or_else(|| panic!("{rule}: no fix among {found:#?}"));
    assert_eq!(fix.safety, safety, "{rule}: {}", fix.title);
    let fixed = fix.apply(before).expect("the edits fit the text");
    assert_eq!(fixed, after, "{rule}: {}", fix.title);
    assert!(
        !document(&fixed, target).root().has_error(),
        "{rule}: the fixed text does not parse"
    );
    if fix.edits.len() == 1 || found.len() == 1 {
        let rest = findings(rule, &fixed, target);
        assert!(
            rest.len() < found.len(),
            "{rule}: the fix removes nothing: {rest:#?}"
        );
    }
}

mod documentation {
    use crate::{explain, reference, rules};

    use super::findings;

    /// The code blocks of a page that are marked `hip fires` or `hip quiet`, with the target after the mark.
    fn examples(docs: &str) -> Vec<(bool, String, String)> {
        let mut out: Vec<(bool, String, String)> = Vec::new();
        let mut open = false;
        for line in docs.lines() {
            if let Some(mark) = line.strip_prefix("```hip") {
                let mut words = mark.split_whitespace();
                let fires = match words.next() {
                    Some("fires") => true,
                    Some("quiet") => false,
                    other => panic!("a block is marked {other:?}"),
                };
                out.push((
                    fires,
                    words.next().unwrap_or("gfx906").to_owned(),
                    String::new(),
                ));
                open = true;
            } else if line.starts_with("```") {
                open = false;
            } else if open && let Some(last) = out.last_mut() {
                last.2.push_str(line);
                last.2.push('\n');
            }
        }
        out
    }

    #[test]
    fn examples_fire_and_stay_quiet() {
        for r in rules() {
            let all = examples(r.docs);
            assert!(all.iter().any(|e| e.0), "{}: no example that fires", r.id);
            assert!(
                all.iter().any(|e| !e.0),
                "{}: no example that does not fire",
                r.id
            );
            for (fires, target, code) in all {
                let found = findings(r.id, &code, &target);
                assert_eq!(!found.is_empty(), fires, "{}: {found:#?}\n{code}", r.id);
            }
        }
    }

    /// A rule that looked at more than its subject would find the same again for each function of the file.
    #[test]
    fn a_finding_comes_once() {
        for r in rules() {
            for (_, target, code) in examples(r.docs) {
                let config = crate::Config {
                    only: [r.id.to_owned()].into(),
                    ..crate::Config::default()
                };
                let more = format!("{code}\n__device__ int one() {{ return 1; }}\n");
                crate::context::with(&super::document(&more, &target), &config, |cx| {
                    let mut found = Vec::new();
                    cx.look_at(None, &mut found);
                    for i in 0..cx.functions.len() {
                        cx.look_at(Some(i), &mut found);
                    }
                    for (i, d) in found.iter().enumerate() {
                        assert!(!found[..i].contains(d), "{}: twice {d:#?}\n{code}", r.id);
                    }
                });
            }
        }
    }

    #[test]
    fn pages_have_their_sections() {
        for r in rules() {
            let page = explain(r.id).expect("a page");
            for section in [
                "What it does",
                "Why it matters on 64 lanes",
                "Example that fires",
                "Example that does not",
                "Fix",
                "Sources",
            ] {
                assert!(
                    page.contains(&format!("# {section}\n")),
                    "{}: no section {section}",
                    r.id
                );
            }
        }
    }

    #[test]
    fn ids_are_unique_and_kebab_case() {
        let mut seen = std::collections::HashSet::new();
        for r in rules() {
            assert!(seen.insert(r.id), "{} twice", r.id);
            assert!(
                r.id.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            );
        }
    }

    #[test]
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");
        let wanted = reference();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(std::path::Path::new(path).parent().expect("a parent"))
                .expect("docs/ can be made");
            std::fs::write(path, &wanted).expect("docs/rules.md can be written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == wanted,
            "docs/rules.md is stale: UPDATE_DOCS=1 cargo test -p hipsmith-lint"
        );
    }
}
