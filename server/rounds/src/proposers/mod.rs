//! Sources of ideas behind the one trait [`crate::proposer::Proposer`].

pub mod builtin;
