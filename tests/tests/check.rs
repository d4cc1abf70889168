//! `hipsmith check` and `hipsmith explain` from the command line.

use std::path::Path;
use std::process::{Command, Output};

use hipsmith_tests::{hipsmith, root};
use serde_json::Value;

fn hipsmith_in(dir: &Path, args: &[&str]) -> Output {
    Command::new(hipsmith())
        .args(args)
        .current_dir(dir)
        .output()
        .expect("hipsmith starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn findings_come_as_text_and_as_json_and_set_the_exit_code() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("sub")).expect("a folder");
    let road = root().join("tests/neovim/road.hip");
    std::fs::copy(road, dir.path().join("sub/road.hip")).expect("the fixture is there");
    std::fs::write(dir.path().join("plain.cpp"), "int main() { return 0; }\n").expect("written");

    let out = hipsmith_in(dir.path(), &["check", "."]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("error[ballot-in-32-bits]"));
    assert!(text(&out.stdout).contains("unsigned int mask = __ballot"));

    let out = hipsmith_in(
        dir.path(),
        &["check", "--format", "json", "--target", "gfx906", "."],
    );
    assert_eq!(out.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let [finding] = &found.as_array().expect("an array")[..] else {
        panic!("one finding, not {found}");
    };
    assert_eq!(finding["rule"], "ballot-in-32-bits");
    assert_eq!(finding["family"], "W");
    assert_eq!(finding["severity"], "error");
    for key in ["line", "column", "endLine", "endColumn"] {
        assert!(finding[key].as_u64().is_some_and(|n| n > 0), "{key}");
    }
    assert_eq!(finding["fix"]["safety"], "safe");
}

#[test]
fn bad_input_gets_a_sentence_each_and_exit_code_2() {
    let dir = tempfile::tempdir().expect("a folder");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("written");
    write("binary.hip", &[0x7f, b'E', b'L', b'F', 0, 1, 2, 3, 0, 0]);
    write(
        "big.hip",
        "__global__ void k(float *x) { x[0] = 1; }\n"
            .repeat(520_000)
            .as_bytes(),
    );
    for (args, said) in [
        (&["check", "binary.hip"][..], "binary"),
        (&["check", "big.hip"], "larger than"),
        (&["check", "none.hip"], "none.hip"),
        (&["check", "--target", "gfx1", "."], "gfx1"),
        (&["explain", "no-such-rule"], "no-such-rule"),
    ] {
        let out = hipsmith_in(dir.path(), args);
        assert_eq!(
            out.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&out.stderr)
        );
        assert!(
            text(&out.stderr).contains(said),
            "{args:?}: {}",
            text(&out.stderr)
        );
    }
}

#[test]
fn unclosed_braces_are_told_and_the_rest_is_not_lost() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(
        dir.path().join("open.hip"),
        "__global__ void k(float *x) { if (x) { x[0] = 1;\n",
    )
    .expect("written");
    let out = hipsmith_in(dir.path(), &["check", "open.hip"]);
    assert!(
        text(&out.stderr).contains("open.hip:1:"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn every_rule_has_a_page() {
    let list = hipsmith_in(&root(), &["explain"]);
    let ids: Vec<String> = text(&list.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned))
        .collect();
    assert!(ids.len() >= 6);
    for id in ids {
        let page = hipsmith_in(&root(), &["explain", &id]);
        assert!(
            page.status.success() && text(&page.stdout).contains("Why"),
            "{id}"
        );
    }
}
