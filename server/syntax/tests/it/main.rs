//! The syntax crate from outside: properties, kernel models as data, and the shared corpus where it is there.

mod corpus;
mod model;
mod properties;
