//! `// hipsmith: allow(rule) reason` comments: what they silence, and which of them silence nothing.

use std::ops::Range;

use hipsmith_syntax::{Document, lex};

use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::names::similar;
use crate::rule::{rule, rules};

/// Id of the rule about the comments themselves; its page is `rules/unused_suppression.rs`.
pub const UNUSED: &str = "unused-suppression";

/// What every comment to us starts with.
const MARK: &str = "hipsmith:";

/// Stands for every rule.
const ALL: &str = "all";

/// Where a comment holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reach {
    File,
    /// A 0-based line.
    Line(usize),
}

/// A rule named in a comment.
#[derive(Debug)]
struct Name {
    id: String,
    range: Range<usize>,
    used: bool,
}

/// One comment.
#[derive(Debug)]
struct Allow {
    /// Bytes of the comment.
    range: Range<usize>,
    /// `None`: it starts like one of ours and is not understood.
    reach: Option<Reach>,
    names: Vec<Name>,
}

/// The suppressions of one file.
#[derive(Debug, Default)]
pub struct Suppressions {
    allows: Vec<Allow>,
    /// Byte offset of each line's start.
    starts: Vec<usize>,
}

impl Suppressions {
    /// Read the comments of a document: not text in strings, and not what the target does not compile.
    pub fn of(document: &Document) -> Suppressions {
        let (source, masked) = (document.text(), document.masked());
        let mut out = Suppressions::default();
        if !masked.contains(MARK) {
            return out;
        }
        out.starts = std::iter::once(0)
            .chain(source.match_indices('\n').map(|(i, _)| i + 1))
            .collect();
        // What lies between tokens is white space and comments.
        let mut from = 0;
        let mut gaps = Vec::new();
        for token in lex::tokens(masked) {
            if from < token.range.start {
                gaps.push(from..token.range.start);
            }
            from = token.range.end;
        }
        gaps.push(from..masked.len());
        for gap in gaps {
            let text = masked.get(gap.clone()).unwrap_or_default();
            if text.contains(MARK) {
                for comment in comments(text) {
                    let range = gap.start + comment.start..gap.start + comment.end;
                    out.read(source, range);
                }
            }
        }
        out
    }

    fn read(&mut self, source: &str, range: Range<usize>) {
        let whole = source.get(range.clone()).unwrap_or_default();
        let inner = whole.get(2..).unwrap_or_default();
        let Some(directive) = inner
            .trim_start_matches(['/', '*', '!'])
            .trim_start()
            .strip_prefix(MARK)
        else {
            return;
        };
        let directive = directive.trim_start();
        if !directive.starts_with("allow") {
            return;
        }
        let mut allow = Allow {
            reach: None,
            names: Vec::new(),
            range: range.clone(),
        };
        let listed = directive
            .strip_prefix("allow-file(")
            .map(|rest| (true, rest))
            .or_else(|| directive.strip_prefix("allow(").map(|rest| (false, rest)))
            .and_then(|(file, rest)| Some((file, rest.get(..rest.find(')')?)?)));
        if let Some((file, list)) = listed {
            let mut at = offset_in(source, list);
            for part in list.split(',') {
                let id = part.trim();
                if !id.is_empty() {
                    let start = at + (part.len() - part.trim_start().len());
                    allow.names.push(Name {
                        id: id.to_owned(),
                        range: start..start + id.len(),
                        used: false,
                    });
                }
                at += part.len() + 1;
            }
            if !allow.names.is_empty() {
                allow.reach = Some(if file {
                    Reach::File
                } else {
                    Reach::Line(self.line_meant(source, &range))
                });
            }
        }
        self.allows.push(allow);
    }

    /// The line that a comment speaks of: its own, or, when it stands alone, the next one that is no comment.
    fn line_meant(&self, source: &str, comment: &Range<usize>) -> usize {
        let own = self.line(comment.start);
        let before = self.text(source, own..own + 1);
        let start = self.starts.get(own).copied().unwrap_or(0);
        if !before
            .get(..comment.start.saturating_sub(start))
            .unwrap_or_default()
            .trim()
            .is_empty()
        {
            return own;
        }
        let last = self.line(comment.end);
        let after = source.get(comment.end..).unwrap_or_default();
        let rest = after.split('\n').next().unwrap_or_default().trim();
        if !rest.is_empty() && !rest.starts_with("//") {
            return last;
        }
        let mut line = last + 1;
        while line < self.starts.len()
            && self
                .text(source, line..line + 1)
                .trim_start()
                .starts_with("//")
        {
            line += 1;
        }
        line
    }

    fn line(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|s| *s <= offset)
            .saturating_sub(1)
    }

    /// The text of some lines, line breaks included.
    fn text<'a>(&self, source: &'a str, lines: Range<usize>) -> &'a str {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(source.len());
        source
            .get(at(lines.start)..at(lines.end))
            .unwrap_or_default()
    }

    /// Whether a comment names `rule`, so that it must run for the comment to be judged.
    pub fn name(&self, rule: &str) -> bool {
        let names = |a: &Allow| a.names.iter().any(|n| n.id == rule || n.id == ALL);
        self.allows.iter().any(names)
    }

    /// Whether there is any comment to us.
    pub fn is_empty(&self) -> bool {
        self.allows.is_empty()
    }

    /// Whether a finding of `rule` at `range` is allowed; the comments that say so are noted as used.
    pub fn allows(&mut self, rule: &str, range: &Range<usize>) -> bool {
        if self.allows.is_empty() {
            return false;
        }
        let line = self.line(range.start);
        let mut allowed = false;
        for allow in &mut self.allows {
            let holds = match allow.reach {
                Some(Reach::File) => true,
                Some(Reach::Line(l)) => l == line,
                None => false,
            };
            for name in allow.names.iter_mut().filter(|_| holds) {
                // `all` does not hide that it is itself unused.
                if name.id == rule || (name.id == ALL && rule != UNUSED) {
                    name.used = true;
                    allowed = true;
                }
            }
        }
        allowed
    }

    /// What is wrong with the comments, once every finding has been held against them. `ran` says whether a rule was
    /// run; a comment for one that was not cannot be judged.
    pub fn judge(&self, document: &Document, ran: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
        let source = document.text();
        let mut out = Vec::new();
        for allow in &self.allows {
            let Some(reach) = allow.reach else {
                out.push(finding(
                    Severity::Warning,
                    allow.range.clone(),
                    "This comment to hipsmith is not understood, so it silences nothing. Write `hipsmith: allow(rule) \
                     reason` on the line or above it, or `hipsmith: allow-file(rule) reason` for the whole file."
                        .to_owned(),
                    None,
                ));
                continue;
            };
            let known = |id: &str| id == ALL || rule(id).is_some();
            let idle = |n: &Name| {
                n.id != UNUSED
                    && !n.used
                    && if n.id == ALL {
                        rules().iter().all(|r| ran(r.id))
                    } else {
                        ran(&n.id)
                    }
            };
            let judged = document.is_parsed() && !self.hides_errors(document, reach);
            let useless: Vec<&Name> = allow
                .names
                .iter()
                .filter(|n| !known(&n.id) || (judged && idle(n)))
                .collect();
            for name in &useless {
                let (severity, message, fix) = if known(&name.id) {
                    let place = match reach {
                        Reach::File => "this file",
                        Reach::Line(_) => "the line it speaks of",
                    };
                    (
                        Severity::Hint,
                        format!(
                            "This suppression is not used: `{}` finds nothing in {place} on {}. A comment that silences \
                             nothing today silences the fault that somebody adds tomorrow.",
                            name.id,
                            document.target().name
                        ),
                        removal(source, allow, &useless),
                    )
                } else {
                    let near = similar(&name.id, rules().iter().map(|r| r.id));
                    let (hint, fix) = match near.first() {
                        Some(nearest) => (
                            format!("Did you mean `{}`?", near.join("` or `")),
                            Fix::new(
                                format!("Allow `{nearest}` instead"),
                                vec![(name.range.clone(), (*nearest).to_owned())],
                                // Which rule was meant is a guess.
                                Safety::Unsafe,
                            ),
                        ),
                        None => (
                            "`hipsmith explain` lists the rules.".to_owned(),
                            removal(source, allow, &useless),
                        ),
                    };
                    (
                        Severity::Warning,
                        format!(
                            "There is no rule `{}`, so this comment does not silence it. {hint}",
                            name.id
                        ),
                        fix,
                    )
                };
                out.push(finding(severity, name.range.clone(), message, Some(fix)));
            }
        }
        out
    }

    /// Whether the place lies in code that does not parse: rules skip that, so silence there proves nothing.
    fn hides_errors(&self, document: &Document, reach: Reach) -> bool {
        let root = document.root();
        let Reach::Line(line) = reach else {
            return root.has_error();
        };
        if !root.has_error() {
            return false;
        }
        let text = self.text(document.text(), line..line + 1);
        let start =
            self.starts.get(line).copied().unwrap_or(0) + text.len() - text.trim_start().len();
        let end = start + text.trim().len();
        let mut node = root.descendant_for_byte_range(start, end);
        let mut inner = false;
        while let Some(n) = node {
            // Only the root holds the errors of everything else.
            if n.parent().is_some() {
                inner = true;
                if n.has_error() || n.is_error() {
                    return true;
                }
            }
            node = n.parent();
        }
        !inner
    }
}

fn finding(
    severity: Severity,
    range: Range<usize>,
    message: String,
    fix: Option<Fix>,
) -> Diagnostic {
    Diagnostic {
        rule: UNUSED,
        family: Family::A,
        severity,
        range,
        message,
        related: Vec::new(),
        fix,
    }
}

/// Take useless names out of a comment, or the whole comment when no other is left.
fn removal(source: &str, allow: &Allow, useless: &[&Name]) -> Fix {
    let stays: Vec<&str> = allow
        .names
        .iter()
        .filter(|n| !useless.iter().any(|u| u.range == n.range))
        .map(|n| n.id.as_str())
        .collect();
    if let (false, Some(first), Some(last)) =
        (stays.is_empty(), allow.names.first(), allow.names.last())
    {
        return Fix::new(
            "Remove the unused names from the suppression",
            vec![(first.range.start..last.range.end, stays.join(", "))],
            Safety::Safe,
        );
    }
    let before = source.get(..allow.range.start).unwrap_or_default();
    let after = source.get(allow.range.end..).unwrap_or_default();
    let space = before.len() - before.trim_end_matches([' ', '\t']).len();
    let start = allow.range.start - space;
    let alone = start == 0 || before.get(..start).is_some_and(|b| b.ends_with('\n'));
    let blank = after.len() - after.trim_start_matches([' ', '\t', '\r']).len();
    let rest = after.get(blank..).unwrap_or_default();
    let range = if alone && rest.starts_with('\n') {
        start..allow.range.end + blank + 1
    } else if alone && rest.is_empty() {
        start..source.len()
    } else if alone {
        // Code follows a block comment: its indent stays.
        allow.range.start..allow.range.end + blank
    } else {
        start..allow.range.end
    };
    Fix::new(
        "Remove the suppression",
        vec![(range, String::new())],
        Safety::Safe,
    )
}

/// A fix, applied only when a person asks for it, that silences `rule` at `range` by a comment. `None` where no
/// comment can stand: in a macro's continued lines or a literal.
pub fn suppression(document: &Document, rule: &str, range: &Range<usize>) -> Option<Fix> {
    let source = document.text();
    let before = source.get(..range.start)?;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let above_start = source
        .get(..start.saturating_sub(1))
        .and_then(|s| s.rfind('\n'))
        .map_or(0, |i| i + 1);
    let above = source
        .get(above_start..start.saturating_sub(1))
        .unwrap_or_default();
    if above.trim_end().ends_with('\\') {
        return None;
    }
    let in_literal = lex::tokens(document.masked())
        .iter()
        .any(|t| t.range.start < start && start < t.range.end);
    if in_literal {
        return None;
    }
    let title = format!("Silence `{rule}` here with a comment");
    // A comment for this line stands there already: name the rule in it.
    let existing = Suppressions::of(document);
    let line = existing.line(range.start);
    let same_line = |a: &&Allow| a.reach == Some(Reach::Line(line));
    if let Some(last) = existing
        .allows
        .iter()
        .find(same_line)
        .and_then(|a| a.names.last())
    {
        let end = last.range.end;
        return Some(Fix::new(
            title,
            vec![(end..end, format!(", {rule}"))],
            Safety::ShownOnly,
        ));
    }
    let text = source.get(start..)?;
    let indent = text
        .get(..text.len() - text.trim_start_matches([' ', '\t']).len())
        .unwrap_or_default();
    let ending = if above.ends_with('\r') { "\r\n" } else { "\n" };
    Some(Fix::new(
        title,
        vec![(
            start..start,
            format!("{indent}// {MARK} allow({rule}){ending}"),
        )],
        Safety::ShownOnly,
    ))
}

/// The comments in a text of white space and comments only.
fn comments(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|t| t.find('/')) {
        let start = at + found;
        let rest = text.get(start..).unwrap_or_default();
        let length = if rest.starts_with("//") {
            line_comment(rest)
        } else if rest.starts_with("/*") {
            rest.get(2..)
                .and_then(|r| r.find("*/"))
                .map_or(rest.len(), |i| i + 4)
        } else {
            1
        };
        out.push(start..start + length);
        at = start + length;
    }
    out
}

/// How long the `//` comment is that `text` starts with: to the line's end, past continued lines.
fn line_comment(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        if !content.ends_with('\\') {
            return at + content.len();
        }
        at += line.len();
    }
    text.len()
}

/// Where `part`, a slice of `whole`, starts in it.
fn offset_in(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, check};

    fn at(source: &str, needle: &str) -> Range<usize> {
        let i = source.find(needle).expect("the needle is there");
        i..i + 1
    }

    #[test]
    fn comment_speaks_of_its_line_or_the_next() {
        let source = "a;\n// hipsmith: allow(x, y) reason\nb;\nc; // hipsmith: allow(z)\n/* hipsmith: allow(v) */ d;\n";
        let mut s = Suppressions::of(&Document::new(source));
        assert!(s.allows("x", &at(source, "b;")) && s.allows("y", &at(source, "b;")));
        assert!(!s.allows("x", &at(source, "a;")) && !s.allows("z", &at(source, "b;")));
        assert!(s.allows("z", &at(source, "c;")) && !s.allows("x", &at(source, "c;")));
        assert!(s.allows("v", &at(source, "d;")));
    }

    #[test]
    fn comments_above_one_another_speak_of_the_same_line() {
        let source =
            "// hipsmith: allow(x) one\n// and a word\n// hipsmith: allow(y) two\nb;\nc;\n";
        let mut s = Suppressions::of(&Document::new(source));
        assert!(s.allows("x", &at(source, "b;")) && s.allows("y", &at(source, "b;")));
        assert!(!s.allows("x", &at(source, "c;")));
    }

    #[test]
    fn file_wide_and_everything() {
        let source = "// hipsmith: allow-file(x) generated\n\n\nint a; // hipsmith: allow(all)\n";
        let mut s = Suppressions::of(&Document::new(source));
        assert!(s.allows("x", &at(source, "int a")));
        assert!(s.allows("y", &at(source, "int a")));
        assert!(!s.allows("y", &at(source, "hipsmith")));
    }

    #[test]
    fn a_string_is_no_comment() {
        let source = "f(\"// hipsmith: allow(x)\"); g(R\"(\n// hipsmith: allow(y)\n)\");\n";
        assert!(Suppressions::of(&Document::new(source)).is_empty());
    }

    const BAD: &str = "__global__ void k(unsigned* o, bool p) {\n  unsigned m = __ballot(p);\n  o[0] = __popc(m);\n}\n";

    fn found(source: &str) -> Vec<Diagnostic> {
        check(&Document::new(source), &Config::default())
    }

    #[test]
    fn used_comments_are_silent_and_silence() {
        for (from, to) in [
            (
                "  unsigned m",
                "  // hipsmith: allow(ballot-in-32-bits) the upper half is off\n  unsigned m",
            ),
            ("(p);", "(p); // hipsmith: allow(ballot-in-32-bits)"),
            (
                "__global__",
                "// hipsmith: allow-file(ballot-in-32-bits)\n__global__",
            ),
            ("(p);", "(p); /* hipsmith: allow(all) */"),
        ] {
            let source = BAD.replacen(from, to, 1);
            assert_eq!(found(&source), Vec::new(), "{source}");
        }
        assert_eq!(found(BAD).len(), 1);
    }

    #[test]
    fn unused_ones_are_told_and_the_fix_removes_them() {
        for (before, after) in [
            (
                "int a; // hipsmith: allow(lds-over-limit) big\n",
                "int a;\n",
            ),
            (
                "int a;\n  // hipsmith: allow(lds-over-limit)\n  int b;\n",
                "int a;\n  int b;\n",
            ),
            (
                "/* hipsmith: allow-file(lds-over-limit) */ int a;\n",
                "int a;\n",
            ),
            (
                "int a;\r\n// hipsmith: allow(all)\r\nint b;\r\n",
                "int a;\r\nint b;\r\n",
            ),
            ("int a; // hipsmith: allow(all)", "int a;"),
            ("// hipsmith: allow-file(all)", ""),
        ] {
            let all = found(before);
            assert_eq!(all.len(), 1, "{before}: {all:#?}");
            assert_eq!((all[0].rule, all[0].severity), (UNUSED, Severity::Hint));
            let fix = all[0].fix.as_ref().expect("a fix");
            assert_eq!(fix.safety, Safety::Safe);
            assert_eq!(fix.apply(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn a_used_name_stays_when_its_neighbour_goes() {
        let with =
            |names: &str| BAD.replacen("(p);", &format!("(p); // hipsmith: allow({names}) x"), 1);
        let source = with("lds-over-limit, ballot-in-32-bits,inline-ptx");
        let all = found(&source);
        assert_eq!(all.len(), 2, "{all:#?}");
        let fixed = all[0].fix.as_ref().and_then(|f| f.apply(&source));
        assert_eq!(fixed, Some(with("ballot-in-32-bits")));
    }

    #[test]
    fn unknown_names_and_broken_comments_are_warned_of() {
        let all = found(
            "int a; // hipsmith: allow(lds-over-limt)\nint b; // hipsmith: allow(zzzzzz)\nint c; // hipsmith: allow lds\n// hipsmith is a tool\n// hipsmith: a note\n",
        );
        let told: Vec<_> = all
            .iter()
            .map(|d| (d.severity, d.fix.as_ref().map(|f| f.safety)))
            .collect();
        assert_eq!(
            told,
            [
                (Severity::Warning, Some(Safety::Unsafe)),
                (Severity::Warning, Some(Safety::Safe)),
                (Severity::Warning, None)
            ],
            "{all:#?}"
        );
        assert!(all[0].message.contains("`lds-over-limit`"));
    }

    #[test]
    fn what_was_not_run_or_not_compiled_or_not_parsed_is_not_judged() {
        let off = Config {
            disabled: ["lds-over-limit".to_owned()].into(),
            ..Config::default()
        };
        let source = "int a; // hipsmith: allow(lds-over-limit)\nint b; // hipsmith: allow(all)\n";
        assert_eq!(check(&Document::new(source), &off), Vec::new());
        for source in [
            "#if 0\nint a; // hipsmith: allow(lds-over-limit)\n#endif\n",
            "void f() {\n  int a = ; // hipsmith: allow(lds-over-limit)\n}\n",
            "int x; // hipsmith: allow-file(unused-suppression)\nint a; // hipsmith: allow(lds-over-limit)\n",
            "int a; // hipsmith: allow(lds-over-limit, unused-suppression)\n",
        ] {
            assert_eq!(found(source), Vec::new(), "{source}");
        }
    }

    #[test]
    fn a_comment_can_be_made_for_a_finding() {
        for source in [
            BAD.to_owned(),
            BAD.replace('\n', "\r\n"),
            BAD.replacen("(p);", "(p); // hipsmith: allow(inline-ptx) x", 1),
            BAD.replacen(
                "  unsigned m",
                "  // hipsmith: allow(inline-ptx)\n  unsigned m",
                1,
            ),
        ] {
            let document = Document::new(source.as_str());
            let all = check(&document, &Config::default());
            let bad = all
                .iter()
                .find(|d| d.rule == "ballot-in-32-bits")
                .expect("the fault");
            let fix = suppression(&document, bad.rule, &bad.range).expect("a comment fits");
            let silenced = fix.apply(&source).expect("the edits fit");
            assert!(
                found(&silenced).iter().all(|d| d.rule == UNUSED),
                "{silenced}"
            );
        }
        let source = "#define M(p) \\\n  __ballot(p)\n";
        let inside = source.find("__ballot").expect("there");
        assert_eq!(
            suppression(&Document::new(source), "x", &(inside..inside + 1)),
            None
        );
    }

    #[test]
    fn any_text_is_read() {
        for source in [
            "// hipsmith: allow(",
            "/* hipsmith: allow(x",
            "// hipsmith: allow(x\\\n)\nq",
            "//hipsmith:allow(é,,  )é\n/",
            "// hipsmith: allow-file()",
            "/",
        ] {
            found(source);
        }
    }
}
