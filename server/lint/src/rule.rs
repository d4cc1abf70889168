//! The table of rules and their documentation.

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};

/// What a rule looks at. It decides when the rule has to look again while somebody types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// At the functions that [`Context::subjects`] gives, what they call, what calls them, how the file launches them, and
    /// what stands outside functions. Findings of a function are kept until one of these changes.
    Function,
    /// At the whole file, at every keystroke: it has to be quick.
    File,
}

/// One rule: an entry of the table in [`crate::rules`].
pub struct Rule {
    /// Kebab-case; reads as *allow `id`*.
    pub id: &'static str,
    /// The kind of fault.
    pub family: Family,
    /// The severity that the rule usually reports; a finding can be milder.
    pub severity: Severity,
    /// What it looks at.
    pub scope: Scope,
    /// The rule in one sentence.
    pub summary: &'static str,
    /// The rule's page in Markdown, without its title: the sections that CONTRIBUTING.md lists. Code blocks
    /// marked `hip fires` and `hip quiet` are tests.
    pub docs: &'static str,
    /// The check.
    pub check: fn(&Context<'_>, &mut Vec<Diagnostic>),
}

/// All rules, in the order of their families.
pub fn rules() -> &'static [&'static Rule] {
    crate::rules::TABLE
}

/// The rule with this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().iter().copied().find(|r| r.id == id)
}

/// The page of a rule, in Markdown; `None` when there is no such rule.
pub fn explain(id: &str) -> Option<String> {
    rule(id).map(|r| page(r, "#"))
}

fn page(rule: &Rule, heading: &str) -> String {
    let mut out = format!(
        "{heading} {}\n\nFamily {} ({}), usually reported as {}.\n\n{}\n",
        rule.id,
        rule.family.letter(),
        rule.family.title(),
        rule.severity.name(),
        rule.summary
    );
    for line in rule.docs.trim().lines() {
        out.push('\n');
        if line.starts_with("## ") {
            out.push_str(heading);
        }
        out.push_str(line.strip_prefix("```hip").map_or(line, |_| "```cpp"));
    }
    out.push('\n');
    out
}

/// The rules reference, `docs/rules.md`.
pub fn reference() -> String {
    let mut out = String::from(
        "<!-- Generated from server/lint/src/rules by `UPDATE_DOCS=1 cargo test -p hipsmith-lint`. Do not edit. -->\n\n\
         # Rules\n\n\
         `hipsmith explain RULE` prints a rule's page. A finding is silenced by a comment on its line or on the line\n\
         above: `// hipsmith: allow(rule-id) reason`. A whole file: `// hipsmith: allow-file(rule-id) reason`.\n\n\
         | rule | family | severity | in one sentence |\n|---|---|---|---|\n",
    );
    for r in rules() {
        out.push_str(&format!(
            "| [{0}](#{0}) | {1} | {2} | {3} |\n",
            r.id,
            r.family.letter(),
            r.severity.name(),
            r.summary
        ));
    }
    for r in rules() {
        out.push('\n');
        out.push_str(&page(r, "##"));
    }
    out
}
