//! What a rule says: diagnostics, fixes, and how safe a fix is.

use std::ops::Range;

use serde::Serialize;

/// The kind of fault a rule looks for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Family {
    /// Wave size: code that is wrong, or wasteful, where 64 lanes run together.
    W,
    /// LDS size: more local memory than a workgroup can have.
    L,
    /// LDS bank conflicts.
    B,
    /// Vectorization and coalescing of memory accesses.
    V,
    /// Synchronization.
    S,
    /// Portability: does not compile, launch or mean the same on the target.
    P,
    /// Comments to hipsmith itself.
    A,
}

impl Family {
    /// The letter.
    pub fn letter(self) -> &'static str {
        match self {
            Family::W => "W",
            Family::L => "L",
            Family::B => "B",
            Family::V => "V",
            Family::S => "S",
            Family::P => "P",
            Family::A => "A",
        }
    }

    /// The family in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Family::W => "wave size",
            Family::L => "LDS size",
            Family::B => "LDS bank conflicts",
            Family::V => "vectorization and coalescing",
            Family::S => "synchronization",
            Family::P => "portability",
            Family::A => "annotations",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Wrong results, a failed launch or a compile error on the target.
    Error,
    /// Slow, or wrong under conditions that the text does not show.
    Warning,
    /// Right, with something to gain.
    Hint,
}

impl Severity {
    /// `error`, `warning` or `hint`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

/// What may be done with a fix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Safety {
    /// Never changes the results of a correct program and leaves a program that parses: may be applied in bulk.
    Safe,
    /// May change results or needs a look at code elsewhere: applied one at a time, by a person.
    Unsafe,
    /// A suggestion to read; not applied by a program.
    ShownOnly,
}

/// A change of the text that removes the fault.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Fix {
    /// What it does, in the imperative.
    pub title: String,
    /// Byte ranges of the checked text and what to put there; in order, not overlapping.
    pub edits: Vec<(Range<usize>, String)>,
    /// What may be done with it.
    pub safety: Safety,
}

impl Fix {
    /// A fix whose edits are brought in order; duplicates are dropped.
    pub fn new(
        title: impl Into<String>,
        mut edits: Vec<(Range<usize>, String)>,
        safety: Safety,
    ) -> Fix {
        edits.sort_by_key(|(r, _)| (r.start, r.end));
        edits.dedup();
        Fix {
            title: title.into(),
            edits,
            safety,
        }
    }

    /// The text with the edits applied; `None` when an edit does not fit the text or overlaps another.
    pub fn apply(&self, source: &str) -> Option<String> {
        crate::fix::apply(source, &self.edits)
    }
}

/// A finding in one file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Diagnostic {
    /// Id of the rule, kebab-case.
    pub rule: &'static str,
    /// Family of the rule.
    pub family: Family,
    /// How bad it is.
    pub severity: Severity,
    /// Bytes of the checked text.
    pub range: Range<usize>,
    /// What is wrong, why on this hardware, and what to do.
    pub message: String,
    /// Other places that belong to the finding, such as the other end of a data flow.
    pub related: Vec<(Range<usize>, String)>,
    /// A change that removes the fault.
    pub fix: Option<Fix>,
}
