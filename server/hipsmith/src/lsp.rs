//! `hipsmith lsp`: the language server on standard input and output.

use std::process::ExitCode;

/// Serve an editor over standard input and output.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Standard input and output; accepted because editors pass it, there is no other way to talk.
    #[arg(long)]
    stdio: bool,
}

/// Run until the editor says `exit`; the exit code is the protocol's.
pub fn run(_args: &Args) -> ExitCode {
    match hipsmith_lsp::serve_stdio() {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(e) => {
            eprintln!("hipsmith lsp: {e}");
            ExitCode::FAILURE
        }
    }
}
