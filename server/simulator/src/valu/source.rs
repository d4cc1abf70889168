//! Fetching sources: registers, constants and their modifiers, as rows of 64 dwords.

use super::dpp::Dpp;
use super::float;
use super::lane::{Buffer, Kind, Lane, Row, ZERO};
use super::sdwa::Select;
use super::{Extra, ValuInst};
use crate::isa::{Operand, Special};
use crate::machine::{LANES, Mode, Wave};

/// Where a source comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// A vector register (and the next ones).
    Row(u16),
    /// An accumulation register.
    Acc(u16),
    /// A scalar register (and the next one), broadcast.
    Scalar(u8),
    /// A constant's low and high dword, broadcast.
    Const(u32, u32),
    /// A special value, broadcast.
    Special(Special),
}

impl Source {
    /// Resolve an operand that is read as `kind`.
    pub(super) fn resolve(operand: &Operand, kind: Kind) -> Source {
        match *operand {
            Operand::Vgpr { first, .. } => Source::Row(first),
            Operand::Agpr { first, .. } => Source::Acc(first),
            Operand::Sgpr { first, .. } => Source::Scalar(first),
            Operand::Int(i) => Source::Const(i as u32, if i < 0 { u32::MAX } else { 0 }),
            Operand::Float(f) => {
                let (lo, hi) = float_constant(f, kind);
                Source::Const(lo, hi)
            }
            Operand::Literal(bits) => match kind {
                Kind::F64 => Source::Const(0, bits),
                Kind::I64 => Source::Const(bits, ((bits as i32) >> 31) as u32),
                _ => Source::Const(bits, 0),
            },
            Operand::Special(s) => Source::Special(s),
        }
    }

    #[inline(never)]
    fn scalar(self, wave: &Wave) -> (u32, u32) {
        match self {
            Source::Scalar(s) => (wave.sgpr(s), wave.sgpr(s.saturating_add(1).min(127))),
            Source::Const(lo, hi) => (lo, hi),
            Source::Special(s) => {
                let v = wave.special64(s);
                (v as u32, (v >> 32) as u32)
            }
            Source::Row(_) | Source::Acc(_) => (0, 0),
        }
    }
}

/// Bits of an inline float constant in the operand's own type. 0.15915494 stands for 1/(2 pi), rounded per type.
fn float_constant(f: f64, kind: Kind) -> (u32, u32) {
    let inverse_tau = (f - 0.159_154_943).abs() < 1e-6;
    match kind {
        Kind::F64 | Kind::B64 | Kind::I64 => {
            let bits = if inverse_tau {
                0x3fc4_5f30_6dc9_c882
            } else {
                f.to_bits()
            };
            (bits as u32, (bits >> 32) as u32)
        }
        Kind::F16 | Kind::B16 | Kind::PkF16 | Kind::Pk16 => {
            let bits = if inverse_tau {
                0x3118
            } else {
                half::f16::from_f64(f).to_bits()
            };
            (u32::from(bits), 0)
        }
        // A packed f32 constant is broadcast to both halves.
        Kind::PkF32 | Kind::Pk32 => {
            let bits = (f as f32).to_bits();
            (bits, bits)
        }
        _ => {
            let bits = if inverse_tau {
                0x3e22_f983
            } else {
                (f as f32).to_bits()
            };
            (bits, 0)
        }
    }
}

/// Whether denormal inputs of this kind are to be flushed.
#[inline(always)]
pub(super) fn flush_in(kind: Kind, mode: Mode) -> bool {
    match kind {
        Kind::F32 | Kind::PkF32 | Kind::Mix => mode.denorm_f32 & 1 == 0,
        Kind::F16 | Kind::PkF16 | Kind::F64 => mode.denorm_f16_f64 & 1 == 0,
        _ => false,
    }
}

impl ValuInst {
    /// Rows of source `n`: the low and, for 64-bit kinds, the high dwords.
    #[inline(always)]
    pub(super) fn rows<'a, T: Lane>(
        &self,
        n: usize,
        wave: &'a Wave,
        lo: &'a mut Buffer,
        hi: &'a mut Buffer,
    ) -> (&'a Row, &'a Row) {
        if T::KIND.dwords() == 0 {
            return (&ZERO, &ZERO);
        }
        if self.cooked & 1 << n != 0 || flush_in(T::KIND, wave.mode) {
            let (l, h) = self.cooked_rows(n, T::KIND, wave);
            return (lo.write(l), hi.write(h));
        }
        match self.src[n] {
            Source::Row(r) if T::KIND.dwords() == 1 => (register(&wave.v, r), &ZERO),
            Source::Row(r) => (register(&wave.v, r), register(&wave.v, r + 1)),
            Source::Acc(r) => (register(&wave.a, r), register(&wave.a, r + 1)),
            other => {
                let (l, h) = other.scalar(wave);
                let l = lo.write([l; LANES]);
                if T::KIND.dwords() == 1 {
                    (l, &ZERO)
                } else {
                    (l, hi.write([h; LANES]))
                }
            }
        }
    }

    /// A source with modifiers, lane movement, part selection or flushing.
    #[cold]
    #[inline(never)]
    fn cooked_rows(&self, n: usize, kind: Kind, wave: &Wave) -> (Row, Row) {
        let (mut lo, mut hi) = self.raw_rows(n, kind, wave);
        if let Some(extra) = self.extra.as_deref() {
            if n == 0
                && let Some(dpp) = &extra.dpp
            {
                lo = dpp.fetch(&lo, wave.exec);
            }
            if let Some(sdwa) = &extra.sdwa {
                let sext = extra.sext & 1 << n != 0;
                sdwa.src
                    .get(n)
                    .unwrap_or(&Select::Dword)
                    .read(&mut lo, sext);
            }
            self.select_halves(n, kind, extra, &mut lo, &mut hi);
        }
        self.sign_modifiers(n, kind, &mut lo, &mut hi);
        if flush_in(kind, wave.mode) {
            float::flush_rows(kind, &mut lo, &mut hi);
        }
        (lo, hi)
    }

    fn raw_rows(&self, n: usize, kind: Kind, wave: &Wave) -> (Row, Row) {
        let two = kind.dwords() == 2;
        match self.src[n] {
            Source::Row(r) => (
                *register(&wave.v, r),
                if two { *register(&wave.v, r + 1) } else { ZERO },
            ),
            Source::Acc(r) => (
                *register(&wave.a, r),
                if two { *register(&wave.a, r + 1) } else { ZERO },
            ),
            other => {
                let (l, h) = other.scalar(wave);
                ([l; LANES], [h; LANES])
            }
        }
    }

    /// `op_sel` and `op_sel_hi`.
    fn select_halves(&self, n: usize, kind: Kind, extra: &Extra, lo: &mut Row, hi: &mut Row) {
        let first = extra.op_sel >> n & 1 != 0;
        let second = extra.op_sel_hi >> n & 1 != 0;
        match kind {
            Kind::B16 | Kind::F16 if first => {
                for x in lo.iter_mut() {
                    *x >>= 16;
                }
            }
            Kind::Pk16 | Kind::PkF16 => {
                for x in lo.iter_mut() {
                    let halves = [*x & 0xffff, *x >> 16];
                    *x = halves[usize::from(first)] | halves[usize::from(second)] << 16;
                }
            }
            Kind::PkF32 | Kind::Pk32 => {
                // Both selectors name a dword of the pair; v_pk_mov_b32 takes only `op_sel` (its decode says so).
                for l in 0..LANES {
                    let pair = [lo[l], hi[l]];
                    lo[l] = pair[usize::from(first)];
                    hi[l] = pair[usize::from(second)];
                }
            }
            Kind::Mix if second => {
                for x in lo.iter_mut() {
                    let h = if first { *x >> 16 } else { *x };
                    *x = float::half_to_single(h as u16).to_bits();
                }
            }
            _ => {}
        }
    }

    fn sign_modifiers(&self, n: usize, kind: Kind, lo: &mut Row, hi: &mut Row) {
        let abs = self.abs >> n & 1 != 0;
        let neg = self.neg >> n & 1 != 0;
        let (neg_lo, neg_hi) = self.extra.as_deref().map_or((false, false), |e| {
            (e.neg_lo >> n & 1 != 0, e.neg_hi >> n & 1 != 0)
        });
        let change = |row: &mut Row, abs: u32, neg: u32| {
            for x in row.iter_mut() {
                *x = (*x & !abs) ^ neg;
            }
        };
        let bit = |on: bool, b: u32| if on { b } else { 0 };
        match kind {
            Kind::B16 | Kind::F16 => change(lo, bit(abs, 0x8000), bit(neg, 0x8000)),
            Kind::F64 | Kind::B64 | Kind::I64 => {
                change(hi, bit(abs, 0x8000_0000), bit(neg, 0x8000_0000));
            }
            Kind::Pk16 | Kind::PkF16 => {
                change(lo, 0, bit(neg_lo, 0x8000) | bit(neg_hi, 0x8000_0000));
            }
            Kind::PkF32 | Kind::Pk32 => {
                change(lo, 0, bit(neg_lo, 0x8000_0000));
                change(hi, 0, bit(neg_hi, 0x8000_0000));
            }
            _ => change(lo, bit(abs, 0x8000_0000), bit(neg, 0x8000_0000)),
        }
    }

    /// Lanes whose result is stored: EXEC, less those that DPP disables.
    #[inline(always)]
    pub(super) fn lanes(&self, wave: &Wave) -> u64 {
        match self.extra.as_deref().and_then(|e| e.dpp.as_ref()) {
            None => wave.exec,
            Some(dpp) => Dpp::written(dpp, wave.exec),
        }
    }

    /// The mask source: carry-in, select mask or VCC.
    #[inline(always)]
    pub(super) fn mask_in(&self, wave: &Wave) -> u64 {
        match self.mask {
            Source::Scalar(s) if s < 127 => wave.sgpr64(s),
            other => {
                let (lo, hi) = other.scalar(wave);
                u64::from(lo) | u64::from(hi) << 32
            }
        }
    }
}

/// A register's row; registers that the kernel did not allocate read as zero, since a bad code object must not end
/// the process ([`ValuInst::vgprs`] lets the loader refuse it first).
#[inline(always)]
pub(super) fn register(file: &[Row], r: u16) -> &Row {
    file.get(usize::from(r)).unwrap_or(&ZERO)
}
