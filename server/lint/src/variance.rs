//! Which values differ between the threads of a workgroup, by data flow, and which conditions decide whether a statement runs.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::{Binding, BindingKind, Geometry};

use crate::context::Context;
use crate::facts::{self, Function, Place, within};
use crate::shapes::{self, Setting};

/// What is known of a value across the threads of a workgroup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variance {
    /// The same in all threads.
    Uniform,
    /// It comes from the thread's index, or from memory at such an index: threads can hold different values.
    Varies,
    /// Nothing is known.
    Unknown,
}

use Variance::{Uniform, Unknown, Varies};

impl Variance {
    /// Of an expression made of both.
    fn join(self, other: Variance) -> Variance {
        match (self, other) {
            (Varies, _) | (_, Varies) => Varies,
            (Unknown, _) | (_, Unknown) => Unknown,
            _ => Uniform,
        }
    }
}

/// How a condition decides whether a statement runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GuardKind {
    /// `if`, `?:`, `&&`, `||` or `switch`: whether it runs at all.
    Branch,
    /// A loop: how often it runs.
    Loop,
}

/// A condition that a statement depends on.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'t> {
    /// What it decides.
    pub kind: GuardKind,
    /// The `if`, loop or operator.
    pub statement: Node<'t>,
    /// Its condition.
    pub condition: Node<'t>,
}

/// The conditions around `node`, innermost first, up to `body`; `None` when a lambda lies between: who calls it when is
/// not known.
pub fn guards<'t>(body: Node<'t>, node: Node<'t>) -> Option<Vec<Guard<'t>>> {
    let mut out = Vec::new();
    let mut n = node;
    while n.id() != body.id() {
        let parent = n.parent()?;
        let in_field = |field: &str| {
            parent
                .child_by_field_name(field)
                .is_some_and(|c| within(c, n))
        };
        let kind = match parent.kind() {
            "lambda_expression" => return None,
            "if_statement" if in_field("consequence") || in_field("alternative") => {
                // `if constexpr` is decided by the compiler.
                let constant = parent
                    .children()
                    .take(3)
                    .any(|c| c.kind() == "constexpr" || c.kind() == "consteval");
                (!constant).then_some(GuardKind::Branch)
            }
            "switch_statement" if in_field("body") => Some(GuardKind::Branch),
            "conditional_expression" if in_field("consequence") || in_field("alternative") => {
                Some(GuardKind::Branch)
            }
            "binary_expression"
                if in_field("right")
                    && parent
                        .child_by_field_name("operator")
                        .is_some_and(|o| matches!(o.kind(), "&&" | "||")) =>
            {
                Some(GuardKind::Branch)
            }
            "while_statement" | "do_statement" if in_field("body") => Some(GuardKind::Loop),
            "for_statement" if in_field("body") || in_field("update") => Some(GuardKind::Loop),
            _ => None,
        };
        if let Some(kind) = kind {
            let condition = match parent.kind() {
                "binary_expression" => parent.child_by_field_name("left"),
                _ => parent.child_by_field_name("condition"),
            };
            if let Some(c) = condition {
                let c = match c.kind() {
                    "condition_clause" => c
                        .child_by_field_name("value")
                        .or_else(|| c.named_child(0))
                        .unwrap_or(c),
                    _ => c,
                };
                out.push(Guard {
                    kind,
                    statement: parent,
                    condition: facts::unparenthesized(c),
                });
            }
        }
        n = parent;
    }
    Some(out)
}

/// Steps after which a value is given up: the analysis runs at every keystroke.
const FUEL: u32 = 4000;
/// Nesting at which an expression is given up.
const DEPTH: u32 = 48;
/// Calls followed to find what a parameter is.
const CALLS: u32 = 3;

/// Values of one function.
pub struct Flow<'a, 't> {
    cx: &'a Context<'t>,
    f: &'a Function<'t>,
    index: usize,
    calls: u32,
    fuel: Cell<u32>,
    memo: RefCell<HashMap<(usize, usize), Variance>>,
    settings: Vec<Setting>,
    flat: bool,
}

impl<'a, 't> Flow<'a, 't> {
    /// Of the `index`-th function.
    pub fn new(cx: &'a Context<'t>, index: usize) -> Option<Flow<'a, 't>> {
        Flow::at(cx, index, 0)
    }

    fn at(cx: &'a Context<'t>, index: usize, calls: u32) -> Option<Flow<'a, 't>> {
        let f = cx.functions.get(index)?;
        Some(Flow {
            cx,
            f,
            index,
            calls,
            fuel: Cell::new(FUEL),
            memo: RefCell::default(),
            settings: if calls == 0 {
                cx.settings(index)
            } else {
                Vec::new()
            },
            flat: shapes::is_flat(cx, f),
        })
    }

    /// Whether a whole workgroup is at most one wavefront wherever the function runs.
    pub fn is_one_wave(&self) -> bool {
        let few = |threads: i64| (1..=64).contains(&threads);
        self.settings.iter().all(|s| s.waves() == Some(1))
            || self.cx.kernels_reaching(self.index).iter().all(|k| {
                self.cx.functions.get(*k).is_some_and(|kernel| {
                    self.cx
                        .model
                        .functions
                        .iter()
                        .find(|m| m.name_range == kernel.name_range)
                        .and_then(|m| m.launch_bounds.as_ref()?.max_threads)
                        .is_some_and(few)
                })
            }) && !self.cx.kernels_reaching(self.index).is_empty()
    }

    /// What the lanes of the launches make of a condition: `Some(true)` when threads of one workgroup surely differ,
    /// `Some(false)` when they surely agree, `None` when it cannot be worked out.
    pub fn decided(&self, condition: Node<'t>) -> Option<bool> {
        let mut differs = false;
        for setting in &self.settings {
            match setting.shape {
                Some(shape) => {
                    let mut first = None;
                    for wave in 0..setting.waves()?.min(16) {
                        let geometry = Geometry::Block { shape, wave };
                        let eval = self.cx.evaluator_in(self.f, setting, geometry);
                        let value = eval.eval(condition)?;
                        let values = value.values()?;
                        for (lane, v) in values.iter().enumerate() {
                            if geometry.is_active(lane) {
                                let v = *v != 0;
                                differs |= *first.get_or_insert(v) != v;
                            }
                        }
                    }
                }
                None if self.flat => {
                    let eval = self.cx.evaluator_in(self.f, setting, Geometry::FirstWave);
                    let value = eval.eval(condition)?;
                    let values = value.values()?;
                    let some = values.iter().filter(|v| **v != 0).count();
                    // Agreement of the first wavefront says nothing of the others.
                    if some == 0 || some == values.len() {
                        return None;
                    }
                    differs = true;
                }
                None => return None,
            }
        }
        Some(differs)
    }

    /// Whether the condition of a loop `for (i = START; i < END; i += STEP)` gives all threads the same number of
    /// iterations; `None` when it cannot be worked out.
    pub fn same_trips(&self, guard: &Guard<'t>) -> Option<bool> {
        let comparison = facts::binary(guard.condition)?;
        let name = self.cx.text(facts::bare(comparison.left));
        let b = self
            .f
            .bindings
            .resolve(name, comparison.left.start_byte())
            .filter(|b| b.kind == BindingKind::Loop)?;
        let [write] = b.writes[..] else { return None };
        let mut answer = true;
        for setting in &self.settings {
            let shape = setting.shape?;
            let mut first = None;
            for wave in 0..setting.waves()?.min(16) {
                let geometry = Geometry::Block { shape, wave };
                let eval = self.cx.evaluator_in(self.f, setting, geometry);
                let start = eval.eval(b.init?)?;
                let end = eval.constant(comparison.right)?;
                let step = match write.kind() {
                    "update_expression" if self.cx.text(write).contains("++") => 1,
                    "assignment_expression"
                        if write
                            .child_by_field_name("operator")
                            .is_some_and(|o| self.cx.text(o) == "+=") =>
                    {
                        eval.constant(write.child_by_field_name("right")?)?
                    }
                    _ => return None,
                };
                let end = match comparison.operator {
                    "<" => end,
                    "<=" => end + 1,
                    _ => return None,
                };
                if step < 1 {
                    return None;
                }
                for (lane, s) in start.values()?.iter().enumerate() {
                    if geometry.is_active(lane) {
                        let trips = (end - s).max(0).div_euclid(step)
                            + i64::from((end - s).max(0) % step != 0);
                        answer &= *first.get_or_insert(trips) == trips;
                    }
                }
            }
        }
        Some(answer)
    }

    /// The value of an expression at its place.
    pub fn of(&self, node: Node<'t>) -> Variance {
        self.value(node, 0)
    }

    fn value(&self, node: Node<'t>, depth: u32) -> Variance {
        let fuel = self.fuel.get();
        if fuel == 0 || depth > DEPTH || node.has_error() {
            return Unknown;
        }
        self.fuel.set(fuel - 1);
        let depth = depth + 1;
        let children = |from: Node<'t>| {
            from.named_children()
                .filter(|c| c.kind() != "comment")
                .fold(Uniform, |v, c| v.join(self.value(c, depth)))
        };
        match node.kind() {
            "number_literal"
            | "char_literal"
            | "true"
            | "false"
            | "null"
            | "nullptr"
            | "string_literal"
            | "sizeof_expression"
            | "type_descriptor"
            | "primitive_type"
            | "concatenated_string"
            | "alignof_expression" => Uniform,
            "identifier" => self.identifier(node, depth),
            "qualified_identifier" => {
                match self.cx.model.eval(
                    self.cx.text(node),
                    &hipsmith_syntax::Scope::at(node.start_byte()),
                ) {
                    Some(_) => Uniform,
                    None => Unknown,
                }
            }
            "field_expression" => {
                let Some(object) = node.child_by_field_name("argument") else {
                    return Unknown;
                };
                match self.cx.text(object) {
                    "threadIdx" => Varies,
                    "blockIdx" | "blockDim" | "gridDim" => Uniform,
                    "this" => Unknown,
                    _ => self.value(object, depth),
                }
            }
            "subscript_expression" => {
                let base = node.child_by_field_name("argument");
                let index = node.child_by_field_name("indices");
                match (base, index) {
                    (Some(b), Some(i)) => {
                        let base = self.value(b, depth);
                        base.join(children(i))
                    }
                    _ => Unknown,
                }
            }
            "binary_expression" => {
                let side = |field: &str| {
                    node.child_by_field_name(field)
                        .map_or(Unknown, |n| self.value(n, depth))
                };
                let both = side("left").join(side("right"));
                let operator = node
                    .child_by_field_name("operator")
                    .map_or("", |o| o.kind());
                if both == Varies && matches!(operator, "/" | ">>" | "%" | "&") {
                    return self.gathered(node, matches!(operator, "/" | ">>"));
                }
                both
            }
            "unary_expression" | "pointer_expression" | "update_expression" => node
                .child_by_field_name("argument")
                .map_or(Unknown, |n| self.value(n, depth)),
            "assignment_expression" => node
                .child_by_field_name("right")
                .map_or(Unknown, |n| self.value(n, depth)),
            "cast_expression" => node
                .child_by_field_name("value")
                .map_or(Unknown, |n| self.value(n, depth)),
            "parenthesized_expression"
            | "conditional_expression"
            | "comma_expression"
            | "initializer_list"
            | "argument_list"
            | "subscript_argument_list" => children(node),
            "call_expression" => self.call(node, depth),
            _ => Unknown,
        }
    }

    /// A quotient or remainder of something that differs: the threads of a workgroup can all have the same one.
    fn gathered(&self, node: Node<'t>, quotient: bool) -> Variance {
        let agrees = |setting: &Setting| {
            let shape = setting.shape?;
            let mut first = None;
            let mut same = true;
            for wave in 0..setting.waves()?.min(16) {
                let geometry = Geometry::Block { shape, wave };
                let value = self.cx.evaluator_in(self.f, setting, geometry).eval(node)?;
                for (lane, v) in value.values()?.iter().enumerate() {
                    if geometry.is_active(lane) {
                        same &= *first.get_or_insert(*v) == *v;
                    }
                }
            }
            Some(same)
        };
        let answers: Vec<Option<bool>> = self.settings.iter().map(agrees).collect();
        if answers.iter().all(|a| *a == Some(true)) && !answers.is_empty() {
            return Uniform;
        }
        // By something that is not known it may be the whole workgroup that is gathered.
        let right = node.child_by_field_name("right");
        let number = right.and_then(|r| {
            self.cx
                .model
                .eval(self.cx.text(r), &hipsmith_syntax::Scope::at(r.start_byte()))
        });
        if quotient && number.is_none() && !answers.contains(&Some(false)) {
            return Unknown;
        }
        Varies
    }

    fn call(&self, node: Node<'t>, depth: u32) -> Variance {
        let name = facts::callee_name(self.cx.source, node);
        let args = || {
            facts::arguments(node)
                .into_iter()
                .fold(Uniform, |v, a| v.join(self.value(a, depth)))
        };
        match name {
            "__syncthreads_or"
            | "__syncthreads_and"
            | "__syncthreads_count"
            | "size"
            | "num_threads"
            | "group_index"
            | "group_dim" => Uniform,
            "__lane_id" | "thread_rank" | "thread_index" => Varies,
            "get_local_id" => Varies,
            "get_group_id" | "get_local_size" => Uniform,
            "min" | "max" | "abs" | "fabsf" | "fabs" | "fminf" | "fmaxf" | "sqrtf" | "sqrt"
            | "__ldg" | "static_cast" | "reinterpret_cast" | "const_cast" | "int" | "float"
            | "unsigned" | "size_t" | "__mul24" | "__umul24" | "isnan" | "isinf" | "powf"
            | "expf" | "logf" | "floorf" | "ceilf" => args(),
            // What an atomic returns is another number in every thread.
            _ if name.starts_with("atomic") => Varies,
            _ => Unknown,
        }
    }

    fn identifier(&self, node: Node<'t>, depth: u32) -> Variance {
        let name = self.cx.text(node);
        if let Some(b) = self.f.bindings.resolve(name, node.start_byte()) {
            return self.binding(b, node, depth);
        }
        match name {
            "hipThreadIdx_x" | "hipThreadIdx_y" | "hipThreadIdx_z" => return Varies,
            "hipBlockIdx_x" | "hipBlockIdx_y" | "hipBlockIdx_z" | "hipBlockDim_x"
            | "hipBlockDim_y" | "hipBlockDim_z" | "hipGridDim_x" | "hipGridDim_y"
            | "hipGridDim_z" | "warpSize" => return Uniform,
            _ => {}
        }
        let here = node.start_byte();
        let known = self.cx.shared_names.contains(name)
            || self
                .cx
                .model
                .variable_at(name, here)
                .is_some_and(|v| v.scope.start == 0)
            || self
                .cx
                .model
                .eval(name, &hipsmith_syntax::Scope::at(here))
                .is_some();
        if known { Uniform } else { Unknown }
    }

    fn binding(&self, b: &Binding<'t>, at: Node<'t>, depth: u32) -> Variance {
        // LDS holds one value for the whole workgroup, whoever wrote it.
        if self
            .cx
            .model
            .shared
            .iter()
            .any(|s| s.name_range == b.name.byte_range())
        {
            return Uniform;
        }
        // A reference is the memory that it names, whoever writes there.
        if let Some(init) = b.init
            && b.name
                .parent()
                .is_some_and(|p| p.kind() == "reference_declarator")
        {
            return self.value(init, depth);
        }
        if b.escapes {
            return Unknown;
        }
        let reaching = reaching(self.f.body, b, at);
        let key = (
            b.name.id(),
            reaching.first().map_or(0, |w| w.id()) + reaching.len(),
        );
        if let Some(v) = self.memo.borrow().get(&key) {
            return *v;
        }
        // A value that feeds on itself is what else goes into it.
        self.memo.borrow_mut().insert(key, Uniform);
        let mut v = Uniform;
        let dominated = reaching
            .first()
            .is_some_and(|w| dominates(self.f.body, *w, at, b));
        if !dominated {
            v = match b.kind {
                BindingKind::Template => Uniform,
                BindingKind::Parameter => self.parameter(b),
                BindingKind::Local | BindingKind::Loop => match b.init {
                    Some(init) => self.value(init, depth),
                    // A local array or struct is filled where the bindings do not look.
                    None if b.compound || reaching.is_empty() => Unknown,
                    None => Uniform,
                },
            };
        }
        for w in reaching {
            if v == Varies {
                break;
            }
            if w.kind() == "assignment_expression"
                && let Some(right) = w.child_by_field_name("right")
            {
                v = v.join(self.value(right, depth));
            } else if w.kind() == "for_range_loop" {
                v = v.join(Unknown);
            }
            // Written by some threads only, or more often by some than by others.
            match guards(self.f.body, w) {
                Some(around) => {
                    for g in around {
                        if b.scope.start <= g.statement.start_byte()
                            && !within(g.statement, at)
                            && g.statement.id() != loop_of(b).map_or(0, |n| n.id())
                            && b.name.start_byte() < g.statement.start_byte()
                        {
                            v = v.join(self.value(g.condition, depth));
                        }
                    }
                }
                None => v = v.join(Unknown),
            }
        }
        self.memo.borrow_mut().insert(key, v);
        v
    }

    /// A kernel's parameter is the same for all threads; that of a device function is what its callers hand over.
    fn parameter(&self, b: &Binding<'t>) -> Variance {
        if self.f.place == Place::Kernel {
            return Uniform;
        }
        if self.calls >= CALLS {
            return Unknown;
        }
        let Some(position) = self
            .f
            .bindings
            .iter()
            .filter(|p| p.kind == BindingKind::Parameter)
            .position(|p| p.name.id() == b.name.id())
        else {
            return Unknown;
        };
        let mut v = None;
        for caller in self.cx.callers_of(self.index) {
            let Some(flow) = Flow::at(self.cx, *caller, self.calls + 1) else {
                return Unknown;
            };
            for call in flow.f.calls.iter().filter(|c| c.name == self.f.name) {
                let Some(arg) = call.args.get(position) else {
                    return Unknown;
                };
                let one = flow.of(*arg);
                v = Some(v.map_or(one, |v: Variance| v.join(one)));
            }
        }
        v.unwrap_or(Unknown)
    }
}

/// The `for` whose head declares the binding.
fn loop_of<'t>(b: &Binding<'t>) -> Option<Node<'t>> {
    if b.kind != BindingKind::Loop {
        return None;
    }
    let mut n = b.declaration.parent()?;
    for _ in 0..3 {
        if n.kind() == "for_statement" {
            return Some(n);
        }
        n = n.parent()?;
    }
    None
}

/// Whether `write` is a plain assignment that always runs before `at` and after the declaration.
fn dominates<'t>(body: Node<'t>, write: Node<'t>, at: Node<'t>, b: &Binding<'t>) -> bool {
    if write.kind() != "assignment_expression"
        || write.end_byte() > at.start_byte()
        || write
            .child_by_field_name("operator")
            .is_none_or(|o| o.kind() != "=")
    {
        return false;
    }
    let Some(parent) = write.parent() else {
        return false;
    };
    // The start of a `for`, or a statement of a block.
    let block = match parent.kind() {
        "for_statement" if parent.child_by_field_name("initializer") == Some(write) => parent,
        "comma_expression" | "expression_statement" => match parent.parent() {
            Some(p)
                if p.kind() == "compound_statement"
                    || p.kind() == "for_statement"
                        && p.child_by_field_name("initializer")
                            .is_some_and(|i| within(i, write)) =>
            {
                p
            }
            _ => return false,
        },
        _ => return false,
    };
    within(body, block) && within(block, at) && b.scope.contains(&write.start_byte())
}

/// The writes whose value `at` can see: from the last one that always runs before it, that one first.
fn reaching<'t>(body: Node<'t>, b: &Binding<'t>, at: Node<'t>) -> Vec<Node<'t>> {
    let last = b
        .writes
        .iter()
        .rev()
        .copied()
        .find(|w| dominates(body, *w, at, b));
    let Some(last) = last else {
        return b.writes.clone();
    };
    let loops: HashSet<usize> = {
        let mut out = HashSet::new();
        let mut n = at;
        while n.id() != body.id() {
            let Some(p) = n.parent() else { break };
            if matches!(
                p.kind(),
                "for_statement" | "while_statement" | "do_statement"
            ) && !within(p, last)
            {
                out.insert(p.id());
            }
            n = p;
        }
        out
    };
    let mut out = vec![last];
    for w in &b.writes {
        let between = w.start_byte() >= last.end_byte() && w.start_byte() < at.start_byte();
        let goes_round = w.start_byte() >= at.start_byte() && {
            let mut n = *w;
            let mut found = false;
            while n.id() != body.id() {
                let Some(p) = n.parent() else { break };
                found |= loops.contains(&p.id());
                n = p;
            }
            found
        };
        if between || goes_round {
            out.push(*w);
        }
    }
    out
}
