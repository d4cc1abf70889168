//! `lane-id-masked-with-size`

use hipsmith_syntax::Node;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{unparenthesized, walk};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "lane-id-masked-with-size",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A lane id is taken as `thread & WARP_SIZE`: that is one bit of the thread id; the mask is `WARP_SIZE - 1`.",
    docs: r#"
## What it does
Reports a variable named after lanes that is set to a thread index combined by `&` with a wave size: a name such as
`WARP_SIZE`, `warpSize` or `WaveSize`.

## Why it matters on 64 lanes
`threadIdx.x & 64` is 0 in all lanes of one wavefront and 64 in all lanes of the next. `if (lane == 0)` then runs in
every lane or in none, so in every second wavefront nobody loads the value that lane 0 is to hand round.

## Example that fires
```hip fires
template <int WARP_SIZE> __device__ int broadcast(int value) {
  int lane = threadIdx.x & WARP_SIZE;
  int mine;
  if (lane == 0) mine = value;
  return __shfl(mine, 0);
}
```

## Example that does not
```hip quiet
template <int WARP_SIZE> __device__ int broadcast(int value) {
  int lane = threadIdx.x & (WARP_SIZE - 1);
  int mine;
  if (lane == 0) mine = value;
  return __shfl(mine, 0);
}
```

## Fix
Mask with the size minus one. Unsafe, because it changes which lanes take the branch.

## Sources
HIP programming guide, the broadcast example of the shuffle functions.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (_, f) in cx.subjects() {
        for b in f.bindings.iter() {
            let name = cx.text(b.name);
            let Some(init) = b.init.map(unparenthesized) else {
                continue;
            };
            if !name.to_ascii_lowercase().contains("lane") || init.kind() != "binary_expression" {
                continue;
            }
            let (Some(left), Some(right), Some(operator)) = (
                init.child_by_field_name("left"),
                init.child_by_field_name("right"),
                init.child_by_field_name("operator"),
            ) else {
                continue;
            };
            if cx.text(operator) != "&" || !is_size(cx, right) || !is_thread(cx, left) {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: init.byte_range(),
                message: format!(
                    "`{}` is one bit of the thread id, the same in all lanes of a wavefront, not the lane; mask with `({} - 1)`",
                    cx.text(init),
                    cx.text(right)
                ),
                related: Vec::new(),
                fix: Some(Fix::new(
                    "Mask with the size minus one",
                    vec![(right.byte_range(), format!("({} - 1)", cx.text(right)))],
                    Safety::Unsafe,
                )),
            });
        }
    }
}

fn is_size(cx: &Context<'_>, node: Node<'_>) -> bool {
    let name: String = cx.text(node).to_ascii_lowercase().replace('_', "");
    node.kind() == "identifier"
        && (name.ends_with("warpsize")
            || name.ends_with("wavesize")
            || name.ends_with("wavefrontsize")
            || name == "wfsize")
}

fn is_thread(cx: &Context<'_>, node: Node<'_>) -> bool {
    let mut found = false;
    walk(node, &mut |n| {
        let text = cx.text(n);
        found |= match n.kind() {
            "field_expression" => text.starts_with("threadIdx."),
            "identifier" => {
                text.starts_with("hipThreadIdx_")
                    || matches!(text, "tid" | "thread_id" | "threadId" | "thread_idx")
            }
            _ => false,
        };
        !found
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn names_of_sizes() {
        expect(
            RULE.id,
            "
#define WARP_MASK 31
__global__ void k(int tid) {
  int lane = tid & warpSize;
           //^ error: is one bit of the thread id
  int lane_mask = tid & WARP_MASK;
  int odd = threadIdx.x & warpSize;
}
",
        );
    }

    #[test]
    fn fix() {
        expect_fix(
            RULE.id,
            "__global__ void k() { int lane = threadIdx.x & warpSize; }\n",
            "__global__ void k() { int lane = threadIdx.x & (warpSize - 1); }\n",
            Safety::Unsafe,
        );
    }
}
