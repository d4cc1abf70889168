//! Accesses to LDS in the order of the text, the wavefronts that make them, and the barriers between them.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use hipsmith_syntax::lanes::{Binding, BindingKind, Evaluator, Geometry, LANES, Lanes, Op};
use hipsmith_syntax::{Node, Scope};

use crate::barriers::Meeting;
use crate::context::Context;
use crate::facts::{self, Function, walk, within};
use crate::shapes::{Setting, is_flat};
use crate::variance::guards;

/// What an access does to its element.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deed {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it, one thread after another.
    Atomic,
}

/// An access to a `__shared__` array or variable.
#[derive(Clone, Debug)]
pub struct Access<'t> {
    /// The subscript or name.
    pub node: Node<'t>,
    /// Index into the model's `shared`.
    pub array: usize,
    /// What it does.
    pub deed: Deed,
    /// Index of each dimension, outermost first.
    indices: Vec<Node<'t>>,
}

/// LDS use of one function.
pub struct LdsOrder<'a, 't> {
    cx: &'a Context<'t>,
    f: &'a Function<'t>,
    /// In text order.
    pub accesses: Vec<Access<'t>>,
    /// Starts of what may be a barrier: calls of barriers and of what is not known, inline assembly.
    stops: Vec<usize>,
    settings: Vec<Supposed>,
    /// Accesses are compared pair by pair, but evaluated once: the lanes' elements by access, setting and loop values.
    known: RefCell<HashMap<Key, Option<Rc<Addresses>>>>,
    /// Rounds of a loop, by its variable, the setting and the outer loop's value.
    rounds: RefCell<HashMap<Key, Rc<[i64]>>>,
}

/// An access or loop variable (by its node's id), a setting (by number), and the loop variables (by their names' ids) with their values.
type Key = (usize, usize, Vec<(usize, i64)>);

/// A launch with its shape, known or supposed.
struct Supposed {
    setting: Setting,
    shape: [u32; 3],
    known: bool,
}

/// How sure a race is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Sure {
    /// In a block as large as the array, which the file does not show.
    Supposed,
    /// In a launch of the file.
    Launched,
}

/// Accesses looked at per function.
const MOST: usize = 48;
/// Loop iterations tried per variable.
const ITERATIONS: usize = 10;

/// The element that each lane of each wavefront touches.
struct Addresses {
    waves: Vec<[Option<i64>; LANES]>,
    /// The wavefronts that touch an element, one bit each.
    owners: OnceCell<HashMap<i64, u64>>,
}

impl Addresses {
    fn owners(&self) -> &HashMap<i64, u64> {
        self.owners.get_or_init(|| {
            let mut owners: HashMap<i64, u64> = HashMap::new();
            for (wave, lanes) in self.waves.iter().enumerate() {
                for e in lanes.iter().flatten() {
                    *owners.entry(*e).or_insert(0) |= 1 << wave;
                }
            }
            owners
        })
    }
}

impl<'a, 't> LdsOrder<'a, 't> {
    /// Of the `index`-th function; `None` when there is nothing to order.
    pub fn new(cx: &'a Context<'t>, index: usize) -> Option<LdsOrder<'a, 't>> {
        let f = cx.functions.get(index)?;
        let accesses = accesses(cx, f);
        if accesses.len() < 2
            || accesses.len() > MOST
            || accesses.iter().all(|a| a.deed == Deed::Read)
        {
            return None;
        }
        let mut settings = Vec::new();
        for setting in cx.settings(index) {
            match setting.shape {
                Some(shape) => settings.push(Supposed {
                    setting,
                    shape,
                    known: true,
                }),
                None => {
                    // A block of as many threads as the largest one-dimensional array has elements.
                    let size = accesses
                        .iter()
                        .filter_map(|a| {
                            let s = cx.model.shared.get(a.array)?;
                            match s.dim_values[..] {
                                [Some(n)] => u32::try_from(n).ok(),
                                _ => None,
                            }
                        })
                        .filter(|n| matches!(n, 128 | 256 | 512 | 1024))
                        .max();
                    if let Some(n) = size
                        && is_flat(cx, f)
                    {
                        settings.push(Supposed {
                            setting,
                            shape: [n, 1, 1],
                            known: false,
                        });
                    }
                }
            }
        }
        settings.retain(|s| s.shape.iter().map(|d| u64::from(*d)).product::<u64>() > 64);
        if settings.is_empty() {
            return None;
        }
        let mut stops: Vec<usize> = f
            .calls
            .iter()
            .filter(|c| cx.meeting(f, c) != Meeting::None)
            .map(|c| c.node.start_byte())
            .collect();
        walk(f.body, &mut |n| {
            match n.kind() {
                "gnu_asm_expression" | "lambda_expression" | "goto_statement" | "ERROR" => {
                    stops.push(n.start_byte());
                }
                // A statement that is a lone name is a macro.
                "expression_statement"
                    if n.named_child(0).is_some_and(|c| c.kind() == "identifier") =>
                {
                    stops.push(n.start_byte());
                }
                _ => {}
            }
            true
        });
        stops.sort_unstable();
        Some(LdsOrder {
            cx,
            f,
            accesses,
            stops,
            settings,
            known: RefCell::default(),
            rounds: RefCell::default(),
        })
    }

    /// Whether something that may be a barrier stands between two offsets.
    pub fn stopped(&self, from: usize, to: usize) -> bool {
        let i = self.stops.partition_point(|s| *s < from);
        self.stops.get(i).is_some_and(|s| *s < to)
    }

    /// Whether a thread that made `first` can come to `second` in text order: not when they are in different branches, nor
    /// when the block of the first is left at its end.
    pub fn follows(&self, first: Node<'t>, second: Node<'t>) -> bool {
        let mut n = first;
        while n.id() != self.f.body.id() {
            let Some(p) = n.parent() else { return false };
            if within(p, second) {
                return !(matches!(p.kind(), "if_statement" | "conditional_expression")
                    && p.child_by_field_name("condition")
                        .is_none_or(|c| !within(c, first)));
            }
            if p.kind() == "compound_statement"
                && p.named_children().last().is_some_and(|last| {
                    matches!(
                        last.kind(),
                        "return_statement" | "break_statement" | "continue_statement"
                    )
                })
                || p.kind() == "case_statement"
            {
                return false;
            }
            n = p;
        }
        true
    }

    /// The innermost loop that holds both.
    pub fn common_loop(&self, a: Node<'t>, b: Node<'t>) -> Option<Node<'t>> {
        let mut n = a;
        while n.id() != self.f.body.id() {
            n = n.parent()?;
            if matches!(
                n.kind(),
                "for_statement" | "while_statement" | "do_statement"
            ) && within(n, b)
                && n.child_by_field_name("body")
                    .is_some_and(|body| within(body, a) && within(body, b))
            {
                return Some(n);
            }
        }
        None
    }

    /// Whether what an access's place depends on stays as it is from one round of `outer` to the next.
    pub fn is_steady(&self, a: &Access<'t>, outer: Node<'t>) -> bool {
        let mut steady = true;
        let mut todo: Vec<Node<'t>> = a.indices.clone();
        todo.extend(
            guards(self.f.body, a.node)
                .into_iter()
                .flatten()
                .filter(|g| within(outer, g.statement) && g.statement.id() != outer.id())
                .map(|g| g.condition),
        );
        let mut seen = Vec::new();
        while let Some(node) = todo.pop() {
            walk(node, &mut |n| {
                if n.kind() == "identifier"
                    && let Some(b) = self.f.bindings.resolve(self.cx.text(n), n.start_byte())
                    && !seen.contains(&b.name.id())
                {
                    seen.push(b.name.id());
                    let inside = within(outer, b.declaration)
                        && b.declaration.parent().is_none_or(|p| p.id() != outer.id());
                    steady &= inside || !b.writes.iter().any(|w| within(outer, *w));
                    if inside {
                        todo.extend(b.init);
                    }
                }
                true
            });
        }
        steady
    }

    /// Whether a `for` is known to run once or never.
    pub fn runs_once(&self, outer: Node<'t>) -> bool {
        self.f
            .bindings
            .iter()
            .filter(|b| {
                b.kind == BindingKind::Loop
                    && b.declaration.parent().is_some_and(|p| p.id() == outer.id())
            })
            .any(|b| {
                self.settings.iter().all(|s| {
                    let geometry = Geometry::Block {
                        shape: s.shape,
                        wave: 0,
                    };
                    let eval = self.cx.evaluator_in(self.f, &s.setting, geometry);
                    let rounds = eval.iterations(b, 2);
                    // Iterations stop too when the condition is not known.
                    rounds.len() == 1
                        && outer.child_by_field_name("condition").is_some_and(|c| {
                            eval.pin(b, rounds.first().copied());
                            eval.constant(c).is_some()
                        })
                })
            })
    }

    /// Whether some thread touches with `second` what a thread of another wavefront touches with `first`, and has not
    /// itself written it with `first`.
    pub fn crosses(&self, first: &Access<'t>, second: &Access<'t>) -> Option<Sure> {
        let mut best = None;
        for (number, s) in self.settings.iter().enumerate() {
            let sure = if s.known {
                Sure::Launched
            } else {
                Sure::Supposed
            };
            if best >= Some(sure) {
                continue;
            }
            if self.crosses_in(number, first, second) == Some(true) {
                best = Some(sure);
            }
        }
        best
    }

    fn crosses_in(&self, setting: usize, first: &Access<'t>, second: &Access<'t>) -> Option<bool> {
        let (of_first, of_second) = (self.loops(first), self.loops(second));
        let mut loops: Vec<&Binding<'t>> = of_first.iter().chain(&of_second).copied().collect();
        loops.sort_by_key(|b| b.name.start_byte());
        loops.dedup_by_key(|b| b.name.start_byte());
        let one = |pins: &[(&Binding<'t>, i64)]| -> Option<bool> {
            let a = self.addresses(setting, first, &of_first, pins)?;
            let b = self.addresses(setting, second, &of_second, pins)?;
            Some(meet(&a, &b, first.deed != Deed::Read))
        };
        match loops[..] {
            [] => one(&[]),
            [x] => {
                let mut any = false;
                for v in self.rounds(setting, x, &[])?.iter() {
                    any |= one(&[(x, *v)])?;
                }
                Some(any)
            }
            [x, y] => {
                let mut any = false;
                for v in self.rounds(setting, x, &[])?.iter() {
                    for w in self.rounds(setting, y, &[(x, *v)])?.iter() {
                        any |= one(&[(x, *v), (y, *w)])?;
                    }
                }
                Some(any)
            }
            _ => None,
        }
    }

    /// An evaluator for each wavefront of the workgroup.
    fn evaluators<'b>(&'b self, s: &'b Supposed) -> Option<Vec<Evaluator<'b, 't>>> {
        let threads: u64 = s.shape.iter().map(|d| u64::from(*d)).product();
        let waves = u32::try_from(threads.div_ceil(64)).ok()?.min(16);
        let geometry = |wave| Geometry::Block {
            shape: s.shape,
            wave,
        };
        let eval = |wave| self.cx.evaluator_in(self.f, &s.setting, geometry(wave));
        Some((0..waves).map(eval).collect())
    }

    /// The first values of a loop variable.
    fn rounds(
        &self,
        setting: usize,
        x: &Binding<'t>,
        outer: &[(&Binding<'t>, i64)],
    ) -> Option<Rc<[i64]>> {
        let values = outer.iter().map(|(b, v)| (b.name.id(), *v)).collect();
        let key = (x.name.id(), setting, values);
        if let Some(known) = self.rounds.borrow().get(&key) {
            return Some(known.clone());
        }
        let s = self.settings.get(setting)?;
        let geometry = Geometry::Block {
            shape: s.shape,
            wave: 0,
        };
        let eval = self.cx.evaluator_in(self.f, &s.setting, geometry);
        for (b, v) in outer {
            eval.pin(b, Some(*v));
        }
        let rounds: Rc<[i64]> = eval.iterations(x, ITERATIONS).into();
        self.rounds.borrow_mut().insert(key, rounds.clone());
        Some(rounds)
    }

    /// Loop variables that an access's place depends on.
    fn loops(&self, a: &Access<'t>) -> Vec<&'a Binding<'t>> {
        let mut out = Vec::new();
        let mut todo = a.indices.clone();
        todo.extend(
            guards(self.f.body, a.node)
                .into_iter()
                .flatten()
                .filter(|g| g.statement.kind() == "if_statement")
                .map(|g| g.condition),
        );
        let mut seen = Vec::new();
        while let Some(node) = todo.pop() {
            walk(node, &mut |n| {
                if n.kind() == "identifier"
                    && let Some(b) = self.f.bindings.resolve(self.cx.text(n), n.start_byte())
                    && !seen.contains(&b.name.id())
                {
                    seen.push(b.name.id());
                    if b.kind == BindingKind::Loop {
                        out.push(b);
                    } else {
                        todo.extend(b.init);
                    }
                }
                true
            });
        }
        out
    }

    /// The element of each lane in each wavefront, with the loop variables that the access depends on at their values.
    fn addresses(
        &self,
        setting: usize,
        a: &Access<'t>,
        loops: &[&Binding<'t>],
        pins: &[(&Binding<'t>, i64)],
    ) -> Option<Rc<Addresses>> {
        let own = |b: &Binding<'t>| loops.iter().any(|l| l.name == b.name);
        let pins: Vec<_> = pins.iter().filter(|(b, _)| own(b)).collect();
        let values = pins.iter().map(|(b, v)| (b.name.id(), *v)).collect();
        let key = (a.node.id(), setting, values);
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let new = self.settings.get(setting).and_then(|s| {
            let evals = self.evaluators(s)?;
            for (b, v) in &pins {
                evals.iter().for_each(|e| e.pin(b, Some(*v)));
            }
            self.evaluated(s, &evals, a).map(Rc::new)
        });
        self.known.borrow_mut().insert(key, new.clone());
        new
    }

    fn evaluated(
        &self,
        s: &Supposed,
        evals: &[Evaluator<'_, 't>],
        a: &Access<'t>,
    ) -> Option<Addresses> {
        let shared = self.cx.model.shared.get(a.array)?;
        let scope = Scope::at(shared.name_range.start).with(&s.setting.bound);
        let mut strides = vec![1i64; a.indices.len()];
        let mut stride = 1i64;
        for i in (1..a.indices.len()).rev() {
            let dim = self.cx.model.eval(&shared.dims.get(i)?.text, &scope)?;
            stride = stride
                .checked_mul(dim)
                .filter(|s| (1..1 << 20).contains(s))?;
            strides[i - 1] = stride;
        }
        let mut out = Vec::new();
        for eval in evals {
            let mut index = Lanes::constant(0)?;
            for (node, stride) in a.indices.iter().zip(&strides) {
                let part = Lanes::apply(Op::Mul, &eval.eval(*node)?, &Lanes::constant(*stride)?)?;
                index = Lanes::apply(Op::Add, &index, &part)?;
            }
            let values = *index.values()?;
            let active = self.active(eval, a.node)?;
            out.push(std::array::from_fn(|l| {
                (active[l] && eval.geometry().is_active(l)).then_some(values[l])
            }));
        }
        Some(Addresses {
            waves: out,
            owners: OnceCell::new(),
        })
    }

    /// The lanes that come to a node; `None` when the data choose them.
    fn active(&self, eval: &Evaluator<'_, 't>, node: Node<'t>) -> Option<[bool; LANES]> {
        let mut out = [true; LANES];
        for g in guards(self.f.body, node)? {
            if g.statement.kind() != "if_statement"
                && g.statement.kind() != "conditional_expression"
            {
                // How often a loop runs does not choose lanes, unless it starts at the thread's index.
                if matches!(g.statement.kind(), "switch_statement" | "binary_expression") {
                    return None;
                }
                continue;
            }
            let inverted = g
                .statement
                .child_by_field_name("alternative")
                .is_some_and(|a| within(a, node));
            self.restrict(eval, g.condition, inverted, &mut out, 0)?;
        }
        Some(out)
    }

    fn restrict(
        &self,
        eval: &Evaluator<'_, 't>,
        condition: Node<'t>,
        inverted: bool,
        out: &mut [bool; LANES],
        depth: u32,
    ) -> Option<()> {
        if depth > 16 {
            return None;
        }
        let condition = facts::unparenthesized(condition);
        let value = eval.eval(condition);
        if let Some(values) = value.as_ref().and_then(Lanes::values) {
            for (o, v) in out.iter_mut().zip(values) {
                *o &= (*v != 0) != inverted;
            }
            return Some(());
        }
        if value.is_some_and(|v| v.is_uniform()) {
            return Some(());
        }
        let b = facts::binary(condition).filter(|_| condition.kind() == "binary_expression")?;
        match b.operator {
            "&&" if !inverted => {
                self.restrict(eval, b.left, inverted, out, depth + 1)?;
                self.restrict(eval, b.right, inverted, out, depth + 1)
            }
            "||" if inverted => {
                self.restrict(eval, b.left, inverted, out, depth + 1)?;
                self.restrict(eval, b.right, inverted, out, depth + 1)
            }
            // A bound of the whole index: all lanes of most workgroups pass it.
            "<" | "<=" | ">" | ">="
                if eval.eval(b.left).is_some() && eval.eval(b.right).is_some() =>
            {
                let left = eval.eval(b.left)?;
                let global = left.values().is_none();
                global.then_some(())
            }
            _ => None,
        }
    }
}

/// Whether a thread's place in `b` is one of another wavefront's in `a`; with `own`, only if it is not its own there too.
fn meet(a: &Addresses, b: &Addresses, own: bool) -> bool {
    let owners = a.owners();
    b.waves.iter().enumerate().any(|(wave, lanes)| {
        lanes.iter().enumerate().any(|(lane, e)| {
            let Some(e) = e else { return false };
            let own = own
                && a.waves
                    .get(wave)
                    .and_then(|l| l.get(lane))
                    .is_some_and(|o| o.as_ref() == Some(e));
            !own && owners.get(e).is_some_and(|waves| waves & !(1 << wave) != 0)
        })
    })
}

fn accesses<'t>(cx: &Context<'t>, f: &Function<'t>) -> Vec<Access<'t>> {
    let mut out = Vec::new();
    walk(f.body, &mut |n| {
        if n.kind() == "lambda_expression" || n.kind() == "sizeof_expression" {
            return false;
        }
        if n.kind() == "identifier"
            && cx.shared_names.contains(cx.text(n))
            && let Some(a) = access(cx, f, n)
        {
            out.push(a);
        }
        true
    });
    out
}

/// The access that a name of LDS is part of.
fn access<'t>(cx: &Context<'t>, f: &Function<'t>, name: Node<'t>) -> Option<Access<'t>> {
    let text = cx.text(name);
    let shared = cx.model.shared_at(text, name.start_byte())?;
    if shared.name_range == name.byte_range() || shared.dynamic {
        return None;
    }
    if let Some(b) = f.bindings.resolve(text, name.start_byte())
        && b.name.byte_range() != shared.name_range
    {
        return None;
    }
    let array = cx
        .model
        .shared
        .iter()
        .position(|s| s.name_range == shared.name_range)?;
    let mut node = name;
    let mut indices = Vec::new();
    while let Some(p) = node.parent()
        && p.kind() == "subscript_expression"
        && p.child_by_field_name("argument") == Some(node)
    {
        let list = p.child_by_field_name("indices")?;
        if list.named_child_count() != 1 {
            return None;
        }
        indices.push(list.named_child(0)?);
        node = p;
    }
    if indices.len() != shared.dims.len() {
        return None;
    }
    let parent = node.parent()?;
    let deed = match parent.kind() {
        "assignment_expression" if parent.child_by_field_name("left") == Some(node) => {
            // `s[i] += x` reads too, but what the same thread wrote.
            Deed::Write
        }
        "update_expression" => Deed::Write,
        "pointer_expression" if cx.text(parent).starts_with('&') => {
            let list = parent.parent().filter(|p| p.kind() == "argument_list")?;
            let call = list.parent()?;
            let callee = facts::callee_name(cx.source, call);
            (callee.starts_with("atomic") && list.named_child(0) == Some(parent))
                .then_some(Deed::Atomic)?
        }
        // Handed on by reference or by name: what is done with it is not seen.
        "argument_list" | "field_expression" | "reference_declarator" => {
            let call = parent.parent()?;
            let plain = parent.kind() == "argument_list"
                && call.kind() == "call_expression"
                && matches!(
                    facts::callee_name(cx.source, call),
                    "min" | "max" | "fmaxf" | "fminf" | "fmax" | "fmin" | "sqrtf" | "expf"
                );
            plain.then_some(Deed::Read)?
        }
        "init_declarator" => {
            let reference = parent
                .child_by_field_name("declarator")
                .is_some_and(|d| d.kind() == "reference_declarator");
            (!reference).then_some(Deed::Read)?
        }
        "declaration" | "array_declarator" => return None,
        _ => Deed::Read,
    };
    Some(Access {
        node,
        array,
        deed,
        indices,
    })
}
