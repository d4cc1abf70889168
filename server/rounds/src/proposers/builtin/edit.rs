//! Edits of a text that look as if its author had made them: same indentation, same line ends.

use std::ops::Range;

/// Replacements of byte ranges, applied together.
#[derive(Clone, Debug, Default)]
pub struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Replace a range. Line ends in `new` may be of either kind.
    pub fn replace(&mut self, range: Range<usize>, new: impl Into<String>) {
        self.0.push((range, new.into()));
    }

    /// Insert at a byte.
    pub fn insert(&mut self, at: usize, new: impl Into<String>) {
        self.replace(at..at, new);
    }

    /// The text with all edits made; `None` if two of them overlap or one lies outside the text.
    pub fn apply(mut self, text: &str) -> Option<String> {
        self.0.sort_by_key(|(r, _)| (r.start, r.end));
        let crlf = text.contains("\r\n");
        let mut out = String::with_capacity(text.len() + 1024);
        let mut done = 0;
        for (range, new) in self.0 {
            if range.start < done {
                return None;
            }
            out.push_str(text.get(done..range.start)?);
            let new = new.replace("\r\n", "\n");
            out.push_str(&if crlf { new.replace('\n', "\r\n") } else { new });
            done = range.end;
        }
        out.push_str(text.get(done..)?);
        Some(out)
    }
}

/// The white space before the first word of the line that holds a byte.
pub fn indent_at(text: &str, at: usize) -> &str {
    let start = text
        .get(..at)
        .and_then(|t| t.rfind('\n'))
        .map_or(0, |p| p + 1);
    let line = text.get(start..).unwrap_or("");
    let width = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..width).unwrap_or("")
}

/// One step of indentation in a text: the first indented line of a block decides.
pub fn indent_unit(text: &str) -> String {
    let mut opened: Option<&str> = None;
    for line in text.lines() {
        let body = line.trim_start_matches([' ', '\t']);
        let indent = line.get(..line.len() - body.len()).unwrap_or("");
        if body.trim().is_empty() {
            continue;
        }
        if let Some(outer) = opened
            && let Some(step) = indent.strip_prefix(outer)
            && !step.is_empty()
        {
            return step.to_owned();
        }
        opened = body.trim_end().ends_with('{').then_some(indent);
    }
    "  ".to_owned()
}

/// Lines of new code. Each line's leading tabs are steps of indentation; `base` stands before every line but
/// the first (which continues where the edit begins). A line that starts with `#` stays at the margin.
pub fn lay_out(code: &str, base: &str, unit: &str) -> String {
    let mut out = String::new();
    for (i, line) in code.lines().enumerate() {
        let body = line.trim_start_matches('\t');
        if i > 0 {
            out.push('\n');
        }
        if body.is_empty() {
            continue;
        }
        if i > 0 && !body.starts_with('#') {
            out.push_str(base);
        }
        if !body.starts_with('#') {
            for _ in 0..line.len() - body.len() {
                out.push_str(unit);
            }
        }
        out.push_str(body);
    }
    out
}

/// A statement's text as lines of [`lay_out`]: its own indentation becomes `depth` steps, deeper lines keep
/// what they have beyond it.
pub fn as_lines(statement: &str, indent: &str, depth: usize) -> String {
    let tabs = "\t".repeat(depth);
    statement
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let line = line.trim_end();
            let line = if i == 0 {
                line.trim_start()
            } else {
                line.strip_prefix(indent).unwrap_or(line)
            };
            if line.is_empty() {
                String::new()
            } else {
                format!("{tabs}{line}")
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_keep_the_line_ends_of_the_text() {
        let mut edits = Edits::default();
        edits.replace(3..4, "x;\ny;");
        edits.insert(0, "// a\r\n");
        assert_eq!(
            edits.apply("a\r\nb\r\n").unwrap(),
            "// a\r\na\r\nx;\r\ny;\r\n"
        );
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let mut edits = Edits::default();
        edits.replace(0..2, "x");
        edits.replace(1..3, "y");
        assert_eq!(edits.apply("abc"), None);
        let mut outside = Edits::default();
        outside.replace(2..9, "x");
        assert_eq!(outside.apply("abc"), None);
    }

    #[test]
    fn indentation_is_taken_from_the_text() {
        assert_eq!(indent_unit("void f() {\n\tint a;\n}"), "\t");
        assert_eq!(indent_unit("void f() {\n   int a;\n}"), "   ");
        assert_eq!(indent_unit("int a;"), "  ");
        assert_eq!(indent_at("a\n    b", 6), "    ");
        assert_eq!(lay_out("a {\n\tb;\n}", "  ", "    "), "a {\n      b;\n  }");
    }
}
