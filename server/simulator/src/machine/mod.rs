//! The state that instructions change, and the instructions that are not vector ALU's.

mod atomic;
mod code;
mod exec;
mod lds;
mod salu;
mod shadow;
mod smem;
mod state;
mod vmem;
mod wave;
mod worker;

pub(crate) use code::{Class, Code, Inst, Matrix, Op, Rate, Reach};
pub(crate) use exec::{Bounds, run};
pub(crate) use shadow::{Example, Finding, Shadow};
pub(crate) use state::{Clock, Outstanding, Problem, Status, WaveState};
pub use wave::{LANES, Mode, PRIVATE_APERTURE, SHARED_APERTURE, Wave};
pub(crate) use worker::{Stat, Touched, Worker};
