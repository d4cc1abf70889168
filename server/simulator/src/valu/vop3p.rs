//! Packed operations on two halves, dot products, mixed precision, and gfx90a's packed f32.

use half::f16;

use super::float::{add16, add32, fma16, fma32, half, mad32, max, min, mul16, mul32, single};
use super::lane::{Mix, Pk32, op};
use super::result::Placement;
use super::{Form, Spec};

/// Both halves of two sources.
macro_rules! pairs {
    ($t:ty, |$a:ident, $b:ident| $body:expr) => {
        op!(|x: [$t; 2], y: [$t; 2]| -> [$t; 2] {
            let f = |$a: $t, $b: $t| -> $t { $body };
            [f(x[0], y[0]), f(x[1], y[1])]
        })
    };
    (mode $m:ident, $t:ty, |$a:ident, $b:ident| $body:expr) => {
        op!(mode $m, |x: [$t; 2], y: [$t; 2]| -> [$t; 2] {
            let f = |$a: $t, $b: $t| -> $t { $body };
            [f(x[0], y[0]), f(x[1], y[1])]
        })
    };
}

macro_rules! triples {
    ($t:ty, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        op!(|x: [$t; 2], y: [$t; 2], z: [$t; 2]| -> [$t; 2] {
            let f = |$a: $t, $b: $t, $c: $t| -> $t { $body };
            [f(x[0], y[0], z[0]), f(x[1], y[1], z[1])]
        })
    };
}

fn saturate_u16(x: i64) -> u16 {
    x.clamp(0, 0xffff) as u16
}

fn saturate_i16(x: i64) -> i16 {
    x.clamp(-0x8000, 0x7fff) as i16
}

/// Sum of products of `N`-bit fields.
#[inline(always)]
fn dot<const BITS: u32, const SIGNED: bool>(a: u32, b: u32) -> i64 {
    let field = |x: u32, i: u32| -> i64 {
        let top = x << (32 - BITS * (i + 1));
        if SIGNED {
            i64::from(top as i32 >> (32 - BITS))
        } else {
            i64::from(top >> (32 - BITS))
        }
    };
    let mut sum = 0;
    for i in 0..32 / BITS {
        sum += field(a, i) * field(b, i);
    }
    sum
}

macro_rules! dot {
    ($bits:literal, signed) => {
        op!(|a: u32, b: u32, c: i32| -> i32 { (dot::<$bits, true>(a, b) + i64::from(c)) as i32 })
            .clamped(op!(|a: u32, b: u32, c: i32| -> i32 {
                (dot::<$bits, true>(a, b) + i64::from(c))
                    .clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
            }))
    };
    ($bits:literal, unsigned) => {
        op!(|a: u32, b: u32, c: u32| -> u32 { (dot::<$bits, false>(a, b) + i64::from(c)) as u32 })
            .clamped(op!(|a: u32, b: u32, c: u32| -> u32 {
                (dot::<$bits, false>(a, b) + i64::from(c)).min(i64::from(u32::MAX)) as u32
            }))
    };
}

/// Products of both halves added to an f32, in f32 steps from the first half on.
#[inline(always)]
fn dot2(a: [f16; 2], b: [f16; 2], c: f32) -> f32 {
    let low = fma32(single(a[0]), single(b[0]), c);
    fma32(single(a[1]), single(b[1]), low)
}

fn place(spec: Spec, placement: Placement) -> Spec {
    Spec { placement, ..spec }
}

pub(super) fn find(base: &str) -> Option<Spec> {
    Some(match base {
        "pk_fma_f16" => triples!(f16, |a, b, c| fma16(a, b, c)),
        "pk_add_f16" => pairs!(f16, |a, b| add16(a, b)),
        "pk_mul_f16" => pairs!(f16, |a, b| mul16(a, b)),
        "pk_min_f16" => pairs!(mode m, f16, |a, b| min(a, b, m.ieee)),
        "pk_max_f16" => pairs!(mode m, f16, |a, b| max(a, b, m.ieee)),
        "pk_mad_u16" => {
            triples!(u16, |a, b, c| a.wrapping_mul(b).wrapping_add(c))
                .clamped(triples!(u16, |a, b, c| saturate_u16(
                    i64::from(a) * i64::from(b) + i64::from(c)
                )))
        }
        "pk_mad_i16" => {
            triples!(i16, |a, b, c| a.wrapping_mul(b).wrapping_add(c))
                .clamped(triples!(i16, |a, b, c| saturate_i16(
                    i64::from(a) * i64::from(b) + i64::from(c)
                )))
        }
        "pk_mul_lo_u16" => pairs!(u16, |a, b| a.wrapping_mul(b)),
        "pk_add_u16" => {
            pairs!(u16, |a, b| a.wrapping_add(b)).clamped(pairs!(u16, |a, b| a.saturating_add(b)))
        }
        "pk_sub_u16" => {
            pairs!(u16, |a, b| a.wrapping_sub(b)).clamped(pairs!(u16, |a, b| a.saturating_sub(b)))
        }
        "pk_add_i16" => {
            pairs!(i16, |a, b| a.wrapping_add(b)).clamped(pairs!(i16, |a, b| a.saturating_add(b)))
        }
        "pk_sub_i16" => {
            pairs!(i16, |a, b| a.wrapping_sub(b)).clamped(pairs!(i16, |a, b| a.saturating_sub(b)))
        }
        "pk_lshlrev_b16" => pairs!(u16, |a, b| b << (a & 15)),
        "pk_lshrrev_b16" => pairs!(u16, |a, b| b >> (a & 15)),
        "pk_ashrrev_i16" => pairs!(i16, |a, b| b >> (a & 15)),
        "pk_min_i16" => pairs!(i16, |a, b| a.min(b)),
        "pk_max_i16" => pairs!(i16, |a, b| a.max(b)),
        "pk_min_u16" => pairs!(u16, |a, b| a.min(b)),
        "pk_max_u16" => pairs!(u16, |a, b| a.max(b)),

        "fma_mix_f32" => op!(|a: Mix, b: Mix, c: Mix| -> f32 { fma32(a.0, b.0, c.0) }),
        "mad_mix_f32" => op!(|a: Mix, b: Mix, c: Mix| -> f32 { mad32(a.0, b.0, c.0) }),
        "fma_mixlo_f16" => place(
            op!(|a: Mix, b: Mix, c: Mix| -> f16 { half(fma32(a.0, b.0, c.0)) }),
            Placement::Low,
        ),
        "fma_mixhi_f16" => place(
            op!(|a: Mix, b: Mix, c: Mix| -> f16 { half(fma32(a.0, b.0, c.0)) }),
            Placement::High,
        ),
        "mad_mixlo_f16" => place(
            op!(|a: Mix, b: Mix, c: Mix| -> f16 { half(mad32(a.0, b.0, c.0)) }),
            Placement::Low,
        ),
        "mad_mixhi_f16" => place(
            op!(|a: Mix, b: Mix, c: Mix| -> f16 { half(mad32(a.0, b.0, c.0)) }),
            Placement::High,
        ),

        "dot2_f32_f16" => op!(|a: [f16; 2], b: [f16; 2], c: f32| -> f32 { dot2(a, b, c) }),
        "dot2c_f32_f16" => {
            op!(|a: [f16; 2], b: [f16; 2], c: f32| -> f32 { dot2(a, b, c) }).form(Form::Accumulate)
        }
        "dot2_i32_i16" => dot!(16, signed),
        "dot2_u32_u16" => dot!(16, unsigned),
        "dot4_i32_i8" => dot!(8, signed),
        "dot4_u32_u8" => dot!(8, unsigned),
        "dot8_i32_i4" => dot!(4, signed),
        "dot8_u32_u4" => dot!(4, unsigned),
        "dot2c_i32_i16" => dot!(16, signed).form(Form::Accumulate),
        "dot4c_i32_i8" => dot!(8, signed).form(Form::Accumulate),
        "dot8c_i32_i4" => dot!(4, signed).form(Form::Accumulate),

        "pk_fma_f32" => op!(|a: [f32; 2], b: [f32; 2], c: [f32; 2]| -> [f32; 2] {
            [fma32(a[0], b[0], c[0]), fma32(a[1], b[1], c[1])]
        }),
        "pk_mul_f32" => {
            op!(|a: [f32; 2], b: [f32; 2]| -> [f32; 2] { [mul32(a[0], b[0]), mul32(a[1], b[1])] })
        }
        "pk_add_f32" => {
            op!(|a: [f32; 2], b: [f32; 2]| -> [f32; 2] { [add32(a[0], b[0]), add32(a[1], b[1])] })
        }
        "pk_mov_b32" => op!(|a: Pk32, b: Pk32| -> Pk32 { Pk32(a.0, b.0) }),
        _ => return None,
    })
}
