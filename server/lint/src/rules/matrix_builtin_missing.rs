//! `matrix-builtin-missing`

use std::ops::Range;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::walk;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "matrix-builtin-missing",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A matrix, dot or FP8 builtin, or an instruction in inline assembly, that the target does not have.",
    docs: r#"
## What it does
Looks up compiler builtins (`__builtin_amdgcn_mfma_*`, `_smfmac_`, `_wmma_`, `_sdot4`, `_cvt_*fp8*`, Hygon's
`__builtin_hcu_mmac_*`) and mnemonics in inline assembly (`v_mfma_*`, `v_accvgpr_*`, `v_mmac_*`) in a table of what each
target has, and reports those that the target is known to lack.

Silent is code that the target does not compile (`#if defined(__gfx90a__)`), and what no source says anything of.

## Why it matters on 64 lanes
The compiler stops with *needs target feature*, or crashes with *Cannot select*. Matrix instructions differ between targets in
shape and in how a tile lies over the 64 lanes, so that the next best one is not a drop-in.

## Example that fires
```hip fires
typedef float v4 __attribute__((ext_vector_type(4)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
__device__ v4 mul(h4 a, h4 b, v4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
}
```

## Example that does not
```hip quiet
typedef float v4 __attribute__((ext_vector_type(4)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
__device__ v4 mul(h4 a, h4 b, v4 c) {
#if defined(__gfx90a__) || defined(__gfx942__)
  return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
#else
  return c;
#endif
}
```

## Fix
A path for this target: MMAC through DUMMA on Hygon's, MFMA or rocWMMA from gfx908 on, dot products on gfx906, and the builtin
behind an `#if` of its targets. No fix is offered.

## Sources
`targets/builtins.toml`, where each entry names its source: probes with clang-19 and LLVM 22, the AMD matrix instruction
calculator, Hygon's public sources.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("__builtin_") && !cx.has_text("asm") {
        return;
    }
    for (_, f) in cx.subjects() {
        for call in &f.calls {
            if call.name.starts_with("__builtin_")
                && let Some(function) = call.node.child_by_field_name("function")
            {
                report(cx, &call.name, function.byte_range(), out);
            }
        }
        if !cx.text(f.body).contains("asm") {
            continue;
        }
        walk(f.body, &mut |n| {
            if n.kind() != "gnu_asm_expression" {
                return true;
            }
            if let Some(code) = n.child_by_field_name("assembly_code") {
                let text = cx.text(code);
                let word = text
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .find(|w| {
                        // `\nv_mfma...`: the escape's letter sticks to the word.
                        cx.target.lacks(w.trim_start_matches(['n', 't'])).is_some()
                    });
                if let Some(word) = word {
                    report(cx, word.trim_start_matches(['n', 't']), n.byte_range(), out);
                }
            }
            false
        });
    }
}

fn report(cx: &Context<'_>, name: &str, range: Range<usize>, out: &mut Vec<Diagnostic>) {
    let Some(lack) = cx.target.lacks(name) else {
        return;
    };
    let who = if lack.have.is_empty() {
        "no 64-lane target has it".to_owned()
    } else {
        format!("it is there on {}", lack.have.join(", "))
    };
    let instead = match cx.target.compute.matrix.as_str() {
        m if m.starts_with("mmac") => "use DUMMA (`du_mma.h`) or the target's `mmac` builtins",
        "mfma" => "use another MFMA shape or rocWMMA",
        "dot" => "use dot products or packed arithmetic",
        _ => "use vector arithmetic",
    };
    out.push(Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range,
        message: format!(
            "{} does not have `{name}`: {who}; {instead}, and keep this for its targets with `#if`",
            cx.target.name
        ),
        related: Vec::new(),
        fix: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect_on;

    const SOURCE: &str = "
__device__ void k(int* x, float* y) {
  x[0] = __builtin_amdgcn_mfma_f32_32x32x8f16(x[0], x[1], x[2], 0, 0, 0);
       //^ error: does not have `__builtin_amdgcn_mfma_f32_32x32x8f16`: it is there on gfx908
  x[1] = __builtin_amdgcn_sdot4(x[0], x[1], x[2], false);
  x[2] = __builtin_amdgcn_readfirstlane(x[3]);
  asm volatile(\"s_nop 1\\n\\tv_mfma_f32_4x4x1f32 %0, %1, %2, %0\" : \"+v\"(y[0]) : \"v\"(y[1]), \"v\"(y[2]));
//^ error: does not have `v_mfma_f32_4x4x1f32`
  asm volatile(\"v_add_f32 %0, %1, %2\" : \"=v\"(y[0]) : \"v\"(y[1]), \"v\"(y[2]));
}
";

    #[test]
    fn by_target() {
        expect_on(RULE.id, SOURCE, "gfx906");
        expect_on(RULE.id, SOURCE, "gfx928");
        let without: String = SOURCE
            .lines()
            .filter(|l| !l.trim_start().starts_with("//^"))
            .map(|l| format!("{l}\n"))
            .collect();
        expect_on(RULE.id, &without, "gfx90a");
        expect_on(RULE.id, &without, "gfx942");
    }
}
