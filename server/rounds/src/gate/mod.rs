//! What a candidate must pass before it runs. One file per check.
//!
//! The candidate is device code only: our harness owns everything on the host. A check either finds nothing or
//! says in one sentence why the candidate is not run.

mod block;
mod constructs;
mod delegation;
mod lds;
mod precision;
mod registers;
mod scope;
mod signature;
mod state;
mod wave64;
mod words;

use hipsmith_target::Target;

use crate::code_object::{CodeObject, Kernel};

/// Why a candidate is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be launched, or touches what it must not.
    Refused(String),
    /// It would run, but what it does cannot be trusted.
    Suspect(String),
}

/// The texts before and after an edit, as far as they can be judged without compiling.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// The text that the job started from.
    pub original: &'a str,
    /// The candidate's.
    pub text: &'a str,
    /// The kernel's name in the source.
    pub kernel: &'a str,
    /// The target whose limits and rules hold.
    pub target: &'static Target,
}

/// The compiled candidate and how it will be launched.
#[derive(Clone, Copy, Debug)]
pub struct Built<'a> {
    /// The original's code object.
    pub original: &'a CodeObject,
    /// The candidate's.
    pub object: &'a CodeObject,
    /// The kernel's mangled name.
    pub symbol: &'a str,
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes.
    pub dynamic_lds: u32,
    /// The target whose limits hold.
    pub target: &'static Target,
}

impl Built<'_> {
    fn kernel(&self) -> Option<&Kernel> {
        self.object.kernel(self.symbol)
    }
}

/// Judge an edit by its text.
///
/// # Errors
/// The first [`Refusal`].
pub fn edit(edit: &Edit) -> Result<(), Refusal> {
    scope::check(edit)?;
    constructs::check(edit)?;
    precision::check(edit)?;
    wave64::check(edit)
}

/// Judge a compiled candidate.
///
/// # Errors
/// The first [`Refusal`].
pub fn built(built: &Built) -> Result<(), Refusal> {
    signature::check(built)?;
    lds::check(built)?;
    block::check(built)?;
    registers::check(built)?;
    state::check(built)?;
    delegation::check(built)
}
