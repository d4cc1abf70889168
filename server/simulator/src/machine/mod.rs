//! The state that instructions change.

mod code;
mod wave;

pub(crate) use code::Code;
pub use wave::{LANES, Mode, PRIVATE_APERTURE, SHARED_APERTURE, Wave};
