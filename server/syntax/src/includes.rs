//! Included files: what a header adds to the model of the file that includes it.
//!
//! This crate reads no files. Whoever opens a [`crate::Document`] hands it, with its options, somebody who knows the
//! headers; a header is read once, and everyone who includes it shares what was found.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::{Document, Options};
use crate::expr::Macro;
use crate::model::Model;

/// One `#include`, as the preprocessor meets it.
#[derive(Clone, Copy, Debug)]
pub struct Include<'a> {
    /// The name between the quotes or angle brackets.
    pub name: &'a str,
    /// Whether it stands in quotes.
    pub quoted: bool,
    /// The file that it stands in.
    pub from: &'a Path,
    /// The files that led there, outermost first: a file among them is being read right now.
    pub through: &'a [PathBuf],
    /// Macros that decide what of the header is compiled, as they are defined before the `#include`; empty when the
    /// header is first asked for. It then says which names it asks for ([`Header::asks`]).
    pub defines: &'a [(String, String)],
}

/// Where headers come from. Asked at every reading of a document, so answers should come from a cache.
pub trait Includes: Debug + Send + Sync {
    /// The header that `include` names; `None` if there is none, or if it is not to be followed (too deep, too large,
    /// or read right now).
    fn header(&self, include: &Include<'_>) -> Option<Arc<Header>>;
}

/// A file that others include, read once.
#[derive(Debug)]
pub struct Header {
    path: PathBuf,
    model: Arc<Model>,
    /// The macros that hold at its end, those of the headers that it includes itself among them.
    macros: HashMap<String, Arc<Macro>>,
}

impl Header {
    /// Read a header. `options` are those of the file that includes it, with `path` and `included_from` set for the
    /// header.
    pub fn read(text: impl Into<Arc<str>>, options: Options) -> Self {
        let path = options.path.clone();
        let document = Document::with_options(text, 0, Arc::new(options));
        let model = document.model().clone();
        let macros = model
            .preprocessed()
            .macros
            .at_end()
            .map(|(name, m)| {
                // Its place is one of the header's text; nobody else's.
                let known = Macro {
                    range: 0..0,
                    ..m.as_ref().clone()
                };
                (name.to_owned(), Arc::new(known))
            })
            .collect();
        Self {
            path,
            model,
            macros,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its model: ranges in it count in the header's own text.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Names that its conditions ask for and that neither it nor the headers that it includes define.
    pub fn asks(&self) -> &[String] {
        &self.model.preprocessed().asked
    }

    pub(crate) fn find_macro(&self, name: &str) -> Option<&Arc<Macro>> {
        self.macros.get(name)
    }

    pub(crate) fn macros(&self) -> impl Iterator<Item = (&str, &Arc<Macro>)> {
        self.macros.iter().map(|(name, m)| (name.as_str(), m))
    }
}
