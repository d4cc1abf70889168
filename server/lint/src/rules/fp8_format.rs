//! `fp8-format`

use std::ops::Range;

use hipsmith_syntax::FunctionKind;
use hipsmith_syntax::lex::tokens;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "fp8-format",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::File,
    summary: "An 8-bit float in a format that the target's hardware does not have, or a type that exists for some targets only.",
    docs: r#"
## What it does
Two checks. In device code it reports 8-bit float types of the format that the target does not decode: OCP (`__hip_fp8_e4m3`,
`__nv_fp8_e4m3`) on a target with FNUZ, and FNUZ (`__hip_fp8_e4m3_fnuz`) on one with OCP. And it reports type names that are
defined only under `HIP_FP8_TYPE_FNUZ` or `HIP_FP8_TYPE_OCP`, with no `#else`, and used outside: for a target without FP8, and
in the host's pass with some versions of the headers, neither macro is set and the name does not exist. Where a switch of the
project (`#ifdef ENABLE_FP8`) leaves the code out, which its build may set, the second is a warning.

| target | format |
|---|---|
| gfx942 | FNUZ |
| gfx950, gfx938 | OCP |
| gfx900, gfx906, gfx908, gfx90a, gfx926, gfx928, gfx936 | none |

## Why it matters on 64 lanes
The two formats differ in bias by one: the same byte is half as large, and 0x80 is NaN in one and minus zero in the other.
Weights stored in one format and decoded in the other are wrong by a factor of two without an error.

## Example that fires
```hip fires
#if HIP_FP8_TYPE_FNUZ
using fp8 = __hip_fp8_e4m3_fnuz;
#elif HIP_FP8_TYPE_OCP
using fp8 = __hip_fp8_e4m3;
#endif
__device__ float to_float(fp8 x) { return float(x); }
```

## Example that does not
```hip quiet
#if HIP_FP8_TYPE_OCP
using fp8 = __hip_fp8_e4m3;
#else
using fp8 = __hip_fp8_e4m3_fnuz;
#endif
__device__ float to_float(fp8 x) { return float(x); }
```

## Fix
Choose the type by target with an `#else`, and rescale by two where stored data is in the other format. No fix is offered.

## Sources
Target tables (`compute.fp8`); HIP's `amd_hip_fp8.h` (`HIP_FP8_TYPE_FNUZ`, `HIP_FP8_TYPE_OCP`); vLLM pull request 13851 (no
type in the host's pass); llama.cpp pull request 21040 (OCP type on gfx942).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.model.text().contains("fp8") && !cx.model.text().contains("FP8") {
        return;
    }
    formats(cx, out);
    one_sided(cx, out);
}

/// Whether a type is FNUZ; `None` when it is no 8-bit float.
fn is_fnuz(word: &str) -> Option<bool> {
    let rest = word
        .strip_prefix("__hip_fp8")
        .or_else(|| word.strip_prefix("__nv_fp8"))?;
    let rest = rest
        .strip_prefix("x2")
        .or_else(|| rest.strip_prefix("x4"))
        .unwrap_or(rest);
    match rest {
        "_e4m3" | "_e5m2" => Some(false),
        "_e4m3_fnuz" | "_e5m2_fnuz" => Some(true),
        _ => None,
    }
}

fn formats(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let fnuz = match cx.target.compute.fp8.as_str() {
        f if f.starts_with("FNUZ") => true,
        f if f.starts_with("OCP") => false,
        _ => return,
    };
    let mut said = None;
    for token in cx.words() {
        let word = token.text(cx.source);
        let Some(wanted) = is_fnuz(word).filter(|w| *w != fnuz) else {
            continue;
        };
        let function = cx.model.function_at(token.range.start);
        let device = function
            .and_then(|i| cx.model.functions.get(i))
            .is_some_and(|f| matches!(f.kind, FunctionKind::Kernel | FunctionKind::Device));
        if !device || said == function || cx.redefines(word) {
            continue;
        }
        said = function;
        let (has, is) = if fnuz {
            ("FNUZ", "OCP")
        } else {
            ("OCP", "FNUZ")
        };
        debug_assert_eq!(wanted, !fnuz);
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Error,
            range: token.range.clone(),
            message: format!(
                "`{word}` is the {is} format, but {} decodes {has}: the exponent's bias differs by one, so the same byte means another number; use `{}`",
                cx.target.name,
                if fnuz {
                    format!("{}_fnuz", word.replace("__nv_", "__hip_"))
                } else {
                    word.trim_end_matches("_fnuz").to_owned()
                }
            ),
            related: Vec::new(),
            fix: None,
        });
    }
}

/// A conditional that asks for the format's macros.
struct Conditional {
    /// The first line.
    line: Range<usize>,
    /// Every branch so far asks for a format.
    only_formats: bool,
    has_else: bool,
    /// Names defined in its branches.
    names: Vec<String>,
    /// A switch of the project, which its build may set: not a question about the platform.
    switch: bool,
}

/// Whether `#ifdef NAME` asks for a switch of the project.
fn is_switch(word: &str, condition: &str) -> bool {
    let name = condition.trim();
    let upper = name.to_ascii_uppercase();
    matches!(word, "ifdef" | "ifndef")
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !["CUDA", "NVIDIA", "NVCC", "__", "APPLE", "WIN32"]
            .iter()
            .any(|p| upper.contains(p))
}

/// Types that exist only when one of the format's macros is set.
fn one_sided(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let text = cx.model.text();
    if !text.contains("HIP_FP8_TYPE_") || !cx.target.compute.fp8.starts_with("none") {
        return;
    }
    let asks = |condition: &str| {
        let condition = condition.trim();
        condition.contains("HIP_FP8_TYPE_") && !condition.contains('!')
    };
    let mut open: Vec<Conditional> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let range = start..start + line.trim_end().len();
        start += line.len();
        let trimmed = line.trim();
        if let Some(directive) = trimmed.strip_prefix('#') {
            let directive = directive.trim();
            let word = directive
                .split(|c: char| !c.is_alphabetic())
                .next()
                .unwrap_or("");
            let rest = directive.get(word.len()..).unwrap_or("");
            match word {
                "if" | "ifdef" | "ifndef" => open.push(Conditional {
                    line: range,
                    only_formats: word != "ifndef" && asks(rest),
                    has_else: false,
                    names: Vec::new(),
                    switch: is_switch(word, rest),
                }),
                "elif" => {
                    if let Some(c) = open.last_mut() {
                        c.only_formats &= asks(rest);
                        c.switch = false;
                    }
                }
                "else" => {
                    if let Some(c) = open.last_mut() {
                        c.has_else = true;
                        c.switch = false;
                    }
                }
                "endif" => {
                    if let Some(c) = open.pop() {
                        let switches = open.iter().all(|o| o.switch);
                        finish(cx, text, &c, start, switches, out);
                    }
                }
                _ => {}
            }
            continue;
        }
        let Some(c) = open.last_mut().filter(|c| c.only_formats) else {
            continue;
        };
        let name = if let Some(rest) = trimmed.strip_prefix("using ") {
            rest.split_once('=').map(|(n, _)| n.trim())
        } else if let Some(rest) = trimmed.strip_prefix("typedef ") {
            rest.trim_end_matches(';').split_whitespace().last()
        } else {
            None
        };
        if let Some(name) = name.filter(|n| n.chars().all(|c| c.is_alphanumeric() || c == '_')) {
            c.names.push(name.to_owned());
        }
    }
}

fn finish(
    cx: &Context<'_>,
    text: &str,
    c: &Conditional,
    end: usize,
    switches: bool,
    out: &mut Vec<Diagnostic>,
) {
    // What only a switch of the project leaves out is compiled when the build sets it.
    let doubt = cx.is_inactive(c.line.start);
    if !c.only_formats || c.has_else || c.names.is_empty() || doubt && !switches {
        return;
    }
    // Used after it, in code that is compiled, and not defined elsewhere.
    let code = if doubt { text } else { cx.source };
    let Some(rest) = code.get(end..) else {
        return;
    };
    let used = tokens(rest)
        .into_iter()
        .find(|t| c.names.iter().any(|n| n == t.text(rest)));
    let Some(used) = used else { return };
    let name = used.text(rest).to_owned();
    let elsewhere = [format!("using {name} "), format!("using {name}=")]
        .iter()
        .any(|d| {
            text.match_indices(d.as_str())
                .any(|(at, _)| at < c.line.start || at > end)
        });
    if elsewhere {
        return;
    }
    out.push(Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: if doubt {
            Severity::Warning
        } else {
            Severity::Error
        },
        range: c.line.clone(),
        message: format!(
            "`{name}` is defined only where a format of FP8 is set, but {} has none, and some versions of the headers set none in the host's pass either: what uses it does not compile; give the choice an `#else`",
            cx.target.name
        ),
        related: vec![(
            end + used.range.start..end + used.range.end,
            format!("`{name}` is used here"),
        )],
        fix: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect_on;

    #[test]
    fn formats_by_target() {
        let ocp = "
void host(__hip_fp8_e4m3 x);
__device__ float k(const unsigned char* p) {
  __hip_fp8_e4m3 x;
//^ error: is the OCP format, but gfx942 decodes FNUZ
  return float(x);
}
__device__ float l(__hip_fp8_e5m2_fnuz x) { return float(x); }
";
        expect_on(RULE.id, ocp, "gfx942");
        let fnuz = "
__device__ float l(const unsigned char* p) {
  __hip_fp8x2_e5m2_fnuz x;
//^ error: use `__hip_fp8x2_e5m2`
  __hip_fp8_e4m3 y;
  return float(y);
}
";
        expect_on(RULE.id, fnuz, "gfx950");
        let silent =
            "__device__ float l(__hip_fp8_e5m2_fnuz x) { __hip_fp8_e4m3 y; return float(x); }\n";
        expect_on(RULE.id, silent, "gfx906");
    }

    #[test]
    fn types_of_some_targets() {
        let source = "
#if HIP_FP8_TYPE_FNUZ
//~ error: `f8` is defined only where a format of FP8 is set
using f8 = __hip_fp8_e4m3_fnuz;
#elif HIP_FP8_TYPE_OCP
using f8 = __hip_fp8_e4m3;
#endif
#if HIP_FP8_TYPE_FNUZ
using unused = __hip_fp8_e4m3_fnuz;
#endif
#if HIP_FP8_TYPE_OCP
typedef __hip_fp8_e5m2 g8;
__device__ float n(g8 x) { return float(x); }
#endif
__device__ float m(f8 x) { return float(x); }
";
        expect_on(RULE.id, source, "gfx928");
        for (switch, expected) in [
            ("WITH_FP8", "//~ warning: `f8` is defined only where"),
            ("__CUDACC__", ""),
        ] {
            let guarded = format!(
                "#ifdef {switch}\n#if HIP_FP8_TYPE_OCP\n{expected}\nusing f8 = __hip_fp8_e4m3;\n#endif\nvoid m(f8 x);\n#endif\n"
            );
            expect_on(RULE.id, &guarded, "gfx928");
        }
        let without: String = source
            .lines()
            .filter(|l| !l.contains("//~"))
            .map(|l| format!("{l}\n"))
            .collect();
        expect_on(RULE.id, &without, "gfx942");
    }
}
