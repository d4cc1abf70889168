//! Static and dynamic LDS together must fit a workgroup.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    let Some(kernel) = built.kernel() else {
        return Ok(());
    };
    let limit = built.target.lds.max_bytes_per_workgroup;
    let wanted = u64::from(kernel.lds) + u64::from(built.dynamic_lds);
    if wanted > u64::from(limit) {
        return Err(Refusal::Refused(format!(
            "it needs {wanted} bytes of LDS ({} static, {} dynamic); a workgroup on {} has {limit}",
            kernel.lds, built.dynamic_lds, built.target.name
        )));
    }
    Ok(())
}
