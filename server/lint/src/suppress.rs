//! `// hipsmith: allow(rule-id) reason` comments.

use std::collections::HashMap;
use std::ops::Range;

/// The suppressions of one file.
#[derive(Debug, Default)]
pub struct Suppressions {
    /// Rule ids (or `all`) by 0-based line on which they hold.
    lines: HashMap<usize, Vec<String>>,
    file: Vec<String>,
    /// Byte offset of each line's start.
    starts: Vec<usize>,
}

impl Suppressions {
    /// Read the comments of `source`.
    pub fn of(source: &str) -> Suppressions {
        let mut out = Suppressions::default();
        let mut start = 0;
        for (number, line) in source.split_inclusive('\n').enumerate() {
            out.starts.push(start);
            start += line.len();
            let Some(comment) = line.find("//") else {
                continue;
            };
            let Some(at) = line[comment..].find("hipsmith:") else {
                continue;
            };
            let directive = line[comment + at + "hipsmith:".len()..].trim_start();
            let (whole_file, list) = if let Some(rest) = directive.strip_prefix("allow-file(") {
                (true, rest)
            } else if let Some(rest) = directive.strip_prefix("allow(") {
                (false, rest)
            } else {
                continue;
            };
            let Some(end) = list.find(')') else { continue };
            let ids = list[..end].split(',').map(|id| id.trim().to_owned());
            if whole_file {
                out.file.extend(ids);
                continue;
            }
            // A comment alone on its line speaks of the next one.
            let alone = line[..comment].trim().is_empty();
            let target = if alone { number + 1 } else { number };
            out.lines.entry(target).or_default().extend(ids);
        }
        out
    }

    /// Whether a finding of `rule` at `range` is allowed.
    pub fn allows(&self, rule: &str, range: &Range<usize>) -> bool {
        let named = |ids: &[String]| ids.iter().any(|id| id == rule || id == "all");
        if named(&self.file) {
            return true;
        }
        if self.lines.is_empty() {
            return false;
        }
        let line = self
            .starts
            .partition_point(|s| *s <= range.start)
            .saturating_sub(1);
        self.lines.get(&line).is_some_and(|ids| named(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_speaks_of_its_line_or_the_next() {
        let source = "a;\n// hipsmith: allow(x, y) reason\nb;\nc; // hipsmith: allow(z)\n";
        let s = Suppressions::of(source);
        let at = |needle: &str| {
            let i = source.find(needle).unwrap_or(0);
            i..i + 1
        };
        assert!(s.allows("x", &at("b;")) && s.allows("y", &at("b;")));
        assert!(!s.allows("x", &at("a;")) && !s.allows("z", &at("b;")));
        assert!(s.allows("z", &at("c;")) && !s.allows("x", &at("c;")));
    }

    #[test]
    fn file_wide() {
        let s = Suppressions::of("// hipsmith: allow-file(x) generated\n\n\nint a;\n");
        assert!(s.allows("x", &(45..46)));
        assert!(!s.allows("y", &(45..46)));
    }
}
