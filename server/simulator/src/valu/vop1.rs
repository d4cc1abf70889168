//! Operations of one source: moves, conversions, rounding, transcendental functions, bit scans.

use half::f16;

use super::float::{self, Float};
use super::lane::{Buffer, Kind, op};
use super::result::write;
use super::source::{Source, register};
use super::{Form, Spec, ValuInst};
use crate::machine::{LANES, Wave};

/// f32 to an unsigned byte, saturating, nearest even.
fn byte(x: f32) -> u32 {
    u32::from(x.round_ties_even() as u8)
}

/// Transcendental functions flush denormals whatever the mode says.
fn through_f64(x: f32, f: impl Fn(f64) -> f64) -> f32 {
    if x.is_nan() {
        return x.quiet();
    }
    let r = float::flush32(f(f64::from(float::flush32(x))) as f32);
    if r.is_nan() { f32::QUIET_NAN } else { r }
}

fn through_f32_half(x: f16, f: impl Fn(f64) -> f64) -> f16 {
    if x.nan() {
        return x.quiet();
    }
    let r = f(f64::from(float::single(x)));
    if r.is_nan() {
        f16::QUIET_NAN
    } else {
        f16::from_bits(float::double_to_half(r))
    }
}

fn keep_nan(x: f64, r: f64) -> f64 {
    if r.is_nan() { float::nan2(x, x) } else { r }
}

macro_rules! transcendental {
    (f32, $f:expr) => {
        op!(|a: f32| -> f32 { through_f64(a, $f) })
    };
    (f16, $f:expr) => {
        op!(|a: f16| -> f16 { through_f32_half(a, $f) })
    };
}

fn frexp_exponent(x: f64) -> i32 {
    float::frexp64(x).1
}

/// Leading equal bits; -1 when all bits are equal.
fn sign_run(x: i32) -> u32 {
    let run = (x ^ (x >> 31)).leading_zeros();
    if run == 32 { u32::MAX } else { run }
}

fn read_first_lane(inst: &ValuInst, wave: &mut Wave) {
    let (mut lo, mut hi) = (Buffer::uninit(), Buffer::uninit());
    // With no lane active the hardware reads lane 0.
    let lane = wave.exec.trailing_zeros() as usize % LANES;
    let value = inst.rows::<u32>(0, wave, &mut lo, &mut hi).0[lane];
    if let Some(s) = inst.sdst {
        wave.set_sgpr(s, value);
    }
}

fn swap(inst: &ValuInst, wave: &mut Wave) {
    let Source::Row(other) = inst.src[0] else {
        return;
    };
    let mine = *register(&wave.v, inst.dst);
    let theirs = *register(&wave.v, other);
    let mask = wave.exec;
    write(&mut wave.v, inst.dst, &theirs, mask);
    write(&mut wave.v, other, &mine, mask);
}

fn to_accumulator(inst: &ValuInst, wave: &mut Wave) {
    let (mut lo, mut hi) = (Buffer::uninit(), Buffer::uninit());
    let row = *inst.rows::<u32>(0, wave, &mut lo, &mut hi).0;
    let mask = wave.exec;
    write(&mut wave.a, inst.dst, &row, mask);
}

pub(super) fn find(base: &str) -> Option<Spec> {
    Some(match base {
        "nop" => Spec::new(|_, _| {}, [Kind::None; 3], Kind::None).form(Form::Nothing),
        "mov_b32" | "accvgpr_read_b32" => op!(|a: u32| -> u32 { a }),
        "mov_b64" => op!(|a: u64| -> u64 { a }),
        "accvgpr_write_b32" | "accvgpr_mov_b32" => Spec::new(
            to_accumulator,
            [Kind::B32, Kind::None, Kind::None],
            Kind::None,
        )
        .form(Form::ToAcc),
        "readfirstlane_b32" => Spec::new(
            read_first_lane,
            [Kind::B32, Kind::None, Kind::None],
            Kind::None,
        )
        .form(Form::ScalarResult),
        "swap_b32" => Spec::new(swap, [Kind::B32, Kind::None, Kind::None], Kind::B32),
        "not_b32" => op!(|a: u32| -> u32 { !a }),
        "bfrev_b32" => op!(|a: u32| -> u32 { a.reverse_bits() }),
        "ffbh_u32" => op!(|a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }),
        "ffbl_b32" => op!(|a: u32| -> u32 { if a == 0 { u32::MAX } else { a.trailing_zeros() } }),
        "ffbh_i32" => op!(|a: i32| -> u32 { sign_run(a) }),

        "cvt_f32_i32" => op!(|a: i32| -> f32 { a as f32 }),
        "cvt_f32_u32" => op!(|a: u32| -> f32 { a as f32 }),
        "cvt_i32_f32" => op!(|a: f32| -> i32 { a as i32 }),
        "cvt_u32_f32" => op!(|a: f32| -> u32 { a as u32 }),
        "cvt_rpi_i32_f32" => op!(|a: f32| -> i32 { (f64::from(a) + 0.5).floor() as i32 }),
        "cvt_flr_i32_f32" => op!(|a: f32| -> i32 { a.floor() as i32 }),
        "cvt_f64_i32" => op!(|a: i32| -> f64 { f64::from(a) }),
        "cvt_f64_u32" => op!(|a: u32| -> f64 { f64::from(a) }),
        "cvt_i32_f64" => op!(|a: f64| -> i32 { a as i32 }),
        "cvt_u32_f64" => op!(|a: f64| -> u32 { a as u32 }),
        "cvt_f64_f32" => op!(|a: f32| -> f64 {
            if a.is_nan() {
                f64::from(a).quiet()
            } else {
                f64::from(a)
            }
        }),
        "cvt_f32_f64" => op!(|a: f64| -> f32 {
            if a.is_nan() {
                (a as f32).quiet()
            } else {
                a as f32
            }
        }),
        "cvt_f16_f32" => op!(|a: f32| -> f16 { float::half(a) }),
        "cvt_f32_f16" => op!(|a: f16| -> f32 {
            let r = float::single(a);
            if r.is_nan() { r.quiet() } else { r }
        }),
        "cvt_f16_u16" => op!(|a: u16| -> f16 { float::half(f32::from(a)) }),
        "cvt_f16_i16" => op!(|a: i16| -> f16 { float::half(f32::from(a)) }),
        "cvt_u16_f16" => op!(|a: f16| -> u16 { float::single(a) as u16 }),
        "cvt_i16_f16" => op!(|a: f16| -> i16 { float::single(a) as i16 }),
        "cvt_norm_i16_f16" => op!(|a: f16| -> i16 {
            (float::single(a).clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16
        }),
        "cvt_norm_u16_f16" => op!(|a: f16| -> u16 {
            (float::single(a).clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
        }),
        "cvt_f32_ubyte0" => op!(|a: u32| -> f32 { (a & 0xff) as f32 }),
        "cvt_f32_ubyte1" => op!(|a: u32| -> f32 { (a >> 8 & 0xff) as f32 }),
        "cvt_f32_ubyte2" => op!(|a: u32| -> f32 { (a >> 16 & 0xff) as f32 }),
        "cvt_f32_ubyte3" => op!(|a: u32| -> f32 { (a >> 24) as f32 }),
        // A signed nibble in sixteenths.
        "cvt_off_f32_i4" => op!(|a: u32| -> f32 { ((a << 28) as i32 >> 28) as f32 / 16.0 }),
        "sat_pk_u8_i16" => op!(|a: [i16; 2]| -> u32 {
            a[0].clamp(0, 255) as u32 | (a[1].clamp(0, 255) as u32) << 8
        }),

        "floor_f32" => op!(|a: f32| -> f32 { if a.is_nan() { a.quiet() } else { a.floor() } }),
        "ceil_f32" => op!(|a: f32| -> f32 { if a.is_nan() { a.quiet() } else { a.ceil() } }),
        "trunc_f32" => op!(|a: f32| -> f32 { if a.is_nan() { a.quiet() } else { a.trunc() } }),
        "rndne_f32" => {
            op!(|a: f32| -> f32 {
                if a.is_nan() {
                    a.quiet()
                } else {
                    a.round_ties_even()
                }
            })
        }
        "fract_f32" => op!(|a: f32| -> f32 { float::fract32(a) }),
        "floor_f64" => op!(|a: f64| -> f64 { keep_nan(a, a.floor()) }),
        "ceil_f64" => op!(|a: f64| -> f64 { keep_nan(a, a.ceil()) }),
        "trunc_f64" => op!(|a: f64| -> f64 { keep_nan(a, a.trunc()) }),
        "rndne_f64" => op!(|a: f64| -> f64 { keep_nan(a, a.round_ties_even()) }),
        "fract_f64" => op!(|a: f64| -> f64 { float::fract64(a) }),
        "floor_f16" => op!(|a: f16| -> f16 { float::half(float::single(a).floor()) }),
        "ceil_f16" => op!(|a: f16| -> f16 { float::half(float::single(a).ceil()) }),
        "trunc_f16" => op!(|a: f16| -> f16 { float::half(float::single(a).trunc()) }),
        "rndne_f16" => op!(|a: f16| -> f16 { float::half(float::single(a).round_ties_even()) }),
        "fract_f16" => op!(|a: f16| -> f16 {
            let x = float::single(a);
            let r = float::half(x - x.floor());
            // 1 - 2^-11 is the largest f16 below 1.
            if !r.nan() && r.to_bits() >= 0x3c00 {
                f16::from_bits(0x3bff)
            } else {
                r
            }
        }),

        "rcp_f32" | "rcp_iflag_f32" => transcendental!(f32, |x| 1.0 / x),
        "rsq_f32" => transcendental!(f32, |x: f64| 1.0 / x.sqrt()),
        "sqrt_f32" => transcendental!(f32, f64::sqrt),
        "exp_f32" | "exp_legacy_f32" => transcendental!(f32, f64::exp2),
        "log_f32" | "log_legacy_f32" => transcendental!(f32, f64::log2),
        "sin_f32" => transcendental!(f32, float::sin_revolutions),
        "cos_f32" => transcendental!(f32, float::cos_revolutions),
        "rcp_f64" => op!(|a: f64| -> f64 { keep_nan(a, 1.0 / a) }),
        "rsq_f64" => op!(|a: f64| -> f64 { keep_nan(a, 1.0 / a.sqrt()) }),
        "sqrt_f64" => op!(|a: f64| -> f64 { keep_nan(a, a.sqrt()) }),
        "rcp_f16" => transcendental!(f16, |x| 1.0 / x),
        "rsq_f16" => transcendental!(f16, |x: f64| 1.0 / x.sqrt()),
        "sqrt_f16" => transcendental!(f16, f64::sqrt),
        "exp_f16" => transcendental!(f16, f64::exp2),
        "log_f16" => transcendental!(f16, f64::log2),
        "sin_f16" => transcendental!(f16, float::sin_revolutions),
        "cos_f16" => transcendental!(f16, float::cos_revolutions),

        "frexp_exp_i32_f32" => op!(|a: f32| -> i32 { frexp_exponent(f64::from(a)) }),
        "frexp_mant_f32" => op!(|a: f32| -> f32 {
            if a.is_nan() {
                a.quiet()
            } else {
                float::frexp64(f64::from(a)).0 as f32
            }
        }),
        "frexp_exp_i32_f64" => op!(|a: f64| -> i32 { frexp_exponent(a) }),
        "frexp_mant_f64" => op!(|a: f64| -> f64 {
            if a.is_nan() {
                a.quiet()
            } else {
                float::frexp64(a).0
            }
        }),
        "frexp_exp_i16_f16" => {
            op!(|a: f16| -> i16 { frexp_exponent(f64::from(float::single(a))) as i16 })
        }
        "frexp_mant_f16" => op!(|a: f16| -> f16 {
            if a.nan() {
                a.quiet()
            } else {
                float::half(float::frexp64(f64::from(float::single(a))).0 as f32)
            }
        }),
        "cvt_pk_u8_f32" | "cvt_pkaccum_u8_f32" => {
            let spec = op!(|a: f32, b: u32, c: u32| -> u32 {
                let shift = (b & 3) * 8;
                c & !(0xff << shift) | byte(a) << shift
            });
            // The second form changes a byte of its destination.
            let form = if base == "cvt_pk_u8_f32" {
                Form::Plain
            } else {
                Form::Accumulate
            };
            spec.form(form)
        }
        _ => return None,
    })
}
