//! `hipsmith.toml`. `docs/hipsmith-toml.md` describes the file for people.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hipsmith_lint::{Severity, rule, rules, similar};
use hipsmith_target::Target;
use serde::Deserialize;
use toml::Spanned;

use crate::{absolute, define};

/// Name of the file.
pub const FILE: &str = "hipsmith.toml";

/// What the file says, checked; paths are absolute.
#[derive(Debug, Default)]
pub struct Config {
    pub target: Option<&'static Target>,
    pub defines: Vec<(String, String)>,
    pub undefines: Vec<String>,
    pub include_dirs: Vec<PathBuf>,
    /// Word to whether its parenthesized arguments are masked with it.
    pub mask_words: BTreeMap<String, bool>,
    /// `None`: searched for. Empty: not wanted.
    pub compile_commands: Option<PathBuf>,
    /// `None`: off.
    pub rules: BTreeMap<String, Option<Severity>>,
}

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    target: Option<Spanned<String>>,
    defines: Vec<Spanned<String>>,
    undefines: Vec<Spanned<String>>,
    include_dirs: Vec<PathBuf>,
    mask_words: Vec<Spanned<String>>,
    compile_commands: Option<PathBuf>,
    rules: BTreeMap<Spanned<String>, Spanned<Level>>,
    /// Read by `hipsmith optimize`.
    #[serde(rename = "subject")]
    _subject: Vec<toml::Table>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Off,
    Hint,
    Warning,
    Error,
}

impl Config {
    /// Read the file. What is wrong in it is told, a sentence each, and left out; a file that is no TOML, or has a key
    /// that we do not know, is left out as a whole.
    pub fn read(path: &Path) -> (Config, Vec<String>) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) => {
                let why = format!("{} cannot be read: {e}", path.display());
                return (Config::default(), vec![why]);
            }
        };
        Config::of(&text, path)
    }

    fn of(text: &str, path: &Path) -> (Config, Vec<String>) {
        let line = |at: usize| 1 + text.get(..at).unwrap_or(text).matches('\n').count();
        let written: Written = match toml::from_str(text) {
            Ok(written) => written,
            Err(e) => {
                let at = e.span().map_or(0, |s| s.start);
                let why = format!(
                    "{}:{}: {}; the file is not used",
                    path.display(),
                    line(at),
                    e.message().replace('\n', " ").trim()
                );
                return (Config::default(), vec![why]);
            }
        };
        let mut problems = Vec::new();
        let mut problem = |at: usize, why: String| {
            problems.push(format!("{}:{}: {why}", path.display(), line(at)));
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut config = Config {
            include_dirs: written
                .include_dirs
                .iter()
                .map(|dir| absolute(&folder.join(dir)))
                .collect(),
            compile_commands: written.compile_commands.map(|file| {
                if file.as_os_str().is_empty() {
                    file
                } else {
                    absolute(&folder.join(file))
                }
            }),
            ..Config::default()
        };
        if let Some(name) = written.target {
            config.target = hipsmith_target::by_name(name.get_ref());
            if config.target.is_none() {
                let known: Vec<&str> = hipsmith_target::all()
                    .iter()
                    .map(|t| t.name.as_str())
                    .collect();
                problem(
                    name.span().start,
                    format!(
                        "unknown target `{}`; known are {}",
                        name.get_ref(),
                        known.join(", ")
                    ),
                );
            }
        }
        for text in written.defines {
            let (name, value) = define(text.get_ref());
            if is_name(&name) {
                config.defines.push((name, value));
            } else {
                problem(
                    text.span().start,
                    format!("`{}` is no macro: write NAME or NAME=VALUE", text.get_ref()),
                );
            }
        }
        for name in written.undefines {
            if is_name(name.get_ref()) {
                config.undefines.push(name.into_inner());
            } else {
                problem(
                    name.span().start,
                    format!("`{}` is no macro's name", name.get_ref()),
                );
            }
        }
        for word in written.mask_words {
            let (name, arguments) = match word.get_ref().strip_suffix("()") {
                Some(name) => (name, true),
                None => (word.get_ref().as_str(), false),
            };
            if is_name(name) {
                config.mask_words.insert(name.to_owned(), arguments);
            } else {
                problem(
                    word.span().start,
                    format!(
                        "`{}` is no word: write NAME, or NAME() for one with arguments",
                        word.get_ref()
                    ),
                );
            }
        }
        for (id, level) in written.rules {
            if rule(id.get_ref()).is_none() {
                let near = similar(id.get_ref(), rules().iter().map(|r| r.id));
                let hint = match near.first() {
                    Some(_) => format!("did you mean `{}`?", near.join("` or `")),
                    None => "`hipsmith explain` lists the rules".to_owned(),
                };
                problem(
                    id.span().start,
                    format!("there is no rule `{}`; {hint}", id.get_ref()),
                );
                continue;
            }
            let level = match level.into_inner() {
                Level::Off => None,
                Level::Hint => Some(Severity::Hint),
                Level::Warning => Some(Severity::Warning),
                Level::Error => Some(Severity::Error),
            };
            config.rules.insert(id.into_inner(), level);
        }
        (config, problems)
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && text.chars().next().is_some_and(|c| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        Config::of(text, Path::new("/p/hipsmith.toml"))
    }

    #[test]
    fn everything_is_read() {
        let (config, problems) = read(
            "target = \"gfx936\"\ndefines = [\"A\", \"B=x=y\"]\nundefines = [\"C\"]\ninclude_dirs = [\"inc\", \"../up\", \"/abs\"]\n\
             mask_words = [\"API\", \"ATTR()\"]\ncompile_commands = \"build/cc.json\"\n[rules]\ninline-ptx = \"error\"\n\
             [[subject]]\nkernel = \"k\"\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(config.target.map(|t| t.name.as_str()), Some("gfx936"));
        assert_eq!(
            config.defines,
            [("A".into(), "1".into()), ("B".into(), "x=y".into())]
        );
        assert_eq!(config.undefines, ["C"]);
        assert_eq!(
            config.include_dirs,
            ["/p/inc", "/up", "/abs"].map(PathBuf::from)
        );
        assert_eq!(
            config.mask_words,
            [("API".to_owned(), false), ("ATTR".to_owned(), true)].into()
        );
        assert_eq!(config.compile_commands, Some("/p/build/cc.json".into()));
        assert_eq!(config.rules.get("inline-ptx"), Some(&Some(Severity::Error)));
        assert_eq!(
            read("compile_commands = \"\"").0.compile_commands,
            Some(PathBuf::new())
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, said) in [
            ("\ntargt = \"gfx936\"\n", 2, "unknown field `targt`"),
            ("target = \"gfx1\"\n", 1, "known are"),
            ("[rules]\nlds-over-limt = \"off\"\n", 2, "`lds-over-limit`"),
            ("[rules]\nlds-over-limit = \"loud\"\n", 2, "expected one of"),
            ("defines = [\n\"A\",\n\"1x\"]\n", 3, "NAME=VALUE"),
            ("mask_words = [\"a b\"]", 1, "`a b`"),
            ("target = [\n", 1, "not used"),
            ("defines = \"A\"", 1, "not used"),
        ] {
            let (_, problems) = read(text);
            assert!(
                problems.len() == 1
                    && problems[0].starts_with(&format!("/p/hipsmith.toml:{line}: "))
                    && problems[0].contains(said),
                "{text}: {problems:?}"
            );
        }
    }
}
