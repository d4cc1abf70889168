//! `sync-mask-32-bits`

use hipsmith_syntax::Node;
use hipsmith_syntax::lex::tokens;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{Function, unparenthesized};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "sync-mask-32-bits",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A `_sync` warp function is given a mask of 32 bits; HIP takes 64-bit masks only.",
    docs: r#"
## What it does
Reports a 32-bit mask (`0xffffffff`, `~0u`, `-1`, a macro or variable of 32 bits) as the first argument of
`__shfl*_sync`, `__ballot_sync`, `__any_sync`, `__all_sync`, `__match_*_sync` and `__reduce_*_sync`.

Silent when the file defines the function or a macro of its name itself. It is a hint only when the file includes
headers of its own project, because such wrappers often live there.

## Why it matters on 64 lanes
A mask has one bit per lane. HIP asserts at compile time that the mask type has 64 bits, because a 32-bit literal
would leave out lanes 32 to 63 (the assertion comes with the sync builtins of ROCm 6.2 and is on by default from 7.0).

## Example that fires
```hip fires
__device__ float sum(float v) {
  for (int offset = 32; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}
```

## Example that does not
```hip quiet
__device__ float sum(float v) {
  for (int offset = 32; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffffffffffULL, v, offset);
  return v;
}
```

## Fix
Write the mask with 64 bits. Safe for a literal; for a macro the fix changes its definition and needs a look at its
other uses.

## Sources
HIP header `amd_warp_sync_functions.h`: "The mask must be a 64-bit integer".
"#,
    check,
};

pub(super) fn takes_mask(name: &str) -> bool {
    matches!(
        name,
        "__shfl_sync"
            | "__shfl_up_sync"
            | "__shfl_down_sync"
            | "__shfl_xor_sync"
            | "__ballot_sync"
            | "__any_sync"
            | "__all_sync"
            | "__match_any_sync"
            | "__match_all_sync"
            | "__reduce_add_sync"
            | "__reduce_min_sync"
            | "__reduce_max_sync"
            | "__reduce_and_sync"
            | "__reduce_or_sync"
            | "__reduce_xor_sync"
    )
}

/// Bits of an integer literal.
fn literal_bits(text: &str) -> u32 {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']);
    let long = lower[digits.len()..].contains('l');
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    if long || value.is_ok_and(|v| v > u64::from(u32::MAX)) {
        64
    } else {
        32
    }
}

fn type_bits(text: &str) -> Option<u32> {
    let mut out = None;
    for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        match word {
            "long" | "uint64_t" | "int64_t" | "size_t" => return Some(64),
            "int" | "unsigned" | "uint32_t" | "int32_t" | "uint" => out = Some(32),
            "const" | "constexpr" | "static" | "volatile" | "" | "std" => {}
            _ => return None,
        }
    }
    out
}

/// Bits of a mask expression, where they can be told; and the macro it comes from.
fn mask_bits<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    node: Node<'t>,
) -> Option<(u32, Option<String>)> {
    let node = unparenthesized(node);
    match node.kind() {
        "number_literal" => Some((literal_bits(cx.text(node)), None)),
        "unary_expression" => mask_bits(cx, f, node.child_by_field_name("argument")?),
        "cast_expression" => Some((type_bits(cx.text(node.child_by_field_name("type")?))?, None)),
        "identifier" => {
            let name = cx.text(node);
            if let Some(b) = f.bindings.resolve(name, node.start_byte()) {
                return (!b.compound).then_some((type_bits(&b.type_text)?, None));
            }
            if let Some(m) = cx.model.macro_at(name, node.start_byte()) {
                let body = m.body.trim_matches(['(', ')', ' ', '~', '-']);
                let all = tokens(body);
                let [only] = all.as_slice() else { return None };
                let text = only.text(body);
                return text
                    .starts_with(|c: char| c.is_ascii_digit())
                    .then(|| (literal_bits(text), Some(name.to_owned())));
            }
            let v = cx.model.variable_at(name, node.start_byte())?;
            (v.ty.pointers == 0).then_some((type_bits(&v.ty.base)?, None))
        }
        _ => None,
    }
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let own_headers = cx.model.includes().iter().any(|(_, quoted)| *quoted);
    for (_, f) in cx.subjects() {
        for call in &f.calls {
            if !takes_mask(&call.name) || cx.redefines(&call.name) {
                continue;
            }
            let Some(mask) = call.args.first() else {
                continue;
            };
            let Some((32, origin)) = mask_bits(cx, f, *mask) else {
                continue;
            };
            if cx.only_on_32(f, call.node) {
                continue;
            }
            let text = cx.text(*mask);
            let fix = match &origin {
                Some(name) => cx.model.macro_at(name, mask.start_byte()).and_then(|m| {
                    let definition = cx.model.text().get(m.range.clone())?;
                    let at = m.range.start + definition.rfind(m.body.as_str())?;
                    Some(Fix::new(
                        format!("Define `{name}` with 64 bits"),
                        vec![(at..at + m.body.len(), "0xffffffffffffffffULL".into())],
                        Safety::Unsafe,
                    ))
                    .filter(|_| all_ones(&m.body))
                }),
                None => all_ones(text).then(|| {
                    Fix::new(
                        "Write the mask with 64 bits",
                        vec![(mask.byte_range(), "0xffffffffffffffffULL".into())],
                        Safety::Safe,
                    )
                }),
            };
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: if own_headers { Severity::Hint } else { Severity::Error },
                range: mask.byte_range(),
                message: format!(
                    "`{text}` has 32 bits, but `{}` takes a mask of 64, one bit per lane: HIP refuses to compile it{}; use `0xffffffffffffffffULL` for all lanes",
                    call.name,
                    if own_headers { " unless a header of the project redefines the function" } else { "" },
                ),
                related: Vec::new(),
                fix,
            });
        }
    }
}

pub(super) fn all_ones(text: &str) -> bool {
    let plain: String = text
        .to_ascii_lowercase()
        .chars()
        .filter(|c| !matches!(c, '(' | ')' | ' ' | 'u' | 'l'))
        .collect();
    matches!(
        plain.as_str(),
        "0xffffffff" | "~0" | "-1" | "~0x0" | "4294967295"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn kinds_of_masks() {
        expect(
            RULE.id,
            "
#define FULL_MASK 0xffffffff
#define WIDE_MASK 0xffffffffffffffffull
__device__ int f(int v, unsigned mask, unsigned long long wide) {
  v += __shfl_xor_sync(FULL_MASK, v, 1);
                     //^ error: `FULL_MASK` has 32 bits
  v += __shfl_xor_sync(mask, v, 1);
                     //^ error: `mask` has 32 bits
  v += __any_sync(~0u, v);
                //^ error: `~0u` has 32 bits
  v += __shfl_xor_sync(WIDE_MASK, v, 1) + __shfl_xor_sync(wide, v, 1) + __shfl_xor_sync(~0ull, v, 1);
  v += __shfl_xor_sync(__activemask(), v, 1) + __shfl_xor_sync(UNKNOWN, v, 1);
  return v;
}
",
        );
    }

    #[test]
    fn wrappers_of_the_file_are_silent() {
        expect(
            RULE.id,
            "
#define __shfl_xor_sync(mask, v, l) __shfl_xor(v, l)
__device__ int f(int v) { return __shfl_xor_sync(0xffffffff, v, 1); }
",
        );
    }

    #[test]
    fn project_headers_make_it_a_hint() {
        expect(
            RULE.id,
            "
#include \"compat.h\"
__device__ int f(int v) { return __shfl_xor_sync(0xffffffff, v, 1); }
                                               //^ hint: unless a header
",
        );
    }

    #[test]
    fn fix() {
        expect_fix(
            RULE.id,
            "__device__ int f(int v) { return __shfl_xor_sync(0xffffffffu, v, 1); }\n",
            "__device__ int f(int v) { return __shfl_xor_sync(0xffffffffffffffffULL, v, 1); }\n",
            Safety::Safe,
        );
    }
}
