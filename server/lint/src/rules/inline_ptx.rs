//! `inline-ptx`

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::walk;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "inline-ptx",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "Inline assembly is PTX, NVIDIA's instruction set, which no compiler for HIP on AMD or Hygon takes.",
    docs: r#"
## What it does
Reports `asm` statements whose text is PTX: typed mnemonics such as `ld.global.u32`, `mma.sync` or `cp.async`, and special
registers such as `%laneid`.

GCN assembly (`v_*`, `s_*`, `ds_*`, `buffer_*`, `global_*`) is legal and silent, and so is code that the target does not
compile (`#ifdef __CUDA_ARCH__`).

## Why it matters on 64 lanes
It does not assemble. And much of it encodes 32 lanes: `%laneid` ends at 31 and a warp matrix fragment is laid out for
32 lanes, so a translation line by line would be wrong on 64.

## Example that fires
```hip fires
__device__ unsigned lane() {
  unsigned id;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
```

## Example that does not
```hip quiet
__device__ int product(int a, int b) {
  int c;
  asm volatile("v_mul_i32_i24 %0, %1, %2" : "=v"(c) : "v"(a), "v"(b));
  return c + __lane_id();
}
```

## Fix
HIP's builtins: `__lane_id()` for `%laneid`, `__builtin_nontemporal_load` for cache hints, rocWMMA or the target's matrix
builtins for `mma.sync`, plain vector loads for `cp.async`. No fix is offered.

## Sources
HIP porting guide, inline assembly.
"#,
    check,
};

/// What only PTX has.
const MARKS: [&str; 30] = [
    "%laneid",
    "%lanemask",
    "%warpid",
    "%smid",
    "%clock",
    "%globaltimer",
    "mma.sync",
    "ldmatrix",
    "cp.async",
    "cvta.",
    "mbarrier",
    "elect.sync",
    "fence.",
    "bar.sync",
    "barrier.sync",
    "ld.global",
    "ld.shared",
    "ld.param",
    "ld.acquire",
    "ld.volatile",
    "st.global",
    "st.shared",
    "st.release",
    "st.volatile",
    "mov.u32",
    "mov.b32",
    "lop3.",
    "prmt.",
    "cvt.",
    "createpolicy",
];

fn is_ptx(assembly: &str) -> bool {
    MARKS.iter().any(|m| assembly.contains(m))
        || assembly
            .split(|c: char| c.is_whitespace() || c == '"')
            .any(|word| {
                // `add.f16x2`, `ex2.approx.ftz.f32`: a dotted mnemonic that ends in a type.
                let Some((head, last)) = word.rsplit_once('.') else {
                    return false;
                };
                let types = [
                    "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f32",
                    "f64", "f16x2", "bf16", "bf16x2", "b128", "pred",
                ];
                types.contains(&last)
                    && head.starts_with(|c: char| c.is_ascii_lowercase())
                    && !head.contains('_')
            })
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("asm") {
        return;
    }
    for (_, f) in cx.subjects() {
        walk(f.body, &mut |n| {
            if n.kind() != "gnu_asm_expression" {
                return true;
            }
            let Some(code) = n.child_by_field_name("assembly_code") else {
                return false;
            };
            if is_ptx(cx.text(code)) {
                let first = cx.text(code).trim_matches(['"', '{', ' ', '\\', 't', 'n']);
                let word: String = first
                    .chars()
                    .take_while(|c| !c.is_whitespace() && *c != '"')
                    .collect();
                out.push(Diagnostic {
                    rule: RULE.id,
                    family: RULE.family,
                    severity: Severity::Error,
                    range: n.byte_range(),
                    message: format!(
                        "inline PTX (`{word}`) does not assemble for {}; use HIP's builtins instead",
                        cx.target.name
                    ),
                    related: Vec::new(),
                    fix: None,
                });
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn ptx_and_gcn() {
        expect(
            RULE.id,
            "
__global__ void k(int* x) {
  asm volatile(\"ld.global.nc.u32 %0, [%1];\" : \"=r\"(x[0]) : \"l\"(x));
  //~ error: inline PTX (`ld.global.nc.u32`)
  asm volatile(\"s_waitcnt vmcnt(0)\");
  asm volatile(\"v_add_f32 %0, %1, %2\" : \"=v\"(x[0]) : \"v\"(x[1]), \"v\"(x[2]));
  asm(\"ds_read_b128 %0, %1 offset:16\" : \"=v\"(x[0]) : \"v\"(x[1]));
#ifdef __CUDA_ARCH__
  asm volatile(\"bar.sync 0;\");
#endif
}
",
        );
    }
}
