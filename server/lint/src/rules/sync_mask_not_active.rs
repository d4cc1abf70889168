//! `sync-mask-not-active`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::unparenthesized;
use crate::rule::{Rule, Scope};

use super::sync_mask_32_bits::takes_mask;

pub(super) static RULE: Rule = Rule {
    id: "sync-mask-not-active",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A `_sync` function is given all 64 lanes where the upper half of the wavefront does not run: it traps.",
    docs: r#"
## What it does
Reports a mask of all 64 lanes as the argument of a `_sync` warp function under a condition that keeps lanes 32 to 63 from
it: `if (threadIdx.x < 32)`, `if (lane == 0)`, or an early return of these lanes.

Silent where the condition is not about lanes or not known, and when the file or a header defines the function itself.

## Why it matters on 64 lanes
In CUDA `if (threadIdx.x < 32)` is a whole warp and the full mask is right. On 64 lanes it is half a wavefront, the mask
names lanes that never arrive, and the sync functions of HIP (ROCm 6.2 and later) check that: they stop the kernel with
a trap unless the mask is the set of active lanes.

## Example that fires
```hip fires
__global__ void last(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 32) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffffffffffULL, v, d);
    if (threadIdx.x == 0) x[0] = v;
  }
}
```

## Example that does not
```hip quiet
__global__ void last(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 32) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffULL, v, d);
    if (threadIdx.x == 0) x[0] = v;
  }
  if (threadIdx.x < 64) v += __shfl_xor_sync(~0ULL, v, 1);
}
```

## Fix
Name the lanes that run (`0xffffffffULL` for the lower half), use `__activemask()`, or let a whole wavefront in. No fix is
offered: which one is meant depends on the code.

## Sources
HIP header `amd_warp_sync_functions.h`: the mask is compared with the active lanes, and the kernel traps when they differ.
"#,
    check,
};

/// All 64 bits set, as a literal or a macro of one.
fn all_lanes(text: &str) -> bool {
    let plain: String = text
        .to_ascii_lowercase()
        .chars()
        .filter(|c| !matches!(c, '(' | ')' | ' ' | 'u'))
        .collect();
    matches!(
        plain.trim_end_matches('l'),
        "0xffffffffffffffff" | "18446744073709551615"
    ) || matches!(plain.as_str(), "~0l" | "~0ll" | "-1l" | "-1ll" | "~0x0ll")
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (_, f) in cx.subjects() {
        let mut eval = None;
        for call in &f.calls {
            if !takes_mask(&call.name)
                || cx.redefines(&call.name)
                || cx.model.macro_at(&call.name, usize::MAX).is_some()
            {
                continue;
            }
            let Some(mask) = call.args.first() else {
                continue;
            };
            let named = unparenthesized(*mask);
            let text = cx.text(named);
            let mut whole = all_lanes(text);
            if named.kind() == "identifier" {
                let at = named.start_byte();
                whole = match f.bindings.resolve(text, at) {
                    Some(b) => b.writes.is_empty() && b.init.is_some_and(|i| all_lanes(cx.text(i))),
                    None => match cx.model.macro_at(text, at) {
                        Some(m) => all_lanes(&m.body),
                        None => cx.model.variable_at(text, at).is_some_and(|v| {
                            v.is_const && v.init.as_ref().is_some_and(|i| all_lanes(&i.text))
                        }),
                    },
                };
            }
            if !whole
                || !cx.lower_half_only(f, eval.get_or_insert_with(|| cx.wide(f)), call.node)
                || cx.only_on_32(f, call.node)
            {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: call.node.byte_range(),
                message: format!(
                    "`{text}` names all 64 lanes, but a condition keeps lanes 32 to 63 from this `{}`: HIP's check of the mask stops the kernel; name the lanes that run, such as `0xffffffffULL`",
                    call.name
                ),
                related: Vec::new(),
                fix: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn who_runs() {
        expect(
            RULE.id,
            "
#define FULL 0xffffffffffffffffull
constexpr unsigned long long kFull = ~0ull;
__global__ void k(float* x, int n) {
  float v = x[threadIdx.x];
  int lane = threadIdx.x % warpSize;
  if (threadIdx.x / warpSize == 0 && lane < 16) v += __shfl_xor_sync(FULL, v, 1);
                                                   //^ error: `FULL` names all 64 lanes
  if (!lane) { v = __shfl_sync(kFull, v, 0); }
                 //^ error: `kFull` names all 64 lanes
  if (threadIdx.x / warpSize == 0) v += __shfl_xor_sync(FULL, v, 1);
  if (n > 3) v += __shfl_xor_sync(FULL, v, 1);
  if (lane < n) v += __shfl_xor_sync(FULL, v, 1);
  if (lane < 32) v += __shfl_xor_sync(__activemask(), v, 1);
  if (threadIdx.x >= 32) return;
  x[0] = __any_sync(FULL, v > 0);
       //^ error: such as `0xffffffffULL`
}
",
        );
    }
}
