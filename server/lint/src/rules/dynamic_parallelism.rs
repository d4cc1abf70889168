//! `dynamic-parallelism`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::Place;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "dynamic-parallelism",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::File,
    summary: "A kernel is launched from device code, which HIP cannot do.",
    docs: r#"
## What it does
Reports launches (`k<<<...>>>(...)`, `hipLaunchKernelGGL`) inside kernels and `__device__` functions.

Silent are functions for host and device (`__host__ __device__`), whose launch may stand in the host's branch, and code that the
target does not compile.

## Why it matters on 64 lanes
HIP has no dynamic parallelism on any AMD or Hygon device: the compiler rejects the launch, or takes it for a call of a kernel.

## Example that fires
```hip fires
__global__ void child(float* x) { x[threadIdx.x] *= 2; }
__global__ void parent(float* x, int n) {
  if (threadIdx.x == 0) child<<<1, n>>>(x);
}
```

## Example that does not
```hip quiet
__global__ void child(float* x) { x[threadIdx.x] *= 2; }
void parent(float* x, int n) { child<<<1, n>>>(x); }
```

## Fix
Launch from the host: let the parent leave the work in a queue in global memory that a second kernel, or a persistent one, takes
from. No fix is offered.

## Sources
HIP porting guide (dynamic parallelism is not supported).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for launch in &cx.model.launches {
        let Some(f) = launch
            .function
            .and_then(|i| cx.model.functions.get(i))
            .filter(|m| {
                matches!(
                    m.kind,
                    hipsmith_syntax::FunctionKind::Kernel | hipsmith_syntax::FunctionKind::Device
                )
            })
        else {
            continue;
        };
        // Only where the launch is known to be of a kernel: a chain of comparisons can look like one.
        let kernel = cx
            .only_function(&launch.kernel)
            .is_some_and(|k| k.place == Place::Kernel);
        if !kernel || cx.is_inactive(launch.range.start) {
            continue;
        }
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Error,
            range: launch.range.clone(),
            message: format!(
                "`{}` is launched from device code (`{}`): HIP has no dynamic parallelism on {}; launch it from the host",
                launch.kernel, f.name, cx.target.name
            ),
            related: Vec::new(),
            fix: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn launches() {
        expect(
            RULE.id,
            "
__global__ void child(float* x) { x[0] = 1; }
__device__ void helper(float* x) { child<<<1, 64>>>(x); }
                                 //^ error: launched from device code (`helper`)
__host__ __device__ void both(float* x) {
#ifndef __HIP_DEVICE_COMPILE__
  child<<<1, 64>>>(x);
#endif
}
void host(float* x) { child<<<1, 64>>>(x); }
",
        );
    }
}
