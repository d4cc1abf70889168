//! `cuda-only-intrinsic`

use std::collections::HashSet;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "cuda-only-intrinsic",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A device function of CUDA that HIP's headers do not declare.",
    docs: r#"
## What it does
Reports calls of CUDA device functions that HIP does not have: atomics with the scope of a block (`atomicAdd_block`), `__dp4a`
and `__dp2a`, the SIMD-in-a-word functions (`__vadd4`, `__vabsdiffu4`, ...), `__nanosleep`, `__cvta_generic_to_shared`,
`__brkpt`, `__prof_trigger`.

A *hint* where a header of the project could declare the name, which is not seen: atomics with a block's scope are an error there
too, since such headers seldom have them.

Silent when the file declares the name itself or includes a header of the project that seems to map CUDA to HIP, and in code
that the target does not compile.

## Why it matters on 64 lanes
It does not compile. The plain atomic is no slower a name for the block scope on LDS, but on global memory it reaches
the whole device: a narrower scope is worth keeping where it is available.

## Example that fires
```hip fires
__global__ void k(double* sums, double v) {
  __shared__ double s;
  atomicAdd_block(&s, v);
}
```

## Example that does not
```hip quiet
__device__ void atomicAdd_block(double* p, double v) { atomicAdd(p, v); }
__global__ void k(double* sums, double v) {
  __shared__ double s;
  atomicAdd_block(&s, v);
}
```

## Fix
For an atomic of the block, the atomic of the device: its scope is wider, so the result is the same (safe). For the others the
message names a counterpart where there is one.

## Sources
HIP's device headers (`amd_hip_atomic.h`, `amd_device_functions.h`); CUDA C++ programming guide; LightGBM pull request for ROCm
(`atomicAdd_block`).
"#,
    check,
};

const ATOMICS: [&str; 11] = [
    "atomicAdd",
    "atomicSub",
    "atomicExch",
    "atomicMin",
    "atomicMax",
    "atomicInc",
    "atomicDec",
    "atomicCAS",
    "atomicAnd",
    "atomicOr",
    "atomicXor",
];

/// Other functions, and what to use instead.
fn instead(name: &str) -> Option<&'static str> {
    Some(match name {
        "__dp4a" => {
            "use `__builtin_amdgcn_sdot4(a, b, c, false)` where the target has dot products, or `amd_mixed_dot`"
        }
        "__dp2a_lo" | "__dp2a_hi" => {
            "use `__builtin_amdgcn_sdot2` where the target has dot products, or two multiply-adds"
        }
        "__nanosleep" => "use `__builtin_amdgcn_s_sleep(n)`, which waits about 64 * n cycles",
        "__cvta_generic_to_shared" => {
            "cast to `__attribute__((address_space(3)))`; the number is the LDS offset"
        }
        "__brkpt" => "use `__builtin_trap()`",
        "__prof_trigger" => "there is no counterpart: take it out",
        _ => {
            let rest = name.strip_prefix("__v")?;
            let base = rest.strip_suffix(['2', '4'])?;
            let known = [
                "abs", "absdiffs", "absdiffu", "absss", "add", "addss", "addus", "avgs", "avgu",
                "cmpeq", "cmpges", "cmpgeu", "cmpgts", "cmpgtu", "cmples", "cmpleu", "cmplts",
                "cmpltu", "cmpne", "haddu", "maxs", "maxu", "mins", "minu", "neg", "negss", "sads",
                "sadu", "seteq", "setges", "setgeu", "setgts", "setgtu", "setles", "setleu",
                "setlts", "setltu", "setne", "sub", "subss", "subus",
            ];
            if !known.contains(&base) {
                return None;
            }
            if base == "sadu" {
                "use `__builtin_amdgcn_sad_u8` where its sum is meant"
            } else {
                "work on the bytes of a `char4`; the compiler makes SDWA or packed instructions of it"
            }
        }
    })
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if ![
        "_block",
        "__dp",
        "__v",
        "__nanosleep",
        "__cvta",
        "__brkpt",
        "__prof",
    ]
    .iter()
    .any(|w| cx.has_text(w))
    {
        return;
    }
    // What a header of the project declares is not seen: it may bring the name for HIP.
    let local = cx.model.includes().iter().any(|(_, local)| *local);
    let mut said: HashSet<(usize, &str)> = HashSet::new();
    for (index, call) in cx
        .subjects()
        .flat_map(|(i, f)| f.calls.iter().map(move |c| (i, c)))
    {
        let name = call.name.as_str();
        let atomic = name
            .strip_suffix("_block")
            .filter(|base| ATOMICS.contains(base));
        let Some(advice) = atomic
            .map(|base| format!("use `{base}`, whose scope is the device"))
            .or_else(|| instead(name).map(str::to_owned))
        else {
            continue;
        };
        if cx.may_be_mapped(name) {
            continue;
        }
        let Some(function) = call.node.child_by_field_name("function") else {
            continue;
        };
        // Only where the name stands: a macro's alias is changed at the macro.
        if cx.text(function) != name {
            continue;
        }
        if atomic.is_none() && !said.insert((index, name)) {
            continue;
        }
        let doubt = atomic.is_none() && local;
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: if doubt {
                Severity::Hint
            } else {
                Severity::Error
            },
            range: function.byte_range(),
            message: format!(
                "HIP does not declare `{name}`{}; {advice}",
                if doubt {
                    ", unless a header of the project does"
                } else {
                    ""
                }
            ),
            related: Vec::new(),
            fix: atomic.map(|base| {
                Fix::new(
                    format!("Use `{base}`"),
                    vec![(function.byte_range(), base.to_owned())],
                    Safety::Safe,
                )
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn intrinsics() {
        expect(
            RULE.id,
            "
__global__ void k(int* x, double* d) {
  __shared__ double s;
  atomicAdd_block(&s, d[0]);
//^ error: use `atomicAdd`
  x[0] = __dp4a(x[1], x[2], x[3]) + __vabsdiffu4(x[4], x[5]) + __vector4(x[6]);
       //^ error: sdot4
                                  //^ error: char4
  __nanosleep(100);
//^ error: s_sleep
  atomicAdd_system(x, 1);
#ifdef __CUDA_ARCH__
  __nanosleep(100);
#endif
}
",
        );
        expect(
            RULE.id,
            "
#include \"mine.h\"
__global__ void k(int* x) {
  atomicAdd_block(x, 1);
//^ error: use `atomicAdd`
  __nanosleep(1);
//^ hint: unless a header
  __nanosleep(2);
}
",
        );
        expect(
            RULE.id,
            "#include \"vendors/hip.h\"\n__global__ void k(int* x) { x[0] = __dp4a(x[1], x[2], x[3]); }\n",
        );
    }

    #[test]
    fn fix() {
        expect_fix(
            RULE.id,
            "__global__ void k(int* x) { atomicMax_block(x, 3); }\n",
            "__global__ void k(int* x) { atomicMax(x, 3); }\n",
            Safety::Safe,
        );
    }
}
