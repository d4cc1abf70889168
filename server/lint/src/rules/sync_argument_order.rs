//! `sync-argument-order`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::unparenthesized;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "sync-argument-order",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A shuffle without `_sync` is called with the arguments of the `_sync` form, so the mask is shuffled.",
    docs: r#"
## What it does
Reports `__shfl`, `__shfl_up`, `__shfl_down` and `__shfl_xor` whose first of three or more arguments is a lane mask: all
ones, or a name with `MASK` in it.

## Why it matters on 64 lanes
HIP's plain shuffles take `(value, lane, width)`. With CUDA's `(mask, value, lane)` everything compiles and moves one
place: the mask is shuffled, the value becomes the lane and the lane becomes the width. The compiler does not warn.

## Example that fires
```hip fires
__device__ float sum(float v) {
  for (int offset = 32; offset > 0; offset /= 2) v += __shfl_down(0xffffffff, v, offset);
  return v;
}
```

## Example that does not
```hip quiet
__device__ float sum(float v) {
  for (int offset = 32; offset > 0; offset /= 2) v += __shfl_down(v, offset);
  return v;
}
```

## Fix
Drop the mask. Safe: a program that shuffles a constant is not correct.

## Sources
HIP programming guide, warp shuffle functions; checked with hipcc -Wall: no warning.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (_, f) in cx.subjects() {
        let eval = cx.wide(f);
        for call in &f.calls {
            if !matches!(
                call.name.as_str(),
                "__shfl" | "__shfl_up" | "__shfl_down" | "__shfl_xor"
            ) || call.args.len() < 3
                || cx.redefines(&call.name)
            {
                continue;
            }
            let first = unparenthesized(call.args[0]);
            let text = cx.text(first);
            let named = first.kind() == "identifier" && text.to_ascii_uppercase().contains("MASK");
            let ones = matches!(eval.constant(first), Some(-1 | 0xffff_ffff))
                || text.to_ascii_lowercase().trim_end_matches(['u', 'l']) == "0xffffffffffffffff";
            if !named && !ones {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: call.node.byte_range(),
                message: format!(
                    "`{0}` has no mask argument: `{text}` is taken as the value and `{1}` as the lane; drop the mask or use `{0}_sync`",
                    call.name,
                    cx.text(call.args[1])
                ),
                related: Vec::new(),
                fix: Some(Fix::new(
                    "Drop the mask",
                    vec![(call.args[0].start_byte()..call.args[1].start_byte(), String::new())],
                    Safety::Safe,
                )),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn masks_in_front() {
        expect(
            RULE.id,
            "
#define SHFL __shfl_down
#define FULL_MASK 0xffffffff
__device__ int f(int v, unsigned mask) {
  v += __shfl_xor(FULL_MASK, v, 1);
     //^ error: `__shfl_xor` has no mask argument
  v += SHFL(mask, v, 2);
     //^ error: `mask` is taken as the value
  v += __shfl_xor(v, 1, 32);
  v += __shfl_xor_sync(FULL_MASK, v, 1);
  return v + __shfl(v, 0);
}
",
        );
    }

    #[test]
    fn fix() {
        expect_fix(
            RULE.id,
            "__device__ int f(int v) { return __shfl_down(0xffffffffu, v, 16, 32); }\n",
            "__device__ int f(int v) { return __shfl_down(v, 16, 32); }\n",
            Safety::Safe,
        );
    }
}
