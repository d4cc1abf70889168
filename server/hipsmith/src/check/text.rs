//! Findings for people.

use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use hipsmith_lint::{Diagnostic, Safety, Severity};
use hipsmith_syntax::{Document, Encoding};

use super::place;

/// Lines that a finding's excerpt shows at most.
const EXCERPT_LINES: u32 = 6;

/// A finding for people: its lines, with notes and the fix.
pub fn render(renderer: &Renderer, path: &Path, document: &Document, d: &Diagnostic) -> String {
    let level = match d.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Hint => Level::HELP.with_name("hint"),
    };
    // The first sentence stands on top, the rest below the lines it is about.
    let (title, rest) = match d.message.split_once(". ") {
        Some((first, rest)) => (first, rest),
        None => (d.message.trim_end_matches('.'), ""),
    };
    let path = path.to_string_lossy().into_owned();
    let (snippet, related) = excerpt(document, d);
    let snippet = snippet.path(path);
    let mut group = level.primary_title(title).id(d.rule).element(snippet);
    if !rest.is_empty() {
        group = group.element(Level::NOTE.message(rest));
    }
    for text in related {
        group = group.element(Level::NOTE.message(text));
    }
    if let Some(fix) = &d.fix {
        let text = match fix.safety {
            Safety::Safe => format!("{} (safe fix)", fix.title),
            Safety::Unsafe => format!("{} (look before you apply it)", fix.title),
            Safety::ShownOnly => fix.title.clone(),
        };
        group = group.element(Level::HELP.message(text));
    }
    renderer.render(&[group])
}

/// The finding's lines, and what is said about places outside them.
fn excerpt<'a>(
    document: &'a Document,
    d: &'a Diagnostic,
) -> (Snippet<'a, annotate_snippets::Annotation<'a>>, Vec<String>) {
    let text = document.text();
    let [first, _, last, _] = place(document, &d.range);
    let last = last.min(first + EXCERPT_LINES - 1);
    let line_start = |line: u32| {
        document.offset(
            hipsmith_syntax::Position { line, column: 0 },
            Encoding::Utf8,
        )
    };
    let from = line_start(first - 1);
    let to = if last as usize >= text.lines().count() {
        text.len()
    } else {
        line_start(last)
    };
    let shown = text
        .get(from..to)
        .unwrap_or_default()
        .trim_end_matches(['\n', '\r']);
    let inside = |r: &Range<usize>| {
        let start = r.start.checked_sub(from).filter(|s| *s <= shown.len())?;
        let end = (r.end.checked_sub(from)?).min(shown.len()).max(start);
        Some(start..end)
    };
    let mut snippet = Snippet::source(shown)
        .line_start(first as usize)
        .fold(false);
    if let Some(span) = inside(&d.range) {
        snippet = snippet.annotation(AnnotationKind::Primary.span(span));
    }
    let mut outside = Vec::new();
    for (range, label) in &d.related {
        match inside(range) {
            Some(span) => {
                snippet =
                    snippet.annotation(AnnotationKind::Context.span(span).label(label.as_str()));
            }
            None => {
                let [line, column, ..] = place(document, range);
                outside.push(format!("line {line}, column {column}: {label}"));
            }
        }
    }
    (snippet, outside)
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn text_shows_the_line() {
        let (document, d) = finding("int first;\nint é = wrong;", "wrong");
        let shown = render(&Renderer::plain(), Path::new("dir/a.hip"), &document, &d);
        for part in [
            "warning[a-rule]: This is wrong",
            "dir/a.hip:2:9",
            "int é = wrong;",
            "^^^^^",
            "Because of that.",
            "line 1, column 1: the other end",
            "Write it right (safe fix)",
        ] {
            assert!(shown.contains(part), "no {part:?} in:\n{shown}");
        }
    }
}
