//! `hipsmith optimize`: optimization rounds on one kernel, in the terminal.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hipsmith_rounds::{Error, Event, Evidence, Outcome, Report, Request, Round, Status};
use serde_json::json;

use crate::interrupt::cancel_on_interrupt;

/// Try rewrites of one kernel, verify and time each, and show the best as a diff.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The source file that holds the kernel.
    file: PathBuf,
    /// The kernel's name, without template arguments or namespace.
    #[arg(long)]
    kernel: String,
    /// The program that launches it, with its arguments, as one string: "./a.out 64 1024". Without it, the nearest
    /// hipsmith.toml says where data come from, or the file itself is built and run.
    #[arg(long)]
    program: Option<String>,
    /// How many rounds at most.
    #[arg(long, default_value_t = 12)]
    rounds: u32,
    /// The target, such as gfx928.
    #[arg(long, default_value_t = hipsmith_target::default_target().name.clone())]
    target: String,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Write the improved text to the file.
    #[arg(long)]
    apply: bool,
    /// Where journal and verification records go; `.hipsmith` beside the file without it.
    #[arg(long)]
    state_dir: Option<PathBuf>,
}

/// Run the subcommand: 0 when the job ran, improved or not; 1 when it failed.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(code) => code,
        Err(why) if args.json => {
            let object = json!({
                "kernel": args.kernel,
                "target": args.target,
                "device": null,
                "evidence": null,
                "baseline_ns": null,
                "best_ns": null,
                "speedup": null,
                "status": "failed",
                "summary": why,
                "rounds": [],
                "diff": "",
            });
            say(&format!("{object:#}\n"));
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("hipsmith optimize: {why}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &Args) -> Result<ExitCode, String> {
    let bytes = std::fs::read(&args.file)
        .map_err(|e| format!("{} cannot be read: {e}", args.file.display()))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        format!(
            "{} is no source text: byte {} is not UTF-8",
            args.file.display(),
            e.utf8_error().valid_up_to()
        )
    })?;
    let program = args
        .program
        .as_deref()
        .map(split_command)
        .transpose()
        .map_err(|why| format!("--program: {why}"))?;
    let request = Request {
        file: args.file.clone(),
        text,
        kernel: args.kernel.clone(),
        program,
        rounds: args.rounds,
        target: args.target.clone(),
        state_dir: args.state_dir.clone(),
    };
    let mut progress = Progress {
        quiet: args.json,
        live: io::stderr().is_terminal(),
    };
    let report = hipsmith_rounds::optimize(&request, &cancel_on_interrupt(), &mut |event| {
        progress.show(&event);
    })
    .map_err(|e| match e {
        Error::Cancelled => e.to_string(),
        Error::Failed(why) => why,
    })?;
    if args.json {
        let object = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
        say(&format!("{object}\n"));
    } else {
        say(&text_report(&report, &args.file));
    }
    if args.apply
        && let Some(new) = &report.new_text
    {
        apply(&args.file, &request.text, new)?;
        eprintln!("wrote {}", args.file.display());
    }
    Ok(match report.status {
        Status::Failed => ExitCode::FAILURE,
        Status::Improved | Status::NoImprovement => ExitCode::SUCCESS,
    })
}

/// A closed pipe is the reader's choice, not our failure.
fn say(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Write the new text if the file still holds the one that it was made for.
fn apply(file: &Path, old: &str, new: &str) -> Result<(), String> {
    let cannot = |e: io::Error| format!("{} cannot be written: {e}", file.display());
    if std::fs::read(file).map_err(cannot)? != old.as_bytes() {
        return Err(format!(
            "{} changed while the rounds ran, so the diff was not applied; run again",
            file.display()
        ));
    }
    // The file keeps its permissions; a reader sees the old text or the new one.
    let permissions = std::fs::metadata(file).map_err(cannot)?.permissions();
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut half = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    half.write_all(new.as_bytes()).map_err(cannot)?;
    half.as_file()
        .set_permissions(permissions)
        .map_err(cannot)?;
    half.persist(file).map_err(|e| cannot(e.error))?;
    Ok(())
}

/// What is going on, on stderr.
struct Progress {
    quiet: bool,
    live: bool,
}

impl Progress {
    fn show(&mut self, event: &Event) {
        if self.quiet {
            return;
        }
        match event {
            Event::Step(what) => eprintln!("  {what}"),
            Event::RoundStarted { n, of, hypothesis } if self.live => {
                eprintln!("round {n} of at most {of}: {hypothesis}");
            }
            Event::RoundStarted { .. } => {}
            Event::RoundEnded(round) => eprintln!(
                "  round {:>2}: {}{}",
                round.n,
                outcome(round.outcome),
                round
                    .ns
                    .map_or_else(String::new, |ns| format!(", {}", time(ns)))
            ),
        }
    }
}

fn text_report(report: &Report, file: &Path) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let origin = match report.evidence {
        Evidence::Simulated => "simulated, nothing was measured on a device",
        Evidence::Measured => "measured",
    };
    let _ = writeln!(
        out,
        "\n{} in {}, {}",
        report.kernel,
        file.display(),
        report.device
    );
    let _ = writeln!(out, "times are {origin}\n");
    if let Some(ns) = report.baseline_ns {
        let _ = writeln!(
            out,
            "{:>5}  {:<16} {:>12} {:>8}  original",
            "round",
            "outcome",
            time(ns),
            "1.00x"
        );
    }
    for round in &report.rounds {
        let _ = writeln!(out, "{}", row(round, report.baseline_ns));
    }
    let _ = writeln!(out, "\n{}", report.summary);
    if let Some(journal) = &report.journal {
        let _ = writeln!(out, "journal: {}", journal.display());
    }
    if !report.diff.is_empty() {
        let _ = write!(out, "\n{}", report.diff);
    }
    out
}

fn row(round: &Round, baseline: Option<f64>) -> String {
    let (ns, gain) = match (round.ns, baseline) {
        (Some(ns), Some(base)) => (time(ns), format!("{:.2}x", base / ns)),
        (Some(ns), None) => (time(ns), String::new()),
        (None, _) => ("-".to_owned(), "-".to_owned()),
    };
    format!(
        "{:>5}  {:<16} {ns:>12} {gain:>8}  {}\n{:>46}-> {}",
        round.n,
        outcome(round.outcome),
        round.hypothesis.replace('\n', " "),
        "",
        round.reason.replace('\n', " ")
    )
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Effective => "effective",
        Outcome::Ineffective => "ineffective",
        Outcome::NotEmitted => "not emitted",
        Outcome::Wrong => "wrong",
        Outcome::FailedToCompile => "refused",
        Outcome::Suspect => "suspect",
    }
}

fn time(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.2} us", ns / 1e3)
    } else {
        format!("{:.2} ms", ns / 1e6)
    }
}

/// Split a command as a shell does, with quotes and backslashes and nothing else.
fn split_command(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                let next = chars.next().ok_or("the command ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    if words.is_empty() {
        return Err("the command is empty".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_does() {
        assert_eq!(
            split_command(r#"./a.out  64 "two words" 'it\' \"x"#).unwrap(),
            ["./a.out", "64", "two words", "it\\", "\"x"]
        );
        assert_eq!(split_command("a ''").unwrap(), ["a", ""]);
        split_command(" ").unwrap_err();
        split_command("a 'b").unwrap_err();
        split_command("a\\").unwrap_err();
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("k.hip");
        std::fs::write(&file, "old").unwrap();
        apply(&file, "old", "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        apply(&file, "old", "newer").unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
    }
}
