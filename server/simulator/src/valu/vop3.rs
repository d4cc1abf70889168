//! Operations that exist only in the three-source encoding.

use half::f16;

use super::float::{
    self, Float, add64, div_fixup16, div_fixup32, div_fixup64, div_fmas32, div_fmas64, div_scale32,
    div_scale64, fma16, fma32, fma64, mad16, mad32, max, max3, med3, min, min3, mul_legacy, mul64,
};
use super::lane::{Buffer, Kind, op, op_carry, op_float};
use super::result::write;
use super::source::{Source, register};
use super::vop2::{i24, u24};
use super::{Form, Spec, ValuInst};
use crate::machine::{LANES, Wave};

/// Sum of absolute differences of bytes; with `masked`, bytes that are 0 in `b` do not count.
#[inline(always)]
fn sad_bytes(a: u32, b: u32, masked: bool) -> u32 {
    let mut sum = 0;
    for i in 0..4 {
        let (x, y) = (a >> (8 * i) & 0xff, b >> (8 * i) & 0xff);
        if !masked || y != 0 {
            sum += x.abs_diff(y);
        }
    }
    sum
}

#[inline(always)]
fn lerp(a: u32, b: u32, c: u32) -> u32 {
    let mut r = 0;
    for i in [0, 8, 16, 24] {
        r |= ((a >> i & 0xff) + (b >> i & 0xff) + (c >> i & 1)) >> 1 << i;
    }
    r
}

/// Choose four bytes: 0-7 a byte of the pair, 8-11 the sign of bytes 1, 3, 5, 7, 12 zero, above 0xff.
#[inline(always)]
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let pair = u64::from(a) << 32 | u64::from(b);
    let mut r = 0;
    for i in [0, 8, 16, 24] {
        let s = selector >> i & 0xff;
        let byte = match s {
            0..=7 => (pair >> (8 * s)) as u32 & 0xff,
            8..=11 => (pair >> (16 * (s - 8) + 15) & 1) as u32 * 0xff,
            12 => 0,
            _ => 0xff,
        };
        r |= byte << i;
    }
    r
}

#[inline(always)]
fn extract(a: u32, offset: u32, width: u32) -> u32 {
    (a >> (offset & 31)) & ((1u32 << (width & 31)) - 1)
}

#[inline(always)]
fn extract_signed(a: i32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    if width == 0 {
        return 0;
    }
    // Bits above 31 repeat the sign.
    let shifted = a >> offset;
    (shifted << (32 - width)) >> (32 - width)
}

#[inline(always)]
fn med3_int<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.max(b).min(a.min(b).max(c))
}

/// f32 to f16 toward zero. Overflow gives the largest finite value.
#[inline(always)]
fn half_toward_zero(x: f32) -> u32 {
    let h = float::single_to_half(x);
    let back = float::half_to_single(h);
    let magnitude = u32::from(h & 0x7fff);
    if x.is_nan() || x.is_infinite() || back.abs() <= x.abs() {
        u32::from(h)
    } else {
        u32::from(h & 0x8000) | (magnitude - 1)
    }
}

fn normalized(x: f32, signed: bool) -> u32 {
    if x.is_nan() {
        0
    } else if signed {
        u32::from((x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16)
    } else {
        u32::from((x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16)
    }
}

/// Cube map helpers: the major axis decides.
#[derive(Clone, Copy, PartialEq)]
enum Axis {
    X,
    Y,
    Z,
}

fn major(x: f32, y: f32, z: f32) -> Axis {
    if z.abs() >= x.abs() && z.abs() >= y.abs() {
        Axis::Z
    } else if y.abs() >= x.abs() {
        Axis::Y
    } else {
        Axis::X
    }
}

fn cube_id(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        Axis::Z => 4.0 + f32::from(z < 0.0),
        Axis::Y => 2.0 + f32::from(y < 0.0),
        Axis::X => f32::from(x < 0.0),
    }
}

fn cube_s(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        Axis::Z => {
            if z < 0.0 {
                -x
            } else {
                x
            }
        }
        Axis::Y => x,
        Axis::X => {
            if x < 0.0 {
                z
            } else {
                -z
            }
        }
    }
}

fn cube_t(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        Axis::Y => {
            if y < 0.0 {
                -z
            } else {
                z
            }
        }
        Axis::Z | Axis::X => -y,
    }
}

fn cube_major(x: f32, y: f32, z: f32) -> f32 {
    2.0 * match major(x, y, z) {
        Axis::Z => z,
        Axis::Y => y,
        Axis::X => x,
    }
}

fn read_lane(inst: &ValuInst, wave: &mut Wave) {
    let (mut b0, mut b1, mut b2, mut b3) = (
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
    );
    let lane = inst.rows::<u32>(1, wave, &mut b0, &mut b1).0[0] as usize % LANES;
    let value = inst.rows::<u32>(0, wave, &mut b2, &mut b3).0[lane];
    if let Some(s) = inst.sdst {
        wave.set_sgpr(s, value);
    }
}

/// Writes one lane whatever EXEC says.
fn write_lane(inst: &ValuInst, wave: &mut Wave) {
    let (mut b0, mut b1, mut b2, mut b3) = (
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
    );
    let value = *inst.rows::<u32>(0, wave, &mut b0, &mut b1).0;
    let lane = inst.rows::<u32>(1, wave, &mut b2, &mut b3).0[0] as usize % LANES;
    write(&mut wave.v, inst.dst, &value, 1 << lane);
}

/// Counts mask bits below each lane, in the low or the high 32 lanes.
fn count_below<const HIGH: bool>(inst: &ValuInst, wave: &mut Wave) {
    let (mut b0, mut b1, mut b2, mut b3) = (
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
    );
    let mask = inst.rows::<u32>(0, wave, &mut b0, &mut b1).0;
    let base = inst.rows::<u32>(1, wave, &mut b2, &mut b3).0;
    let out = std::array::from_fn(|l| {
        let below = (1u64 << l) - 1;
        let below = (if HIGH { below >> 32 } else { below }) as u32;
        base[l].wrapping_add((mask[l] & below).count_ones())
    });
    inst.store::<u32>(wave, out, [0; LANES]);
}

/// Masked sums of differences at four byte offsets. The third source and the destination are four dwords.
fn quad_sad_u32(inst: &ValuInst, wave: &mut Wave) {
    let (mut b0, mut b1, mut b2, mut b3) = (
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
        Buffer::uninit(),
    );
    let (lo, hi) = inst.rows::<u64>(0, wave, &mut b0, &mut b1);
    let (reference, _) = inst.rows::<u32>(1, wave, &mut b2, &mut b3);
    let out: [[u32; LANES]; 4] = std::array::from_fn(|i| {
        let sums = match inst.src[2] {
            Source::Row(r) => *register(&wave.v, r + i as u16),
            Source::Const(c, _) => [c; LANES],
            _ => [0; LANES],
        };
        std::array::from_fn(|l| {
            let window = ((u64::from(hi[l]) << 32 | u64::from(lo[l])) >> (8 * i)) as u32;
            sums[l].wrapping_add(sad_bytes(window, reference[l], true))
        })
    });
    let mask = wave.exec;
    for (i, row) in out.iter().enumerate() {
        write(&mut wave.v, inst.dst + i as u16, row, mask);
    }
}

#[inline(always)]
fn quad_sad_u16(a: u64, b: u32, c: u64, masked: bool) -> u64 {
    let mut r = 0;
    for i in 0..4 {
        let sum = (c >> (16 * i)) as u16;
        let sum = sum.wrapping_add(sad_bytes((a >> (8 * i)) as u32, b, masked) as u16);
        r |= u64::from(sum) << (16 * i);
    }
    r
}

fn integers(base: &str) -> Option<Spec> {
    Some(match base {
        "mul_lo_u32" | "mul_lo_i32" => op!(|a: u32, b: u32| -> u32 { a.wrapping_mul(b) }),
        "mul_hi_u32" => {
            op!(|a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 })
        }
        "mul_hi_i32" => {
            op!(|a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 })
        }
        "mad_u64_u32" => op_carry!(|a: u32, b: u32, c: u64, _i| -> u64 {
            (u64::from(a) * u64::from(b)).overflowing_add(c)
        })
        .form(Form::CarryOut),
        "mad_i64_i32" => op_carry!(|a: i32, b: i32, c: i64, _i| -> i64 {
            (i64::from(a) * i64::from(b)).overflowing_add(c)
        })
        .form(Form::CarryOut),
        "mad_u32_u24" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { u24(a).wrapping_mul(u24(b)).wrapping_add(c) })
                .clamped(op!(|a: u32, b: u32, c: u32| -> u32 {
                    (u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)).min(u64::from(u32::MAX))
                        as u32
                }))
        }
        "mad_i32_i24" => {
            op!(|a: u32, b: u32, c: i32| -> i32 { i24(a).wrapping_mul(i24(b)).wrapping_add(c) })
                .clamped(op!(|a: u32, b: u32, c: i32| -> i32 {
                    (i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c))
                        .clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
                }))
        }
        "mad_u32_u16" => {
            op!(|a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) })
        }
        "mad_i32_i16" => {
            op!(|a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) })
        }
        "mad_u16" => {
            op!(|a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) }).keep()
        }
        "mad_i16" => {
            op!(|a: i16, b: i16, c: i16| -> i16 { a.wrapping_mul(b).wrapping_add(c) }).keep()
        }
        "mad_legacy_u16" | "mad_legacy_i16" => {
            op!(|a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) })
        }
        "add_i32" => op!(|a: i32, b: i32| -> i32 { a.wrapping_add(b) })
            .clamped(op!(|a: i32, b: i32| -> i32 { a.saturating_add(b) })),
        "sub_i32" => op!(|a: i32, b: i32| -> i32 { a.wrapping_sub(b) })
            .clamped(op!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) })),
        "add_i16" => op!(|a: i16, b: i16| -> i16 { a.wrapping_add(b) })
            .clamped(op!(|a: i16, b: i16| -> i16 { a.saturating_add(b) }))
            .keep(),
        "sub_i16" => op!(|a: i16, b: i16| -> i16 { a.wrapping_sub(b) })
            .clamped(op!(|a: i16, b: i16| -> i16 { a.saturating_sub(b) }))
            .keep(),
        "lshl_add_u32" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { (a << (b & 31)).wrapping_add(c) })
        }
        "lshl_add_u64" => {
            op!(|a: u64, b: u32, c: u64| -> u64 { (a << (b & 7).min(4)).wrapping_add(c) })
        }
        "add_lshl_u32" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b) << (c & 31) })
        }
        "lshl_or_b32" => op!(|a: u32, b: u32, c: u32| -> u32 { a << (b & 31) | c }),
        "add3_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b).wrapping_add(c) }),
        "or3_b32" => op!(|a: u32, b: u32, c: u32| -> u32 { a | b | c }),
        "and_or_b32" => op!(|a: u32, b: u32, c: u32| -> u32 { a & b | c }),
        "xad_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { (a ^ b).wrapping_add(c) }),
        "bfe_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { extract(a, b, c) }),
        "bfe_i32" => op!(|a: i32, b: u32, c: u32| -> i32 { extract_signed(a, b, c) }),
        "bfi_b32" => op!(|a: u32, b: u32, c: u32| -> u32 { a & b | !a & c }),
        "bfm_b32" => op!(|a: u32, b: u32| -> u32 { ((1 << (a & 31)) - 1) << (b & 31) }),
        "alignbit_b32" => op!(|a: u32, b: u32, c: u32| -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
        }),
        "alignbyte_b32" => op!(|a: u32, b: u32, c: u32| -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
        }),
        "perm_b32" => op!(|a: u32, b: u32, c: u32| -> u32 { permute(a, b, c) }),
        "lerp_u8" => op!(|a: u32, b: u32, c: u32| -> u32 { lerp(a, b, c) }),
        "sad_u8" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { sad_bytes(a, b, false).wrapping_add(c) })
        }
        "sad_hi_u8" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { (sad_bytes(a, b, false) << 16).wrapping_add(c) })
        }
        "msad_u8" => {
            op!(|a: u32, b: u32, c: u32| -> u32 { sad_bytes(a, b, true).wrapping_add(c) })
        }
        "sad_u16" => op!(|a: u32, b: u32, c: u32| -> u32 {
            let low = (a & 0xffff).abs_diff(b & 0xffff);
            (low + (a >> 16).abs_diff(b >> 16)).wrapping_add(c)
        }),
        "sad_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).wrapping_add(c) }),
        "qsad_pk_u16_u8" => {
            op!(|a: u64, b: u32, c: u64| -> u64 { quad_sad_u16(a, b, c, false) })
        }
        "mqsad_pk_u16_u8" => {
            op!(|a: u64, b: u32, c: u64| -> u64 { quad_sad_u16(a, b, c, true) })
        }
        "mqsad_u32_u8" => Spec::new(quad_sad_u32, [Kind::B64, Kind::B32, Kind::B64], Kind::B64),
        "min3_i32" => op!(|a: i32, b: i32, c: i32| -> i32 { a.min(b).min(c) }),
        "max3_i32" => op!(|a: i32, b: i32, c: i32| -> i32 { a.max(b).max(c) }),
        "med3_i32" => op!(|a: i32, b: i32, c: i32| -> i32 { med3_int(a, b, c) }),
        "min3_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { a.min(b).min(c) }),
        "max3_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { a.max(b).max(c) }),
        "med3_u32" => op!(|a: u32, b: u32, c: u32| -> u32 { med3_int(a, b, c) }),
        "min3_i16" => op!(|a: i16, b: i16, c: i16| -> i16 { a.min(b).min(c) }).keep(),
        "max3_i16" => op!(|a: i16, b: i16, c: i16| -> i16 { a.max(b).max(c) }).keep(),
        "med3_i16" => op!(|a: i16, b: i16, c: i16| -> i16 { med3_int(a, b, c) }).keep(),
        "min3_u16" => op!(|a: u16, b: u16, c: u16| -> u16 { a.min(b).min(c) }).keep(),
        "max3_u16" => op!(|a: u16, b: u16, c: u16| -> u16 { a.max(b).max(c) }).keep(),
        "med3_u16" => op!(|a: u16, b: u16, c: u16| -> u16 { med3_int(a, b, c) }).keep(),
        "lshlrev_b64" => op!(|a: u32, b: u64| -> u64 { b << (a & 63) }),
        "lshrrev_b64" => op!(|a: u32, b: u64| -> u64 { b >> (a & 63) }),
        "ashrrev_i64" => op!(|a: u32, b: i64| -> i64 { b >> (a & 63) }),
        "bcnt_u32_b32" => op!(|a: u32, b: u32| -> u32 { a.count_ones().wrapping_add(b) }),
        "mbcnt_lo_u32_b32" => Spec::new(
            count_below::<false>,
            [Kind::B32, Kind::B32, Kind::None],
            Kind::B32,
        ),
        "mbcnt_hi_u32_b32" => Spec::new(
            count_below::<true>,
            [Kind::B32, Kind::B32, Kind::None],
            Kind::B32,
        ),
        "readlane_b32" => Spec::new(read_lane, [Kind::B32, Kind::B32, Kind::None], Kind::None)
            .form(Form::ScalarResult),
        "writelane_b32" => Spec::new(write_lane, [Kind::B32, Kind::B32, Kind::None], Kind::B32),
        "cvt_pk_u16_u32" => op!(|a: u32, b: u32| -> u32 { a.min(0xffff) | b.min(0xffff) << 16 }),
        "cvt_pk_i16_i32" => op!(|a: i32, b: i32| -> [i16; 2] {
            [
                a.clamp(-0x8000, 0x7fff) as i16,
                b.clamp(-0x8000, 0x7fff) as i16,
            ]
        }),
        _ => return None,
    })
}

fn floats(base: &str) -> Option<Spec> {
    Some(match base {
        "fma_f32" => op_float!(|a: f32, b: f32, c: f32| a.mul_add(b, c), fma32(a, b, c)),
        "mad_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { mad32(a, b, c) }),
        "mad_legacy_f32" => op!(|a: f32, b: f32, c: f32| -> f32 {
            if a == 0.0 || b == 0.0 {
                float::add32(0.0, c)
            } else {
                mad32(a, b, c)
            }
        }),
        "fma_legacy_f32" => op!(|a: f32, b: f32, c: f32| -> f32 {
            if a == 0.0 || b == 0.0 {
                float::add32(mul_legacy(a, b), c)
            } else {
                fma32(a, b, c)
            }
        }),
        "fma_f64" => op_float!(|a: f64, b: f64, c: f64| a.mul_add(b, c), fma64(a, b, c)),
        "fmac_f64" => {
            op!(|a: f64, b: f64, c: f64| -> f64 { fma64(a, b, c) }).form(Form::Accumulate)
        }
        "add_f64" => op_float!(|a: f64, b: f64| a + b, add64(a, b)),
        "mul_f64" => op_float!(|a: f64, b: f64| a * b, mul64(a, b)),
        "min_f64" => op!(mode m, |a: f64, b: f64| -> f64 { min(a, b, m.ieee) }),
        "max_f64" => op!(mode m, |a: f64, b: f64| -> f64 { max(a, b, m.ieee) }),
        "ldexp_f64" => op!(|a: f64, b: i32| -> f64 { float::ldexp64(a, b) }),
        "ldexp_f32" => op!(|a: f32, b: i32| -> f32 { float::ldexp32(a, b) }),
        "fma_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { fma16(a, b, c) }).keep(),
        "mad_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { mad16(a, b, c) }).keep(),
        "fma_legacy_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { fma16(a, b, c) }),
        "mad_legacy_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { mad16(a, b, c) }),
        "min3_f32" => {
            op!(mode m, |a: f32, b: f32, c: f32| -> f32 { min3(a, b, c, m.ieee) })
        }
        "max3_f32" => {
            op!(mode m, |a: f32, b: f32, c: f32| -> f32 { max3(a, b, c, m.ieee) })
        }
        "med3_f32" => {
            op!(mode m, |a: f32, b: f32, c: f32| -> f32 { med3(a, b, c, m.ieee) })
        }
        "min3_f16" => op!(mode m, |a: f16, b: f16, c: f16| -> f16 { min3(a, b, c, m.ieee) }).keep(),
        "max3_f16" => op!(mode m, |a: f16, b: f16, c: f16| -> f16 { max3(a, b, c, m.ieee) }).keep(),
        "med3_f16" => op!(mode m, |a: f16, b: f16, c: f16| -> f16 { med3(a, b, c, m.ieee) }).keep(),
        "cubeid_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { cube_id(a, b, c) }),
        "cubesc_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { cube_s(a, b, c) }),
        "cubetc_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { cube_t(a, b, c) }),
        "cubema_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { cube_major(a, b, c) }),
        "div_scale_f32" => op_carry!(|a: f32, b: f32, c: f32, _i| -> f32 { div_scale32(a, b, c) })
            .form(Form::CarryOut),
        "div_scale_f64" => op_carry!(|a: f64, b: f64, c: f64, _i| -> f64 { div_scale64(a, b, c) })
            .form(Form::CarryOut),
        "div_fmas_f32" => {
            op_carry!(|a: f32, b: f32, c: f32, i| -> f32 { (div_fmas32(a, b, c, i), false) })
                .form(Form::FromVcc)
        }
        "div_fmas_f64" => {
            op_carry!(|a: f64, b: f64, c: f64, i| -> f64 { (div_fmas64(a, b, c, i), false) })
                .form(Form::FromVcc)
        }
        "div_fixup_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { div_fixup32(a, b, c) }),
        "div_fixup_f64" => op!(|a: f64, b: f64, c: f64| -> f64 { div_fixup64(a, b, c) }),
        "div_fixup_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { div_fixup16(a, b, c) }).keep(),
        "div_fixup_legacy_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { div_fixup16(a, b, c) }),
        "trig_preop_f64" => op!(|a: f64, b: u32| -> f64 { float::trig_preop(a, b) }),
        "cvt_pkrtz_f16_f32" => {
            op!(|a: f32, b: f32| -> u32 { half_toward_zero(a) | half_toward_zero(b) << 16 })
        }
        "cvt_pknorm_i16_f32" => {
            op!(|a: f32, b: f32| -> u32 { normalized(a, true) | normalized(b, true) << 16 })
        }
        "cvt_pknorm_u16_f32" => {
            op!(|a: f32, b: f32| -> u32 { normalized(a, false) | normalized(b, false) << 16 })
        }
        "cvt_pknorm_i16_f16" => op!(|a: f16, b: f16| -> u32 {
            normalized(float::single(a), true) | normalized(float::single(b), true) << 16
        }),
        "cvt_pknorm_u16_f16" => op!(|a: f16, b: f16| -> u32 {
            normalized(float::single(a), false) | normalized(float::single(b), false) << 16
        }),
        "pack_b32_f16" => op!(|a: f16, b: f16| -> u32 {
            // Not a move: a signalling NaN comes out quiet.
            let half = |x: f16| u32::from(if x.nan() { x.quiet() } else { x }.to_bits());
            half(a) | half(b) << 16
        }),
        _ => return None,
    })
}

pub(super) fn find(base: &str) -> Option<Spec> {
    integers(base).or_else(|| floats(base))
}
