//! Optimization jobs: one per kernel, one running at a time, results kept until the person decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use hipsmith_rounds::{Cancel, Error, Event as Step, Evidence, Report, Request, Status};
use lsp_types as lsp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::event::Event;
use crate::outbox::{Outbox, Progress};

/// Number of a job, counted from 1 in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

impl JobId {
    /// As the protocol shows it.
    pub fn name(self) -> String {
        format!("job-{}", self.0)
    }
    /// From `{"jobId": "job-3"}`.
    pub fn from_params(params: Option<&Value>) -> Option<Self> {
        let name = params?.get("jobId")?.as_str()?;
        name.strip_prefix("job-")?.parse().ok().map(JobId)
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Queued,
    Running,
    Finished,
    Failed,
    Cancelled,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One job. The text is the one it was started from; the diff counts in it.
#[derive(Debug)]
pub struct Job {
    pub uri: lsp::Uri,
    pub version: i32,
    pub request: Request,
    pub state: State,
    /// What happens now, or how it ended: one sentence.
    pub message: String,
    pub round: u32,
    pub report: Option<Arc<Report>>,
    cancel: Cancel,
    progress: Option<Progress>,
}

impl Job {
    /// The new text, when there is a verified gain to decide about.
    pub fn new_text(&self) -> Option<&str> {
        let report = self.report.as_ref()?;
        (report.status == Status::Improved)
            .then_some(report.new_text.as_deref())
            .flatten()
    }

    /// How much faster, and how that is known: "1.90x faster (simulated)". Only when there is something to decide about.
    pub fn gain(&self) -> Option<String> {
        self.new_text()?;
        let report = self.report.as_ref()?;
        let evidence = match report.evidence {
            Evidence::Simulated => "simulated",
            Evidence::Measured => "measured",
        };
        Some(format!("{:.2}x faster ({evidence})", report.speedup?))
    }

    /// The entry of `hipsmith/jobs`.
    pub fn status(&self, id: JobId) -> Value {
        let mut entry = json!({
            "jobId": id.name(),
            "state": self.state.name(),
            "kernel": self.request.kernel,
            "uri": self.uri,
            "message": self.message,
            "round": self.round,
            "rounds": self.request.rounds,
        });
        if let Some(report) = &self.report {
            entry["speedup"] = json!(report.speedup);
            entry["evidence"] = json!(report.evidence);
        }
        entry
    }

    /// The answer to `hipsmith/jobResult`.
    pub fn result(&self, id: JobId) -> Value {
        let mut result = self.status(id);
        result["version"] = json!(self.version);
        result["report"] = json!(self.report);
        result["newText"] = json!(self.new_text());
        result["diff"] = json!(self.report.as_ref().map_or("", |r| &r.diff));
        result
    }

    /// The answer to the command `hipsmith.previewJob`.
    pub fn preview(&self, id: JobId) -> Value {
        json!({
            "jobId": id.name(),
            "uri": self.uri,
            "version": self.version,
            "oldText": self.request.text,
            "newText": self.new_text(),
            "diff": self.report.as_ref().map_or("", |r| &r.diff),
        })
    }
}

/// All jobs of this session.
#[derive(Debug, Default)]
pub struct Jobs {
    jobs: BTreeMap<JobId, Job>,
    last: u32,
}

impl Jobs {
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }
    /// Jobs of one document, oldest first.
    pub fn of<'a>(&'a self, uri: &'a lsp::Uri) -> impl Iterator<Item = (JobId, &'a Job)> {
        self.iter().filter(move |(_, job)| job.uri == *uri)
    }

    /// Queue a job. A kernel has at most one: a waiting or running one is refused, a decided one replaced.
    pub fn add(&mut self, uri: lsp::Uri, version: i32, request: Request) -> Result<JobId, String> {
        let same = self
            .of(&uri)
            .find(|(_, job)| job.request.kernel == request.kernel)
            .map(|(id, job)| (id, job.state));
        match same {
            Some((id, State::Queued | State::Running)) => {
                return Err(format!(
                    "{} is already being optimized ({}); cancel that job first",
                    request.kernel,
                    id.name()
                ));
            }
            Some((id, _)) => {
                self.jobs.remove(&id);
            }
            None => {}
        }
        self.last += 1;
        let id = JobId(self.last);
        self.jobs.insert(
            id,
            Job {
                uri,
                version,
                request,
                state: State::Queued,
                message: "waiting for its turn".to_owned(),
                round: 0,
                report: None,
                cancel: Cancel::new(),
                progress: None,
            },
        );
        Ok(id)
    }

    /// Start the oldest waiting job unless one runs; returns it.
    pub fn start_next(
        &mut self,
        events: &mpsc::UnboundedSender<Event>,
        outbox: &Outbox,
        show_progress: bool,
    ) -> Option<JobId> {
        if self.jobs.values().any(|job| job.state == State::Running) {
            return None;
        }
        let (&id, job) = self
            .jobs
            .iter_mut()
            .find(|(_, job)| job.state == State::Queued)?;
        job.state = State::Running;
        job.message = "starting".to_owned();
        if show_progress {
            job.progress = Some(outbox.progress(
                format!("hipsmith/job/{}", id.0),
                format!("hipsmith: optimizing {}", job.request.kernel),
            ));
        }
        let (request, cancel, events) = (job.request.clone(), job.cancel.clone(), events.clone());
        std::thread::spawn(move || {
            let steps = events.clone();
            let run = || {
                hipsmith_rounds::optimize(&request, &cancel, &mut |step| {
                    let _ = steps.send(Event::JobStep(id, step));
                })
            };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
                .unwrap_or_else(|_| {
                    Err(Error::Failed(
                        "hipsmith itself failed while optimizing (a bug); the server's log has the details"
                            .to_owned(),
                    ))
                });
            let _ = events.send(Event::JobEnded(id, Box::new(result)));
        });
        Some(id)
    }

    /// A running job made a step.
    pub fn step(&mut self, id: JobId, step: Step) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let of = job.request.rounds.max(1);
        match step {
            Step::Step(what) => job.message = what,
            Step::RoundStarted { n, of, hypothesis } => {
                job.round = n;
                job.message = format!("round {n} of {of}: {hypothesis}");
            }
            Step::RoundEnded(round) => {
                job.message = format!("round {} of {of}: {}", round.n, round.reason);
            }
        }
        if let Some(progress) = &job.progress {
            let percentage = job.round.saturating_sub(1).min(of) * 100 / of;
            progress.report(Some(percentage), job.message.clone());
        }
    }

    /// A job ended; its progress display goes.
    pub fn end(&mut self, id: JobId, result: Result<Report, Error>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        (job.state, job.message) = match &result {
            Ok(report) if report.status == Status::Failed => {
                (State::Failed, report.summary.clone())
            }
            Ok(report) => (State::Finished, report.summary.clone()),
            Err(Error::Cancelled) => (State::Cancelled, Error::Cancelled.to_string()),
            Err(Error::Failed(why)) => (State::Failed, why.clone()),
        };
        job.report = result.ok().map(Arc::new);
        if let Some(progress) = job.progress.take() {
            progress.report(Some(100), job.message.clone());
        }
    }

    /// Ask a job to stop. A waiting one is cancelled at once; a running one ends by itself soon.
    pub fn cancel(&mut self, id: JobId) -> Result<(), String> {
        let job = self
            .jobs
            .get_mut(&id)
            .ok_or_else(|| format!("there is no {}", id.name()))?;
        match job.state {
            State::Queued => {
                job.state = State::Cancelled;
                job.message = Error::Cancelled.to_string();
            }
            State::Running => {
                job.cancel.cancel();
                job.message = "stopping".to_owned();
            }
            State::Finished | State::Failed | State::Cancelled => {
                return Err(format!("{} has already ended", id.name()));
            }
        }
        Ok(())
    }

    /// Forget a job whose result was accepted or dismissed.
    pub fn remove(&mut self, id: JobId) -> Option<Job> {
        self.jobs.remove(&id)
    }

    /// Ask every job to stop.
    pub fn cancel_all(&mut self) {
        for job in self.jobs.values() {
            job.cancel.cancel();
        }
    }
    /// Whether a job still holds programs.
    pub fn any_running(&self) -> bool {
        self.jobs.values().any(|job| job.state == State::Running)
    }
}
