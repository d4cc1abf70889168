//! `silent-empty-on-target`

use std::ops::Range;

use hipsmith_syntax::FunctionKind;
use hipsmith_syntax::lex::{TokenKind, tokens};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::Function;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "silent-empty-on-target",
    family: Family::P,
    severity: Severity::Warning,
    scope: Scope::File,
    summary: "The body of a device function is compiled for other devices only, so that it does nothing on this one.",
    docs: r#"
## What it does
Reports kernels and device functions with nothing left of their body for the chosen target, because all of it stands under a
condition on the architecture (`__gfx90a__`, `__GFX9__`, `__CUDA_ARCH__`, or a macro that is defined under such a condition).

A kernel that does nothing is a *warning*, as is a `void` function that should write through one of its parameters; a function
that has to return a value and has no `return` left is an *error*.

Silent when any statement or an `#error` is left, when the condition is about something else (debugging, features of the project),
and for `void` functions without an output, such as prefetches.

## Why it matters on 64 lanes
Lists of architectures are the commonest fault on DCUs: gfx906, gfx926, gfx928 and gfx936 are seldom on them. Nothing fails: the
kernel compiles, runs, and leaves in memory what was there before; a reduction that returns nothing returns a register's rest.

## Example that fires
```hip fires
__device__ float wave_sum(float v) {
#if defined(__gfx90a__) || defined(__gfx942__)
  for (int d = 32; d > 0; d /= 2) v += __shfl_xor(v, d);
  return v;
#endif
}
```

## Example that does not
```hip quiet
__device__ float wave_sum(float v) {
#if defined(__gfx90a__) || defined(__gfx942__)
  v = __builtin_amdgcn_wave_reduce_fadd(v, 0);
#else
  for (int d = 32; d > 0; d /= 2) v += __shfl_xor(v, d);
#endif
  return v;
}
```

## Fix
Write the branch for the other devices, or put an `#error` there. No fix is offered.

## Sources
FBGEMM (DPP reductions for listed devices), bitsandbytes (list of CDNA devices); C++ standard, [stmt.return] (flowing off the end).
"#,
    check,
};

/// Whether a condition asks for the architecture by itself.
fn names_device(condition: &str) -> bool {
    tokens(condition).iter().any(|t| {
        let word = t.text(condition);
        word.starts_with("__gfx")
            || word.starts_with("__GFX")
            || matches!(
                word,
                "__CUDA_ARCH__" | "__HIP_ARCH__" | "__CUDA_ARCH_LIST__"
            )
    })
}

/// The condition of the last `#if` or `#elif` before `at`.
fn condition_before(text: &str, at: usize) -> &str {
    text.get(..at)
        .unwrap_or("")
        .lines()
        .rev()
        .filter_map(condition)
        .next()
        .unwrap_or("")
}

/// What a line that opens a branch asks for.
fn condition(line: &str) -> Option<&str> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start();
    ["ifdef", "ifndef", "if", "elif"]
        .iter()
        .find_map(|w| directive.strip_prefix(w))
}

/// Whether a condition is about the architecture, directly or through a macro that only other devices define.
fn is_about_device(cx: &Context<'_>, condition: &str) -> bool {
    let text = cx.model.text();
    names_device(condition)
        || tokens(condition)
            .iter()
            .filter(|t| t.kind == TokenKind::Ident)
            .any(|t| {
                let word = t.text(condition);
                if word == "defined" {
                    return false;
                }
                let definition = format!("define {word}");
                text.match_indices(&definition).take(4).any(|(at, found)| {
                    let whole = text
                        .get(at + found.len()..)
                        .and_then(|r| r.chars().next())
                        .is_none_or(char::is_whitespace);
                    whole && cx.is_inactive(at) && names_device(condition_before(text, at))
                })
            })
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.document.inactive().is_empty() {
        return;
    }
    for f in &cx.functions {
        let body = f.body.byte_range();
        let inactive = cx.document.inactive();
        let first = inactive.partition_point(|r| r.end <= body.start);
        let gone: Vec<&Range<usize>> = inactive
            .iter()
            .skip(first)
            .take_while(|r| r.end <= body.end)
            .filter(|r| r.start >= body.start)
            .collect();
        if gone.is_empty() || !is_empty(cx, f) {
            continue;
        }
        out.extend(finding(cx, f, &gone));
    }
}

/// Whether nothing that the target compiles is left of a body.
fn is_empty(cx: &Context<'_>, f: &Function<'_>) -> bool {
    !f.body.has_error()
        && f.body.named_children().all(|c| {
            c.kind() == "comment"
                || c.kind() == "expression_statement"
                    && (cx.text(c).trim() == ";" || cx.text(c).starts_with("(void)"))
        })
}

fn finding(cx: &Context<'_>, f: &Function<'_>, gone: &[&Range<usize>]) -> Option<Diagnostic> {
    let model = cx
        .model
        .functions
        .iter()
        .find(|m| m.name_range == f.name_range)?;
    let text = cx.model.text();
    let code = |r: &&&Range<usize>| {
        let piece = text.get((**r).clone()).unwrap_or("");
        let mut lines = piece.lines();
        lines.any(|l| !l.trim_start().starts_with('#') && !tokens(l).is_empty())
    };
    let first = gone.iter().find(code)?;
    let whole = text.get(f.body.byte_range())?;
    let mut about = false;
    for (start, line) in lines(whole, f.body.start_byte()) {
        if let Some(c) = condition(line) {
            about |= is_about_device(cx, c);
        }
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        if directive.is_some_and(|d| d.starts_with("error")) && !cx.is_inactive(start) {
            return None;
        }
    }
    if !about {
        return None;
    }
    let target = &cx.target.name;
    let returns = !matches!(model.return_type.trim(), "void" | "auto" | "");
    let (severity, message) = match model.kind {
        FunctionKind::Kernel => (
            Severity::Warning,
            format!(
                "nothing in this kernel is compiled for {target}: launched, it does nothing and reports no error; write the branch for other devices, or an `#error`"
            ),
        ),
        FunctionKind::Device if returns => (
            Severity::Error,
            format!(
                "nothing in this function is compiled for {target}: it ends without the value that it has to return; write the branch for other devices, or an `#error`"
            ),
        ),
        FunctionKind::Device if writes_parameter(cx, f) => (
            Severity::Warning,
            format!(
                "nothing in this function is compiled for {target}, so its parameters stay unwritten; write the branch for other devices, or an `#error`"
            ),
        ),
        _ => return None,
    };
    Some(Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity,
        range: f.name_range.clone(),
        message,
        related: vec![(
            (*first).clone(),
            "this is compiled for other devices only".to_owned(),
        )],
        fix: None,
    })
}

/// Lines with where they start.
fn lines(text: &str, at: usize) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(at, |next, line| {
        let start = *next;
        *next += line.len();
        Some((start, line))
    })
}

/// Whether a parameter is a pointer or reference to what is not `const`.
fn writes_parameter(cx: &Context<'_>, f: &Function<'_>) -> bool {
    f.bindings.iter().any(|b| {
        b.kind == hipsmith_syntax::lanes::BindingKind::Parameter
            && b.compound
            && !cx.text(b.declaration).contains("const")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_on};

    #[test]
    fn empty_bodies() {
        expect(
            RULE.id,
            "
#if defined(__gfx942__)
#define USE_MATRIX 1
#endif
__global__ void k(float* x) {
              //^ warning: nothing in this kernel is compiled for gfx906
#ifdef USE_MATRIX
  x[0] = 1;
#endif
}
__device__ int lowest(int v) {
             //^ error: without the value
  // Of the wavefront.
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(~0u, v);
#endif
}
__device__ void store(float* x, float v) {
              //^ warning: stay unwritten
#if defined(__GFX11__)
  *x = v;
#endif
}
__device__ void prefetch(const float* x) {
#if defined(__GFX11__)
  asm volatile(\"global_load_dword v0, %0, off\" : : \"v\"(x));
#endif
}
",
        );
    }

    #[test]
    fn bodies_with_something_left() {
        expect(
            RULE.id,
            "
__global__ void k(float* x) {
#ifdef __gfx942__
  x[0] = 1;
#else
  x[0] = 2;
#endif
}
__global__ void debug(float* x) {
#ifdef DEBUG
  x[0] = 1;
#endif
}
__global__ void never(float* x) {
#ifdef __gfx942__
  x[0] = 1;
#else
#error unknown device
#endif
}
__global__ void stops(float* x) {
#ifdef __gfx942__
  x[0] = 1;
#else
  __builtin_trap();
#endif
}
__host__ __device__ int both(int* x) {
#ifdef __gfx942__
  return 1;
#endif
}
__global__ void placeholder(float* x) {}
",
        );
    }

    #[test]
    fn the_target_decides() {
        let code = "
__global__ void k(float* x) {
#ifdef __gfx928__
  x[0] = 1;
#endif
}
";
        expect_on(RULE.id, code, "gfx928");
        let fires = code.replace("{\n", "{\n              //^ warning: kernel\n");
        expect(RULE.id, &fires);
    }
}
