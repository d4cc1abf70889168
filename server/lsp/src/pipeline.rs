//! From a change of the text to its diagnostics and resources: read, check, compile, each on a blocking thread, one of
//! each kind at a time per document. A change that comes meanwhile starts the next pass when the running one ends, so a
//! burst of edits is read once; a result for another version or another opening of the document is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hipsmith_lint::{Cache, Diagnostic};
use hipsmith_process::Cancel;
use hipsmith_project::Project;
use hipsmith_syntax::{Document, Options, Position, is_hip};
use lsp_types as lsp;

use crate::event::Event;
use crate::main_loop::Loop;
use crate::resources::Resources;
use crate::session::{Compiling, file_of};

/// How long nothing is typed before a text with errors is read from scratch.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(300);

/// What one `didOpen` or `didChange` says: the version afterwards, and the replaced ranges in order.
#[derive(Debug)]
pub struct Change {
    pub version: i32,
    /// `None` replaces the whole text.
    pub parts: Vec<(Option<(Position, Position)>, String)>,
}

/// Take the changes that wait into the document, unless that is under way.
pub fn read(this: &mut Loop, uri: &lsp::Uri) {
    let encoding = this.session.client.encoding;
    let projects = this.session.projects.clone();
    let Some(open) = this.session.documents.get_mut(uri) else {
        return;
    };
    let wanted = open.wants_project || open.stale || !open.ahead.is_empty();
    if open.reading || !wanted {
        return;
    }
    open.reading = true;
    let ask = std::mem::take(&mut open.wants_project);
    let stale = std::mem::take(&mut open.stale);
    let before = open.project.clone();
    // Checked in the same breath: going through the main loop in between costs as much as a small check.
    let check_too = open.wants_check && !open.checking;
    if check_too {
        open.checking = true;
        open.wants_check = false;
    }
    let kept = open.kept.clone();
    let (instance, mut document) = (open.instance, open.document.clone());
    let changes = std::mem::take(&mut open.ahead);
    let (events, uri) = (this.events.clone(), uri.clone());
    tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        let file = file_of(&uri);
        let project = if ask {
            projects.refresh();
            projects.of(file.as_deref())
        } else {
            before.clone()
        };
        let anew = stale || !Arc::ptr_eq(&project, &before);
        let version = changes
            .last()
            .map_or(document.version(), |last| last.version);
        let body = AssertUnwindSafe(|| {
            let parts: Vec<_> = changes
                .iter()
                .flat_map(|change| &change.parts)
                .map(|(range, text)| (*range, text.as_str()))
                .collect();
            document.apply_positions(&parts, encoding, version);
            if anew {
                let options = project.options(file.as_deref());
                document = Document::with_options(document.shared_text(), version, options);
            }
            let is_hip = holds_hip(&uri, document.text());
            if is_hip {
                document.model();
            }
            (document, is_hip)
        });
        let (document, is_hip) = catch_unwind(body).unwrap_or_else(|_| {
            tracing::error!(
                "{uri} could not be read (a bug); it stays silent until it is opened again"
            );
            (
                Document::with_options("", version, Arc::new(Options::default())),
                false,
            )
        });
        tracing::debug!("read version {version} in {:?}", start.elapsed());
        let checked = check_too.then(|| (uri.clone(), document.clone(), project.clone()));
        let _ = events.send(Event::Read {
            uri,
            instance,
            document,
            is_hip,
            project,
            problems: projects.problems(),
        });
        if let Some((uri, document, project)) = checked {
            let _ = events.send(checked_event(
                uri, instance, &document, is_hip, &kept, project,
            ));
        }
    });
}

/// Check a document that has been read.
fn checked_event(
    uri: lsp::Uri,
    instance: u64,
    document: &Document,
    is_hip: bool,
    kept: &Mutex<Cache>,
    project: Arc<Project>,
) -> Event {
    let start = Instant::now();
    let findings = if is_hip {
        let body = || {
            // A check that failed may have left anything: start over.
            let mut cache = kept.lock().unwrap_or_else(|poisoned| {
                kept.clear_poison();
                let mut cache = poisoned.into_inner();
                *cache = Cache::default();
                cache
            });
            hipsmith_lint::check_again(document, &project.lint, Some(&mut cache))
        };
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            tracing::error!("a rule failed on {uri} (a bug); its findings are left out");
            Vec::new()
        })
    } else {
        Vec::new()
    };
    let version = document.version();
    tracing::debug!("checked version {version} in {:?}", start.elapsed());
    Event::Checked {
        uri,
        instance,
        version,
        project,
        findings: findings.into(),
    }
}

/// The document has been read.
pub fn read_ended(
    this: &mut Loop,
    uri: &lsp::Uri,
    instance: u64,
    document: Document,
    is_hip: bool,
    project: Arc<Project>,
) {
    let Some(open) = this.session.open(uri, instance) else {
        return;
    };
    open.reading = false;
    open.document = document;
    open.is_hip = is_hip;
    if !Arc::ptr_eq(&open.project, &project) {
        open.wants_check = true;
        open.wants_compilation = true;
        open.project = project;
    }
    reread_users(this, uri);
    read(this, uri);
    proceed(this, uri);
}

/// If the document is a header of others that are open, read those anew.
fn reread_users(this: &mut Loop, uri: &lsp::Uri) {
    let (Some(open), Some(file)) = (this.session.documents.get(uri), file_of(uri)) else {
        return;
    };
    let (project, text) = (open.project.clone(), open.document.shared_text());
    if !project.headers.set_open(&file, Some(text)) {
        return;
    }
    let mut users = Vec::new();
    for (other, open) in &mut this.session.documents {
        if other != uri && Arc::ptr_eq(&open.project, &project) {
            open.stale = true;
            open.wants_check = true;
            users.push(other.clone());
        }
    }
    if !users.is_empty() {
        this.refresh_hints();
    }
    for user in users {
        read(this, &user);
    }
}

/// With the newest text read: answer the requests that wait for it, and do what is wanted.
pub fn proceed(this: &mut Loop, uri: &lsp::Uri) {
    let Some(open) = this.session.documents.get_mut(uri) else {
        return;
    };
    if open.reading {
        return;
    }
    let waiting = std::mem::take(&mut open.waiting);
    let (check_now, compile_now) = (open.wants_check, open.wants_compilation);
    for compute in waiting {
        compute(this.session.snapshot(uri));
    }
    if check_now {
        check(this, uri);
    }
    if compile_now {
        compile(this, uri);
    }
}

/// Check the document, unless a check runs: its end starts the next one.
fn check(this: &mut Loop, uri: &lsp::Uri) {
    let Some(open) = this
        .session
        .documents
        .get_mut(uri)
        .filter(|open| !open.checking)
    else {
        return;
    };
    open.checking = true;
    open.wants_check = false;
    let (instance, document, is_hip) = (open.instance, open.document.clone(), open.is_hip);
    let (kept, project) = (open.kept.clone(), open.project.clone());
    let (events, uri) = (this.events.clone(), uri.clone());
    tokio::task::spawn_blocking(move || {
        let _ = events.send(checked_event(
            uri, instance, &document, is_hip, &kept, project,
        ));
    });
}

/// A check has ended.
pub fn check_ended(
    this: &mut Loop,
    uri: &lsp::Uri,
    instance: u64,
    version: i32,
    project: &Arc<Project>,
    findings: Arc<[Diagnostic]>,
) {
    let Some(open) = this.session.open(uri, instance) else {
        return;
    };
    open.checking = false;
    if Arc::ptr_eq(&open.project, project) && open.is_current(version) {
        open.findings = Some((version, findings));
        let settled = open.document.is_settled();
        this.publish(uri);
        if !settled {
            let (events, uri) = (this.events.clone(), uri.clone());
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE).await;
                let _ = events.send(Event::Paused {
                    uri,
                    instance,
                    version,
                });
            });
        }
    } else {
        open.wants_check = true;
    }
    proceed(this, uri);
}

/// The user pauses over code that does not parse: read it once more from scratch, since the grammar's guesses around an
/// error depend on what was there before.
pub fn settle(this: &mut Loop, uri: &lsp::Uri, instance: u64, version: i32) {
    let Some(open) = this.session.open(uri, instance) else {
        return;
    };
    let current = open.is_current(version) && open.document.version() == version;
    if open.reading || !current || open.document.is_settled() {
        return;
    }
    open.reading = true;
    open.wants_check = true;
    let (mut document, is_hip) = (open.document.clone(), open.is_hip);
    let project = open.project.clone();
    let (events, uri) = (this.events.clone(), uri.clone());
    tokio::task::spawn_blocking(move || {
        document.settle();
        let _ = events.send(Event::Read {
            uri,
            instance,
            document,
            is_hip,
            project,
            problems: Vec::new(),
        });
    });
}

/// Compile the text for its kernels' resources; a compilation of an older text is stopped. Runs a program, so only in
/// a trusted workspace.
fn compile(this: &mut Loop, uri: &lsp::Uri) {
    let settings = &this.session.settings;
    let trusted = settings.trusted;
    let cache = this.session.resources.clone();
    let (Some(open), Some(file)) = (this.session.documents.get_mut(uri), file_of(uri)) else {
        return;
    };
    open.wants_compilation = false;
    if !trusted || !open.is_hip || open.document.model().kernels().next().is_none() {
        return;
    }
    let target = open.document.target().name.as_str();
    let text = open.document.shared_text();
    if let Some(older) = &open.compiling {
        if older.text == text {
            return;
        }
        older.cancel.cancel();
    }
    let cancel = Cancel::new();
    open.compiling = Some(Compiling {
        text: text.clone(),
        cancel: cancel.clone(),
    });
    let instance = open.instance;
    let (events, uri) = (this.events.clone(), uri.clone());
    this.session.compilations += 1;
    tokio::task::spawn_blocking(move || {
        let body = AssertUnwindSafe(|| cache.get(&file, &text, target, &cancel));
        let resources = catch_unwind(body).unwrap_or_else(|_| {
            Arc::new(Resources {
                text,
                result: Err("hipsmith failed while compiling (a bug)".to_owned()),
            })
        });
        let _ = events.send(Event::Compiled {
            uri,
            instance,
            resources,
        });
    });
}

/// A compilation has ended, perhaps because a newer one replaced it.
pub fn compile_ended(this: &mut Loop, uri: &lsp::Uri, instance: u64, resources: Arc<Resources>) {
    this.session.compilations = this.session.compilations.saturating_sub(1);
    if let Some(open) = this.session.open(uri, instance)
        && let Some(compiling) = &open.compiling
        && compiling.text == resources.text
    {
        open.compiling = None;
        open.resources = Some(resources);
        this.refresh_hints();
    }
}

fn holds_hip(uri: &lsp::Uri, text: &str) -> bool {
    let path = file_of(uri);
    let path = path.as_deref().and_then(Path::to_str).unwrap_or(uri.path());
    is_hip(text, path)
}
