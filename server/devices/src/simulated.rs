//! The simulated device: programs run on the simulated HIP runtime, which takes the real one's place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hipsmith_process::{Cancel, Job};
use hipsmith_profile::simulated::RunReport;
use hipsmith_profile::subject::Subject;
use hipsmith_target::Target;

use crate::harness::{self, Launches, Ran};
use crate::{Device, Failure};

/// File name of the simulated HIP runtime.
pub const RUNTIME: &str = "libhipsmith_runtime.so";

/// A kernel that runs longer than this on the simulator is stopped, seconds.
const KERNEL_LIMIT: u64 = 60;
/// A user's program that runs longer than this while it is recorded is stopped.
const PROGRAM_LIMIT: Duration = Duration::from_secs(300);

/// Where the simulated HIP runtime is: named by `HIPSMITH_RUNTIME`, or beside this program.
///
/// # Errors
/// One sentence when it is nowhere.
pub fn runtime_library() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("HIPSMITH_RUNTIME").filter(|n| !n.is_empty()) {
        let path = PathBuf::from(named);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!(
                "HIPSMITH_RUNTIME names {}, which is no file",
                path.display()
            ))
        };
    }
    let exe =
        std::env::current_exe().map_err(|e| format!("cannot tell where hipsmith lies: {e}"))?;
    let beside = exe.parent().unwrap_or(Path::new("."));
    // Beside the program, where an installation has it; one up for cargo's test programs.
    [beside, beside.parent().unwrap_or(beside)]
        .iter()
        .map(|dir| dir.join(RUNTIME))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!(
                "{RUNTIME}, the simulated HIP runtime, is not beside {}; build it (`cargo build -p hipsmith-runtime`) \
                 or name it in HIPSMITH_RUNTIME",
                exe.display()
            )
        })
}

/// A target's simulated device.
#[derive(Debug)]
pub struct Simulated {
    target: &'static Target,
    compiled_for: String,
    runtime: PathBuf,
    harness: PathBuf,
    _harness_folder: Option<tempfile::TempDir>,
}

impl Simulated {
    /// The device for `target`, on which code compiled for `compiled_for` runs.
    ///
    /// # Errors
    /// [`Failure::Anomaly`] when the runtime is missing or the harness does not build.
    pub fn new(
        target: &'static Target,
        compiled_for: &str,
        cancel: &Cancel,
    ) -> Result<Self, Failure> {
        let runtime = runtime_library().map_err(Failure::Anomaly)?;
        let (harness, folder) = harness::build(cancel)?;
        Ok(Self {
            target,
            compiled_for: compiled_for.to_owned(),
            runtime,
            harness,
            _harness_folder: folder,
        })
    }

    fn environment(&self) -> Vec<(String, String)> {
        vec![
            (
                "LD_PRELOAD".to_owned(),
                self.runtime.to_string_lossy().into_owned(),
            ),
            ("HIPSMITH_TARGET".to_owned(), self.target.name.clone()),
            (
                "HIPSMITH_KERNEL_TIMEOUT".to_owned(),
                KERNEL_LIMIT.to_string(),
            ),
        ]
    }

    /// Run a program on this device, to its end.
    ///
    /// # Errors
    /// As [`hipsmith_process::run`].
    pub fn run_program(
        &self,
        mut job: Job,
        cancel: &Cancel,
    ) -> Result<hipsmith_process::Output, hipsmith_process::Error> {
        for (key, value) in self.environment() {
            job = job.env(key, value);
        }
        hipsmith_process::run(&job.timeout(PROGRAM_LIMIT), cancel)
    }

    /// Run the user's program and record the first dispatch of `kernel` (its name in the source) into
    /// `folder`, with up to `extra` more of other shapes.
    ///
    /// # Errors
    /// One sentence for the user; [`Failure::Kernel`] does not occur.
    pub fn record(
        &self,
        program: &[String],
        kernel: &str,
        extra: u32,
        folder: &Path,
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        let Some((name, args)) = program.split_first() else {
            return Err(Failure::Anomaly(
                "no program to record: the command is empty".to_owned(),
            ));
        };
        let report = folder.join("report.json");
        let mut job = Job::new(name)
            .args(args)
            .env("HIPSMITH_CAPTURE", folder)
            .env("HIPSMITH_CAPTURE_KERNEL", kernel)
            .env("HIPSMITH_CAPTURE_EXTRA", extra.to_string())
            .env("HIPSMITH_CAPTURE_STOP", "1")
            .env("HIPSMITH_REPORT", &report)
            .timeout(PROGRAM_LIMIT);
        for (key, value) in self.environment() {
            job = job.env(key, value);
        }
        let shown = program.join(" ");
        let ran = hipsmith_process::run(&job, cancel);
        if let Err(hipsmith_process::Error::Cancelled { .. }) = ran {
            return Err(Failure::Cancelled);
        }
        // What was recorded before a program went astray is as good as any.
        if Subject::read(folder).is_ok() {
            return Ok(());
        }
        let report = RunReport::read(&report).ok();
        let fault = report
            .as_ref()
            .and_then(|r| r.faults.first())
            .map(|f| f.message.clone());
        Err(Failure::Anomaly(match (ran, fault) {
            (_, Some(fault)) => format!("`{shown}` did not get through: {fault}"),
            (Ok(out), None) if !out.status.success() => format!(
                "`{shown}` {} before it launched `{kernel}`{}",
                out.ending(),
                match out.stderr_tail(3) {
                    said if said.is_empty() => "; run it alone to see why".to_owned(),
                    said => format!(": {said}"),
                }
            ),
            (Ok(_), None) => {
                let launched: Vec<String> = report
                    .iter()
                    .flat_map(|r| &r.kernels)
                    .map(|k| k.display.clone())
                    .collect();
                if launched.is_empty() {
                    format!("`{shown}` ran, but launched no kernel")
                } else {
                    format!(
                        "`{shown}` ran, but never launched `{kernel}`; it launched {}",
                        launched.join("; ")
                    )
                }
            }
            (Err(error), None) => error.to_string(),
        }))
    }
}

impl Device for Simulated {
    fn describe(&self) -> String {
        let Target { name, device, .. } = self.target;
        if self.compiled_for == *name {
            format!("simulated {name} ({})", device.name)
        } else {
            format!(
                "simulated {name} ({}), code compiled for {}",
                device.name, self.compiled_for
            )
        }
    }

    fn launch(&self, launches: &Launches, cancel: &Cancel) -> Result<Ran, Failure> {
        harness::run(&self.harness, launches, &self.environment(), cancel)
    }
}
