//! What was tried and what came of it.

use crate::Outcome;

/// One journalled round, as proposers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The proposal's stable name.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was expected.
    pub hypothesis: String,
    /// Why it ended so.
    pub reason: String,
    /// Hash of the text that it was applied to ([`crate::hash`]).
    pub base: String,
    /// Whether this very job tried it; otherwise an earlier job did.
    pub this_job: bool,
}
