//! `workspace/didChangeWatchedFiles`: the files that say what holds for a project.

use lsp_types as lsp;

use crate::main_loop::Loop;
use crate::pipeline;
use crate::session::file_of;

/// What is watched, in any folder.
const FILES: [&str; 2] = ["hipsmith.toml", "compile_commands.json"];

/// Ask the client to watch; without that they are looked at when a document is saved.
pub fn watch(this: &mut Loop) {
    if !this.session.client.watches {
        return;
    }
    let watchers = FILES.map(|name| lsp::FileSystemWatcher {
        glob_pattern: format!("**/{name}").into(),
        kind: None,
    });
    let options = lsp::DidChangeWatchedFilesRegistrationOptions {
        watchers: watchers.to_vec(),
    };
    let registration = lsp::Registration {
        id: "hipsmith/projectFiles".to_owned(),
        method: "workspace/didChangeWatchedFiles".to_owned(),
        register_options: serde_json::to_value(options).ok(),
    };
    this.outbox.request::<lsp::RegistrationRequest>(
        lsp::RegistrationParams {
            registrations: vec![registration],
        },
        |answer| {
            if let Err(reason) = answer {
                tracing::info!("the client does not watch the project's files: {reason}");
            }
        },
    );
}

/// Read the documents anew whose project says something else now.
pub fn changed(this: &mut Loop, params: &lsp::DidChangeWatchedFilesParams) {
    let ours = params.changes.iter().any(|change| {
        file_of(&change.uri)
            .and_then(|path| Some(path.file_name()?.to_owned()))
            .is_some_and(|name| FILES.iter().any(|file| *file == name))
    });
    if !ours {
        return;
    }
    let uris: Vec<lsp::Uri> = this.session.documents.keys().cloned().collect();
    for uri in uris {
        if let Some(open) = this.session.documents.get_mut(&uri) {
            open.wants_project = true;
        }
        pipeline::read(this, &uri);
    }
    // Asked for now, they wait for the reading.
    this.refresh_hints();
}
