//! How many wavefronts fit on a SIMD at once, and what limits them.

use serde::Serialize;

use crate::Target;

/// What a kernel uses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Resources {
    /// Vector registers of a wavefront; with accumulation registers, [`crate::Registers::total_vgprs`].
    pub vgprs: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// LDS of a workgroup, static plus dynamic, bytes.
    pub lds_bytes: u32,
    /// Work-items in a workgroup.
    pub workgroup: u32,
}

/// What keeps occupancy from being higher.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limiter {
    /// The wavefront slots of the SIMD: the most that the hardware holds.
    Waves,
    /// Vector registers.
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
    /// Workgroup slots, or a workgroup size that does not divide the wavefront slots.
    Workgroups,
    /// The kernel does not fit at all: too many registers, too much LDS or too large a workgroup.
    DoesNotFit,
}

impl std::fmt::Display for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limiter::Waves => "the wavefront slots",
            Limiter::Vgprs => "vector registers",
            Limiter::Sgprs => "scalar registers",
            Limiter::Lds => "LDS",
            Limiter::Workgroups => "the workgroup size",
            Limiter::DoesNotFit => "what the hardware can launch at all",
        })
    }
}

/// How many wavefronts and workgroups fit at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Occupancy {
    /// Wavefronts per SIMD.
    pub waves_per_simd: u32,
    /// Workgroups per compute unit.
    pub workgroups_per_cu: u32,
    /// The first limit reached.
    pub limiter: Limiter,
}

/// Occupancy by LLVM's formula (checked against the drop points of LLVM 19 and 22), with LDS rounded to its granule.
///
/// A workgroup of 0 counts as one wavefront. The HIP runtime's own occupancy call caps gfx9 at 8 wavefronts per SIMD
/// and may therefore print less.
pub fn occupancy(target: &Target, r: &Resources) -> Occupancy {
    let exec = &target.exec;
    let regs = &target.registers;
    let none = Occupancy {
        waves_per_simd: 0,
        workgroups_per_cu: 0,
        limiter: Limiter::DoesNotFit,
    };
    if r.workgroup > exec.max_workgroup
        || r.lds_bytes > target.lds.max_bytes_per_workgroup
        || r.vgprs > regs.vgprs_max_per_wave
    {
        return none;
    }
    let granule = regs.vgpr_granule.max(1);
    let by_vgpr = regs.vgprs_per_simd / r.vgprs.max(1).next_multiple_of(granule);
    // LLVM's table for gfx9.
    let by_sgpr = match r.sgprs {
        0..=80 => 10,
        81..=88 => 9,
        89..=100 => 8,
        _ => 7,
    };
    let max = exec.max_waves_per_simd;
    let max_per_cu = max * exec.simds_per_cu;
    let by_registers = by_vgpr.min(by_sgpr).min(max);
    let waves_per_workgroup = r.workgroup.max(1).div_ceil(target.wave_size);
    let by_lds = match r.lds_bytes {
        0 => u32::MAX,
        n => target.lds.bytes_per_cu / n.next_multiple_of(target.lds.granule.max(1)),
    };
    let by_slots = if waves_per_workgroup > 1 {
        exec.max_multiwave_workgroups_per_cu
    } else {
        max_per_cu
    };
    let by_waves = max_per_cu / waves_per_workgroup;
    let by_register_file = exec.simds_per_cu * by_registers / waves_per_workgroup;
    let workgroups_per_cu = by_waves.min(by_slots).min(by_lds).min(by_register_file);
    if workgroups_per_cu == 0 {
        return none;
    }
    let by_workgroups = (workgroups_per_cu * waves_per_workgroup).div_ceil(exec.simds_per_cu);
    let waves_per_simd = by_registers.min(by_workgroups);
    let limiter = if waves_per_simd == max {
        Limiter::Waves
    } else if workgroups_per_cu == by_lds {
        Limiter::Lds
    } else if workgroups_per_cu == by_register_file && by_registers < max {
        if by_vgpr <= by_sgpr {
            Limiter::Vgprs
        } else {
            Limiter::Sgprs
        }
    } else {
        Limiter::Workgroups
    };
    Occupancy {
        waves_per_simd,
        workgroups_per_cu,
        limiter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, by_name};
    use proptest::prelude::*;

    fn waves(target: &str, vgprs: u32) -> u32 {
        let target = by_name(target).unwrap_or_else(|| panic!("{target}"));
        let r = Resources {
            vgprs,
            workgroup: 64,
            ..Resources::default()
        };
        occupancy(target, &r).waves_per_simd
    }

    /// The first register count of each drop, probed with LLVM 19 and 22.
    #[test]
    fn vgpr_drop_points() {
        for target in ["gfx900", "gfx906", "gfx908", "gfx926", "gfx928"] {
            for (vgprs, want) in [
                (25, 9),
                (29, 8),
                (33, 7),
                (37, 6),
                (41, 5),
                (49, 4),
                (65, 3),
                (85, 2),
                (129, 1),
            ] {
                assert_eq!(waves(target, vgprs), want, "{target} {vgprs}");
                assert_eq!(waves(target, vgprs - 1), want + 1, "{target} {}", vgprs - 1);
            }
        }
        for target in ["gfx90a", "gfx942", "gfx950"] {
            for (vgprs, want) in [
                (65, 7),
                (73, 6),
                (81, 5),
                (97, 4),
                (129, 3),
                (169, 2),
                (257, 1),
            ] {
                assert_eq!(waves(target, vgprs), want, "{target} {vgprs}");
                assert_eq!(waves(target, vgprs - 1), want + 1, "{target} {}", vgprs - 1);
            }
        }
    }

    #[test]
    fn lds_barriers_and_misfits() -> Result<(), String> {
        let t = by_name("gfx906").ok_or("gfx906")?;
        let of = |vgprs, sgprs, lds_bytes, workgroup| {
            occupancy(
                t,
                &Resources {
                    vgprs,
                    sgprs,
                    lds_bytes,
                    workgroup,
                },
            )
        };
        // A 128-thread workgroup: 16 multi-wave workgroups per CU make 8 waves per SIMD.
        assert_eq!(of(16, 16, 0, 128).waves_per_simd, 8);
        assert_eq!(of(16, 16, 0, 128).limiter, Limiter::Workgroups);
        // 1024 threads: two workgroups of 16 waves on 40 slots.
        assert_eq!(of(16, 16, 0, 1024).waves_per_simd, 8);
        assert_eq!(of(16, 16, 32 << 10, 256).limiter, Limiter::Lds);
        assert_eq!(of(16, 16, 32 << 10, 256).workgroups_per_cu, 2);
        assert_eq!(of(16, 16, (32 << 10) + 1, 256).workgroups_per_cu, 1);
        assert_eq!(of(16, 16, (64 << 10) + 1, 256).limiter, Limiter::DoesNotFit);
        assert_eq!(of(300, 16, 0, 64).limiter, Limiter::DoesNotFit);
        assert_eq!(of(16, 16, 0, 2048).limiter, Limiter::DoesNotFit);
        assert_eq!(of(16, 102, 0, 64).waves_per_simd, 7);
        assert_eq!(of(16, 102, 0, 64).limiter, Limiter::Sgprs);
        assert_eq!(of(64, 16, 0, 256).limiter, Limiter::Vgprs);
        assert_eq!(of(16, 16, 0, 64).limiter, Limiter::Waves);
        Ok(())
    }

    proptest! {
        #[test]
        fn more_of_anything_never_raises_occupancy(v in 0u32..600, s in 0u32..110, l in 0u32..200_000, wg in 0u32..1100, t in 0usize..10) {
            let t = &all()[t % all().len()];
            let r = Resources { vgprs: v, sgprs: s, lds_bytes: l, workgroup: wg };
            let o = occupancy(t, &r);
            prop_assert!(o.waves_per_simd <= t.exec.max_waves_per_simd);
            for more in [Resources { vgprs: v + 1, ..r }, Resources { sgprs: s + 1, ..r }, Resources { lds_bytes: l + 1, ..r }] {
                prop_assert!(occupancy(t, &more).waves_per_simd <= o.waves_per_simd);
            }
        }
    }
}
