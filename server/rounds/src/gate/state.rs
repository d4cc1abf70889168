//! A candidate must keep no state between launches: one that remembers a result need not compute the next.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    match built
        .object
        .globals
        .iter()
        .find(|g| !built.original.globals.contains(g))
    {
        Some(global) => Err(Refusal::Suspect(format!(
            "it brings in a writable device variable, `{}`, in which results could be kept between launches",
            crate::code_object::signature(global).full
        ))),
        None => Ok(()),
    }
}
