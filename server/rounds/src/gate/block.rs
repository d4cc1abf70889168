//! The workgroup must be launchable: within the target's limit and what the compiler allowed for.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    let threads: u64 = built.block.iter().map(|d| u64::from(*d)).product();
    let limit = built.target.exec.max_workgroup;
    if threads == 0 || threads > u64::from(limit) {
        return Err(Refusal::Refused(format!(
            "a workgroup of {threads} threads cannot be launched on {}: the limit is {limit}",
            built.target.name
        )));
    }
    match built.kernel() {
        Some(kernel) if threads > u64::from(kernel.max_block) => Err(Refusal::Refused(format!(
            "it is launched with {threads} threads, but its launch bounds allow {}",
            kernel.max_block
        ))),
        _ => Ok(()),
    }
}
