//! Rounds on real kernels with the real compiler, on the simulated device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hipsmith_rounds::{Cancel, Report, Request, Status, optimize};

/// Whether hipcc is here; builds the simulated runtime beside this test if it is.
fn ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        if Command::new("hipcc").arg("--version").output().is_err() {
            println!("skipped: no hipcc");
            return false;
        }
        if hipsmith_devices::simulated::runtime_library().is_err() {
            let test = std::env::current_exe().unwrap();
            let release = test.ancestors().nth(2).unwrap().ends_with("release");
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "-p", "hipsmith-runtime"])
                .args(release.then_some("--release"))
                .status()
                .unwrap();
            assert!(status.success(), "the simulated runtime does not build");
        }
        true
    })
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(name)
}

fn request(file: &Path, kernel: &str, state: &Path) -> Request {
    Request {
        file: file.to_owned(),
        text: std::fs::read_to_string(file).unwrap(),
        kernel: kernel.to_owned(),
        program: None,
        rounds: 20,
        target: "gfx928".to_owned(),
        state_dir: Some(state.to_owned()),
    }
}

fn show(report: &Report) {
    println!("{}", report.summary);
    for r in &report.rounds {
        println!(
            "{:>3} {:?} {:?} {} -> {}",
            r.n, r.outcome, r.ns, r.hypothesis, r.reason
        );
    }
    println!("{}", report.diff);
}

fn builtin(name: &str, kernel: &str) -> Option<Report> {
    if !ready() {
        return None;
    }
    let state = tempfile::tempdir().unwrap();
    let request = request(&program(name), kernel, state.path());
    let report = optimize(&request, &Cancel::new(), &mut |e| println!("{e:?}")).unwrap();
    show(&report);
    let journal = std::fs::read_to_string(report.journal.as_ref().unwrap()).unwrap();
    assert_eq!(journal.lines().count(), report.rounds.len());
    Some(report)
}

#[test]
fn a_naive_rmsnorm_gets_faster() {
    let Some(report) = builtin("rmsnorm.hip", "rmsnorm") else {
        return;
    };
    assert_eq!(report.status, Status::Improved);
    assert!(report.speedup.unwrap() > 1.01);
    assert!(report.diff.contains("@@"));
}

#[test]
fn a_naive_transpose_gets_faster() {
    let Some(report) = builtin("transpose.hip", "transpose") else {
        return;
    };
    assert_eq!(report.status, Status::Improved);
    assert!(report.speedup.unwrap() > 1.01);
}

#[test]
fn a_good_kernel_is_left_alone() {
    let Some(report) = builtin("saxpy_good.hip", "saxpy") else {
        return;
    };
    assert_eq!(report.status, Status::NoImprovement);
    assert!(report.diff.is_empty() && report.new_text.is_none());
    assert!(report.summary.contains("no improvement found"));
}
