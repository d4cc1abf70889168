//! The server's state. Only the main loop holds it mutably; workers get [`Snapshot`]s.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hipsmith_lint::{Cache as Findings, Diagnostic};
use hipsmith_process::Cancel;
use hipsmith_project::{Given, Project, Projects};
use hipsmith_syntax::{Document, Encoding};
use lsp_types as lsp;
use serde_json::Value;

use crate::jobs::{Job, JobId, Jobs, State};
use crate::pipeline::Change;
use crate::resources::{Cache, Resources};
use crate::settings::Settings;

/// What the client can do, as far as it matters to us.
#[derive(Clone, Debug)]
pub struct Client {
    pub encoding: Encoding,
    /// It shows progress that the server starts.
    pub progress: bool,
    /// It answers `workspace/configuration`.
    pub configuration: bool,
    /// It asks again for lenses when told to.
    pub lens_refresh: bool,
    /// It asks again for inlay hints when told to.
    pub hint_refresh: bool,
    /// It shows document symbols inside one another.
    pub nested_symbols: bool,
    /// It watches the files that it is asked to.
    pub watches: bool,
    /// It opens documents for us.
    pub show_document: bool,
    /// It can label edits, and ask for confirmation.
    pub annotations: bool,
    /// It draws a job's diff itself.
    pub preview: bool,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            encoding: Encoding::Utf16,
            progress: false,
            configuration: false,
            lens_refresh: false,
            hint_refresh: false,
            nested_symbols: false,
            watches: false,
            show_document: false,
            annotations: false,
            preview: false,
        }
    }
}

impl Client {
    /// Read the capabilities; a client whose shape surprises us gets the plain behaviour.
    pub fn from_capabilities(capabilities: &Value) -> Self {
        let yes = |path: &str| capabilities.pointer(path) == Some(&Value::Bool(true));
        // clangd, on the same buffers, prefers utf-8 too; two encodings on one buffer confuse editors.
        let utf8 = capabilities
            .pointer("/general/positionEncodings")
            .and_then(Value::as_array)
            .is_some_and(|offered| offered.iter().any(|e| e == "utf-8"));
        Self {
            encoding: if utf8 {
                Encoding::Utf8
            } else {
                Encoding::Utf16
            },
            progress: yes("/window/workDoneProgress"),
            configuration: yes("/workspace/configuration"),
            lens_refresh: yes("/workspace/codeLens/refreshSupport"),
            hint_refresh: yes("/workspace/inlayHint/refreshSupport"),
            nested_symbols: yes("/textDocument/documentSymbol/hierarchicalDocumentSymbolSupport"),
            watches: yes("/workspace/didChangeWatchedFiles/dynamicRegistration"),
            show_document: yes("/window/showDocument/support"),
            annotations: capabilities
                .pointer("/workspace/workspaceEdit/changeAnnotationSupport")
                .is_some_and(Value::is_object),
            preview: yes("/experimental/hipsmith/previewDiff"),
        }
    }
}

/// What waits for a document to be read; gets `None` when the document was closed or holds no HIP.
pub type Waiting = Box<dyn FnOnce(Option<Snapshot>) + Send>;

/// One open document.
pub struct Open {
    /// Which opening this is: results for an earlier one of the same name are dropped.
    pub instance: u64,
    /// The newest text that has been read.
    pub document: Document,
    /// What its project says; the document is read with that.
    pub project: Arc<Project>,
    /// Ask the project's files again, and read the text anew if they say something else.
    pub wants_project: bool,
    /// A header has changed: read the text anew.
    pub stale: bool,
    /// Changes that came since, in order.
    pub ahead: Vec<Change>,
    /// Changes are being read.
    pub reading: bool,
    /// Requests that came after a change that is not read yet.
    pub waiting: Vec<Waiting>,
    /// Whether it holds HIP at all; other C++ files stay silent.
    pub is_hip: bool,
    /// The newest findings and the version they belong to.
    pub findings: Option<(i32, Arc<[Diagnostic]>)>,
    /// What checks of this document keep for the next one.
    pub kept: Arc<Mutex<Findings>>,
    pub checking: bool,
    pub wants_check: bool,
    /// The newest compilation, perhaps of an older text.
    pub resources: Option<Arc<Resources>>,
    pub compiling: Option<Compiling>,
    pub wants_compilation: bool,
}

/// A compilation that runs.
pub struct Compiling {
    pub text: Arc<str>,
    pub cancel: Cancel,
}

impl Open {
    pub fn new(instance: u64, document: Document, project: Arc<Project>) -> Self {
        Self {
            instance,
            document,
            project,
            wants_project: true,
            stale: false,
            ahead: Vec::new(),
            reading: false,
            waiting: Vec::new(),
            is_hip: false,
            findings: None,
            kept: Arc::default(),
            checking: false,
            wants_check: false,
            resources: None,
            compiling: None,
            wants_compilation: false,
        }
    }

    /// Whether `version` is what the client has now, as far as it has told.
    pub fn is_current(&self, version: i32) -> bool {
        !self.reading
            && !self.wants_project
            && !self.stale
            && self.ahead.is_empty()
            && self.document.version() == version
    }

    /// Nobody looks at the document any more.
    pub fn stop(self) {
        if let Some(compiling) = &self.compiling {
            compiling.cancel.cancel();
        }
        for waiting in self.waiting {
            waiting(None);
        }
    }
}

/// All state.
#[derive(Default)]
pub struct Session {
    pub client: Client,
    pub settings: Settings,
    /// What documents are read with; follows the settings.
    pub projects: Arc<Projects>,
    pub documents: HashMap<lsp::Uri, Open>,
    pub jobs: Jobs,
    pub resources: Cache,
    /// Compilations that run.
    pub compilations: usize,
    instances: u64,
}

impl Session {
    /// A number no opening of a document had before.
    pub fn next_instance(&mut self) -> u64 {
        self.instances += 1;
        self.instances
    }

    /// The document, if it is still the same opening of it.
    pub fn open(&mut self, uri: &lsp::Uri, instance: u64) -> Option<&mut Open> {
        self.documents
            .get_mut(uri)
            .filter(|open| open.instance == instance)
    }

    /// Follow the settings with what documents are read with.
    pub fn update_projects(&mut self) {
        self.projects = Arc::new(Projects::new(Given {
            fallback_target: self.settings.target_given.then_some(self.settings.target),
            ..Given::default()
        }));
    }

    /// What a request about one document needs.
    pub fn snapshot(&self, uri: &lsp::Uri) -> Option<Snapshot> {
        let open = self.documents.get(uri).filter(|open| open.is_hip)?;
        Some(Snapshot {
            uri: uri.clone(),
            document: open.document.clone(),
            project: open.project.clone(),
            findings: open
                .findings
                .as_ref()
                .filter(|(version, _)| *version == open.document.version())
                .map(|(_, findings)| findings.clone()),
            resources: open.resources.clone(),
            client: self.client.clone(),
            settings: self.settings.clone(),
            jobs: self
                .jobs
                .of(uri)
                .map(|(id, job)| JobView::new(id, job))
                .collect(),
        })
    }
}

/// What requests see of a job.
#[derive(Clone, Debug)]
pub struct JobView {
    pub id: JobId,
    pub kernel: String,
    pub state: State,
    /// ": round 3 of 8", empty before the first: a lens has room for no sentence.
    pub rounds: String,
    /// How much faster, and how that is known; only with a diff to decide about.
    pub gain: Option<String>,
}

impl JobView {
    fn new(id: JobId, job: &Job) -> Self {
        Self {
            id,
            kernel: job.request.kernel.clone(),
            state: job.state,
            rounds: match job.round {
                0 => String::new(),
                n => format!(": round {n} of {}", job.request.rounds),
            },
            gain: job.gain(),
        }
    }
}

/// One document and what belongs to it, at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub uri: lsp::Uri,
    pub document: Document,
    pub project: Arc<Project>,
    findings: Option<Arc<[Diagnostic]>>,
    pub resources: Option<Arc<Resources>>,
    pub client: Client,
    pub settings: Settings,
    pub jobs: Vec<JobView>,
}

impl Snapshot {
    /// The findings for exactly this version: the ones shown, or computed now.
    pub fn findings(&self) -> Arc<[Diagnostic]> {
        self.findings
            .clone()
            .unwrap_or_else(|| hipsmith_lint::check(&self.document, &self.project.lint).into())
    }
}

/// The file behind a document, if it has one.
pub fn file_of(uri: &lsp::Uri) -> Option<PathBuf> {
    uri.to_file_path().ok()
}
