//! `wave-size-not-constant`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, walk};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "wave-size-not-constant",
    family: Family::W,
    severity: Severity::Warning,
    scope: Scope::Function,
    summary: "The builtin `warpSize` or `__AMDGCN_WAVEFRONT_SIZE` stands where a constant is needed: an error from ROCm 7 on.",
    docs: r#"
## What it does
Reports the builtin `warpSize` in the bound of an array, in a template argument, in the value of a `constexpr` variable
and in a `static_assert`, and every use of the macro `__AMDGCN_WAVEFRONT_SIZE` in code.

The last two are hints: code that only names the size there is easily changed. Silent where the file has a variable, macro or template parameter of that name.

## Why it matters on 64 lanes
Up to ROCm 6 `warpSize` folds to 64 when the device code is compiled. From ROCm 7 on it is known only at run time and
the macro is gone, so code that takes its wave size from them no longer compiles.

## Example that fires
```hip fires
__global__ void k(float* x) {
  __shared__ float part[1024 / warpSize];
  part[threadIdx.x / warpSize] = x[threadIdx.x];
}
```

## Example that does not
```hip quiet
constexpr int kWave = 64;
__global__ void k(float* x) {
  __shared__ float part[1024 / kWave];
  part[threadIdx.x / warpSize] = x[threadIdx.x];
}
```

## Fix
A constant of your own, chosen by the architecture (`__GFX9__` means 64), or the largest value that can occur (32 slots
are enough for 1024 threads on every device). No fix is offered.

## Sources
ROCm 7 release notes: `warpSize` is no longer `constexpr`, `__AMDGCN_WAVEFRONT_SIZE` is removed.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("warpSize") && !cx.has_text("__AMDGCN_WAVEFRONT_SIZE") {
        return;
    }
    let builtin = !cx.redefines("warpSize");
    for (_, f) in cx.subjects() {
        walk(f.node, &mut |n| {
            // A bare name among template arguments reads as a type.
            if !matches!(n.kind(), "identifier" | "type_identifier") {
                return true;
            }
            match cx.text(n) {
                "__AMDGCN_WAVEFRONT_SIZE" | "__AMDGCN_WAVEFRONT_SIZE__" => out.push(Diagnostic {
                    rule: RULE.id,
                    family: RULE.family,
                    severity: Severity::Warning,
                    range: n.byte_range(),
                    message: "this macro is deprecated and gone from ROCm 7 on; use a constant chosen by `__GFX9__`, or `warpSize` at run time".into(),
                    related: Vec::new(),
                    fix: None,
                }),
                "warpSize"
                    if builtin && f.bindings.resolve("warpSize", n.start_byte()).is_none() =>
                {
                    if let Some((place, severity)) = constant_place(cx, f, n) {
                        out.push(Diagnostic {
                            rule: RULE.id,
                            family: RULE.family,
                            severity,
                            range: n.byte_range(),
                            message: format!(
                                "`warpSize` in {place}: it is no constant expression from ROCm 7 on, so this does not compile there; use a constant of your own (64 where `__GFX9__` is defined)"
                            ),
                            related: Vec::new(),
                            fix: None,
                        });
                    }
                }
                _ => {}
            }
            true
        });
    }
}

/// Where a constant is needed, if `node` stands in such a place.
fn constant_place<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    node: hipsmith_syntax::Node<'t>,
) -> Option<(&'static str, Severity)> {
    let mut child = node;
    while child.id() != f.node.id() {
        let parent = child.parent()?;
        match parent.kind() {
            "array_declarator" if parent.child_by_field_name("size") == Some(child) => {
                return Some(("the bound of an array", Severity::Warning));
            }
            "template_argument_list" => return Some(("a template argument", Severity::Warning)),
            "static_assert_declaration" => return Some(("a `static_assert`", Severity::Hint)),
            "init_declarator" if parent.child_by_field_name("value") == Some(child) => {
                let declaration = parent.parent()?;
                let head = cx
                    .source
                    .get(declaration.start_byte()..parent.start_byte())?;
                return head
                    .contains("constexpr")
                    .then_some(("the value of a `constexpr`", Severity::Hint));
            }
            // An argument of a call is a value again.
            "argument_list" | "compound_statement" => return None,
            _ => {}
        }
        child = parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn places() {
        expect(
            RULE.id,
            "
template <int warpSize> __device__ void own(float* x) { __shared__ float s[warpSize]; s[0] = x[0]; }
__global__ void k(float* x) {
  constexpr int half = warpSize / 2;
                     //^ hint: the value of a `constexpr`
  static_assert(warpSize == 64, \"\");
              //^ hint: a `static_assert`
  auto t = tile<warpSize>(x);
              //^ warning: a template argument
  const int lanes = warpSize;
  x[threadIdx.x / warpSize] = __AMDGCN_WAVEFRONT_SIZE;
                            //^ warning: deprecated
}
__global__ void l(float* x) { const int warpSize = 32; __shared__ float s[warpSize]; s[0] = x[0]; }
",
        );
    }
}
