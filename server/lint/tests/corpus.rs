//! No finding where the corpus says that nothing is wrong.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_lint::{Config, Severity, check};
use hipsmith_syntax::{Document, Options};

fn cases() -> Option<PathBuf> {
    let path = std::env::var_os("HIPSMITH_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"))
        .join("corpus/cases");
    path.is_dir().then_some(path)
}

fn list<'v>(case: &'v toml::Table, key: &str) -> impl Iterator<Item = &'v toml::Value> {
    case.get(key)
        .and_then(|v| v.as_array())
        .into_iter()
        .flatten()
}

/// Clean and trap files are silent in the families that they are clean for; 32-lane code that is right gets hints at
/// most; lines that only look bad are silent. Labels that call a warning for ROCm 7 right at their lines are taken at
/// their word.
#[test]
fn silent_where_nothing_is_wrong() {
    let Some(cases) = cases() else {
        println!("skipped: no shared data");
        return;
    };
    let target = hipsmith_target::by_name("gfx906").expect("gfx906 is a target");
    let mut alarms = Vec::new();
    let mut files = 0;
    for folder in std::fs::read_dir(cases).into_iter().flatten().flatten() {
        let Some(case) = std::fs::read_to_string(folder.path().join("case.toml"))
            .ok()
            .and_then(|t| t.parse::<toml::Table>().ok())
        else {
            continue;
        };
        let get = |key: &str| case.get(key).and_then(|v| v.as_str()).unwrap_or("");
        let class = get("class");
        if class == "unsure" {
            continue;
        }
        let Ok(bytes) = std::fs::read(folder.path().join(get("before"))) else {
            continue;
        };
        files += 1;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let faults: Vec<i64> = list(&case, "lines")
            .filter_map(|v| v.as_integer())
            .collect();
        let innocent: Vec<i64> = list(&case, "not_a_fault")
            .filter(|v| {
                let why = v.get("why").and_then(|w| w.as_str()).unwrap_or("");
                !why.contains("ROCm 7 warning is correct")
            })
            .flat_map(|v| {
                v.get("lines")
                    .and_then(|l| l.as_array())
                    .into_iter()
                    .flatten()
            })
            .filter_map(|v| v.as_integer())
            .filter(|l| !faults.contains(l))
            .collect();
        let clean: Vec<&str> = list(&case, "clean_for")
            .filter_map(|v| v.as_str())
            .collect();
        let options = Options {
            target,
            ..Options::default()
        };
        let document = Document::with_options(text.clone(), 0, Arc::new(options));
        for d in check(&document, &Config::default()) {
            let line = text[..d.range.start].matches('\n').count() as i64 + 1;
            let letter = d.family.letter();
            if clean.contains(&letter)
                || innocent.contains(&line)
                || class == "latent32" && letter == "W" && d.severity != Severity::Hint
            {
                alarms.push(format!("{}:{line} {}: {}", get("id"), d.rule, d.message));
            }
        }
    }
    assert!(files > 50, "only {files} cases could be read");
    assert!(alarms.is_empty(), "{alarms:#?}");
}
