//! Where the harness runs; in this version the simulated device.
//!
//! The same harness binary runs on every device: a device only says which environment makes it so.

pub mod harness;
pub mod simulated;

use hipsmith_process::Cancel;

/// Why a job on a device gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel under test did something wrong: it faulted, or never ended.
    Kernel {
        /// The case in which it happened, from 0.
        case: usize,
        /// What happened, fit to follow "the kernel ".
        what: String,
    },
    /// There is no verdict, and the kernel is not to blame.
    Anomaly(String),
    /// Somebody cancelled.
    Cancelled,
}

impl From<hipsmith_process::Error> for Failure {
    fn from(error: hipsmith_process::Error) -> Self {
        match error {
            hipsmith_process::Error::Cancelled { .. } => Self::Cancelled,
            other => Self::Anomaly(other.to_string()),
        }
    }
}

/// A place where kernels run.
pub trait Device {
    /// What a reader of a figure must know about it, in a few words.
    fn describe(&self) -> String;
    /// Run a job of the harness.
    ///
    /// # Errors
    /// [`Failure`].
    fn launch(
        &self,
        launches: &harness::Launches,
        cancel: &Cancel,
    ) -> Result<harness::Ran, Failure>;
}
