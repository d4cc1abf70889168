//! `barrier-in-divergent-flow`

use hipsmith_syntax::Node;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{self, Function, within};
use crate::rule::{Rule, Scope};
use crate::variance::{Flow, Guard, GuardKind, Variance, guards};

pub(super) static RULE: Rule = Rule {
    id: "barrier-in-divergent-flow",
    family: Family::S,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A barrier of the workgroup stands where not all of its threads come by.",
    docs: r#"
## What it does
Follows every `__syncthreads()`, `block.sync()` and call of a function of the file that holds one, and looks at what decides
whether a thread gets there: the conditions and loops around it, and `return`, `break` and `continue` before it. It reports
those that come from the thread's index, or from memory read at such an index.

*Error*: the lanes of the launch (or of a first wavefront, when no launch is in the file) were worked out, and some enter the
branch with the barrier while others do not. *Warning*: the condition differs between threads for some arguments (`i < n`),
or threads return before the barrier.

Silent are conditions that are the same for the whole workgroup (`blockIdx`, kernel arguments, constants, LDS read at one
index, `__syncthreads_or`), those of which nothing is known, workgroups of one wavefront, and loops that the launch gives
every thread the same number of rounds.

## Why it matters on 64 lanes
The programming model leaves it undefined. What gfx9 does: `s_barrier` counts wavefronts, not lanes. A wavefront of which
one lane arrives has arrived. A wavefront that skips the branch as a whole does not arrive: it meets the others at another
barrier, later or never, and LDS is read before it was written. A wavefront that has *ended* is no longer waited for, so
an early `return` usually gets through, as long as nobody needs what the returned lanes would have put into LDS. Both
depend on how threads fall into wavefronts: code that happened to work with 32 lanes need not with 64.

## Example that fires
```hip fires
__global__ void k(float* x, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = x[i];
  __syncthreads();
  x[i] = s[255 - threadIdx.x];
}
```

## Example that does not
```hip quiet
__global__ void k(float* x, int n, int rows) {
  __shared__ float s[256];
  if (blockIdx.x >= rows) return;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) x[i] = s[255 - threadIdx.x];
}
```

## Fix
Let every thread reach the barrier, and put the condition around the work instead: `if (i < n) { ... }` before and after it.
No fix is offered: what idle threads should put into LDS is for the author to say.

## Sources
HIP programming manual, `__syncthreads`; AMD "Vega" ISA, `S_BARRIER` (waves that have ended do not count); FBGEMM issue 5857
(early return before a barrier).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.may_have_barriers() {
        return;
    }
    for (index, f) in cx.subjects() {
        let barriers = cx.barriers(f);
        if barriers.is_empty() {
            continue;
        }
        let Some(flow) = Flow::new(cx, index) else {
            continue;
        };
        if flow.is_one_wave() {
            continue;
        }
        let mut said: Vec<usize> = Vec::new();
        for barrier in &barriers {
            inside(cx, f, &flow, *barrier, &mut said, out);
        }
        for exit in exits(f) {
            early(cx, f, &flow, exit, &barriers, &mut said, out);
        }
    }
}

/// Whether a guard lets some threads of a workgroup through and not others: surely, or for some arguments.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Divides {
    Surely,
    Maybe,
}

fn divides<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    flow: &Flow<'_, 't>,
    guard: &Guard<'t>,
) -> Option<Divides> {
    // The lanes first: what they decide needs no data flow.
    match flow.decided(guard.condition) {
        Some(true) if guard.kind == GuardKind::Branch => return Some(Divides::Surely),
        Some(false) => return None,
        _ => {}
    }
    if guard.kind == GuardKind::Loop
        && let Some(same) = flow.same_trips(guard)
    {
        return (!same).then_some(Divides::Surely);
    }
    if flow.of(guard.condition) != Variance::Varies || by_size_alone(cx, f, guard.condition) {
        return None;
    }
    if guard.kind == GuardKind::Loop && moves_along(cx, f, flow, guard.condition)
        || guard.kind == GuardKind::Branch && covered_exactly(cx, f, guard.condition)
    {
        return None;
    }
    Some(Divides::Maybe)
}

/// Whether a condition compares an index in the block with an argument that every launch also gives as the size of the
/// block: `if (threadIdx.x >= n)` in `k<<<grid, n>>>(x, n)`.
fn covered_exactly<'t>(cx: &Context<'t>, f: &Function<'t>, condition: Node<'t>) -> bool {
    let Some(c) = facts::binary(condition) else {
        return false;
    };
    let [left, right] = [c.left, c.right].map(|n| defined(f, cx, facts::bare(n)));
    let axis = |n: Node<'_>| {
        ["threadIdx.x", "threadIdx.y", "threadIdx.z"]
            .iter()
            .position(|t| cx.text(n) == *t)
    };
    let (axis, bound) = match (axis(left), axis(right)) {
        (Some(a), None) => (a, right),
        (None, Some(a)) => (a, left),
        _ => return false,
    };
    let Some(model) = cx
        .model
        .functions
        .iter()
        .position(|m| m.name_range == f.name_range)
    else {
        return false;
    };
    let Some(params) = cx.model.functions.get(model).map(|m| &m.params) else {
        return false;
    };
    let mut launches = cx.model.launches_of(model).peekable();
    launches.peek().is_some()
        && launches.all(|l| {
            let named = cx
                .model
                .variable_at(&l.block_expr.text, l.range.start)
                .and_then(|v| v.init.as_ref());
            let block = named.unwrap_or(&l.block_expr).text.as_str();
            let block = block.trim();
            let inner = block
                .strip_prefix("dim3")
                .unwrap_or(block)
                .trim()
                .trim_start_matches(['(', '{'])
                .trim_end_matches([')', '}']);
            let Some(size) = inner.split(',').nth(axis).map(str::trim) else {
                return false;
            };
            params
                .iter()
                .zip(&l.args)
                .any(|(p, a)| a.text.trim() == size && facts::mentions(cx.source, bound, &p.name))
        })
}

/// What a name that is written once stands for.
fn defined<'t>(f: &Function<'t>, cx: &Context<'t>, node: Node<'t>) -> Node<'t> {
    if node.kind() != "identifier" {
        return node;
    }
    match f.bindings.resolve(cx.text(node), node.start_byte()) {
        Some(b) if b.writes.is_empty() && !b.escapes => b.init.map_or(node, facts::bare),
        _ => node,
    }
}

/// Whether both sides of a loop's condition come from the thread's index by arithmetic alone, as in
/// `for (t = a + tid; t < b + tid; ...)`: what differs may cancel.
fn moves_along<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    flow: &Flow<'_, 't>,
    condition: Node<'t>,
) -> bool {
    let Some(c) = facts::binary(condition) else {
        return false;
    };
    [c.left, c.right].into_iter().all(|side| {
        let mut arithmetic = true;
        facts::walk(side, &mut |n| {
            arithmetic &= !matches!(n.kind(), "subscript_expression" | "call_expression");
            if n.kind() == "identifier"
                && let Some(init) = f
                    .bindings
                    .resolve(cx.text(n), n.start_byte())
                    .and_then(|b| b.init)
            {
                facts::walk(init, &mut |m| {
                    arithmetic &= !matches!(m.kind(), "subscript_expression" | "call_expression");
                    arithmetic
                });
            }
            arithmetic
        });
        arithmetic && flow.of(side) == Variance::Varies
    })
}

/// Whether a condition compares the thread's index only with sizes fixed at compile time or the size of the block: such a
/// comparison is often true of all threads that are launched, and whether it is cannot be seen here.
fn by_size_alone<'t>(cx: &Context<'t>, f: &Function<'t>, condition: Node<'t>) -> bool {
    let (mut free, mut thread) = (true, false);
    let (mut argument, mut template) = (false, false);
    let mut todo = vec![condition];
    let mut seen = Vec::new();
    while let Some(node) = todo.pop() {
        facts::walk(node, &mut |n| {
            match n.kind() {
                "subscript_expression" | "call_expression" => free = false,
                "field_expression" => {
                    let object = n.child_by_field_name("argument").map_or("", |o| cx.text(o));
                    free &= matches!(object, "threadIdx" | "blockDim");
                    thread |= object == "threadIdx";
                    return false;
                }
                "identifier" => {
                    let name = cx.text(n);
                    if let Some(b) = f.bindings.resolve(name, n.start_byte()) {
                        use hipsmith_syntax::lanes::BindingKind::{Parameter, Template};
                        match b.kind {
                            Template => template = true,
                            Parameter => argument = true,
                            _ if seen.contains(&b.name.id()) => {}
                            _ => {
                                seen.push(b.name.id());
                                todo.extend(b.init);
                                todo.extend(
                                    b.writes
                                        .iter()
                                        .filter_map(|w| w.child_by_field_name("right")),
                                );
                            }
                        }
                    } else {
                        free &= !name.starts_with("hipBlockIdx");
                        thread |= name.starts_with("hipThreadIdx");
                    }
                }
                _ => {}
            }
            true
        });
    }
    // `N == 0 ? n : N`: an argument that stands in for a size of the template.
    free && thread && (!argument || template)
}

fn inside<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    flow: &Flow<'_, 't>,
    barrier: Node<'t>,
    said: &mut Vec<usize>,
    out: &mut Vec<Diagnostic>,
) {
    let Some(around) = guards(f.body, barrier) else {
        return;
    };
    for guard in around {
        let Some(how) = divides(cx, f, flow, &guard) else {
            continue;
        };
        // One finding for a condition, at its first barrier.
        if said.contains(&guard.statement.id()) {
            return;
        }
        said.push(guard.statement.id());
        let condition = short(cx, guard.condition);
        let name = facts::callee_name(cx.source, barrier);
        let what = if name.contains("sync") || name.contains("barrier") {
            format!("`{name}()`")
        } else {
            format!("the barrier in `{name}`")
        };
        let (severity, why) = match (how, guard.kind) {
            (Divides::Surely, GuardKind::Branch) => (
                Severity::Error,
                format!("`{condition}` holds for some threads of the workgroup and not for others"),
            ),
            (Divides::Surely, GuardKind::Loop) => (
                Severity::Error,
                format!(
                    "the loop over `{condition}` runs more often for some threads of the workgroup than for others"
                ),
            ),
            (Divides::Maybe, GuardKind::Branch) => (
                Severity::Warning,
                format!(
                    "`{condition}` can hold for some threads of the workgroup and not for others"
                ),
            ),
            (Divides::Maybe, GuardKind::Loop) => (
                Severity::Warning,
                format!(
                    "the loop over `{condition}` can run more often for some threads of the workgroup than for others"
                ),
            ),
        };
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity,
            range: barrier.byte_range(),
            message: format!(
                "{what} is not reached by all threads: {why}; on {} a wavefront that skips it as a whole meets the others at a different barrier or none. Take the barrier out of the {} and guard the work instead",
                cx.target.name,
                match guard.kind {
                    GuardKind::Branch => "branch",
                    GuardKind::Loop => "loop, or give all threads the same number of rounds,",
                }
            ),
            related: vec![(
                guard.condition.byte_range(),
                "the condition that divides the threads".to_owned(),
            )],
            fix: None,
        });
        return;
    }
}

/// Statements that leave a function or a loop before its end.
fn exits<'t>(f: &Function<'t>) -> Vec<Node<'t>> {
    let mut out = Vec::new();
    facts::walk(f.body, &mut |n| {
        match n.kind() {
            "return_statement" | "break_statement" | "continue_statement" => out.push(n),
            "lambda_expression" => return false,
            _ => {}
        }
        true
    });
    out
}

const LOOPS: [&str; 4] = [
    "for_statement",
    "while_statement",
    "do_statement",
    "for_range_loop",
];

fn early<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    flow: &Flow<'_, 't>,
    exit: Node<'t>,
    barriers: &[Node<'t>],
    said: &mut Vec<usize>,
    out: &mut Vec<Diagnostic>,
) {
    // What the exit leaves: the function, or the loop around it.
    let left = match exit.kind() {
        "return_statement" => f.body,
        _ => {
            let mut kinds = LOOPS.to_vec();
            if exit.kind() == "break_statement" {
                kinds.push("switch_statement");
            }
            match facts::ancestor(exit, &kinds, f.body) {
                Some(l) if l.kind() != "switch_statement" => l,
                _ => return,
            }
        }
    };
    let Some(around) = guards(f.body, exit) else {
        return;
    };
    let missed = barriers.iter().copied().find(|b| {
        within(left, *b)
            && (b.start_byte() > exit.end_byte()
                || exit.kind() != "continue_statement" && in_one_loop(left, exit, *b))
            // A loop that is left for good does not lead to a barrier in its other branch.
            && !other_arm(f.body, exit, *b)
    });
    let Some(missed) = missed else { return };
    if ends_anyway(left, exit, missed) {
        return;
    }
    for guard in around
        .iter()
        .filter(|g| within(left, g.statement) && !within(g.statement, missed))
    {
        if guard.kind != GuardKind::Branch || divides(cx, f, flow, guard).is_none() {
            continue;
        }
        if said.contains(&guard.statement.id()) {
            return;
        }
        said.push(guard.statement.id());
        let condition = short(cx, guard.condition);
        let (word, when) = match exit.kind() {
            "return_statement" => ("return", "before"),
            "break_statement" => ("leave the loop", "before"),
            _ => ("skip the rest of the round", "before"),
        };
        let range = if guard.statement.kind() == "if_statement"
            && cx.text(guard.statement).lines().count() <= 4
        {
            guard.statement.byte_range()
        } else {
            exit.byte_range()
        };
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Warning,
            range,
            message: format!(
                "threads for which `{condition}` decides so {word} {when} a barrier that the others of the workgroup wait at: undefined by the programming model. {} waits only for wavefronts that have not ended, so it {}; keep all threads to the barrier and guard the work instead",
                cx.target.name,
                if exit.kind() == "return_statement" {
                    "usually gets through, but what the returned lanes should have left in LDS is missing"
                } else {
                    "pairs the barriers of different rounds when a whole wavefront goes"
                }
            ),
            related: vec![(missed.byte_range(), "the barrier".to_owned())],
            fix: None,
        });
        return;
    }
}

/// Whether a loop inside `limit` holds both.
fn in_one_loop<'t>(limit: Node<'t>, a: Node<'t>, b: Node<'t>) -> bool {
    if LOOPS.contains(&limit.kind()) && within(limit, b) {
        return true;
    }
    let mut n = a;
    while n.id() != limit.id() {
        let Some(p) = n.parent() else { return false };
        if LOOPS.contains(&p.kind()) && within(p, b) {
            return true;
        }
        n = p;
    }
    false
}

/// Whether all threads that come to the block around the exit leave at its end anyway: then the block's own exit tells.
fn ends_anyway<'t>(limit: Node<'t>, exit: Node<'t>, barrier: Node<'t>) -> bool {
    let mut n = exit;
    while n.id() != limit.id() {
        let Some(p) = n.parent() else { return false };
        if within(p, barrier) {
            return false;
        }
        if p.kind() == "compound_statement"
            && p.named_children().last().is_some_and(|last| {
                last.id() != n.id()
                    && matches!(
                        last.kind(),
                        "return_statement" | "break_statement" | "continue_statement"
                    )
            })
        {
            return true;
        }
        n = p;
    }
    false
}

/// Whether the two stand in different branches of one `if`, so that no thread comes from one to the other.
fn other_arm<'t>(limit: Node<'t>, exit: Node<'t>, barrier: Node<'t>) -> bool {
    let mut n = exit;
    while n.id() != limit.id() {
        let Some(p) = n.parent() else { return false };
        if p.kind() == "if_statement"
            && within(p, barrier)
            && !within(n, barrier)
            && !in_one_loop(p, exit, barrier)
        {
            return true;
        }
        n = p;
    }
    false
}

fn short(cx: &Context<'_>, node: Node<'_>) -> String {
    let text: Vec<&str> = cx.text(node).split_whitespace().collect();
    let text = text.join(" ");
    if text.chars().count() <= 60 {
        return text;
    }
    let mut out: String = text.chars().take(57).collect();
    out.push_str("...");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn branches() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, const int* flag, int n, int rows) {
  __shared__ int s[256];
  __shared__ int changed;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 32) __syncthreads();
                      //^ error: holds for some threads
  if (i < n) {
    s[threadIdx.x] = x[i];
    __syncthreads();
  //^ warning: `i < n` can hold for some
    __syncthreads();
  }
  if (flag[i]) __syncthreads();
             //^ warning: can hold
  if (flag[blockIdx.x]) __syncthreads();
  if (n > 3 && rows) { __syncthreads(); }
  if (changed) __syncthreads();
  int& alias = s[1];
  if (i == 0) { alias = 3; changed = 1; }
  if (alias) __syncthreads();
  if (s[0] > 1) __syncthreads();
  if (__syncthreads_or(flag[i])) __syncthreads();
  bool on = false;
  if (i < n) on = true;
  if (on) __syncthreads();
        //^ warning: can hold
  int t = threadIdx.x;
  t = n;
  if (t > 3) __syncthreads();
}
",
        );
    }

    #[test]
    fn loops() {
        expect(
            RULE.id,
            "
template <int B> __global__ void k(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    __syncthreads();
  //^ warning: the loop over `i < n` can run more often
  }
  for (int b = 0; b < n; b += blockDim.x) __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 256) __syncthreads();
  for (int i = threadIdx.x; i < 1000; i += 256) __syncthreads();
                                              //^ error: runs more often
  for (int i = threadIdx.x; i < 1024; i += B) __syncthreads();
  for (int o = 128; o > 0; o >>= 1) {
    if (threadIdx.x < o) x[threadIdx.x] += x[threadIdx.x + o];
    __syncthreads();
  }
  for (int t = n + threadIdx.x; t < 2 * n + threadIdx.x; t += n) __syncthreads();
  int j = threadIdx.x;
  for (j = 2; j < n; j *= 2) __syncthreads();
  while (true) {
    if (x[blockIdx.x] > 0) break;
    __syncthreads();
    if (x[threadIdx.x] > 0) break;
    //~ warning: leave the loop
  }
}
void go(float* x, int n) { k<256><<<4, 256>>>(x, n); }
",
        );
    }

    #[test]
    fn early_exits() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, int n, int rows) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
  //~ warning: threads for which `i >= n` decides so return
    return;
  if (blockIdx.x >= rows) return;
  __syncthreads();
  if (i > 3) return;
}
__global__ void m(float* x, int n) {
  if (threadIdx.x >= 256) return;
  if (threadIdx.x == 0) { x[0] = 1; return; }
  //~ warning: return
  __syncthreads();
}
__global__ void e(float* x, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  if (x == nullptr) {
    if (x[i] > 0) return;
    x[i] = 0;
    return;
  }
  __syncthreads();
}
void go(float* x, int n) { e<<<4, n>>>(x, n); }
__global__ void o(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) { x[i] = 0; return; } 
  x[i] = 1;
}
void go(float* x) { m<<<1, 256>>>(x, 3); }
",
        );
    }

    #[test]
    fn helpers_and_groups() {
        expect(
            RULE.id,
            "
__device__ float sum(float v) { __shared__ float s[4]; s[threadIdx.x / 64] = v; __syncthreads(); return s[0]; }
__device__ void meet(bool p) { if (p) __syncthreads(); }
                                    //^ warning: can hold
__device__ void agree(bool p) { if (p) __syncthreads(); }
__global__ void k(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = sum(x[i]);
                  //^ warning: the barrier in `sum`
  auto block = cooperative_groups::this_thread_block();
  auto tile = cooperative_groups::tiled_partition<32>(block);
  if (i < n) block.sync();
           //^ warning: `sync()`
  if (i < n) tile.sync();
  meet(i < n);
  agree(n > 3);
}
",
        );
    }

    #[test]
    fn one_wavefront_needs_no_barrier() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, int n) {
  if (threadIdx.x < 32) __syncthreads();
}
__global__ void l(float* x, int n) {
  if (threadIdx.x < 64) __syncthreads();
                      //^ error: holds for some
}
void go(float* x) { k<<<1, 64>>>(x, 3); l<<<1, 128>>>(x, 3); }
",
        );
    }
}
