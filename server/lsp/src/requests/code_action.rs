//! `textDocument/codeAction`: fixes, fix all, optimize, and what to do with a job's result.

use std::ops::Range;

use hipsmith_lint::{Diagnostic, Safety};
use lsp_types as lsp;
use serde_json::{Value, json};

use crate::jobs::State;
use crate::requests::execute_command::{ACCEPT, DISMISS, OPTIMIZE, preview_command};
use crate::session::{JobView, Snapshot};
use crate::{convert, diagnostics, merge};

const FIX_ALL: &str = "source.fixAll.hipsmith";
/// Not a quick fix: a client may apply the only one without asking.
const SUPPRESS: &str = "refactor.hipsmith.suppress";
const REWRITE: &str = "refactor.rewrite.hipsmith.optimize";

/// Every kind of action we offer.
pub fn kinds() -> Vec<lsp::CodeActionKind> {
    [QUICK_FIX, FIX_ALL, REWRITE, SUPPRESS].map(kind).to_vec()
}

const QUICK_FIX: &str = "quickfix";

fn kind(name: &str) -> lsp::CodeActionKind {
    name.to_owned().into()
}

/// Whether the client asked for this kind or one above it.
fn wanted(only: Option<&[lsp::CodeActionKind]>, kind: &str) -> bool {
    only.is_none_or(|only| {
        only.iter().any(|asked| {
            let asked = String::from(asked.clone());
            asked.is_empty()
                || kind == asked
                || kind
                    .strip_prefix(&asked)
                    .is_some_and(|rest| rest.starts_with('.'))
        })
    })
}

pub fn code_actions(
    snapshot: &Snapshot,
    params: &lsp::CodeActionParams,
) -> Vec<lsp::CodeActionResponse> {
    let only = params.context.only.as_deref();
    let encoding = snapshot.client.encoding;
    let start = convert::offset(&snapshot.document, encoding, params.range.start);
    let end = convert::offset(&snapshot.document, encoding, params.range.end).max(start);
    let touches = |range: &Range<usize>| range.start <= end && start <= range.end;
    let findings = snapshot.findings();
    let mut actions = Vec::new();

    if wanted(only, QUICK_FIX) {
        for finding in findings.iter().filter(|f| touches(&f.range)) {
            actions.extend(fix(snapshot, finding));
        }
        actions.extend(job_actions(snapshot, &params.context.diagnostics, &touches));
    }
    // Never beside other actions: an editor that runs it on save asks for it by name.
    if only.is_some() && wanted(only, FIX_ALL) {
        actions.extend(fix_all(snapshot));
    }
    if wanted(only, SUPPRESS) {
        for finding in findings.iter().filter(|f| touches(&f.range)) {
            actions.extend(suppress(snapshot, finding));
        }
    }
    if wanted(only, REWRITE) {
        let model = snapshot.document.model();
        if let Some((_, kernel)) = model.kernels().find(|(_, k)| touches(&k.range)) {
            actions.push(lsp::CodeAction {
                title: format!("Optimize this kernel ({})", kernel.name),
                kind: Some(self::kind(REWRITE)),
                command: Some(command(
                    "Optimize this kernel",
                    OPTIMIZE,
                    json!({ "uri": snapshot.uri, "kernel": kernel.name }),
                )),
                ..Default::default()
            });
        }
    }
    actions
        .into_iter()
        .map(lsp::CodeActionResponse::CodeAction)
        .collect()
}

fn command(title: &str, name: &str, argument: Value) -> lsp::Command {
    lsp::Command {
        title: title.to_owned(),
        tooltip: None,
        command: name.to_owned(),
        arguments: Some(vec![argument]),
    }
}

fn edit(snapshot: &Snapshot, edits: &[(Range<usize>, String)]) -> lsp::WorkspaceEdit {
    convert::versioned_edit(
        &snapshot.uri,
        snapshot.document.version(),
        convert::text_edits(&snapshot.document, snapshot.client.encoding, edits),
    )
}

fn fix(snapshot: &Snapshot, finding: &Diagnostic) -> Option<lsp::CodeAction> {
    let fix = finding.fix.as_ref()?;
    // A fix that is only shown is part of the message; applying it is the person's work.
    if fix.safety == Safety::ShownOnly {
        return None;
    }
    let title = match fix.safety {
        Safety::Unsafe => format!("{} (may change results: review it)", fix.title),
        _ => fix.title.clone(),
    };
    Some(lsp::CodeAction {
        title,
        kind: Some(kind(QUICK_FIX)),
        diagnostics: Some(vec![diagnostics::from_finding(
            snapshot.client.encoding,
            &snapshot.uri,
            &snapshot.document,
            finding,
        )]),
        is_preferred: Some(fix.safety == Safety::Safe),
        edit: Some(edit(snapshot, &fix.edits)),
        ..Default::default()
    })
}

/// All safe fixes, and those that show up then, as one edit.
fn fix_all(snapshot: &Snapshot) -> Option<lsp::CodeAction> {
    let fixed = hipsmith_lint::fix(&snapshot.document, &snapshot.project.lint, false);
    let edits = match &fixed.passes[..] {
        [] => return None,
        [edits] => edits.clone(),
        _ => merge::edits(snapshot.document.text(), fixed.document.text()),
    };
    Some(lsp::CodeAction {
        title: "Apply all safe hipsmith fixes".to_owned(),
        kind: Some(kind(FIX_ALL)),
        edit: Some(edit(snapshot, &edits)),
        ..Default::default()
    })
}

/// Silence a finding by a comment: offered where refactorings are, so that no editor does it on its own.
fn suppress(snapshot: &Snapshot, finding: &Diagnostic) -> Option<lsp::CodeAction> {
    let fix = hipsmith_lint::suppression(&snapshot.document, finding.rule, &finding.range)?;
    Some(lsp::CodeAction {
        title: fix.title,
        kind: Some(kind(SUPPRESS)),
        edit: Some(edit(snapshot, &fix.edits)),
        ..Default::default()
    })
}

/// For a result shown at a kernel's name: preview, accept, dismiss.
fn job_actions(
    snapshot: &Snapshot,
    shown: &[lsp::Diagnostic],
    touches: &impl Fn(&Range<usize>) -> bool,
) -> Vec<lsp::CodeAction> {
    let model = snapshot.document.model();
    let at_kernel = |job: &&JobView| {
        model
            .kernel(&job.kernel)
            .is_some_and(|k| touches(&model.functions[k].name_range))
    };
    let mut actions = Vec::new();
    for job in snapshot.jobs.iter().filter(at_kernel) {
        if !matches!(job.state, State::Finished | State::Failed) {
            continue;
        }
        // Beside the result in the editor's list of problems, too.
        let argument = json!({ "jobId": job.id.name() });
        let result: Vec<_> = shown
            .iter()
            .filter(|diagnostic| diagnostic.data.as_ref() == Some(&argument))
            .cloned()
            .collect();
        let mut act = |title: &str, name: &str, preferred: bool| {
            actions.push(lsp::CodeAction {
                title: title.to_owned(),
                kind: Some(kind(QUICK_FIX)),
                diagnostics: (!result.is_empty()).then(|| result.clone()),
                is_preferred: Some(preferred),
                command: Some(command(title, name, argument.clone())),
                ..Default::default()
            });
        };
        if job.gain.is_some() {
            act(
                "Preview the optimized kernel as a diff",
                preview_command(&snapshot.client),
                true,
            );
            act("Accept the optimized kernel", ACCEPT, false);
        }
        act("Dismiss this optimization result", DISMISS, false);
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_match_from_above_only() {
        let only = |name: &str| vec![kind(name)];
        assert!(wanted(None, QUICK_FIX));
        assert!(wanted(Some(&only("refactor")), REWRITE));
        assert!(wanted(Some(&only(REWRITE)), REWRITE));
        assert!(!wanted(Some(&only("refactor.rewrite.hip")), REWRITE));
        assert!(!wanted(Some(&only("source")), QUICK_FIX));
    }
}
