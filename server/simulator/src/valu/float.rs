//! Float arithmetic as the vector ALU does it: NaN results, denormals, half precision, IEEE minimum and maximum,
//! division helpers. All of it rounds to nearest even.
//!
//! Transcendental functions are evaluated in f64 and rounded to the result's type, which is more exact than the
//! hardware's documented 1 ulp.

use half::f16;

use super::lane::{Kind, Row};
use crate::machine::LANES;

/// What is common to f16, f32 and f64, so that operations are written once.
pub(super) trait Float: Copy + PartialOrd {
    /// Unsigned integer of the same width.
    type Bits;
    const QUIET_NAN: Self;
    fn nan(self) -> bool;
    /// A NaN whose quiet bit is clear.
    fn signalling(self) -> bool;
    fn quiet(self) -> Self;
    fn negative(self) -> bool;
    fn zero(self) -> bool;
}

macro_rules! float {
    ($t:ty, $bits:ty, $quiet:expr, $nan:expr) => {
        impl Float for $t {
            type Bits = $bits;
            const QUIET_NAN: Self = <$t>::from_bits($nan);
            #[inline(always)]
            fn nan(self) -> bool {
                self.to_bits() & (<$bits>::MAX >> 1) > $nan & !$quiet
            }
            #[inline(always)]
            fn signalling(self) -> bool {
                self.nan() && self.to_bits() & $quiet == 0
            }
            #[inline(always)]
            fn quiet(self) -> Self {
                <$t>::from_bits(self.to_bits() | $quiet)
            }
            #[inline(always)]
            fn negative(self) -> bool {
                self.to_bits() >> (<$bits>::BITS - 1) != 0
            }
            #[inline(always)]
            fn zero(self) -> bool {
                self.to_bits() << 1 == 0
            }
        }
    };
}
float!(f16, u16, 0x200, 0x7e00);
float!(f32, u32, 0x40_0000, 0x7fc0_0000);
float!(f64, u64, 0x8_0000_0000_0000, 0x7ff8_0000_0000_0000);

/// The NaN that an operation gives: the first NaN source made quiet, else the default NaN.
#[inline(always)]
pub(super) fn nan2<T: Float>(a: T, b: T) -> T {
    if a.nan() {
        a.quiet()
    } else if b.nan() {
        b.quiet()
    } else {
        T::QUIET_NAN
    }
}

#[inline(always)]
pub(super) fn nan3<T: Float>(a: T, b: T, c: T) -> T {
    if a.nan() { a.quiet() } else { nan2(b, c) }
}

/// IEEE-754-2008 minNum as the hardware has it: in IEEE mode a signalling NaN wins (made quiet); otherwise the
/// number wins over a NaN; -0 is less than +0.
#[inline(always)]
pub(super) fn min<T: Float>(a: T, b: T, ieee: bool) -> T {
    if ieee && a.signalling() {
        a.quiet()
    } else if ieee && b.signalling() {
        b.quiet()
    } else if a.nan() {
        b
    } else if b.nan() {
        a
    } else if a.zero() && b.zero() {
        if a.negative() { a } else { b }
    } else if a < b {
        a
    } else {
        b
    }
}

/// The counterpart of [`min`].
#[inline(always)]
pub(super) fn max<T: Float>(a: T, b: T, ieee: bool) -> T {
    if ieee && a.signalling() {
        a.quiet()
    } else if ieee && b.signalling() {
        b.quiet()
    } else if a.nan() {
        b
    } else if b.nan() {
        a
    } else if a.zero() && b.zero() {
        if a.negative() { b } else { a }
    } else if a >= b {
        a
    } else {
        b
    }
}

#[inline(always)]
pub(super) fn min3<T: Float>(a: T, b: T, c: T, ieee: bool) -> T {
    min(min(a, b, ieee), c, ieee)
}

#[inline(always)]
pub(super) fn max3<T: Float>(a: T, b: T, c: T, ieee: bool) -> T {
    max(max(a, b, ieee), c, ieee)
}

/// The middle of three; with a NaN among them the least.
#[inline(always)]
pub(super) fn med3<T: Float>(a: T, b: T, c: T, ieee: bool) -> T {
    if a.nan() || b.nan() || c.nan() {
        return min3(a, b, c, ieee);
    }
    let top = max3(a, b, c, ieee);
    if top == a {
        max(b, c, ieee)
    } else if top == b {
        max(a, c, ieee)
    } else {
        max(a, b, ieee)
    }
}

macro_rules! arithmetic {
    ($t:ty, $add:ident, $mul:ident, $fma:ident) => {
        #[inline(always)]
        pub(super) fn $add(a: $t, b: $t) -> $t {
            let r = a + b;
            if r.is_nan() { nan2(a, b) } else { r }
        }
        #[inline(always)]
        pub(super) fn $mul(a: $t, b: $t) -> $t {
            let r = a * b;
            if r.is_nan() { nan2(a, b) } else { r }
        }
        #[inline(always)]
        pub(super) fn $fma(a: $t, b: $t, c: $t) -> $t {
            let r = a.mul_add(b, c);
            if r.is_nan() { nan3(a, b, c) } else { r }
        }
    };
}
arithmetic!(f32, add32, mul32, fma32);
arithmetic!(f64, add64, mul64, fma64);

/// A denormal becomes zero of its sign.
#[inline(always)]
pub(super) fn flush32(x: f32) -> f32 {
    let b = x.to_bits();
    if b & 0x7f80_0000 == 0 {
        f32::from_bits(b & 0x8000_0000)
    } else {
        x
    }
}

#[inline(always)]
fn flush16(b: u32) -> u32 {
    if b & 0x7c00 == 0 { b & 0x8000 } else { b }
}

/// Multiply, then add, each rounded, with denormals flushed throughout: `v_mad_f32` and `v_mac_f32` do not know
/// denormals on gfx9.
#[inline(always)]
pub(super) fn mad32(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (flush32(a), flush32(b), flush32(c));
    let product = flush32(a * b);
    let r = flush32(product + c);
    if r.is_nan() { nan3(a, b, c) } else { r }
}

/// Product with the rule that zero times anything is zero.
#[inline(always)]
pub(super) fn mul_legacy(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 {
        0.0
    } else {
        mul32(a, b)
    }
}

/// f16 to f32, exactly. Branch-free so that loops over lanes become vector code.
#[inline(always)]
pub(super) fn half_to_single(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff) << 13;
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let bits = if h & 0x7c00 == 0x7c00 {
        special
    } else {
        finite
    };
    f32::from_bits(bits | sign)
}

/// f32 to f16, nearest even; NaN stays NaN (made quiet, payload truncated).
#[inline(always)]
pub(super) fn single_to_half(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let a = bits & 0x7fff_ffff;
    // Normal results: add half of the last place less one, plus the last bit, and rebias.
    let normal = a
        .wrapping_sub(0x3800_0000)
        .wrapping_add(0xfff + (a >> 13 & 1))
        >> 13;
    // Denormal results: adding 0.5 lines the bits up so that the float adder rounds.
    let denormal = (f32::from_bits(a) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let magnitude = if a >= 0x7f80_0001 {
        0x7e00 | (a >> 13 & 0x1ff)
    } else if a >= 0x4780_0000 {
        0x7c00
    } else if a >= 0x3880_0000 {
        normal
    } else {
        denormal
    };
    magnitude as u16 | sign
}

/// f64 to f16 with one rounding.
#[inline(always)]
pub(super) fn double_to_half(x: f64) -> u16 {
    single_to_half(round_to_odd(x))
}

/// f64 to f32 rounded to odd, so that a second rounding to fewer bits is the right one.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let r = x as f32;
    let back = f64::from(r);
    if back == x || r.is_nan() || r.is_infinite() || r.to_bits() & 1 != 0 {
        return r;
    }
    // The neighbour on the other side of x is the odd one.
    if back.abs() > x.abs() {
        f32::from_bits(r.to_bits() - 1)
    } else {
        f32::from_bits(r.to_bits() + 1)
    }
}

#[inline(always)]
pub(super) fn single(h: f16) -> f32 {
    half_to_single(h.to_bits())
}

#[inline(always)]
pub(super) fn half(x: f32) -> f16 {
    f16::from_bits(single_to_half(x))
}

/// f16 addition. The f32 sum of two f16, rounded again, is the correctly rounded f16 sum (24 >= 2 * 11 + 2 bits).
#[inline(always)]
pub(super) fn add16(a: f16, b: f16) -> f16 {
    let r = single(a) + single(b);
    if r.is_nan() { nan2(a, b) } else { half(r) }
}

/// f16 product; the f32 product of two f16 is exact.
#[inline(always)]
pub(super) fn mul16(a: f16, b: f16) -> f16 {
    let r = single(a) * single(b);
    if r.is_nan() { nan2(a, b) } else { half(r) }
}

/// Fused f16 multiply-add with one rounding.
#[inline(always)]
pub(super) fn fma16(a: f16, b: f16, c: f16) -> f16 {
    let product = f64::from(single(a) * single(b));
    let addend = f64::from(single(c));
    let sum = product + addend;
    if sum.is_nan() {
        return nan3(a, b, c);
    }
    if sum.is_infinite() {
        return half(sum as f32);
    }
    // What the sum lost (Knuth's two-sum, exact) decides ties: make the last bit of the sum odd when it lost anything.
    let t = sum - product;
    let lost = (product - (sum - t)) + (addend - t);
    let bits = sum.to_bits();
    let sticky = if lost == 0.0 || bits & 1 != 0 {
        bits
    } else if (lost > 0.0) == (sum > 0.0) {
        bits + 1
    } else {
        bits.wrapping_sub(1)
    };
    f16::from_bits(double_to_half(f64::from_bits(sticky)))
}

/// f16 multiply, then add, each rounded.
#[inline(always)]
pub(super) fn mad16(a: f16, b: f16, c: f16) -> f16 {
    let r = add16(mul16(a, b), c);
    if r.nan() { nan3(a, b, c) } else { r }
}

/// 2^n * x without double rounding for any n.
#[inline(always)]
pub(super) fn ldexp64(x: f64, n: i32) -> f64 {
    let n = n.clamp(-2200, 2200);
    if x.is_nan() {
        return x.quiet();
    }
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    if n > 1023 {
        let first = x * power(1023);
        let rest = n - 1023;
        if rest > 1023 {
            first * power(1023) * power((rest - 1023).min(1023))
        } else {
            first * power(rest)
        }
    } else if n < -969 {
        // Bring the significand to 53 bits of normal range first: only the last multiplication rounds.
        let (m, e) = frexp64(x);
        let total = e + n;
        if total < -1140 {
            return m * 0.0;
        }
        if total >= -1000 {
            return m * power(total);
        }
        m * power(-1000) * power(total + 1000)
    } else {
        x * power(n)
    }
}

/// x as f32 times 2^n, rounded once.
#[inline(always)]
pub(super) fn ldexp32(x: f32, n: i32) -> f32 {
    if x.is_nan() {
        return x.quiet();
    }
    // An f32 scaled by up to 2^+-400 is exact in f64; beyond that the f32 result is infinite or zero anyway.
    (f64::from(x) * f64::from_bits(((n.clamp(-400, 400) + 1023) as u64) << 52)) as f32
}

/// Significand in [0.5, 1) and exponent.
#[inline(always)]
pub(super) fn frexp64(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, less) = if x.abs() < f64::MIN_POSITIVE {
        (x * 18_014_398_509_481_984.0, 54)
    } else {
        (x, 0)
    };
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    let significand = f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52);
    (significand, exponent - less)
}

/// Fraction, always below 1.
#[inline(always)]
pub(super) fn fract32(x: f32) -> f32 {
    let r = x - x.floor();
    if r.is_nan() {
        nan2(x, x)
    } else if r >= 1.0 {
        f32::from_bits(0x3f7f_ffff)
    } else {
        r
    }
}

#[inline(always)]
pub(super) fn fract64(x: f64) -> f64 {
    let r = x - x.floor();
    if r.is_nan() {
        nan2(x, x)
    } else if r >= 1.0 {
        f64::from_bits(0x3fef_ffff_ffff_ffff)
    } else {
        r
    }
}

/// Sine of `x` revolutions, exact at the quarters. Beyond 256 revolutions the hardware gives 0.
pub(super) fn sin_revolutions(x: f64) -> f64 {
    if x.abs() > 256.0 && x.is_finite() {
        return 0.0;
    }
    sin_turn(x)
}

/// Cosine of `x` revolutions. Beyond 256 revolutions the hardware gives 1.
pub(super) fn cos_revolutions(x: f64) -> f64 {
    if x.abs() > 256.0 && x.is_finite() {
        return 1.0;
    }
    sin_turn(x.abs() + 0.25)
}

fn sin_turn(x: f64) -> f64 {
    let r = x - x.round();
    let folded = if r > 0.25 {
        0.5 - r
    } else if r < -0.25 {
        -0.5 - r
    } else {
        r
    };
    (folded * std::f64::consts::TAU).sin()
}

/// Which classes of `mask` `x` belongs to: bit 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal,
/// 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf.
#[inline(always)]
pub(super) fn class(nan: bool, signalling: bool, negative: bool, size: Size, mask: u32) -> bool {
    let bit = if nan {
        u32::from(!signalling)
    } else {
        let (minus, plus) = match size {
            Size::Infinite => (2, 9),
            Size::Normal => (3, 8),
            Size::Denormal => (4, 7),
            Size::Zero => (5, 6),
        };
        if negative { minus } else { plus }
    };
    mask >> bit & 1 != 0
}

/// Magnitude classes of non-NaN values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Infinite,
    Normal,
    Denormal,
    Zero,
}

#[inline(always)]
pub(super) fn size64(x: f64) -> Size {
    let magnitude = x.to_bits() & (u64::MAX >> 1);
    if magnitude == 0 {
        Size::Zero
    } else if magnitude < 1 << 52 {
        Size::Denormal
    } else if magnitude < 0x7ff << 52 {
        Size::Normal
    } else {
        Size::Infinite
    }
}

#[inline(always)]
pub(super) fn size32(x: f32) -> Size {
    let magnitude = x.to_bits() & (u32::MAX >> 1);
    if magnitude == 0 {
        Size::Zero
    } else if magnitude < 1 << 23 {
        Size::Denormal
    } else if magnitude < 0xff << 23 {
        Size::Normal
    } else {
        Size::Infinite
    }
}

#[inline(always)]
pub(super) fn size16(x: f16) -> Size {
    let magnitude = x.to_bits() & 0x7fff;
    if magnitude == 0 {
        Size::Zero
    } else if magnitude < 1 << 10 {
        Size::Denormal
    } else if magnitude < 0x1f << 10 {
        Size::Normal
    } else {
        Size::Infinite
    }
}

fn exponent32(x: f32) -> i32 {
    (x.to_bits() >> 23 & 0xff) as i32
}

fn exponent64(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32
}

/// Pre-scaling of a division: source `s0` is the denominator `s1` or the numerator `s2`. Returns it scaled so that
/// the refinement steps stay in range, and whether `v_div_fmas` must scale the quotient back.
pub(super) fn div_scale32(s0: f32, s1: f32, s2: f32) -> (f32, bool) {
    let denominator = s0.to_bits() == s1.to_bits();
    let numerator = s0.to_bits() == s2.to_bits();
    let tiny_reciprocal = s1.is_finite() && size64_as_single(1.0 / f64::from(s1));
    let tiny_quotient = size64_as_single(f64::from(s2) / f64::from(s1));
    if s1 == 0.0 || s2 == 0.0 {
        return (f32::QUIET_NAN, false);
    }
    if exponent32(s2) - exponent32(s1) >= 96 {
        return (if denominator { ldexp32(s0, 64) } else { s0 }, true);
    }
    if size32(s1) == Size::Denormal {
        return (ldexp32(s0, 64), false);
    }
    if tiny_reciprocal && tiny_quotient {
        return (if denominator { ldexp32(s0, -64) } else { s0 }, true);
    }
    if tiny_reciprocal {
        return (ldexp32(s0, -64), false);
    }
    if tiny_quotient {
        return (if numerator { ldexp32(s0, 64) } else { s0 }, true);
    }
    if exponent32(s2) <= 23 {
        return (ldexp32(s0, 64), false);
    }
    (s0, false)
}

/// Whether an f64 value is below the f32 normal range (and not zero).
fn size64_as_single(x: f64) -> bool {
    x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE)
}

/// The f64 counterpart of [`div_scale32`].
pub(super) fn div_scale64(s0: f64, s1: f64, s2: f64) -> (f64, bool) {
    let denominator = s0.to_bits() == s1.to_bits();
    let numerator = s0.to_bits() == s2.to_bits();
    if s1 == 0.0 || s2 == 0.0 {
        return (f64::QUIET_NAN, false);
    }
    let tiny_reciprocal = s1.is_finite() && (1.0 / s1).abs() < f64::MIN_POSITIVE;
    // The quotient may round to zero; it is as tiny then.
    let tiny_quotient = s1.is_finite() && s2.is_finite() && (s2 / s1).abs() < f64::MIN_POSITIVE;
    if exponent64(s2) - exponent64(s1) >= 768 {
        return (if denominator { ldexp64(s0, 128) } else { s0 }, true);
    }
    if size64(s1) == Size::Denormal {
        return (ldexp64(s0, 128), false);
    }
    if tiny_reciprocal && tiny_quotient {
        return (if denominator { ldexp64(s0, -128) } else { s0 }, true);
    }
    if tiny_reciprocal {
        return (ldexp64(s0, -128), false);
    }
    if tiny_quotient {
        return (if numerator { ldexp64(s0, 128) } else { s0 }, true);
    }
    if exponent64(s2) <= 53 {
        return (ldexp64(s0, 128), false);
    }
    (s0, false)
}

/// Last refinement of a division, with the scaling undone. The direction follows from the approximate quotient
/// `c`: `v_div_scale` made it either too small (a large quotient) or too large (a small one).
#[inline(always)]
pub(super) fn div_fmas32(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    if !scaled {
        return fma32(a, b, c);
    }
    let n = if exponent32(c) > 127 { 64 } else { -64 };
    scaled_fma(f64::from(a), f64::from(b), f64::from(c), n)
}

/// fma of three f32 in f64, scaled and rounded once.
fn scaled_fma(a: f64, b: f64, c: f64, n: i32) -> f32 {
    // The product is exact in f64; round-to-odd of the sum keeps the final rounding right.
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum as f32;
    }
    let t = sum - product;
    let lost = (product - (sum - t)) + (c - t);
    let bits = sum.to_bits();
    let sticky = if lost == 0.0 || bits & 1 != 0 {
        sum
    } else if (lost > 0.0) == (sum > 0.0) {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits.wrapping_sub(1))
    };
    ldexp64(sticky, n) as f32
}

/// The f64 counterpart of [`div_fmas32`]. The fma is rounded before it is scaled; a denormal quotient is thus
/// rounded twice.
#[inline(always)]
pub(super) fn div_fmas64(a: f64, b: f64, c: f64, scaled: bool) -> f64 {
    let r = fma64(a, b, c);
    if scaled {
        ldexp64(r, if exponent64(c) > 1023 { 128 } else { -128 })
    } else {
        r
    }
}

macro_rules! div_fixup {
    ($name:ident, $t:ty, $default:expr, $exponent:expr, $under:expr, $max:expr, $abs:expr, $neg:expr) => {
        /// Last step of a division: special cases of denominator `b` and numerator `c`, else quotient `a` with the
        /// right sign.
        #[inline(always)]
        pub(super) fn $name(a: $t, b: $t, c: $t) -> $t {
            let negative = b.negative() != c.negative();
            let signed = |x: $t| if negative { $neg(x) } else { x };
            let infinity = <$t>::INFINITY;
            let zero = <$t>::from_bits(0);
            if c.nan() {
                c.quiet()
            } else if b.nan() {
                b.quiet()
            } else if b.zero() && c.zero() || $abs(b) == infinity && $abs(c) == infinity {
                // 0/0 and inf/inf
                $default
            } else if b.zero() || $abs(c) == infinity {
                signed(infinity)
            } else if $abs(b) == infinity || c.zero() {
                signed(zero)
            } else if $exponent(c) - $exponent(b) < $under {
                signed(zero)
            } else if a.nan() {
                // The refinement overflowed.
                signed(infinity)
            } else {
                signed($abs(a))
            }
        }
    };
}
div_fixup!(
    div_fixup32,
    f32,
    f32::from_bits(0xffc0_0000),
    exponent32,
    -150,
    255,
    |x: f32| x.abs(),
    |x: f32| -x
);
div_fixup!(
    div_fixup64,
    f64,
    f64::from_bits(0xfff8_0000_0000_0000),
    exponent64,
    -1075,
    2047,
    |x: f64| x.abs(),
    |x: f64| -x
);
div_fixup!(
    div_fixup16,
    f16,
    f16::from_bits(0xfe00),
    |x: f16| i32::from(x.to_bits() >> 10 & 0x1f),
    i32::MIN,
    31,
    |x: f16| f16::from_bits(x.to_bits() & 0x7fff),
    |x: f16| f16::from_bits(x.to_bits() ^ 0x8000)
);

/// Fractional bits of 2/pi, most significant first.
const TWO_OVER_PI: [u32; 40] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_6bab,
    0xf0cf_bc20,
    0x9af4_361d,
];

/// 53 bits of 2/pi as the argument reduction of large f64 angles wants them: the segment chosen by `segment` and
/// the exponent of `x`.
pub(super) fn trig_preop(x: f64, segment: u32) -> f64 {
    let exponent = exponent64(x);
    let mut shift = (segment & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let bit = |i: i32| -> u64 {
        let word = usize::try_from(i / 32).unwrap_or(usize::MAX);
        TWO_OVER_PI
            .get(word)
            .map_or(0, |w| u64::from(w >> (31 - i % 32) & 1))
    };
    // The hardware's constant has 1201 fractional bits.
    let mut significand = 0u64;
    for i in 0..53 {
        let at = shift + i;
        significand = significand << 1 | if at < 1201 { bit(at) } else { 0 };
    }
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    ldexp64(significand as f64, scale)
}

/// Flush denormals of whole rows.
pub(super) fn flush_rows(kind: Kind, lo: &mut Row, hi: &mut Row) {
    let single = |row: &mut Row| {
        for x in row.iter_mut() {
            *x = flush32(f32::from_bits(*x)).to_bits();
        }
    };
    match kind {
        Kind::F32 | Kind::Mix => single(lo),
        Kind::PkF32 => {
            single(lo);
            single(hi);
        }
        Kind::F16 => {
            for x in lo.iter_mut() {
                *x = flush16(*x & 0xffff);
            }
        }
        Kind::PkF16 => {
            for x in lo.iter_mut() {
                *x = flush16(*x & 0xffff) | flush16(*x >> 16) << 16;
            }
        }
        Kind::F64 => {
            for l in 0..LANES {
                if hi[l] & 0x7ff0_0000 == 0 {
                    lo[l] = 0;
                    hi[l] &= 0x8000_0000;
                }
            }
        }
        _ => {}
    }
}

/// Multiply rows by an output modifier (a power of two).
pub(super) fn scale_rows(kind: Kind, by: f32, lo: &mut Row, hi: &mut Row) {
    for l in 0..LANES {
        match kind {
            Kind::F32 => lo[l] = mul32(f32::from_bits(lo[l]), by).to_bits(),
            Kind::F16 => {
                lo[l] = u32::from(mul16(f16::from_bits(lo[l] as u16), f16::from_f32(by)).to_bits());
            }
            Kind::F64 => {
                let x = f64::from_bits(u64::from(lo[l]) | u64::from(hi[l]) << 32);
                let bits = mul64(x, f64::from(by)).to_bits();
                lo[l] = bits as u32;
                hi[l] = (bits >> 32) as u32;
            }
            _ => {}
        }
    }
}

/// Clamp rows to [0, 1]; NaN becomes 0 when `dx10` says so.
pub(super) fn clamp_rows(kind: Kind, dx10: bool, lo: &mut Row, hi: &mut Row) {
    let single_clamp = |bits: u32| -> u32 {
        let x = f32::from_bits(bits);
        if x.is_nan() {
            if dx10 { 0 } else { bits }
        } else {
            // Adding zero turns -0 into +0.
            (x.clamp(0.0, 1.0) + 0.0).to_bits()
        }
    };
    let half_clamp = |bits: u32| -> u32 {
        let x = single(f16::from_bits(bits as u16));
        if x.is_nan() {
            if dx10 { 0 } else { bits & 0xffff }
        } else {
            u32::from(single_to_half(x.clamp(0.0, 1.0) + 0.0))
        }
    };
    for l in 0..LANES {
        match kind {
            Kind::F32 => lo[l] = single_clamp(lo[l]),
            Kind::PkF32 => {
                lo[l] = single_clamp(lo[l]);
                hi[l] = single_clamp(hi[l]);
            }
            Kind::F16 => lo[l] = half_clamp(lo[l]),
            Kind::PkF16 => lo[l] = half_clamp(lo[l] & 0xffff) | half_clamp(lo[l] >> 16) << 16,
            Kind::F64 => {
                let x = f64::from_bits(u64::from(lo[l]) | u64::from(hi[l]) << 32);
                let bits = if x.is_nan() {
                    if dx10 { 0 } else { x.to_bits() }
                } else {
                    (x.clamp(0.0, 1.0) + 0.0).to_bits()
                };
                lo[l] = bits as u32;
                hi[l] = (bits >> 32) as u32;
            }
            _ => {}
        }
    }
}
