//! `hipsmith fix`: apply the fixes that are safe.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hipsmith_lint::Edits;
use hipsmith_process::Cancel;
use hipsmith_project::Projects;
use hipsmith_syntax::{Document, is_hip};
use rayon::prelude::*;
use similar::TextDiff;

use crate::given::GivenArgs;
use crate::{interrupt, sources};

/// Apply the safe fixes of HIP files, until none is left.
///
/// Exit code 0: done. 1: with --diff, there is something to fix. 2: wrong usage, or a file that could not be fixed. 130:
/// interrupted.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and folders to search for HIP sources (files that git ignores are left out).
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print a unified diff and write nothing.
    #[arg(long)]
    diff: bool,
    /// Apply the fixes that may change results, too: review what they did.
    #[arg(long = "unsafe")]
    with_unsafe: bool,
    #[command(flatten)]
    given: GivenArgs,
}

/// A file's fixes.
struct Done {
    applied: BTreeMap<&'static str, usize>,
    left: usize,
    /// With `--diff`; the file is written otherwise.
    diff: String,
}

/// 0: done; 1: with `--diff`, something to fix; 2: a file could not be fixed; 130: interrupted.
pub fn run(args: &Args) -> ExitCode {
    let given = match args.given.given() {
        Ok(given) => given,
        Err(why) => {
            eprintln!("hipsmith fix: {why}");
            return ExitCode::from(2);
        }
    };
    // A file that is being written is finished first; the others stay as they are.
    let cancel = interrupt::cancel_on_interrupt();
    let projects = Projects::new(given);
    let (files, mut troubles) = sources::find(&args.paths);
    let outcomes: Vec<(PathBuf, Result<Option<Done>, String>)> = files
        .into_par_iter()
        .map(|(path, named)| {
            let done = fix(args, &projects, &path, named, &cancel);
            (path, done)
        })
        .collect();
    troubles.extend(projects.problems());
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut changed, mut left) = (0, 0);
    for (path, outcome) in outcomes {
        match outcome {
            Err(why) => troubles.push(why),
            Ok(None) => {}
            Ok(Some(done)) => {
                left += done.left;
                if done.applied.is_empty() {
                    continue;
                }
                changed += 1;
                for (rule, n) in &done.applied {
                    *rules.entry(rule).or_default() += n;
                }
                let _ = out.write_all(done.diff.as_bytes());
                if !args.diff {
                    let n: usize = done.applied.values().sum();
                    let _ = writeln!(out, "{}: {}", path.display(), fixes(n));
                }
            }
        }
    }
    let total: usize = rules.values().sum();
    let mut summary = format!(
        "{} in {} {}",
        fixes(total),
        changed,
        if changed == 1 { "file" } else { "files" }
    );
    if !rules.is_empty() {
        let list: Vec<String> = rules
            .iter()
            .map(|(rule, n)| format!("{rule} {n}"))
            .collect();
        let _ = write!(summary, " ({})", list.join(", "));
    }
    if left > 0 {
        let _ = write!(
            summary,
            "; {} left out, since the text would not parse as well or they never end",
            fixes(left)
        );
    }
    // The diff is to be read by programs.
    if args.diff {
        eprintln!("hipsmith fix: {summary}; nothing was written");
    } else {
        let _ = writeln!(out, "{summary}");
    }
    let _ = out.flush();
    for why in &troubles {
        eprintln!("hipsmith fix: {why}");
    }
    if cancel.is_cancelled() {
        eprintln!("hipsmith fix: interrupted; the files not named above are as they were");
        return ExitCode::from(130);
    }
    ExitCode::from(if !troubles.is_empty() {
        2
    } else {
        u8::from(args.diff && changed > 0)
    })
}

fn fixes(n: usize) -> String {
    format!("{n} {}", if n == 1 { "fix" } else { "fixes" })
}

fn fix(
    args: &Args,
    projects: &Projects,
    path: &Path,
    named: bool,
    cancel: &Cancel,
) -> Result<Option<Done>, String> {
    if cancel.is_cancelled() {
        return Ok(None);
    }
    let Some(bytes) = sources::read(path, named)? else {
        return Ok(None);
    };
    let text = sources::into_text(bytes.clone());
    if !is_hip(&text, &path.to_string_lossy()) {
        return Ok(None);
    }
    let project = projects.of(Some(path));
    let document = Document::with_options(text, 0, project.options(Some(path)));
    if !document.is_parsed() {
        return Err(format!(
            "{}: could not be parsed in reasonable time",
            path.display()
        ));
    }
    let fixed = hipsmith_lint::fix(&document, &project.lint, args.with_unsafe);
    let mut done = Done {
        applied: fixed.applied,
        left: fixed.left,
        diff: String::new(),
    };
    if done.applied.is_empty() || cancel.is_cancelled() {
        return Ok((!cancel.is_cancelled()).then_some(done));
    }
    if args.diff {
        done.diff = diff(path, document.text(), fixed.document.text());
        return Ok(Some(done));
    }
    let new = rewritten(&bytes, &fixed.passes).ok_or_else(|| {
        format!(
            "{}: a fix does not fit its text (a bug); the file was not changed",
            path.display()
        )
    })?;
    // Somebody may have saved it while it was checked.
    if sources::read(path, named)?.as_ref() != Some(&bytes) {
        return Err(format!(
            "{}: changed meanwhile; run it again",
            path.display()
        ));
    }
    sources::write(path, &new)?;
    Ok(Some(done))
}

/// The edits made on the file's own bytes: those that are no UTF-8 stay as they are.
fn rewritten(bytes: &[u8], passes: &[Edits]) -> Option<Vec<u8>> {
    let mut now = bytes.to_vec();
    for edits in passes {
        let mut next = Vec::with_capacity(now.len() + 64);
        let mut at = 0;
        for (range, text) in edits {
            next.extend(now.get(at..range.start)?);
            next.extend(text.as_bytes());
            at = range.end;
        }
        next.extend(now.get(at..)?);
        now = next;
    }
    Some(now)
}

fn diff(path: &Path, old: &str, new: &str) -> String {
    let name = path.strip_prefix(".").unwrap_or(path).to_string_lossy();
    let name = name.trim_start_matches('/');
    TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_survive() {
        let bytes = b"// \xe9\nint a;\n";
        let passes = [
            vec![(9..10, "bcd".to_owned())],
            vec![(5..8, "long".to_owned()), (12..12, " ".to_owned())],
        ];
        assert_eq!(
            rewritten(bytes, &passes).as_deref(),
            Some(&b"// \xe9\nlong bcd ;\n"[..])
        );
        assert_eq!(rewritten(bytes, &[vec![(90..91, String::new())]]), None);
    }
}
