//! `wave-size-on-host`

use std::collections::HashMap;
use std::ops::Range;

use hipsmith_syntax::FunctionKind;
use hipsmith_syntax::lex::{TokenKind, tokens};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "wave-size-on-host",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::File,
    summary: "Host code uses a wave size that only the device pass of the compiler knows: the host gets 32, the kernels 64.",
    docs: r#"
## What it does
Looks at constants, macros and functions that are 64 in one branch of a preprocessor condition and 32 in another, where the
condition asks for the device's architecture (`__GFX9__`, `__gfx906__`, `__AMDGCN_WAVEFRONT_SIZE`). Reports their use in
functions of the host: launch sizes, grids, sizes of buffers.

Silent when the condition also holds in the host pass (`__HIP_PLATFORM_AMD__`, `USE_ROCM`), and where the value is only
printed.

## Why it matters on 64 lanes
A HIP file is compiled twice. Architecture macros are defined in the device pass only, so in the host pass the same name is
32: the host launches blocks and counts rows for 32 lanes while the kernel works with 64.

## Example that fires
```hip fires
#if defined(__GFX9__)
#define WARP_SIZE 64
#else
#define WARP_SIZE 32
#endif
__global__ void rows(float* x) { x[threadIdx.x / WARP_SIZE] = 0; }
void launch(float* x, int n) { rows<<<n, 4 * WARP_SIZE>>>(x); }
```

## Example that does not
```hip quiet
#if defined(__GFX9__)
#define WARP_SIZE 64
#else
#define WARP_SIZE 32
#endif
__global__ void rows(float* x) { x[threadIdx.x / WARP_SIZE] = 0; }
void launch(float* x, int n, int warp_size) { rows<<<n, 4 * warp_size>>>(x); }
```

## Fix
Ask the device in host code (`hipDeviceGetAttribute` with `hipDeviceAttributeWarpSize`), and pass the size to templates for
both values. No fix is offered.

## Sources
vLLM (topk_softmax) and bitsandbytes (gemv grids): wave size macros that the host pass sees as 32.
"#,
    check,
};

/// A definition of 32 or 64 in a branch of a conditional.
struct Definition {
    name: String,
    value: i64,
    at: usize,
    conditional: usize,
    branch: usize,
}

/// Whether a condition can hold in the device pass only.
fn device_only(condition: &str) -> bool {
    if condition.contains('!') {
        return false;
    }
    let mut any = false;
    let all = tokens(condition).iter().all(|t| {
        if t.kind != TokenKind::Ident {
            return true;
        }
        let word = t.text(condition);
        let device = word.starts_with("__gfx")
            || word.starts_with("__GFX")
            || word.starts_with("__AMDGCN_WAVEFRONT_SIZE")
            || word == "__HIP_DEVICE_COMPILE__";
        any |= device;
        device || word == "defined" || word.starts_with("__HIP_PLATFORM_") || word == "__HIPCC__"
    });
    any && all
}

/// The value and name that a line defines: `#define W 64`, `constexpr int W = 64;`, `return 64;` (then the function's name).
fn definition(cx: &Context<'_>, line: &str, at: usize) -> Option<(String, i64)> {
    let all = tokens(line);
    let number = |text: &str| {
        text.trim_end_matches(['u', 'U', 'l', 'L'])
            .parse::<i64>()
            .ok()
            .filter(|v| *v == 32 || *v == 64)
    };
    let words: Vec<&str> = all.iter().map(|t| t.text(line)).collect();
    match words[..] {
        ["#", "define", name, value] | ["#", "define", name, "(", value, ")"] => {
            Some((name.to_owned(), number(value)?))
        }
        ["return", value, ";"] => {
            let f = cx
                .model
                .function_at(at)
                .and_then(|i| cx.model.functions.get(i))?;
            Some((f.name.clone(), number(value)?))
        }
        [.., name, "=", value, ";"]
            if words.iter().any(|w| matches!(*w, "const" | "constexpr")) =>
        {
            Some((name.to_owned(), number(value)?))
        }
        _ => None,
    }
}

/// Names whose value depends on the pass, with the place of the value that the host sees.
fn names(cx: &Context<'_>) -> HashMap<String, Range<usize>> {
    let text = cx.model.text();
    let mut conditionals: Vec<Vec<String>> = Vec::new();
    let mut stack: Vec<usize> = Vec::new();
    let mut found: Vec<Definition> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let line = line.trim();
        let directive = line.strip_prefix('#').map(str::trim_start);
        let split = |d: &str| {
            let word: String = d.chars().take_while(|c| c.is_alphabetic()).collect();
            let rest = d.get(word.len()..).unwrap_or("").trim().to_owned();
            (word, rest)
        };
        if let Some((word, rest)) = directive.map(split) {
            match word.as_str() {
                "if" | "ifdef" => {
                    stack.push(conditionals.len());
                    conditionals.push(vec![rest]);
                    continue;
                }
                "ifndef" => {
                    stack.push(conditionals.len());
                    conditionals.push(vec![format!("!{rest}")]);
                    continue;
                }
                "elif" | "else" => {
                    if let Some(open) = stack.last().and_then(|i| conditionals.get_mut(*i)) {
                        open.push(rest);
                    }
                    continue;
                }
                "endif" => {
                    stack.pop();
                    continue;
                }
                _ => {}
            }
        }
        if let Some(conditional) = stack.last()
            && (line.contains("64") || line.contains("32"))
            && let Some((name, value)) = definition(cx, line, at)
        {
            let branch = conditionals
                .get(*conditional)
                .map_or(0, Vec::len)
                .saturating_sub(1);
            found.push(Definition {
                name,
                value,
                at,
                conditional: *conditional,
                branch,
            });
        }
    }
    let mut out = HashMap::new();
    for wide in found.iter().filter(|d| d.value == 64) {
        let device = conditionals
            .get(wide.conditional)
            .and_then(|c| c.get(wide.branch))
            .is_some_and(|c| device_only(c));
        let narrow = found.iter().find(|d| {
            d.value == 32
                && d.name == wide.name
                && d.conditional == wide.conditional
                && d.branch > wide.branch
        });
        if let (true, Some(narrow)) = (device, narrow) {
            let end = text[narrow.at..]
                .find('\n')
                .map_or(text.len(), |i| narrow.at + i);
            out.insert(wide.name.clone(), narrow.at..end);
        }
    }
    out
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let text = cx.model.text();
    if !text.contains("64") || !text.contains("32") || !text.contains("#el") {
        return;
    }
    let mut names = names(cx);
    if names.is_empty() {
        return;
    }
    // `constexpr int kWarp = WARP_SIZE;` carries it on.
    for v in cx
        .model
        .variables
        .iter()
        .filter(|v| v.is_const && v.scope.start == 0)
    {
        if let Some(range) = v
            .init
            .as_ref()
            .and_then(|i| names.get(i.text.trim()))
            .cloned()
        {
            names.insert(v.name.clone(), range);
        }
    }
    for (index, f) in cx.model.functions.iter().enumerate() {
        if f.kind != FunctionKind::Host || names.contains_key(&f.name) {
            continue;
        }
        let body = text.get(f.body.clone()).unwrap_or("");
        // A helper behind a project's own word for `__device__` looks like a function of the host.
        let on_host = cx.model.launches.iter().any(|l| l.function == Some(index))
            || [
                "dim3",
                "hipMalloc",
                "hipMemcpy",
                "hipLaunch",
                "cudaMalloc",
                "std::vector",
                "hipOccupancy",
                "cudaOccupancy",
            ]
            .iter()
            .any(|w| body.contains(w))
            || f.name == "main";
        if !on_host {
            continue;
        }
        for t in tokens(body) {
            if t.kind != TokenKind::Ident {
                continue;
            }
            let Some(range) = names.get(t.text(body)) else {
                continue;
            };
            let at = f.body.start + t.range.start..f.body.start + t.range.end;
            // What is only printed decides nothing.
            let before = body.get(..t.range.start).unwrap_or("");
            let statement = before.rsplit([';', '{', '}']).next().unwrap_or("");
            let printed = ["printf", "cout", "cerr"]
                .iter()
                .any(|w| statement.contains(w));
            if printed || cx.is_inactive(at.start) {
                continue;
            }
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: Severity::Error,
                range: at,
                message: format!(
                    "`{}` is 32 in the host pass, which knows no architecture, but 64 in the kernels on {}: host and device disagree; ask the device for its wave size here",
                    t.text(body),
                    cx.target.name
                ),
                related: vec![(range.clone(), "the value that the host sees".into())],
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
    fn macros_constants_and_functions() {
        expect(
            RULE.id,
            "
#if defined(__HIP_PLATFORM_AMD__) && defined(__GFX9__)
constexpr int kWarp = 64;
#else
constexpr int kWarp = 32;
#endif
#ifdef USE_ROCM
#define BOTH 64
#else
#define BOTH 32
#endif
#if defined(__GFX9__) || !defined(__HIP_DEVICE_COMPILE__)
#define KNOWN 64
#else
#define KNOWN 32
#endif
constexpr int wave() {
#if __AMDGCN_WAVEFRONT_SIZE == 64
  return 64;
#else
  return 32;
#endif
}
constexpr int kLanes = kWarp;
__global__ void k(float* x) { x[threadIdx.x / kWarp] = wave() + kLanes; }
void go(float* x, int n) {
  dim3 block(kWarp, 4);
           //^ error: is 32 in the host pass
  k<<<n / BOTH, block>>>(x);
  k<<<n / kLanes, 4 * wave()>>>(x);
        //^ error: `kLanes` is 32 in the host pass
                    //^ error: `wave` is 32 in the host pass
  k<<<n, KNOWN>>>(x);
  printf(\"%d lanes\", kWarp);
}
MY_DEVICE int helper(int t) { return t / kWarp; }
",
        );
    }
}
