//! `broadcast-without-width`

use hipsmith_syntax::Node;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{Function, mentions, text, unparenthesized, walk, within};
use crate::rule::{Rule, Scope};
use crate::waves::{Scheme, Shuffle, Way, root_variable, shuffle};

pub(super) static RULE: Rule = Rule {
    id: "broadcast-without-width",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "In a 32-lane scheme, `__shfl` reads an absolute lane of the 64-lane wavefront because it has no width.",
    docs: r#"
## What it does
Reports `__shfl(x, lane)` without a width of 32, with a lane of 0 to 31, where the code around it works in groups of 32
lanes: `x` comes out of a reduction or scan over 32 lanes, or was set by the leader of a group of 32
(`if ((tid & 31) == 0) x = ...`), or the lane is itself taken modulo 32.

Silent when a width is given, when the scheme spans 64 lanes, and in kernels that the file launches with at most 32
threads.

## Why it matters on 64 lanes
A wavefront holds two groups of 32. The default width is the wavefront, so lane 0 is lane 0 of the *first* group: the
second group reads the first one's value. The steps `16, 8, 4, 2, 1` before it are right in both halves, which hides
the fault.

## Example that fires
```hip fires
__global__ void rows(const float* in, float* out) {
  float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down(sum, offset);
  sum = __shfl(sum, 0);
  out[blockIdx.x * blockDim.x + threadIdx.x] /= sum;
}
```

## Example that does not
```hip quiet
__global__ void rows(const float* in, float* out) {
  float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down(sum, offset);
  sum = __shfl(sum, 0, 32);
  out[blockIdx.x * blockDim.x + threadIdx.x] /= sum;
}
```

## Fix
Give the width: `__shfl(x, 0, 32)`. Safe: where at most 32 lanes run it changes nothing, and where 64 run it restores
the group that the code before it works in.

## Sources
HIP programming guide, warp shuffle functions: `width` defaults to the wavefront size.
"#,
    check,
};

/// Why a shuffle is taken for one in a 32-lane scheme.
struct Evidence {
    range: std::ops::Range<usize>,
    text: String,
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        let mut few = None;
        for call in &f.calls {
            let Some(s) = shuffle(call).filter(|s| s.way == Way::Index) else {
                continue;
            };
            if cx.redefines(&call.name) || s.width.is_some() {
                continue;
            }
            let Some(evidence) = evidence(cx, f, index, &s) else {
                continue;
            };
            if cx.only_on_32(f, s.node) || *few.get_or_insert_with(|| cx.at_most_32_threads(index))
            {
                continue;
            }
            let last = s.lane.end_byte();
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: s.node.byte_range(),
                message: format!(
                    "`{}` reads lane `{}` of the 64-lane wavefront, but {}: lanes 32 to 63 get the value of the other group; pass the width 32",
                    call.name,
                    cx.text(s.lane),
                    evidence.text
                ),
                related: vec![(evidence.range, "the 32-lane scheme".into())],
                fix: Some(Fix::new(
                    "Shuffle within 32 lanes",
                    vec![(last..last, ", 32".into())],
                    if call.name.starts_with("__shfl") { Safety::Safe } else { Safety::Unsafe },
                )),
            });
        }
    }
}

fn evidence<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    index: usize,
    s: &Shuffle<'t>,
) -> Option<Evidence> {
    let eval = cx.wide(f);
    if let Some(lane) = eval.constant(s.lane) {
        if !(0..32).contains(&lane) {
            return None;
        }
        return reduced_value(cx, f, index, s).or_else(|| leader_value(cx, f, s, lane));
    }
    // `(threadIdx.x + k) & 31`: a lane of the lower half for every thread.
    let lane = definition(cx, f, s.lane);
    if lane.kind() != "binary_expression" {
        return None;
    }
    let left = lane.child_by_field_name("left")?;
    let size = eval.constant(lane.child_by_field_name("right")?)?;
    let cut = match cx.text(lane.child_by_field_name("operator")?) {
        "&" => size == 31,
        "%" => size == 32,
        _ => false,
    };
    (cut && mentions_thread(cx, f, left)).then(|| Evidence {
        range: lane.byte_range(),
        text: format!("`{}` is always below 32", cx.text(lane)),
    })
}

/// Through a variable that is assigned once.
fn definition<'t>(cx: &Context<'t>, f: &Function<'t>, node: Node<'t>) -> Node<'t> {
    let node = unparenthesized(node);
    if node.kind() == "identifier"
        && let Some(b) = f.bindings.resolve(cx.text(node), node.start_byte())
        && b.writes.is_empty()
        && !b.compound
        && let Some(init) = b.init
    {
        return unparenthesized(init);
    }
    node
}

fn mentions_thread(cx: &Context<'_>, f: &Function<'_>, node: Node<'_>) -> bool {
    let mut found = false;
    walk(node, &mut |n| {
        match n.kind() {
            "field_expression" => found |= cx.text(n).starts_with("threadIdx."),
            "identifier" => {
                found |= cx.text(n).starts_with("hipThreadIdx_")
                    || f.bindings
                        .resolve(cx.text(n), n.start_byte())
                        .and_then(|b| b.init)
                        .is_some_and(|i| !within(i, n) && cx.text(i).contains("threadIdx."));
            }
            _ => {}
        }
        !found
    });
    found
}

/// The value shuffled is the result of a 32-lane reduction or scan.
fn reduced_value<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    index: usize,
    s: &Shuffle<'t>,
) -> Option<Evidence> {
    let schemes = cx.schemes_of(index);
    // `__shfl(warp_sum(x), 0)`
    let inside = schemes
        .iter()
        .find(|c| s.value.start_byte() <= c.range.start && c.range.end <= s.value.end_byte());
    let scheme = match inside {
        Some(scheme) => scheme,
        None => {
            let before = |c: &&Scheme| c.end <= s.node.start_byte();
            let variable = root_variable(cx.source, s.value);
            // The last scheme before the shuffle that gave the value, directly or through one more assignment.
            let direct =
                schemes
                    .iter()
                    .rev()
                    .filter(before)
                    .find(|c| match c.variable.as_deref() {
                        Some(v) => {
                            variable == Some(v)
                                || variable.is_none() && mentions(cx.source, s.value, v)
                        }
                        None => false,
                    });
            match direct {
                Some(scheme) => scheme,
                None => schemes.iter().rev().filter(before).find(|c| {
                    let (Some(from), Some(to)) = (c.variable.as_deref(), variable) else {
                        return false;
                    };
                    flows(cx, f, from, to, c.end, s.node.start_byte())
                })?,
            }
        }
    };
    (scheme.size == 32 && !scheme.isolated).then(|| Evidence {
        range: scheme.range.clone(),
        text: format!(
            "the value comes from a {} over 32 lanes",
            if scheme.way == Way::Up {
                "scan"
            } else {
                "reduction"
            }
        ),
    })
}

/// Whether `to` is assigned from an expression with `from` between two places.
fn flows(
    cx: &Context<'_>,
    f: &Function<'_>,
    from: &str,
    to: &str,
    after: usize,
    before: usize,
) -> bool {
    let assigned = f.assignments.iter().any(|a| {
        a.start_byte() >= after
            && a.end_byte() <= before
            && a.child_by_field_name("left")
                .is_some_and(|l| text(cx.source, l) == to)
            && a.child_by_field_name("right")
                .is_some_and(|r| mentions(cx.source, r, from))
    });
    assigned
        || f.bindings.iter().any(|b| {
            b.name.start_byte() >= after
                && b.name.end_byte() <= before
                && text(cx.source, b.name) == to
                && b.init.is_some_and(|i| mentions(cx.source, i, from))
        })
}

/// The value was set by the leader of a group of 32: `if (lane == 0) x = ...; x = __shfl(x, 0);`
fn leader_value<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    s: &Shuffle<'t>,
    source_lane: i64,
) -> Option<Evidence> {
    let variable = root_variable(cx.source, s.value)?;
    let eval = cx.wide(f);
    for a in f.assignments.iter().rev() {
        if a.end_byte() > s.node.start_byte() || within(*a, s.node) {
            continue;
        }
        let left = a.child_by_field_name("left")?;
        if cx.text(left) != variable {
            continue;
        }
        // The last write before the shuffle decides.
        let mut node = *a;
        loop {
            node = node.parent()?;
            if node.id() == f.body.id() {
                return None;
            }
            if node.kind() == "if_statement" {
                break;
            }
        }
        // The shuffle is behind the guard, not in it.
        if within(node, s.node) {
            return None;
        }
        let condition = node.child_by_field_name("condition")?;
        let condition = condition
            .child_by_field_name("value")
            .or_else(|| condition.named_child(0))?;
        let condition = unparenthesized(condition);
        let id = match condition.kind() {
            "binary_expression" => {
                let (l, r) = (
                    condition.child_by_field_name("left")?,
                    condition.child_by_field_name("right")?,
                );
                if cx.text(condition.child_by_field_name("operator")?) != "==" {
                    return None;
                }
                if eval.constant(r) != Some(source_lane) {
                    return None;
                }
                cx.id_of(f, &eval, l)?
            }
            "unary_expression" if cx.text(condition).starts_with('!') && source_lane == 0 => {
                cx.id_of(f, &eval, condition.child_by_field_name("argument")?)?
            }
            _ => return None,
        };
        return (id.lane && id.size == 32).then(|| Evidence {
            range: condition.byte_range(),
            text: format!("the value is set by lane {source_lane} of each group of 32 lanes"),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn who_reads_lane_32_too_knows_of_64_lanes() {
        expect(
            RULE.id,
            "
__global__ void k(float* y, const float* x) {
  float v = x[threadIdx.x];
  for (int o = 16; o; o >>= 1) v += __shfl_xor(v, o);
  y[threadIdx.x] = __shfl(v, 0) + __shfl(v, 32);
}
",
        );
    }

    #[test]
    fn reductions_scans_and_leaders() {
        expect(
            RULE.id,
            "
__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down(v, o);
  return v;
}
__global__ void k(float* x, int n) {
  const int lane = threadIdx.x & 31;
  float a = x[threadIdx.x];
  float b = __shfl(warp_sum(a), 0);
          //^ error: comes from a reduction over 32 lanes
  float c = warp_sum(a);
  c = __shfl(c, 0);
    //^ error: comes from a reduction over 32 lanes
  float p = a, total = 0;
  for (int d = 1; d < 32; d *= 2) {
    float t = __shfl_up(p, d);
    if (lane >= d) p += t;
  }
  total += p;
  total = __shfl(total, 31);
        //^ error: comes from a scan over 32 lanes
  int i;
  if (lane == 0) i = n;
  i = __shfl(i, 0);
    //^ error: is set by lane 0 of each group of 32 lanes
  float r = __shfl(a, (threadIdx.x + n) & 31);
          //^ error: is always below 32
  x[threadIdx.x] = b + c + total + i + r;
}
",
        );
    }

    #[test]
    fn widths_wide_schemes_and_small_blocks_are_silent() {
        expect(
            RULE.id,
            "
__device__ float sum64(float v) {
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  return v;
}
__global__ void k(float* x, int n) {
  float a = sum64(x[threadIdx.x]);
  a = __shfl(a, 0);
  float b = __shfl(x[1], 3);
  int i;
  if (threadIdx.x % 64 == 0) i = n;
  i = __shfl(i, 0);
  for (int o = 16; o > 0; o >>= 1) b += __shfl_down(b, o);
  b = __shfl(b, 0, 32);
  x[0] = a + b + i;
}
__global__ void one(float* x) {
  float b = x[threadIdx.x];
  for (int o = 16; o > 0; o >>= 1) b += __shfl_down(b, o);
  x[0] = __shfl(b, 0);
}
void launch(float* x) { one<<<10, dim3(32)>>>(x); }
",
        );
    }

    #[test]
    fn fix_adds_the_width() {
        expect_fix(
            RULE.id,
            "
__global__ void k(float* x) {
  float b = x[threadIdx.x];
  for (int o = 16; o > 0; o >>= 1) b += __shfl_down(b, o);
  x[threadIdx.x] = __shfl(b, 0);
}
",
            "
__global__ void k(float* x) {
  float b = x[threadIdx.x];
  for (int o = 16; o > 0; o >>= 1) b += __shfl_down(b, o);
  x[threadIdx.x] = __shfl(b, 0, 32);
}
",
            Safety::Safe,
        );
    }
}
