//! `hipsmith explain`: what a rule is about.

use std::io::Write;
use std::process::ExitCode;

/// Print a rule's page, or list the rules.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The rule, such as lds-over-limit; without it, all rules are listed.
    rule: Option<String>,
}

/// Exit code 2 for a rule that does not exist.
pub fn run(args: &Args) -> ExitCode {
    let Some(name) = &args.rule else {
        let width = hipsmith_lint::rules()
            .iter()
            .map(|r| r.id.len())
            .max()
            .unwrap_or(0);
        let list: String = hipsmith_lint::rules()
            .iter()
            .map(|r| format!("{}  {:width$}  {}\n", r.family.letter(), r.id, r.summary))
            .collect();
        return print(&list);
    };
    match hipsmith_lint::explain(name.trim()) {
        Some(page) => print(&page),
        None => {
            let near = hipsmith_lint::similar(name, hipsmith_lint::rules().iter().map(|r| r.id));
            let hint = if near.is_empty() {
                "`hipsmith explain` lists the rules.".to_owned()
            } else {
                format!("Did you mean {}?", near.join(" or "))
            };
            eprintln!("hipsmith explain: there is no rule `{name}`. {hint}");
            ExitCode::from(2)
        }
    }
}

/// A reader that closes the pipe early has read enough.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
