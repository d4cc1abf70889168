//! The workgroup's registers must fit a compute unit, and the candidate must not start to spill.

use super::{Built, Refusal};

pub(super) fn check(built: &Built) -> Result<(), Refusal> {
    let Some(kernel) = built.kernel() else {
        return Ok(());
    };
    let registers = &built.target.registers;
    if kernel.vgprs > registers.vgprs_max_per_wave {
        return Err(Refusal::Refused(format!(
            "it needs {} vector registers; a wavefront on {} has at most {}",
            kernel.vgprs, built.target.name, registers.vgprs_max_per_wave
        )));
    }
    let threads: u32 = built.block.iter().fold(1, |a, d| a.saturating_mul(*d));
    let waves = threads.div_ceil(built.target.wave_size.max(1));
    let granule = registers.vgpr_granule.max(1);
    let each = kernel.vgprs.max(1).div_ceil(granule) * granule;
    let fit = (registers.vgprs_per_simd / each).min(built.target.exec.max_waves_per_simd)
        * built.target.exec.simds_per_cu;
    if waves > fit {
        return Err(Refusal::Refused(format!(
            "its workgroup of {waves} wavefronts with {} vector registers each does not fit a compute unit of {}, \
             which holds {fit}",
            kernel.vgprs, built.target.name
        )));
    }
    Ok(())
}
