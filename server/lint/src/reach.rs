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

    /// Groups of device functions that mention each other, by function: what one of them means can depend on the others.
    /// Functions that only the host calls are in no group.
    pub fn groups(&self, functions: &[Function<'_>]) -> Vec<Option<usize>> {
        let mut group = vec![None; functions.len()];
        for (start, f) in functions.iter().enumerate() {
            if f.place == Place::Unmarked || group[start].is_some() {
                continue;
            }
            let mut queue = vec![start];
            group[start] = Some(start);
            while let Some(i) = queue.pop() {
                // A host function that launches two kernels does not tie them together.
                let launches = |caller: usize, callee: usize| {
                    functions[caller].place == Place::Unmarked
                        && functions[callee].place == Place::Kernel
                };
                let below = self.mentions[i].iter().filter(|g| !launches(i, **g));
                let above = self.mentioned_by[i].iter().filter(|c| !launches(**c, i));
                for next in below.chain(above).copied() {
                    if group[next].is_none() {
                        group[next] = Some(start);
                        queue.push(next);
                    }
                }
            }
        }
        group
    }

    /// Everything that the `index`-th function mentions, itself and what those mention included.
    pub fn below(&self, index: usize) -> BTreeSet<usize> {
        let mut seen = BTreeSet::from([index]);
        let mut queue = vec![index];
        while let Some(i) = queue.pop() {
            for next in self.mentions.get(i).into_iter().flatten() {
                if seen.insert(*next) {
                    queue.push(*next);
                }
            }
        }
        seen
    }
}
