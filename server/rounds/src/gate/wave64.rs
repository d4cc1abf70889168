//! The rules must find no more faults of wave size, LDS or synchronization than in the original.

use std::collections::BTreeMap;
use std::sync::Arc;

use hipsmith_lint::{Config, Family, Severity};
use hipsmith_syntax::{Document, Options};
use hipsmith_target::Target;

use super::{Edit, Refusal};

pub(super) fn check(edit: &Edit) -> Result<(), Refusal> {
    let before = faults(edit.original, edit.target);
    for (rule, (n, line, message)) in faults(edit.text, edit.target) {
        if n > before.get(rule).map_or(0, |(n, ..)| *n) {
            return Err(Refusal::Refused(format!(
                "rule {rule} finds a fault that the original does not have, at line {line}: {message}"
            )));
        }
    }
    Ok(())
}

type Faults = BTreeMap<&'static str, (usize, u32, String)>;

fn faults(text: &str, target: &'static Target) -> Faults {
    let options = Options {
        target,
        ..Options::default()
    };
    let document = Document::with_options(text, 0, Arc::new(options));
    let mut faults = Faults::new();
    for d in hipsmith_lint::check(&document, &Config::default()) {
        if d.severity == Severity::Error && matches!(d.family, Family::W | Family::L | Family::S) {
            let line = document
                .position(d.range.start, hipsmith_syntax::Encoding::Utf8)
                .line
                + 1;
            faults.entry(d.rule).or_insert((0, line, d.message)).0 += 1;
        }
    }
    faults
}
