//! The one task that changes state. A turn parses at most; everything longer runs on blocking threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use lsp_types as lsp;
use tokio::sync::mpsc;
use tower_lsp::Client;
use tower_lsp::jsonrpc;

use crate::event::{Event, Reply};
use crate::outbox::Outbox;
use crate::session::{self, Session, Snapshot};
use crate::{diagnostics, notifications, pipeline, requests};

/// A turn longer than this is worth a warning: it delays everything else.
const LONG_TURN: Duration = Duration::from_millis(100);

/// How long `shutdown` waits for running jobs to stop their programs.
const STOP_LIMIT: Duration = Duration::from_millis(1500);

/// What the loop's steps work with.
pub struct Loop {
    pub session: Session,
    pub outbox: Outbox,
    pub events: mpsc::UnboundedSender<Event>,
    /// The client is leaving: no job starts any more.
    leaving: bool,
    /// Who waits for everything to stop.
    stopping: Vec<Reply<()>>,
}

/// Handle events until the process ends.
pub async fn run(
    client: Client,
    events: mpsc::UnboundedSender<Event>,
    mut inbox: mpsc::UnboundedReceiver<Event>,
) {
    let mut this = Loop {
        session: Session::default(),
        outbox: Outbox::start(client),
        events,
        leaving: false,
        stopping: Vec::new(),
    };
    while let Some(event) = inbox.recv().await {
        let start = Instant::now();
        // Whoever waits for this event's answer is told by the dropped reply; the others never notice.
        if catch_unwind(AssertUnwindSafe(|| this.handle(event))).is_err() {
            tracing::error!("an event could not be handled (a bug)");
        }
        let turn = start.elapsed();
        if turn > LONG_TURN {
            tracing::warn!("a turn of the main loop took {} ms", turn.as_millis());
        }
    }
}

impl Loop {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Initialize(params, reply) => {
                let _ = reply.send(Ok(self.initialize(&params)));
            }
            Event::Initialized => {
                notifications::configuration::fetch(self);
                notifications::watched_files::watch(self);
            }
            Event::Opened(params) => notifications::documents::opened(self, params),
            Event::Changed(params) => notifications::documents::changed(self, params),
            Event::Saved(params) => notifications::documents::saved(self, &params),
            Event::Closed(params) => notifications::documents::closed(self, &params),
            Event::Settings(value) => notifications::configuration::changed(self, &value),
            Event::FilesChanged(params) => notifications::watched_files::changed(self, &params),
            Event::ProgressCancelled(token) => {
                notifications::progress_cancel::cancelled(self, &token);
            }
            Event::Hover(params, reply) => {
                let at = params.text_document_position_params;
                self.answer(&at.text_document.uri, reply, None, move |s| {
                    requests::hover::hover(s, at.position)
                });
            }
            Event::CodeAction(params, reply) => {
                let uri = params.text_document.uri.clone();
                self.answer(&uri, reply, None, move |s| {
                    Some(requests::code_action::code_actions(s, &params))
                });
            }
            Event::CodeLens(params, reply) => {
                self.answer(&params.text_document.uri, reply, None, |s| {
                    Some(requests::code_lens::code_lenses(s))
                });
            }
            Event::DocumentSymbol(params, reply) => {
                self.answer(&params.text_document.uri, reply, None, |s| {
                    Some(requests::document_symbol::document_symbols(s))
                });
            }
            Event::InlayHint(params, reply) => {
                self.answer(&params.text_document.uri, reply, None, move |s| {
                    Some(requests::inlay_hint::inlay_hints(s, params.range))
                });
            }
            Event::Command(params, reply) => {
                let _ = reply.send(requests::execute_command::execute(self, &params));
            }
            Event::Jobs(reply) => {
                let _ = reply.send(Ok(requests::jobs::list(&self.session)));
            }
            Event::JobResult(params, reply) => {
                let _ = reply.send(requests::jobs::result(&self.session, &params));
            }
            Event::Read {
                uri,
                instance,
                document,
                is_hip,
                project,
                problems,
            } => {
                for problem in problems {
                    self.outbox.message(lsp::MessageType::Warning, problem);
                }
                pipeline::read_ended(self, &uri, instance, document, is_hip, project);
            }
            Event::Checked {
                uri,
                instance,
                version,
                project,
                findings,
            } => pipeline::check_ended(self, &uri, instance, version, &project, findings),
            Event::Paused {
                uri,
                instance,
                version,
            } => pipeline::settle(self, &uri, instance, version),
            Event::Compiled {
                uri,
                instance,
                resources,
            } => {
                pipeline::compile_ended(self, &uri, instance, resources);
                self.answer_if_stopped();
            }
            Event::JobStep(id, step) => {
                let new_round = matches!(step, hipsmith_rounds::Event::RoundStarted { .. });
                self.session.jobs.step(id, step);
                self.tell_job(id);
                if new_round {
                    self.refresh_lenses();
                }
            }
            Event::JobEnded(id, result) => {
                self.session.jobs.end(id, *result);
                self.job_ended(id);
            }
            Event::Applied(id, result) => requests::execute_command::applied(self, id, result),
            Event::Shutdown(reply) => self.stop(reply),
            Event::StopLimit => {
                for reply in self.stopping.drain(..) {
                    let _ = reply.send(Ok(()));
                }
            }
        }
    }

    fn initialize(&mut self, params: &lsp::InitializeParams) -> lsp::InitializeResult {
        let capabilities = serde_json::to_value(&params.capabilities).unwrap_or_default();
        self.session.client = session::Client::from_capabilities(&capabilities);
        if let Some(options) = &params.initialization_options {
            notifications::configuration::changed(self, options);
        }
        requests::initialize::result(self.session.client.encoding)
    }

    /// Compute an answer about one document on a blocking thread, once the changes that came before the request are
    /// read. An unknown document, or one without HIP, gets `nothing`. A panic becomes an error for this request only;
    /// an answer nobody waits for is not computed.
    fn answer<T: Send + 'static>(
        &mut self,
        uri: &lsp::Uri,
        reply: Reply<T>,
        nothing: T,
        compute: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) {
        let answer = move |snapshot: Option<Snapshot>| {
            let Some(snapshot) = snapshot else {
                let _ = reply.send(Ok(nothing));
                return;
            };
            tokio::task::spawn_blocking(move || {
                if reply.is_closed() {
                    return;
                }
                let result = catch_unwind(AssertUnwindSafe(|| compute(&snapshot))).map_err(|_| {
                    let mut error = jsonrpc::Error::internal_error();
                    error.message = format!("hipsmith failed on {} (a bug)", snapshot.uri).into();
                    error
                });
                let _ = reply.send(result);
            });
        };
        match self.session.documents.get_mut(uri) {
            Some(open) if open.reading => open.waiting.push(Box::new(answer)),
            _ => answer(self.session.snapshot(uri)),
        }
    }

    /// Send a document's diagnostics as they stand.
    pub fn publish(&self, uri: &lsp::Uri) {
        if let Some(params) = diagnostics::of(&self.session, uri) {
            self.outbox.diagnostics(params);
        }
    }

    /// Send a document's diagnostics; if its newest text was never checked (it is checked on save only), check it
    /// first.
    pub fn publish_or_check(&mut self, uri: &lsp::Uri) {
        let Some(open) = self.session.documents.get_mut(uri) else {
            return;
        };
        match open.findings {
            Some((version, _)) if open.is_current(version) => self.publish(uri),
            _ => {
                open.wants_check = true;
                pipeline::proceed(self, uri);
            }
        }
    }

    /// A job has ended: say so everywhere, and let the next one run.
    pub fn job_ended(&mut self, id: crate::jobs::JobId) {
        self.tell_job(id);
        self.run_jobs();
        self.refresh_lenses();
        if let Some(uri) = self.session.jobs.get(id).map(|job| job.uri.clone()) {
            self.publish_or_check(&uri);
        }
        self.answer_if_stopped();
    }

    /// Start the next waiting job, if none runs.
    pub fn run_jobs(&mut self) {
        if self.leaving {
            return;
        }
        let progress = self.session.client.progress;
        if let Some(id) = self
            .session
            .jobs
            .start_next(&self.events, &self.outbox, progress)
        {
            self.tell_job(id);
        }
    }

    /// Tell the client how a job stands.
    pub fn tell_job(&self, id: crate::jobs::JobId) {
        if let Some(job) = self.session.jobs.get(id) {
            self.outbox.job(job.status(id));
        }
    }

    /// Lenses show jobs: have them asked for again.
    pub fn refresh_lenses(&self) {
        if self.session.client.lens_refresh {
            self.outbox
                .request::<lsp::CodeLensRefreshRequest>((), |_| {});
        }
    }

    /// Inlay hints show more than the text, which the client knows has changed: have them asked for again.
    pub fn refresh_hints(&self) {
        if self.session.client.hint_refresh {
            self.outbox
                .request::<lsp::InlayHintRefreshRequest>((), |_| {});
        }
    }

    /// Stop everything that holds programs; `reply` is sent when they are gone, or after the limit.
    fn stop(&mut self, reply: Reply<()>) {
        self.session.jobs.cancel_all();
        for open in self.session.documents.values() {
            if let Some(compiling) = &open.compiling {
                compiling.cancel.cancel();
            }
        }
        self.leaving = true;
        self.stopping.push(reply);
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STOP_LIMIT).await;
            let _ = events.send(Event::StopLimit);
        });
        self.answer_if_stopped();
    }

    fn answer_if_stopped(&mut self) {
        if !self.session.jobs.any_running() && self.session.compilations == 0 {
            for reply in self.stopping.drain(..) {
                let _ = reply.send(Ok(()));
            }
        }
    }
}
