//! What stands around the rules, from the command line: output formats, fixes, suppressions, project files, baselines.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hipsmith_tests::hipsmith;
use serde_json::Value;

/// One safe fix and one finding that needs a person.
const BALLOT: &str = "__global__ void k(unsigned* o, bool p) {\n  unsigned m = __ballot(p);\n  o[0] = __popc(m);\n}\n";

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

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).expect("there")
}

/// What `check --format json` finds, as `file: rule severity`, and the exit code.
fn findings(dir: &Path, args: &[&str]) -> (Vec<String>, Option<i32>) {
    let out = hipsmith_in(dir, &[&["check", "--format", "json"], args].concat());
    let found: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", text(&out.stdout), text(&out.stderr)));
    let found = found.as_array().expect("an array").iter().map(|f| {
        let word = |key: &str| f[key].as_str().expect("a string").to_owned();
        format!("{}: {} {}", word("file"), word("rule"), word("severity"))
    });
    (found.collect(), out.status.code())
}

#[test]
fn sarif_says_everything_and_its_parts_fit_together() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), ".git/HEAD", "ref: refs/heads/main\n");
    write(dir.path(), "src/a b.hip", &format!("// é𝄞\n{BALLOT}"));
    write(dir.path(), "src/binary.hip", "a\0b");
    let sub = dir.path().join("src");
    let out = hipsmith_in(
        &sub,
        &["check", "--format", "sarif", "a b.hip", "binary.hip"],
    );
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let log: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "utf16CodeUnits");
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    assert_eq!(run["invocations"][0]["exitCode"], 2);
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert!(!results.is_empty());
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/a%20b.hip");
        assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
        let base = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
            .as_str()
            .expect("a base");
        assert!(
            base.starts_with("file:///") && base.ends_with('/'),
            "{base}"
        );
        let number = |key: &str| place["region"][key].as_u64().expect("a number");
        assert!(number("startLine") >= 2 && number("endLine") >= number("startLine"));
        assert!(
            ["error", "warning", "note"]
                .iter()
                .any(|l| result["level"] == *l)
        );
    }
    let fixed = results
        .iter()
        .find(|r| r.get("fixes").is_some())
        .expect("a fix");
    let change = &fixed["fixes"][0]["artifactChanges"][0]["replacements"][0];
    assert!(change["deletedRegion"]["startLine"].is_u64());
    assert!(change["insertedContent"]["text"].is_string());
}

#[test]
fn github_commands_stand_one_on_a_line() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), ".git/HEAD", "ref: refs/heads/main\n");
    write(dir.path(), "src/a.hip", BALLOT);
    let out = hipsmith_in(
        &dir.path().join("src"),
        &["check", "--format", "github", "."],
    );
    assert_eq!(out.status.code(), Some(1));
    let lines = text(&out.stdout);
    let error = lines
        .lines()
        .find(|l| l.starts_with("::error "))
        .expect("an error");
    assert!(
        error.starts_with("::error file=src/a.hip,line=2,col=")
            && error.contains(",endLine=2,title=hipsmith%3A ballot-in-32-bits::"),
        "{error}"
    );
    assert!(lines.lines().all(|l| l.starts_with("::")), "{lines}");
}

#[test]
fn the_order_of_the_output_does_not_change() {
    let dir = tempfile::tempdir().expect("a folder");
    for i in 0..40 {
        write(
            dir.path(),
            &format!("f{i}.hip"),
            &BALLOT.repeat(1 + (i * 7) % 11),
        );
    }
    let first = hipsmith_in(dir.path(), &["check", "."]).stdout;
    for _ in 0..3 {
        assert!(hipsmith_in(dir.path(), &["check", "."]).stdout == first);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_check_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let big = BALLOT.replace("k(", "k@(").repeat(4000);
    for i in 0..60 {
        write(
            dir.path(),
            &format!("f{i}.hip"),
            &big.replace('@', &i.to_string()),
        );
    }
    let mut child = Command::new(hipsmith())
        .args(["check", "--format", "json", "."])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("hipsmith starts");
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        child.try_wait().expect("a child").is_none(),
        "it is still at work"
    );
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(status.expect("kill runs").success());
    let start = Instant::now();
    let out = child.wait_with_output().expect("it ends");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert!(!out.status.success() && out.stdout.is_empty());
}

#[test]
fn fix_shows_a_diff_writes_and_is_done_after_that() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "a.hip", BALLOT);
    write(
        dir.path(),
        "clean.hip",
        "__global__ void c(float* x) { x[0] = 1; }\n",
    );
    let out = hipsmith_in(dir.path(), &["fix", "--diff", "."]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let diff = text(&out.stdout);
    assert!(
        diff.starts_with("--- a/a.hip\n+++ b/a.hip\n@@ ")
            && diff.contains("\n-  unsigned m = __ballot(p);\n")
            && !diff.contains("clean.hip"),
        "{diff}"
    );
    assert_eq!(read(dir.path(), "a.hip"), BALLOT);

    let out = hipsmith_in(dir.path(), &["fix", "."]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("ballot-in-32-bits 1"),
        "{}",
        text(&out.stdout)
    );
    let fixed = read(dir.path(), "a.hip");
    assert!(fixed.contains("__popcll(m)"), "{fixed}");
    assert_eq!(findings(dir.path(), &["."]), (Vec::new(), Some(0)));
    let out = hipsmith_in(dir.path(), &["fix", "--diff", "."]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 0));
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 2);
}

#[cfg(unix)]
#[test]
fn fix_keeps_rights_links_and_bytes_that_are_no_text() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    let mut bytes = b"// \xe9\r\n".to_vec();
    bytes.extend(BALLOT.replace('\n', "\r\n").as_bytes());
    let real = dir.path().join("real.hip");
    std::fs::write(&real, &bytes).expect("written");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("set");
    std::os::unix::fs::symlink("real.hip", dir.path().join("link.hip")).expect("linked");
    let out = hipsmith_in(dir.path(), &["fix", "link.hip"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let link = std::fs::symlink_metadata(dir.path().join("link.hip")).expect("there");
    assert!(link.is_symlink());
    let mode = std::fs::metadata(&real)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    let now = std::fs::read(&real).expect("there");
    assert!(now.starts_with(b"// \xe9\r\n") && text(&now).contains("__popcll(m);\r\n"));

    std::fs::write(&real, &bytes).expect("written");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o440)).expect("set");
    let out = hipsmith_in(dir.path(), &["fix", "real.hip"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("read-only"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(std::fs::read(&real).expect("there"), bytes);
}

#[test]
fn suppressions_silence_and_unused_ones_are_found_and_fixed() {
    let dir = tempfile::tempdir().expect("a folder");
    let allowed = BALLOT.replace(
        "(p);",
        "(p); // hipsmith: allow(ballot-in-32-bits) 32 lanes",
    );
    write(dir.path(), "a.hip", &allowed);
    let stale =
        "__global__ void c(float* x) {\n  x[0] = 1; // hipsmith: allow(ballot-in-32-bits)\n}\n";
    write(dir.path(), "b.hip", stale);
    let (found, code) = findings(dir.path(), &["."]);
    assert_eq!(found, ["./b.hip: unused-suppression hint"]);
    assert_eq!(code, Some(0));
    for args in [
        &["--disable", "unused-suppression", "."][..],
        &["--disable", "ballot-in-32-bits", "b.hip"],
        &["--only", "ballot-in-32-bits", "."],
    ] {
        assert_eq!(
            findings(dir.path(), args).0,
            Vec::<String>::new(),
            "{args:?}"
        );
    }
    assert_eq!(
        hipsmith_in(dir.path(), &["fix", "."]).status.code(),
        Some(0)
    );
    assert_eq!(
        read(dir.path(), "b.hip"),
        stale.replace(" // hipsmith: allow(ballot-in-32-bits)", "")
    );
    assert_eq!(read(dir.path(), "a.hip"), allowed);
}

#[test]
fn a_project_sets_levels_target_and_macros() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "src/a.hip", BALLOT);
    let level = |level: &str| {
        write(
            dir.path(),
            "hipsmith.toml",
            &format!("target = \"gfx906\"\n[rules]\nballot-in-32-bits = \"{level}\"\n"),
        );
        findings(dir.path(), &["src"])
    };
    let one = |severity: &str| vec![format!("src/a.hip: ballot-in-32-bits {severity}")];
    assert_eq!(level("error"), (one("error"), Some(1)));
    assert_eq!(level("hint"), (one("hint"), Some(0)));
    assert_eq!(level("off"), (Vec::new(), Some(0)));
    assert_eq!(
        findings(dir.path(), &["--only", "ballot-in-32-bits", "src"]),
        (one("error"), Some(1))
    );
    let out = hipsmith_in(dir.path(), &["check", "src"]);
    assert!(
        text(&out.stdout).contains("(target gfx906)"),
        "{}",
        text(&out.stdout)
    );
    assert_eq!(level("warning"), (one("warning"), Some(0)));
    assert_eq!(
        findings(dir.path(), &["--fail-on", "warning", "src"]).1,
        Some(1)
    );

    // A macro decides what is compiled, from either file.
    write(
        dir.path(),
        "src/a.hip",
        &format!("#ifdef WITH_K\n{BALLOT}#endif\n"),
    );
    write(dir.path(), "hipsmith.toml", "");
    assert_eq!(findings(dir.path(), &["src"]), (Vec::new(), Some(0)));
    write(dir.path(), "hipsmith.toml", "defines = [\"WITH_K\"]\n");
    assert_eq!(findings(dir.path(), &["src"]), (one("error"), Some(1)));
    write(
        dir.path(),
        "hipsmith.toml",
        "compile_commands = \"out/cc.json\"\n",
    );
    write(
        dir.path(),
        "out/cc.json",
        "[{\"directory\": \"../src\", \"file\": \"a.hip\", \"command\": \"hipcc -DWITH_K --offload-arch=gfx936 a.hip\"}]",
    );
    assert_eq!(findings(dir.path(), &["src"]), (one("error"), Some(1)));
    let out = hipsmith_in(dir.path(), &["check", "src"]);
    assert!(
        text(&out.stdout).contains("(target gfx936)"),
        "{}",
        text(&out.stdout)
    );
}

#[test]
fn a_mistake_in_the_project_file_is_told_with_its_line() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "a.hip", BALLOT);
    for (toml, said) in [
        (
            "\ntargt = \"gfx906\"\n",
            "hipsmith.toml:2: unknown field `targt`",
        ),
        (
            "[rules]\nballot-in-32-bit = \"off\"\n",
            "hipsmith.toml:2: there is no rule `ballot-in-32-bit`; did you mean `ballot-in-32-bits`",
        ),
        ("compile_commands = \"none.json\"\n", "which is no file"),
    ] {
        write(dir.path(), "hipsmith.toml", toml);
        let out = hipsmith_in(dir.path(), &["check", "a.hip"]);
        assert_eq!(out.status.code(), Some(2), "{toml}");
        assert!(
            text(&out.stderr).contains(said),
            "{toml}: {}",
            text(&out.stderr)
        );
        // The file is checked all the same.
        assert!(text(&out.stdout).contains("ballot-in-32-bits"));
    }
}

#[test]
fn a_baseline_leaves_out_the_old_findings_and_only_those() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "src/a.hip", &BALLOT.repeat(2));
    let out = hipsmith_in(
        dir.path(),
        &["check", "--write-baseline", "ci/base.json", "src"],
    );
    assert_eq!(
        out.status.code(),
        Some(2),
        "no folder is made: {}",
        text(&out.stdout)
    );
    write(dir.path(), "ci/x", "");
    let out = hipsmith_in(
        dir.path(),
        &["check", "--write-baseline", "ci/base.json", "src"],
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("2 findings written"),
        "{}",
        text(&out.stdout)
    );
    let known = ["--baseline", "../ci/base.json", "."];
    let sub = dir.path().join("src");
    assert_eq!(findings(&sub, &known), (Vec::new(), Some(0)));
    // The lines move and are indented anew: still the old ones. A third like them is new.
    let moved = format!("\n\n{}", BALLOT.replace("  unsigned", "\tunsigned"));
    write(dir.path(), "src/a.hip", &moved.repeat(2));
    assert_eq!(findings(&sub, &known), (Vec::new(), Some(0)));
    write(dir.path(), "src/a.hip", &moved.repeat(3));
    assert_eq!(
        findings(&sub, &known),
        (vec!["./a.hip: ballot-in-32-bits error".to_owned()], Some(1))
    );
    // In another file it is new, too.
    write(dir.path(), "src/a.hip", &moved);
    write(dir.path(), "src/b.hip", BALLOT);
    assert_eq!(
        findings(&sub, &known),
        (vec!["./b.hip: ballot-in-32-bits error".to_owned()], Some(1))
    );
    let out = hipsmith_in(&sub, &[&["check"], &known[..]].concat());
    assert!(
        text(&out.stderr).contains("1 finding of the baseline no longer found"),
        "{}",
        text(&out.stderr)
    );
    assert!(
        text(&out.stdout).contains("1 finding of the baseline not shown"),
        "{}",
        text(&out.stdout)
    );
    write(dir.path(), "ci/base.json", "[]");
    assert_eq!(
        hipsmith_in(&sub, &[&["check"], &known[..]].concat())
            .status
            .code(),
        Some(2)
    );
}
