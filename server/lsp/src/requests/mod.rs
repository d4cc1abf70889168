//! One file per request. Each computes over a snapshot, except for commands, which change state.

pub mod code_action;
pub mod code_lens;
pub mod document_symbol;
pub mod execute_command;
pub mod hover;
pub mod initialize;
pub mod inlay_hint;
pub mod jobs;
