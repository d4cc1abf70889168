//! Precision and recall of the rules on the shared corpus, and what fires on the bulk sources.
//!
//! `cargo run --release -p hipsmith-lint --example score [-- --list | --bulk | --time FILE]`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_lint::{Config, Diagnostic, Severity, check};
use hipsmith_syntax::{Document, Options};

fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("HIPSMITH_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    path.join("corpus/cases").is_dir().then_some(path)
}

fn findings(path: &Path) -> Option<(String, Vec<Diagnostic>)> {
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let target = hipsmith_target::by_name("gfx906")?;
    let options = Options {
        target,
        ..Options::default()
    };
    let document = Document::with_options(text.clone(), 0, Arc::new(options));
    Some((text, check(&document, &Config::default())))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn lines(value: Option<&toml::Value>) -> Vec<usize> {
    value
        .and_then(|v| v.as_array())
        .into_iter()
        .flatten()
        .filter_map(|v| usize::try_from(v.as_integer()?).ok())
        .collect()
}

fn main() {
    let list = std::env::args().any(|a| a == "--list");
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    if let Some(file) = std::env::args().skip_while(|a| a != "--time").nth(1) {
        time(Path::new(&file));
        return;
    }
    if std::env::args().any(|a| a == "--bulk") {
        bulk(&shared.join("corpus/bulk"));
        return;
    }
    let mut hit: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut alarms: BTreeMap<String, usize> = BTreeMap::new();
    let mut right: BTreeMap<String, usize> = BTreeMap::new();
    let mut missed = Vec::new();
    let mut folders: Vec<_> = std::fs::read_dir(shared.join("corpus/cases"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.join("case.toml").is_file())
        .collect();
    folders.sort();
    for folder in folders {
        let Some(case) = std::fs::read_to_string(folder.join("case.toml"))
            .ok()
            .and_then(|t| t.parse::<toml::Table>().ok())
        else {
            println!("{}: case.toml does not parse", folder.display());
            continue;
        };
        let get = |key: &str| {
            case.get(key)
                .and_then(|v| v.as_str())
                .unwrap_or("")
                .to_owned()
        };
        let (id, class, kind) = (get("id"), get("class"), get("kind"));
        if class == "unsure" {
            continue;
        }
        let Some((text, found)) = findings(&folder.join(get("before"))) else {
            continue;
        };
        let mut labels: Vec<(String, Vec<usize>)> = vec![(kind.clone(), lines(case.get("lines")))];
        for also in case
            .get("also")
            .and_then(|v| v.as_array())
            .into_iter()
            .flatten()
        {
            let kind = also
                .get("kind")
                .and_then(|v| v.as_str())
                .unwrap_or("")
                .to_owned();
            labels.push((kind, lines(also.get("lines"))));
        }
        let innocent: Vec<usize> = case
            .get("not_a_fault")
            .and_then(|v| v.as_array())
            .into_iter()
            .flatten()
            // Some labels say in words that a warning for ROCm 7 is right at their lines.
            .filter(|v| {
                !v.get("why")
                    .and_then(|w| w.as_str())
                    .is_some_and(|w| w.contains("ROCm 7 warning is correct"))
            })
            .flat_map(|v| lines(v.get("lines")))
            .collect();
        let clean: Vec<String> = case
            .get("clean_for")
            .and_then(|v| v.as_array())
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect();
        // A finding counts for a label at any of its ends, a few lines off.
        let ends = |d: &Diagnostic| {
            let mut out = vec![(line_of(&text, d.range.start), line_of(&text, d.range.end))];
            out.extend(
                d.related
                    .iter()
                    .map(|(r, _)| (line_of(&text, r.start), line_of(&text, r.end))),
            );
            out
        };
        for d in &found {
            let family = d.family.letter().to_owned();
            let first = line_of(&text, d.range.start);
            let labelled = class == "positive"
                && labels.iter().any(|(k, ls)| {
                    *k == family
                        && ls
                            .iter()
                            .any(|l| ends(d).iter().any(|(a, b)| *a <= l + 2 && *l <= b + 2))
                });
            let alarm = innocent.contains(&first) && !labelled
                || clean.contains(&family)
                || class == "latent32" && family == "W" && d.severity != Severity::Hint;
            let mark = if alarm {
                *alarms.entry(family).or_default() += 1;
                "FALSE"
            } else if labelled {
                *right.entry(family).or_default() += 1;
                "right"
            } else {
                "other"
            };
            if list || alarm {
                println!(
                    "{mark} {id}:{first} [{class}] {} {}: {}",
                    d.rule,
                    d.severity.name(),
                    d.message
                );
            }
        }
        if class == "positive" {
            let (k, ls) = &labels[0];
            let at = found.iter().any(|d| {
                d.family.letter() == k
                    && ls
                        .iter()
                        .any(|l| ends(d).iter().any(|(a, b)| *a <= l + 2 && *l <= b + 2))
            });
            let pattern = get("pattern");
            let entry = hit.entry(format!("{k} {pattern}")).or_default();
            entry.1 += 1;
            if at {
                entry.0 += 1;
            } else {
                missed.push(format!(
                    "{id} ({pattern}, {}): {}",
                    get("detect"),
                    get("what")
                ));
            }
        }
    }
    println!("\nrecall by pattern (cases found / cases)");
    let mut by_kind: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (pattern, (found, all)) in &hit {
        println!("  {pattern}: {found}/{all}");
        let kind = by_kind.entry(pattern[..1].to_owned()).or_default();
        kind.0 += found;
        kind.1 += all;
    }
    println!("by family");
    for (kind, (found, all)) in by_kind {
        let r = right.get(&kind).copied().unwrap_or(0);
        let a = alarms.get(&kind).copied().unwrap_or(0);
        let precision = if r + a == 0 {
            f64::NAN
        } else {
            100.0 * r as f64 / (r + a) as f64
        };
        println!(
            "  {kind}: recall {found}/{all}; {r} findings at labels, {a} false alarms, precision {precision:.0} %"
        );
    }
    println!("missed");
    for m in missed {
        println!("  {m}");
    }
}

fn bulk(root: &Path) {
    let mut files = Vec::new();
    let mut queue = vec![root.to_path_buf()];
    while let Some(folder) = queue.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            if path.is_dir() {
                queue.push(path);
            } else if [".cu", ".h", ".hip", ".cuh", ".hpp", ".cpp"]
                .iter()
                .any(|e| name.ends_with(e))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    let begun = std::time::Instant::now();
    let (mut bytes, mut count) = (0, 0);
    let mut slowest = Vec::new();
    let mut by_rule: BTreeMap<(&str, Severity), usize> = BTreeMap::new();
    for path in files {
        let Ok(raw) = std::fs::read(&path) else {
            continue;
        };
        let text = String::from_utf8_lossy(&raw).into_owned();
        let Some(target) = hipsmith_target::by_name("gfx906") else {
            return;
        };
        let options = Options {
            target,
            ..Options::default()
        };
        let document = Document::with_options(text.clone(), 0, Arc::new(options));
        let parsed = std::time::Instant::now();
        let _ = document.model();
        let modelled = parsed.elapsed();
        let checked = std::time::Instant::now();
        let found = check(&document, &Config::default());
        slowest.push((checked.elapsed(), modelled, text.len(), path.clone()));
        bytes += text.len();
        count += 1;
        for d in found {
            *by_rule.entry((d.rule, d.severity)).or_default() += 1;
            let line = line_of(&text, d.range.start);
            let source = text.lines().nth(line - 1).unwrap_or("").trim();
            let short = path.strip_prefix(root).unwrap_or(&path).display();
            println!(
                "{short}:{line} {} {}: {} | {source}",
                d.rule,
                d.severity.name(),
                d.message
            );
        }
    }
    println!(
        "{count} files, {bytes} bytes, {:?} with parsing",
        begun.elapsed()
    );
    slowest.sort();
    for (check, model, len, path) in slowest.iter().rev().take(8) {
        println!(
            "  check {check:?}, model {model:?}, {len} bytes: {}",
            path.display()
        );
    }
    for ((rule, severity), n) in by_rule {
        println!("  {rule} {}: {n}", severity.name());
    }
}

/// The shortest of many runs of the check of one file, whole and by rule: what is left of it without other load.
fn time(path: &Path) {
    let Ok(raw) = std::fs::read(path) else {
        println!("{}: cannot be read", path.display());
        return;
    };
    let text = String::from_utf8_lossy(&raw).into_owned();
    let fastest = |f: &mut dyn FnMut()| {
        (0..20)
            .map(|_| {
                let begun = std::time::Instant::now();
                f();
                begun.elapsed()
            })
            .min()
            .unwrap_or_default()
    };
    let document = Document::new(text.clone());
    let _ = document.model();
    println!("{} bytes", text.len());
    let mut parser = tree_sitter::Parser::new();
    let _ = parser.set_language(&hipsmith_syntax::language());
    let bare = fastest(&mut || {
        std::hint::black_box(parser.parse(document.masked(), None));
    });
    println!("bare parse: {bare:?}");
    let read = fastest(&mut || {
        std::hint::black_box(Document::new(text.clone()));
    });
    println!("document: {read:?}");
    let whole = fastest(&mut || {
        std::hint::black_box(Document::new(text.clone()).model());
    });
    println!("document and model: {whole:?}");
    let middle = text.floor_char_boundary(text.len() / 2);
    let at = text[middle..].find(';').map_or(middle, |p| middle + p + 1);
    let mut typed = document.clone();
    let mut on = false;
    let mut letter = |typed: &mut Document| {
        on = !on;
        let edit = hipsmith_syntax::Edit {
            range: at..at + usize::from(!on),
            text: if on { ";".into() } else { String::new() },
        };
        typed.apply(&[edit], 1);
    };
    let edit = fastest(&mut || letter(&mut typed));
    println!("a letter: {edit:?}");
    let edit = fastest(&mut || {
        letter(&mut typed);
        let _ = typed.model();
    });
    println!("a letter and the model: {edit:?}");
    let edit = fastest(&mut || {
        letter(&mut typed);
        std::hint::black_box(check(&typed, &Config::default()));
    });
    println!("a letter and the check: {edit:?}");
    let mut cache = hipsmith_lint::Cache::default();
    let edit = fastest(&mut || {
        letter(&mut typed);
        std::hint::black_box(hipsmith_lint::check_again(
            &typed,
            &Config::default(),
            Some(&mut cache),
        ));
    });
    println!("a letter and the check of what it touches: {edit:?}");
    let shortest = |config: &Config| {
        (0..40)
            .map(|_| {
                let begun = std::time::Instant::now();
                std::hint::black_box(check(&document, config));
                begun.elapsed()
            })
            .min()
            .unwrap_or_default()
    };
    println!("all: {:?}", shortest(&Config::default()));
    let none = Config {
        only: ["none".to_owned()].into(),
        ..Config::default()
    };
    println!("facts alone: {:?}", shortest(&none));
    for r in hipsmith_lint::rules() {
        let config = Config {
            only: [r.id.to_owned()].into(),
            ..Config::default()
        };
        println!("  {}: {:?}", r.id, shortest(&config));
    }
}
