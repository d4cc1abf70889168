//! `lds-limits-occupancy`

use std::collections::HashSet;

use hipsmith_target::{Limiter, Resources, occupancy};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lds-limits-occupancy",
    family: Family::L,
    severity: Severity::Hint,
    scope: LooksAt::File,
    summary: "LDS keeps occupancy down, and little less of it, or one buffer instead of two, would let another workgroup in.",
    docs: r#"
## What it does
For each launch whose block and LDS are known: when LDS is the first resource that a compute unit runs out of, says how
many bytes fewer would let one more workgroup run at once, if that is at most an eighth of them. Says too when an array
with two halves (`[2][...]`) costs half of the workgroups.

Registers are not looked at: where they bind first, less LDS gains nothing.

## Why it matters on 64 lanes
A compute unit has 65,536 bytes of LDS for all its workgroups. One workgroup with 33,000 bytes leaves no room for a
second one, and latency is then hidden by its own wavefronts only. Sizes tuned for a device with 96 KB or more land just
above such a step.

## Example that fires
```hip fires
__global__ void tile(float* x) {
  __shared__ float rows[64][130];
  rows[threadIdx.x / 4][threadIdx.x % 4] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = rows[threadIdx.x % 64][1];
}
void launch(float* x) { tile<<<64, 256>>>(x); }
```

## Example that does not
```hip quiet
__global__ void tile(float* x) {
  __shared__ float rows[64][128];
  rows[threadIdx.x / 4][threadIdx.x % 4] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = rows[threadIdx.x % 64][1];
}
void launch(float* x) { tile<<<64, 256>>>(x); }
```

## Fix
A smaller tile, padding replaced by a swizzle, or one buffer. Whether it pays shows only in a measurement, so no fix is
offered.

## Sources
Occupancy by LLVM's formula with the target's LDS granule (`hipsmith_target::occupancy`).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let mut told = HashSet::new();
    for launch in &cx.model.launches {
        let Some((kernel, bound)) = cx.model.launched(launch) else {
            continue;
        };
        let (Some(block), Some(dynamic)) = (launch.block, launch.lds_bytes) else {
            continue;
        };
        let lds = cx.model.static_lds_of(kernel, &bound);
        let Some(bytes) = lds
            .bytes
            .and_then(|fixed| fixed.checked_add(u64::try_from(dynamic).ok()?))
            .and_then(|b| u32::try_from(b).ok())
            .filter(|b| *b > 0 && *b <= cx.target.lds.max_bytes_per_workgroup)
        else {
            continue;
        };
        let threads = block.iter().map(|d| (*d).clamp(1, 1024)).product::<i64>();
        let Ok(workgroup) = u32::try_from(threads) else {
            continue;
        };
        let fits = |lds_bytes: u32| {
            occupancy(
                cx.target,
                &Resources {
                    vgprs: 1,
                    sgprs: 1,
                    lds_bytes,
                    workgroup,
                },
            )
        };
        let now = fits(bytes);
        if now.limiter != Limiter::Lds || !told.insert((launch.kernel.clone(), bytes)) {
            continue;
        }
        // The most bytes with which more fit.
        let (mut low, mut high) = (0, bytes);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle).workgroups_per_cu > now.workgroups_per_cu {
                low = middle;
            } else {
                high = middle;
            }
        }
        let saved = bytes - low;
        let double = lds
            .arrays
            .iter()
            .filter_map(|i| cx.model.shared.get(*i))
            .filter(|a| {
                a.dims.len() > 1
                    && a.dims.first().is_some_and(|d| {
                        let at = hipsmith_syntax::Scope::at(a.name_range.start).with(&bound);
                        cx.model.eval(&d.text, &at) == Some(2)
                    })
            })
            .find_map(|a| {
                let half = u32::try_from(cx.model.shared_bytes(a, &bound)? / 2).ok()?;
                let single = fits(bytes.checked_sub(half)?);
                (single.workgroups_per_cu >= 2 * now.workgroups_per_cu).then_some((a, single))
            });
        let (message, related) = match double {
            Some((array, single)) => (
                format!(
                    "the two halves of `{}` cost half of the occupancy on {}: {bytes} bytes of LDS let {} workgroups run on a compute unit, one half would let {} (predicted)",
                    array.name, cx.target.name, now.workgroups_per_cu, single.workgroups_per_cu
                ),
                vec![(array.name_range.clone(), "the double buffer".to_owned())],
            ),
            None if saved <= bytes / 8 => (
                format!(
                    "LDS limits the occupancy of this launch of `{}` on {}: {bytes} bytes let {} run on a compute unit, {saved} bytes fewer would let {} (predicted)",
                    launch.kernel,
                    cx.target.name,
                    count(now.workgroups_per_cu),
                    fits(low).workgroups_per_cu
                ),
                Vec::new(),
            ),
            None => continue,
        };
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Hint,
            range: launch.kernel_range.clone(),
            message,
            related,
            fix: None,
        });
    }
}

fn count(n: u32) -> String {
    format!("{n} workgroup{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn steps_and_double_buffers() {
        expect(
            RULE.id,
            "
template <int N> __global__ void t(float* x) {
  __shared__ float a[N];
  a[threadIdx.x] = x[0]; __syncthreads(); x[1] = a[3];
}
__global__ void two(float* x) {
  __shared__ float b[2][64][64];
  b[0][threadIdx.x][1] = x[0]; __syncthreads(); x[1] = b[1][2][3];
}
void go(float* x, int n) {
  t<8192><<<1, 256>>>(x);
  t<8200><<<1, 256>>>(x);
//^ hint: 32800 bytes let 1 workgroup run on a compute unit, 32 bytes fewer would let 2
  t<8192><<<1, 256, 512>>>(x);
//^ hint: 33280 bytes
  t<12000><<<1, 256>>>(x);
  t<8200><<<1, n>>>(x);
  two<<<1, 256>>>(x);
//^ hint: the two halves of `b`
  two<<<1, 256, 256>>>(x);
//^ hint: the two halves of `b`
}
",
        );
    }
}
