//! `textDocument/didOpen`, `didChange`, `didSave`, `didClose`: each notes what the client said and starts what follows
//! from it (`pipeline.rs`).

use hipsmith_syntax::Document;
use lsp_types as lsp;

use crate::convert;
use crate::main_loop::Loop;
use crate::pipeline::{self, Change};
use crate::session::{Open, file_of};
use crate::settings::Run;

pub fn opened(this: &mut Loop, params: lsp::DidOpenTextDocumentParams) {
    let item = params.text_document;
    // A client that opens twice without closing starts over.
    close(this, &item.uri);
    // What the project's files say is looked up when the text is read, not in this turn.
    let project = this.session.projects.of(None);
    let empty = Document::with_options("", item.version, project.options(None));
    let mut open = Open::new(this.session.next_instance(), empty, project);
    open.ahead.push(Change {
        version: item.version,
        parts: vec![(None, item.text)],
    });
    open.wants_check = true;
    open.wants_compilation = true;
    this.session.documents.insert(item.uri.clone(), open);
    pipeline::read(this, &item.uri);
}

pub fn changed(this: &mut Loop, params: lsp::DidChangeTextDocumentParams) {
    let uri = params.text_document.text_document_identifier.uri;
    let on_type = this.session.settings.run == Run::OnType;
    let Some(open) = this.session.documents.get_mut(&uri) else {
        tracing::warn!("a change of {uri}, which is not open");
        return;
    };
    let parts = params
        .content_changes
        .into_iter()
        .map(|change| match change {
            lsp::TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => (
                Some((
                    convert::from_position(part.range.start),
                    convert::from_position(part.range.end),
                )),
                part.text,
            ),
            lsp::TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                (None, whole.text)
            }
        })
        .collect();
    open.ahead.push(Change {
        version: params.text_document.version,
        parts,
    });
    open.wants_check |= on_type;
    pipeline::read(this, &uri);
}

pub fn saved(this: &mut Loop, params: &lsp::DidSaveTextDocumentParams) {
    let uri = &params.text_document.uri;
    let Some(open) = this.session.documents.get_mut(uri) else {
        return;
    };
    open.wants_project = true;
    open.wants_check = true;
    open.wants_compilation = true;
    pipeline::read(this, uri);
    pipeline::proceed(this, uri);
}

pub fn closed(this: &mut Loop, params: &lsp::DidCloseTextDocumentParams) {
    let uri = &params.text_document.uri;
    close(this, uri);
    // Nothing may stay in the margin of a file that nobody watches any more.
    this.outbox.diagnostics(lsp::PublishDiagnosticsParams {
        uri: uri.clone(),
        version: None,
        diagnostics: Vec::new(),
    });
}

fn close(this: &mut Loop, uri: &lsp::Uri) {
    if let Some(open) = this.session.documents.remove(uri) {
        if let Some(file) = file_of(uri) {
            open.project.headers.set_open(&file, None);
        }
        open.stop();
    }
}
