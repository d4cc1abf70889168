//! `hipsmith check`: find faults in files and folders, on all cores.

mod baseline;
mod github;
mod json;
mod sarif;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annotate_snippets::Renderer;
use hipsmith_lint::{Family, Severity};
use hipsmith_project::{Projects, absolute};
use hipsmith_syntax::{Document, Encoding, is_hip};
use hipsmith_target::Target;
use rayon::prelude::*;
use serde_json::Value;

use crate::given::GivenArgs;
use crate::sources;
use baseline::{Baseline, Counts};

/// Find faults in HIP files.
///
/// Exit code 0: nothing found at or above --fail-on. 1: something found. 2: wrong usage, a fault in hipsmith.toml, or a
/// file that could not be checked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and folders to search for HIP sources (files that git ignores are left out).
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How to print what is found.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    given: GivenArgs,
    /// The mildest finding that makes the exit code 1.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// Leave out the findings that this file lists.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings to this file instead of printing them.
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// For people: each finding with its lines.
    Text,
    /// An array of objects; lines and columns count from 1, columns in bytes, an end is exclusive.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// GitHub workflow commands: annotations in a pull request.
    Github,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum FailOn {
    Error,
    Warning,
    Hint,
    Never,
}

/// One file's outcome.
enum Outcome {
    /// No HIP.
    Skipped,
    Trouble(String),
    Checked(Report),
}

/// What is kept of a checked file: not its tree, so that a large project fits in memory.
struct Report {
    target: &'static Target,
    /// Errors, warnings, hints that are told.
    counts: [usize; 3],
    /// The findings as they will be printed.
    shown: Vec<Shown>,
    /// All findings, for a baseline to write.
    keys: Counts,
    /// Findings that the baseline has, and those it has that were not found.
    known: u32,
    stale: u32,
    assumed_banks: bool,
    unparsed: Option<String>,
    trouble: Option<String>,
}

enum Shown {
    Text(String),
    Object(Value),
}

/// 0: nothing found that counts; 1: something found; 2: a usage fault or a file that could not be checked.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("hipsmith check: {why}");
            ExitCode::from(2)
        }
    }
}

fn try_run(args: &Args) -> Result<u8, String> {
    let projects = Projects::new(args.given.given()?);
    let known = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let root = root();
    let printer = Printer {
        format: args.format,
        root: &root,
        renderer: if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            Renderer::styled()
        } else {
            Renderer::plain()
        },
    };
    let (files, mut troubles) = sources::find(&args.paths);
    // Results come in the order of the files, whoever ends first.
    let outcomes: Vec<(PathBuf, Outcome)> = files
        .into_par_iter()
        .map(|(path, named)| {
            let outcome = match sources::read(&path, named) {
                Err(why) => Outcome::Trouble(why),
                Ok(None) => Outcome::Skipped,
                Ok(Some(bytes)) => check(
                    &printer,
                    &projects,
                    known.as_ref(),
                    &path,
                    sources::into_text(bytes),
                ),
            };
            (path, outcome)
        })
        .collect();
    let mut total = Total::default();
    let mut written = args.write_baseline.as_deref().map(Baseline::new);
    let mut unparsed = Vec::new();
    let mut shown = Vec::new();
    let mut checked = BTreeSet::new();
    troubles.extend(projects.problems());
    for (path, outcome) in outcomes {
        match outcome {
            Outcome::Skipped => {}
            Outcome::Trouble(why) => troubles.push(why),
            Outcome::Checked(report) => {
                total.add(&report);
                troubles.extend(report.trouble);
                unparsed.extend(report.unparsed);
                if let Some(baseline) = &mut written {
                    baseline.insert(&path, report.keys);
                } else {
                    shown.extend(report.shown);
                }
                checked.insert(absolute(&path));
            }
        }
    }
    if let Some(known) = &known {
        total.stale += known.stale_outside(&checked);
    }
    if let (Some(path), Some(baseline)) = (&args.write_baseline, &written) {
        baseline.write(path)?;
    }
    let failed = match args.fail_on {
        _ if written.is_some() => 0,
        FailOn::Error => total.counts[0],
        FailOn::Warning => total.counts[0] + total.counts[1],
        FailOn::Hint => total.counts.iter().sum(),
        FailOn::Never => 0,
    };
    let code = if troubles.is_empty() {
        u8::from(failed > 0)
    } else {
        2
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    match &args.write_baseline {
        Some(path) => {
            let _ = writeln!(
                out,
                "{} written to {}",
                count(total.counts.iter().sum(), "finding"),
                path.display()
            );
        }
        // A reader that closes the pipe early has seen enough.
        None => {
            let _ = printer.print(&mut out, shown, &total, &troubles, &unparsed, code);
        }
    }
    let _ = out.flush();
    for why in unparsed.iter().chain(&troubles) {
        eprintln!("hipsmith check: {why}");
    }
    if total.stale > 0 {
        eprintln!(
            "hipsmith check: note: {} of the baseline no longer found; `--write-baseline` brings it up to date",
            count(total.stale as usize, "finding")
        );
    }
    Ok(code)
}

/// Check one file and keep what will be printed.
fn check(
    printer: &Printer<'_>,
    projects: &Projects,
    baseline: Option<&Baseline>,
    path: &Path,
    text: String,
) -> Outcome {
    if !is_hip(&text, &path.to_string_lossy()) {
        return Outcome::Skipped;
    }
    let project = projects.of(Some(path));
    let document = Document::with_options(text, 0, project.options(Some(path)));
    let found = hipsmith_lint::check(&document, &project.lint);
    let mut report = Report {
        target: document.target(),
        counts: [0; 3],
        shown: Vec::new(),
        keys: Counts::new(),
        known: 0,
        stale: 0,
        assumed_banks: false,
        unparsed: None,
        trouble: None,
    };
    if !document.is_parsed() {
        report.trouble = Some(format!(
            "{}: could not be parsed in reasonable time",
            path.display()
        ));
    } else if let Some(at) = document.first_error() {
        let place = document.position(at, Encoding::Utf8);
        report.unparsed = Some(format!(
            "{}:{}:{}: not understood here; the code around it was not checked",
            path.display(),
            place.line + 1,
            place.column + 1
        ));
    }
    let mut left = baseline.map(|b| b.of(path)).unwrap_or_default();
    for d in &found {
        let key = baseline::key(&document, d);
        let seen = report.keys.entry(key.clone()).or_default();
        let same = *seen;
        *seen += 1;
        if let Some(known) = left.get_mut(&key).filter(|n| **n > 0) {
            *known -= 1;
            report.known += 1;
            continue;
        }
        report.counts[match d.severity {
            Severity::Error => 0,
            Severity::Warning => 1,
            Severity::Hint => 2,
        }] += 1;
        report.assumed_banks |= d.family == Family::B && !document.target().lds.banks_known;
        report.shown.push(match printer.format {
            Format::Text => Shown::Text(text::render(&printer.renderer, path, &document, d)),
            Format::Json => Shown::Object(json::object(path, &document, d)),
            Format::Sarif => {
                Shown::Object(sarif::result(printer.root, path, &document, d, &key, same))
            }
            Format::Github => {
                let file = baseline::relative(&absolute(path), printer.root);
                Shown::Text(github::command(&file, &document, d))
            }
        });
    }
    report.stale = left.values().sum();
    Outcome::Checked(report)
}

/// Everything of all files.
#[derive(Default)]
struct Total {
    counts: [usize; 3],
    known: u32,
    stale: u32,
    files: usize,
    /// The targets checked for, with whether the bank count of one had to be assumed.
    targets: BTreeMap<&'static str, (&'static Target, bool)>,
}

impl Total {
    fn add(&mut self, report: &Report) {
        for (sum, n) in self.counts.iter_mut().zip(report.counts) {
            *sum += n;
        }
        self.known += report.known;
        self.stale += report.stale;
        self.files += 1;
        let target = self
            .targets
            .entry(report.target.name.as_str())
            .or_insert((report.target, false));
        target.1 |= report.assumed_banks;
    }

    fn summary(&self) -> String {
        let names: Vec<&str> = self.targets.keys().copied().collect();
        let targets = match names.len() {
            0 => String::new(),
            1 => format!(" (target {})", names.join(", ")),
            _ => format!(" (targets {})", names.join(", ")),
        };
        let mut text = format!(
            "{}, {}, {} in {}{targets}\n",
            count(self.counts[0], "error"),
            count(self.counts[1], "warning"),
            count(self.counts[2], "hint"),
            count(self.files, "HIP file"),
        );
        if self.known > 0 {
            text.push_str(&format!(
                "{} of the baseline not shown\n",
                count(self.known as usize, "finding")
            ));
        }
        for (target, assumed) in self.targets.values() {
            if *assumed {
                text.push_str(&format!(
                    "LDS bank conflicts on {} assume {} banks: its bank count is not published.\n",
                    target.name, target.lds.banks
                ));
            }
        }
        text
    }
}

/// How findings are printed.
struct Printer<'a> {
    format: Format,
    root: &'a Path,
    renderer: Renderer,
}

impl Printer<'_> {
    fn print(
        &self,
        out: &mut impl Write,
        shown: Vec<Shown>,
        total: &Total,
        troubles: &[String],
        notes: &[String],
        code: u8,
    ) -> io::Result<()> {
        let mut objects = Vec::new();
        for one in shown {
            match one {
                Shown::Object(object) => objects.push(object),
                Shown::Text(text) if self.format == Format::Text => writeln!(out, "{text}\n")?,
                Shown::Text(text) => writeln!(out, "{text}")?,
            }
        }
        match self.format {
            Format::Text => out.write_all(total.summary().as_bytes()),
            Format::Json => writeln!(out, "{:#}", Value::Array(objects)),
            Format::Sarif => writeln!(
                out,
                "{:#}",
                sarif::log(self.root, objects, troubles, notes, code)
            ),
            Format::Github => Ok(()),
        }
    }
}

/// The root of the repository that we are in, else the working folder: what names in reports are relative to.
fn root() -> PathBuf {
    let here = absolute(Path::new("."));
    here.ancestors()
        .find(|dir| dir.join(".git").exists())
        .map_or_else(|| here.clone(), Path::to_owned)
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
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

#[cfg(test)]
mod tests {
    use super::*;
    use hipsmith_lint::{Diagnostic, Safety};

    pub(super) fn finding(text: &str, at: &str) -> (Document, Diagnostic) {
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
}
