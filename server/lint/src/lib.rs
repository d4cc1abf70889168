//! Rules: one file each, with documentation, check, fix and tests.
//!
//! [`check`] runs the rules over a [`Document`]; [`rules`], [`rule`] and [`explain`] tell about them. A rule is a
//! file in `rules/` and a line in its table. Nothing here does I/O or panics on any text.

mod barriers;
mod context;
mod diagnostic;
mod facts;
mod lds_order;
mod rule;
mod rules;
mod shapes;
mod suppress;
mod variance;
mod waves;

#[cfg(test)]
mod harness;

use std::collections::BTreeSet;

pub use context::Context;
pub use diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use hipsmith_syntax::Document;
pub use rule::{Rule, explain, reference, rule, rules};

/// Settings of the rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Config {
    /// Rules that are not run, by id.
    pub disabled: BTreeSet<String>,
    /// When not empty, only these rules are run.
    pub only: BTreeSet<String>,
}

/// All findings in `document` for its target, in text order, suppressed ones left out.
///
/// Code that the target does not compile is not looked at, nor is code that does not parse.
pub fn check(document: &Document, config: &Config) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    context::with(document, config, |cx| {
        for rule in rules() {
            let wanted = config.only.is_empty() || config.only.contains(rule.id);
            if wanted && !config.disabled.contains(rule.id) {
                (rule.check)(cx, &mut out);
            }
        }
    });
    let suppressions = suppress::Suppressions::of(document.text());
    out.retain(|d| !suppressions.allows(d.rule, &d.range));
    out.sort_by(|a, b| {
        (a.range.start, a.range.end, a.rule).cmp(&(b.range.start, b.range.end, b.rule))
    });
    out.dedup_by(|a, b| a.rule == b.rule && a.range == b.range);
    out
}
