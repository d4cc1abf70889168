//! `initialize`: what we can do.

use hipsmith_syntax::Encoding;
use lsp_types as lsp;

use crate::requests::{code_action, execute_command};

pub fn result(encoding: Encoding) -> lsp::InitializeResult {
    let capabilities = lsp::ServerCapabilities {
        position_encoding: Some(match encoding {
            Encoding::Utf8 => lsp::PositionEncodingKind::UTF8,
            Encoding::Utf16 => lsp::PositionEncodingKind::UTF16,
        }),
        text_document_sync: Some(
            lsp::TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(lsp::TextDocumentSyncKind::Incremental),
                save: Some(true.into()),
                ..Default::default()
            }
            .into(),
        ),
        hover_provider: Some(true.into()),
        code_action_provider: Some(
            lsp::CodeActionOptions {
                code_action_kinds: Some(code_action::kinds()),
                ..Default::default()
            }
            .into(),
        ),
        code_lens_provider: Some(lsp::CodeLensOptions::default()),
        document_symbol_provider: Some(true.into()),
        inlay_hint_provider: Some(true.into()),
        execute_command_provider: Some(lsp::ExecuteCommandOptions {
            commands: execute_command::COMMANDS
                .iter()
                .map(|command| (*command).to_owned())
                .collect(),
            ..Default::default()
        }),
        ..Default::default()
    };
    lsp::InitializeResult {
        capabilities,
        server_info: Some(lsp::ServerInfo {
            name: "hipsmith".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}
