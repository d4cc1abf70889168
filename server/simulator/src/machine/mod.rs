//! The state that instructions change.

mod wave;

pub use wave::{Mode, Wave};
