//! Rounds on real kernels with the real compiler, on the simulated device.

mod common;

use std::path::{Path, PathBuf};

use common::{ready, request};
use hipsmith_rounds::{Cancel, Report, Status, optimize};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(name)
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
