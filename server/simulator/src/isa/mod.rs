//! Instructions as the toolchain's disassembler prints them, taken apart once.

mod objdump;
mod operand;
mod parse;

pub(crate) use objdump::disassemble;
pub use operand::{EXEC_LO, M0, Modifiers, Operand, Special, VCC_LO};
pub use parse::{Instruction, parse_line};
