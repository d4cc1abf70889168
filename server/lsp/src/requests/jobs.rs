//! `hipsmith/jobs` and `hipsmith/jobResult`.

use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use crate::jobs::JobId;
use crate::session::Session;

pub fn list(session: &Session) -> Value {
    let jobs: Vec<Value> = session
        .jobs
        .iter()
        .map(|(id, job)| job.status(id))
        .collect();
    json!({ "jobs": jobs })
}

pub fn result(session: &Session, params: &Value) -> Result<Value> {
    let id = JobId::from_params(Some(params))
        .ok_or_else(|| Error::invalid_params("jobId is missing; hipsmith/jobs lists the jobs"))?;
    let job = session.jobs.get(id).ok_or_else(|| {
        Error::invalid_params(format!(
            "there is no {}; it may have been decided",
            id.name()
        ))
    })?;
    Ok(job.result(id))
}
