//! Jobs for the harness: what it launches, and what came back. `harness/harness.cpp` is the other half.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hipsmith_process::{Cancel, Job};
use hipsmith_profile::simulated::RunReport;
use sha2::{Digest, Sha256};

use crate::Failure;

const SOURCE: &str = include_str!("../harness/harness.cpp");

/// One kernel argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Passed by value, its bytes.
    Value(Vec<u8>),
    /// A pointer into a buffer of the same case.
    Pointer {
        /// The buffer's number in the case.
        buffer: usize,
        /// Bytes from the allocation's start.
        offset: u64,
    },
}

/// One launch with everything it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// For messages; one line.
    pub name: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes.
    pub dynamic_lds: u32,
    /// Whole allocations, with poison and red zones where the caller wants them.
    pub buffers: Vec<Vec<u8>>,
    /// Kernel arguments, in order.
    pub args: Vec<Arg>,
    /// Device variables and their contents before the launch.
    pub globals: Vec<(String, Vec<u8>)>,
    /// Load the code object again first.
    pub fresh: bool,
}

/// What one process of the harness does.
#[derive(Clone, Debug)]
pub struct Launches<'a> {
    /// The code object.
    pub module: &'a Path,
    /// The kernel's mangled name.
    pub kernel: &'a str,
    /// Cases, in the order they run.
    pub cases: &'a [Case],
    /// After this long, the kernel counts as one that never ends.
    pub timeout: Duration,
}

/// What came back from a job whose cases all ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Contents of every buffer afterwards, by case.
    pub buffers: Vec<Vec<Vec<u8>>>,
    /// The simulated device's report of the run; other devices write none.
    pub report: Option<RunReport>,
    /// Wall-clock time of the process.
    pub wall: Duration,
}

/// Where built harnesses are kept between jobs: the user's cache folder, if there is one.
fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let folder = base.join("hipsmith");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

/// The harness as an executable. It is built once, from the source inside this crate; the name holds the hash
/// of that source. The second part keeps a harness that could not be cached alive.
///
/// # Errors
/// [`Failure::Anomaly`] when it does not build (no HIP headers, say).
pub fn build(cancel: &Cancel) -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
    let hash: String = Sha256::digest(SOURCE.as_bytes())
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect();
    let cached = cache_folder().map(|f| f.join(format!("harness-{hash}")));
    if let Some(cached) = cached.as_ref().filter(|c| c.is_file()) {
        return Ok((cached.clone(), None));
    }
    let anomaly = |e: io::Error| Failure::Anomaly(format!("the harness cannot be built: {e}"));
    let work = tempfile::Builder::new()
        .prefix("hipsmith-harness-")
        .tempdir()
        .map_err(anomaly)?;
    let source = work.path().join("harness.cpp");
    std::fs::write(&source, SOURCE).map_err(anomaly)?;
    let fresh = work.path().join("harness");
    // hipcc knows where its headers and its runtime are; the architecture only keeps it from asking a device.
    let job = Job::new("hipcc")
        .args(["-std=c++17", "-O1", "-D__HIP_PLATFORM_AMD__"])
        .args(["--offload-arch=gfx906", "-x", "c++"])
        .arg(&source)
        .arg("-o")
        .arg(&fresh)
        .dir(work.path())
        .timeout(Duration::from_secs(300));
    let out = hipsmith_process::run(&job, cancel)?;
    if !out.status.success() {
        return Err(Failure::Anomaly(format!(
            "the harness did not compile: {}",
            out.stderr_tail(3)
        )));
    }
    let Some(cached) = cached else {
        return Ok((fresh, Some(work)));
    };
    // Another job may be doing the same: a whole file appears under the name, or none.
    let half = cached.with_extension(std::process::id().to_string());
    let moved = std::fs::copy(&fresh, &half).and_then(|_| std::fs::rename(&half, &cached));
    Ok(match moved {
        Ok(()) => (cached, None),
        Err(_) => (fresh, Some(work)),
    })
}

/// Run the harness on a job: `environment` makes it run on the device in question.
///
/// # Errors
/// [`Failure`]: what the kernel did wrong, or why there is no verdict.
pub fn run(
    harness: &Path,
    launches: &Launches,
    environment: &[(String, String)],
    cancel: &Cancel,
) -> Result<Ran, Failure> {
    let anomaly = |e: io::Error| Failure::Anomaly(format!("the harness's files: {e}"));
    let work = tempfile::Builder::new()
        .prefix("hipsmith-run-")
        .tempdir()
        .map_err(anomaly)?;
    let result = work.path().join("result");
    let report = work.path().join("report.json");
    let mut text = format!(
        "hipsmith-harness 1\nresult {}\nmodule {}\nkernel {}\n",
        result.display(),
        launches.module.display(),
        launches.kernel
    );
    let out_file = |case: usize, buffer: usize| work.path().join(format!("out-{case}-{buffer}"));
    for (c, case) in launches.cases.iter().enumerate() {
        let _ = writeln!(text, "case {}", case.name.replace('\n', " "));
        if case.fresh {
            text.push_str("fresh\n");
        }
        for (b, bytes) in case.buffers.iter().enumerate() {
            let path = work.path().join(format!("in-{c}-{b}"));
            std::fs::write(&path, bytes).map_err(anomaly)?;
            let _ = writeln!(text, "buffer {} {}", bytes.len(), path.display());
            let _ = writeln!(text, "dump {b} {}", out_file(c, b).display());
        }
        for (g, (name, bytes)) in case.globals.iter().enumerate() {
            let path = work.path().join(format!("global-{c}-{g}"));
            std::fs::write(&path, bytes).map_err(anomaly)?;
            let _ = writeln!(text, "global {name} {}", path.display());
        }
        let ([gx, gy, gz], [bx, by, bz]) = (case.grid, case.block);
        let _ = writeln!(
            text,
            "launch {gx} {gy} {gz} {bx} {by} {bz} {}",
            case.dynamic_lds
        );
        for arg in &case.args {
            match arg {
                Arg::Value(bytes) => {
                    text.push_str("value ");
                    for b in bytes {
                        let _ = write!(text, "{b:02x}");
                    }
                    text.push('\n');
                }
                Arg::Pointer { buffer, offset } => {
                    let _ = writeln!(text, "pointer {buffer} {offset}");
                }
            }
        }
        text.push_str("run\n");
    }
    let job_file = work.path().join("job");
    std::fs::write(&job_file, text).map_err(anomaly)?;
    let mut job = Job::new(harness)
        .arg(&job_file)
        .env("HIPSMITH_REPORT", &report)
        .dir(work.path())
        .timeout(launches.timeout);
    for (key, value) in environment {
        job = job.env(key, value);
    }
    let out = match hipsmith_process::run(&job, cancel) {
        Ok(out) => out,
        Err(hipsmith_process::Error::TimedOut { seconds, .. }) => {
            return Err(Failure::Kernel {
                case: finished(&result).0,
                what: format!("did not end within {seconds:.0} s and was stopped"),
            });
        }
        Err(other) => return Err(other.into()),
    };
    let (done, last) = finished(&result);
    if let Some(failed) = last.strip_prefix("failed ") {
        let code = failed.split_once(' ').map_or(failed, |(_, rest)| rest);
        let detail = RunReport::read(&report)
            .ok()
            .and_then(|r| r.faults.into_iter().next_back())
            .map(|f| f.message);
        return Err(Failure::Kernel {
            case: done,
            what: match detail {
                Some(detail) => format!("failed with {code}: {detail}"),
                None => format!("failed with {code}"),
            },
        });
    }
    if !out.status.success() || done != launches.cases.len() || last != "end" {
        return Err(Failure::Anomaly(format!(
            "the harness {} after {done} of {} launches: {}",
            out.ending(),
            launches.cases.len(),
            out.stderr_tail(3)
        )));
    }
    let mut buffers = Vec::new();
    for (c, case) in launches.cases.iter().enumerate() {
        let mut of_case = Vec::new();
        for (b, before) in case.buffers.iter().enumerate() {
            let after = if before.is_empty() {
                Vec::new()
            } else {
                std::fs::read(out_file(c, b)).map_err(anomaly)?
            };
            if after.len() != before.len() {
                return Err(Failure::Anomaly(format!(
                    "buffer {b} of `{}` came back with another size",
                    case.name
                )));
            }
            of_case.push(after);
        }
        buffers.push(of_case);
    }
    Ok(Ran {
        buffers,
        report: RunReport::read(&report).ok(),
        wall: out.wall,
    })
}

/// How many cases the result file calls done, and its last line.
fn finished(result: &Path) -> (usize, String) {
    let text = std::fs::read_to_string(result).unwrap_or_default();
    let done = text.lines().filter(|l| l.starts_with("done ")).count();
    (done, text.lines().last().unwrap_or_default().to_owned())
}
