//! Storing results: output modifiers, partial destinations and EXEC.

use super::ValuInst;
use super::float;
use super::lane::{Kind, Lane, Row};
use super::source::register;
use crate::machine::{LANES, Mode, Wave};

/// Where a 16-bit or SDWA result goes within its dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The whole dword (16-bit results zero the high half).
    Whole,
    /// The low half; the high half is kept.
    Low,
    /// The high half; the low half is kept.
    High,
}

/// Whether denormal results of this kind are to be flushed.
#[inline(always)]
fn flush_out(kind: Kind, mode: Mode) -> bool {
    match kind {
        Kind::F32 | Kind::PkF32 => mode.denorm_f32 & 2 == 0,
        Kind::F16 | Kind::PkF16 | Kind::F64 => mode.denorm_f16_f64 & 2 == 0,
        _ => false,
    }
}

impl ValuInst {
    /// Store a result of type `D`.
    #[inline(always)]
    pub(super) fn store<D: Lane>(&self, wave: &mut Wave, mut lo: Row, mut hi: Row) {
        if D::KIND.dwords() == 0 {
            return;
        }
        let mut mask = wave.exec;
        if self.dressed || flush_out(D::KIND, wave.mode) {
            mask = self.dress(D::KIND, wave, &mut lo, &mut hi);
        }
        write(&mut wave.v, self.dst, &lo, mask);
        if D::KIND.dwords() == 2 {
            write(&mut wave.v, self.dst + 1, &hi, mask);
        }
    }

    /// Output modifiers, flushing and placement; returns the lanes to write.
    #[cold]
    #[inline(never)]
    fn dress(&self, kind: Kind, wave: &Wave, lo: &mut Row, hi: &mut Row) -> u64 {
        let mode = wave.mode;
        if self.omod != 0.0 {
            float::scale_rows(kind, self.omod, lo, hi);
        }
        if self.clamp && kind.is_float() {
            float::clamp_rows(kind, mode.dx10_clamp, lo, hi);
        }
        if flush_out(kind, mode) {
            float::flush_rows(kind, lo, hi);
        }
        let old = register(&wave.v, self.dst);
        match self.placement {
            Placement::Whole => {}
            Placement::Low => {
                for l in 0..LANES {
                    lo[l] = lo[l] & 0xffff | old[l] & 0xffff_0000;
                }
            }
            Placement::High => {
                for l in 0..LANES {
                    lo[l] = lo[l] << 16 | old[l] & 0xffff;
                }
            }
        }
        if let Some(sdwa) = self.extra.as_deref().and_then(|e| e.sdwa.as_ref()) {
            sdwa.place(lo, old);
        }
        self.lanes(wave)
    }

    /// Store a mask result (compare, carry-out) into its scalar register pair.
    #[inline(always)]
    pub(super) fn store_mask(&self, wave: &mut Wave, mask: u64) {
        if let Some(s) = self.sdst {
            wave.set_sgpr64(s, mask);
        }
    }
}

/// Write the lanes of `mask` into a register. Registers that the kernel did not allocate swallow the write.
#[inline(always)]
pub(super) fn write(file: &mut [Row], r: u16, row: &Row, mask: u64) {
    let Some(dst) = file.get_mut(usize::from(r)) else {
        return;
    };
    if mask == u64::MAX {
        *dst = *row;
        return;
    }
    for l in 0..LANES {
        let keep = ((mask >> l & 1) as u32).wrapping_sub(1);
        dst[l] = dst[l] & keep | row[l] & !keep;
    }
}
