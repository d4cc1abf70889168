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

/// A checked file.
struct Checked {
    text: String,
    document: Document,
    found: Vec<Diagnostic>,
}

fn checked(path: &Path) -> Option<Checked> {
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let target = hipsmith_target::by_name("gfx906")?;
    let options = Options {
        target,
        ..Options::default()
    };
    let document = Document::with_options(text.clone(), 0, Arc::new(options));
    let found = check(&document, &Config::default());
    Some(Checked {
        text,
        document,
        found,
    })
}

impl Checked {
    /// Whether a finding stands within three lines of one of `lines`, or in the same function.
    fn is_at(&self, d: &Diagnostic, lines: &[usize]) -> bool {
        let (first, last) = (
            line_of(&self.text, d.range.start),
            line_of(&self.text, d.range.end),
        );
        let model = self.document.model();
        let function = model.function_at(d.range.start);
        lines.iter().any(|l| {
            let start = self
                .text
                .split_inclusive('\n')
                .take(l.saturating_sub(1))
                .map(str::len)
                .sum();
            first <= l + 3 && *l <= last + 3
                || function.is_some() && function == model.function_at(start)
        })
    }
}

/// Cases found and all, and findings at labels and false ones.
#[derive(Clone, Copy, Default)]
struct Tally {
    hit: usize,
    cases: usize,
    right: usize,
    alarms: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |part: usize, all: usize| match all {
            0 => "-".to_owned(),
            _ => format!("{:.1} %", 100.0 * part as f64 / all as f64),
        };
        write!(
            f,
            "recall {}/{} ({}), {} findings at labels, {} false alarms, precision {}",
            self.hit,
            self.cases,
            percent(self.hit, self.cases),
            self.right,
            self.alarms,
            percent(self.right, self.right + self.alarms)
        )
    }
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
    let mut patterns: BTreeMap<String, Tally> = BTreeMap::new();
    // By kind and how far one has to look for the fault; "-" holds the alarms of files without one.
    let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
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
        let Some(before) = checked(&folder.join(get("before"))) else {
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
        let detect = if class == "positive" {
            get("detect")
        } else {
            "-".to_owned()
        };
        for d in &before.found {
            let family = d.family.letter().to_owned();
            let first = line_of(&before.text, d.range.start);
            let counts = d.severity != Severity::Hint;
            let labelled = class == "positive"
                && counts
                && labels
                    .iter()
                    .any(|(k, ls)| *k == family && before.is_at(d, ls));
            let marked = labels
                .iter()
                .any(|(k, ls)| *k == family && ls.contains(&first));
            let alarm = innocent.contains(&first) && !marked
                || counts && clean.contains(&family)
                || counts && class == "latent32" && family == "W";
            let tally = tallies.entry((family, detect.clone())).or_default();
            let mark = if alarm {
                tally.alarms += 1;
                "FALSE"
            } else if labelled {
                tally.right += 1;
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
        if class != "positive" {
            continue;
        }
        let (k, ls) = &labels[0];
        let at = before
            .found
            .iter()
            .any(|d| d.family.letter() == k && d.severity != Severity::Hint && before.is_at(d, ls));
        let pattern = get("pattern");
        let tally = tallies.entry((k.clone(), detect.clone())).or_default();
        for t in [patterns.entry(format!("{k} {pattern}")).or_default(), tally] {
            t.cases += 1;
            t.hit += usize::from(at);
        }
        if !at {
            missed.push(format!("{id} ({pattern}, {detect}): {}", get("what")));
        }
        // The project's own repair, where the labels call it complete.
        if get("after_clean") != "true" {
            continue;
        }
        let Some(after) = checked(&folder.join(get("after"))) else {
            continue;
        };
        for d in &after.found {
            if d.family.letter() != k || d.severity == Severity::Hint {
                continue;
            }
            if let Some(t) = tallies.get_mut(&(k.clone(), detect.clone())) {
                t.alarms += 1;
            }
            println!(
                "FALSE {id}:{} [after] {} {}: {}",
                line_of(&after.text, d.range.start),
                d.rule,
                d.severity.name(),
                d.message
            );
        }
    }
    println!("\nrecall by pattern (cases found / cases)");
    for (pattern, t) in &patterns {
        println!("  {pattern}: {}/{}", t.hit, t.cases);
    }
    println!("by kind and detectability");
    let mut by_kind: BTreeMap<&str, Tally> = BTreeMap::new();
    for ((kind, detect), t) in &tallies {
        println!("  {kind} {detect}: {t}");
        for name in [kind.as_str(), "all"] {
            let sum = by_kind.entry(name).or_default();
            sum.hit += t.hit;
            sum.cases += t.cases;
            sum.right += t.right;
            sum.alarms += t.alarms;
        }
    }
    println!("by kind");
    for (kind, t) in by_kind {
        println!("  {kind}: {t}");
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
    let kernel = text[middle..].find("__global__").map(|p| middle + p);
    let kernel = kernel.or_else(|| text.find("__global__")).unwrap_or(middle);
    let at = text[kernel..]
        .find("{\n")
        .map_or(middle, |p| kernel + p + 2);
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
