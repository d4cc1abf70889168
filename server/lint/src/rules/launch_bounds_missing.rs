//! `launch-bounds-missing`

use hipsmith_syntax::FunctionKind;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "launch-bounds-missing",
    family: Family::P,
    severity: Severity::Warning,
    scope: Scope::File,
    summary: "A kernel without `__launch_bounds__` is launched with more than the 256 threads that DTK compiles for.",
    docs: r#"
## What it does
On Hygon targets other than gfx906: reports a kernel that the file launches with more than 256 threads in a block and
that has neither `__launch_bounds__` nor `amdgpu_flat_work_group_size`.

## Why it matters on 64 lanes
DTK's compiler takes 256 threads as the bound of a kernel that says nothing, where ROCm takes 1024. A larger launch
fails at run time, often unnoticed because nobody asks for the error.

## Example that fires
```hip fires gfx928
__global__ void scale(float* x) { x[blockIdx.x * 512 + threadIdx.x] *= 2; }
void launch(float* x) { scale<<<16, 512>>>(x); }
```

## Example that does not
```hip quiet gfx928
__global__ void __launch_bounds__(512) scale(float* x) { x[blockIdx.x * 512 + threadIdx.x] *= 2; }
void launch(float* x) { scale<<<16, 512>>>(x); }
```

## Fix
Add `__launch_bounds__` with the largest block that the file launches. Safe: it raises the bound that DTK supposes, and
every launch in the file fits it.

## Sources
llama.cpp issues #10610 and #11619 (kernels fail to launch on DCUs until they have launch bounds).
"#,
    check,
};

/// The bound that DTK's compiler takes without `__launch_bounds__`.
const DEFAULT_BOUND: i64 = 256;

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.target.vendor != "Hygon" || cx.target.name == "gfx906" {
        return;
    }
    for (index, kernel) in cx.model.functions.iter().enumerate() {
        if kernel.kind != FunctionKind::Kernel
            || kernel.launch_bounds.is_some()
            || kernel
                .attributes
                .iter()
                .any(|a| a.text.contains("flat_work_group_size"))
        {
            continue;
        }
        let launches: Vec<_> = cx.model.launches_of(index).collect();
        let threads = |l: &hipsmith_syntax::Launch| {
            l.block
                .map(|b| b.iter().map(|d| (*d).clamp(0, 1024)).product::<i64>())
        };
        let Some((most, launch)) = launches
            .iter()
            .filter_map(|l| Some((threads(l)?, *l)))
            .max_by_key(|(t, _)| *t)
        else {
            continue;
        };
        if most <= DEFAULT_BOUND || most > i64::from(cx.target.exec.max_workgroup) {
            continue;
        }
        // A launch of unknown size has to fit too.
        let unknown = launches.iter().any(|l| l.block.is_none());
        let bound = if unknown {
            i64::from(cx.target.exec.max_workgroup)
        } else {
            most
        };
        let at = kernel.name_range.start;
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Warning,
            range: kernel.name_range.clone(),
            message: format!(
                "`{}` is launched with {most} threads, but DTK compiles a kernel without `__launch_bounds__` for at most {DEFAULT_BOUND}: the launch fails on {}; add `__launch_bounds__({bound})`",
                kernel.name, cx.target.name
            ),
            related: vec![(launch.block_expr.range.clone(), format!("launched with {most} threads"))],
            fix: Some(Fix::new(
                format!("Add `__launch_bounds__({bound})`"),
                vec![(at..at, format!("__launch_bounds__({bound}) "))],
                Safety::Safe,
            )),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix_on, expect_on};

    const SOURCE: &str = "
__global__ void a(float* x) {}
              //^ warning: is launched with 1024 threads
__global__ __launch_bounds__(1024) void b(float* x) {}
__global__ void c(float* x) {}
void go(float* x, int n) {
  a<<<1, dim3(32, 32)>>>(x);
  b<<<1, 1024>>>(x);
  c<<<1, 256>>>(x);
  c<<<1, n>>>(x);
}
";

    #[test]
    fn only_where_dtk_compiles() {
        expect_on(RULE.id, SOURCE, "gfx928");
        expect_on(RULE.id, SOURCE, "gfx936");
        let without: String = SOURCE
            .lines()
            .filter(|l| !l.contains("//^"))
            .map(|l| format!("{l}\n"))
            .collect();
        expect(RULE.id, &without);
        expect_on(RULE.id, &without, "gfx90a");
    }

    #[test]
    fn fix() {
        expect_fix_on(
            RULE.id,
            "__global__ void a(float* x) {}\nvoid go(float* x) { a<<<1, 512>>>(x); }\n",
            "__global__ void __launch_bounds__(512) a(float* x) {}\nvoid go(float* x) { a<<<1, 512>>>(x); }\n",
            Safety::Safe,
            "gfx928",
        );
    }
}
