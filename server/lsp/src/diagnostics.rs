//! Everything shown in a document's margin: the rules' findings and the jobs' results.

use hipsmith_lint::{Diagnostic, Severity};
use hipsmith_rounds::Status;
use hipsmith_syntax::Document;
use lsp_types as lsp;
use serde_json::json;

use crate::convert;
use crate::jobs::{Job, JobId, State};
use crate::merge;
use crate::session::{Session, file_of};

/// The `source` of every diagnostic of ours.
pub const SOURCE: &str = "hipsmith";

/// The `code` of a job's result.
pub const RESULT: &str = "optimization-result";

/// The diagnostics of a document as they stand now, with the version they belong to. `None`: none are known yet.
pub fn of(session: &Session, uri: &lsp::Uri) -> Option<lsp::PublishDiagnosticsParams> {
    let open = session.documents.get(uri)?;
    let (version, findings) = open.findings.as_ref()?;
    if *version != open.document.version() {
        return None;
    }
    let mut diagnostics: Vec<_> = findings
        .iter()
        .map(|finding| from_finding(session.client.encoding, uri, &open.document, finding))
        .collect();
    diagnostics.extend(
        session
            .jobs
            .of(uri)
            .filter_map(|(id, job)| from_job(session, &open.document, id, job)),
    );
    Some(lsp::PublishDiagnosticsParams {
        uri: uri.clone(),
        version: Some(*version),
        diagnostics,
    })
}

/// One finding of a rule.
pub fn from_finding(
    encoding: hipsmith_syntax::Encoding,
    uri: &lsp::Uri,
    document: &Document,
    finding: &Diagnostic,
) -> lsp::Diagnostic {
    let related: Vec<_> = finding
        .related
        .iter()
        .map(|(range, message)| lsp::DiagnosticRelatedInformation {
            location: lsp::Location {
                uri: uri.clone(),
                range: convert::range(document, encoding, range),
            },
            message: message.clone(),
        })
        .collect();
    lsp::Diagnostic {
        range: convert::range(document, encoding, &finding.range),
        severity: Some(match finding.severity {
            Severity::Error => lsp::DiagnosticSeverity::Error,
            Severity::Warning => lsp::DiagnosticSeverity::Warning,
            Severity::Hint => lsp::DiagnosticSeverity::Hint,
        }),
        code: Some(finding.rule.into()),
        // A rule's page is in the hover and in `hipsmith explain`; there is no address to link to.
        code_description: None,
        source: Some(SOURCE.to_owned()),
        message: finding.message.clone().into(),
        tags: None,
        related_information: (!related.is_empty()).then_some(related),
        data: Some(json!({ "rule": finding.rule })),
    }
}

/// A decided job's result, at its kernel's name. Nothing while it runs, and nothing when the kernel is gone.
fn from_job(
    session: &Session,
    document: &Document,
    id: JobId,
    job: &Job,
) -> Option<lsp::Diagnostic> {
    if !matches!(job.state, State::Finished | State::Failed) {
        return None;
    }
    let encoding = session.client.encoding;
    let model = document.model();
    let kernel = &model.functions[model.kernel(&job.request.kernel)?];
    let severity = match job.state {
        State::Failed => lsp::DiagnosticSeverity::Warning,
        _ => lsp::DiagnosticSeverity::Information,
    };
    let mut related = Vec::new();
    if let Some(new_text) = job.new_text() {
        let edits = merge::onto(&job.request.text, new_text, document.text()).unwrap_or_default();
        related.extend(
            edits
                .iter()
                .map(|(range, _)| lsp::DiagnosticRelatedInformation {
                    location: lsp::Location {
                        uri: job.uri.clone(),
                        range: convert::range(document, encoding, range),
                    },
                    message: "would be changed".to_owned(),
                }),
        );
    }
    let journal = job.report.as_ref().and_then(|r| r.journal.as_ref());
    if let Some(uri) = journal.and_then(|path| lsp::Uri::from_file_path(path).ok()) {
        related.push(lsp::DiagnosticRelatedInformation {
            location: lsp::Location {
                uri,
                range: lsp::Range::default(),
            },
            message: "journal of the rounds".to_owned(),
        });
    }
    Some(lsp::Diagnostic {
        range: convert::range(document, encoding, &kernel.name_range),
        severity: Some(severity),
        code: Some(RESULT.into()),
        code_description: None,
        source: Some(SOURCE.to_owned()),
        message: message(job).into(),
        tags: None,
        related_information: (!related.is_empty()).then_some(related),
        data: Some(json!({ "jobId": id.name() })),
    })
}

fn message(job: &Job) -> String {
    match job.report.as_ref().map(|report| report.status) {
        Some(Status::Improved) => {
            format!(
                "{}. Preview, accept or dismiss it with a code action.",
                job.message
            )
        }
        Some(Status::NoImprovement) => job.message.clone(),
        Some(Status::Failed) | None => {
            let file = file_of(&job.uri)
                .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .unwrap_or_default();
            format!(
                "{} ({file}) was not optimized: {}",
                job.request.kernel, job.message
            )
        }
    }
}
