//! A candidate must hold its own code: nothing that is linked or loaded from elsewhere.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    match built
        .object
        .imports
        .iter()
        .find(|i| !built.original.imports.contains(i))
    {
        Some(import) => Err(Refusal::Refused(format!(
            "it calls `{import}`, which is not in its code object"
        ))),
        None => Ok(()),
    }
}
