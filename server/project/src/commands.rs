//! `compile_commands.json`: what the compiler is told about each file.
//!
//! Such a file can have a hundred thousand entries with the same few sets of flags: entries are read one at a time, and
//! of each only the hash of its path and the number of its flags are kept.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_target::Target;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::{absolute, define};

/// Name of the file.
pub const FILE: &str = "compile_commands.json";

/// What matters to us of a command.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Flags {
    /// `-D` (value) and `-U` (none), in order.
    pub macros: Vec<(String, Option<String>)>,
    /// `-I`, `-iquote`, `-isystem`, `-idirafter`; absolute.
    pub include_dirs: Vec<PathBuf>,
    /// `--offload-arch`, without features.
    pub archs: Vec<String>,
}

impl Flags {
    /// The first target of the command that we know.
    pub fn target(&self) -> Option<&'static Target> {
        self.archs.iter().find_map(|a| hipsmith_target::by_name(a))
    }
}

/// The file, read.
#[derive(Debug, Default)]
pub struct Commands {
    flags: Vec<Arc<Flags>>,
    /// By the hash of the path.
    files: HashMap<u64, u32>,
    /// By the hash of the folder: the first entry there.
    folders: HashMap<u64, u32>,
}

impl Commands {
    /// Read the file.
    ///
    /// # Errors
    /// One sentence when it cannot be read or is not what it should be.
    pub fn read(path: &Path) -> Result<Commands, String> {
        let file =
            File::open(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        let mut reader = serde_json::Deserializer::from_reader(BufReader::new(file));
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        reader.deserialize_seq(Entries { folder }).map_err(|e| {
            format!(
                "{} is no list of compile commands: {e}; it is not used",
                path.display()
            )
        })
    }

    /// The flags of a file (absolute), else those of another one in its folder: a header has no entry.
    pub fn of(&self, file: &Path) -> Option<Arc<Flags>> {
        let exact = self.files.get(&hash(file)).or_else(|| {
            let real = file.canonicalize().ok().filter(|real| real != file)?;
            self.files.get(&hash(&real))
        });
        let number = exact.or_else(|| self.folders.get(&hash(file.parent()?)))?;
        self.flags.get(*number as usize).cloned()
    }
}

fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    directory: PathBuf,
    file: PathBuf,
    command: Option<String>,
    arguments: Option<Vec<String>>,
}

struct Entries {
    folder: PathBuf,
}

impl<'de> Visitor<'de> for Entries {
    type Value = Commands;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of compile commands")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Commands, A::Error> {
        let mut out = Commands::default();
        let mut known: HashMap<Arc<Flags>, u32> = HashMap::new();
        while let Some(entry) = entries.next_element::<Entry>()? {
            let directory = absolute(&self.folder.join(&entry.directory));
            let words = match (entry.arguments, &entry.command) {
                (Some(arguments), _) => arguments,
                (None, Some(command)) => split(command),
                (None, None) => Vec::new(),
            };
            let flags = Arc::new(flags(&words, &directory));
            let number = *known.entry(flags).or_insert_with_key(|flags| {
                out.flags.push(flags.clone());
                u32::try_from(out.flags.len() - 1).unwrap_or(u32::MAX)
            });
            let file = absolute(&directory.join(&entry.file));
            if let Some(folder) = file.parent() {
                out.folders.entry(hash(folder)).or_insert(number);
            }
            out.files.entry(hash(&file)).or_insert(number);
        }
        Ok(out)
    }
}

fn flags(words: &[String], directory: &Path) -> Flags {
    let mut out = Flags::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        // `-DX` and `-D X`; `--offload-arch=X` and `--offload-arch X`.
        let mut value = |flag: &str| -> Option<String> {
            let rest = word.strip_prefix(flag)?;
            if rest.is_empty() {
                return words.next().cloned();
            }
            let rest = if flag.starts_with("--") {
                rest.strip_prefix('=')?
            } else {
                rest
            };
            Some(rest.to_owned())
        };
        if let Some(text) = value("-D") {
            let (name, value) = define(&text);
            out.macros.push((name, Some(value)));
        } else if let Some(name) = value("-U") {
            out.macros.push((name, None));
        } else if let Some(dir) = value("-I")
            .or_else(|| value("-iquote"))
            .or_else(|| value("-isystem"))
            .or_else(|| value("-idirafter"))
        {
            out.include_dirs.push(absolute(&directory.join(dir)));
        } else if let Some(arch) = value("--offload-arch")
            .or_else(|| value("--cuda-gpu-arch"))
            .or_else(|| value("--amdgpu-target"))
        {
            let names = arch.split([',', ';']);
            out.archs
                .extend(names.map(|name| name.split(':').next().unwrap_or_default().to_owned()));
        }
    }
    out
}

/// The words of a command, as a POSIX shell splits it, without expansions.
fn split(command: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => out.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|c| *c != '\''));
            }
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => match chars.next() {
                            Some(e @ ('"' | '\\' | '$' | '`')) => word.push(e),
                            Some(other) => word.extend(['\\', other]),
                            None => {}
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    out.extend(word);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        for (command, words) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            (
                r#"-DS=\"x\" '-DT=a b' "-DU=\"q\" $""#,
                &["-DS=\"x\"", "-DT=a b", "-DU=\"q\" $"],
            ),
            (r"a\ b ''", &["a b", ""]),
            ("'open", &["open"]),
            ("", &[]),
        ] {
            assert_eq!(split(command), words, "{command}");
        }
    }

    #[test]
    fn flags_are_taken_in_both_spellings() {
        let words: Vec<String> = [
            "hipcc",
            "-D",
            "A=1",
            "-DB",
            "-UA",
            "-I",
            "inc",
            "-I../up",
            "-isystem",
            "/sys",
            "-iquote/q",
            "--offload-arch=gfx906:sramecc+",
            "--offload-arch",
            "gfx1,gfx936",
            "-O3",
            "-o",
            "x.o",
            "-D",
        ]
        .map(str::to_owned)
        .to_vec();
        let f = flags(&words, Path::new("/d/e"));
        let one = Some("1".to_owned());
        assert_eq!(
            f.macros,
            [
                ("A".into(), one.clone()),
                ("B".into(), one),
                ("A".into(), None)
            ]
        );
        assert_eq!(
            f.include_dirs,
            ["/d/e/inc", "/d/up", "/sys", "/q"].map(PathBuf::from)
        );
        assert_eq!(f.archs, ["gfx906", "gfx1", "gfx936"]);
        assert_eq!(f.target().map(|t| t.name.as_str()), Some("gfx906"));
    }

    #[test]
    fn a_file_without_entry_takes_its_neighbours() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(FILE);
        std::fs::write(
            &path,
            r#"[{"directory": "sub", "file": "a.hip", "arguments": ["c", "-DA"], "output": "a.o"},
                {"directory": "sub", "file": "./x/../b.hip", "command": "c -DB"},
                {"directory": "/elsewhere", "file": "c.hip", "command": "c -DC"}]"#,
        )
        .expect("written");
        let commands = Commands::read(&path).expect("a list");
        let of = |file: &Path| {
            let flags = commands.of(file);
            flags.map(|f| f.macros.iter().map(|m| m.0.clone()).collect::<String>())
        };
        let sub = dir.path().join("sub");
        assert_eq!(of(&sub.join("a.hip")).as_deref(), Some("A"));
        assert_eq!(of(&sub.join("b.hip")).as_deref(), Some("B"));
        assert_eq!(of(&sub.join("c.hpp")).as_deref(), Some("A"));
        assert_eq!(of(Path::new("/elsewhere/c.hip")).as_deref(), Some("C"));
        assert_eq!(of(&dir.path().join("d.hip")), None);
    }

    #[test]
    fn many_entries_take_little_and_nonsense_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(FILE);
        let entries: Vec<String> = (0..20_000)
            .map(|i| {
                format!(
                    r#"{{"directory": "/d{}", "file": "f{i}.hip", "command": "hipcc -DN={} -c"}}"#,
                    i % 50,
                    i % 7
                )
            })
            .collect();
        std::fs::write(&path, format!("[{}]", entries.join(",\n"))).expect("written");
        let commands = Commands::read(&path).expect("a list");
        assert_eq!((commands.flags.len(), commands.files.len()), (7, 20_000));
        let of = commands.of(Path::new("/d3/f10003.hip")).expect("an entry");
        assert_eq!(
            of.macros,
            [("N".to_owned(), Some((10_003 % 7).to_string()))]
        );
        for text in ["{}", "[1]", "[{\"file\": 3}]", "[", ""] {
            std::fs::write(&path, text).expect("written");
            let why = Commands::read(&path).expect_err("nonsense");
            assert!(why.contains("not used"), "{why}");
        }
    }
}
