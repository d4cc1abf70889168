//! Findings kept from one check to the next, by everything that they depend on.
//!
//! A function's findings depend on its text, on the functions that it and its callers on the device mention, on how the
//! file launches the kernels among them, and on what stands outside functions. A hash of all that is the key; a finding's
//! places are kept relative to the piece of text that they lie in.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use hipsmith_syntax::{Launch, Model, Scope};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Fix};
use crate::facts::Place;
use crate::rule::{self, rules};

/// What the last check of a document found. Make a new one for each document.
#[derive(Debug, Default)]
pub struct Cache {
    kept: HashMap<u64, Arc<[Kept]>>,
    /// The headers that keys tell by their addresses: held, so that no other comes to lie there.
    headers: Vec<Arc<Model>>,
}

/// A finding whose offsets count in pieces.
#[derive(Debug)]
struct Kept {
    finding: Diagnostic,
    /// Of its ranges, in the order of [`ranges`].
    places: Vec<Anchor>,
}

/// A range, in the piece that it lies in.
#[derive(Clone, Debug)]
struct Anchor {
    piece: Piece,
    range: Range<usize>,
}

/// A piece of the text whose length and text stay while it is what it was.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A function.
    Function(usize),
    /// What stands before the function of this number and after the one before.
    Between(usize),
    /// A launch.
    Launch(usize),
}

/// All ranges of a finding.
fn ranges(d: &mut Diagnostic) -> impl Iterator<Item = &mut Range<usize>> {
    let Diagnostic {
        range,
        related,
        fix,
        ..
    } = d;
    let related = related.iter_mut().map(|(r, _)| r);
    let edits = fix.iter_mut().flat_map(|f: &mut Fix| &mut f.edits);
    std::iter::once(range)
        .chain(related)
        .chain(edits.map(|(r, _)| r))
}

impl Cache {
    /// Check the file of `cx`, and keep what was found for the next time.
    pub(crate) fn check(&mut self, cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
        cx.look_at(None, out);
        let keys = Keys::new(cx);
        let mut kept = HashMap::new();
        for i in 0..cx.functions.len() {
            let (key, reach) = keys.of(cx, i);
            if let Some(known) = self.kept.get(&key) {
                out.extend(known.iter().map(|k| k.placed(cx)));
                kept.insert(key, known.clone());
                continue;
            }
            let from = out.len();
            cx.look_at(Some(i), out);
            let new: Option<Arc<[Kept]>> = out[from..]
                .iter()
                .map(|d| Kept::new(cx, d, &reach))
                .collect();
            if let Some(new) = new {
                kept.insert(key, new);
            }
        }
        self.kept = kept;
        let headers = cx.model.headers().iter();
        self.headers = headers.map(|h| h.model().clone()).collect();
    }
}

impl Kept {
    /// `None` if one of its places lies in text that the key does not hold.
    fn new(cx: &Context<'_>, d: &Diagnostic, reach: &[usize]) -> Option<Self> {
        let mut finding = d.clone();
        let places = ranges(&mut finding)
            .map(|r| {
                let at = |piece, base: usize| {
                    Some(Anchor {
                        piece,
                        range: r.start.checked_sub(base)?..r.end.checked_sub(base)?,
                    })
                };
                let next = cx
                    .functions
                    .partition_point(|f| f.node.start_byte() <= r.start);
                let inside = next.checked_sub(1).filter(|i| {
                    cx.functions
                        .get(*i)
                        .is_some_and(|f| r.end <= f.node.end_byte() && r.start < f.node.end_byte())
                });
                if let Some(i) = inside {
                    if reach.binary_search(&i).is_ok() {
                        return at(Piece::Function(i), cx.functions.get(i)?.node.start_byte());
                    }
                    let launches = &cx.model.launches;
                    let l = launches
                        .iter()
                        .position(|l| l.range.start <= r.start && r.end <= l.range.end)?;
                    return at(Piece::Launch(l), launches.get(l)?.range.start);
                }
                // A range that reaches from one piece into another is in none.
                let end = cx
                    .functions
                    .get(next)
                    .map_or(usize::MAX, |f| f.node.start_byte());
                if r.end > end {
                    return None;
                }
                at(Piece::Between(next), start(cx, next))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { finding, places })
    }

    /// The finding where its pieces are now.
    fn placed(&self, cx: &Context<'_>) -> Diagnostic {
        let mut d = self.finding.clone();
        for (r, place) in ranges(&mut d).zip(&self.places) {
            let base = match place.piece {
                Piece::Function(i) => cx.functions.get(i).map_or(0, |f| f.node.start_byte()),
                Piece::Between(next) => start(cx, next),
                Piece::Launch(l) => cx.model.launches.get(l).map_or(0, |l| l.range.start),
            };
            *r = base + place.range.start..base + place.range.end;
        }
        d
    }
}

/// Where the text before the function of number `next` starts.
fn start(cx: &Context<'_>, next: usize) -> usize {
    next.checked_sub(1)
        .and_then(|i| cx.functions.get(i))
        .map_or(0, |f| f.node.end_byte())
}

/// What keys are made of, worked out once per check.
struct Keys {
    /// What stands outside functions, the settings, and what the names in the file are.
    outside: u64,
    /// Of each function's text.
    texts: Vec<u64>,
    /// Of each launch, with the kernel's name.
    launches: Vec<(String, u64)>,
}

impl Keys {
    fn new(cx: &Context<'_>) -> Self {
        let text = cx.document.text();
        let mut outside = DefaultHasher::new();
        let options = cx.document.options();
        // Options do not change in place, and headers are read into new models.
        (cx.target.name.as_str(), &options.defines, &options.path).hash(&mut outside);
        for header in cx.model.headers() {
            Arc::as_ptr(header.model()).hash(&mut outside);
        }
        (&cx.config.disabled, &cx.config.only).hash(&mut outside);
        cx.model.names_hash().hash(&mut outside);
        let mut texts = Vec::with_capacity(cx.functions.len());
        let mut from = 0;
        for f in &cx.functions {
            let range = f.node.byte_range();
            text.get(from..range.start).hash(&mut outside);
            (&f.name, f.place as u8).hash(&mut outside);
            let own = text.get(range.clone()).unwrap_or_default();
            // A directive in a function decides what follows it.
            if own.contains('#') {
                own.hash(&mut outside);
            }
            let mut hasher = DefaultHasher::new();
            own.hash(&mut hasher);
            cx.source.get(range.clone()).hash(&mut hasher);
            f.node.has_error().hash(&mut hasher);
            texts.push(hasher.finish());
            from = range.end;
        }
        text.get(from..).hash(&mut outside);
        let launch = |l: &Launch| (l.kernel.clone(), hash_launch(cx, l));
        Self {
            outside: outside.finish(),
            texts,
            launches: cx.model.launches.iter().map(launch).collect(),
        }
    }

    /// The key of the `index`-th function, and the functions whose text is in it, sorted.
    fn of(&self, cx: &Context<'_>, index: usize) -> (u64, Vec<usize>) {
        let mut hasher = DefaultHasher::new();
        (self.outside, index).hash(&mut hasher);
        let around = cx.reach.around(&cx.functions, index);
        let mut kernels = Vec::new();
        for i in &around {
            (i, self.texts.get(*i)).hash(&mut hasher);
            if let Some(f) = cx.functions.get(*i)
                && f.place == Place::Kernel
            {
                kernels.push(f.name.as_str());
            }
        }
        for (number, (kernel, launch)) in self.launches.iter().enumerate() {
            if kernels.contains(&kernel.as_str()) {
                (number, launch).hash(&mut hasher);
            }
        }
        (hasher.finish(), around)
    }
}

/// A launch as far as rules look at it: as written, its values, and the variables that it names.
fn hash_launch(cx: &Context<'_>, launch: &Launch) -> u64 {
    let mut hasher = DefaultHasher::new();
    let hasher = &mut hasher;
    let text = cx.model.text();
    text.get(launch.range.clone()).hash(hasher);
    (&launch.kernel, launch.grid, launch.block, launch.lds_bytes).hash(hasher);
    cx.launched_on_32(launch).hash(hasher);
    if let Some(kernel) = cx.model.kernel(&launch.kernel) {
        format!("{:?}", cx.model.instance_of(kernel, launch)).hash(hasher);
    }
    let scope = Scope::at(launch.range.start);
    let words = text.get(launch.range.clone()).unwrap_or_default();
    for word in words.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        if let Some(v) = cx.model.variable_at(word, launch.range.start) {
            v.init.as_ref().map(|e| &e.text).hash(hasher);
            (&v.ty.base, v.ty.pointers).hash(hasher);
            cx.model.eval(word, &scope).hash(hasher);
        }
    }
    hasher.finish()
}

impl Context<'_> {
    /// Run the rules on one function, or on what is outside functions.
    pub(crate) fn look_at(&self, subject: Option<usize>, out: &mut Vec<Diagnostic>) {
        self.subject.set(subject);
        for rule in rules() {
            let wanted = self.config.only.is_empty() || self.config.only.contains(rule.id);
            if wanted
                && !self.config.disabled.contains(rule.id)
                && (subject.is_none() || rule.scope == rule::Scope::Function)
            {
                (rule.check)(self, out);
            }
        }
    }
}
