//! `missing-barrier-in-loop`

use std::collections::HashSet;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::lds_order::{Deed, LdsOrder, Sure};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "missing-barrier-in-loop",
    family: Family::S,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A loop that fills LDS, waits and reads goes round without a second barrier: the next round overwrites what is still read.",
    docs: r#"
## What it does
Looks at loops with a barrier between two accesses to one `__shared__` array, one of them a write, and none on the way from
the second access round to the first. It works out which element every thread touches, and reports the pair when a wavefront
touches in the next round what another one touches in this round.

*Error*: in a launch of the file. *Warning*: no launch is in the file, and the block is supposed to be as large as the array.

Silent are places that change from round to round (double buffering), loops that run once, pairs within one wavefront, and
loops with a call that may hold a barrier.

## Why it matters on 64 lanes
A wavefront that is done with its reads goes on to the next round and stores the next tile, while another one still reads
this one. With one wavefront to the block it cannot happen, and with 32 lanes and two it is as likely as here.

## Example that fires
```hip fires
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[256];
  float sum = 0;
  for (int base = 0; base < n; base += 256) {
    s[threadIdx.x] = x[base + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 256; ++j) sum += s[j];
  }
  y[threadIdx.x] = sum;
}
void go(float* x) { k<<<1, 256>>>(x, x, 1024); }
```

## Example that does not
```hip quiet
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[256];
  float sum = 0;
  for (int base = 0; base < n; base += 256) {
    s[threadIdx.x] = x[base + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 256; ++j) sum += s[j];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
void go(float* x) { k<<<1, 256>>>(x, x, 1024); }
```

## Fix
A second `__syncthreads()` at the end of the loop, or two buffers that the rounds take in turn. No fix is offered.

## Sources
HIP programming manual, `__syncthreads`; the tiled matrix product of the CUDA programming guide, whose second barrier this is.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.model.shared.is_empty() || !cx.may_have_barriers() {
        return;
    }
    for (index, _) in cx.subjects() {
        let Some(order) = LdsOrder::new(cx, index) else {
            continue;
        };
        let mut said: HashSet<usize> = HashSet::new();
        for (i, first) in order.accesses.iter().enumerate() {
            for second in order.accesses.get(i + 1..).unwrap_or_default() {
                let deeds = [first.deed, second.deed];
                if first.array != second.array
                    || !deeds.contains(&Deed::Write)
                    || !(deeds.contains(&Deed::Read) || deeds.contains(&Deed::Atomic))
                    || said.contains(&first.array)
                    || !order.stopped(first.node.end_byte(), second.node.start_byte())
                {
                    continue;
                }
                let Some(outer) = order.common_loop(first.node, second.node) else {
                    continue;
                };
                if order.stopped(outer.start_byte(), first.node.start_byte())
                    || order.stopped(second.node.end_byte(), outer.end_byte())
                    || !order.is_steady(first, outer)
                    || !order.is_steady(second, outer)
                    || order.runs_once(outer)
                {
                    continue;
                }
                let Some(sure) = order.crosses(second, first) else {
                    continue;
                };
                said.insert(first.array);
                let name = cx
                    .model
                    .shared
                    .get(first.array)
                    .map_or("", |s| s.name.as_str());
                out.push(Diagnostic {
                    rule: RULE.id,
                    family: RULE.family,
                    severity: match sure {
                        Sure::Launched => Severity::Error,
                        Sure::Supposed => Severity::Warning,
                    },
                    range: second.node.byte_range(),
                    message: format!(
                        "the loop goes round without a second barrier: a wavefront that is done here {} `{name}` in the next round while another one still {} it{}; put `__syncthreads()` at the end of the loop, or take two buffers in turn",
                        if first.deed == Deed::Write { "writes" } else { "reads" },
                        if second.deed == Deed::Write { "writes" } else { "reads" },
                        match sure {
                            Sure::Launched => "",
                            Sure::Supposed => " (supposing a block as large as the array)",
                        }
                    ),
                    related: vec![(
                        first.node.byte_range(),
                        "the access of the next round".to_owned(),
                    )],
                    fix: None,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn loops() {
        expect(
            RULE.id,
            "
template <int T> __global__ void gemm(const float* a, const float* b, float* c, int n) {
  __shared__ float s[T][T], t[T][T];
  float v = 0;
  for (int m = 0; m < n / T; ++m) {
    s[threadIdx.y][threadIdx.x] = a[m];
    t[threadIdx.y][threadIdx.x] = b[m];
    __syncthreads();
    for (int k = 0; k < T; ++k)
      v += s[threadIdx.y][k] * t[k][threadIdx.x];
                             //^ error: goes round without a second barrier
  }
  c[0] = v;
}
__global__ void buffers(const float* a, float* c, int n) {
  __shared__ float s[2][256];
  int at = 0;
  for (int m = 0; m < n; ++m) {
    s[at][threadIdx.x] = a[m];
    __syncthreads();
    c[m] = s[at][255 - threadIdx.x];
    at ^= 1;
  }
}
__global__ void once(const float* a, float* c, int n) {
  __shared__ float s[256];
  for (int m = 0; m < 256; m += 256) {
    s[threadIdx.x] = a[m];
    __syncthreads();
    c[m] = s[255 - threadIdx.x];
  }
}
__global__ void back(float* c, int n) {
  __shared__ float s[256];
  for (int m = 0; m < n; ++m) {
    float v = s[(threadIdx.x + 1) % 256];
    __syncthreads();
    s[threadIdx.x] = v;
  //^ error: reads `s` in the next round while another one still writes
  }
}
__global__ void whole(float* c, int n) {
  __shared__ float s[256];
  do {
    s[threadIdx.x] = c[n];
    __syncthreads();
    c[n] = s[(threadIdx.x + 64) % 256];
  } while (__syncthreads_or(c[n] > 0));
}
void go(float* x) {
  gemm<16><<<1, dim3(16, 16)>>>(x, x, x, 64); buffers<<<1, 256>>>(x, x, 3); once<<<1, 256>>>(x, x, 3);
  back<<<1, 256>>>(x, 3); whole<<<1, 256>>>(x, 3);
}
",
        );
    }
}
