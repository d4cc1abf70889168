//! `lane-index-past-array`

use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::Scope;
use hipsmith_syntax::lanes::{BindingKind, Evaluator};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, within};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lane-index-past-array",
    family: Family::W,
    severity: Severity::Error,
    scope: LooksAt::Function,
    summary: "A `__shared__` array sized for 32 lanes is indexed by a lane id that goes up to 63.",
    docs: r#"
## What it does
Evaluates the index of a one-dimensional `__shared__` array in all lanes and reports one that is the same in every
wavefront, starts inside the array and ends behind it, with no condition around it and no early return before it. Also a
call that passes the array to a function of the file that indexes its parameter so.

Silent where the index, the bound or a condition is not known, and in kernels that the file launches with at most 32
threads.

## Why it matters on 64 lanes
`__shared__ float slots[32]` has room for one entry per lane of a 32-lane warp. Lanes 32 to 63 read and write the LDS
behind it: whatever array follows.

## Example that fires
```hip fires
__global__ void k(float* x) {
  __shared__ float slots[32];
  int lane = threadIdx.x % warpSize;
  slots[lane] = x[threadIdx.x];
  x[threadIdx.x] = slots[0];
}
```

## Example that does not
```hip quiet
__global__ void k(float* x, int waves) {
  __shared__ float slots[32];
  int lane = threadIdx.x % warpSize;
  if (lane < 32) slots[lane] = x[threadIdx.x];
  x[threadIdx.x] = slots[0] + slots[threadIdx.x & 31] + (lane < waves ? slots[lane] : 0);
}
```

## Fix
One entry for each of the 64 lanes, or a guard. Which one is right depends on the code, so no fix is offered.

## Sources
LightGBM and exllamav2 (shared buffers of 32 entries for block primitives on 64 lanes).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.model.shared.is_empty() {
        return;
    }
    for (index, f) in cx.subjects() {
        passed(cx, f, index, out);
        let eval = cx.wide(f);
        for s in &f.subscripts {
            let (Some(array), Some(list)) = (
                s.child_by_field_name("argument"),
                s.child_by_field_name("indices"),
            ) else {
                continue;
            };
            if array.kind() != "identifier"
                || list.named_child_count() != 1
                || !cx.shared_names.contains(cx.text(array))
            {
                continue;
            }
            let Some(shared) = cx.model.shared_at(cx.text(array), s.start_byte()) else {
                continue;
            };
            let ([dim], Some(i)) = (&shared.dims[..], list.named_child(0)) else {
                continue;
            };
            let scope = Scope::at(shared.name_range.start);
            let Some(entries) = cx.model.eval(&dim.text, &scope) else {
                continue;
            };
            let Some(lanes) = eval.eval(i) else { continue };
            let Some(values) = lanes.values() else {
                continue;
            };
            let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else {
                continue;
            };
            if *low < 0
                || *low >= entries
                || *high < entries
                || guarded(f, &eval, *s)
                || cx.only_on_32(f, *s)
                || cx.at_most_32_threads(index)
            {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: s.byte_range(),
                message: format!(
                    "`{}` has {entries} entries but the index goes from {low} to {high} over the 64 lanes of a wavefront: the upper lanes reach behind the array; give it {} entries or guard the access",
                    shared.name,
                    high + 1
                ),
                related: vec![(shared.name_range.clone(), format!("`{}` is declared here", shared.name))],
                fix: None,
            });
        }
    }
}

/// How far a function reaches into an array that it is given.
struct Reach {
    low: i64,
    high: i64,
    range: Range<usize>,
}

/// The widest use of the parameter at `place` of `f` by a lane id that no condition keeps from it.
fn reach<'t>(cx: &Context<'t>, f: &Function<'t>, place: usize) -> Option<Reach> {
    let parameter = f
        .bindings
        .iter()
        .filter(|b| b.kind == BindingKind::Parameter)
        .nth(place)
        .filter(|b| b.compound)?;
    let eval = cx.wide(f);
    let mut out: Option<Reach> = None;
    for s in &f.subscripts {
        let (Some(array), Some(list)) = (
            s.child_by_field_name("argument"),
            s.child_by_field_name("indices"),
        ) else {
            continue;
        };
        let known = array.kind() == "identifier"
            && f.bindings
                .resolve(cx.text(array), array.start_byte())
                .is_some_and(|b| b.name == parameter.name);
        let Some(lanes) = list
            .named_child(0)
            .filter(|_| known)
            .and_then(|i| eval.eval(i))
        else {
            continue;
        };
        let Some(values) = lanes.values() else {
            continue;
        };
        let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else {
            continue;
        };
        if *low >= 0
            && out.as_ref().is_none_or(|r| r.high < *high)
            && !guarded(f, &eval, *s)
            && !cx.only_on_32(f, *s)
        {
            out = Some(Reach {
                low: *low,
                high: *high,
                range: s.byte_range(),
            });
        }
    }
    out
}

/// Arrays handed to functions that reach behind them.
fn passed<'t>(cx: &Context<'t>, f: &Function<'t>, index: usize, out: &mut Vec<Diagnostic>) {
    for call in &f.calls {
        for (place, argument) in call.args.iter().enumerate() {
            let name = cx.text(*argument);
            if !cx.shared_names.contains(name) {
                continue;
            }
            let Some(callee) = cx.only_function(&call.name) else {
                break;
            };
            let Some(shared) = cx.model.shared_at(name, argument.start_byte()) else {
                continue;
            };
            let [dim] = &shared.dims[..] else { continue };
            let scope = Scope::at(shared.name_range.start);
            let (Some(entries), Some(reach)) =
                (cx.model.eval(&dim.text, &scope), reach(cx, callee, place))
            else {
                continue;
            };
            if reach.low >= entries
                || reach.high < entries
                || cx.only_on_32(f, call.node)
                || cx.at_most_32_threads(index)
            {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: argument.byte_range(),
                message: format!(
                    "`{name}` has {entries} entries but `{}` indexes it from {} to {} over the 64 lanes of a wavefront: the upper lanes reach behind the array; give it {} entries",
                    call.name,
                    reach.low,
                    reach.high,
                    reach.high + 1
                ),
                related: vec![
                    (shared.name_range.clone(), format!("`{name}` is declared here")),
                    (reach.range, "the access".into()),
                ],
                fix: None,
            });
        }
    }
}

/// Whether a condition may keep lanes from the node: around it, or as an early return before it.
fn guarded<'t>(f: &Function<'t>, eval: &Evaluator<'_, 't>, node: Node<'t>) -> bool {
    let mut n = node;
    while n.id() != f.body.id() {
        let Some(parent) = n.parent() else {
            return true;
        };
        match parent.kind() {
            "if_statement" | "conditional_expression" | "while_statement" | "for_statement" => {
                let uniform = parent
                    .child_by_field_name("condition")
                    .and_then(|c| {
                        if within(c, node) {
                            return Some(false);
                        }
                        let c = c.child_by_field_name("value").unwrap_or(c);
                        Some(eval.eval(c)?.is_uniform())
                    })
                    .unwrap_or(false);
                if !uniform {
                    return true;
                }
            }
            "binary_expression" => {
                // `lane < 32 && s[lane]`
                let shields = parent.child_by_field_name("right") == Some(n)
                    && parent
                        .child_by_field_name("operator")
                        .is_some_and(|o| matches!(o.kind(), "&&" | "||"));
                if shields {
                    return true;
                }
            }
            _ => {}
        }
        n = parent;
    }
    f.returns.iter().any(|r| r.end_byte() <= node.start_byte())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn lane_ids_and_guards() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, int n) {
  __shared__ float s[32];
  __shared__ float t[64];
  int lane = threadIdx.x & 63;
  t[lane] = s[lane];
          //^ error: `s` has 32 entries but the index goes from 0 to 63
  if (n > 3) s[lane] = 0;
           //^ error: `s` has 32 entries
  if (x[lane] > 0) s[lane] = 1;
  if (lane < 32 && s[lane] > 0) x[0] = s[threadIdx.x & 31];
  s[threadIdx.x] = s[threadIdx.x / 64];
}
__global__ void small(float* x) { __shared__ float s[32]; s[threadIdx.x & 63] = x[0]; }
void go(float* x) { small<<<4, 32>>>(x); }
",
        );
    }

    #[test]
    fn through_functions() {
        expect(
            RULE.id,
            "
__device__ float scan(float v, float* shared) {
  const unsigned lane = threadIdx.x % warpSize;
  if (threadIdx.x / warpSize == 0) shared[lane] = v;
  return shared[threadIdx.x / warpSize];
}
__device__ float safe(float v, float* shared) {
  const unsigned lane = threadIdx.x % warpSize;
  if (lane < 16) shared[lane] = v;
  return shared[threadIdx.x & 31];
}
__global__ void k(float* x) {
  __shared__ float few[32];
  __shared__ float enough[64];
  float v = scan(x[threadIdx.x], few);
                               //^ error: `few` has 32 entries but `scan` indexes it from 0 to 63
  v += scan(v, enough) + safe(v, few);
  x[threadIdx.x] = v;
}
",
        );
    }
}
