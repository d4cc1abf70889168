//! Lane evaluation: an index expression in all 64 lanes of a wavefront at once.
//!
//! A value is one known integer per lane plus one unknown integer that all lanes share ([`Lanes`]). That is
//! enough for bank conflicts, coalescing and "which lane talks to which", because a shared offset moves all lanes
//! alike. Where the lanes' parts are not known there is no value: no answer is better than a guess.

mod bindings;
mod eval;
mod value;

pub use bindings::{Binding, BindingKind, Bindings};
pub use eval::{Evaluator, Geometry, Names};
pub use value::{LANES, Lanes, Op, Uniform};

#[cfg(test)]
mod tests;
