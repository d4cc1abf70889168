//! `cuda-error-code`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::bare;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "cuda-error-code",
    family: Family::P,
    severity: Severity::Warning,
    scope: Scope::Function,
    summary: "An error code is compared by its number, which HIP does not share with CUDA for all codes.",
    docs: r#"
## What it does
Reports comparisons of a `hipError_t` or `cudaError_t` variable with a number other than 0.

Silent are comparisons with the named codes, and with 0, which is success on both sides.

## Why it matters on 64 lanes
HIP numbers its codes after CUDA's, but not all of them, and it changed numbers between versions: 1052 and 1053 are its own,
`hipErrorInvalidDeviceFunction` is 98 as in newer CUDA and was 8 before. A branch that handles *out of memory* by number silently
handles something else.

## Example that fires
```hip fires
bool retry(hipError_t e) { return e == 2; }
```

## Example that does not
```hip quiet
bool retry(hipError_t e) { return e == hipErrorOutOfMemory || e != 0; }
```

## Fix
Compare with the name (`hipErrorOutOfMemory`). No fix is offered: which code was meant depends on the version that the number was
taken from.

## Sources
`hip_runtime_api.h` (`hipError_t`); HIPIFY's table of runtime data types.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("Error_t") {
        return;
    }
    for (_, f) in cx.subjects() {
        for b in &f.binaries {
            if !matches!(b.operator, "==" | "!=") {
                continue;
            }
            let sides = [(b.left, b.right), (b.right, b.left)];
            let found = sides.into_iter().find(|(name, number)| {
                let (name, number) = (bare(*name), bare(*number));
                let code = number.kind() == "number_literal" && cx.text(number) != "0";
                code && name.kind() == "identifier"
                    && f.bindings
                        .resolve(cx.text(name), name.start_byte())
                        .is_some_and(|v| {
                            ["hipError_t", "cudaError_t"]
                                .iter()
                                .any(|t| v.type_text.ends_with(t))
                        })
            });
            let Some((_, number)) = found else { continue };
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Warning,
                range: b.node.byte_range(),
                message: format!(
                    "an error code is compared with the number {}: HIP does not share all of CUDA's numbers, nor keep its own; compare with the code's name",
                    cx.text(number)
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
    fn numbers() {
        expect(
            RULE.id,
            "
int f(hipError_t e, int n) {
  const hipError_t s = hipGetLastError();
  if (e == 2) return 1;
    //^ warning: the number 2
  if (719 != s) return 2;
    //^ warning: the number 719
  return e == hipSuccess || s == 0 || n == 3;
}
",
        );
    }
}
