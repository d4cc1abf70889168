//! `mixed-wave-sizes`

use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::Evaluator;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, bare, mentions, unparenthesized, walk, within};
use crate::rule::{Rule, Scope};
use crate::waves::{Id, Scheme, Way, shuffle};

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
id of the other, a scan of 32 steps guarded by a lane id of 64, and a warp id of 32 multiplied by `warpSize`.

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
        stores(cx, f, index, &eval, &mut found);
        scans(cx, f, &eval, &mut found);
        products(cx, f, &eval, &mut found);
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

/// `if (lane == 0) slots[warp] = value;`
fn stores<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    index: usize,
    eval: &Evaluator<'_, 't>,
    out: &mut Vec<Diagnostic>,
) {
    let schemes = cx.schemes_of(index);
    for a in &f.assignments {
        let (Some(left), Some(right)) = (
            a.child_by_field_name("left"),
            a.child_by_field_name("right"),
        ) else {
            continue;
        };
        let left = unparenthesized(left);
        if left.kind() != "subscript_expression" {
            continue;
        }
        let slot = warp_id(cx, f, eval, left);
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
        let Some(guard) = leader(cx, f, eval, *a) else {
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
  x[wid * warpSize + n] = v;
  //^ error: multiplied by `warpSize`
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
