//! `lds-over-limit`

use std::ops::Range;

use hipsmith_syntax::{Launch, Scope};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::arguments;
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lds-over-limit",
    family: Family::L,
    severity: Severity::Error,
    scope: LooksAt::File,
    summary: "A launch needs more LDS, static plus dynamic, than a workgroup can have on the target.",
    docs: r#"
## What it does
Adds the `__shared__` arrays of a kernel (those of the device functions it calls included, alignment too) and the
dynamic LDS of each launch in the file, for each template instantiation that is launched, and reports a sum over the
target's limit. Also a `hipFuncSetAttribute(..., hipFuncAttributeMaxDynamicSharedMemorySize, n)` that asks for more
than the limit, and launches inside macros.

Silent when a size is not known.

## Why it matters on 64 lanes
A workgroup has at most 65,536 bytes of LDS on Hygon's DCUs and on AMD's gfx9 before gfx950, and no opt-in raises it:
code tuned for 96 KB or more fails when it is launched. The compiler refuses static arrays over the limit, but it does
not know what a launch adds.

## Example that fires
```hip fires
extern __shared__ float rows[];
__global__ void tile(float* x) {
  __shared__ float fixed[8192];
  fixed[threadIdx.x] = rows[threadIdx.x] + x[threadIdx.x];
  x[threadIdx.x] = fixed[threadIdx.x];
}
void launch(float* x) { tile<<<1, 256, 40000>>>(x); }
```

## Example that does not
```hip quiet
extern __shared__ float rows[];
__global__ void tile(float* x) {
  __shared__ float fixed[4096];
  fixed[threadIdx.x] = rows[threadIdx.x] + x[threadIdx.x];
  x[threadIdx.x] = fixed[threadIdx.x];
}
void launch(float* x) { tile<<<1, 256, 40000>>>(x); }
```

## Fix
Smaller tiles, fewer pipeline stages, or a loop over parts. Which one is a design decision, so no fix is offered.

## Sources
Target tables (`max_bytes_per_workgroup`, from LLVM and device queries); clang's error for static arrays: "local memory
exceeds limit (65536)".
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let limit = u64::from(cx.target.lds.max_bytes_per_workgroup);
    for launch in &cx.model.launches {
        let Some(dynamic) = launch.lds_bytes.and_then(|b| u64::try_from(b).ok()) else {
            continue;
        };
        let (fixed, arrays) = match cx.model.launched(launch) {
            Some((kernel, bound)) => {
                let lds = cx.model.static_lds_of(kernel, &bound);
                (lds.bytes, lds.arrays)
            }
            None => (None, Vec::new()),
        };
        // Without the static part the dynamic one may be too much by itself.
        let known = fixed.unwrap_or(0);
        let sum = known + dynamic;
        if sum <= limit || dynamic == 0 {
            continue;
        }
        let range = launch
            .lds_expr
            .as_ref()
            .map_or(launch.range.clone(), |e| e.range.clone());
        let mut d = diagnostic(
            range,
            format!(
                "this launch of `{}`{} needs {} bytes of LDS ({}), but a workgroup has at most {} on {}: {}the launch fails; use smaller tiles or stages",
                launch.kernel,
                template(launch),
                group(sum),
                match fixed {
                    Some(0) => format!("{} dynamic", group(dynamic)),
                    Some(fixed) => format!("{} static + {} dynamic", group(fixed), group(dynamic)),
                    None => format!(
                        "{} dynamic, and static arrays of unknown size",
                        group(dynamic)
                    ),
                },
                group(limit),
                cx.target.name,
                // Off by a little: a size meant for a device that reserves some, or a limit counted in other units.
                if sum - limit <= 1024 {
                    format!("{} too many, ", group(sum - limit))
                } else {
                    String::new()
                }
            ),
        );
        d.related
            .push((launch.kernel_range.clone(), "the launch".to_owned()));
        for a in arrays
            .iter()
            .filter_map(|a| cx.model.shared.get(*a))
            .take(4)
        {
            d.related.push((
                a.name_range.clone(),
                format!("`{}` is part of the static LDS", a.name),
            ));
        }
        out.push(d);
    }
    for (k, kernel) in cx.model.kernels() {
        for bound in cx.model.instances(k) {
            let lds = cx.model.static_lds(k, &bound);
            let Some(bytes) = lds.bytes.filter(|b| *b > limit) else {
                continue;
            };
            let with: Vec<String> = bound
                .iter()
                .map(|(name, value)| match value {
                    hipsmith_syntax::Binding::Value(v) => format!("{name} = {v}"),
                    hipsmith_syntax::Binding::Type(t) => format!("{name} = {t}"),
                })
                .collect();
            let with = if with.is_empty() {
                String::new()
            } else {
                format!(" with {}", with.join(", "))
            };
            let mut d = diagnostic(
                kernel.name_range.clone(),
                format!(
                    "the `__shared__` arrays of `{}`{with} take {} bytes, but a workgroup has at most {} on {}: this does not compile; use smaller tiles",
                    kernel.name,
                    group(bytes),
                    group(limit),
                    cx.target.name
                ),
            );
            for a in lds
                .arrays
                .iter()
                .filter_map(|a| cx.model.shared.get(*a))
                .take(4)
            {
                d.related
                    .push((a.name_range.clone(), format!("`{}` is part of it", a.name)));
            }
            out.push(d);
            break;
        }
    }
    opt_ins(cx, limit, out);
    macros(cx, limit, out);
}

fn diagnostic(range: Range<usize>, message: String) -> Diagnostic {
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range,
        message,
        related: Vec::new(),
        fix: None,
    }
}

fn template(launch: &Launch) -> String {
    if launch.template_args.is_empty() {
        return String::new();
    }
    let args: Vec<&str> = launch
        .template_args
        .iter()
        .map(|e| e.text.as_str())
        .collect();
    format!(" <{}>", args.join(", "))
}

/// `65,536`
fn group(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn opt_ins(cx: &Context<'_>, limit: u64, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("FuncSetAttribute") {
        return;
    }
    for f in &cx.functions {
        for call in &f.calls {
            if !matches!(
                call.name.as_str(),
                "hipFuncSetAttribute" | "cudaFuncSetAttribute"
            ) {
                continue;
            }
            let args = arguments(call.node);
            let [_, attribute, value] = args[..] else {
                continue;
            };
            if !cx.text(attribute).ends_with("MaxDynamicSharedMemorySize") {
                continue;
            }
            let at = Scope::at(value.start_byte());
            let Some(bytes) = cx
                .model
                .eval(cx.text(value), &at)
                .and_then(|b| u64::try_from(b).ok())
            else {
                continue;
            };
            if bytes > limit {
                out.push(diagnostic(
                    value.byte_range(),
                    format!(
                        "{} bytes of dynamic LDS are asked for, but a workgroup has at most {} on {} and no attribute raises that: the launch fails; use smaller tiles or stages",
                        group(bytes),
                        group(limit),
                        cx.target.name
                    ),
                ));
            }
        }
    }
}

/// Launches in the bodies of macros, which are not in the tree.
fn macros(cx: &Context<'_>, limit: u64, out: &mut Vec<Diagnostic>) {
    let text = cx.model.text();
    for (name, m) in cx.model.macros() {
        let Some(definition) = text.get(m.range.clone()) else {
            continue;
        };
        let mut from = 0;
        while let Some(open) = definition
            .get(from..)
            .and_then(|d| d.find("<<<"))
            .map(|i| from + i)
        {
            from = open + 3;
            let Some(close) = definition[from..].find(">>>").map(|i| from + i) else {
                break;
            };
            let parts = hipsmith_syntax::lex::split_arguments(
                text,
                m.range.start + from..m.range.start + close,
            );
            from = close;
            let Some(part) = parts.get(2) else { continue };
            let Some(expression) = text.get(part.clone()) else {
                continue;
            };
            // A parameter of the macro is not known here.
            let expression = expression.replace("\\\n", " ");
            let parameters = m.parameters.iter().flatten();
            if parameters.clone().any(|p| {
                hipsmith_syntax::lex::tokens(&expression)
                    .iter()
                    .any(|t| t.text(&expression) == p)
            }) {
                continue;
            }
            let Some(bytes) = cx
                .model
                .eval(&expression, &Scope::file())
                .and_then(|b| u64::try_from(b).ok())
            else {
                continue;
            };
            if bytes > limit {
                let start =
                    part.start + text[part.clone()].len() - text[part.clone()].trim_start().len();
                let end = part.start + text[part.clone()].trim_end().len();
                out.push(diagnostic(
                    start..end.max(start),
                    format!(
                        "the launch in `{name}` asks for {} bytes of dynamic LDS, but a workgroup has at most {} on {}: the launch fails; use smaller tiles or stages",
                        group(bytes),
                        group(limit),
                        cx.target.name
                    ),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_on};

    #[test]
    fn sums_per_launch_and_instance() {
        expect(
            RULE.id,
            "
template <int N> __global__ void t(float* x) {
  __shared__ float a[N][128];
  extern __shared__ float b[];
  a[0][threadIdx.x] = b[0] + x[0]; x[1] = a[1][2];
}
void go(float* x, int n) {
  t<64><<<1, 64, 32768>>>(x);
  t<96><<<1, 64, 32768>>>(x);
               //^ error: 81,920 bytes of LDS (49,152 static + 32,768 dynamic)
  t<96><<<1, 64, n>>>(x);
  hipLaunchKernelGGL(t<64>, 1, 64, 40 * 1024, 0, x);
                                 //^ error: 73,728 bytes
  unknown<<<1, 64, 70000>>>(x);
                 //^ error: 70,000 dynamic
  t<128><<<1, 64, 256>>>(x);
                //^ error: 256 too many, the launch fails
  t<127><<<1, 64, 512>>>(x);
}
",
        );
    }

    #[test]
    fn opt_in_and_macro() {
        expect(
            RULE.id,
            "
const int SHARED = 96 * 1024;
#define GO(N) k<<<1, N, SHARED, 0>>>(x)
                      //^ error: the launch in `GO`
__global__ void k(float* x) {}
void go(float* x) {
  hipFuncSetAttribute(k, hipFuncAttributeMaxDynamicSharedMemorySize, SHARED);
                                                                   //^ error: no attribute raises that
}
",
        );
    }

    #[test]
    fn static_arrays_alone() {
        expect(
            RULE.id,
            "
__global__ void k(float* x) {
              //^ error: take 70,000 bytes
  __shared__ char a[70000];
  a[0] = x[0]; x[1] = a[2];
}
",
        );
        expect_on(
            RULE.id,
            "__global__ void k(char* x) { __shared__ char a[70000]; a[0] = x[0]; x[1] = a[2]; }",
            "gfx950",
        );
    }
}
