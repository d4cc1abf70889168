//! The built-in source rewrites: deterministic, offline, the default.

use crate::Cancel;
use crate::proposer::{Brief, Proposal, Proposer};

/// Proposes the built-in rewrites one after the other.
#[derive(Debug, Default)]
pub struct Builtin {}

impl Builtin {
    /// All rewrites.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Proposer for Builtin {
    fn propose(&mut self, _brief: &Brief, _cancel: &Cancel) -> Result<Option<Proposal>, String> {
        Ok(None)
    }
}
