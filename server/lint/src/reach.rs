//! Which functions of a file mention which: where a change of one can matter.

use std::collections::{BTreeSet, HashMap};

use hipsmith_syntax::{Model, word_hash};

use crate::facts::{Function, Place};

/// The graph of mentions. A name mentioned through a macro counts for whoever mentions the macro.
#[derive(Debug)]
pub struct Reach {
    /// By function: those it mentions, sorted.
    mentions: Vec<Vec<usize>>,
    mentioned_by: Vec<Vec<usize>>,
}

impl Reach {
    /// Read what the functions of a file mention.
    pub fn new(model: &Model, functions: &[Function<'_>]) -> Self {
        let mut names: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, f) in functions.iter().enumerate() {
            names.entry(word_hash(&f.name)).or_default().push(i);
        }
        let macros = Self::macros(model, &names);
        let mut mentions: Vec<Vec<usize>> = Vec::new();
        let mut mentioned_by = vec![Vec::new(); functions.len()];
        for (i, f) in functions.iter().enumerate() {
            let mut all: Vec<usize> = f
                .node
                .words_of_item()
                .iter()
                .flat_map(|w| [names.get(w), macros.get(w)])
                .flatten()
                .flatten()
                .copied()
                .filter(|g| *g != i)
                .collect();
            all.sort_unstable();
            all.dedup();
            for g in &all {
                mentioned_by[*g].push(i);
            }
            mentions.push(all);
        }
        Self {
            mentions,
            mentioned_by,
        }
    }

    /// The functions that each macro mentions, also through other macros.
    fn macros(model: &Model, names: &HashMap<u32, Vec<usize>>) -> HashMap<u32, Vec<usize>> {
        let bodies: Vec<(u32, Vec<u32>)> = model
            .macros()
            .map(|(name, m)| {
                let words = m.body.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let words = words.filter(|w| !w.is_empty()).map(word_hash).collect();
                (word_hash(name), words)
            })
            .collect();
        let mut out: HashMap<u32, Vec<usize>> = HashMap::new();
        // Macros in macros, four deep: as far as the rules follow them.
        for _ in 0..4 {
            for (name, words) in &bodies {
                let found: BTreeSet<usize> = words
                    .iter()
                    .flat_map(|w| [names.get(w), out.get(w)])
                    .flatten()
                    .flatten()
                    .copied()
                    .collect();
                if !found.is_empty() {
                    out.insert(*name, found.into_iter().collect());
                }
            }
        }
        out
    }

    /// The functions that mention the `index`-th.
    pub fn mentioned_by(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.mentioned_by.get(index).into_iter().flatten().copied()
    }

    /// The functions that matter to the `index`-th: those that mention it, and everything that it and they mention, itself
    /// included; sorted. A host function that launches a kernel does not matter to it (the launch does).
    pub fn around(&self, functions: &[Function<'_>], index: usize) -> Vec<usize> {
        let mut seen = vec![false; functions.len()];
        let mut all = vec![index];
        let place = |i: usize| functions.get(i).map(|f| f.place);
        let mut mark = |i: usize, all: &mut Vec<usize>| {
            if let Some(seen) = seen.get_mut(i)
                && !std::mem::replace(seen, true)
            {
                all.push(i);
            }
        };
        mark(index, &mut Vec::new());
        let mut at = 0;
        while let Some(i) = all.get(at).copied() {
            at += 1;
            for caller in self.mentioned_by(i) {
                let launches =
                    place(caller) == Some(Place::Unmarked) && place(i) == Some(Place::Kernel);
                if !launches {
                    mark(caller, &mut all);
                }
            }
        }
        let mut at = 0;
        while let Some(i) = all.get(at).copied() {
            at += 1;
            for callee in self.mentions.get(i).into_iter().flatten() {
                mark(*callee, &mut all);
            }
        }
        all.sort_unstable();
        all
    }
}
