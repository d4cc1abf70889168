//! Operations of two sources, with and without carry, and the multiply-accumulate forms.

use half::f16;

use super::float::{
    add16, add32, fma16, fma32, mad16, mad32, max, min, mul_legacy, mul16, mul32, single,
    single_to_half,
};
use super::lane::{op, op_carry, op_float};
use super::{Form, Spec};

/// Sign-extend 24 bits.
#[inline(always)]
pub(super) fn i24(x: u32) -> i32 {
    (x << 8) as i32 >> 8
}

#[inline(always)]
pub(super) fn u24(x: u32) -> u32 {
    x & 0xff_ffff
}

#[inline(always)]
fn carry_add(a: u32, b: u32, c: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(c);
    (sum as u32, sum >> 32 != 0)
}

#[inline(always)]
fn borrow_sub(a: u32, b: u32, c: bool) -> (u32, bool) {
    let difference = i64::from(a) - i64::from(b) - i64::from(c);
    (difference as u32, difference < 0)
}

/// x times 2^n in f16, rounded once.
#[inline(always)]
fn ldexp16(x: f16, n: i16) -> f16 {
    let n = i32::from(n).clamp(-100, 100);
    f16::from_bits(single_to_half(
        single(x) * f32::from_bits(((n + 127) as u32) << 23),
    ))
}

/// Subtraction with the first NaN source passed on unchanged in sign.
#[inline(always)]
fn sub32(a: f32, b: f32) -> f32 {
    let r = a - b;
    if r.is_nan() {
        super::float::nan2(a, b)
    } else {
        r
    }
}

#[inline(always)]
fn sub16(a: f16, b: f16) -> f16 {
    let r = single(a) - single(b);
    if r.is_nan() {
        super::float::nan2(a, b)
    } else {
        super::float::half(r)
    }
}

pub(super) fn find(base: &str) -> Option<Spec> {
    Some(match base {
        "add_f32" => op_float!(|a: f32, b: f32| a + b, add32(a, b)),
        "sub_f32" => op_float!(|a: f32, b: f32| a - b, sub32(a, b)),
        "subrev_f32" => op_float!(|a: f32, b: f32| b - a, sub32(b, a)),
        "mul_f32" => op_float!(|a: f32, b: f32| a * b, mul32(a, b)),
        "mul_legacy_f32" => op!(|a: f32, b: f32| -> f32 { mul_legacy(a, b) }),
        "min_f32" => op!(mode m, |a: f32, b: f32| -> f32 { min(a, b, m.ieee) }),
        "max_f32" => op!(mode m, |a: f32, b: f32| -> f32 { max(a, b, m.ieee) }),
        "mac_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { mad32(a, b, c) }).form(Form::Accumulate),
        "fmac_f32" => op_float!(|a: f32, b: f32, c: f32| a.mul_add(b, c), fma32(a, b, c))
            .form(Form::Accumulate),
        // `dst, a, b, K` and `dst, a, K, b`: both compute first times second plus third as printed.
        "madak_f32" | "madmk_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { mad32(a, b, c) }),
        "fmaak_f32" | "fmamk_f32" => op!(|a: f32, b: f32, c: f32| -> f32 { fma32(a, b, c) }),

        "add_f16" => op!(|a: f16, b: f16| -> f16 { add16(a, b) }),
        "sub_f16" => op!(|a: f16, b: f16| -> f16 { sub16(a, b) }),
        "subrev_f16" => op!(|a: f16, b: f16| -> f16 { sub16(b, a) }),
        "mul_f16" => op!(|a: f16, b: f16| -> f16 { mul16(a, b) }),
        "min_f16" => op!(mode m, |a: f16, b: f16| -> f16 { min(a, b, m.ieee) }),
        "max_f16" => op!(mode m, |a: f16, b: f16| -> f16 { max(a, b, m.ieee) }),
        "mac_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { mad16(a, b, c) }).form(Form::Accumulate),
        "fmac_f16" => {
            op!(|a: f16, b: f16, c: f16| -> f16 { fma16(a, b, c) }).form(Form::Accumulate)
        }
        "madak_f16" | "madmk_f16" => op!(|a: f16, b: f16, c: f16| -> f16 { mad16(a, b, c) }),
        "ldexp_f16" => op!(|a: f16, b: i16| -> f16 { ldexp16(a, b) }),
        "pk_fmac_f16" => op!(|a: [f16; 2], b: [f16; 2], c: [f16; 2]| -> [f16; 2] {
            [fma16(a[0], b[0], c[0]), fma16(a[1], b[1], c[1])]
        })
        .form(Form::Accumulate),

        "add_u32" => op!(|a: u32, b: u32| -> u32 { a.wrapping_add(b) })
            .clamped(op!(|a: u32, b: u32| -> u32 { a.saturating_add(b) })),
        "sub_u32" => op!(|a: u32, b: u32| -> u32 { a.wrapping_sub(b) })
            .clamped(op!(|a: u32, b: u32| -> u32 { a.saturating_sub(b) })),
        "subrev_u32" => op!(|a: u32, b: u32| -> u32 { b.wrapping_sub(a) })
            .clamped(op!(|a: u32, b: u32| -> u32 { b.saturating_sub(a) })),
        "add_co_u32" => {
            op_carry!(|a: u32, b: u32, _i| -> u32 { carry_add(a, b, false) }).form(Form::CarryOut)
        }
        "sub_co_u32" => {
            op_carry!(|a: u32, b: u32, _i| -> u32 { borrow_sub(a, b, false) }).form(Form::CarryOut)
        }
        "subrev_co_u32" => {
            op_carry!(|a: u32, b: u32, _i| -> u32 { borrow_sub(b, a, false) }).form(Form::CarryOut)
        }
        "addc_co_u32" => {
            op_carry!(|a: u32, b: u32, i| -> u32 { carry_add(a, b, i) }).form(Form::CarryInOut)
        }
        "subb_co_u32" => {
            op_carry!(|a: u32, b: u32, i| -> u32 { borrow_sub(a, b, i) }).form(Form::CarryInOut)
        }
        "subbrev_co_u32" => {
            op_carry!(|a: u32, b: u32, i| -> u32 { borrow_sub(b, a, i) }).form(Form::CarryInOut)
        }
        "cndmask_b32" => op_carry!(|a: u32, b: u32, i| -> u32 { (if i { b } else { a }, false) })
            .form(Form::Select),
        "mul_u32_u24" => op!(|a: u32, b: u32| -> u32 { u24(a).wrapping_mul(u24(b)) }),
        "mul_i32_i24" => op!(|a: u32, b: u32| -> i32 { i24(a).wrapping_mul(i24(b)) }),
        "mul_hi_u32_u24" => {
            op!(|a: u32, b: u32| -> u32 { ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32 })
        }
        "mul_hi_i32_i24" => {
            op!(|a: u32, b: u32| -> i32 { ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as i32 })
        }
        "min_i32" => op!(|a: i32, b: i32| -> i32 { a.min(b) }),
        "max_i32" => op!(|a: i32, b: i32| -> i32 { a.max(b) }),
        "min_u32" => op!(|a: u32, b: u32| -> u32 { a.min(b) }),
        "max_u32" => op!(|a: u32, b: u32| -> u32 { a.max(b) }),
        "lshrrev_b32" => op!(|a: u32, b: u32| -> u32 { b >> (a & 31) }),
        "lshlrev_b32" => op!(|a: u32, b: u32| -> u32 { b << (a & 31) }),
        "ashrrev_i32" => op!(|a: u32, b: i32| -> i32 { b >> (a & 31) }),
        "and_b32" => op!(|a: u32, b: u32| -> u32 { a & b }),
        "or_b32" => op!(|a: u32, b: u32| -> u32 { a | b }),
        "xor_b32" => op!(|a: u32, b: u32| -> u32 { a ^ b }),
        "xnor_b32" => op!(|a: u32, b: u32| -> u32 { !(a ^ b) }),

        "add_u16" => op!(|a: u16, b: u16| -> u16 { a.wrapping_add(b) })
            .clamped(op!(|a: u16, b: u16| -> u16 { a.saturating_add(b) })),
        "sub_u16" => op!(|a: u16, b: u16| -> u16 { a.wrapping_sub(b) })
            .clamped(op!(|a: u16, b: u16| -> u16 { a.saturating_sub(b) })),
        "subrev_u16" => op!(|a: u16, b: u16| -> u16 { b.wrapping_sub(a) })
            .clamped(op!(|a: u16, b: u16| -> u16 { b.saturating_sub(a) })),
        "mul_lo_u16" => op!(|a: u16, b: u16| -> u16 { a.wrapping_mul(b) }),
        "lshlrev_b16" => op!(|a: u16, b: u16| -> u16 { b << (a & 15) }),
        "lshrrev_b16" => op!(|a: u16, b: u16| -> u16 { b >> (a & 15) }),
        "ashrrev_i16" => op!(|a: u16, b: i16| -> i16 { b >> (a & 15) }),
        "min_i16" => op!(|a: i16, b: i16| -> i16 { a.min(b) }),
        "max_i16" => op!(|a: i16, b: i16| -> i16 { a.max(b) }),
        "min_u16" => op!(|a: u16, b: u16| -> u16 { a.min(b) }),
        "max_u16" => op!(|a: u16, b: u16| -> u16 { a.max(b) }),
        _ => return None,
    })
}
