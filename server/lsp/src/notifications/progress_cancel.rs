//! `window/workDoneProgress/cancel`: the cancel button of a job's progress.

use lsp_types as lsp;

use crate::jobs::JobId;
use crate::main_loop::Loop;
use crate::requests::execute_command;

pub fn cancelled(this: &mut Loop, token: &lsp::ProgressToken) {
    let lsp::ProgressToken::String(token) = token else {
        return;
    };
    let Some(id) = token
        .strip_prefix("hipsmith/job/")
        .and_then(|n| n.parse().ok())
        .map(JobId)
    else {
        return;
    };
    // A job that has ended meanwhile has nothing left to cancel.
    let _ = execute_command::cancel(this, id);
}
