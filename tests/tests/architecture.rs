//! What ARCHITECTURE.md claims about the shape of the code, checked against the code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hipsmith_tests::root;

fn files_below(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && name != "build" && name != ".git" {
                files_below(&path, ending, found);
            }
        } else if name.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    files_below(&root().join(dir), ".rs", &mut files);
    assert!(!files.is_empty(), "no sources under {dir}");
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// Whether a file is built for tests only: it lies in a test folder, or a neighbour declares it so.
fn only_tests(path: &Path, all: &[(PathBuf, String)]) -> bool {
    let in_folder = path
        .strip_prefix(root())
        .unwrap_or(path)
        .components()
        .any(|c| {
            ["tests", "benches", "examples"]
                .iter()
                .any(|t| c.as_os_str() == *t)
        });
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let declared = format!("#[cfg(test)]\nmod {stem};");
    in_folder
        || all
            .iter()
            .any(|(other, text)| other.parent() == path.parent() && text.contains(&declared))
}

/// The part of a source file that ships: everything before its unit tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// The sources under `server/` that end in what users run.
fn shipped_sources(dir: &str) -> Vec<(PathBuf, String)> {
    let all = sources(dir);
    all.iter()
        .filter(|(path, _)| !only_tests(path, &all))
        .cloned()
        .collect()
}

/// Workspace crates and what each depends on, outside tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let mut manifests = Vec::new();
    files_below(&root().join("server"), "Cargo.toml", &mut manifests);
    manifests
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.parent().unwrap().file_name().unwrap();
            let uses = text
                .split("[dependencies]")
                .nth(1)
                .unwrap_or("")
                .lines()
                .skip(1)
                .take_while(|line| !line.starts_with('['))
                .filter_map(|line| line.split(['.', ' ', '=']).next())
                .filter(|word| !word.is_empty() && !word.starts_with('#'))
                .map(str::to_owned)
                .collect();
            (name.to_string_lossy().into_owned(), uses)
        })
        .collect()
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = page
        .split("## Invariants")
        .nth(1)
        .expect("ARCHITECTURE.md lists the invariants")
        .split("\n## ")
        .next()
        .unwrap();
    let all: String = sources("server")
        .into_iter()
        .chain(sources("tests"))
        .map(|(_, text)| text)
        .collect();
    let mut invariants = 0;
    for item in section.lines().filter(|line| {
        line.chars().next().is_some_and(|c| c.is_ascii_digit()) && line.contains(". ")
    }) {
        invariants += 1;
        let (_, tests) = item
            .split_once("Held by")
            .unwrap_or_else(|| panic!("this invariant names no test: {item}"));
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "this invariant names no test: {item}");
        for name in names {
            let function = name.rsplit("::").next().unwrap();
            assert!(
                all.contains(&format!("fn {function}(")),
                "`{name}` does not exist; named by: {item}"
            );
        }
    }
    assert!(invariants >= 10, "only {invariants} invariants found");
}

#[test]
fn only_the_lsp_crate_knows_lsp() {
    for (name, uses) in dependencies() {
        let knows = uses.iter().any(|u| u == "tower-lsp" || u == "lsp-types");
        assert_eq!(knows, name == "lsp", "{name} and LSP types");
    }
}

#[test]
fn dependencies_point_downwards_only() {
    // From top to bottom; a crate may use what stands below it.
    let floors = [
        "hipsmith",
        "lsp",
        "rounds",
        "devices",
        "runtime",
        "profile",
        "simulator",
        "project",
        "lint",
        "headers",
        "syntax",
        "target",
        "process",
    ];
    let floor = |name: &str| floors.iter().position(|f| *f == name);
    for (name, uses) in dependencies() {
        let own = floor(&name).unwrap_or_else(|| panic!("{name} has no floor in this test"));
        for used in uses.iter().filter_map(|u| u.strip_prefix("hipsmith-")) {
            assert!(
                floor(used).is_some_and(|below| below > own),
                "{name} uses {used}, which does not stand below it"
            );
        }
    }
}

#[test]
fn analysis_does_no_io() {
    for dir in ["server/syntax/src", "server/target/src", "server/lint/src"] {
        for (path, text) in shipped_sources(dir) {
            for word in [
                "std::fs",
                "std::process",
                "std::net",
                "std::env",
                "println!",
                "eprintln!",
            ] {
                assert!(
                    !shipped(&text).contains(word),
                    "{} uses {word}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn programs_are_started_in_one_place() {
    for (path, text) in shipped_sources("server") {
        if path.starts_with(root().join("server/process")) {
            continue;
        }
        assert!(
            !shipped(&text).contains("process::Command")
                && !shipped(&text).contains("Command::new"),
            "{} starts a program without hipsmith-process",
            path.display()
        );
    }
}
