//! Optimization rounds: propose, compile, gate, verify, benchmark, profile, journal, report.
//!
//! [`optimize`] is the whole interface: the command line and the language server call it with a
//! [`Request`], watch [`Event`]s and get a [`Report`]. It blocks; callers run it off their async threads.

mod bench;
mod code_object;
mod compile;
mod controls;
mod declared;
mod gate;
mod job;
pub mod journal;
pub mod proposer;
pub mod proposers;
pub mod resources;
mod subject;
mod summary;
mod verify;

use std::path::PathBuf;

use serde::Serialize;

pub use hipsmith_process::Cancel;

/// What to optimize, on what, for how long.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source file that holds the kernel; used for include paths, messages and the diff's header.
    pub file: PathBuf,
    /// The text to start from (an editor's unsaved buffer, or what the file holds).
    pub text: String,
    /// The kernel's name in the source, without template arguments or namespace.
    pub kernel: String,
    /// The user's own program and its arguments, from whose run the subject is captured. `None`: the
    /// subject comes from the nearest `hipsmith.toml`, or is built from the file itself when it has a `main`.
    pub program: Option<Vec<String>>,
    /// How many rounds at most.
    pub rounds: u32,
    /// Target name such as `gfx928`.
    pub target: String,
    /// Where journal, records and candidates are kept. `None`: `.hipsmith/` beside the file.
    pub state_dir: Option<PathBuf>,
}

/// What happens while rounds run, for progress displays.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A step outside the rounds began, such as "compiling rmsnorm.hip" or "capturing the subject".
    Step(String),
    /// A round began: number from 1, total, and what is tried.
    RoundStarted {
        /// Number of the round, from 1.
        n: u32,
        /// How many rounds there are at most.
        of: u32,
        /// What is expected and why, written down before anything is measured.
        hypothesis: String,
    },
    /// A round ended.
    RoundEnded(Round),
}

/// How a whole job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A verified candidate is faster than the noise band allows for chance; the diff holds it.
    Improved,
    /// Every candidate was slower, wrong, or within the noise band.
    NoImprovement,
    /// No round could be judged, for the reason given.
    Failed,
}

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Predicted by the wavefront simulator's time model.
    Simulated,
    /// Measured on the device that the report names.
    Measured,
}

/// How one round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Verified and faster than the best so far.
    Effective,
    /// Verified, not faster.
    Ineffective,
    /// The proposer made no edit for this idea.
    NotEmitted,
    /// Ran, and gave wrong results.
    Wrong,
    /// The compiler or the gate refused it.
    FailedToCompile,
    /// Results are right, but something about it cannot be trusted.
    Suspect,
}

/// One round as journal, report and JSON output hold it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Number of the round, from 1.
    pub n: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What was expected and why.
    pub hypothesis: String,
    /// The proposer's expected speed-up over the best so far, 1.0 = none; `null` if it named none.
    pub predicted: Option<f64>,
    /// The candidate's time in ns on the report's device; `null` if it never got that far.
    pub ns: Option<f64>,
    /// Why it ended so, in one sentence.
    pub reason: String,
}

/// The result of a job; this is the object that `hipsmith optimize --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel's name.
    pub kernel: String,
    /// The target whose table was used.
    pub target: String,
    /// The device that ran it, with what a reader must know about it.
    pub device: String,
    /// Whether the times are simulated or measured.
    pub evidence: Evidence,
    /// Time of the original kernel, ns.
    pub baseline_ns: Option<f64>,
    /// Time of the best verified kernel (the original if nothing beat it), ns.
    pub best_ns: Option<f64>,
    /// `baseline_ns / best_ns`.
    pub speedup: Option<f64>,
    /// How the job ended.
    pub status: Status,
    /// One sentence for people: what was won and how it was checked, or why not.
    pub summary: String,
    /// Every round, in order.
    pub rounds: Vec<Round>,
    /// Unified diff from [`Request::text`] to [`Report::new_text`]; empty unless improved.
    pub diff: String,
    /// The whole new text of the file; `None` unless improved.
    #[serde(skip)]
    pub new_text: Option<String>,
    /// The journal file, to which this job's rounds were appended.
    #[serde(skip)]
    pub journal: Option<PathBuf>,
}

/// Why a job could not run at all. Each message says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody cancelled; nothing was changed.
    #[error("cancelled: no change was made")]
    Cancelled,
    /// Anything else, as one sentence for the user.
    #[error("{0}")]
    Failed(String),
}

/// The SHA-256 of a text, in hexadecimal; journal and records know texts by it.
pub fn hash(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Run optimization rounds on one kernel, with the built-in rewrites.
///
/// # Errors
/// [`Error`] when the job cannot run: no such kernel, no compiler, no subject, cancelled.
pub fn optimize(
    request: &Request,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(Event),
) -> Result<Report, Error> {
    optimize_with(request, &mut proposers::builtin::Builtin, cancel, on_event)
}

/// The same with another source of ideas.
///
/// # Errors
/// As [`optimize`].
pub fn optimize_with(
    request: &Request,
    proposer: &mut dyn proposer::Proposer,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(Event),
) -> Result<Report, Error> {
    job::run(request, proposer, cancel, on_event)
}
