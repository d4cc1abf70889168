//! `hipsmith optimize` from the command line, on the simulated device.

use std::path::Path;
use std::process::{Command, Output};

use hipsmith_tests::{hipcc, hipsmith, root};
use serde_json::Value;

fn optimize(dir: &Path, args: &[&str]) -> Output {
    Command::new(hipsmith())
        .arg("optimize")
        .args(args)
        .current_dir(dir)
        .output()
        .expect("hipsmith starts")
}

/// A folder with a small kernel and its program in one file.
fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let fixture = root().join("server/rounds/tests/fixtures/scale_rows.hip");
    std::fs::copy(fixture, dir.path().join("scale_rows.hip")).expect("the fixture is there");
    dir
}

#[test]
fn json_is_one_object_and_the_diff_applies() {
    if hipcc().is_none() {
        return;
    }
    let dir = workspace();
    let file = dir.path().join("scale_rows.hip");
    let before = std::fs::read_to_string(&file).expect("text");
    let out = optimize(
        dir.path(),
        &[
            "scale_rows.hip",
            "--kernel",
            "scale_rows",
            "--rounds",
            "3",
            "--json",
            "--apply",
        ],
    );
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    for key in [
        "kernel",
        "target",
        "device",
        "evidence",
        "baseline_ns",
        "best_ns",
        "speedup",
        "status",
        "rounds",
        "diff",
    ] {
        assert!(report.get(key).is_some(), "{key} is missing: {report:#}");
    }
    assert_eq!(report["evidence"], "simulated");
    let rounds = report["rounds"].as_array().expect("rounds");
    assert!(!rounds.is_empty() && rounds.len() <= 3);
    for round in rounds {
        for key in ["n", "outcome", "hypothesis", "predicted", "ns", "reason"] {
            assert!(round.get(key).is_some(), "{key} is missing: {round:#}");
        }
    }
    let after = std::fs::read_to_string(&file).expect("text");
    match report["status"].as_str() {
        Some("improved") => {
            assert_ne!(before, after);
            // The diff says the same as what was applied.
            std::fs::write(&file, &before).expect("write");
            std::fs::write(
                dir.path().join("d.diff"),
                report["diff"].as_str().expect("diff"),
            )
            .expect("write");
            let patch = Command::new("git")
                .args(["apply", "d.diff"])
                .current_dir(dir.path())
                .output()
                .expect("git");
            assert!(
                patch.status.success(),
                "{}",
                String::from_utf8_lossy(&patch.stderr)
            );
            assert_eq!(std::fs::read_to_string(&file).expect("text"), after);
        }
        Some("no-improvement") => assert_eq!(before, after),
        other => panic!("{other:?}: {report:#}"),
    }
    let journal =
        std::fs::read_to_string(dir.path().join(".hipsmith/journal.jsonl")).expect("journal");
    assert_eq!(journal.lines().count(), rounds.len());
}

#[test]
fn text_shows_the_table_and_says_that_times_are_simulated() {
    if hipcc().is_none() {
        return;
    }
    let dir = workspace();
    let out = optimize(
        dir.path(),
        &["scale_rows.hip", "--kernel", "scale_rows", "--rounds", "1"],
    );
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        text.contains("simulated gfx928") && text.contains("compiled for gfx906"),
        "{text}"
    );
    assert!(text.contains("nothing was measured"), "{text}");
    assert!(text.contains("original"), "{text}");
}

#[test]
fn what_is_wrong_is_said_and_the_code_is_1() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("binary.hip"), [0xff, 0xfe, 0, 1]).expect("write");
    std::fs::write(
        dir.path().join("open.hip"),
        "__global__ void k(float *a) { a[0] = 1;",
    )
    .expect("write");
    std::fs::write(dir.path().join("host.hip"), "int main() {}").expect("write");
    for (args, part) in [
        (&["none.hip", "--kernel", "k"][..], "cannot be read"),
        (&["binary.hip", "--kernel", "k"], "not UTF-8"),
        (&["open.hip", "--kernel", "k"], "open.hip"),
        (&["host.hip", "--kernel", "k"], "holds no kernel"),
        (
            &["host.hip", "--kernel", "k", "--target", "gfx1"],
            "unknown target",
        ),
        (&["host.hip", "--kernel", "k", "--program", "'"], "quote"),
    ] {
        let out = optimize(dir.path(), args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        let mut json = args.to_vec();
        json.push("--json");
        let out = optimize(dir.path(), &json);
        let report: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
        assert_eq!(report["status"], "failed", "{args:?}");
        assert!(
            report["summary"].as_str().is_some_and(|s| s.contains(part)),
            "{report:#}"
        );
    }
}

#[test]
fn without_hipcc_it_says_what_to_install() {
    let dir = workspace();
    let out = Command::new(hipsmith())
        .args(["optimize", "scale_rows.hip", "--kernel", "scale_rows"])
        .current_dir(dir.path())
        .env("PATH", dir.path())
        .output()
        .expect("hipsmith starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr.contains("hipcc is not installed"), "{stderr}");
}

#[test]
fn an_interrupt_stops_what_was_started() {
    if hipcc().is_none() {
        return;
    }
    let dir = workspace();
    // Programs that outlive us would still hold this folder's name in their environment.
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    let mut child = Command::new(hipsmith())
        .args(["optimize", "scale_rows.hip", "--kernel", "scale_rows"])
        .current_dir(dir.path())
        .env("TMPDIR", &temporary)
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("hipsmith starts");
    let needle = temporary.to_string_lossy().into_owned();
    let pid = child.id().to_string();
    let started = || {
        std::fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter(|entry| entry.file_name() != *pid)
            .filter(|entry| {
                std::fs::read(entry.path().join("environ"))
                    .is_ok_and(|e| String::from_utf8_lossy(&e).contains(&needle))
            })
            .count()
    };
    let wait_for = |what: &str, condition: &mut dyn FnMut() -> bool| {
        for _ in 0..600 {
            if condition() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{what} did not come about");
    };
    wait_for("a program of ours", &mut || started() > 0);
    let signalled = Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .expect("kill runs");
    assert!(signalled.success());
    wait_for("the end", &mut || matches!(child.try_wait(), Ok(Some(_))));
    wait_for("the end of what it started", &mut || started() == 0);
}
