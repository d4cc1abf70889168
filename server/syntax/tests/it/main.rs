//! The syntax crate from outside: properties, kernel models as data, and the shared corpus where it is there.

mod corpus;
mod lds;
mod model;
mod properties;
