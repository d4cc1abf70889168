//! Between bytes of a document and positions of the protocol.

use std::ops::Range;

use hipsmith_syntax::{Document, Encoding, Position};
use lsp_types as lsp;

pub fn position(document: &Document, encoding: Encoding, offset: usize) -> lsp::Position {
    let Position { line, column } = document.position(offset, encoding);
    lsp::Position {
        line,
        character: column,
    }
}

pub fn range(document: &Document, encoding: Encoding, range: &Range<usize>) -> lsp::Range {
    lsp::Range {
        start: position(document, encoding, range.start),
        end: position(document, encoding, range.end),
    }
}

pub fn from_position(position: lsp::Position) -> Position {
    Position {
        line: position.line,
        column: position.character,
    }
}

pub fn offset(document: &Document, encoding: Encoding, position: lsp::Position) -> usize {
    document.offset(from_position(position), encoding)
}

/// Text edits for byte edits of one document version.
pub fn text_edits(
    document: &Document,
    encoding: Encoding,
    edits: &[(Range<usize>, String)],
) -> Vec<lsp::TextEdit> {
    edits
        .iter()
        .map(|(bytes, new_text)| lsp::TextEdit {
            range: range(document, encoding, bytes),
            new_text: new_text.clone(),
        })
        .collect()
}

/// A workspace edit of one document against the version it was made for.
pub fn versioned_edit(
    uri: &lsp::Uri,
    version: i32,
    edits: Vec<lsp::TextEdit>,
) -> lsp::WorkspaceEdit {
    lsp::WorkspaceEdit {
        document_changes: Some(vec![
            lsp::TextDocumentEdit {
                text_document: lsp::OptionalVersionedTextDocumentIdentifier {
                    version: Some(version),
                    text_document_identifier: lsp::TextDocumentIdentifier { uri: uri.clone() },
                },
                edits: edits.into_iter().map(lsp::Edit::TextEdit).collect(),
            }
            .into(),
        ]),
        ..Default::default()
    }
}

/// Say with every edit where it comes from; only for clients that know annotations.
pub fn annotate(edit: &mut lsp::WorkspaceEdit, annotation: lsp::ChangeAnnotation) {
    const ID: &str = "hipsmith";
    for change in edit.document_changes.iter_mut().flatten() {
        let lsp::DocumentChange::TextDocumentEdit(change) = change else {
            continue;
        };
        for edit in &mut change.edits {
            if let lsp::Edit::TextEdit(plain) = edit {
                *edit = lsp::AnnotatedTextEdit::new(ID.to_owned(), std::mem::take(plain)).into();
            }
        }
    }
    edit.change_annotations = Some([(ID.to_owned(), annotation)].into());
}
