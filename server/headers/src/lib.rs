//! Reads included headers for `hipsmith-syntax`: finds them, keeps them, limits them.
//!
//! One [`Headers`] serves all documents of one target and one set of macros. A header is read once and shared; it is
//! read again when it, or a header that it includes, has changed on disk or in the editor. A file that is missing,
//! too large or no text is as if it were empty.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use hipsmith_syntax::{Header, Include, Includes, Options};

/// A larger file is not read: headers that a person writes are smaller.
const MAX_FILE: u64 = 1 << 20;
/// Bytes of header text kept at most.
const MAX_KEPT: usize = 24 << 20;
/// Headers within headers within headers.
const MAX_DEPTH: usize = 32;
/// How long an answer holds before the disk is asked again. While somebody types, nothing is read.
const FRESH: Duration = Duration::from_millis(1000);

/// What a text was when it was read.
#[derive(Clone, Debug)]
enum Stamp {
    Disk(Option<SystemTime>, u64),
    Editor(Arc<str>),
}

impl PartialEq for Stamp {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Stamp::Disk(a, n), Stamp::Disk(b, m)) => a == b && n == m,
            (Stamp::Editor(a), Stamp::Editor(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

/// A file, and the macros of the including file that decide what of it is compiled.
type Key = (PathBuf, Vec<(String, String)>);

#[derive(Debug)]
struct Kept {
    header: Arc<Header>,
    stamp: Stamp,
    /// What the headers that it includes were.
    inner: Vec<(PathBuf, Stamp)>,
    checked: (Instant, u64),
}

#[derive(Debug, Default)]
struct State {
    headers: HashMap<Key, Kept>,
    /// Where a name led from a folder, and when that was looked up.
    found: HashMap<(PathBuf, String, bool), (Instant, Option<PathBuf>)>,
    /// Texts of files that are open in an editor.
    open: HashMap<PathBuf, Arc<str>>,
    kept_bytes: usize,
}

/// The headers of documents that are read with the same options.
#[derive(Debug)]
pub struct Headers {
    base: Options,
    folders: Vec<PathBuf>,
    state: Mutex<State>,
    /// Counts changes of open headers.
    changes: AtomicU64,
    this: Weak<Headers>,
}

impl Headers {
    /// Headers read with `base` (its `path`, `included_from` and `includes` do not matter), searched for in the folder
    /// of the including file and then in `folders`.
    pub fn new(base: Options, folders: Vec<PathBuf>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            base,
            folders: folders.iter().map(|f| plain(f)).collect(),
            state: Mutex::default(),
            changes: AtomicU64::new(0),
            this: this.clone(),
        })
    }

    /// Options for a document at `path`.
    pub fn options(&self, path: &Path) -> Arc<Options> {
        Arc::new(self.options_for(plain(path), Vec::new()))
    }

    /// The editor has this text for the file at `path`; `None`: it has closed it. Says whether any header was the file.
    pub fn set_open(&self, path: &Path, text: Option<Arc<str>>) -> bool {
        let path = plain(path);
        let mut state = self.lock();
        match text {
            Some(text) => state.open.insert(path.clone(), text),
            None => state.open.remove(&path),
        };
        let is_header = state.headers.keys().any(|(header, _)| *header == path);
        if is_header {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        is_header
    }

    fn options_for(&self, path: PathBuf, included_from: Vec<PathBuf>) -> Options {
        Options {
            path,
            included_from,
            includes: self.this.upgrade().map(|h| h as Arc<dyn Includes>),
            ..self.base.clone()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that a name stands for.
    fn find(&self, include: &Include<'_>) -> Option<PathBuf> {
        let folder = include.from.parent().unwrap_or(Path::new(""));
        let key = (folder.to_owned(), include.name.to_owned(), include.quoted);
        let now = Instant::now();
        if let Some((when, path)) = self.lock().found.get(&key)
            && now.duration_since(*when) < FRESH
        {
            return path.clone();
        }
        let own = include.quoted.then_some(folder);
        let path = own
            .into_iter()
            .chain(self.folders.iter().map(PathBuf::as_path))
            .map(|folder| plain(&folder.join(include.name)))
            .find(|path| self.lock().open.contains_key(path) || path.is_file());
        let mut state = self.lock();
        if state.found.len() > 10_000 {
            state.found.clear();
        }
        state.found.insert(key, (now, path.clone()));
        path
    }

    /// What the text at `path` is now.
    fn stamp(&self, path: &Path) -> Option<Stamp> {
        if let Some(text) = self.lock().open.get(path) {
            return Some(Stamp::Editor(text.clone()));
        }
        let data = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Stamp::Disk(data.modified().ok(), data.len()))
    }

    /// The kept header, if nothing that it was made of has changed.
    fn kept(&self, key: &Key) -> Option<Arc<Header>> {
        let now = (Instant::now(), self.changes.load(Ordering::Relaxed));
        let (header, stamp, inner) = {
            let state = self.lock();
            let kept = state.headers.get(key)?;
            let (when, changes) = kept.checked;
            if now.0.duration_since(when) < FRESH && changes == now.1 {
                return Some(kept.header.clone());
            }
            (kept.header.clone(), kept.stamp.clone(), kept.inner.clone())
        };
        let same = self.stamp(&key.0).as_ref() == Some(&stamp)
            && inner
                .iter()
                .all(|(path, stamp)| self.stamp(path).as_ref() == Some(stamp));
        if !same {
            return None;
        }
        if let Some(kept) = self.lock().headers.get_mut(key) {
            kept.checked = now;
        }
        Some(header)
    }

    fn read(&self, key: Key, through: Vec<PathBuf>) -> Option<Arc<Header>> {
        let path = key.0.clone();
        let changes = self.changes.load(Ordering::Relaxed);
        let stamp = self.stamp(&path)?;
        let text: Arc<str> = match &stamp {
            Stamp::Editor(text) => text.clone(),
            Stamp::Disk(_, size) if *size > MAX_FILE => return None,
            Stamp::Disk(..) => {
                let bytes = fs::read(&path).ok()?;
                if bytes.contains(&0) {
                    return None;
                }
                String::from_utf8_lossy(&bytes).into()
            }
        };
        let size = text.len();
        if self.lock().kept_bytes + size > MAX_KEPT {
            let mut state = self.lock();
            state.headers.clear();
            state.kept_bytes = 0;
        }
        let mut options = self.options_for(path, through);
        options.defines.extend(key.1.iter().cloned());
        let header = Arc::new(Header::read(text, options));
        let inner = header
            .model()
            .headers()
            .iter()
            .filter_map(|h| Some((h.path().to_owned(), self.stamp(h.path())?)))
            .collect();
        let kept = Kept {
            header: header.clone(),
            stamp,
            inner,
            checked: (Instant::now(), changes),
        };
        let mut state = self.lock();
        state.kept_bytes += size;
        if let Some(old) = state.headers.insert(key, kept) {
            let gone = old.header.model().text().len();
            state.kept_bytes = state.kept_bytes.saturating_sub(gone);
        }
        Some(header)
    }
}

impl Includes for Headers {
    fn header(&self, include: &Include<'_>) -> Option<Arc<Header>> {
        if include.from.as_os_str().is_empty() || include.through.len() >= MAX_DEPTH {
            return None;
        }
        let path = self.find(include)?;
        // A header that includes itself, perhaps through others, stands behind its guard the second time.
        if path == include.from || include.through.contains(&path) {
            return None;
        }
        let key = (path, include.defines.to_vec());
        if let Some(header) = self.kept(&key) {
            return Some(header);
        }
        let mut through = include.through.to_vec();
        through.push(include.from.to_owned());
        self.read(key, through)
    }
}

/// An absolute path without `.` and `..`, so that one file has one name.
fn plain(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}
