//! `hipsmith run`: a HIP program, as hipcc built it, on the simulated device.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hipsmith_devices::simulated::runtime_library;
use hipsmith_process::{Error, Job, Output};
use hipsmith_profile::simulated::RunReport;

use crate::interrupt::cancel_on_interrupt;

/// Run a HIP program without a GPU, and say what its kernels did and how long they would take.
///
/// The program is run as it is: built by `hipcc --offload-arch=gfx906`. Its own output goes through; the report
/// goes to standard error or to a file. Counters are simulated and times predicted, none is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The target to simulate, such as gfx928.
    #[arg(long, default_value_t = hipsmith_target::default_target().name.clone())]
    target: String,
    /// Add each source line's counters to the text; the program must be compiled with -g or -gline-tables-only.
    #[arg(long)]
    lines: bool,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the report to this file instead of standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where an access is out of bounds: at the allocation's exact end, or, as on a device, only beyond its last page.
    #[arg(long, value_enum, default_value_t = Bounds::Exact)]
    bounds: Bounds,
    /// Stop the program after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    timeout: f64,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// The report as the simulated runtime wrote it.
    Json,
}

/// Where an access is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bounds {
    /// At the allocation's exact end.
    Exact,
    /// Beyond its last page of 4096 bytes.
    Page,
}

/// Of the time that the program may take, the share after which one kernel counts as never-ending: the fault then
/// names the place in the kernel, which stopping the program cannot.
const KERNEL_SHARE: f64 = 0.8;

/// Run the subcommand: the program's own exit code; 1 when the program succeeded but a kernel did not run to its
/// end, or none ran; 128 and the signal's number when a signal ended it.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(code) => code,
        Err(sentence) => {
            eprintln!("hipsmith run: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &Args) -> Result<ExitCode, String> {
    let target = hipsmith_target::by_name(&args.target).ok_or_else(|| {
        let known: Vec<&str> = hipsmith_target::all()
            .iter()
            .map(|t| t.name.as_str())
            .collect();
        format!(
            "{} is no known target; known are {}",
            args.target,
            known.join(", ")
        )
    })?;
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .ok()
        .filter(|t| !t.is_zero())
        .ok_or_else(|| format!("--timeout {} is no time that can be waited", args.timeout))?;
    let (program, program_args) = args.program.split_first().ok_or("no program was given")?;
    let path = Path::new(program);
    let shown = path.display();
    if path.components().count() > 1 && !path.exists() {
        return Err(format!("there is no program {shown}"));
    }
    let runtime = runtime_library()?;
    let folder = tempfile::Builder::new()
        .prefix("hipsmith-run-")
        .tempdir()
        .map_err(|e| format!("no temporary folder can be made: {e}"))?;
    let report_path = folder.path().join("report.json");
    let mut preload = runtime.into_os_string();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|p| !p.is_empty()) {
        preload.push(":");
        preload.push(more);
    }
    let job = Job::new(program)
        .args(program_args)
        .env("LD_PRELOAD", preload)
        .env("HIPSMITH_TARGET", &target.name)
        .env("HIPSMITH_REPORT", &report_path)
        .env(
            "HIPSMITH_KERNEL_TIMEOUT",
            (args.timeout * KERNEL_SHARE).to_string(),
        )
        .env(
            "HIPSMITH_BOUNDS",
            match args.bounds {
                Bounds::Exact => "exact",
                Bounds::Page => "page",
            },
        )
        .timeout(timeout)
        .inherit_io();
    let ran = match hipsmith_process::run(&job, &cancel_on_interrupt()) {
        Err(error @ (Error::NotFound { .. } | Error::Io { .. })) => return Err(error.to_string()),
        ran => ran,
    };
    let report = report_path
        .exists()
        .then(|| RunReport::read(&report_path))
        .transpose()
        .map_err(|e| e.to_string())?;
    if let Some(report) = &report {
        publish(args, report)?;
    }
    let output = ran.map_err(|error| error.to_string())?;
    let told = args.output.is_none() && args.format == Format::Text;
    verdict(&shown.to_string(), &output, report.as_ref(), told)
}

/// What the run came to: an exit code, or the sentence for one that gave nothing. `told`: the report, which has the
/// faults, was shown.
fn verdict(
    shown: &str,
    output: &Output,
    report: Option<&RunReport>,
    told: bool,
) -> Result<ExitCode, String> {
    let Some(report) = report else {
        let ending = output.ending();
        return Err(format!(
            "{shown} {ending} without registering device code: it is no HIP program, or it does not load HIP 5's libamdhip64.so.5 dynamically; build it with hipcc --offload-arch=gfx906"
        ));
    };
    use std::os::unix::process::ExitStatusExt;
    if let Some(signal) = output.status.signal() {
        eprintln!("hipsmith run: {shown} {}", output.ending());
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(255)));
    }
    match output.status.code() {
        Some(0) => {}
        code => {
            eprintln!("hipsmith run: {shown} {}", output.ending());
            return Ok(ExitCode::from(
                code.and_then(|c| u8::try_from(c).ok()).unwrap_or(1),
            ));
        }
    }
    if let Some(fault) = report.faults.first() {
        let what = if told {
            "see the faults above"
        } else {
            fault.message.as_str()
        };
        return Err(format!(
            "{shown} ended with exit code 0, but not everything it asked of the device was done: {what}"
        ));
    }
    if report.kernels.iter().all(|k| k.dispatches == 0) {
        return Err(format!("{shown} launched no kernel"));
    }
    Ok(ExitCode::SUCCESS)
}

fn publish(args: &Args, report: &RunReport) -> Result<(), String> {
    let text = match args.format {
        Format::Text => report.to_text(args.lines),
        Format::Json => {
            let json = serde_json::to_string_pretty(report)
                .map_err(|e| format!("the report cannot be written as JSON: {e}"))?;
            json + "\n"
        }
    };
    match &args.output {
        Some(path) => hipsmith_profile::write_atomically(path, text.as_bytes())
            .map_err(|e| format!("the report cannot be written to {}: {e}", path.display())),
        None => {
            // A closed standard error is nothing to fail over.
            let _ = std::io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}
