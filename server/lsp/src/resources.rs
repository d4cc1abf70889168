//! What the compiler says about a document's kernels: compiled in the background, kept by content.

use std::path::Path;
use std::sync::Arc;

use dashmap::DashMap;
use hipsmith_process::Cancel;
use hipsmith_rounds::resources::{Compilation, resources};

/// Old texts are forgotten beyond this many; a text that comes back is compiled again.
const KEPT: usize = 64;

/// One text's compilation, or why there is none.
#[derive(Debug)]
pub struct Resources {
    /// The text that was compiled.
    pub text: Arc<str>,
    /// The result.
    pub result: Result<Compilation, String>,
}

/// A text and the target it is compiled for.
type Key = (Arc<str>, &'static str);

/// Compilations, shared by all background tasks.
#[derive(Clone, Debug, Default)]
pub struct Cache(Arc<DashMap<Key, Arc<Resources>>>);

impl Cache {
    /// The compilation of `text`, from the cache or from the compiler. Blocks.
    pub fn get(
        &self,
        file: &Path,
        text: &Arc<str>,
        target: &'static str,
        cancel: &Cancel,
    ) -> Arc<Resources> {
        let key = (text.clone(), target);
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let found = Arc::new(Resources {
            text: text.clone(),
            result: resources(file, text, target, cancel),
        });
        if !cancel.is_cancelled() {
            if self.0.len() >= KEPT {
                self.0.clear();
            }
            self.0.insert(key, found.clone());
        }
        found
    }
}
