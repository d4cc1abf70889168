//! `textDocument/codeLens`: above each kernel, "Optimize this kernel", or how its job stands.

use lsp_types as lsp;
use serde_json::json;

use crate::convert;
use crate::jobs::State;
use crate::requests::execute_command::{CANCEL, OPTIMIZE, preview_command};
use crate::session::Snapshot;

pub fn code_lenses(snapshot: &Snapshot) -> Vec<lsp::CodeLens> {
    let model = snapshot.document.model();
    let mut lenses = Vec::new();
    for (_, kernel) in model.kernels() {
        let range = convert::range(
            &snapshot.document,
            snapshot.client.encoding,
            &kernel.name_range,
        );
        let mut lens = |title: String, command: &str, argument| {
            lenses.push(lsp::CodeLens {
                range,
                command: Some(lsp::Command {
                    title,
                    tooltip: None,
                    command: command.to_owned(),
                    arguments: Some(vec![argument]),
                }),
                data: None,
            });
        };
        let job = snapshot
            .jobs
            .iter()
            .rev()
            .find(|job| job.kernel == kernel.name);
        if let Some((job, gain)) = job.and_then(|job| Some((job, job.gain.as_ref()?))) {
            lens(
                format!("{gain}: show the diff"),
                preview_command(&snapshot.client),
                json!({ "jobId": job.id.name() }),
            );
        }
        match job {
            Some(job) if matches!(job.state, State::Queued | State::Running) => lens(
                format!("Optimizing{} (cancel)", job.rounds),
                CANCEL,
                json!({ "jobId": job.id.name() }),
            ),
            _ => lens(
                "Optimize this kernel".to_owned(),
                OPTIMIZE,
                json!({ "uri": snapshot.uri, "kernel": kernel.name }),
            ),
        }
    }
    lenses
}
