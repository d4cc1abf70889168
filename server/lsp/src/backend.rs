//! The handlers: each posts one event before its first await, then waits only for the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsp_types as lsp;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tower_lsp::LanguageServer;
use tower_lsp::jsonrpc::{Error, Result};

use crate::event::{Event, Reply};
use crate::exit_watch::Lifecycle;

/// The server as the protocol library sees it.
#[derive(Debug)]
pub struct Backend {
    events: mpsc::UnboundedSender<Event>,
    lifecycle: Arc<Lifecycle>,
}

impl Backend {
    pub fn new(events: mpsc::UnboundedSender<Event>, lifecycle: Arc<Lifecycle>) -> Self {
        Self { events, lifecycle }
    }

    fn post(&self, event: Event) {
        // The loop only ends with the process; a message after that has nobody to miss it.
        let _ = self.events.send(event);
    }

    /// Post a request and wait for its answer. Dropping the future (a cancelled request) drops the receiver, which
    /// tells the worker that nobody listens.
    fn ask<T>(&self, event: impl FnOnce(Reply<T>) -> Event) -> impl Future<Output = Result<T>> {
        let (reply, answer) = oneshot::channel();
        self.post(event(reply));
        async move {
            answer
                .await
                .unwrap_or_else(|_| Err(Error::internal_error()))
        }
    }

    /// `hipsmith/jobs`
    pub async fn jobs(&self, _: Value) -> Result<Value> {
        self.ask(Event::Jobs).await
    }

    /// `hipsmith/jobResult`
    pub async fn job_result(&self, params: Value) -> Result<Value> {
        self.ask(|reply| Event::JobResult(params, reply)).await
    }

    /// `window/workDoneProgress/cancel`
    pub async fn progress_cancel(&self, params: lsp::WorkDoneProgressCancelParams) {
        self.post(Event::ProgressCancelled(params.token));
    }
}

impl LanguageServer for Backend {
    async fn initialize(&self, params: lsp::InitializeParams) -> Result<lsp::InitializeResult> {
        if let Some(pid) = params.process_id.and_then(|pid| u32::try_from(pid).ok()) {
            self.lifecycle.client.store(pid, Ordering::SeqCst);
        }
        self.ask(|reply| Event::Initialize(Box::new(params), reply))
            .await
    }
    async fn initialized(&self, _: lsp::InitializedParams) {
        self.post(Event::Initialized);
    }
    async fn shutdown(&self) -> Result<()> {
        self.ask(Event::Shutdown).await
    }
    async fn did_open(&self, params: lsp::DidOpenTextDocumentParams) {
        self.post(Event::Opened(params));
    }
    async fn did_change(&self, params: lsp::DidChangeTextDocumentParams) {
        self.post(Event::Changed(params));
    }
    async fn did_save(&self, params: lsp::DidSaveTextDocumentParams) {
        self.post(Event::Saved(params));
    }
    async fn did_close(&self, params: lsp::DidCloseTextDocumentParams) {
        self.post(Event::Closed(params));
    }
    async fn did_change_configuration(&self, params: lsp::DidChangeConfigurationParams) {
        self.post(Event::Settings(params.settings));
    }
    async fn did_change_watched_files(&self, params: lsp::DidChangeWatchedFilesParams) {
        self.post(Event::FilesChanged(params));
    }
    async fn hover(&self, params: lsp::HoverParams) -> Result<Option<lsp::Hover>> {
        self.ask(|reply| Event::Hover(params, reply)).await
    }
    async fn code_action(
        &self,
        params: lsp::CodeActionParams,
    ) -> Result<Option<Vec<lsp::CodeActionResponse>>> {
        self.ask(|reply| Event::CodeAction(params, reply)).await
    }
    async fn code_lens(&self, params: lsp::CodeLensParams) -> Result<Option<Vec<lsp::CodeLens>>> {
        self.ask(|reply| Event::CodeLens(params, reply)).await
    }
    async fn document_symbol(
        &self,
        params: lsp::DocumentSymbolParams,
    ) -> Result<Option<lsp::DocumentSymbolResponse>> {
        self.ask(|reply| Event::DocumentSymbol(params, reply)).await
    }
    async fn inlay_hint(
        &self,
        params: lsp::InlayHintParams,
    ) -> Result<Option<Vec<lsp::InlayHint>>> {
        self.ask(|reply| Event::InlayHint(params, reply)).await
    }
    async fn execute_command(&self, params: lsp::ExecuteCommandParams) -> Result<Option<Value>> {
        self.ask(|reply| Event::Command(params, reply)).await
    }
}
