//! Everything that can happen to the server, in one closed list.

use std::sync::Arc;

use hipsmith_lint::Diagnostic;
use hipsmith_project::Project;
use hipsmith_syntax::Document;
use lsp_types as lsp;
use serde_json::Value;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc;

use crate::jobs::JobId;
use crate::resources::Resources;

/// Where the answer to a request goes.
pub type Reply<T> = oneshot::Sender<jsonrpc::Result<T>>;

/// What the main loop reacts to.
#[derive(Debug)]
pub enum Event {
    /// The client said what it can do and wants.
    Initialize(Box<lsp::InitializeParams>, Reply<lsp::InitializeResult>),
    /// The client is ready for our requests.
    Initialized,
    /// A document was opened.
    Opened(lsp::DidOpenTextDocumentParams),
    /// A document was edited.
    Changed(lsp::DidChangeTextDocumentParams),
    /// A document was saved.
    Saved(lsp::DidSaveTextDocumentParams),
    /// A document was closed.
    Closed(lsp::DidCloseTextDocumentParams),
    /// Settings came, pushed by the client or fetched from it.
    Settings(Value),
    /// Files of the projects have changed on disk.
    FilesChanged(lsp::DidChangeWatchedFilesParams),
    /// The person pressed the cancel button of a progress display.
    ProgressCancelled(lsp::ProgressToken),
    /// Hover was asked for.
    Hover(lsp::HoverParams, Reply<Option<lsp::Hover>>),
    /// Code actions were asked for.
    CodeAction(
        lsp::CodeActionParams,
        Reply<Option<Vec<lsp::CodeActionResponse>>>,
    ),
    /// Code lenses were asked for.
    CodeLens(lsp::CodeLensParams, Reply<Option<Vec<lsp::CodeLens>>>),
    /// Document symbols were asked for.
    DocumentSymbol(
        lsp::DocumentSymbolParams,
        Reply<Option<lsp::DocumentSymbolResponse>>,
    ),
    /// Inlay hints were asked for.
    InlayHint(lsp::InlayHintParams, Reply<Option<Vec<lsp::InlayHint>>>),
    /// A command was run.
    Command(lsp::ExecuteCommandParams, Reply<Option<Value>>),
    /// The list of jobs was asked for.
    Jobs(Reply<Value>),
    /// A job's result was asked for.
    JobResult(Value, Reply<Value>),
    /// The changes of a document have been read.
    Read {
        /// The document's name.
        uri: lsp::Uri,
        /// Which opening of it.
        instance: u64,
        /// The text with everything derived from it.
        document: Document,
        /// Whether it holds HIP.
        is_hip: bool,
        /// What it was read with.
        project: Arc<Project>,
        /// What is wrong with the project's files.
        problems: Vec<String>,
    },
    /// The check of one version of a document ended.
    Checked {
        /// The document's name.
        uri: lsp::Uri,
        /// Which opening of it.
        instance: u64,
        /// The version that was checked.
        version: i32,
        /// What it was checked with.
        project: Arc<Project>,
        /// What was found.
        findings: Arc<[Diagnostic]>,
    },
    /// Nothing was typed for a while after a version was checked.
    Paused {
        /// The document's name.
        uri: lsp::Uri,
        /// Which opening of it.
        instance: u64,
        /// The version that was checked.
        version: i32,
    },
    /// Background compilation of a document's text ended.
    Compiled {
        /// The document's name.
        uri: lsp::Uri,
        /// Which opening of it.
        instance: u64,
        /// What the compiler said.
        resources: Arc<Resources>,
    },
    /// A running job made a step.
    JobStep(JobId, hipsmith_rounds::Event),
    /// A job ended.
    JobEnded(
        JobId,
        Box<Result<hipsmith_rounds::Report, hipsmith_rounds::Error>>,
    ),
    /// The client answered our `workspace/applyEdit` for a job: `Err` holds its reason.
    Applied(JobId, Result<(), String>),
    /// The client is leaving: stop what runs.
    Shutdown(Reply<()>),
    /// What runs has had its time to stop.
    StopLimit,
}
