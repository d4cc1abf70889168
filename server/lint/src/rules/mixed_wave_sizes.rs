//! `mixed-wave-sizes`

use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::Evaluator;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, bare, binary, mentions, unparenthesized, walk, within};
use crate::rule::{Rule, Scope};
use crate::waves::{Id, Scheme, Way, is_thread_index, root_variable, shuffle};

pub(super) static RULE: Rule = Rule {
    id: "mixed-wave-sizes",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "Two wave sizes meet in one data flow: lane or warp ids of 32 lanes and a reduction over 64, or the reverse.",
    docs: r#"
## What it does
Follows a value from a warp reduction to the store of its leader lane, and compares the sizes on the way: the lanes
that the reduction spans (the longest shuffle step), the lane id in `if (lane == 0)`, and the warp id that chooses the
slot. Reports a 64-lane reduction with ids of 32, a 32-lane reduction with ids of 64, a lane id of one size with a warp
id of the other, a scan of 32 steps guarded by a lane id of 64, and a warp id of 32 multiplied by `warpSize`. Also slots
counted in another size than they are written in (`blockDim.x / 32`), a loop from a lane or warp id in steps of the other
size, tiles of `warp * 32 + lane` with lanes up to 63, a 64-lane reduction in blocks of 32 x n threads, rocWMMA fragments
dealt out to waves of 32, and rows of a shared array that are cleared by warp but used by data.

Code in which all sizes are 32 is right on 64 lanes and not reported here.

## Why it matters on 64 lanes
Where a warp has 32 lanes, `warpSize`, `32`, `tid / 32` and `tid & 31` all agree. On 64 lanes `warpSize` becomes 64 and
the numbers do not: two leaders store the same 64-lane sum, so the total doubles, or half of the 32-lane sums are never
stored.

## Example that fires
```hip fires
__global__ void sum(const float* in, float* out) {
  __shared__ float part[32];
  float v = in[threadIdx.x];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down(v, offset);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) for (int i = 0; i < blockDim.x / 32; ++i) out[0] += part[i];
}
```

## Example that does not
```hip quiet
__global__ void sum(const float* in, float* out) {
  __shared__ float part[32];
  float v = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down(v, offset);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) for (int i = 0; i < blockDim.x / 32; ++i) out[0] += part[i];
}
```

## Fix
Use one size throughout: 32 with a width argument, or `warpSize` for the steps, the lane id and the warp id. Which one
is right depends on the rest of the kernel, so no fix is offered.

## Sources
HIP porting guide, `warpSize`; ROCm issue reports of doubled block sums after porting from 32 lanes.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        let mut found = Vec::new();
        let eval = cx.wide(f);
        let slots = stores(cx, f, index, &eval, &mut found);
        scans(cx, f, &eval, &mut found);
        products(cx, f, &eval, &mut found);
        tiles(cx, f, &eval, &mut found);
        let ids = named_ids(cx, f, &eval);
        pairs(&ids, &mut found);
        loops(cx, f, &eval, &mut found);
        counts(cx, f, &eval, &slots, &mut found);
        blocks(cx, f, index, &mut found);
        fragments(cx, f, &eval, &mut found);
        cleared_rows(cx, f, &eval, &mut found);
        found.retain(|d: &Diagnostic| {
            let node = f.body.descendant_for_byte_range(d.range.start, d.range.end);
            !node.is_some_and(|n| cx.only_on_32(f, n))
        });
        if !found.is_empty() && !cx.at_most_32_threads(index) {
            out.append(&mut found);
        }
    }
}

fn finding(range: Range<usize>, message: String, other: (Range<usize>, &str)) -> Diagnostic {
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range,
        message,
        related: vec![(other.0, other.1.to_owned())],
        fix: None,
    }
}

fn is_wave(size: i64) -> bool {
    size == 32 || size == 64
}

/// `if (lane == 0) slots[warp] = value;`, also by `atomicAdd(&slots[warp], value)`. Returns the arrays with the warp ids
/// that choose a slot in them.
fn stores<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    index: usize,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) -> Vec<(&'t str, Id)> {
    let schemes = cx.schemes_of(index);
    let mut slots = Vec::new();
    let stored = f.assignments.iter().filter_map(|a| {
        Some((
            *a,
            unparenthesized(a.child_by_field_name("left")?),
            a.child_by_field_name("right")?,
        ))
    });
    let added = f.calls.iter().filter_map(|c| {
        let [to, value, ..] = c.args[..] else {
            return None;
        };
        let atomic = c.name.starts_with("atomic") || c.name == "unsafeAtomicAdd";
        let to = match to.kind() {
            "pointer_expression" => unparenthesized(to.child_by_field_name("argument")?),
            _ => to,
        };
        atomic.then_some((c.node, to, value))
    });
    for (a, left, right) in stored.chain(added) {
        let subscript = left.kind() == "subscript_expression";
        if !subscript && a.kind() == "assignment_expression" {
            continue;
        }
        let slot = subscript.then(|| warp_id(cx, f, eval, left)).flatten();
        if let (Some(slot), Some(array)) = (&slot, root_variable(cx.source, left)) {
            slots.push((array, slot.clone()));
        }
        // The last reduction before the store that made the value.
        let scheme = schemes.iter().rev().find(|s| {
            let made = s
                .variable
                .as_deref()
                .is_some_and(|v| mentions(cx.source, right, v));
            s.end <= a.start_byte() && made || within_range(&right.byte_range(), &s.range)
        });
        // Looking for the guard is the costly part.
        if slot.is_none() && scheme.is_none() {
            continue;
        }
        let Some(guard) = leader(cx, f, eval, a) else {
            continue;
        };
        if let Some(slot) = &slot
            && is_wave(guard.size)
            && is_wave(slot.size)
            && guard.size != slot.size
        {
            out.push(finding(
                slot.range.clone(),
                format!(
                    "the warp id counts waves of {} lanes but the lane id that guards the store counts {}: {}; use one size for both",
                    slot.size,
                    guard.size,
                    if slot.size == 32 {
                        "on 64 lanes only every second slot is written"
                    } else {
                        "two lanes of a wavefront write the same slot"
                    }
                ),
                (guard.range.clone(), "the lane id of the other size"),
            ));
            continue;
        }
        let Some(scheme) = scheme.filter(|s| s.way != Way::Up) else {
            continue;
        };
        let ids = slot.into_iter().chain([guard]);
        for id in ids {
            if is_wave(id.size) && is_wave(scheme.size) && id.size != scheme.size {
                out.push(mismatch(scheme, &id));
                break;
            }
        }
    }
    slots
}

fn within_range(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn mismatch(scheme: &Scheme, id: &Id) -> Diagnostic {
    let kind = if id.lane { "lane" } else { "warp" };
    let effect = if scheme.size == 64 {
        "each 64-lane result is stored twice, so a later sum doubles"
    } else {
        "the result of every second group of 32 lanes is never stored"
    };
    finding(
        id.range.clone(),
        format!(
            "this {kind} id supposes {} lanes but the value it stores was reduced over {}: {effect}; use one size for both",
            id.size, scheme.size
        ),
        (scheme.range.clone(), "the reduction"),
    )
}

/// The lane id in the condition `lane == 0` around a statement.
fn leader<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    node: Node<'t>,
) -> Option<Id> {
    let mut n = node;
    while n.id() != f.body.id() {
        let parent = n.parent()?;
        if parent.kind() == "if_statement"
            && parent
                .child_by_field_name("consequence")
                .is_some_and(|c| within(c, node))
        {
            let condition = parent.child_by_field_name("condition")?;
            let mut id = None;
            walk(condition, &mut |c| {
                if c.kind() == "binary_expression"
                    && c.child_by_field_name("operator")
                        .is_some_and(|o| cx.text(o) == "==")
                    && let (Some(l), Some(r)) = (
                        c.child_by_field_name("left"),
                        c.child_by_field_name("right"),
                    )
                    && eval.constant(r).is_some()
                {
                    id = id
                        .take()
                        .or_else(|| cx.id_of(f, eval, l).filter(|i| i.lane));
                }
                if c.kind() == "unary_expression"
                    && cx.text(c).starts_with('!')
                    && let Some(l) = c.child_by_field_name("argument")
                {
                    id = id
                        .take()
                        .or_else(|| cx.id_of(f, eval, l).filter(|i| i.lane));
                }
                id.is_none()
            });
            if id.is_some() {
                return id;
            }
        }
        n = parent;
    }
    None
}

/// The warp id in a subscript.
fn warp_id<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    subscript: Node<'t>,
) -> Option<Id> {
    let indices = subscript.child_by_field_name("indices")?;
    let mut found = None;
    walk(indices, &mut |n| {
        if matches!(
            n.kind(),
            "identifier" | "binary_expression" | "call_expression"
        ) {
            found = found
                .take()
                .or_else(|| cx.id_of(f, eval, n).filter(|i| !i.lane));
        }
        found.is_none()
    });
    found
}

/// `if (lane >= d) v += t;` with 32-lane steps and a 64-lane id.
fn scans<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    for call in &f.calls {
        let Some(s) = shuffle(call).filter(|s| s.way == Way::Up && s.width.is_none()) else {
            continue;
        };
        let lane = bare(s.lane);
        if lane.kind() != "identifier" {
            continue;
        }
        let Some(b) = f.bindings.resolve(cx.text(lane), lane.start_byte()) else {
            continue;
        };
        let steps = eval.iterations(b, 12);
        if steps != [1, 2, 4, 8, 16] {
            continue;
        }
        let Some(body) = crate::facts::ancestor(s.node, &["for_statement"], f.node) else {
            continue;
        };
        walk(body, &mut |n| {
            if n.kind() == "binary_expression"
                && n.child_by_field_name("operator")
                    .is_some_and(|o| matches!(cx.text(o), ">=" | ">"))
                && let (Some(l), Some(r)) = (
                    n.child_by_field_name("left"),
                    n.child_by_field_name("right"),
                )
                && cx.text(bare(r)) == cx.text(lane)
                && let Some(id) = cx.id_of(f, eval, l).filter(|i| i.lane && i.size == 64)
            {
                out.push(finding(
                    n.byte_range(),
                    "the scan takes the five steps of 32 lanes but its guard uses a lane id of 64: lane 32 and up add values of the lower half; use one size for both".into(),
                    (id.range, "the lane id"),
                ));
            }
            true
        });
    }
}

/// `warp * warpSize` with a warp id of 32.
fn products<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    for b in f.binaries.iter().filter(|b| b.operator == "*") {
        let (n, l, r) = (b.node, b.left, b.right);
        for (id, factor) in [(l, r), (r, l)] {
            if bare(factor).kind() == "identifier"
                && cx.asks_hardware(f, factor)
                && eval.constant(factor) == Some(64)
                && let Some(id) = cx.id_of(f, eval, id).filter(|i| !i.lane && i.size == 32)
            {
                out.push(finding(
                    n.byte_range(),
                    format!(
                        "a warp id that counts 32 lanes is multiplied by `{}`, which is 64 here: every second block of 32 is skipped; use one size for both",
                        cx.text(factor)
                    ),
                    (id.range, "the warp id of 32 lanes"),
                ));
            }
        }
    }
}

/// A variable that holds a lane or warp id.
struct Named<'t> {
    name: &'t str,
    id: Id,
}

/// The lane and warp ids of waves that have a name in `f`.
fn named_ids<'t>(cx: &Context<'t>, f: &Function<'t>, eval: &Evaluator<'_, 't>) -> Vec<Named<'t>> {
    f.bindings
        .iter()
        .filter(|b| b.writes.is_empty() && !b.compound)
        .filter_map(|b| {
            let init = bare(b.init?);
            if !matches!(init.kind(), "binary_expression" | "call_expression") {
                return None;
            }
            let id = cx.id_of(f, eval, init).filter(|i| is_wave(i.size))?;
            // `lane >> 5` of a lane up to 63 is a half of the wavefront, meant as such.
            let half = binary(init)
                .and_then(|b| cx.id_of(f, eval, b.left))
                .is_some_and(|i| i.lane);
            (!half).then(|| Named {
                name: cx.text(b.name),
                id,
            })
        })
        .collect()
}

/// A lane id of one size beside a warp id of the other.
fn pairs(ids: &[Named<'_>], out: &mut Vec<Diagnostic>) {
    let called = |n: &Named<'_>, words: &[&str]| {
        let lower = n.name.to_ascii_lowercase();
        n.id.hardware || words.iter().any(|w| lower.contains(w))
    };
    for lane in ids.iter().filter(|n| n.id.lane && called(n, &["lane"])) {
        for warp in ids
            .iter()
            .filter(|n| !n.id.lane && called(n, &["warp", "wave", "wid"]))
        {
            // Who has both sizes of one id works with halves and wholes on purpose.
            let both = ids.iter().any(|n| {
                n.id.lane && n.id.size == warp.id.size || !n.id.lane && n.id.size == lane.id.size
            });
            if lane.id.size == warp.id.size || both {
                continue;
            }
            out.push(finding(
                warp.id.range.clone(),
                format!(
                    "`{}` counts waves of {} lanes but `{}` is a lane of {}: {}; use one size for both",
                    warp.name,
                    warp.id.size,
                    lane.name,
                    lane.id.size,
                    if warp.id.size == 32 {
                        "on 64 lanes only every second warp id has a lane 0"
                    } else {
                        "on 64 lanes each warp id has two of every lane"
                    }
                ),
                (lane.id.range.clone(), "the lane id of the other size"),
            ));
        }
    }
}

/// `warp * 32 + lane` with a warp of 64 lanes: the tiles of neighbouring waves overlap.
fn tiles<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    for b in f.binaries.iter().filter(|b| b.operator == "+") {
        for (product, lane) in [(b.left, b.right), (b.right, b.left)] {
            let Some(p) = binary(unparenthesized(product)).filter(|p| p.operator == "*") else {
                continue;
            };
            let Some((warp, 32)) =
                [(p.left, p.right), (p.right, p.left)]
                    .into_iter()
                    .find_map(|(w, n)| {
                        let id = cx.id_of(f, eval, w).filter(|i| !i.lane && i.size == 64)?;
                        Some((id, eval.constant(n)?))
                    })
            else {
                continue;
            };
            if cx
                .id_of(f, eval, lane)
                .is_some_and(|i| i.lane && i.size == 64)
            {
                out.push(finding(
                    b.node.byte_range(),
                    "32 elements for each warp but lanes up to 63: the upper half of a wavefront reaches into the next one's; use one size for both".into(),
                    (warp.range, "the warp id of 64 lanes"),
                ));
            }
        }
    }
}

/// The wave size in a number of waves, `blockDim.x / 32`, also through a variable.
fn count_size<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    node: Node<'t>,
) -> Option<i64> {
    let mut node = bare(node);
    for _ in 0..3 {
        if node.kind() != "identifier" {
            break;
        }
        let b = f.bindings.resolve(cx.text(node), node.start_byte())?;
        if !b.writes.is_empty() || b.compound {
            return None;
        }
        node = bare(b.init?);
    }
    let b = binary(node)?;
    let n = eval.constant(b.right)?;
    let size = match b.operator {
        "/" => n,
        ">>" if (5..=6).contains(&n) => 1 << n,
        _ => return None,
    };
    let of = cx.text(bare(b.left));
    let threads = of.contains("blockDim.x") || of.contains("hipBlockDim_x");
    (threads && is_wave(size)).then_some(size)
}

/// Loops that start at a lane or warp id and go on in steps of the other size.
fn loops<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    for b in f.bindings.iter() {
        let (Some(init), [write]) = (b.init, &b.writes[..]) else {
            continue;
        };
        if b.kind != hipsmith_syntax::lanes::BindingKind::Loop
            || write
                .child_by_field_name("operator")
                .is_none_or(|o| o.kind() != "+=")
        {
            continue;
        }
        let Some(step) = write.child_by_field_name("right") else {
            continue;
        };
        let Some(id) = cx.id_of(f, eval, init).filter(|i| is_wave(i.size)) else {
            continue;
        };
        let size = if id.lane {
            // Unrolled by two, `i += 64` is right for 32 lanes.
            let asked = id.hardware || cx.asks_hardware(f, step);
            eval.constant(step).filter(|_| asked)
        } else {
            count_size(cx, f, eval, step)
        };
        let Some(size) = size.filter(|s| is_wave(*s) && *s != id.size) else {
            continue;
        };
        let effect = match (id.lane, size) {
            (true, 64) => {
                "the lanes of both halves take the same elements and every second 32 are left out"
            }
            (true, _) => "elements are taken twice",
            (false, 64) => "rows are taken twice",
            (false, _) => "rows are left out",
        };
        out.push(finding(
            step.byte_range(),
            format!(
                "the loop starts at a {} id of {} lanes but its step counts {size}: {effect}; use one size for both",
                if id.lane { "lane" } else { "warp" },
                id.size
            ),
            (id.range, "the id of the other size"),
        ));
    }
}

/// `lane < blockDim.x / 32 ? slots[lane] : 0` where 64-lane waves write the slots.
fn counts<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    slots: &[(&'t str, Id)],
    out: &mut Vec<Diagnostic>,
) {
    if slots.is_empty() {
        return;
    }
    for b in f
        .binaries
        .iter()
        .filter(|b| matches!(b.operator, "<" | "<=" | ">" | ">="))
    {
        let number = if b.operator.starts_with('<') {
            b.right
        } else {
            b.left
        };
        let Some(size) = count_size(cx, f, eval, number) else {
            continue;
        };
        let guarded = crate::facts::ancestor(
            b.node,
            &[
                "if_statement",
                "conditional_expression",
                "for_statement",
                "while_statement",
            ],
            f.body,
        );
        let Some(guarded) = guarded else { continue };
        let Some((array, id)) = slots.iter().find(|(array, id)| {
            is_wave(id.size)
                && id.size != size
                && f.subscripts
                    .iter()
                    .any(|s| within(guarded, *s) && root_variable(cx.source, *s) == Some(*array))
        }) else {
            continue;
        };
        // Written and counted in both sizes: each has its own stage.
        if slots.iter().any(|(a, i)| a == array && i.size == size) {
            continue;
        }
        out.push(finding(
            number.byte_range(),
            format!(
                "this counts waves of {size} lanes but the slots of `{array}` are written by waves of {}: {}; use one size for both",
                id.size,
                if size == 32 {
                    "the second half of the slots that are read was never written"
                } else {
                    "the second half of the slots is not read"
                }
            ),
            (id.range.clone(), "the warp id that chooses the slot"),
        ));
    }
}

/// Blocks of 32 x n threads with a reduction over 64 lanes: two rows share a wavefront.
fn blocks(cx: &Context<'_>, f: &Function<'_>, index: usize, out: &mut Vec<Diagnostic>) {
    let Some(scheme) = cx
        .schemes_of(index)
        .iter()
        .find(|s| s.size == 64 && !s.isolated)
    else {
        return;
    };
    let Some(model) = cx
        .model
        .functions
        .iter()
        .position(|m| m.name_range == f.name_range)
    else {
        return;
    };
    let body = cx.text(f.body);
    let rows = body.contains("threadIdx.y") || body.contains("hipThreadIdx_y");
    let mut launches = cx.model.launches_of(model).peekable();
    let Some(first) = launches.peek().map(|l| l.block_expr.range.clone()) else {
        return;
    };
    let all = launches.all(|l| l.block.is_some_and(|[x, y, _]| x == 32 && y > 1));
    if rows && all {
        out.push(finding(
            scheme.range.clone(),
            format!(
                "`{}` is launched with rows of 32 threads but reduces over 64 lanes: each result mixes two rows; pass the width 32, or launch rows of 64",
                f.name
            ),
            (first, "the launch"),
        ));
    }
}

/// rocWMMA spreads a fragment over the 64 lanes of the wavefront.
fn fragments<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    let Some(user) = f.calls.iter().find(|c| {
        matches!(
            c.name.as_str(),
            "load_matrix_sync" | "store_matrix_sync" | "mma_sync" | "fill_fragment"
        )
    }) else {
        return;
    };
    let rocwmma = cx
        .model
        .includes()
        .iter()
        .any(|(p, _)| p.contains("rocwmma"))
        || cx.text(f.node).contains("rocwmma::");
    if !rocwmma {
        return;
    }
    for b in f
        .binaries
        .iter()
        .filter(|b| matches!(b.operator, "/" | ">>"))
    {
        let Some(id) = cx
            .id_of(f, eval, b.node)
            .filter(|i| !i.lane && i.size == 32)
        else {
            continue;
        };
        let message = |what: &str| {
            format!(
                "{what} deals out the fragments to waves of 32 lanes, but on {} a fragment is spread over the 64 of a wavefront: two waves' indices share it and half of the tiles go wrong; use 64",
                cx.target.name
            )
        };
        let name = cx.text(b.right);
        let constant = (b.right.kind() == "identifier"
            && f.bindings.resolve(name, b.right.start_byte()).is_none())
        .then(|| {
            let at = b.right.start_byte();
            let variable = cx.model.variable_at(name, at).map(|v| v.name_range.clone());
            variable.or_else(|| cx.model.macro_at(name, at).map(|m| m.range.clone()))
        })
        .flatten()
        .filter(|r| !r.is_empty());
        out.push(match constant {
            Some(range) => finding(
                range,
                message(&format!("`{name}`")),
                (id.range, "used here"),
            ),
            None => finding(
                id.range,
                message("this warp id"),
                (user.node.byte_range(), "the fragments"),
            ),
        });
    }
}

/// Whether a name says that it is the size of a wave.
fn names_wave_size(name: &str) -> bool {
    let plain = name.to_ascii_lowercase().replace('_', "");
    ["warpsize", "wavesize", "wavefrontsize", "wfsize"]
        .iter()
        .any(|w| plain.ends_with(w))
}

/// `rows[32][n]` cleared by `rows[warp][i] = 0` and used by `rows[data][i]`: on 64 lanes there are half as many warps, so
/// half of the rows are never cleared.
fn cleared_rows<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    for array in cx.model.shared.iter().filter(|s| {
        s.dims.len() == 2
            && s.dim_values.first() == Some(&Some(32))
            && within_range(&f.node.byte_range(), &s.name_range)
    }) {
        let rows = |s: Node<'t>| {
            let argument = s.child_by_field_name("argument")?;
            let named = argument.kind() == "identifier" && cx.text(argument) == array.name;
            s.child_by_field_name("indices")?
                .named_child(0)
                .filter(|_| named)
        };
        let mut cleared: Option<Node<'t>> = None;
        let mut by_data = None;
        let mut known = true;
        for s in &f.subscripts {
            let Some(row) = rows(*s) else { continue };
            let assignment = s
                .parent()
                .and_then(|p| p.parent())
                .filter(|a| a.kind() == "assignment_expression");
            let clears = assignment.is_some_and(|a| {
                a.child_by_field_name("left").is_some_and(|l| within(l, *s))
                    && a.child_by_field_name("operator")
                        .is_some_and(|o| o.kind() == "=")
                    && a.child_by_field_name("right")
                        .is_some_and(|r| eval.constant(r).is_some())
            });
            let definition = match row.kind() {
                "identifier" => f
                    .bindings
                    .resolve(cx.text(row), row.start_byte())
                    .filter(|b| b.writes.is_empty())
                    .and_then(|b| b.init),
                _ => Some(row),
            };
            let warp = definition.map(bare).and_then(binary).filter(|b| {
                let size = eval.constant(b.right);
                let wide = size == Some(64)
                    || size.is_none()
                        && b.right.kind() == "identifier"
                        && names_wave_size(cx.text(b.right));
                b.operator == "/" && wide && eval.eval(b.left).is_some_and(|l| is_thread_index(&l))
            });
            match warp {
                Some(b) if clears => cleared = Some(b.right),
                Some(_) => {}
                None if clears => known = false,
                None if eval.eval(row).is_none() => by_data = Some(*s),
                None => {}
            }
        }
        if let (Some(size), Some(used), true) = (cleared, by_data, known) {
            let mut d = finding(
                size.byte_range(),
                format!(
                    "`{}` has 32 rows, one for each group of 32 of 1024 threads, but `{}` (64 on this target) clears only 16 of them, and the data chooses any: the rest keep what was there; count groups of 32 threads here",
                    array.name,
                    cx.text(size)
                ),
                (array.name_range.clone(), "the array"),
            );
            d.severity = Severity::Warning;
            d.related
                .push((used.byte_range(), "a row chosen by data".into()));
            out.push(d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn a_sixth_step_apart_from_the_loop_makes_64_lanes() {
        for sum in [
            "for (int o = 16; o; o >>= 1) v += __shfl_xor(v, o); v += __shfl_xor(v, 32);",
            "for (int o = 16; o; o >>= 1) v += __shfl_xor(v, o); if (warpSize == 64) v += __shfl_xor(v, 32);",
            "v += __shfl_down(v, 32); for (int o = 16; o; o >>= 1) v += __shfl_down(v, o);",
            "for (int o = 1; o < 32; o <<= 1) v += __shfl_xor(v, o); float hi = __shfl_xor(v, 32); v = fmaxf(v, hi);",
        ] {
            let source = format!(
                "__global__ void k(float* y, const float* x) {{\n  float v = x[threadIdx.x];\n  {sum}\n  if ((threadIdx.x & 63) == 0) y[threadIdx.x >> 6] = v;\n}}\n"
            );
            for rule in [RULE.id, "consistent-32-lanes", "broadcast-without-width"] {
                expect(rule, &source);
            }
        }
    }

    #[test]
    fn both_directions() {
        expect(
            RULE.id,
            "
__device__ float sum64(float v) {
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  return v;
}
__device__ float sum32(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor(v, o);
  return v;
}
__global__ void a(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x & 31;
  int wid = threadIdx.x >> 5;
          //^ error: this warp id supposes 32 lanes but the value it stores was reduced over 64
  float v = sum64(x[threadIdx.x]);
  if (lane == 0) s[wid] = v;
}
__global__ void b(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x % warpSize;
  int wid = threadIdx.x / warpSize;
          //^ error: the result of every second group of 32 lanes is never stored
  float v = x[threadIdx.x];
  v = sum32(v);
  if (lane == 0) s[wid] = v;
}
__global__ void c(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x & (warpSize - 1);
  int wid = threadIdx.x >> 5;
          //^ error: only every second slot is written
  float v = sum64(x[threadIdx.x]);
  if (lane == 0) s[wid] = v;
}
__global__ void d(float* x, int n) {
  int lane = __lane_id();
  int v = x[threadIdx.x];
  for (int o = 1; o < 32; o *= 2) {
    int t = __shfl_up(v, o);
    if (lane >= o) v += t;
      //^ error: its guard uses a lane id of 64
  }
  int wid = threadIdx.x / 32;
          //^ error: `wid` counts waves of 32 lanes but `lane` is a lane of 64
  x[wid * warpSize + n] = v;
  //^ error: multiplied by `warpSize`
}
",
        );
    }

    #[test]
    fn ids_side_by_side() {
        expect(
            RULE.id,
            "
#define LOG 5
__device__ int lane_id() { return threadIdx.x & (warpSize - 1); }
__global__ void a(float* x) {
  int lane = threadIdx.x % warpSize;
  const unsigned wid = threadIdx.x >> LOG;
                     //^ error: `wid` counts waves of 32 lanes but `lane` is a lane of 64
  x[wid] = lane;
}
__global__ void b(float* x) {
  int l = lane_id();
  int w = threadIdx.x / warpSize;
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  x[w] = l + warp;
}
__global__ void c(float* x) {
  auto lane = threadIdx.x & 31;
  auto warp_id = threadIdx.x / warpSize;
               //^ error: each warp id has two of every lane
  x[warp_id] = lane;
}
__global__ void halves(float* x) {
  int lane = threadIdx.x & 63;
  int warp_half = lane >> 5;
  int col = threadIdx.x % 64, row = threadIdx.x / 32;
  x[warp_half] = lane + col + row;
}
",
        );
    }

    #[test]
    fn steps_counts_and_tiles() {
        expect(
            RULE.id,
            "
__global__ void steps(float* x, int n) {
  for (int i = threadIdx.x % 32; i < n; i += warpSize) x[i] = 0;
                                           //^ error: every second 32 are left out
  for (int i = threadIdx.x % warpSize; i < n; i += 32) x[i] = 0;
                                                 //^ error: elements are taken twice
  for (int r = threadIdx.x / 32; r < n; r += blockDim.x / warpSize) x[r] = 0;
                                           //^ error: rows are taken twice
  for (int i = threadIdx.x % 32; i < n; i += 64) x[i] = x[i + 32];
  for (int r = threadIdx.x / 32; r < n; r += blockDim.x / 32) x[r] = 0;
}
__global__ void second(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x % warpSize, wid = threadIdx.x / warpSize;
  float v = x[threadIdx.x];
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  if (lane == 0) s[wid] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? s[lane] : 0;
           //^ error: was never written
  const int waves = blockDim.x / warpSize;
  for (int i = 0; i < waves; ++i) v += s[i];
  x[wid * 32 + lane] = v;
  //^ error: 32 elements for each warp
  x[wid * 64 + lane] = v;
}
__global__ void added(float* x) {
  float v = x[threadIdx.x];
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  if ((threadIdx.x & 31) == 0) atomicAdd(x, v);
     //^ error: each 64-lane result is stored twice
  if (threadIdx.x % warpSize == 0) atomicAdd(&x[1], v);
}
",
        );
    }

    #[test]
    fn rows_and_fragments() {
        expect(
            RULE.id,
            "
#include <rocwmma/rocwmma.hpp>
constexpr int WAVE = 32;
            //^ error: `WAVE` deals out the fragments
constexpr int WIDE = 64;
__global__ void gemm(const half* a) {
  rocwmma::fragment<rocwmma::matrix_a, 16, 16, 16, half> frag;
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / WAVE;
  int other = threadIdx.x / WIDE;
  int third = threadIdx.x >> 5;
            //^ error: this warp id deals out
  rocwmma::load_matrix_sync(frag, a + warp + other + third, 16);
}
__global__ void plain(float* x) { x[threadIdx.x / WAVE] = 1; }
__global__ void rows(float* x) {
  float v = x[threadIdx.x + threadIdx.y * blockDim.x];
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_xor(v, o);
                                                //^ error: mixes two rows
  x[threadIdx.y] = v;
}
void go(float* x) { rows<<<4, dim3(32, 4)>>>(x); }
__global__ void count(const int* data, int n) {
  __shared__ int bins[32][8];
  __shared__ int fine[32][8];
  const int warp_id = threadIdx.x / WARP_SIZE;
                                  //^ warning: `bins` has 32 rows
  for (int i = 0; i < 8; ++i) bins[warp_id][i] = 0;
  for (int i = 0; i < 8; ++i) fine[threadIdx.x / 32][i] = 0;
  __syncthreads();
  int e = data[threadIdx.x];
  atomicAdd(&bins[e / 8][e % 8], 1);
  atomicAdd(&fine[e / 8][e % 8], 1);
}
",
        );
    }

    #[test]
    fn one_size_is_silent() {
        expect(
            RULE.id,
            "
#define WARP 32
__global__ void a(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x % WARP, wid = threadIdx.x / WARP;
  float v = x[threadIdx.x];
  for (int o = WARP / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  if (lane == 0) s[wid] = v;
  x[wid * 64 + lane] = v;
}
__global__ void b(float* x) {
  __shared__ float s[32];
  int lane = threadIdx.x % warpSize, wid = threadIdx.x / warpSize;
  float v = x[threadIdx.x];
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  if (lane == 0) s[wid] = v;
}
",
        );
    }
}
