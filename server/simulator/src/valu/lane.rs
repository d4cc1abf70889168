//! Types of operands and the loop over 64 lanes.
//!
//! Each operation is a closure over typed lane values. [`map`] and its relatives fetch the sources as rows of 64
//! dwords, run the closure for all lanes in a loop that the compiler turns into vector instructions, and hand the
//! rows to the result stage, which alone knows about EXEC. Modifiers never reach a closure: they are applied when
//! the sources are fetched ([`super::source`]) and when the result is stored ([`super::result`]).

use half::f16;
use std::mem::MaybeUninit;

use super::ValuInst;
use super::float::Float;
use crate::machine::{LANES, Wave};

/// One dword of each lane.
pub(super) type Row = [u32; LANES];
/// Room for a row that a source fetch may or may not need; left uninitialised until then.
pub(super) type Buffer = MaybeUninit<Row>;
/// What a decoded instruction runs.
pub(super) type RunFn = fn(&ValuInst, &mut Wave);

/// How the bits of an operand are to be understood: decides inline constants, modifiers and denormal flushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No operand.
    None,
    /// 32 bits that are not arithmetic floats (integers, moves): never flushed.
    B32,
    F32,
    /// Unsigned 64 bits: a literal is zero-extended.
    B64,
    /// Signed 64 bits: a literal is sign-extended.
    I64,
    F64,
    B16,
    F16,
    /// Two 16-bit integers.
    Pk16,
    /// Two f16.
    PkF16,
    /// f32, or either f16 half as `op_sel_hi`/`op_sel` say.
    Mix,
    /// Two f32 in two dwords.
    PkF32,
    /// Two dwords chosen one by one with `op_sel`.
    Pk32,
}

impl Kind {
    /// Dwords of an operand of this kind.
    pub(super) const fn dwords(self) -> u8 {
        match self {
            Kind::None => 0,
            Kind::B64 | Kind::I64 | Kind::F64 | Kind::PkF32 | Kind::Pk32 => 2,
            _ => 1,
        }
    }
    /// Whether `abs`, `neg`, `omod` and the float meaning of `clamp` apply.
    pub(super) const fn is_float(self) -> bool {
        matches!(
            self,
            Kind::F32 | Kind::F64 | Kind::F16 | Kind::PkF16 | Kind::Mix | Kind::PkF32
        )
    }
    /// 16-bit operands live in one half of a dword.
    pub(super) const fn is_half(self) -> bool {
        matches!(self, Kind::B16 | Kind::F16)
    }
    /// Packed operands take `op_sel`/`op_sel_hi` per half.
    pub(super) const fn is_packed(self) -> bool {
        matches!(self, Kind::Pk16 | Kind::PkF16 | Kind::PkF32 | Kind::Pk32)
    }
}

/// A value of one lane.
pub(super) trait Lane: Copy {
    const KIND: Kind;
    fn load(lo: u32, hi: u32) -> Self;
    fn lo(self) -> u32;
    #[inline(always)]
    fn hi(self) -> u32 {
        0
    }
}

/// f32 or f16 operand of the mixed-precision instructions, already converted to f32.
#[derive(Clone, Copy)]
pub(super) struct Mix(pub f32);
/// Two dwords chosen by `op_sel`.
#[derive(Clone, Copy)]
pub(super) struct Pk32(pub u32, pub u32);

macro_rules! lane {
    ($t:ty, $kind:ident, |$lo:ident, $hi:ident| $load:expr, |$s:ident| $store:expr) => {
        impl Lane for $t {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            #[allow(unused_variables)]
            fn load($lo: u32, $hi: u32) -> Self {
                $load
            }
            #[inline(always)]
            fn lo(self) -> u32 {
                let $s = self;
                $store
            }
        }
    };
    ($t:ty, $kind:ident, |$lo:ident, $hi:ident| $load:expr, |$s:ident| $store:expr, $store_hi:expr) => {
        impl Lane for $t {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn load($lo: u32, $hi: u32) -> Self {
                $load
            }
            #[inline(always)]
            fn lo(self) -> u32 {
                let $s = self;
                $store
            }
            #[inline(always)]
            fn hi(self) -> u32 {
                let $s = self;
                $store_hi
            }
        }
    };
}

#[inline(always)]
fn join(lo: u32, hi: u32) -> u64 {
    u64::from(lo) | u64::from(hi) << 32
}

impl Lane for () {
    const KIND: Kind = Kind::None;
    #[inline(always)]
    fn load(_: u32, _: u32) {}
    #[inline(always)]
    fn lo(self) -> u32 {
        0
    }
}
lane!(u32, B32, |lo, hi| lo, |s| s);
lane!(i32, B32, |lo, hi| lo as i32, |s| s as u32);
lane!(f32, F32, |lo, hi| f32::from_bits(lo), |s| s.to_bits());
lane!(u16, B16, |lo, hi| lo as u16, |s| u32::from(s));
lane!(i16, B16, |lo, hi| lo as i16, |s| u32::from(s as u16));
lane!(f16, F16, |lo, hi| f16::from_bits(lo as u16), |s| u32::from(
    s.to_bits()
));
lane!(
    u64,
    B64,
    |lo, hi| join(lo, hi),
    |s| s as u32,
    (s >> 32) as u32
);
lane!(
    i64,
    I64,
    |lo, hi| join(lo, hi) as i64,
    |s| s as u32,
    (s >> 32) as u32
);
lane!(
    f64,
    F64,
    |lo, hi| f64::from_bits(join(lo, hi)),
    |s| s.to_bits() as u32,
    (s.to_bits() >> 32) as u32
);
lane!(
    [u16; 2],
    Pk16,
    |lo, hi| [lo as u16, (lo >> 16) as u16],
    |s| u32::from(s[0]) | u32::from(s[1]) << 16
);
lane!(
    [i16; 2],
    Pk16,
    |lo, hi| [lo as i16, (lo >> 16) as i16],
    |s| u32::from(s[0] as u16) | u32::from(s[1] as u16) << 16
);
lane!(
    [f16; 2],
    PkF16,
    |lo, hi| [f16::from_bits(lo as u16), f16::from_bits((lo >> 16) as u16)],
    |s| u32::from(s[0].to_bits()) | u32::from(s[1].to_bits()) << 16
);
lane!(Mix, Mix, |lo, hi| Mix(f32::from_bits(lo)), |s| s
    .0
    .to_bits());
lane!(
    [f32; 2],
    PkF32,
    |lo, hi| [f32::from_bits(lo), f32::from_bits(hi)],
    |s| s[0].to_bits(),
    s[1].to_bits()
);
lane!(Pk32, Pk32, |lo, hi| Pk32(lo, hi), |s| s.0, s.1);

/// Zeros, the high row of operands that have none.
pub(super) static ZERO: Row = [0; LANES];

/// Run `f` for all lanes and store its result where EXEC allows.
#[inline(always)]
pub(super) fn map<A: Lane, B: Lane, C: Lane, D: Lane>(
    inst: &ValuInst,
    wave: &mut Wave,
    f: impl Fn(A, B, C) -> D,
) {
    let mut buffers = [Buffer::uninit(); 6];
    let [b0, b1, b2, b3, b4, b5] = &mut buffers;
    let (a_lo, a_hi) = inst.rows::<A>(0, wave, b0, b1);
    let (b_lo, b_hi) = inst.rows::<B>(1, wave, b2, b3);
    let (c_lo, c_hi) = inst.rows::<C>(2, wave, b4, b5);
    let mut lo = [0u32; LANES];
    let mut hi = [0u32; LANES];
    for l in 0..LANES {
        let d = f(
            A::load(a_lo[l], a_hi[l]),
            B::load(b_lo[l], b_hi[l]),
            C::load(c_lo[l], c_hi[l]),
        );
        lo[l] = d.lo();
        if D::KIND.dwords() == 2 {
            hi[l] = d.hi();
        }
    }
    inst.store::<D>(wave, lo, hi);
}

/// [`map`] for float arithmetic: `fast` lets the host choose NaN results, and only when there is one does `exact`
/// run, which gives them the hardware's bits. Choosing them in every lane would cost more than the arithmetic.
#[inline(always)]
pub(super) fn map_float<A: Lane, B: Lane, C: Lane, D: Lane + Float>(
    inst: &ValuInst,
    wave: &mut Wave,
    fast: impl Fn(A, B, C) -> D,
    exact: impl Fn(A, B, C) -> D,
) {
    let mut buffers = [Buffer::uninit(); 6];
    let [b0, b1, b2, b3, b4, b5] = &mut buffers;
    let (a_lo, a_hi) = inst.rows::<A>(0, wave, b0, b1);
    let (b_lo, b_hi) = inst.rows::<B>(1, wave, b2, b3);
    let (c_lo, c_hi) = inst.rows::<C>(2, wave, b4, b5);
    let mut lo = [0u32; LANES];
    let mut hi = [0u32; LANES];
    let mut nan = 0u32;
    for l in 0..LANES {
        let d = fast(
            A::load(a_lo[l], a_hi[l]),
            B::load(b_lo[l], b_hi[l]),
            C::load(c_lo[l], c_hi[l]),
        );
        lo[l] = d.lo();
        if D::KIND.dwords() == 2 {
            hi[l] = d.hi();
        }
        nan |= u32::from(d.nan());
    }
    if nan != 0 {
        for l in 0..LANES {
            let d = exact(
                A::load(a_lo[l], a_hi[l]),
                B::load(b_lo[l], b_hi[l]),
                C::load(c_lo[l], c_hi[l]),
            );
            lo[l] = d.lo();
            hi[l] = d.hi();
        }
    }
    inst.store::<D>(wave, lo, hi);
}

/// Like [`map`] with a bit per lane in (carry-in, select mask, VCC) and out (carry-out) beside the value.
#[inline(always)]
pub(super) fn map_carry<A: Lane, B: Lane, C: Lane, D: Lane>(
    inst: &ValuInst,
    wave: &mut Wave,
    f: impl Fn(A, B, C, bool) -> (D, bool),
) {
    let carry_in = inst.mask_in(wave);
    let mut buffers = [Buffer::uninit(); 6];
    let [b0, b1, b2, b3, b4, b5] = &mut buffers;
    let (a_lo, a_hi) = inst.rows::<A>(0, wave, b0, b1);
    let (b_lo, b_hi) = inst.rows::<B>(1, wave, b2, b3);
    let (c_lo, c_hi) = inst.rows::<C>(2, wave, b4, b5);
    let mut lo = [0u32; LANES];
    let mut hi = [0u32; LANES];
    let mut bits = [0u8; LANES];
    for l in 0..LANES {
        let (d, carry) = f(
            A::load(a_lo[l], a_hi[l]),
            B::load(b_lo[l], b_hi[l]),
            C::load(c_lo[l], c_hi[l]),
            carry_in >> l & 1 != 0,
        );
        lo[l] = d.lo();
        if D::KIND.dwords() == 2 {
            hi[l] = d.hi();
        }
        bits[l] = u8::from(carry);
    }
    let mask = inst.lanes(wave);
    inst.store::<D>(wave, lo, hi);
    inst.store_mask(wave, pack(&bits) & mask);
}

/// Evaluate a predicate for all lanes; inactive lanes give 0.
#[inline(always)]
pub(super) fn test<A: Lane, B: Lane>(
    inst: &ValuInst,
    wave: &mut Wave,
    f: impl Fn(A, B) -> bool,
) -> u64 {
    let mut buffers = [Buffer::uninit(); 4];
    let [b0, b1, b2, b3] = &mut buffers;
    let (a_lo, a_hi) = inst.rows::<A>(0, wave, b0, b1);
    let (b_lo, b_hi) = inst.rows::<B>(1, wave, b2, b3);
    let mut bits = [0u8; LANES];
    for l in 0..LANES {
        bits[l] = u8::from(f(A::load(a_lo[l], a_hi[l]), B::load(b_lo[l], b_hi[l])));
    }
    pack(&bits) & inst.lanes(wave)
}

/// 64 bytes of 0 or 1 to 64 bits. Eight bytes gather in the top byte of one product.
#[inline(always)]
pub(super) fn pack(bits: &[u8; LANES]) -> u64 {
    let mut mask = 0u64;
    for (i, chunk) in bits.as_chunks::<8>().0.iter().enumerate() {
        let byte = u64::from_le_bytes(*chunk).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= byte << (8 * i);
    }
    mask
}

/// Build the function that runs `body`, once for any processor and once for processors with AVX2 and FMA; which of
/// the two is taken is decided when the instruction is decoded.
macro_rules! run_fn {
    (|$inst:ident, $wave:ident| $body:expr) => {{
        fn plain($inst: &$crate::valu::ValuInst, $wave: &mut $crate::machine::Wave) {
            $body
        }
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
            fn wide($inst: &$crate::valu::ValuInst, $wave: &mut $crate::machine::Wave) {
                $body
            }
            fn enter($inst: &$crate::valu::ValuInst, $wave: &mut $crate::machine::Wave) {
                // SAFETY: chosen below only when the processor has every feature that `wide` enables.
                unsafe { wide($inst, $wave) }
            }
            if $crate::valu::lane::wide_processor() {
                enter as $crate::valu::lane::RunFn
            } else {
                plain as $crate::valu::lane::RunFn
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            plain as $crate::valu::lane::RunFn
        }
    }};
}
pub(super) use run_fn;

/// Whether the wide form of each operation can run here.
#[cfg(target_arch = "x86_64")]
pub(super) fn wide_processor() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
}

/// An operation as a closure over typed lanes; `mode m` gives it the wavefront's float mode.
macro_rules! op {
    (mode $m:ident, |$a:ident: $A:ty| -> $D:ty $body:block) => {
        $crate::valu::lane::op!(@ $A, (), (), $D, $m, |$a, _b, _c| $body)
    };
    (mode $m:ident, |$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty $body:block) => {
        $crate::valu::lane::op!(@ $A, $B, (), $D, $m, |$a, $b, _c| $body)
    };
    (mode $m:ident, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty $body:block) => {
        $crate::valu::lane::op!(@ $A, $B, $C, $D, $m, |$a, $b, $c| $body)
    };
    (|$($p:ident: $T:ty),+| -> $D:ty $body:block) => {
        $crate::valu::lane::op!(mode _mode, |$($p: $T),+| -> $D $body)
    };
    (@ $A:ty, $B:ty, $C:ty, $D:ty, $m:ident, |$a:pat_param, $b:pat_param, $c:pat_param| $body:block) => {{
        use $crate::valu::lane::{Lane, map, run_fn};
        $crate::valu::Spec::new(
            run_fn!(|inst, wave| {
                let $m = wave.mode;
                map::<$A, $B, $C, $D>(inst, wave, |$a, $b, $c| -> $D { $body })
            }),
            [<$A as Lane>::KIND, <$B as Lane>::KIND, <$C as Lane>::KIND],
            <$D as Lane>::KIND,
        )
    }};
}
pub(super) use op;

/// Float arithmetic as [`map_float`] runs it.
macro_rules! op_float {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $fast:expr, $exact:expr) => {
        $crate::valu::lane::op_float!(@ $A, $B, (), |$a, $b, _c| $fast, $exact)
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $fast:expr, $exact:expr) => {
        $crate::valu::lane::op_float!(@ $A, $B, $C, |$a, $b, $c| $fast, $exact)
    };
    (@ $A:ty, $B:ty, $C:ty, |$a:pat_param, $b:pat_param, $c:pat_param| $fast:expr, $exact:expr) => {{
        use $crate::valu::lane::{Lane, map_float, run_fn};
        $crate::valu::Spec::new(
            run_fn!(|inst, wave| map_float::<$A, $B, $C, $A>(
                inst,
                wave,
                |$a, $b, $c| -> $A { $fast },
                |$a, $b, $c| -> $A { $exact }
            )),
            [<$A as Lane>::KIND, <$B as Lane>::KIND, <$C as Lane>::KIND],
            <$A as Lane>::KIND,
        )
    }};
}
pub(super) use op_float;

/// An operation with a bit per lane in and out.
macro_rules! op_carry {
    (|$a:ident: $A:ty, $b:ident: $B:ty, $i:ident| -> $D:ty $body:block) => {
        $crate::valu::lane::op_carry!(@ $A, $B, (), $D, |$a, $b, _c, $i| $body)
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty, $i:ident| -> $D:ty $body:block) => {
        $crate::valu::lane::op_carry!(@ $A, $B, $C, $D, |$a, $b, $c, $i| $body)
    };
    (@ $A:ty, $B:ty, $C:ty, $D:ty, |$a:pat_param, $b:pat_param, $c:pat_param, $i:pat_param| $body:block) => {{
        use $crate::valu::lane::{Lane, map_carry, run_fn};
        $crate::valu::Spec::new(
            run_fn!(|inst, wave| map_carry::<$A, $B, $C, $D>(
                inst,
                wave,
                |$a, $b, $c, $i| -> ($D, bool) { $body }
            )),
            [<$A as Lane>::KIND, <$B as Lane>::KIND, <$C as Lane>::KIND],
            <$D as Lane>::KIND,
        )
    }};
}
pub(super) use op_carry;
