//! `hipsmith check`: find faults in files and folders, on all cores.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use hipsmith_lint::{Config, Diagnostic, Family, Safety, Severity};
use hipsmith_syntax::{Document, Encoding, MAX_BYTES, Options, is_hip};
use hipsmith_target::Target;
use rayon::prelude::*;
use serde_json::{Value, json};

/// Find faults in HIP files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and folders to search for HIP sources (files that git ignores are left out).
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How to print what is found. In JSON, lines and columns count from 1, columns in bytes; an end is exclusive.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The target, such as gfx928.
    #[arg(long, default_value_t = hipsmith_target::default_target().name.clone())]
    target: String,
    /// A macro as the compiler is given it: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Run only these rules.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    only: Vec<String>,
    /// Do not run these rules.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    disable: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// For people: each finding with its lines.
    Text,
    /// An array of objects.
    Json,
}

/// One file's outcome.
struct Checked {
    path: PathBuf,
    result: Result<Option<(Document, Vec<Diagnostic>)>, String>,
}

/// 0: no errors found; 1: errors found; 2: a usage fault or a file that could not be checked.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("hipsmith check: {why}");
            ExitCode::from(2)
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
            "unknown target `{}`; known are {}",
            args.target,
            known.join(", ")
        )
    })?;
    let config = config(args)?;
    let options = Arc::new(Options {
        target,
        defines: args.defines.iter().map(|d| define(d)).collect(),
        ..Options::default()
    });
    let (files, mut troubles) = find(&args.paths);
    let checked: Vec<Checked> = files
        .into_par_iter()
        .map(|(path, named)| {
            let result = read(&path, named).map(|text| {
                text.filter(|text| is_hip(text, &path.to_string_lossy()))
                    .map(|text| {
                        let document = Document::with_options(text, 0, options.clone());
                        let found = hipsmith_lint::check(&document, &config);
                        (document, found)
                    })
            });
            Checked { path, result }
        })
        .collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut counts = [0usize; 3];
    let mut files = 0usize;
    let mut assumed_banks = false;
    let mut objects = Vec::new();
    let mut unparsed = Vec::new();
    let renderer = if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    for one in &checked {
        match &one.result {
            Err(why) => troubles.push(why.clone()),
            Ok(None) => {}
            Ok(Some((document, found))) => {
                files += 1;
                if !document.is_parsed() {
                    troubles.push(format!(
                        "{}: could not be parsed in reasonable time",
                        one.path.display()
                    ));
                } else if let Some(at) = document.first_error() {
                    let place = document.position(at, Encoding::Utf8);
                    unparsed.push(format!(
                        "{}:{}:{}: not understood here; the code around it was not checked",
                        one.path.display(),
                        place.line + 1,
                        place.column + 1
                    ));
                }
                for d in found {
                    counts[match d.severity {
                        Severity::Error => 0,
                        Severity::Warning => 1,
                        Severity::Hint => 2,
                    }] += 1;
                    assumed_banks |= d.family == Family::B && !target.lds.banks_known;
                    match args.format {
                        Format::Json => objects.push(object(&one.path, document, d)),
                        // A reader that closes the pipe early has seen enough.
                        Format::Text => {
                            let _ =
                                writeln!(out, "{}\n", render(&renderer, &one.path, document, d));
                        }
                    }
                }
            }
        }
    }
    match args.format {
        Format::Json => {
            let _ = writeln!(out, "{:#}", Value::Array(objects));
        }
        Format::Text => {
            let _ = out.write_all(summary(counts, files, target, assumed_banks).as_bytes());
        }
    }
    let _ = out.flush();
    for why in unparsed.iter().chain(&troubles) {
        eprintln!("hipsmith check: {why}");
    }
    Ok(if !troubles.is_empty() {
        ExitCode::from(2)
    } else if counts[0] > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

fn config(args: &Args) -> Result<Config, String> {
    let rules = |names: &[String]| -> Result<BTreeSet<String>, String> {
        for name in names {
            if hipsmith_lint::rule(name).is_none() {
                return Err(format!(
                    "there is no rule `{name}`; `hipsmith explain` lists the rules"
                ));
            }
        }
        Ok(names.iter().cloned().collect())
    };
    Ok(Config {
        disabled: rules(&args.disable)?,
        only: rules(&args.only)?,
    })
}

fn define(text: &str) -> (String, String) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text.to_owned(), "1".to_owned()),
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn summary(counts: [usize; 3], files: usize, target: &Target, assumed_banks: bool) -> String {
    let mut text = format!(
        "{}, {}, {} in {} (target {})\n",
        count(counts[0], "error"),
        count(counts[1], "warning"),
        count(counts[2], "hint"),
        count(files, "HIP file"),
        target.name
    );
    if assumed_banks {
        text.push_str(&format!(
            "LDS bank conflicts on {} assume {} banks: its bank count is not published.\n",
            target.name, target.lds.banks
        ));
    }
    text
}

/// The files to check, in order, with whether the user named them; and what could not be looked at.
fn find(paths: &[PathBuf]) -> (Vec<(PathBuf, bool)>, Vec<String>) {
    let mut files = BTreeSet::new();
    let mut troubles = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Err(e) => troubles.push(format!("{}: {e}", path.display())),
            Ok(m) if m.is_dir() => {
                for entry in ignore::WalkBuilder::new(path).build() {
                    match entry {
                        Ok(e) => {
                            let is_file = e.file_type().is_some_and(|t| t.is_file());
                            if is_file && is_source(e.path()) {
                                files.insert((e.into_path(), false));
                            }
                        }
                        Err(e) => troubles.push(e.to_string()),
                    }
                }
            }
            Ok(m) if m.is_file() => {
                files.insert((path.clone(), true));
            }
            // Reading a pipe or a device could wait for ever.
            Ok(_) => troubles.push(format!("{}: neither a file nor a folder", path.display())),
        }
    }
    (files.into_iter().collect(), troubles)
}

fn is_source(path: &Path) -> bool {
    const EXTENSIONS: [&str; 12] = [
        "hip", "cu", "cuh", "hiph", "h", "hh", "hpp", "hxx", "cpp", "cc", "cxx", "inl",
    ];
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| EXTENSIONS.contains(&e))
}

/// A file's text. Bytes that are not UTF-8 become `?`, one for one, so that places stay right. `None` for a file found
/// in a folder that is no text (a `.h` can be anything); an error for one that the user named.
fn read(path: &Path, named: bool) -> Result<Option<String>, String> {
    let say = |why: String| Err(format!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64;
    let read = fs::File::open(path).and_then(|f| f.take(limit + 1).read_to_end(&mut bytes));
    if let Err(e) = read {
        return say(format!("cannot be read: {e}"));
    }
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return if named {
            say("is a binary file; hipsmith checks HIP source text".to_owned())
        } else {
            Ok(None)
        };
    }
    if bytes.len() as u64 > limit {
        return say(format!("is larger than {} MiB; not checked", limit >> 20));
    }
    Ok(Some(into_text(bytes)))
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| {
        let mut text = String::new();
        for chunk in e.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        text
    })
}

/// 1-based line and column, in bytes, of both ends.
fn place(document: &Document, range: &Range<usize>) -> [u32; 4] {
    let start = document.position(range.start, Encoding::Utf8);
    let end = document.position(range.end.max(range.start), Encoding::Utf8);
    [
        start.line + 1,
        start.column + 1,
        end.line + 1,
        end.column + 1,
    ]
}

fn object(path: &Path, document: &Document, d: &Diagnostic) -> Value {
    let [line, column, end_line, end_column] = place(document, &d.range);
    let mut value = json!({
        "file": path.to_string_lossy(),
        "rule": d.rule,
        "family": d.family.letter(),
        "severity": d.severity.name(),
        "line": line,
        "column": column,
        "endLine": end_line,
        "endColumn": end_column,
        "message": d.message,
    });
    if let Some(fix) = &d.fix {
        let edits: Vec<Value> = fix
            .edits
            .iter()
            .map(|(range, text)| {
                let [line, column, end_line, end_column] = place(document, range);
                json!({
                    "line": line, "column": column, "endLine": end_line, "endColumn": end_column, "text": text,
                })
            })
            .collect();
        value["fix"] = json!({ "title": fix.title, "safety": safety(fix.safety), "edits": edits });
    }
    value
}

fn safety(s: Safety) -> &'static str {
    match s {
        Safety::Safe => "safe",
        Safety::Unsafe => "unsafe",
        Safety::ShownOnly => "shown-only",
    }
}

/// Lines that a finding's excerpt shows at most.
const EXCERPT_LINES: u32 = 6;

fn render(renderer: &Renderer, path: &Path, document: &Document, d: &Diagnostic) -> String {
    let level = match d.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Hint => Level::HELP.with_name("hint"),
    };
    // The first sentence stands on top, the rest below the lines it is about.
    let (title, rest) = match d.message.split_once(". ") {
        Some((first, rest)) => (first, rest),
        None => (d.message.trim_end_matches('.'), ""),
    };
    let path = path.to_string_lossy().into_owned();
    let (snippet, related) = excerpt(document, d);
    let snippet = snippet.path(path);
    let mut group = level.primary_title(title).id(d.rule).element(snippet);
    if !rest.is_empty() {
        group = group.element(Level::NOTE.message(rest));
    }
    for text in related {
        group = group.element(Level::NOTE.message(text));
    }
    if let Some(fix) = &d.fix {
        let text = match fix.safety {
            Safety::Safe => format!("{} (safe fix)", fix.title),
            Safety::Unsafe => format!("{} (look before you apply it)", fix.title),
            Safety::ShownOnly => fix.title.clone(),
        };
        group = group.element(Level::HELP.message(text));
    }
    renderer.render(&[group])
}

/// The finding's lines, and what is said about places outside them.
fn excerpt<'a>(
    document: &'a Document,
    d: &'a Diagnostic,
) -> (Snippet<'a, annotate_snippets::Annotation<'a>>, Vec<String>) {
    let text = document.text();
    let [first, _, last, _] = place(document, &d.range);
    let last = last.min(first + EXCERPT_LINES - 1);
    let line_start = |line: u32| {
        document.offset(
            hipsmith_syntax::Position { line, column: 0 },
            Encoding::Utf8,
        )
    };
    let from = line_start(first - 1);
    let to = if last as usize >= text.lines().count() {
        text.len()
    } else {
        line_start(last)
    };
    let shown = text
        .get(from..to)
        .unwrap_or_default()
        .trim_end_matches(['\n', '\r']);
    let inside = |r: &Range<usize>| {
        let start = r.start.checked_sub(from).filter(|s| *s <= shown.len())?;
        let end = (r.end.checked_sub(from)?).min(shown.len()).max(start);
        Some(start..end)
    };
    let mut snippet = Snippet::source(shown)
        .line_start(first as usize)
        .fold(false);
    if let Some(span) = inside(&d.range) {
        snippet = snippet.annotation(AnnotationKind::Primary.span(span));
    }
    let mut outside = Vec::new();
    for (range, label) in &d.related {
        match inside(range) {
            Some(span) => {
                snippet =
                    snippet.annotation(AnnotationKind::Context.span(span).label(label.as_str()));
            }
            None => {
                let [line, column, ..] = place(document, range);
                outside.push(format!("line {line}, column {column}: {label}"));
            }
        }
    }
    (snippet, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(text: &str, at: &str) -> (Document, Diagnostic) {
        let document = Document::new(text.to_owned());
        let start = text.find(at).unwrap_or(0);
        let d = Diagnostic {
            rule: "a-rule",
            family: Family::L,
            severity: Severity::Warning,
            range: start..start + at.len(),
            message: "This is wrong. Because of that.".into(),
            related: vec![(0..1, "the other end".into())],
            fix: Some(hipsmith_lint::Fix::new(
                "Write it right",
                vec![(start..start + at.len(), "right".into())],
                Safety::Safe,
            )),
        };
        (document, d)
    }

    #[test]
    fn json_counts_from_one_in_bytes() {
        let (document, d) = finding("// é\r\nint é = wrong;\r\n", "wrong");
        let v = object(Path::new("a.hip"), &document, &d);
        assert_eq!(
            (v["line"].as_u64(), v["column"].as_u64()),
            (Some(2), Some(10))
        );
        assert_eq!(
            (v["endLine"].as_u64(), v["endColumn"].as_u64()),
            (Some(2), Some(15))
        );
        assert_eq!(v["family"], "L");
        assert_eq!(v["fix"]["edits"][0]["text"], "right");
        assert_eq!(v["fix"]["safety"], "safe");
    }

    #[test]
    fn text_shows_the_line() {
        let (document, d) = finding("int first;\nint é = wrong;", "wrong");
        let shown = render(&Renderer::plain(), Path::new("dir/a.hip"), &document, &d);
        for part in [
            "warning[a-rule]: This is wrong",
            "dir/a.hip:2:9",
            "int é = wrong;",
            "^^^^^",
            "Because of that.",
            "line 1, column 1: the other end",
            "Write it right (safe fix)",
        ] {
            assert!(shown.contains(part), "no {part:?} in:\n{shown}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_place() {
        assert_eq!(into_text(b"a\xe9\xff b\xc3\xa9".to_vec()), "a?? bé");
    }

    #[test]
    fn defines() {
        assert_eq!(define("A"), ("A".into(), "1".into()));
        assert_eq!(define("A=b=c"), ("A".into(), "b=c".into()));
    }
}
