//! Operands and modifiers of one instruction, independent of what the instruction does with them.

/// Index of `vcc_lo` in the scalar register file, as the gfx9 encoding numbers it.
pub const VCC_LO: u8 = 106;
/// Index of `m0`.
pub const M0: u8 = 124;
/// Index of `exec_lo`; `exec_hi` follows.
pub const EXEC_LO: u8 = 126;

/// One operand. Register ranges such as `v[4:7]` keep their first register and their length in dwords.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// `vN` or `v[N:M]`.
    Vgpr {
        /// First register.
        first: u16,
        /// Dwords.
        count: u8,
    },
    /// `aN` or `a[N:M]` (accumulation registers).
    Agpr {
        /// First register.
        first: u16,
        /// Dwords.
        count: u8,
    },
    /// `sN`, `s[N:M]`, and by their gfx9 encoding numbers `flat_scratch` (102), `xnack_mask` (104),
    /// `vcc` (106), `ttmpN` (108 + N), `m0` (124) and `exec` (126).
    Sgpr {
        /// First register.
        first: u8,
        /// Dwords.
        count: u8,
    },
    /// An inline integer constant (-16..=64) or a decimal number; sign-extended where 64 bits are read.
    Int(i32),
    /// An inline float constant (0.5, -1.0, 4.0, 0.15915494...): its bits depend on the operand's type
    /// (f16, f32 or f64), which the instruction knows.
    Float(f64),
    /// A 32-bit literal printed in hexadecimal. For 64-bit float operands it is the high dword; for 64-bit
    /// integers it is zero-extended (unsigned) or sign-extended (signed), as the ISA documents say.
    Literal(u32),
    /// A value that is not a register.
    Special(Special),
}

/// Values and places that are neither registers nor constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Named exactly as in the assembly.
pub enum Special {
    Off,
    Null,
    Scc,
    Vccz,
    Execz,
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
}

/// Everything that stands behind or around the operands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modifiers {
    /// Bit i: source i is negated (`-v1`, `neg(..)`).
    pub neg: u8,
    /// Bit i: source i's absolute value is taken (`|v1|`), before negation.
    pub abs: u8,
    /// Bit i: source i is sign-extended in SDWA (`sext(v1)`).
    pub sext: u8,
    /// `clamp`.
    pub clamp: bool,
    /// Output modifier: 1.0, 2.0 (`mul:2`), 4.0 (`mul:4`) or 0.5 (`div:2`); 0.0 when absent.
    pub omod: f32,
    /// All other `name:value` and flag modifiers in the order printed: `offset:16` is `("offset", "16")`,
    /// `glc` is `("glc", "")`, `quad_perm:[1,0,3,2]` keeps its brackets, `op_sel_hi:[0,1]` too,
    /// `row_shr:1`, `row_mask:0xf`, `bound_ctrl:0`, `dst_sel:WORD_1`, `src0_sel:BYTE_0` likewise.
    pub named: Vec<(String, String)>,
}

impl Modifiers {
    /// The value of a named modifier, `Some("")` for a flag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.named
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}
