//! What a project says about its files: `hipsmith.toml` and `compile_commands.json`, read once and kept until they
//! change. The command line and the editor take every file's settings from here.
//!
//! What holds, strongest first: what was [`Given`] on the command line, the nearest `hipsmith.toml` at or above the
//! file's folder, the editor's settings, the file's entry in `compile_commands.json`. Only data is read; nothing that
//! these files name is run.

mod commands;
mod config;

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hipsmith_headers::Headers;
use hipsmith_lint::Config as Lint;
use hipsmith_syntax::{MarkKind, MaskConfig, Options, mask};
use hipsmith_target::Target;

use commands::{Commands, Flags};
use config::Config;
pub use config::FILE;

/// What whoever runs hipsmith says, apart from the project.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Target that holds whatever the project says.
    pub target: Option<&'static Target>,
    /// Target for projects whose `hipsmith.toml` names none.
    pub fallback_target: Option<&'static Target>,
    /// Macros, name and value; they win over the project's.
    pub defines: Vec<(String, String)>,
    /// Rules to run or not to run; they win over the project's.
    pub lint: Lint,
}

/// What holds for some files of a project.
#[derive(Debug)]
pub struct Project {
    /// What a text without a file is read with.
    pub options: Arc<Options>,
    /// The headers of the project's files.
    pub headers: Arc<Headers>,
    /// Settings of the rules.
    pub lint: Lint,
    /// Folders that headers are searched for in, behind that of the including file; absolute.
    pub include_dirs: Vec<PathBuf>,
    /// The `hipsmith.toml`, if there is one.
    pub file: Option<PathBuf>,
}

impl Project {
    /// What a file is read with.
    pub fn options(&self, file: Option<&Path>) -> Arc<Options> {
        match file {
            Some(file) => self.headers.options(file),
            None => self.options.clone(),
        }
    }
}

/// The projects that files belong to.
#[derive(Debug, Default)]
pub struct Projects {
    given: Given,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Every file that was looked for, and what it was then.
    stamps: HashMap<PathBuf, Stamp>,
    /// The nearest `hipsmith.toml` and `compile_commands.json`, by folder.
    folders: HashMap<PathBuf, Folder>,
    configs: HashMap<PathBuf, Arc<Config>>,
    commands: HashMap<PathBuf, Arc<Commands>>,
    projects: HashMap<Origin, Arc<Project>>,
    problems: Vec<String>,
    told: BTreeSet<String>,
}

/// What a project's settings come from: the `hipsmith.toml` and the compiler's flags.
type Origin = (Option<PathBuf>, Option<Arc<Flags>>);

#[derive(Clone, Debug, Default)]
struct Folder {
    config: Option<PathBuf>,
    commands: Option<PathBuf>,
}

/// Time and length of a file; `None` if there is no such file.
type Stamp = Option<(Option<SystemTime>, u64)>;

fn stamp(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok().filter(|m| m.is_file())?;
    Some((data.modified().ok(), data.len()))
}

impl Projects {
    /// No file is read before it is needed.
    pub fn new(given: Given) -> Self {
        Self {
            given,
            known: Mutex::default(),
        }
    }

    /// What was given.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Take other settings; every project is worked out anew.
    pub fn set_given(&mut self, given: Given) {
        self.given = given;
        self.lock().projects.clear();
    }

    /// What holds for a file; the same for the same answer, until something changes. `None`: a text without a file.
    pub fn of(&self, file: Option<&Path>) -> Arc<Project> {
        let mut known = self.lock();
        let Some(file) = file else {
            return known.project(&self.given, None, None);
        };
        let file = absolute(file);
        let folder = known.folder(file.parent().unwrap_or(Path::new("/")));
        let config = folder.config.as_deref().map(|path| known.config(path));
        let commands = match config.as_ref().and_then(|c| c.compile_commands.clone()) {
            Some(path) => {
                let named = (!path.as_os_str().is_empty()).then_some(path);
                if let Some(path) = &named
                    && known.stamp(path).is_none()
                {
                    known.tell(format!(
                        "{}: compile_commands names {}, which is no file",
                        folder
                            .config
                            .as_deref()
                            .unwrap_or(Path::new(FILE))
                            .display(),
                        path.display()
                    ));
                }
                named
            }
            None => folder.commands.clone(),
        };
        let flags = commands.and_then(|path| known.commands(&path).of(&file));
        known.project(&self.given, folder.config, flags)
    }

    /// Look whether a file that was read, or missed, has changed; says so, and then everything is read anew.
    pub fn refresh(&self) -> bool {
        let mut known = self.lock();
        if known.stamps.iter().all(|(path, was)| stamp(path) == *was) {
            return false;
        }
        *known = Known {
            told: std::mem::take(&mut known.told),
            ..Known::default()
        };
        true
    }

    /// What is wrong with the projects' files, one sentence each, each told once.
    pub fn problems(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().problems)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn tell(&mut self, problem: String) {
        if self.told.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    fn stamp(&mut self, path: &Path) -> Stamp {
        if let Some(known) = self.stamps.get(path) {
            return *known;
        }
        let now = stamp(path);
        self.stamps.insert(path.to_owned(), now);
        now
    }

    fn folder(&mut self, folder: &Path) -> Folder {
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let mut found = match folder.parent() {
            Some(above) => self.folder(above),
            None => Folder::default(),
        };
        let config = folder.join(FILE);
        if self.stamp(&config).is_some() {
            found.config = Some(config);
        }
        for name in [commands::FILE, "build/compile_commands.json"] {
            let commands = folder.join(name);
            if self.stamp(&commands).is_some() {
                found.commands = Some(commands);
                break;
            }
        }
        self.folders.insert(folder.to_owned(), found.clone());
        found
    }

    fn config(&mut self, path: &Path) -> Arc<Config> {
        if let Some(known) = self.configs.get(path) {
            return known.clone();
        }
        let (config, problems) = Config::read(path);
        for problem in problems {
            self.tell(problem);
        }
        let config = Arc::new(config);
        self.configs.insert(path.to_owned(), config.clone());
        config
    }

    fn commands(&mut self, path: &Path) -> Arc<Commands> {
        if let Some(known) = self.commands.get(path) {
            return known.clone();
        }
        let commands = Commands::read(path).unwrap_or_else(|why| {
            self.tell(why);
            Commands::default()
        });
        let commands = Arc::new(commands);
        self.commands.insert(path.to_owned(), commands.clone());
        commands
    }

    fn project(
        &mut self,
        given: &Given,
        file: Option<PathBuf>,
        flags: Option<Arc<Flags>>,
    ) -> Arc<Project> {
        let key = (file, flags);
        if let Some(known) = self.projects.get(&key) {
            return known.clone();
        }
        let config = key.0.as_deref().map(|path| self.config(path));
        let project = Arc::new(project(
            given,
            key.0.as_deref().zip(config.as_deref()),
            key.1.as_deref(),
        ));
        self.projects.insert(key, project.clone());
        project
    }
}

fn project(given: &Given, config: Option<(&Path, &Config)>, flags: Option<&Flags>) -> Project {
    let nothing = Config::default();
    let file = config.map(|(path, _)| path.to_owned());
    let config = config.map_or(&nothing, |(_, config)| config);
    let target = given
        .target
        .or(config.target)
        .or(given.fallback_target)
        .or_else(|| flags.and_then(Flags::target))
        .unwrap_or_else(hipsmith_target::default_target);
    let mut defines: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: Option<&str>| {
        defines.retain(|(known, _)| known != name);
        defines.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    };
    for (name, value) in flags.into_iter().flat_map(|f| &f.macros) {
        set(name, value.as_deref());
    }
    for name in &config.undefines {
        set(name, None);
    }
    for (name, value) in config.defines.iter().chain(&given.defines) {
        set(name, Some(value));
    }
    let mut words = MaskConfig {
        words: config.mask_words.clone(),
        ..MaskConfig::default()
    };
    for (name, value) in &defines {
        if let Some(kinds) = hip_words(value) {
            words.aliases.insert(name.clone(), kinds);
        }
    }
    let mut lint = given.lint.clone();
    for (rule, level) in &config.rules {
        match level {
            // A rule that was asked for by name is run.
            None if lint.only.contains(rule) => {}
            None => {
                lint.disabled.insert(rule.clone());
            }
            Some(level) => {
                lint.levels.entry(rule.clone()).or_insert(*level);
            }
        }
    }
    let mut include_dirs = config.include_dirs.clone();
    for dir in flags.into_iter().flat_map(|f| &f.include_dirs) {
        if !include_dirs.contains(dir) {
            include_dirs.push(dir.clone());
        }
    }
    let options = Options {
        target,
        defines,
        mask: words,
        ..Options::default()
    };
    Project {
        headers: Headers::new(options.clone(), include_dirs.clone()),
        options: Arc::new(options),
        lint,
        include_dirs,
        file,
    }
}

/// The HIP words that a macro stands for, if it stands for nothing else: `-DKERNEL=__global__`.
fn hip_words(value: &str) -> Option<Vec<MarkKind>> {
    let masked = mask(value, &MaskConfig::default());
    let only_words = !masked.marks.is_empty() && masked.text.trim().is_empty();
    only_words.then(|| masked.marks.into_iter().map(|m| m.kind).collect())
}

/// `NAME` or `NAME=VALUE`, as a compiler takes it behind `-D`.
pub fn define(text: &str) -> (String, String) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text.to_owned(), "1".to_owned()),
    }
}

/// The path, absolute and without `.` and `..`; links are not followed.
pub fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = PathBuf::new();
    for part in path.components() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use hipsmith_lint::Severity;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn the_nearest_file_holds_and_changes_are_seen() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        write(
            &root.join(FILE),
            "target = \"gfx906\"\ndefines = [\"A\", \"B=2\"]\n[rules]\nlds-over-limit = \"hint\"\ninline-ptx = \"off\"\n",
        );
        write(&root.join("sub/hipsmith.toml"), "target = \"gfx936\"\n");
        let projects = Projects::new(Given::default());
        let of = |name: &str| projects.of(Some(&root.join(name)));
        let outer = of("a.hip");
        assert_eq!(outer.options.target.name, "gfx906");
        assert_eq!(
            outer.options.defines,
            [("A".into(), "1".into()), ("B".into(), "2".into())]
        );
        assert_eq!(
            outer.lint.levels.get("lds-over-limit"),
            Some(&Severity::Hint)
        );
        assert!(outer.lint.disabled.contains("inline-ptx"));
        assert!(Arc::ptr_eq(&outer, &of("other/b.hip")));
        assert_eq!(of("sub/deep/c.hip").options.target.name, "gfx936");
        assert!(projects.problems().is_empty());
        assert!(!projects.refresh());
        write(&root.join("sub/hipsmith.toml"), "target = \"gfx90\"\n");
        assert!(projects.refresh());
        assert_eq!(
            of("sub/c.hip").options.target.name,
            hipsmith_target::default_target().name
        );
        let told = projects.problems();
        assert!(told.len() == 1 && told[0].contains("gfx90"), "{told:?}");
        assert!(projects.problems().is_empty());
        std::fs::remove_file(root.join("sub/hipsmith.toml")).expect("removed");
        assert!(projects.refresh());
        assert_eq!(of("sub/c.hip").options.target.name, "gfx906");
    }

    #[test]
    fn what_is_given_wins() {
        let dir = tempfile::tempdir().expect("a folder");
        write(
            &dir.path().join(FILE),
            "target = \"gfx906\"\ndefines = [\"A=1\"]\nundefines = [\"C\"]\n[rules]\ninline-ptx = \"off\"\n",
        );
        write(
            &dir.path().join("compile_commands.json"),
            &format!(
                "[{{\"directory\": {:?}, \"file\": \"a.hip\", \"command\": \"hipcc -DC -DD=4 -DK=__global__ --offload-arch=gfx936:xnack- -Iinc a.hip\"}}]",
                dir.path()
            ),
        );
        let by_name = |n: &str| hipsmith_target::by_name(n);
        let given = Given {
            target: by_name("gfx928"),
            defines: vec![("A".into(), "5".into())],
            lint: Lint {
                only: ["inline-ptx".to_owned()].into(),
                ..Lint::default()
            },
            ..Given::default()
        };
        let file = dir.path().join("a.hip");
        let project = Projects::new(given).of(Some(&file));
        assert_eq!(project.options.target.name, "gfx928");
        let defines: Vec<_> = project
            .options
            .defines
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        assert_eq!(defines, ["D=4", "K=__global__", "A=5"]);
        assert_eq!(
            project.options.mask.aliases.get("K"),
            Some(&vec![MarkKind::Global])
        );
        assert!(!project.lint.disabled.contains("inline-ptx"));
        assert_eq!(project.include_dirs, [dir.path().join("inc")]);

        std::fs::remove_file(dir.path().join(FILE)).expect("removed");
        let target = |given| {
            Projects::new(given)
                .of(Some(&file))
                .options
                .target
                .name
                .clone()
        };
        assert_eq!(target(Given::default()), "gfx936");
        let editor = Given {
            fallback_target: by_name("gfx906"),
            ..Given::default()
        };
        assert_eq!(target(editor), "gfx906");
    }
}
