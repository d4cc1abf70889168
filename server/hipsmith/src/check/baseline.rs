//! Baselines: the findings that an old project has today, so that only new ones are told.
//!
//! A finding is known again by its rule, its file and the content of its line, not by the line's number: code above it
//! may change. Two alike in one file count twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use hipsmith_lint::Diagnostic;
use hipsmith_project::absolute;
use hipsmith_syntax::{Document, Encoding, Position};
use serde::{Deserialize, Serialize};

/// The form of the file; another number is of another version of hipsmith.
const VERSION: u32 = 1;

/// Rule and content of the line.
pub type Key = (String, String);

/// How often each finding of a file occurs.
pub type Counts = BTreeMap<Key, u32>;

/// A baseline.
#[derive(Debug)]
pub struct Baseline {
    folder: PathBuf,
    /// By file, relative to the baseline's folder, with `/`.
    files: BTreeMap<String, Counts>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    findings: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    rule: String,
    line: String,
    count: u32,
}

/// What a finding is known by.
pub fn key(document: &Document, d: &Diagnostic) -> Key {
    let line = document.position(d.range.start, Encoding::Utf8).line;
    let start = document.offset(Position { line, column: 0 }, Encoding::Utf8);
    let content = document
        .text()
        .get(start..)
        .and_then(|t| t.split('\n').next())
        .unwrap_or_default();
    // Indentation and alignment change with a formatter.
    let words: Vec<&str> = content.split_whitespace().collect();
    (d.rule.to_owned(), words.join(" "))
}

impl Baseline {
    /// An empty one that will be written to `path`.
    pub fn new(path: &Path) -> Self {
        Self {
            folder: absolute(path).parent().unwrap_or(Path::new("/")).to_owned(),
            files: BTreeMap::new(),
        }
    }

    /// Read one.
    ///
    /// # Errors
    /// One sentence when it cannot be read or is no baseline.
    pub fn read(path: &Path) -> Result<Self, String> {
        let say = |why: String| {
            format!(
                "the baseline {} {why}; `--write-baseline` makes one",
                path.display()
            )
        };
        let text =
            std::fs::read_to_string(path).map_err(|e| say(format!("cannot be read: {e}")))?;
        let written: Written =
            serde_json::from_str(&text).map_err(|e| say(format!("is no baseline: {e}")))?;
        if written.version != VERSION {
            return Err(say(format!(
                "is of version {}; this hipsmith reads version {VERSION}",
                written.version
            )));
        }
        let mut out = Self::new(path);
        for entry in written.findings {
            let counts = out.files.entry(entry.file).or_default();
            let count = counts.entry((entry.rule, entry.line)).or_default();
            *count = count.saturating_add(entry.count);
        }
        Ok(out)
    }

    /// The counts of a file; empty if it has none.
    pub fn of(&self, file: &Path) -> Counts {
        self.files
            .get(&self.name(file))
            .cloned()
            .unwrap_or_default()
    }

    /// How many findings it has of files that are gone; of other files outside `checked` nothing is known.
    pub fn stale_outside(&self, checked: &BTreeSet<PathBuf>) -> u32 {
        self.files
            .iter()
            .filter(|(name, _)| {
                let path = absolute(&self.folder.join(name));
                !checked.contains(&path) && !path.exists()
            })
            .flat_map(|(_, counts)| counts.values())
            .sum()
    }

    /// Note the findings of a file.
    pub fn insert(&mut self, file: &Path, counts: Counts) {
        if !counts.is_empty() {
            self.files.insert(self.name(file), counts);
        }
    }

    /// Write it: one finding a line, in order, so that a diff of it is readable.
    ///
    /// # Errors
    /// One sentence when that fails.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = format!("{{\n  \"version\": {VERSION},\n  \"findings\": [");
        let mut first = true;
        for (file, counts) in &self.files {
            for ((rule, line), count) in counts {
                let entry = serde_json::to_string(&Entry {
                    file: file.clone(),
                    rule: rule.clone(),
                    line: line.clone(),
                    count: *count,
                })
                .map_err(|e| e.to_string())?;
                text.push_str(if first { "\n    " } else { ",\n    " });
                text.push_str(&entry);
                first = false;
            }
        }
        text.push_str(if first { "]\n}\n" } else { "\n  ]\n}\n" });
        crate::sources::write(path, text.as_bytes())
    }

    fn name(&self, file: &Path) -> String {
        relative(&absolute(file), &self.folder)
    }
}

/// `path` as seen from `folder`, both absolute, with `/`.
pub fn relative(path: &Path, folder: &Path) -> String {
    let (path, folder): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (path.components().collect(), folder.components().collect());
    let common = path.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder.iter().skip(common).map(|_| "..".to_owned());
    let down = path
        .iter()
        .skip(common)
        .map(|c| c.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn a_finding_is_known_by_its_line_and_not_by_the_lines_place() {
        let (a, da) = finding("int  b = wrong;\n", "wrong");
        let (b, db) = finding("int a;\n\n\t int b = wrong;  \r\n", "wrong");
        assert_eq!(key(&a, &da), key(&b, &db));
        assert_eq!(key(&a, &da).1, "int b = wrong;");
    }

    #[test]
    fn names_are_relative_to_the_baseline() {
        for (path, folder, name) in [
            ("/p/a/b.hip", "/p", "a/b.hip"),
            ("/p/b.hip", "/p/ci/x", "../../b.hip"),
            ("/q/b.hip", "/p", "../q/b.hip"),
        ] {
            assert_eq!(relative(Path::new(path), Path::new(folder)), name);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("base.json");
        for findings in [0, 2] {
            let mut baseline = Baseline::new(&path);
            for i in 0..findings {
                baseline.insert(
                    &dir.path().join(format!("f{i}.hip")),
                    [(("r".to_owned(), "a \"b\"".to_owned()), 3)].into(),
                );
            }
            baseline.write(&path).expect("written");
            let read = Baseline::read(&path).expect("read");
            assert_eq!(read.files, baseline.files);
        }
        for text in ["", "{}", "{\"version\":2,\"findings\":[]}"] {
            std::fs::write(&path, text).expect("written");
            assert!(Baseline::read(&path).is_err(), "{text}");
        }
    }
}
