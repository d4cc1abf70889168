//! `lds-race-without-barrier`

use std::collections::HashSet;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::within;
use crate::lds_order::{Deed, LdsOrder, Sure};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "lds-race-without-barrier",
    family: Family::S,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "One wavefront uses what another one does to LDS, with no barrier between.",
    docs: r#"
## What it does
Looks at pairs of accesses to one `__shared__` array, at least one of them a write, with no barrier between them in the text.
It works out which element every thread of the block touches, and reports pairs where a thread touches what a thread of
*another wavefront* does: a read of what was written before, or a write to what another wavefront may still have to read.

*Error*: in a launch of the file. *Warning*: no launch is in the file, and the block is supposed to be as large as the array.

Silent are pairs within one wavefront, elements that the thread wrote itself, atomics among themselves, places or conditions
that depend on data, and pairs with a call between that may hold a barrier.

## Why it matters on 64 lanes
Wavefronts of a workgroup run at their own pace: nothing but a barrier orders them. Within a wavefront LDS instructions are
done in order, so the fault hides as long as a block is one wavefront, and shows with more.

## Example that fires
```hip fires
__global__ void k(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[255 - threadIdx.x];
}
void go(float* x) { k<<<1, 256>>>(x); }
```

## Example that does not
```hip quiet
__global__ void k(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[255 - threadIdx.x];
}
void go(float* x) { k<<<1, 256>>>(x); }
```

## Fix
Put a `__syncthreads()` between the two, where all threads of the block come by. No fix is offered: where that is, is for the
author to say.

## Sources
HIP programming manual, `__syncthreads`; AMD "Vega" ISA (LDS instructions of one wavefront are in order, those of several are
not).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.model.shared.is_empty() {
        return;
    }
    for (index, _) in cx.subjects() {
        let Some(order) = LdsOrder::new(cx, index) else {
            continue;
        };
        let mut said: HashSet<usize> = HashSet::new();
        for (i, first) in order.accesses.iter().enumerate() {
            for second in order.accesses.get(i + 1..).unwrap_or_default() {
                let read_then_written = first.deed == Deed::Read && second.deed != Deed::Read;
                let written_then_read = first.deed != Deed::Read && second.deed != Deed::Write;
                if first.array != second.array
                    || first.deed == Deed::Atomic && second.deed == Deed::Atomic
                    || !(read_then_written || written_then_read)
                    || said.contains(&first.array)
                    || order.stopped(first.node.end_byte(), second.node.start_byte())
                    || within(second.node, first.node)
                    || within(first.node, second.node)
                {
                    continue;
                }
                // `s[i] = s[i + 1]`: the right side is read first, though it stands behind.
                let assigned = first.node.parent().filter(|p| {
                    p.kind() == "assignment_expression"
                        && p.child_by_field_name("left") == Some(first.node)
                        && within(*p, second.node)
                });
                let (earlier, later) = if assigned.is_some() {
                    (second, first)
                } else {
                    (first, second)
                };
                if assigned.is_none() && !order.follows(first.node, second.node) {
                    continue;
                }
                let Some(sure) = order.crosses(earlier, later) else {
                    continue;
                };
                said.insert(first.array);
                let name = cx
                    .model
                    .shared
                    .get(first.array)
                    .map_or("", |s| s.name.as_str());
                let what = if earlier.deed == Deed::Read {
                    format!(
                        "`{}` is written here while another wavefront may not yet have read it",
                        cx.text(later.node)
                    )
                } else {
                    format!(
                        "`{}` reads an element of `{name}` that another wavefront writes",
                        cx.text(later.node)
                    )
                };
                out.push(Diagnostic {
                    rule: RULE.id,
                    family: RULE.family,
                    severity: match sure {
                        Sure::Launched => Severity::Error,
                        Sure::Supposed => Severity::Warning,
                    },
                    range: later.node.byte_range(),
                    message: format!(
                        "{what}, with no barrier between: wavefronts of 64 lanes run at their own pace{}; put `__syncthreads()` between the two",
                        match sure {
                            Sure::Launched => "",
                            Sure::Supposed => " (supposing a block as large as the array)",
                        }
                    ),
                    related: vec![(
                        earlier.node.byte_range(),
                        "the access of the other wavefront".to_owned(),
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
    fn pairs() {
        expect(
            RULE.id,
            "
__global__ void broadcast(float* x, int n) {
  __shared__ float s;
  __shared__ float t[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) s = x[0];
  if (i < n) x[i] = s;
                  //^ error: reads an element of `s` that another wavefront writes
  t[threadIdx.x] = x[i];
  x[i] = t[threadIdx.x] + t[threadIdx.x ^ 32];
  __syncthreads();
  t[threadIdx.x] = t[(threadIdx.x + 1) % 256];
//^ error: may not yet have read it
}
__global__ void counter(int* x) {
  __shared__ int c;
  if (threadIdx.x == 0) c = 0;
  atomicAdd(&c, x[threadIdx.x]);
           //^ error: reads an element
  __syncthreads();
  x[0] = c;
}
__global__ void tree(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int o = 128; o > 0; o >>= 1) {
    if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
    __syncthreads();
  }
  for (int o = 1; o < 256; o *= 2) {
    if (threadIdx.x >= o) s[threadIdx.x] += s[threadIdx.x - o];
                        //^ error: may not yet have read
    __syncthreads();
  }
}
__global__ void tile(float* x) {
  __shared__ float a[16][16], b[16][16];
  a[threadIdx.y][threadIdx.x] = x[0];
  b[threadIdx.y][threadIdx.x] = x[1];
  float v = 0;
  for (int k = 0; k < 16; ++k) v += a[threadIdx.y][k] * b[k][threadIdx.x];
                                                      //^ error: `b[k][threadIdx.x]` reads
  x[2] = v;
}
void go(float* x, int* c) {
  broadcast<<<1, 256>>>(x, 3); counter<<<1, 128>>>(c); tree<<<1, 256>>>(x); tile<<<1, dim3(16, 16)>>>(x);
}
",
        );
    }

    #[test]
    fn silent() {
        expect(
            RULE.id,
            "
__device__ void unknown(float*);
__global__ void k(float* x, int n) {
  __shared__ float s[256], t[256];
  s[threadIdx.x] = x[0];
  unknown(x);
  x[1] = s[255 - threadIdx.x];
  if (n > 3) { t[threadIdx.x] = 1; } else { x[2] = t[255 - threadIdx.x]; }
}
__global__ void one(float* x, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[0];
  x[1] = s[63 - threadIdx.x];
}
__global__ void data(float* x, const int* at) {
  __shared__ float s[256];
  s[threadIdx.x] = x[0];
  x[1] = s[at[threadIdx.x]];
}
__global__ void supposed(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[0];
  x[1] = s[255 - threadIdx.x];
       //^ warning: supposing
}
void go(float* x) { k<<<1, 256>>>(x, 1); one<<<1, 64>>>(x, 3); data<<<1, 256>>>(x, 0); }
",
        );
    }
}
