//! Instructions as the toolchain's disassembler prints them, taken apart once.

mod operand;

pub use operand::{Modifiers, Operand, Special};
