//! `consistent-32-lanes`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope};
use crate::waves::Way;

pub(super) static RULE: Rule = Rule {
    id: "consistent-32-lanes",
    family: Family::W,
    severity: Severity::Hint,
    scope: Scope::Function,
    summary: "A reduction or scan works in groups of 32 lanes: right on 64 lanes, with something to gain.",
    docs: r#"
## What it does
Says once per function that its shuffles take the steps of 32 lanes (16, 8, 4, 2, 1) without a width. Nothing is
wrong: that is what `mixed-wave-sizes` and `broadcast-without-width` are for.

Silent where a width of 32 says that the group is meant.

## Why it matters on 64 lanes
Each wavefront runs two groups side by side. A reduction over all 64 lanes takes one more step and leaves half as many
partial results for LDS and the second stage. In a block of 32 threads half of every wavefront idles.

## Example that fires
```hip fires
__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down(v, offset);
  return v;
}
```

## Example that does not
```hip quiet
__device__ float warp_sum(float v) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down(v, offset);
  return v;
}
__device__ float group_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down(v, offset, 32);
  return v;
}
```

## Fix
Start at `warpSize / 2` and take lane ids, warp ids and slots from `warpSize` too; changing one of them alone makes the
code wrong. No fix is offered.

## Sources
AMD GCN3 and Vega ISA documents: a wavefront is 64 lanes.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        let own: Vec<_> = cx
            .schemes_of(index)
            .iter()
            .filter(|s| !s.from_helper && (s.size == 32 && !s.isolated && !s.hardware))
            .collect();
        let Some(first) = own.first() else { continue };
        let wide = cx.schemes_of(index).iter().any(|s| s.size == 64);
        let node = f
            .body
            .descendant_for_byte_range(first.range.start, first.range.end);
        if wide || node.is_some_and(|n| cx.only_on_32(f, n)) {
            continue;
        }
        let what = if first.way == Way::Up {
            "scan"
        } else {
            "reduction"
        };
        let gain = if cx.at_most_32_threads(index) {
            "it is launched with at most 32 threads, so half of every wavefront idles"
        } else {
            "each wavefront runs two such groups; 64-lane steps would leave half as many partial results"
        };
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Hint,
            range: f.name_range.clone(),
            message: format!(
                "the {what} in `{}` works in groups of 32 lanes: right on 64 lanes, but {gain}",
                f.name
            ),
            related: vec![(first.range.clone(), format!("the {what}"))],
            fix: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn once_per_function() {
        expect(
            RULE.id,
            "
__device__ float a(float v) {
               //^ hint: the reduction in `a` works in groups of 32 lanes
  v += __shfl_xor(v, 16);
  v += __shfl_xor(v, 8);
  v += __shfl_xor(v, 4);
  v += __shfl_xor(v, 2);
  v += __shfl_xor(v, 1);
  return v;
}
__device__ float quad(float v) { v += __shfl_xor(v, 2); v += __shfl_xor(v, 1); return v; }
__global__ void user(float* x) { x[0] = a(x[1]); }
template <int W> __device__ float b(float v) {
  for (int o = W / 2; o > 0; o /= 2) v += __shfl_xor(v, o);
  return v;
}
",
        );
    }
}
