//! One file per family of notifications from the client.

pub mod configuration;
pub mod documents;
pub mod progress_cancel;
pub mod watched_files;
