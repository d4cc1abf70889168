//! What we send to the client, in order, without anybody waiting for it.

use std::time::Duration;

use lsp_types as lsp;
use serde_json::Value;
use tokio::sync::mpsc;
use tower_lsp::Client;

/// How long a client may take to answer one of our requests before we go on without it.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// `hipsmith/jobStatus`: one entry of `hipsmith/jobs`, at each change.
#[derive(Debug)]
pub enum JobStatus {}

impl lsp::Notification for JobStatus {
    type Params = Value;
    const METHOD: lsp::LspNotificationMethod<'static> =
        lsp::LspNotificationMethod::new("hipsmith/jobStatus");
    const MESSAGE_DIRECTION: lsp::MessageDirection = lsp::MessageDirection::ServerToClient;
}

/// One notification to the client.
#[derive(Debug)]
enum Outgoing {
    Diagnostics(lsp::PublishDiagnosticsParams),
    Job(Value),
    Message(lsp::MessageType, String),
}

/// A handle to the client that never blocks.
#[derive(Clone, Debug)]
pub struct Outbox {
    client: Client,
    queue: mpsc::UnboundedSender<Outgoing>,
}

impl Outbox {
    /// Start the task that sends. It ends when the last clone is gone.
    pub fn start(client: Client) -> Self {
        let (queue, mut inbox) = mpsc::unbounded_channel();
        let sender = client.clone();
        tokio::spawn(async move {
            while let Some(outgoing) = inbox.recv().await {
                match outgoing {
                    Outgoing::Diagnostics(params) => {
                        sender
                            .send_notification::<lsp::PublishDiagnosticsNotification>(params)
                            .await;
                    }
                    Outgoing::Job(status) => sender.send_notification::<JobStatus>(status).await,
                    Outgoing::Message(kind, text) => sender.show_message(kind, text).await,
                }
            }
        });
        Self { client, queue }
    }

    pub fn diagnostics(&self, params: lsp::PublishDiagnosticsParams) {
        let _ = self.queue.send(Outgoing::Diagnostics(params));
    }
    pub fn job(&self, status: Value) {
        let _ = self.queue.send(Outgoing::Job(status));
    }
    pub fn message(&self, kind: lsp::MessageType, text: impl Into<String>) {
        let _ = self.queue.send(Outgoing::Message(kind, text.into()));
    }

    /// Ask the client something in a task of its own; `then` gets the answer, or a sentence why there is none.
    pub fn request<R: lsp::Request + 'static>(
        &self,
        params: R::Params,
        then: impl FnOnce(Result<R::Result, String>) + Send + 'static,
    ) {
        let client = self.client.clone();
        tokio::spawn(async move {
            let answer = tokio::time::timeout(ANSWER_LIMIT, client.send_request::<R>(params)).await;
            then(match answer {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(error.message.to_string()),
                Err(_) => Err(format!(
                    "the editor did not answer within {} s",
                    ANSWER_LIMIT.as_secs()
                )),
            });
        });
    }

    /// A cancellable progress display for a job. Steps sent before the client has agreed are kept in order; a client
    /// that refuses or stays silent sees none.
    pub fn progress(&self, token: String, title: String) -> Progress {
        let (steps, mut inbox) = mpsc::unbounded_channel::<lsp::WorkDoneProgressReport>();
        let client = self.client.clone();
        tokio::spawn(async move {
            let token = lsp::ProgressToken::String(token);
            let create = client.create_work_done_progress(token.clone());
            if !matches!(tokio::time::timeout(ANSWER_LIMIT, create).await, Ok(Ok(()))) {
                return;
            }
            let send = async |kind: &str, value: Value| {
                let mut value = value;
                value["kind"] = kind.into();
                client
                    .send_notification::<lsp::ProgressNotification>(lsp::ProgressParams {
                        token: token.clone(),
                        value,
                    })
                    .await;
            };
            send(
                "begin",
                serde_json::json!({ "title": title, "cancellable": true, "percentage": 0 }),
            )
            .await;
            let mut last = None;
            while let Some(step) = inbox.recv().await {
                last.clone_from(&step.message);
                send("report", serde_json::to_value(&step).unwrap_or_default()).await;
            }
            send("end", serde_json::json!({ "message": last })).await;
        });
        Progress { steps }
    }
}

/// A running progress display; it ends when dropped.
#[derive(Debug)]
pub struct Progress {
    steps: mpsc::UnboundedSender<lsp::WorkDoneProgressReport>,
}

impl Progress {
    pub fn report(&self, percentage: Option<u32>, message: String) {
        let _ = self.steps.send(lsp::WorkDoneProgressReport {
            cancellable: Some(true),
            message: Some(message),
            percentage,
        });
    }
}
