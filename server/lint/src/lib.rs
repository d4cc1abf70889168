//! Rules: one file each, with documentation, check, fix and tests.
//!
//! [`check`] runs the rules over a [`Document`]; [`rules`], [`rule`] and [`explain`] tell about them. A rule is a
//! file in `rules/` and a line in its table. Nothing here does I/O or panics on any text.

mod barriers;
mod context;
mod diagnostic;
mod facts;
mod fix;
mod incremental;
mod lds;
mod lds_order;
mod names;
mod reach;
mod rule;
mod rules;
mod shapes;
mod suppress;
mod variance;
mod votes;
mod waves;

#[cfg(test)]
mod harness;

use std::collections::{BTreeMap, BTreeSet};

pub use context::Context;
pub use diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
pub use fix::{Edits, Fixed, apply, fix, select};
use hipsmith_syntax::Document;
pub use incremental::Cache;
pub use lds::{Degree, Launched, LdsUse, Unknown, lds_accesses, lds_accesses_of};
pub use names::similar;
pub use rule::{Rule, Scope, explain, reference, rule, rules};
pub use suppress::{UNUSED, suppression};

/// Settings of the rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Config {
    /// Rules that are not run, by id.
    pub disabled: BTreeSet<String>,
    /// When not empty, only these rules are run.
    pub only: BTreeSet<String>,
    /// How bad every finding of a rule is taken to be, by id, instead of what the rule says.
    pub levels: BTreeMap<String, Severity>,
}

impl Config {
    /// Whether findings of the rule are reported.
    pub fn reports(&self, rule: &str) -> bool {
        (self.only.is_empty() || self.only.contains(rule)) && !self.disabled.contains(rule)
    }
}

/// All findings in `document` for its target, in text order, suppressed ones left out.
///
/// Code that the target does not compile is not looked at, nor is code that does not parse.
pub fn check(document: &Document, config: &Config) -> Vec<Diagnostic> {
    check_again(document, config, None)
}

/// As [`check`], while somebody types: functions that are as they were at the last check with this cache, and of which
/// nothing changed that they depend on, are not looked at again. The findings are the same.
pub fn check_again(
    document: &Document,
    config: &Config,
    cache: Option<&mut Cache>,
) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let mut suppressions = suppress::Suppressions::of(document);
    let judge = config.reports(UNUSED) && !suppressions.is_empty();
    let mut run = std::borrow::Cow::Borrowed(config);
    if judge && !config.only.is_empty() {
        // To say that a comment silences nothing, its rule must have run.
        let named = rules().iter().map(|r| r.id);
        let named = named.filter(|id| suppressions.name(id));
        run.to_mut().only.extend(named.map(str::to_owned));
    }
    context::with(document, &run, |cx| match cache {
        None => {
            cx.look_at(None, &mut out);
            for i in 0..cx.functions.len() {
                cx.look_at(Some(i), &mut out);
            }
        }
        Some(cache) => cache.check(cx, &mut out),
    });
    out.retain(|d| !suppressions.allows(d.rule, &d.range) && config.reports(d.rule));
    if judge {
        let mut told = suppressions.judge(document, |id| run.reports(id));
        told.retain(|d| !suppressions.allows(d.rule, &d.range));
        out.append(&mut told);
    }
    for d in &mut out {
        if let Some(level) = config.levels.get(d.rule) {
            d.severity = *level;
        }
    }
    out.sort_by(|a, b| {
        (a.range.start, a.range.end, a.rule).cmp(&(b.range.start, b.range.end, b.rule))
    });
    out.dedup_by(|a, b| a.rule == b.rule && a.range == b.range);
    out
}
