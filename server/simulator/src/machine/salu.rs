//! Scalar ALU instructions: one function per operation, chosen once at decode.

use super::wave::Wave;
use crate::isa::{Instruction, Operand, Special};

/// Where a scalar source comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Register(u8),
    /// The constant as 32 and as 64 bits.
    Constant(u32, u64),
    Special(Special),
}

impl Source {
    pub(crate) fn new(operand: &Operand) -> Result<Self, String> {
        Ok(match *operand {
            Operand::Sgpr { first, .. } => Self::Register(first),
            Operand::Int(i) => Self::Constant(i as u32, i64::from(i) as u64),
            // Scalar 64-bit operations take a literal zero-extended.
            Operand::Literal(l) => Self::Constant(l, u64::from(l)),
            Operand::Float(f) if (f - 0.159_154_94).abs() < 1e-6 => {
                Self::Constant(0x3e22_f983, 0x3fc4_5f30_6dc9_c882)
            }
            Operand::Float(f) => Self::Constant((f as f32).to_bits(), f.to_bits()),
            Operand::Special(s) => Self::Special(s),
            Operand::Vgpr { .. } | Operand::Agpr { .. } => {
                return Err("a scalar instruction cannot read a vector register".to_owned());
            }
        })
    }
    #[inline(always)]
    pub(crate) fn get(self, wave: &Wave) -> u32 {
        match self {
            Self::Register(r) => wave.sgpr(r),
            Self::Constant(c, _) => c,
            Self::Special(s) => wave.special(s),
        }
    }
    #[inline(always)]
    pub(crate) fn get64(self, wave: &Wave) -> u64 {
        match self {
            Self::Register(r) => wave.sgpr64(r.min(126)),
            Self::Constant(_, c) => c,
            Self::Special(s) => wave.special64(s),
        }
    }
}

/// A decoded scalar ALU instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salu {
    exec: fn(&Salu, &mut Wave),
    dst: u8,
    a: Source,
    b: Source,
}

impl Salu {
    #[inline(always)]
    pub(crate) fn execute(&self, wave: &mut Wave) {
        (self.exec)(self, wave);
    }
}

/// Decode a scalar ALU instruction; `None` if the mnemonic is not one.
pub(crate) fn decode(inst: &Instruction) -> Option<Result<Salu, String>> {
    let name = inst.mnemonic.as_str();
    let (exec, shape) = lookup(name)?;
    Some(build(inst, exec, shape))
}

/// Which operands an operation has.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Destination and two sources.
    Dab,
    /// Destination and one source.
    Da,
    /// Two sources, result in SCC.
    Ab,
    /// Destination that is also the first source, and a sign-extended 16-bit immediate.
    Dk,
    /// A source and a sign-extended 16-bit immediate, result in SCC.
    Ak,
    /// As `Ak`, zero-extended.
    Aku,
}

fn build(inst: &Instruction, exec: fn(&Salu, &mut Wave), shape: Shape) -> Result<Salu, String> {
    let source = |n: usize| {
        inst.operands
            .get(n)
            .ok_or_else(|| "an operand is missing".to_owned())
            .and_then(Source::new)
    };
    let dst = || match inst.operands.first() {
        Some(Operand::Sgpr { first, .. }) => Ok(*first),
        other => Err(format!("{other:?} cannot be the destination")),
    };
    let nothing = Source::Constant(0, 0);
    let k = i32::from(inst.simm16());
    let immediate = Source::Constant(k as u32, i64::from(k) as u64);
    let (dst, a, b) = match shape {
        Shape::Dab => (dst()?, source(1)?, source(2)?),
        Shape::Da => (dst()?, source(1)?, nothing),
        Shape::Ab => (0, source(0)?, source(1)?),
        Shape::Dk => (dst()?, source(0)?, immediate),
        Shape::Ak => (0, source(0)?, immediate),
        Shape::Aku => {
            let k = k as u32 & 0xffff;
            (0, source(0)?, Source::Constant(k, u64::from(k)))
        }
    };
    Ok(Salu { exec, dst, a, b })
}

fn bfe_u64(value: u64, control: u32) -> u64 {
    let offset = control & 63;
    let width = (control >> 16) & 127;
    let value = value >> offset;
    if width >= 64 {
        value
    } else {
        value & ((1u64 << width) - 1)
    }
}

fn bfe_i64(value: u64, control: u32) -> u64 {
    let offset = control & 63;
    let width = ((control >> 16) & 127).min(64 - offset);
    if width == 0 {
        return 0;
    }
    (((value << (64 - width - offset)) as i64) >> (64 - width)) as u64
}

fn bfe_u32(value: u32, control: u32) -> u32 {
    let offset = control & 31;
    let width = (control >> 16) & 127;
    let value = value >> offset;
    if width >= 32 {
        value
    } else {
        value & ((1u32 << width) - 1)
    }
}

fn bfe_i32(value: u32, control: u32) -> u32 {
    let offset = control & 31;
    let width = ((control >> 16) & 127).min(32 - offset);
    if width == 0 {
        return 0;
    }
    (((value << (32 - width - offset)) as i32) >> (32 - width)) as u32
}

/// Spread each bit to two.
fn bit_replicate(value: u32) -> u64 {
    let mut spread = u64::from(value);
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    spread = (spread | spread << 2) & 0x3333_3333_3333_3333;
    spread = (spread | spread << 1) & 0x5555_5555_5555_5555;
    spread | spread << 1
}

/// Each quad with a set bit becomes all ones.
fn whole_quads(value: u64) -> u64 {
    let any = value | value >> 1 | value >> 2 | value >> 3;
    (any & 0x1111_1111_1111_1111) * 15
}

/// One bit per quad.
fn quad_mask(value: u64) -> u64 {
    (0..16).fold(0, |mask, quad| {
        mask | u64::from(value >> (4 * quad) & 15 != 0) << quad
    })
}

/// Index of the first bit that differs from the sign, from the top; -1 if none does.
fn sign_run(value: u64, bits: u32) -> u32 {
    let top = value << (64 - bits);
    let run = if (top as i64) < 0 {
        top.leading_ones()
    } else {
        top.leading_zeros()
    };
    if run >= bits { u32::MAX } else { run }
}

/// An operation and its operands.
type Entry = (fn(&Salu, &mut Wave), Shape);

fn lookup(name: &str) -> Option<Entry> {
    use Shape::*;
    /// A 32-bit result without SCC.
    macro_rules! op32 {
        ($shape:ident, |$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get(w);
                    let $b = i.b.get(w);
                    let _ = $b;
                    w.set_sgpr(i.dst, $value);
                },
                $shape,
            )
        };
    }
    macro_rules! op64 {
        ($shape:ident, |$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get64(w);
                    let $b = i.b.get64(w);
                    let _ = $b;
                    w.set_sgpr64(i.dst, $value);
                },
                $shape,
            )
        };
    }
    /// SCC is set when the result is not zero.
    macro_rules! logic32 {
        ($shape:ident, |$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get(w);
                    let $b = i.b.get(w);
                    let _ = $b;
                    let value: u32 = $value;
                    w.set_sgpr(i.dst, value);
                    w.scc = value != 0;
                },
                $shape,
            )
        };
    }
    macro_rules! logic64 {
        ($shape:ident, |$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get64(w);
                    let $b = i.b.get64(w);
                    let _ = $b;
                    let value: u64 = $value;
                    w.set_sgpr64(i.dst, value);
                    w.scc = value != 0;
                },
                $shape,
            )
        };
    }
    /// Shift amounts are 32 bits wide also where the value has 64.
    macro_rules! shift64 {
        (|$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get64(w);
                    let $b = i.b.get(w);
                    let value: u64 = $value;
                    w.set_sgpr64(i.dst, value);
                    w.scc = value != 0;
                },
                Dab,
            )
        };
    }
    /// Result and SCC both given.
    macro_rules! both32 {
        ($shape:ident, |$a:ident, $b:ident, $w:ident| $value:expr) => {
            (
                |i: &Salu, $w: &mut Wave| {
                    let $a = i.a.get($w);
                    let $b = i.b.get($w);
                    let (value, scc): (u32, bool) = $value;
                    $w.set_sgpr(i.dst, value);
                    $w.scc = scc;
                },
                $shape,
            )
        };
    }
    macro_rules! compare {
        ($shape:ident, |$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get(w);
                    let $b = i.b.get(w);
                    w.scc = $value;
                },
                $shape,
            )
        };
    }
    macro_rules! compare64 {
        (|$a:ident, $b:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get64(w);
                    let $b = i.b.get64(w);
                    w.scc = $value;
                },
                Ab,
            )
        };
    }
    macro_rules! saveexec {
        (|$s:ident, $e:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $s = i.a.get64(w);
                    let $e = w.exec;
                    w.set_sgpr64(i.dst, $e);
                    w.exec = $value;
                    w.scc = w.exec != 0;
                },
                Da,
            )
        };
    }
    macro_rules! wrexec {
        (|$s:ident, $e:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $s = i.a.get64(w);
                    let $e = w.exec;
                    w.exec = $value;
                    w.scc = w.exec != 0;
                    let exec = w.exec;
                    w.set_sgpr64(i.dst, exec);
                },
                Da,
            )
        };
    }
    /// A narrower operand or result than the name's 64 bits.
    macro_rules! count64 {
        (|$a:ident| $value:expr) => {
            (
                |i: &Salu, w: &mut Wave| {
                    let $a = i.a.get64(w);
                    w.set_sgpr(i.dst, $value);
                },
                Da,
            )
        };
    }
    let entry: Entry = match name {
        "s_mov_b32" => op32!(Da, |a, _b| a),
        "s_mov_b64" => op64!(Da, |a, _b| a),
        "s_movk_i32" => op32!(Dk, |_a, b| b),
        "s_add_u32" => both32!(Dab, |a, b, w| a.overflowing_add(b)),
        "s_sub_u32" => both32!(Dab, |a, b, w| a.overflowing_sub(b)),
        "s_add_i32" => both32!(Dab, |a, b, w| {
            let (v, o) = (a as i32).overflowing_add(b as i32);
            (v as u32, o)
        }),
        "s_sub_i32" => both32!(Dab, |a, b, w| {
            let (v, o) = (a as i32).overflowing_sub(b as i32);
            (v as u32, o)
        }),
        "s_addk_i32" => both32!(Dk, |a, b, w| {
            let (v, o) = (a as i32).overflowing_add(b as i32);
            (v as u32, o)
        }),
        "s_mulk_i32" => op32!(Dk, |a, b| a.wrapping_mul(b)),
        "s_addc_u32" => both32!(Dab, |a, b, w| {
            let sum = u64::from(a) + u64::from(b) + u64::from(w.scc);
            (sum as u32, sum >> 32 != 0)
        }),
        "s_subb_u32" => both32!(Dab, |a, b, w| {
            let taken = u64::from(b) + u64::from(w.scc);
            (
                u64::from(a).wrapping_sub(taken) as u32,
                taken > u64::from(a),
            )
        }),
        "s_min_i32" => both32!(Dab, |a, b, w| {
            let first = (a as i32) < (b as i32);
            (if first { a } else { b }, first)
        }),
        "s_min_u32" => both32!(Dab, |a, b, w| (a.min(b), a < b)),
        "s_max_i32" => both32!(Dab, |a, b, w| {
            let first = (a as i32) > (b as i32);
            (if first { a } else { b }, first)
        }),
        "s_max_u32" => both32!(Dab, |a, b, w| (a.max(b), a > b)),
        "s_cselect_b32" => (
            |i, w| {
                let value = if w.scc { i.a.get(w) } else { i.b.get(w) };
                w.set_sgpr(i.dst, value);
            },
            Dab,
        ),
        "s_cselect_b64" => (
            |i, w| {
                let value = if w.scc { i.a.get64(w) } else { i.b.get64(w) };
                w.set_sgpr64(i.dst, value);
            },
            Dab,
        ),
        "s_cmov_b32" => (
            |i, w| {
                if w.scc {
                    let value = i.a.get(w);
                    w.set_sgpr(i.dst, value);
                }
            },
            Da,
        ),
        "s_cmov_b64" => (
            |i, w| {
                if w.scc {
                    let value = i.a.get64(w);
                    w.set_sgpr64(i.dst, value);
                }
            },
            Da,
        ),
        "s_cmovk_i32" => (
            |i, w| {
                if w.scc {
                    let value = i.b.get(w);
                    w.set_sgpr(i.dst, value);
                }
            },
            Dk,
        ),
        "s_and_b32" => logic32!(Dab, |a, b| a & b),
        "s_and_b64" => logic64!(Dab, |a, b| a & b),
        "s_or_b32" => logic32!(Dab, |a, b| a | b),
        "s_or_b64" => logic64!(Dab, |a, b| a | b),
        "s_xor_b32" => logic32!(Dab, |a, b| a ^ b),
        "s_xor_b64" => logic64!(Dab, |a, b| a ^ b),
        "s_andn2_b32" => logic32!(Dab, |a, b| a & !b),
        "s_andn2_b64" => logic64!(Dab, |a, b| a & !b),
        "s_orn2_b32" => logic32!(Dab, |a, b| a | !b),
        "s_orn2_b64" => logic64!(Dab, |a, b| a | !b),
        "s_nand_b32" => logic32!(Dab, |a, b| !(a & b)),
        "s_nand_b64" => logic64!(Dab, |a, b| !(a & b)),
        "s_nor_b32" => logic32!(Dab, |a, b| !(a | b)),
        "s_nor_b64" => logic64!(Dab, |a, b| !(a | b)),
        "s_xnor_b32" => logic32!(Dab, |a, b| !(a ^ b)),
        "s_xnor_b64" => logic64!(Dab, |a, b| !(a ^ b)),
        "s_not_b32" => logic32!(Da, |a, _b| !a),
        "s_not_b64" => logic64!(Da, |a, _b| !a),
        "s_wqm_b32" => logic32!(Da, |a, _b| whole_quads(u64::from(a)) as u32),
        "s_wqm_b64" => logic64!(Da, |a, _b| whole_quads(a)),
        "s_quadmask_b32" => logic32!(Da, |a, _b| quad_mask(u64::from(a)) as u32),
        "s_quadmask_b64" => logic64!(Da, |a, _b| quad_mask(a)),
        "s_lshl_b32" => logic32!(Dab, |a, b| a << (b & 31)),
        "s_lshr_b32" => logic32!(Dab, |a, b| a >> (b & 31)),
        "s_ashr_i32" => logic32!(Dab, |a, b| ((a as i32) >> (b & 31)) as u32),
        "s_lshl_b64" => shift64!(|a, b| a << (b & 63)),
        "s_lshr_b64" => shift64!(|a, b| a >> (b & 63)),
        "s_ashr_i64" => shift64!(|a, b| ((a as i64) >> (b & 63)) as u64),
        "s_bfm_b32" => op32!(Dab, |a, b| ((1u32 << (a & 31)) - 1) << (b & 31)),
        "s_bfm_b64" => (
            |i, w| {
                let (a, b) = (i.a.get(w), i.b.get(w));
                w.set_sgpr64(i.dst, ((1u64 << (a & 63)) - 1) << (b & 63));
            },
            Dab,
        ),
        "s_bfe_u32" => logic32!(Dab, |a, b| bfe_u32(a, b)),
        "s_bfe_i32" => logic32!(Dab, |a, b| bfe_i32(a, b)),
        "s_bfe_u64" => shift64!(|a, b| bfe_u64(a, b)),
        "s_bfe_i64" => shift64!(|a, b| bfe_i64(a, b)),
        "s_mul_i32" => op32!(Dab, |a, b| a.wrapping_mul(b)),
        "s_mul_hi_u32" => op32!(Dab, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        "s_mul_hi_i32" => op32!(Dab, |a, b| {
            ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
        }),
        "s_absdiff_i32" => logic32!(Dab, |a, b| (a as i32).wrapping_sub(b as i32).unsigned_abs()),
        "s_lshl1_add_u32" => both32!(Dab, |a, b, w| lshl_add(a, b, 1)),
        "s_lshl2_add_u32" => both32!(Dab, |a, b, w| lshl_add(a, b, 2)),
        "s_lshl3_add_u32" => both32!(Dab, |a, b, w| lshl_add(a, b, 3)),
        "s_lshl4_add_u32" => both32!(Dab, |a, b, w| lshl_add(a, b, 4)),
        "s_pack_ll_b32_b16" => op32!(Dab, |a, b| a & 0xffff | b << 16),
        "s_pack_lh_b32_b16" => op32!(Dab, |a, b| a & 0xffff | b & 0xffff_0000),
        "s_pack_hh_b32_b16" => op32!(Dab, |a, b| a >> 16 | b & 0xffff_0000),
        "s_brev_b32" => op32!(Da, |a, _b| a.reverse_bits()),
        "s_brev_b64" => op64!(Da, |a, _b| a.reverse_bits()),
        "s_bcnt0_i32_b32" => logic32!(Da, |a, _b| a.count_zeros()),
        "s_bcnt1_i32_b32" => logic32!(Da, |a, _b| a.count_ones()),
        "s_bcnt0_i32_b64" => bcnt64(false),
        "s_bcnt1_i32_b64" => bcnt64(true),
        "s_ff0_i32_b32" => op32!(Da, |a, _b| first_one(u64::from(!a))),
        "s_ff1_i32_b32" => op32!(Da, |a, _b| first_one(u64::from(a))),
        "s_ff0_i32_b64" => count64!(|a| first_one(!a)),
        "s_ff1_i32_b64" => count64!(|a| first_one(a)),
        "s_flbit_i32_b32" => op32!(Da, |a, _b| if a == 0 {
            u32::MAX
        } else {
            a.leading_zeros()
        }),
        "s_flbit_i32_b64" => count64!(|a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "s_flbit_i32" => op32!(Da, |a, _b| sign_run(u64::from(a), 32)),
        "s_flbit_i32_i64" => count64!(|a| sign_run(a, 64)),
        "s_sext_i32_i8" => op32!(Da, |a, _b| a as i8 as u32),
        "s_sext_i32_i16" => op32!(Da, |a, _b| a as i16 as u32),
        "s_bitset0_b32" => (
            |i, w| {
                let bit = 1 << (i.a.get(w) & 31);
                let value = w.sgpr(i.dst) & !bit;
                w.set_sgpr(i.dst, value);
            },
            Da,
        ),
        "s_bitset1_b32" => (
            |i, w| {
                let bit = 1 << (i.a.get(w) & 31);
                let value = w.sgpr(i.dst) | bit;
                w.set_sgpr(i.dst, value);
            },
            Da,
        ),
        "s_bitset0_b64" => (
            |i, w| {
                let bit = 1u64 << (i.a.get(w) & 63);
                let value = w.sgpr64(i.dst) & !bit;
                w.set_sgpr64(i.dst, value);
            },
            Da,
        ),
        "s_bitset1_b64" => (
            |i, w| {
                let bit = 1u64 << (i.a.get(w) & 63);
                let value = w.sgpr64(i.dst) | bit;
                w.set_sgpr64(i.dst, value);
            },
            Da,
        ),
        "s_abs_i32" => logic32!(Da, |a, _b| (a as i32).unsigned_abs()),
        "s_bitreplicate_b64_b32" => (
            |i, w| {
                let value = bit_replicate(i.a.get(w));
                w.set_sgpr64(i.dst, value);
            },
            Da,
        ),
        "s_and_saveexec_b64" => saveexec!(|s, e| s & e),
        "s_or_saveexec_b64" => saveexec!(|s, e| s | e),
        "s_xor_saveexec_b64" => saveexec!(|s, e| s ^ e),
        "s_andn2_saveexec_b64" => saveexec!(|s, e| s & !e),
        "s_orn2_saveexec_b64" => saveexec!(|s, e| s | !e),
        "s_nand_saveexec_b64" => saveexec!(|s, e| !(s & e)),
        "s_nor_saveexec_b64" => saveexec!(|s, e| !(s | e)),
        "s_xnor_saveexec_b64" => saveexec!(|s, e| !(s ^ e)),
        "s_andn1_saveexec_b64" => saveexec!(|s, e| !s & e),
        "s_orn1_saveexec_b64" => saveexec!(|s, e| !s | e),
        "s_andn1_wrexec_b64" => wrexec!(|s, e| !s & e),
        "s_andn2_wrexec_b64" => wrexec!(|s, e| s & !e),
        "s_cmp_eq_i32" | "s_cmp_eq_u32" => compare!(Ab, |a, b| a == b),
        "s_cmp_lg_i32" | "s_cmp_lg_u32" => compare!(Ab, |a, b| a != b),
        "s_cmp_gt_i32" => compare!(Ab, |a, b| (a as i32) > (b as i32)),
        "s_cmp_ge_i32" => compare!(Ab, |a, b| (a as i32) >= (b as i32)),
        "s_cmp_lt_i32" => compare!(Ab, |a, b| (a as i32) < (b as i32)),
        "s_cmp_le_i32" => compare!(Ab, |a, b| (a as i32) <= (b as i32)),
        "s_cmp_gt_u32" => compare!(Ab, |a, b| a > b),
        "s_cmp_ge_u32" => compare!(Ab, |a, b| a >= b),
        "s_cmp_lt_u32" => compare!(Ab, |a, b| a < b),
        "s_cmp_le_u32" => compare!(Ab, |a, b| a <= b),
        "s_cmp_eq_u64" => compare64!(|a, b| a == b),
        "s_cmp_lg_u64" => compare64!(|a, b| a != b),
        "s_cmpk_eq_i32" => compare!(Ak, |a, b| a == b),
        "s_cmpk_lg_i32" => compare!(Ak, |a, b| a != b),
        "s_cmpk_gt_i32" => compare!(Ak, |a, b| (a as i32) > (b as i32)),
        "s_cmpk_ge_i32" => compare!(Ak, |a, b| (a as i32) >= (b as i32)),
        "s_cmpk_lt_i32" => compare!(Ak, |a, b| (a as i32) < (b as i32)),
        "s_cmpk_le_i32" => compare!(Ak, |a, b| (a as i32) <= (b as i32)),
        "s_cmpk_eq_u32" => compare!(Aku, |a, b| a == b),
        "s_cmpk_lg_u32" => compare!(Aku, |a, b| a != b),
        "s_cmpk_gt_u32" => compare!(Aku, |a, b| a > b),
        "s_cmpk_ge_u32" => compare!(Aku, |a, b| a >= b),
        "s_cmpk_lt_u32" => compare!(Aku, |a, b| a < b),
        "s_cmpk_le_u32" => compare!(Aku, |a, b| a <= b),
        "s_bitcmp0_b32" => compare!(Ab, |a, b| a >> (b & 31) & 1 == 0),
        "s_bitcmp1_b32" => compare!(Ab, |a, b| a >> (b & 31) & 1 == 1),
        "s_bitcmp0_b64" => (
            |i, w| w.scc = i.a.get64(w) >> (i.b.get(w) & 63) & 1 == 0,
            Ab,
        ),
        "s_bitcmp1_b64" => (
            |i, w| w.scc = i.a.get64(w) >> (i.b.get(w) & 63) & 1 == 1,
            Ab,
        ),
        _ => return None,
    };
    Some(entry)
}

fn lshl_add(a: u32, b: u32, shift: u32) -> (u32, bool) {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

fn first_one(value: u64) -> u32 {
    if value == 0 {
        u32::MAX
    } else {
        value.trailing_zeros()
    }
}

fn bcnt64(ones: bool) -> Entry {
    fn count(i: &Salu, w: &mut Wave, flip: u64) {
        let n = (i.a.get64(w) ^ flip).count_ones();
        w.set_sgpr(i.dst, n);
        w.scc = n != 0;
    }
    if ones {
        (|i, w| count(i, w, 0), Shape::Da)
    } else {
        (|i, w| count(i, w, u64::MAX), Shape::Da)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::parse_line;
    use crate::machine::wave::tests::blank;

    /// Run one instruction on s0 = a.lo .. and give back s[4:5] and SCC.
    fn run(text: &str, a: u64, b: u64, scc: bool) -> (u64, bool) {
        let inst = parse_line(&format!("\t{text} // 000000000000: BF800000")).unwrap();
        let salu = decode(&inst).unwrap().unwrap();
        let mut wave = blank();
        wave.set_sgpr64(0, a);
        wave.set_sgpr64(2, b);
        wave.scc = scc;
        salu.execute(&mut wave);
        (wave.sgpr64(4), wave.scc)
    }

    #[test]
    fn arithmetic_and_carry() {
        assert_eq!(
            run("s_add_u32 s4, s0, s2", 0xffff_ffff, 2, false),
            (1, true)
        );
        assert_eq!(run("s_addc_u32 s4, s0, s2", 1, 2, true), (4, false));
        assert_eq!(
            run("s_subb_u32 s4, s0, s2", 1, 1, true),
            (0xffff_ffff, true)
        );
        assert_eq!(
            run("s_add_i32 s4, s0, 1", 0x7fff_ffff, 0, false),
            (0x8000_0000, true)
        );
        assert_eq!(
            run("s_min_i32 s4, s0, s2", 0xffff_ffff, 1, false).0,
            0xffff_ffff
        );
        assert_eq!(run("s_mul_hi_u32 s4, s0, s2", 1 << 31, 4, false).0, 2);
    }

    #[test]
    fn bit_fields_and_shifts() {
        assert_eq!(run("s_bfe_u32 s4, s0, 0x80004", 0xabcd, 0, false).0, 0xbc);
        assert_eq!(
            run("s_bfe_i32 s4, s0, 0x80004", 0xabcd, 0, false).0,
            0xffff_ffbc
        );
        assert_eq!(
            run("s_lshl_b64 s[4:5], s[0:1], s2", 1, 40, false).0,
            1 << 40
        );
        assert_eq!(
            run("s_ashr_i64 s[4:5], s[0:1], 4", 1 << 63, 0, false).0,
            0xf8 << 56
        );
        assert_eq!(run("s_ff1_i32_b64 s4, s[0:1]", 1 << 40, 0, false).0, 40);
        assert_eq!(run("s_flbit_i32_b32 s4, s0", 0, 0, false).0, 0xffff_ffff);
        assert_eq!(
            run("s_bitreplicate_b64_b32 s[4:5], s0", 0b101, 0, false).0,
            0b110011
        );
        assert_eq!(run("s_mov_b64 s[4:5], -1", 0, 0, false).0, u64::MAX);
        assert_eq!(run("s_mov_b64 s[4:5], 1.0", 0, 0, false).0, 1f64.to_bits());
        assert_eq!(
            run("s_mov_b64 s[4:5], 0xffffffff", 0, 0, false).0,
            0xffff_ffff
        );
        assert_eq!(
            run("s_bcnt1_i32_b64 s4, s[0:1]", u64::MAX, 0, false),
            (64, true)
        );
    }

    #[test]
    fn saveexec_also_when_source_is_destination() {
        let inst =
            parse_line("\ts_and_saveexec_b64 s[4:5], s[4:5] // 000000000000: BE80206A").unwrap();
        let salu = decode(&inst).unwrap().unwrap();
        let mut wave = blank();
        wave.set_sgpr64(4, 0xf0);
        salu.execute(&mut wave);
        assert_eq!(
            (wave.sgpr64(4), wave.exec, wave.scc),
            (u64::MAX, 0xf0, true)
        );
    }
}
