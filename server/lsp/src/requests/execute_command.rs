//! `workspace/executeCommand`: start, cancel, preview, accept and dismiss optimization jobs. Each returns at once.

use std::io::Write as _;

use lsp_types as lsp;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use crate::event::Event;
use crate::jobs::{JobId, State};
use crate::main_loop::Loop;
use crate::outbox::Outbox;
use crate::session::{Client, file_of};
use crate::settings::words;
use crate::{convert, merge};

pub const OPTIMIZE: &str = "hipsmith.optimizeKernel";
pub const CANCEL: &str = "hipsmith.cancelJob";
pub const PREVIEW: &str = "hipsmith.previewJob";
pub const ACCEPT: &str = "hipsmith.acceptJob";
pub const DISMISS: &str = "hipsmith.dismissJob";

/// What we answer to.
pub const COMMANDS: [&str; 5] = [OPTIMIZE, CANCEL, PREVIEW, ACCEPT, DISMISS];

/// Not ours: clients that draw the diff themselves run this one on their side.
const CLIENT_PREVIEW: &str = "hipsmith.client.previewJob";

/// The command that shows a job's diff to a person.
pub fn preview_command(client: &Client) -> &'static str {
    if client.preview {
        CLIENT_PREVIEW
    } else {
        PREVIEW
    }
}

pub fn execute(this: &mut Loop, params: &lsp::ExecuteCommandParams) -> Result<Option<Value>> {
    let argument = params.arguments.as_ref().and_then(|all| all.first());
    match params.command.as_str() {
        OPTIMIZE => optimize(this, argument).map(Some),
        CANCEL => cancel(this, job_of(this, argument)?).map(|()| None),
        PREVIEW => preview(this, job_of(this, argument)?).map(Some),
        ACCEPT => accept(this, job_of(this, argument)?).map(|()| None),
        DISMISS => {
            decided(this, job_of(this, argument)?);
            Ok(None)
        }
        other => Err(Error::invalid_params(format!(
            "hipsmith has no command {other}; it has {}",
            COMMANDS.join(", ")
        ))),
    }
}

fn refused(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    let mut error = Error::invalid_request();
    error.message = reason.into();
    error
}

fn job_of(this: &Loop, argument: Option<&Value>) -> Result<JobId> {
    let id = JobId::from_params(argument)
        .ok_or_else(|| Error::invalid_params("the argument must be an object with a jobId"))?;
    match this.session.jobs.get(id) {
        Some(_) => Ok(id),
        None => Err(Error::invalid_params(format!(
            "there is no {}; it may have been decided already",
            id.name()
        ))),
    }
}

fn optimize(this: &mut Loop, argument: Option<&Value>) -> Result<Value> {
    let text_of = |key: &str| argument.and_then(|a| a.get(key)).and_then(Value::as_str);
    let uri: lsp::Uri = text_of("uri")
        .and_then(|uri| uri.parse().ok())
        .ok_or_else(|| {
            Error::invalid_params("the argument must be an object with uri and kernel")
        })?;
    let kernel =
        text_of("kernel").ok_or_else(|| Error::invalid_params("the argument names no kernel"))?;
    let settings = &this.session.settings;
    if !settings.trusted {
        return Err(refused(
            "optimizing runs the compiler and your program: trust this workspace first",
        ));
    }
    let open = this
        .session
        .documents
        .get(&uri)
        .ok_or_else(|| refused(format!("{uri} is not open")))?;
    let file = file_of(&uri).ok_or_else(|| refused("the document has no file: save it first"))?;
    let model = open.document.model();
    if model.kernel(kernel).is_none() {
        let known: Vec<_> = model.kernels().map(|(_, k)| k.name.as_str()).collect();
        return Err(refused(format!(
            "this file has no kernel {kernel}; it has {}",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    }
    let program = match argument.and_then(|a| a.get("program")) {
        None | Some(Value::Null) => settings.program.clone(),
        Some(program) => Some(words(program).filter(|w| !w.is_empty()).ok_or_else(|| {
            Error::invalid_params("program must be a list: the program and its arguments")
        })?),
    };
    let rounds = match argument.and_then(|a| a.get("rounds")) {
        None | Some(Value::Null) => settings.rounds,
        Some(rounds) => rounds
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::invalid_params("rounds must be a whole number above 0"))?,
    };
    let request = hipsmith_rounds::Request {
        file,
        text: open.document.text().to_owned(),
        kernel: kernel.to_owned(),
        program,
        rounds,
        target: open.document.target().name.clone(),
        state_dir: None,
    };
    let version = open.document.version();
    let id = this
        .session
        .jobs
        .add(uri.clone(), version, request)
        .map_err(refused)?;
    this.tell_job(id);
    this.run_jobs();
    this.publish(&uri);
    this.refresh_lenses();
    Ok(json!({ "jobId": id.name() }))
}

/// Ask a job to stop; also for the cancel button of its progress.
pub fn cancel(this: &mut Loop, id: JobId) -> Result<()> {
    this.session.jobs.cancel(id).map_err(refused)?;
    this.tell_job(id);
    this.refresh_lenses();
    Ok(())
}

fn preview(this: &Loop, id: JobId) -> Result<Value> {
    let Some(job) = this.session.jobs.get(id) else {
        return Err(Error::internal_error());
    };
    if job.new_text().is_none() {
        return Err(refused(format!(
            "{} has no diff: {}",
            id.name(),
            job.message
        )));
    }
    let preview = job.preview(id);
    // A client that cannot draw a diff gets it as a file to look at.
    if !this.session.client.preview {
        let diff = preview["diff"].as_str().unwrap_or_default().to_owned();
        let journal = job
            .report
            .as_ref()
            .and_then(|report| report.journal.as_ref());
        let folder = journal
            .and_then(|path| path.parent())
            .map_or_else(std::env::temp_dir, std::path::Path::to_owned);
        let path = folder.join(format!("{}-{}.diff", job.request.kernel, id.name()));
        let (outbox, opens) = (this.outbox.clone(), this.session.client.show_document);
        tokio::task::spawn_blocking(move || show_file(&outbox, opens, &path, &diff));
    }
    Ok(preview)
}

fn show_file(outbox: &Outbox, opens: bool, path: &std::path::Path, text: &str) {
    let write = || {
        let folder = path.parent().unwrap_or(std::path::Path::new("."));
        let mut half = tempfile::NamedTempFile::new_in(folder)?;
        half.write_all(text.as_bytes())?;
        half.persist(path)?;
        std::io::Result::Ok(())
    };
    match (write(), lsp::Uri::from_file_path(path)) {
        (Ok(()), Ok(uri)) if opens => outbox.request::<lsp::ShowDocumentRequest>(
            lsp::ShowDocumentParams {
                uri,
                external: Some(false),
                take_focus: Some(true),
                selection: None,
            },
            |_| {},
        ),
        (Ok(()), _) => outbox.message(
            lsp::MessageType::Info,
            format!("hipsmith: the diff is in {}", path.display()),
        ),
        (Err(error), _) => outbox.message(
            lsp::MessageType::Error,
            format!(
                "hipsmith: the diff could not be written to {}: {error}",
                path.display()
            ),
        ),
    }
}

fn accept(this: &mut Loop, id: JobId) -> Result<()> {
    let encoding = this.session.client.encoding;
    let Some(job) = this.session.jobs.get(id) else {
        return Err(Error::internal_error());
    };
    let new_text = job.new_text().ok_or_else(|| {
        refused(format!(
            "{} has nothing to accept: {}",
            id.name(),
            job.message
        ))
    })?;
    let open = this.session.documents.get(&job.uri).ok_or_else(|| {
        refused(format!(
            "{} is not open any more: open it and accept again",
            job.uri
        ))
    })?;
    let edits =
        merge::onto(&job.request.text, new_text, open.document.text()).ok_or_else(|| {
            refused(format!(
                "the lines of {} have changed since the job started: optimize it again",
                job.request.kernel
            ))
        })?;
    let mut edit = convert::versioned_edit(
        &job.uri,
        open.document.version(),
        convert::text_edits(&open.document, encoding, &edits),
    );
    if this.session.client.annotations {
        convert::annotate(
            &mut edit,
            lsp::ChangeAnnotation {
                label: format!("hipsmith: optimized {}", job.request.kernel),
                // Who has seen the diff in the client's own view has confirmed by accepting.
                needs_confirmation: Some(!this.session.client.preview),
                description: job
                    .gain()
                    .map(|gain| format!("made by a tool, verified, {gain}")),
            },
        );
    }
    let params = lsp::ApplyWorkspaceEditParams {
        label: Some(format!("hipsmith: optimized {}", job.request.kernel)),
        edit,
        metadata: None,
    };
    let events = this.events.clone();
    this.outbox
        .request::<lsp::ApplyWorkspaceEditRequest>(params, move |answer| {
            let result = answer.and_then(|result| {
                if result.applied {
                    Ok(())
                } else {
                    Err(result
                        .failure_reason
                        .unwrap_or_else(|| "the editor did not apply the edit".to_owned()))
                }
            });
            let _ = events.send(Event::Applied(id, result));
        });
    Ok(())
}

/// The client has answered our edit.
pub fn applied(this: &mut Loop, id: JobId, result: std::result::Result<(), String>) {
    match result {
        Ok(()) => decided(this, id),
        Err(reason) => this.outbox.message(
            lsp::MessageType::Error,
            format!("hipsmith: the change was not taken over: {reason}"),
        ),
    }
}

/// The person has decided: the result leaves the margin.
fn decided(this: &mut Loop, id: JobId) {
    let running = this
        .session
        .jobs
        .get(id)
        .is_some_and(|job| matches!(job.state, State::Queued | State::Running));
    if running {
        let _ = cancel(this, id);
        return;
    }
    if let Some(job) = this.session.jobs.remove(id) {
        this.publish_or_check(&job.uri);
        this.refresh_lenses();
    }
}
