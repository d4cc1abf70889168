//! Which wave size a piece of code was written for: lane and warp ids, shuffle schemes, ballots.
//!
//! Judged by what the code computes, not by the number 32: an id is a thread index cut by a size, a scheme is the
//! set of distances that its shuffles take.

use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::{BindingKind, Evaluator, Lanes, Uniform};

use crate::context::Context;
use crate::facts::{self, Call, Function, bare, text};

/// A lane or warp id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Id {
    /// `index % size`, else `index / size`.
    pub lane: bool,
    /// Lanes of the wave that it supposes.
    pub size: i64,
    /// The size is what the hardware says (`warpSize`, `__lane_id()`), not a number in the text.
    pub hardware: bool,
    /// Where the id is computed.
    pub range: Range<usize>,
}

/// Ways of a shuffle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From an absolute lane: `__shfl`.
    Index,
    /// `__shfl_down`
    Down,
    /// `__shfl_up`
    Up,
    /// `__shfl_xor`
    Xor,
}

/// A shuffle call.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle<'t> {
    /// How the source lane is given.
    pub way: Way,
    /// The whole call.
    pub node: Node<'t>,
    /// What is shuffled.
    pub value: Node<'t>,
    /// Source lane, distance or lane mask.
    pub lane: Node<'t>,
    /// The width, when it is given.
    pub width: Option<Node<'t>>,
}

/// Read a call as a shuffle.
pub fn shuffle<'t>(call: &Call<'t>) -> Option<Shuffle<'t>> {
    let name = call.name.as_str();
    let (name, sync) = match name.strip_suffix("_sync") {
        Some(plain) => (plain, 1),
        None => (name, 0),
    };
    let way = match name {
        "__shfl" | "WARP_SHFL" => Way::Index,
        "__shfl_down" | "WARP_SHFL_DOWN" => Way::Down,
        "__shfl_up" | "WARP_SHFL_UP" => Way::Up,
        "__shfl_xor" | "WARP_SHFL_XOR" => Way::Xor,
        _ => return None,
    };
    let args = call.args.get(sync..)?;
    (2..=3).contains(&args.len()).then(|| Shuffle {
        way,
        node: call.node,
        value: args[0],
        lane: args[1],
        width: args.get(2).copied(),
    })
}

/// A series of shuffles that together span a group of lanes: a reduction or a scan.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// Lanes of the group: twice the longest step.
    pub size: i64,
    /// The size comes from `warpSize`.
    pub hardware: bool,
    /// The width argument keeps the group to itself.
    pub isolated: bool,
    /// How.
    pub way: Way,
    /// Variable that is reduced.
    pub variable: Option<String>,
    /// The first shuffle, or the call of the function that shuffles.
    pub range: Range<usize>,
    /// End of the scheme: its result is there from here on.
    pub end: usize,
    /// The shuffles are in a function that is called.
    pub from_helper: bool,
}

/// The first identifier of an expression like `x`, `x.y`, `x[i]`.
pub fn root_variable<'s>(source: &'s str, node: Node<'_>) -> Option<&'s str> {
    let mut node = bare(node);
    for _ in 0..8 {
        match node.kind() {
            "identifier" => return Some(text(source, node)),
            "field_expression" | "subscript_expression" | "pointer_expression" => {
                node = bare(node.child_by_field_name("argument")?);
            }
            _ => return None,
        }
    }
    None
}

/// Whether the thread index in `lanes` runs through consecutive threads.
pub(crate) fn is_thread_index(lanes: &Lanes) -> bool {
    let v = lanes.lanes();
    v.windows(2).all(|w| w[1] - w[0] == 1)
        && v[0] == 0
        && match lanes.shared() {
            Uniform::Zero => true,
            Uniform::Unknown { multiple, .. } => multiple % 64 == 0,
        }
}

impl<'t> Context<'t> {
    /// Whether the builtin `warpSize` (or the compiler's wave size macro) decides the value of `node`.
    pub fn asks_hardware(&self, f: &Function<'t>, node: Node<'_>) -> bool {
        self.asks_hardware_at(f, node, 0)
    }

    /// As [`Context::asks_hardware`]; `depth` counts the definitions followed so far, of which there may be many paths.
    fn asks_hardware_at(&self, f: &Function<'t>, node: Node<'_>, depth: u32) -> bool {
        let mut found = false;
        facts::walk(node, &mut |n| {
            if n.kind() == "identifier" {
                let name = text(self.source, n);
                let bound = f.bindings.resolve(name, n.start_byte());
                match bound {
                    Some(b)
                        if b.kind != BindingKind::Loop && b.writes.is_empty() && !b.compound =>
                    {
                        if let Some(init) = b.init
                            && !facts::within(init, n)
                            && init.end_byte() <= n.start_byte()
                            && depth < 3
                            && self.asks_hardware_at(f, init, depth + 1)
                        {
                            found = true;
                        }
                    }
                    Some(_) => {}
                    None => {
                        if name == "__AMDGCN_WAVEFRONT_SIZE"
                            || name == "__AMDGCN_WAVEFRONT_SIZE__"
                            || (name == "warpSize" && !self.redefines("warpSize"))
                        {
                            found = true;
                        }
                    }
                }
            }
            !found
        });
        found
    }

    /// Read `node` as a lane or warp id, through variables that are assigned once and helper functions.
    pub fn id_of(&self, f: &Function<'t>, eval: &Evaluator<'_, 't>, node: Node<'t>) -> Option<Id> {
        self.id_at(f, eval, node, 0)
    }

    fn id_at(
        &self,
        f: &Function<'t>,
        eval: &Evaluator<'_, 't>,
        node: Node<'t>,
        depth: u32,
    ) -> Option<Id> {
        if depth > 6 {
            return None;
        }
        let node = bare(node);
        match node.kind() {
            "identifier" => {
                let b = f
                    .bindings
                    .resolve(text(self.source, node), node.start_byte())?;
                if !b.writes.is_empty() || b.compound || b.kind != BindingKind::Local {
                    return None;
                }
                let init = b.init?;
                // Ids are asked for again and again, always for a wide block.
                let key = b.name.id();
                if let Some(known) = self.ids.borrow().get(&key) {
                    return known.clone();
                }
                let id = self.id_at(f, eval, init, depth + 1);
                self.ids.borrow_mut().insert(key, id.clone());
                id
            }
            "binary_expression" => {
                let facts::Binary {
                    operator,
                    left,
                    right,
                    ..
                } = facts::binary(node)?;
                // The operator first: evaluating is the costly part.
                if !matches!(operator, "%" | "&" | "/" | ">>") {
                    return None;
                }
                let n = eval.constant(right)?;
                let (lane, size) = match operator {
                    "%" => (true, n),
                    "&" => (true, n + 1),
                    "/" => (false, n),
                    ">>" if (1..=10).contains(&n) => (false, 1 << n),
                    _ => return None,
                };
                if !(2..=1024).contains(&size) || size & (size - 1) != 0 {
                    return None;
                }
                is_thread_index(&eval.eval(left)?).then(|| Id {
                    lane,
                    size,
                    hardware: self.asks_hardware(f, right),
                    range: node.byte_range(),
                })
            }
            "call_expression" => {
                let name = facts::callee_name(self.source, node);
                if !facts::arguments(node).is_empty() {
                    return None;
                }
                if name == "__lane_id" {
                    return Some(Id {
                        lane: true,
                        size: 64,
                        hardware: true,
                        range: node.byte_range(),
                    });
                }
                // A helper: `int lane() { return threadIdx.x % 32; }`
                let g = self.only_function(name)?;
                let [only] = g.returns[..] else { return None };
                let eval = self.wide(g);
                let id = self.id_at(g, &eval, only.named_child(0)?, depth + 1)?;
                Some(Id {
                    range: node.byte_range(),
                    ..id
                })
            }
            _ => None,
        }
    }

    /// The shuffle schemes of a function, its own and those of warp-level helpers it calls, in text order.
    pub fn schemes(&self, f: &Function<'t>) -> Vec<Scheme> {
        self.schemes_at(f, 0)
    }

    fn schemes_at(&self, f: &Function<'t>, depth: u32) -> Vec<Scheme> {
        let eval = self.wide(f);
        let mut out: Vec<Scheme> = Vec::new();
        // Unrolled schemes: the steps collected so far, by block, variable and way.
        struct Open {
            block: usize,
            variable: Option<String>,
            way: Way,
            steps: Vec<i64>,
            width: Option<i64>,
            hardware: bool,
            first: Range<usize>,
            end: usize,
        }
        let mut open: Vec<Open> = Vec::new();
        // Whether some shuffle reaches over to the other 32 lanes outside a whole 64-lane scheme.
        let mut crosses = false;
        for call in &f.calls {
            if let Some(s) = shuffle(call) {
                if s.way == Way::Index {
                    crosses |= s.width.is_none() && eval.constant(s.lane).is_some_and(|n| n >= 32);
                    continue;
                }
                let variable = root_variable(self.source, s.value).map(str::to_owned);
                let width = s.width.and_then(|w| eval.constant(w));
                if s.width.is_some() && width.is_none() {
                    continue;
                }
                if let Some(step) = eval.constant(s.lane) {
                    let block = facts::ancestor(s.node, &["compound_statement"], f.node)
                        .map_or(0, |b| b.id());
                    let hardware = self.asks_hardware(f, s.lane);
                    let known = open.iter_mut().find(|o| {
                        o.block == block
                            && o.variable == variable
                            && o.way == s.way
                            && o.width == width
                    });
                    match known {
                        Some(o) => {
                            o.steps.push(step);
                            o.hardware |= hardware;
                            o.end = s.node.end_byte();
                        }
                        None => open.push(Open {
                            block,
                            variable,
                            way: s.way,
                            steps: vec![step],
                            width,
                            hardware,
                            first: s.node.byte_range(),
                            end: s.node.end_byte(),
                        }),
                    }
                    continue;
                }
                let lane = bare(s.lane);
                if lane.kind() != "identifier" {
                    continue;
                }
                let Some(b) = f
                    .bindings
                    .resolve(text(self.source, lane), lane.start_byte())
                else {
                    continue;
                };
                if b.kind != BindingKind::Loop {
                    continue;
                }
                let steps = eval.iterations(b, 12);
                let head = b.declaration.parent();
                let hardware = head.is_some_and(|h| {
                    [b.init, h.child_by_field_name("condition")]
                        .into_iter()
                        .flatten()
                        .any(|n| self.asks_hardware(f, n))
                });
                let end = head.map_or(s.node.end_byte(), |h| h.end_byte());
                if let Some(scheme) = close(
                    &steps,
                    s.way,
                    width,
                    hardware,
                    variable,
                    s.node.byte_range(),
                    end,
                ) {
                    out.push(scheme);
                }
            } else if depth < 4
                && let Some(g) = self.only_function(&call.name)
                && g.node.id() != f.node.id()
                && let Some(inner) = self.warp_helper(g, depth + 1)
            {
                let variable = self.result_variable(call.node);
                out.push(Scheme {
                    variable,
                    range: call.node.byte_range(),
                    end: call.node.end_byte(),
                    from_helper: true,
                    ..inner
                });
            }
        }
        for o in open {
            let far = o.width.is_none_or(|w| w > 32) && o.steps.iter().any(|step| *step >= 32);
            match close(
                &o.steps, o.way, o.width, o.hardware, o.variable, o.first, o.end,
            ) {
                Some(scheme) => {
                    crosses |= far && scheme.size == 32;
                    out.push(scheme);
                }
                None => crosses |= far,
            }
        }
        if crosses {
            // Five steps in a loop and the sixth apart are one 64-lane scheme: nothing is certain about 32 lanes here.
            out.retain(|s| s.size != 32 || s.isolated);
        }
        out.sort_by_key(|s| s.range.start);
        out
    }

    /// The one scheme of a function that works within a wavefront: no LDS, no barrier.
    fn warp_helper(&self, g: &Function<'t>, depth: u32) -> Option<Scheme> {
        if g.calls
            .iter()
            .any(|c| c.name == "__syncthreads" || shuffle_by_index(c))
        {
            return None;
        }
        let schemes = self.schemes_at(g, depth);
        let first = schemes.first()?;
        schemes
            .iter()
            .all(|s| {
                s.size == first.size && s.hardware == first.hardware && s.isolated == first.isolated
            })
            .then(|| first.clone())
    }

    /// The variable that takes the value of the expression around `node`.
    pub fn result_variable(&self, node: Node<'t>) -> Option<String> {
        let mut n = node;
        for _ in 0..12 {
            n = n.parent()?;
            match n.kind() {
                "init_declarator" => {
                    return root_variable(self.source, n.child_by_field_name("declarator")?)
                        .map(str::to_owned);
                }
                "assignment_expression" => {
                    return root_variable(self.source, n.child_by_field_name("left")?)
                        .map(str::to_owned);
                }
                "binary_expression"
                | "parenthesized_expression"
                | "cast_expression"
                | "conditional_expression" => {}
                _ => return None,
            }
        }
        None
    }

    /// Whether the upper half of every wavefront is kept from `node` by a condition around it or an early return
    /// before it: `if (threadIdx.x < 32)`.
    pub fn lower_half_only(
        &self,
        f: &Function<'t>,
        eval: &Evaluator<'_, 't>,
        node: Node<'t>,
    ) -> bool {
        let mut n = node;
        while n.id() != f.body.id() {
            let Some(parent) = n.parent() else {
                return false;
            };
            let kept = match parent.kind() {
                "if_statement" | "conditional_expression" => {
                    let condition = parent.child_by_field_name("condition");
                    let branch = |name: &str| parent.child_by_field_name(name) == Some(n);
                    condition.is_some_and(|c| {
                        branch("consequence") && keeps_upper_half(eval, c, true)
                            || branch("alternative") && keeps_upper_half(eval, c, false)
                    })
                }
                "binary_expression" => {
                    let side = parent.child_by_field_name("right") == Some(n);
                    let left = parent.child_by_field_name("left");
                    let operator = parent.child_by_field_name("operator").map(|o| o.kind());
                    side && operator == Some("&&")
                        && left.is_some_and(|l| keeps_upper_half(eval, l, true))
                }
                // `if (threadIdx.x >= 32) return;` earlier in the same block.
                "compound_statement" => parent
                    .named_children()
                    .take_while(|c| c.start_byte() < n.start_byte())
                    .any(|c| {
                        c.kind() == "if_statement"
                            && c.child_by_field_name("consequence").is_some_and(leaves)
                            && c.child_by_field_name("condition")
                                .is_some_and(|c| keeps_upper_half(eval, c, false))
                    }),
                _ => false,
            };
            if kept {
                return true;
            }
            n = parent;
        }
        false
    }

    /// Whether the code at `node` cannot run on 64 lanes: it stands in the branch for a wave size of 32.
    pub fn only_on_32(&self, f: &Function<'t>, node: Node<'t>) -> bool {
        let eval = self.wide(f);
        let mut n = node;
        while n.id() != f.node.id() {
            let Some(parent) = n.parent() else {
                return false;
            };
            if parent.kind() == "if_statement" {
                let condition = parent.child_by_field_name("condition");
                let then = parent.child_by_field_name("consequence");
                let otherwise = parent.child_by_field_name("alternative");
                if let Some(c) = condition {
                    let inside =
                        |branch: Option<Node<'_>>| branch.is_some_and(|b| facts::within(b, node));
                    let known = c
                        .child_by_field_name("value")
                        .or_else(|| c.named_child(0))
                        .and_then(|v| eval.constant(v));
                    if known == Some(0) && inside(then)
                        || known.is_some_and(|k| k != 0) && inside(otherwise)
                    {
                        return true;
                    }
                    let condition = text(self.source, c);
                    if inside(then) && says_32(condition) || inside(otherwise) && says_64(condition)
                    {
                        return true;
                    }
                }
            }
            n = parent;
        }
        false
    }
}

/// Whether a statement is or ends with `return`.
fn leaves(node: Node<'_>) -> bool {
    match node.kind() {
        "return_statement" => true,
        "compound_statement" => node
            .named_children()
            .filter(|c| c.kind() != "comment")
            .last()
            .is_some_and(|c| c.kind() == "return_statement"),
        _ => false,
    }
}

/// Whether lanes 32 to 63 of every wavefront fail a condition (`wanted`), or all meet it (not `wanted`).
fn keeps_upper_half<'t>(eval: &Evaluator<'_, 't>, condition: Node<'t>, wanted: bool) -> bool {
    let mut node = condition
        .child_by_field_name("value")
        .filter(|_| condition.kind() == "condition_clause")
        .unwrap_or(condition);
    node = facts::unparenthesized(node);
    if node.kind() == "unary_expression" {
        let not = node
            .child_by_field_name("operator")
            .is_some_and(|o| o.kind() == "!");
        let Some(argument) = node.child_by_field_name("argument").filter(|_| not) else {
            return false;
        };
        // `!lane`: a number other than zero is true.
        return keeps_upper_half(eval, argument, !wanted)
            || wanted && least_of_upper_half(eval, argument).is_some_and(|v| v > 0);
    }
    let Some(b) = facts::binary(node) else {
        return false;
    };
    match (b.operator, wanted) {
        ("&&", true) | ("||", false) => {
            return keeps_upper_half(eval, b.left, wanted)
                || keeps_upper_half(eval, b.right, wanted);
        }
        ("&&", false) | ("||", true) => {
            return keeps_upper_half(eval, b.left, wanted)
                && keeps_upper_half(eval, b.right, wanted);
        }
        _ => {}
    }
    let (id, bound, operator) = match (eval.constant(b.right), eval.constant(b.left)) {
        (Some(c), _) => (b.left, c, b.operator),
        (_, Some(c)) => {
            let turned = match b.operator {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                same => same,
            };
            (b.right, c, turned)
        }
        _ => return false,
    };
    let Some(least) = least_of_upper_half(eval, id) else {
        return false;
    };
    match (operator, wanted) {
        ("<", true) | (">=", false) => least >= bound,
        ("<=", true) | (">", false) | ("==", true) | ("!=", false) => least > bound,
        _ => false,
    }
}

/// The smallest value that an expression can have in lanes 32 to 63.
fn least_of_upper_half(eval: &Evaluator<'_, '_>, node: Node<'_>) -> Option<i64> {
    let lanes = eval.eval(node)?;
    match lanes.shared() {
        Uniform::Zero
        | Uniform::Unknown {
            nonnegative: true, ..
        } => lanes.lanes().iter().skip(32).min().copied(),
        Uniform::Unknown { .. } => None,
    }
}

/// Whether a condition says that the wave has 32 lanes.
pub(crate) fn says_32(condition: &str) -> bool {
    compares_wave(condition, &["== 32", "==32", "<= 32", "<=32"])
}

/// Whether a condition says that the wave has more.
pub(crate) fn says_64(condition: &str) -> bool {
    compares_wave(
        condition,
        &["== 64", "==64", "> 32", ">32", "!= 32", "!=32"],
    )
}

/// `warpSize == 32`, `WFSIZE <= 32`: one of `comparisons` with something named after the wave.
fn compares_wave(condition: &str, comparisons: &[&str]) -> bool {
    let lower = condition.to_ascii_lowercase();
    let names = [
        "warpsize",
        "warp_size",
        "wavesize",
        "wave_size",
        "wfsize",
        "wavefront",
        "warp_threads",
    ];
    names.iter().any(|n| lower.contains(n)) && comparisons.iter().any(|c| lower.contains(c))
}

fn shuffle_by_index(call: &Call<'_>) -> bool {
    shuffle(call).is_some_and(|s| s.way == Way::Index)
}

fn close(
    steps: &[i64],
    way: Way,
    width: Option<i64>,
    hardware: bool,
    variable: Option<String>,
    range: Range<usize>,
    end: usize,
) -> Option<Scheme> {
    let longest = *steps.iter().max()?;
    if !(2..=32).contains(&longest) || longest & (longest - 1) != 0 {
        return None;
    }
    let mut step = 1;
    while step < longest {
        if !steps.contains(&step) {
            return None;
        }
        step *= 2;
    }
    let size = longest * 2;
    Some(Scheme {
        size,
        hardware,
        isolated: width.is_some_and(|w| w == size && w < 64),
        way,
        variable,
        range,
        end,
        from_helper: false,
    })
}
