//! `workspace/didChangeConfiguration`, and fetching the settings from clients that keep them.

use std::collections::HashMap;

use lsp_types as lsp;
use serde_json::Value;

use crate::event::Event;
use crate::main_loop::Loop;
use crate::pipeline;
use crate::settings::Settings;

/// Take new settings over; a changed target means that every document is read anew.
pub fn changed(this: &mut Loop, value: &Value) {
    // Some clients only say that something changed and want to be asked.
    if value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty) {
        fetch(this);
        return;
    }
    let before: Settings = this.session.settings.clone();
    for problem in this.session.settings.merge(value) {
        tracing::warn!("settings: {problem}");
        this.outbox.message(
            lsp::MessageType::Warning,
            format!("hipsmith settings: {problem}"),
        );
    }
    let now_trusted = this.session.settings.trusted && !before.trusted;
    let settings = &this.session.settings;
    let hints = before.hints != settings.hints;
    let retarget = (before.target.name != settings.target.name)
        || before.target_given != settings.target_given;
    if hints {
        this.refresh_hints();
    }
    if !retarget && !now_trusted {
        return;
    }
    if retarget {
        this.session.update_projects();
    }
    let uris: Vec<_> = this.session.documents.keys().cloned().collect();
    for uri in uris {
        if let Some(open) = this.session.documents.get_mut(&uri) {
            open.wants_compilation = true;
            if retarget {
                open.wants_project = true;
                open.wants_check = true;
                open.findings = None;
                open.resources = None;
            }
        }
        pipeline::read(this, &uri);
        pipeline::proceed(this, &uri);
    }
    if retarget && !hints {
        this.refresh_hints();
    }
}

/// Ask the client for the section `hipsmith`; what it says comes back as an event.
pub fn fetch(this: &mut Loop) {
    if !this.session.client.configuration {
        return;
    }
    let events = this.events.clone();
    this.outbox.request::<lsp::ConfigurationRequest>(
        lsp::ConfigurationParams {
            items: vec![lsp::ConfigurationItem {
                scope_uri: None,
                section: Some("hipsmith".to_owned()),
            }],
        },
        move |answer| match answer {
            Ok(values) => {
                let known = values
                    .into_iter()
                    .next()
                    .filter(|v| v.as_object().is_some_and(|o| !o.is_empty()));
                if let Some(value) = known {
                    let wrapped = HashMap::from([("hipsmith", value)]);
                    let _ = events.send(Event::Settings(
                        serde_json::to_value(wrapped).unwrap_or_default(),
                    ));
                }
            }
            Err(reason) => tracing::info!("no settings from the client: {reason}"),
        },
    );
}
