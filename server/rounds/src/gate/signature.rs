//! The kernel must still be there, under the same name and with the same arguments.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    let Some(kernel) = built.kernel() else {
        return Err(Refusal::Refused(format!(
            "`{}` is gone: its name, parameter types or template arguments changed, and its callers would not find it",
            crate::code_object::signature(built.symbol).full
        )));
    };
    let original = built.original.kernel(built.symbol);
    if original.is_some_and(|o| o.args != kernel.args) {
        return Err(Refusal::Refused(
            "the kernel's arguments have another layout than the original's".to_owned(),
        ));
    }
    if kernel.wavefront != built.target.wave_size {
        return Err(Refusal::Refused(format!(
            "it is compiled for wavefronts of {} lanes; {} has {}",
            kernel.wavefront, built.target.name, built.target.wave_size
        )));
    }
    Ok(())
}
