//! Counters by kernel and source line: readers and the one model they fill.
//!
//! [`Counters`] is the model's core: rocprof's counter names with their counts. [`simulated`] is the format in
//! which the simulated HIP runtime reports a run; [`subject`] is the format in which it records one dispatch of a
//! user's program for the rounds.

mod counters;
pub mod simulated;
pub mod subject;

pub use counters::Counters;

use std::io;
use std::path::{Path, PathBuf};

/// Why a file of ours could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read at all.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{path} is not a {what}: {source}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected, in words.
        what: &'static str,
        /// Where it differs.
        source: serde_json::Error,
    },
}

fn read_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    what: &'static str,
) -> Result<T, ReadError> {
    let text = std::fs::read(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| ReadError::Format {
        path: path.to_owned(),
        what,
        source,
    })
}

/// Write a file so that a reader sees the old contents or the new, never a part: a temporary file beside it,
/// then a rename.
///
/// # Errors
/// The operating system's, when the folder cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written =
        std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
