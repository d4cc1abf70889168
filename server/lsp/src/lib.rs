//! The language server: the only crate that knows LSP types.
//!
//! Handlers ([`backend`]) are post boxes: they put an [`event::Event`] on the queue before their first await and wait
//! for nothing but the answer. One task ([`main_loop`]) owns the [`session::Session`] and is the only one that changes
//! it; analysis, compilation and optimization run on blocking threads over snapshots and come back as events.
//!
//! | method | file |
//! |---|---|
//! | `initialize`, `initialized`, `shutdown` | `backend.rs` |
//! | messages that are none | `frames.rs` |
//! | `exit`, end of input, death of the client | `exit_watch.rs` |
//! | `textDocument/didOpen`, `didChange`, `didSave`, `didClose` | `notifications/documents.rs` |
//! | `workspace/didChangeConfiguration` | `notifications/configuration.rs` |
//! | `workspace/didChangeWatchedFiles` | `notifications/watched_files.rs` |
//! | `window/workDoneProgress/cancel` | `notifications/progress_cancel.rs` |
//! | `textDocument/publishDiagnostics` (ours) | `diagnostics.rs` |
//! | `textDocument/hover` | `requests/hover.rs` |
//! | `textDocument/codeAction` | `requests/code_action.rs` |
//! | `textDocument/codeLens` | `requests/code_lens.rs` |
//! | `textDocument/documentSymbol` | `requests/document_symbol.rs` |
//! | `textDocument/inlayHint` | `requests/inlay_hint.rs` |
//! | `workspace/executeCommand` | `requests/execute_command.rs` |
//! | `hipsmith/jobs`, `hipsmith/jobResult`, `hipsmith/jobStatus` (ours) | `requests/jobs.rs`, `jobs.rs` |

mod backend;
mod convert;
mod diagnostics;
mod event;
mod exit_watch;
mod figures;
mod frames;
mod jobs;
mod main_loop;
mod merge;
mod notifications;
mod outbox;
mod pipeline;
mod requests;
mod resources;
mod session;
mod settings;

pub use exit_watch::serve;

/// Serve one client on standard input and output until it leaves; returns the process's exit code.
///
/// # Errors
/// When the async runtime cannot start.
pub fn serve_stdio() -> std::io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(serve(tokio::io::stdin(), tokio::io::stdout()));
    // The thread that reads stdin cannot be woken; waiting for it would keep a server without a client alive.
    runtime.shutdown_background();
    Ok(code)
}
