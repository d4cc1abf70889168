//! Vector ALU instructions: one function per operation, chosen once at decode, run for 64 lanes.

use crate::isa::{Modifiers, Operand};
use crate::machine::Wave;

/// A decoded vector ALU instruction.
#[derive(Clone, Debug)]
pub struct ValuInst {
    exec: fn(&ValuInst, &mut Wave),
}

impl ValuInst {
    /// Execute for the lanes in `exec`.
    #[inline]
    pub fn execute(&self, wave: &mut Wave) {
        (self.exec)(self, wave);
    }
}

/// Decode a vector ALU instruction. `None`: the mnemonic is not one of the vector ALU's.
///
/// # Errors
/// A sentence naming what about the operands or modifiers is not supported.
pub fn decode(
    _mnemonic: &str,
    _operands: &[Operand],
    _modifiers: &Modifiers,
) -> Option<Result<ValuInst, String>> {
    None
}
