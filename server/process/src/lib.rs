//! Run a program with a time limit, a cancel token and its whole process group under control.
//!
//! Every program that hipsmith starts (compiler, disassembler, harness, the user's own program) goes
//! through [`run`]: it gets its own process group, and on time-out, cancel or an error of ours the
//! whole group is killed, so that nothing outlives the question it was asked.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A flag that asks background work to stop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A token that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Ask everything that holds a clone of this token to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
    /// Whether somebody has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What to run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Job {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    env_remove: Vec<OsString>,
    dir: Option<PathBuf>,
    timeout: Duration,
    output_limit: usize,
    inherit: bool,
}

impl Job {
    /// A job for `program`, found on `PATH` if it has no slash; 60 s and 64 MiB of output until told otherwise.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            env_remove: Vec::new(),
            dir: None,
            timeout: Duration::from_secs(60),
            output_limit: 64 << 20,
            inherit: false,
        }
    }
    /// Add one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }
    /// Add several arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }
    /// Set one environment variable; the rest is inherited.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }
    /// Do not pass this inherited environment variable on.
    pub fn env_remove(mut self, key: impl AsRef<OsStr>) -> Self {
        self.env_remove.push(key.as_ref().to_owned());
        self
    }
    /// Run in this directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
    /// Kill the process group after this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
    /// Keep at most this many bytes of each of stdout and stderr; the rest is read and dropped.
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }
    /// Let the program use our own stdin, stdout and stderr instead of capturing its output.
    pub fn inherit_io(mut self) -> Self {
        self.inherit = true;
        self
    }
    /// The program as it will be looked up, for messages.
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

/// How a program that was started came to its end by itself.
#[derive(Debug)]
pub struct Output {
    /// Exit status, with the signal if one ended it.
    pub status: ExitStatus,
    /// Captured standard output, up to the job's limit; empty when inherited.
    pub stdout: Vec<u8>,
    /// Captured standard error, up to the job's limit; empty when inherited.
    pub stderr: Vec<u8>,
    /// Wall-clock time from start to end.
    pub wall: Duration,
}

impl Output {
    /// One clause that says how the program ended, fit for the middle of a sentence.
    pub fn ending(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => {
                format!("was ended by signal {signal} ({})", signal_name(signal))
            }
            (None, None) => "ended in an unknown way".to_owned(),
        }
    }
    /// The last `lines` lines of standard error, lossily decoded, for messages.
    pub fn stderr_tail(&self, lines: usize) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let all: Vec<&str> = text.trim_end().lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such program.
    #[error("{program} is not installed or not on PATH")]
    NotFound {
        /// The program as it was looked up.
        program: String,
    },
    /// It could not be started or watched.
    #[error("{program} could not be run: {source}")]
    Io {
        /// The program as it was looked up.
        program: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// It ran past its limit and its process group was killed.
    #[error("{program} did not end within {seconds} s and was stopped")]
    TimedOut {
        /// The program as it was looked up.
        program: String,
        /// The limit, in seconds.
        seconds: f64,
    },
    /// Somebody cancelled and its process group was killed.
    #[error("{program} was cancelled")]
    Cancelled {
        /// The program as it was looked up.
        program: String,
    },
}

/// Run a job to its end.
///
/// # Errors
/// [`Error`] if it cannot be started, runs past its limit or is cancelled. A non-zero exit code is not an
/// error here: the caller reads [`Output::status`].
pub fn run(job: &Job, cancel: &Cancel) -> Result<Output, Error> {
    let program = job.program();
    let io_error = |source| Error::Io {
        program: program.clone(),
        source,
    };
    let mut command = Command::new(&job.program);
    command.args(&job.args);
    for key in &job.env_remove {
        command.env_remove(key);
    }
    command.envs(job.env.iter().map(|(k, v)| (k, v)));
    if let Some(dir) = &job.dir {
        command.current_dir(dir);
    }
    if !job.inherit {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }
    // At a terminal a new group would be a background job: reading would stop it and Ctrl-C would miss it.
    let own_group = !(job.inherit && io::stdin().is_terminal());
    if own_group {
        command.process_group(0);
    }
    let start = Instant::now();
    let child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound {
            program: program.clone(),
        },
        _ => io_error(source),
    })?;
    let mut group = Group { child, own_group };
    let stdout = group
        .child
        .stdout
        .take()
        .map(|s| reader(s, job.output_limit));
    let stderr = group
        .child
        .stderr
        .take()
        .map(|s| reader(s, job.output_limit));
    let mut nap = Duration::from_micros(200);
    let status = loop {
        if let Some(status) = group.child.try_wait().map_err(io_error)? {
            break status;
        }
        if cancel.is_cancelled() {
            return Err(Error::Cancelled { program });
        }
        if start.elapsed() > job.timeout {
            return Err(Error::TimedOut {
                program,
                seconds: job.timeout.as_secs_f64(),
            });
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(10));
    };
    let wall = start.elapsed();
    // A grandchild that holds the pipes open must not keep us: its group is killed before we read to the end.
    drop(group);
    Ok(Output {
        status,
        stdout: stdout.map_or_else(Vec::new, |r| r.join().unwrap_or_default()),
        stderr: stderr.map_or_else(Vec::new, |r| r.join().unwrap_or_default()),
        wall,
    })
}

/// Kills and reaps the whole process group when it goes out of scope, on every path.
struct Group {
    child: Child,
    own_group: bool,
}

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.child.id() as libc::pid_t;
        if self.own_group {
            // SAFETY: kill only takes numbers; the group was made by us with the child's pid as its id.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn reader(mut from: impl Read + Send + 'static, limit: usize) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0u8; 16 << 10];
        while let Ok(n) = from.read(&mut chunk) {
            if n == 0 {
                break;
            }
            let room = limit.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..n.min(room)]);
        }
        kept
    })
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "segmentation fault",
        libc::SIGABRT => "abort",
        libc::SIGBUS => "bus error",
        libc::SIGFPE => "arithmetic error",
        libc::SIGILL => "illegal instruction",
        libc::SIGKILL => "killed",
        libc::SIGTERM => "terminated",
        libc::SIGINT => "interrupted",
        _ => "see signal(7)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_code_come_back() {
        let out = run(
            &Job::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            &Cancel::new(),
        )
        .unwrap();
        assert_eq!(out.stdout, b"out\n");
        assert_eq!(out.stderr_tail(5), "err");
        assert_eq!(out.ending(), "ended with exit code 3");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&Job::new("no-such-program-of-ours"), &Cancel::new()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no-such-program-of-ours is not installed")
        );
    }

    #[test]
    fn a_time_out_kills_the_grandchildren_too() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("alive");
        let script = format!("(sleep 2; touch {}) & sleep 60", mark.display());
        let job = Job::new("sh")
            .args(["-c", &script])
            .timeout(Duration::from_millis(300));
        assert!(matches!(
            run(&job, &Cancel::new()),
            Err(Error::TimedOut { .. })
        ));
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!mark.exists(), "a grandchild outlived the time-out");
    }

    #[test]
    fn cancel_stops_a_running_program() {
        let cancel = Cancel::new();
        let other = cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            other.cancel();
        });
        let start = Instant::now();
        assert!(matches!(
            run(&Job::new("sleep").arg("60"), &cancel),
            Err(Error::Cancelled { .. })
        ));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn more_output_than_the_limit_neither_blocks_nor_grows() {
        let job = Job::new("sh")
            .args(["-c", "head -c 3000000 /dev/zero"])
            .output_limit(1000);
        assert_eq!(run(&job, &Cancel::new()).unwrap().stdout.len(), 1000);
    }
}
