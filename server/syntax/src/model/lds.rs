//! Static LDS of a kernel instance: which arrays the compiled kernel keeps, and how the compiler lays them out.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::expr::{evaluate, expanded};
use crate::lex::{Token, TokenKind, split_arguments};

use super::classes::{Meaning, angle_close, bracket_close, canonical, segments};
use super::names::{View, fresh_budget};
use super::{Binding, FunctionKind, Model, Scope, StaticLds};

/// What a function's body uses, worked out once for all instances.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// All names in the body, those that macros bring included.
    names: HashSet<String>,
    /// Names of `__shared__` variables whose use leaves nothing in the compiled kernel.
    useless: HashSet<String>,
    calls: Vec<CallUse>,
    /// `if constexpr`, and `if` whose condition could be constant.
    branches: Vec<Branch>,
}

#[derive(Debug)]
struct CallUse {
    at: usize,
    /// The callee as written, template arguments included.
    name: String,
    /// The object of a member call.
    object: Option<String>,
    arguments: Vec<String>,
}

#[derive(Debug)]
struct Branch {
    condition: Range<usize>,
    then: Range<usize>,
    otherwise: Range<usize>,
}

/// A function of a file or of one of its headers.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRef<'a> {
    /// The model that holds it.
    pub model: &'a Model,
    /// Its place in [`Model::functions`].
    pub index: usize,
}

type Bindings = Vec<(String, Binding)>;

/// Words with a bracket behind them that are no calls.
fn is_no_call(word: &str) -> bool {
    matches!(
        word,
        "if" | "for"
            | "while"
            | "switch"
            | "return"
            | "sizeof"
            | "alignof"
            | "alignas"
            | "decltype"
            | "static_cast"
            | "reinterpret_cast"
            | "const_cast"
            | "static_assert"
            | "assert"
            | "printf"
            | "__syncthreads"
            | "__align__"
            | "__attribute__"
            | "__launch_bounds__"
            | "min"
            | "max"
    )
}

impl Model {
    /// What the function uses, read at the first call.
    fn uses(&self, index: usize) -> Option<&Uses> {
        let f = self.functions.get(index)?;
        let slot = self.index().uses.get(index)?;
        Some(slot.get_or_init(|| self.read_uses(f.body.clone())))
    }

    fn read_uses(&self, body: Range<usize>) -> Uses {
        let mut out = Uses::default();
        let toks = self.code(body);
        let text: &str = &self.text;
        let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
        let budget = fresh_budget();
        let shared_names: HashSet<&str> = self.shared.iter().map(|s| s.name.as_str()).collect();
        let mut sites: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut in_macros: HashSet<String> = HashSet::new();
        for (i, t) in toks.iter().enumerate() {
            if t.kind != TokenKind::Ident {
                continue;
            }
            let name = t.text(text);
            if shared_names.contains(name) {
                sites.entry(name).or_default().push(i);
            }
            let declares = self
                .shared
                .binary_search_by_key(&t.range.start, |s| s.name_range.start)
                .is_ok();
            if declares {
                continue;
            }
            if name == "if" {
                out.branches.extend(branch(&toks, i, text));
                continue;
            }
            if let Some(m) = self.macro_at(name, t.range.start) {
                // What the macro brings along, its arguments replaced.
                let mut invocation = name.to_owned();
                if m.parameters.is_some()
                    && word(i + 1) == "("
                    && let Some(close) = bracket_close(&toks, i + 1, text)
                    && let Some(list) = toks
                        .get(close)
                        .and_then(|c| text.get(t.range.end..c.range.end))
                {
                    invocation.push_str(list);
                }
                if let Some(words) = m
                    .body
                    .contains('(')
                    .then(|| {
                        let scope = Scope::at(t.range.start);
                        let view = self.view(self, &scope, &budget);
                        expanded(&invocation, &view)
                    })
                    .flatten()
                {
                    let joined = words.join(" ");
                    let inner = crate::lex::tokens(&joined);
                    for (j, w) in inner.iter().enumerate() {
                        if w.kind == TokenKind::Ident {
                            out.names.insert(w.text(&joined).to_owned());
                            in_macros.insert(w.text(&joined).to_owned());
                            out.calls.extend(call(&inner, j, &joined, t.range.start));
                        }
                    }
                }
                out.names.extend(
                    crate::lex::tokens(&m.body)
                        .iter()
                        .filter(|w| w.kind == TokenKind::Ident)
                        .map(|w| w.text(&m.body).to_owned()),
                );
                in_macros.extend(
                    crate::lex::tokens(&m.body)
                        .iter()
                        .map(|w| w.text(&m.body).to_owned()),
                );
                continue;
            }
            out.calls.extend(call(&toks, i, text, t.range.start));
            out.names.insert(name.to_owned());
        }
        for (name, mut at) in sites {
            at.retain(|i| {
                toks.get(*i).is_some_and(|t| {
                    self.shared
                        .binary_search_by_key(&t.range.start, |s| s.name_range.start)
                        .is_err()
                })
            });
            if !in_macros.contains(name) && leaves_nothing(&toks, &at, text) {
                out.useless.insert(name.to_owned());
            }
        }
        out
    }

    /// Kernels called `name` in this file and in the headers that it includes.
    pub fn kernels_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = FunctionRef<'a>> {
        std::iter::once(self)
            .chain(self.headers().iter().map(|h| h.model().as_ref()))
            .flat_map(move |model| {
                model
                    .index()
                    .functions
                    .get(name)
                    .map(move |index| FunctionRef { model, index })
            })
            .filter(move |f| {
                f.model
                    .functions
                    .get(f.index)
                    .is_some_and(|k| k.kind == FunctionKind::Kernel && k.name == name)
            })
    }

    /// The kernel that a launch or a demangled name means, with its template parameters bound: `name` may be
    /// qualified, `arguments` are the template arguments, `parameters` the types of its parameters (empty if unknown).
    pub fn find_instance<'a>(
        &'a self,
        name: &'a str,
        arguments: &[String],
        parameters: &[String],
    ) -> Option<(FunctionRef<'a>, Bindings)> {
        let last = name.rsplit("::").next()?;
        let budget = fresh_budget();
        let scope = Scope::file();
        let view = self.view(self, &scope, &budget);
        let mut best: Option<(i64, FunctionRef<'a>)> = None;
        for found in self.kernels_named(last) {
            let Some(f) = found.model.functions.get(found.index) else {
                continue;
            };
            if f.template_params.len() < arguments.len()
                && !f.template_params.iter().any(|p| p.name.is_empty())
            {
                continue;
            }
            if f.template_params.is_empty() != arguments.is_empty() {
                continue;
            }
            let mut score = 0;
            if !parameters.is_empty() {
                if f.params.len() == parameters.len() {
                    score += 10;
                }
                let same = f.params.iter().zip(parameters).filter(|(p, wanted)| {
                    canonical(wanted).replace('*', "").trim() == canonical(&p.ty.base)
                });
                score += i64::try_from(same.count()).unwrap_or(0);
            }
            if best.is_none_or(|(s, _)| s < score) {
                best = Some((score, found));
            }
        }
        let (_, found) = best?;
        let f = found.model.functions.get(found.index)?;
        let bindings = view.bound(
            &f.template_params,
            arguments,
            found.model,
            f.range.start,
            &[],
        );
        Some((found, bindings))
    }

    /// The kernel that a launch starts, here or in a header, with what the launch binds its template parameters to.
    pub fn launched<'a>(
        &'a self,
        launch: &'a super::Launch,
    ) -> Option<(FunctionRef<'a>, Bindings)> {
        let budget = fresh_budget();
        let scope = Scope::at(launch.range.start);
        let view = self.view(self, &scope, &budget);
        let arguments: Vec<String> = launch
            .template_args
            .iter()
            .map(|a| view.closed_argument(&a.text))
            .collect();
        let passed: Vec<String> = launch.args.iter().map(|a| a.text.clone()).collect();
        let found = self
            .kernels_named(&launch.kernel)
            .filter(|k| {
                k.model
                    .functions
                    .get(k.index)
                    .is_some_and(|f| f.template_params.len() >= arguments.len())
            })
            .max_by_key(|k| {
                k.model
                    .functions
                    .get(k.index)
                    .is_some_and(|f| f.params.len() == passed.len())
            })?;
        let bindings = view.bind_call(found, &arguments, &passed);
        Some((found, bindings))
    }

    /// Static LDS of a kernel with its template parameters bound, the device functions that it calls included.
    pub fn static_lds(&self, function: usize, bindings: &[(String, Binding)]) -> StaticLds {
        let found = FunctionRef {
            model: self,
            index: function,
        };
        self.static_lds_of(found, bindings)
    }

    /// As [`Model::static_lds`], for a kernel of this file or of a header that it includes.
    pub fn static_lds_of(
        &self,
        kernel: FunctionRef<'_>,
        bindings: &[(String, Binding)],
    ) -> StaticLds {
        // Several rules and the hover ask for the same few instances.
        let key = (std::ptr::from_ref(kernel.model) as usize, kernel.index);
        let known = &self.index().static_lds;
        if let Ok(known) = known.lock()
            && let Some((.., lds)) = known.iter().find(|(k, b, _)| *k == key && b == bindings)
        {
            return lds.clone();
        }
        let new = self.work_out_static_lds(kernel, bindings);
        if let Ok(mut known) = known.lock() {
            known.push((key, bindings.to_vec(), new.clone()));
        }
        new
    }

    fn work_out_static_lds(
        &self,
        kernel: FunctionRef<'_>,
        bindings: &[(String, Binding)],
    ) -> StaticLds {
        let mut out = StaticLds {
            arrays: Vec::new(),
            bytes: Some(0),
        };
        let any_shared = std::iter::once(self)
            .chain(self.headers().iter().map(|h| h.model().as_ref()))
            .any(|m| {
                let rocprim = |(name, _): &(String, bool)| name.starts_with("rocprim/");
                !m.shared.is_empty() || m.includes().iter().any(rocprim)
            });
        let misses = self.preprocessed().misses;
        if !any_shared && !misses {
            return out;
        }
        let budget = fresh_budget();
        let mut visited: Vec<(*const Model, usize, Bindings)> = Vec::new();
        let mut todo = vec![(kernel.model, kernel.index, bindings.to_vec())];
        let mut counted: HashSet<(*const Model, usize, String)> = HashSet::new();
        let mut sizes: Vec<Piece> = Vec::new();
        let mut known = true;
        while let Some((m, f, bound)) = todo.pop() {
            let here: *const Model = m;
            if visited.len() > 256
                || visited
                    .iter()
                    .any(|(n, g, b)| *n == here && *g == f && *b == bound)
            {
                continue;
            }
            let (Some(function), Some(uses)) = (m.functions.get(f), m.uses(f)) else {
                continue;
            };
            // rocPRIM's classes bring LDS of their own when they are given none.
            known &= !uses.names.contains("rocprim");
            let scope = Scope::at(function.body.start).with(&bound);
            let dead = dead_ranges(&m.view(self, &scope, &budget), uses);
            let is_dead = |at: usize| dead.iter().any(|r| r.contains(&at));
            for (index, array) in m.shared.iter().enumerate() {
                let own = array.function == Some(f);
                if array.dynamic
                    || !(own || array.function.is_none())
                    || !uses.names.contains(&array.name)
                    || (own && uses.useless.contains(&array.name))
                    || (own && is_dead(array.range.start))
                    || (!own && shadowed(m, f, &array.name))
                {
                    continue;
                }
                // A variable of a template exists once for each instance, one outside once for all.
                let instance = if own {
                    format!("{bound:?}")
                } else {
                    String::new()
                };
                if !counted.insert((here, index, instance)) {
                    continue;
                }
                if std::ptr::eq(m, self) && !out.arrays.contains(&index) {
                    out.arrays.push(index);
                }
                match m.shared_bytes_for(self, array, &bound) {
                    Some(bytes) => {
                        let budget = fresh_budget();
                        let scope = Scope::at(array.name_range.start).with(&bound);
                        let natural = m
                            .view(self, &scope, &budget)
                            .layout(&array.element)
                            .map_or(1, |l| l.align);
                        sizes.push(Piece {
                            bytes,
                            natural,
                            align: array.align.unwrap_or(1).max(natural),
                        });
                    }
                    None => known = false,
                }
            }
            for call in uses.calls.iter().filter(|c| !is_dead(c.at)) {
                let budget = fresh_budget();
                let scope = Scope::at(call.at).with(&bound);
                let view = m.view(self, &scope, &budget);
                let callees = view.callees(call);
                // A template that nobody here defines stands in a header that is not there.
                let elsewhere = callees.is_empty()
                    && call.name.ends_with('>')
                    && call.object.is_none()
                    && !call.name.starts_with("std::")
                    && view.meaning(&call.name).is_none();
                known &= !(misses && elsewhere);
                todo.extend(
                    callees
                        .into_iter()
                        .map(|(found, bound)| (found.model, found.index, bound)),
                );
            }
            visited.push((here, f, bound));
        }
        out.bytes = if known { total(sizes) } else { None };
        out
    }
}

/// Whether a local name of the function hides a variable outside.
fn shadowed(m: &Model, function: usize, name: &str) -> bool {
    m.shared
        .iter()
        .any(|s| s.function == Some(function) && s.name == name)
        || m.functions
            .get(function)
            .is_some_and(|f| f.params.iter().any(|p| p.name == name))
}

/// One LDS variable.
struct Piece {
    bytes: u64,
    /// Alignment of its type.
    natural: u64,
    /// Alignment asked for, or that of its type.
    align: u64,
}

/// Size of the structure that LLVM's `AMDGPULowerModuleLDS` makes of the variables: it raises alignments by size (up
/// to 16 bytes), sorts by alignment and then by size, both falling, and fills gaps with what fits.
fn total(pieces: Vec<Piece>) -> Option<u64> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut whole_align = 1;
    for p in pieces.into_iter().filter(|p| p.bytes > 0) {
        let raised = match p.bytes {
            9.. => 16,
            5..=8 => 8,
            3..=4 => 4,
            2 => 2,
            _ => 1,
        };
        whole_align = whole_align.max(p.natural);
        all.push((p.align.max(raised), p.bytes));
    }
    all.sort_by(|a, b| b.cmp(a));
    let mut at = 0u64;
    let mut left = all;
    while !left.is_empty() {
        // The first that needs no padding here; else the most aligned one.
        let next = left
            .iter()
            .position(|(align, _)| at.is_multiple_of(*align))
            .unwrap_or(0);
        let (align, bytes) = left.remove(next);
        at = at.checked_next_multiple_of(align)?.checked_add(bytes)?;
    }
    at.checked_next_multiple_of(whole_align)
}

/// Whether nothing of a variable used at these tokens is left in the compiled kernel: it is never read, or it is a
/// scalar that one block without a barrier sets before it reads it, which the compiler keeps in a register.
fn leaves_nothing(toks: &[Token], at: &[usize], text: &str) -> bool {
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
    let before = |i: usize| i.checked_sub(1).map_or("", word);
    // The token after the name and its subscripts.
    let after = |mut i: usize| {
        i += 1;
        while word(i) == "[" {
            match bracket_close(toks, i, text) {
                Some(close) => i = close + 1,
                None => return i,
            }
        }
        i
    };
    // A statement of its own: `a[i] = v`, not `b = a[i] = v`.
    let is_store = |i: usize| {
        word(after(i)) == "=" && matches!(before(i), ";" | "{" | "}" | ")" | "else" | ":")
    };
    if at.iter().all(|i| is_store(*i)) {
        return true;
    }
    let (Some(first), Some(last)) = (at.first(), at.last()) else {
        return true;
    };
    let is_scalar = |i: usize| {
        after(i) == i + 1
            && !matches!(word(i + 1), "." | "->" | "++" | "--")
            && before(i) != "&"
            && !(matches!(before(i), "(" | ",") && matches!(word(i + 1), ")" | ","))
    };
    // The first use sets it, whatever was decided before.
    if !is_store(*first)
        || !matches!(before(*first), ";" | "{" | "}")
        || !at.iter().all(|i| is_scalar(*i))
    {
        return false;
    }
    // The block around the first use, which must hold all of them.
    let mut depth = 0usize;
    let Some(open) = (0..*first).rev().find(|i| match word(*i) {
        "}" => {
            depth += 1;
            false
        }
        "{" if depth == 0 => true,
        "{" => {
            depth -= 1;
            false
        }
        _ => false,
    }) else {
        return false;
    };
    let Some(close) = bracket_close(toks, open, text) else {
        return false;
    };
    *last < close
        && (*first..*last).all(|i| {
            !(toks.get(i).is_some_and(|t| t.kind == TokenKind::Ident) && word(i + 1) == "(")
                || matches!(word(i), "for" | "if" | "while")
        })
}

/// `if constexpr (c) a else b`, or a plain `if`, at token `i`.
fn branch(toks: &[Token], i: usize, text: &str) -> Option<Branch> {
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
    let open = i + 1 + usize::from(word(i + 1) == "constexpr");
    if word(open) != "(" {
        return None;
    }
    let close = bracket_close(toks, open, text)?;
    let condition = toks.get(open + 1)?.range.start..toks.get(close)?.range.start;
    let then_end = statement_end(toks, close + 1, text, 0)?;
    let then = toks.get(close + 1)?.range.start..toks.get(then_end)?.range.end;
    let otherwise = if word(then_end + 1) == "else" {
        let end = statement_end(toks, then_end + 2, text, 0)?;
        toks.get(then_end + 2)?.range.start..toks.get(end)?.range.end
    } else {
        then.end..then.end
    };
    Some(Branch {
        condition,
        then,
        otherwise,
    })
}

/// The last token of the statement that starts at `i`.
fn statement_end(toks: &[Token], mut i: usize, text: &str, depth: u32) -> Option<usize> {
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
    if depth > 32 {
        return None;
    }
    match word(i) {
        "{" => bracket_close(toks, i, text),
        "if" => {
            let open = i + 1 + usize::from(word(i + 1) == "constexpr");
            let close = bracket_close(toks, open, text)?;
            let end = statement_end(toks, close + 1, text, depth + 1)?;
            if word(end + 1) == "else" {
                statement_end(toks, end + 2, text, depth + 1)
            } else {
                Some(end)
            }
        }
        "for" | "while" | "switch" => {
            let close = bracket_close(toks, i + 1, text)?;
            statement_end(toks, close + 1, text, depth + 1)
        }
        _ => loop {
            match word(i) {
                "" => return None,
                ";" => return Some(i),
                "(" | "[" | "{" => i = bracket_close(toks, i, text)? + 1,
                _ => i += 1,
            }
        },
    }
}

/// Code of the body that this instance does not keep.
fn dead_ranges(view: &View<'_, '_>, uses: &Uses) -> Vec<Range<usize>> {
    uses.branches
        .iter()
        .filter_map(|b| {
            let text = view.model.text.get(b.condition.clone())?;
            let here = view.elsewhere(view.model, b.condition.start, view.bindings)?;
            Some(match evaluate(text, &here)? {
                0 => b.then.clone(),
                _ => b.otherwise.clone(),
            })
        })
        .filter(|r| !r.is_empty())
        .collect()
}

/// The call whose name is token `i`, if it is one.
fn call(toks: &[Token], i: usize, text: &str, at: usize) -> Option<CallUse> {
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
    let name = word(i);
    if is_no_call(name) {
        return None;
    }
    let mut open = i + 1;
    if word(open) == "<" {
        open = angle_close(toks, open, text)? + 1;
    }
    if word(open) != "(" {
        return None;
    }
    // Back over what qualifies the name.
    let mut first = i;
    let mut object = None;
    while first >= 2 && word(first - 1) == "::" {
        let mut before = first - 2;
        if word(before) == ">" {
            let mut depth = 0usize;
            loop {
                match word(before) {
                    ">" => depth += 1,
                    "<" => {
                        depth = depth.checked_sub(1)?;
                        if depth == 0 {
                            break;
                        }
                    }
                    _ => {}
                }
                before = before.checked_sub(1)?;
            }
            before = before.checked_sub(1)?;
        }
        if toks.get(before).is_none_or(|t| t.kind != TokenKind::Ident) {
            break;
        }
        first = before;
    }
    if first >= 2 && matches!(word(first - 1), "." | "->") {
        object = Some(word(first - 2).to_owned());
    }
    let close = bracket_close(toks, open, text)?;
    let inner = toks.get(open)?.range.end..toks.get(close)?.range.start;
    let arguments = split_arguments(text, inner)
        .into_iter()
        .filter_map(|r| text.get(r).map(str::to_owned))
        .collect();
    let whole = toks.get(first)?.range.start..toks.get(open - 1)?.range.end;
    Some(CallUse {
        at,
        name: text.get(whole)?.to_owned(),
        object,
        arguments,
    })
}

impl<'a> View<'a, '_> {
    /// The functions that a call means, with their template parameters bound.
    fn callees(&self, call: &CallUse) -> Vec<(FunctionRef<'a>, Bindings)> {
        let Some(path) = segments(&call.name) else {
            return Vec::new();
        };
        let Some(((last, template), before)) = path.split_last() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for m in self.files() {
            for index in m.index().functions.get(last) {
                let Some(f) = m.functions.get(index) else {
                    continue;
                };
                if f.name == *last && f.kind != FunctionKind::Kernel {
                    found.push(FunctionRef { model: m, index });
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        let closed: Vec<String> = template
            .iter()
            .flatten()
            .map(|a| self.closed_argument(a))
            .collect();
        let function = |r: &FunctionRef<'a>| r.model.functions.get(r.index);
        found.retain(|r| function(r).is_some_and(|f| f.template_params.len() >= closed.len()));
        let exact = |r: &FunctionRef<'a>| {
            function(r).is_some_and(|f| f.params.len() == call.arguments.len())
        };
        if found.iter().any(exact) {
            found.retain(exact);
        }
        // The class says which of several methods it is, and what its own template parameters are.
        let class = match &call.object {
            Some(object) => {
                self.type_of(object, 0)
                    .and_then(|(ty, _)| match self.meaning(&ty)? {
                        Meaning::Class(c) => Some(c),
                        _ => None,
                    })
            }
            None if before.is_empty() => None,
            None => {
                let text = call.name.rsplit_once("::").map_or("", |(head, _)| head);
                match self.meaning(text) {
                    Some(Meaning::Class(c)) => Some(c),
                    _ => None,
                }
            }
        };
        if let Some(class) = &class
            && let Some(own) = class.model.classes.get(class.index)
        {
            let inside = |r: &FunctionRef<'a>| {
                std::ptr::eq(r.model, class.model)
                    && function(r).is_some_and(|f| own.range.contains(&f.name_range.start))
            };
            if found.iter().any(inside) {
                found.retain(inside);
            }
        }
        found
            .into_iter()
            .map(|r| {
                let mut bindings = class
                    .as_ref()
                    .map(|c| c.bindings.clone())
                    .unwrap_or_default();
                let own = self.bind_call(r, &closed, &call.arguments);
                bindings.retain(|(n, _)| own.iter().all(|(m, _)| m != n));
                bindings.extend(own);
                (r, bindings)
            })
            .collect()
    }

    /// Template parameters of a called function, from explicit arguments and from what is passed.
    fn bind_call(
        &self,
        callee: FunctionRef<'a>,
        explicit: &[String],
        passed: &[String],
    ) -> Bindings {
        let Some(f) = callee.model.functions.get(callee.index) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let mut deduced: Vec<Option<String>> = Vec::new();
        for (i, p) in f.template_params.iter().enumerate() {
            deduced.push(explicit.get(i).cloned());
            if i < explicit.len() || p.name.is_empty() {
                continue;
            }
            for (param, argument) in f.params.iter().zip(passed) {
                let Some((ty, pointers)) = (mentions(&param.ty.base, &p.name))
                    .then(|| self.type_of(argument, 0))
                    .flatten()
                else {
                    continue;
                };
                let Some(left) = pointers.checked_sub(param.ty.pointers) else {
                    continue;
                };
                if param.ty.base == p.name {
                    let stars = "*".repeat(usize::from(left));
                    deduced[i] = Some(format!("{ty}{stars}"));
                    break;
                }
                // `Foo<T, N> x`
                if left == 0
                    && let (Some(a), Some(b)) = (segments(&param.ty.base), segments(&ty))
                    && let (Some((an, Some(aa))), Some((bn, Some(ba)))) = (a.last(), b.last())
                    && an == bn
                    && let Some(at) = aa.iter().position(|x| x.trim() == p.name)
                {
                    deduced[i] = ba.get(at).cloned();
                    break;
                }
            }
        }
        // Defaults come last: `bound` takes them where nothing else is known.
        let mut outer: Bindings = Vec::new();
        for (i, p) in f.template_params.iter().enumerate() {
            let one = std::slice::from_ref(p);
            let argument: Vec<String> = deduced.get(i).cloned().flatten().into_iter().collect();
            let bound = self.bound(one, &argument, callee.model, f.range.start, &outer);
            outer.extend(bound.clone());
            all.extend(bound);
        }
        all
    }

    /// The type of a simple expression: its base, closed, and how many pointers deep it is.
    fn type_of(&self, text: &str, depth: u32) -> Option<(String, u8)> {
        if depth > 8 {
            return None;
        }
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('&') {
            let (ty, pointers) = self.type_of(inner, depth + 1)?;
            return Some((ty, pointers.checked_add(1)?));
        }
        if let Some(inner) = text.strip_prefix('*') {
            let (ty, pointers) = self.type_of(inner, depth + 1)?;
            return Some((ty, pointers.checked_sub(1)?));
        }
        if text.starts_with('(') {
            let close = crate::lex::matching_close(text, 0)?;
            let inner = text.get(1..close)?;
            let rest = text.get(close + 1..)?.trim();
            if rest.is_empty() {
                return self.type_of(inner, depth + 1);
            }
            return self.cast_type(inner);
        }
        for word in ["static_cast", "reinterpret_cast", "const_cast"] {
            if let Some(rest) = text.strip_prefix(word) {
                let inner = rest.trim_start().strip_prefix('<')?;
                let close = inner.rfind(">(").or_else(|| inner.rfind('>'))?;
                return self.cast_type(inner.get(..close)?);
            }
        }
        let toks = crate::lex::tokens(text);
        let first = toks.first()?;
        match first.kind {
            TokenKind::Number if toks.len() == 1 => {
                let n = first.text(text).to_ascii_lowercase();
                let hex = n.starts_with("0x");
                let ty = if !hex && n.ends_with('f') {
                    "float"
                } else if !hex && n.contains(['.', 'e']) {
                    "double"
                } else if n.ends_with("ull") {
                    "unsigned long long"
                } else if n.ends_with("ul") {
                    "unsigned long"
                } else if n.ends_with('u') {
                    "unsigned int"
                } else {
                    "int"
                };
                return Some((ty.to_owned(), 0));
            }
            TokenKind::Ident => {}
            _ => return None,
        }
        let name = first.text(text);
        let (mut ty, mut pointers) = self.type_of_name(name, depth)?;
        let mut i = 1;
        while let Some(t) = toks.get(i) {
            match t.text(text) {
                "[" => {
                    pointers = pointers.checked_sub(1)?;
                    i = bracket_close(&toks, i, text)? + 1;
                }
                // Pointer arithmetic and sums keep the type of their first operand.
                "+" | "-" => break,
                _ => return None,
            }
        }
        ty = ty.trim().to_owned();
        Some((ty, pointers))
    }

    fn cast_type(&self, ty: &str) -> Option<(String, u8)> {
        let stars = u8::try_from(ty.matches('*').count()).ok()?;
        let base = ty.trim_end_matches(['*', ' ', '&']);
        let base = base.trim().trim_start_matches("const ");
        self.meaning(base)?;
        Some((self.closed(base), stars))
    }

    fn type_of_name(&self, name: &str, depth: u32) -> Option<(String, u8)> {
        let m = self.model;
        if let Some(array) = m.shared_at(name, self.at) {
            let (base, stars) = match array.element.strip_suffix('*') {
                Some(base) => (base.trim(), 1),
                None => (array.element.as_str(), 0),
            };
            let dims = array.dims.len() + usize::from(array.dynamic && array.dims.is_empty());
            return Some((self.closed(base), u8::try_from(dims).ok()? + stars));
        }
        let v = m.variable_at(name, self.at)?;
        if v.ty.base == "auto" {
            let init = v.init.as_ref()?;
            let view = self.elsewhere(m, init.range.start, self.bindings)?;
            return view.type_of(&init.text, depth + 1);
        }
        Some((self.closed(&v.ty.base), v.ty.pointers))
    }
}

/// Whether `name` is a word of `text`.
fn mentions(text: &str, name: &str) -> bool {
    crate::lex::tokens(text)
        .iter()
        .any(|t| t.text(text) == name)
}
