//! What an instruction costs: issue rate and arithmetic work. Derived from the mnemonic alone.

/// Throughput class of a vector ALU instruction. A full-rate instruction of a 64-lane wavefront occupies its SIMD
/// of 16 lanes for 4 cycles.
///
/// Sources: AMD's GCN3/Vega ISA documents and LLVM's scheduling model for these targets (transcendental functions
/// and 32-bit integer products at a quarter of the rate). The rate of f64 differs between targets (1/2 on gfx906,
/// 1/16 on gfx900), so that the target's table decides what [`Rate::Double`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// 4 cycles.
    Full,
    /// 16 cycles: `v_rcp_f32`, `v_exp_f32`, `v_sqrt_f32`, `v_mul_lo_u32` and their kind.
    Quarter,
    /// f64 addition, product, fma, comparison, conversion: 8 cycles on gfx906.
    Double,
    /// f64 reciprocal and square root: a quarter of the double rate.
    DoubleQuarter,
}

impl Rate {
    /// Cycles that one wavefront instruction occupies its SIMD, where a full-rate f64 instruction runs at
    /// 1 / `double_divisor` of the f32 rate.
    pub const fn cycles(self, double_divisor: u32) -> u32 {
        match self {
            Rate::Full => 4,
            Rate::Quarter => 16,
            Rate::Double => 4 * double_divisor,
            Rate::DoubleQuarter => 16 * double_divisor,
        }
    }
}

/// Cost of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Throughput class.
    pub rate: Rate,
    /// Arithmetic operations per active lane, a fused multiply-add being two; integer dot products count too.
    pub ops: u8,
    /// Whether those operations are on floats.
    pub float: bool,
}

/// Cost by mnemonic, without `v_` and suffix.
pub(super) fn of(base: &str) -> Cost {
    let is = |heads: &[&str]| heads.iter().any(|h| base.starts_with(h));
    let f64_type = base.contains("_f64");
    let float = base.contains("_f64")
        || base.contains("f32")
        || base.contains("f16") && !base.starts_with("cvt");
    let rate = if is(&["mov", "cmp", "cmpx", "cndmask"]) && !f64_type {
        Rate::Full
    } else if is(&[
        "rcp_",
        "rsq_",
        "sqrt_",
        "exp_",
        "log_",
        "sin_",
        "cos_",
        "mul_lo_u32",
        "mul_lo_i32",
        "mul_hi_u32",
        "mul_hi_i32",
        "mad_u64_u32",
        "mad_i64_i32",
    ]) && !base.contains("_f16_")
    {
        if f64_type {
            Rate::DoubleQuarter
        } else {
            Rate::Quarter
        }
    } else if f64_type || is(&["lshlrev_b64", "lshrrev_b64", "ashrrev_i64"]) {
        Rate::Double
    } else {
        Rate::Full
    };
    let width = if base.starts_with("pk_") { 2 } else { 1 };
    let head = base.strip_prefix("pk_").unwrap_or(base);
    let one = |names: &[&str]| {
        names.iter().any(|n| {
            head.strip_prefix(n)
                .is_some_and(|t| matches!(t, "_f16" | "_f32" | "_f64" | "_legacy_f32"))
        })
    };
    let ops = if is(&["dot2c", "dot2_"]) {
        4
    } else if is(&["dot4c", "dot4_"]) {
        8
    } else if is(&["dot8c", "dot8_"]) {
        16
    } else if is(&["fma_mix", "mad_mix", "div_fmas_"])
        || one(&[
            "fma", "fmac", "mac", "mad", "madak", "madmk", "fmaak", "fmamk",
        ])
    {
        2
    } else if one(&[
        "add", "sub", "subrev", "mul", "min", "max", "rcp", "rsq", "sqrt", "exp", "log", "sin",
        "cos",
    ]) {
        1
    } else {
        0
    };
    Cost {
        rate,
        ops: ops * width,
        float: float && ops > 0,
    }
}
