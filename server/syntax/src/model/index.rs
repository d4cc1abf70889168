//! Names of a model to where they are declared, so that a lookup does not read the whole model.

use crate::lex::Token;

use super::classes::ClassBody;
use super::lds::Uses;
use super::{Binding, Model, StaticLds};
use std::sync::{Mutex, OnceLock};

/// Declarations of one kind by the hash of their name.
#[derive(Debug, Default)]
pub(super) struct ByName(Vec<(u64, u32)>);

impl ByName {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut all: Vec<(u64, u32)> = names.zip(0u32..).map(|(name, i)| (hash(name), i)).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Candidates in the order of declaration; the name itself is still to be compared.
    pub(super) fn get(&self, name: &str) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let wanted = hash(name);
        let from = self.0.partition_point(|(h, _)| *h < wanted);
        let to = self.0.partition_point(|(h, _)| *h <= wanted);
        self.0
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .map(|(_, i)| *i as usize)
    }
}

/// FNV-1a: short names, no hostile collisions that matter (a collision costs a comparison).
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// All names of a model, and what is worked out of its text on demand.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) functions: ByName,
    /// By the last part of the name.
    pub(super) variables: ByName,
    pub(super) enumerators: ByName,
    pub(super) aliases: ByName,
    /// By the name without arguments.
    pub(super) classes: ByName,
    /// Of each class.
    pub(super) bodies: Vec<OnceLock<ClassBody>>,
    /// Of each function.
    pub(super) uses: Vec<OnceLock<Uses>>,
    /// Static LDS by kernel (its model, which this one holds, and its number there) and template arguments.
    pub(super) static_lds: Mutex<Vec<KnownLds>>,
}

type KnownLds = ((usize, usize), Vec<(String, Binding)>, StaticLds);

impl Index {
    fn new(m: &Model) -> Self {
        fn last(name: &str) -> &str {
            name.rsplit("::").next().unwrap_or(name)
        }
        Self {
            functions: ByName::new(m.functions.iter().map(|f| f.name.as_str())),
            variables: ByName::new(m.variables.iter().map(|v| last(&v.name))),
            enumerators: ByName::new(m.enumerators.iter().map(|e| e.name.as_str())),
            aliases: ByName::new(m.aliases.iter().map(|a| a.name.as_str())),
            classes: ByName::new(m.classes.iter().map(|c| c.plain_name())),
            bodies: m.classes.iter().map(|_| OnceLock::new()).collect(),
            uses: m.functions.iter().map(|_| OnceLock::new()).collect(),
            static_lds: Mutex::default(),
        }
    }
}

impl Model {
    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self))
    }

    /// Tokens of a piece of the text that is compiled: no directives, and nothing that the target leaves out. Ranges
    /// count in the whole text.
    pub(super) fn code(&self, range: std::ops::Range<usize>) -> Vec<Token> {
        let Some(text) = self.text.get(range.clone()) else {
            return Vec::new();
        };
        let s = text.as_bytes();
        let inactive = &self.pre.inactive;
        let mut out = Vec::new();
        let mut skip_line = None;
        for mut t in crate::lex::tokens(text) {
            if skip_line.is_some_and(|end| t.range.start < end) {
                continue;
            }
            skip_line = None;
            // `#` first on its line starts a directive.
            if s.get(t.range.start) == Some(&b'#') {
                let line = s.get(..t.range.start).unwrap_or_default();
                let first = line
                    .iter()
                    .rev()
                    .take_while(|b| **b != b'\n')
                    .all(u8::is_ascii_whitespace);
                if first {
                    skip_line = Some(crate::preproc::directive_end(s, t.range.start));
                    continue;
                }
            }
            t.range = t.range.start + range.start..t.range.end + range.start;
            let at = inactive.partition_point(|r| r.end <= t.range.start);
            if inactive.get(at).is_some_and(|r| r.contains(&t.range.start)) {
                continue;
            }
            out.push(t);
        }
        out
    }
}
