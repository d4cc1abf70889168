//! The `hipsmith` program: one file per subcommand, each with its `Args` and a `run` that returns the exit code.

mod check;
mod explain;
mod fix;
mod given;
mod interrupt;
mod lsp;
mod optimize;
mod run;
mod sources;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Language server and kernel smith for HIP on 64-lane GPUs.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve an editor over standard input and output.
    Lsp(lsp::Args),
    /// Find faults in HIP files.
    Check(check::Args),
    /// Apply the safe fixes of HIP files.
    Fix(fix::Args),
    /// Print a rule's page, or list the rules.
    Explain(explain::Args),
    /// Try rewrites of one kernel, verify and time each, and show the best as a diff.
    Optimize(optimize::Args),
    /// Run a HIP program without a GPU, and say what its kernels did and how long they would take.
    Run(run::Args),
}

fn main() -> ExitCode {
    // Standard output belongs to the protocol or to the report, so what happens on the way is told on standard error.
    let filter = tracing_subscriber::EnvFilter::try_from_env("HIPSMITH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match Cli::parse().command {
        Command::Lsp(args) => lsp::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Optimize(args) => optimize::run(&args),
        Command::Run(args) => run::run(&args),
    }
}
