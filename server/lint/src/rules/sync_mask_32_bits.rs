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

Also a function of such a name that takes a mask of 32 bits and hands it on.

Silent when the file or a header that it includes defines a macro of the name. It is a warning when the file includes
headers of its own project, because such wrappers often live there, and a hint when one of these is about HIP.

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

/// Bits of a mask expression, where they can be told; and the macro it comes from.
fn mask_bits<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    node: Node<'t>,
    depth: u32,
) -> Option<(u32, Option<String>)> {
    let node = unparenthesized(node);
    match node.kind() {
        "number_literal" => Some((literal_bits(cx.text(node)), None)),
        "unary_expression" => mask_bits(cx, f, node.child_by_field_name("argument")?, depth),
        "cast_expression" => Some((
            cx.bits(
                Some(f),
                cx.text(node.child_by_field_name("type")?),
                node.start_byte(),
            )?,
            None,
        )),
        "identifier" => {
            let name = cx.text(node);
            if let Some(b) = f.bindings.resolve(name, node.start_byte()) {
                if b.compound {
                    return None;
                }
                // `auto mask = 0xffffffff;`
                if b.type_text.split_whitespace().any(|w| w == "auto") {
                    let init = b.init.filter(|_| depth < 4)?;
                    return Some((mask_bits(cx, f, init, depth + 1)?.0, None));
                }
                let bits = cx.bits(Some(f), &b.type_text, b.name.start_byte())?;
                return Some((bits, None));
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
            (v.ty.pointers == 0).then_some((cx.bits(None, &v.ty.base, usize::MAX)?, None))
        }
        // `Traits::kMask`, `p.mask`, `1u << lane`
        "qualified_identifier" => {
            let v = cx.model.variable_at(cx.text(node), node.start_byte())?;
            (v.ty.pointers == 0).then_some((cx.bits(None, &v.ty.base, usize::MAX)?, None))
        }
        "field_expression" => {
            let ty = cx.member_type(cx.text(node.child_by_field_name("field")?))?;
            Some((cx.bits(None, ty, usize::MAX)?, None))
        }
        "binary_expression" if depth < 4 => {
            let b = crate::facts::binary(node)?;
            let left = mask_bits(cx, f, b.left, depth + 1)?.0;
            let bits = match b.operator {
                "<<" | ">>" => left,
                "&" | "|" | "^" | "-" | "+" => left.max(mask_bits(cx, f, b.right, depth + 1)?.0),
                _ => return None,
            };
            Some((bits, None))
        }
        "call_expression" => {
            // A function of the file that returns a mask.
            let g = cx.only_function(crate::facts::callee_name(cx.source, node))?;
            Some((cx.return_bits(g)?, None))
        }
        _ => None,
    }
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let own_headers = cx.model.includes().iter().any(|(_, quoted)| *quoted);
    for (_, f) in cx.subjects() {
        wrapper(cx, f, out);
        for call in &f.calls {
            // A macro of a header that is followed counts as the file's own.
            if !takes_mask(&call.name)
                || cx.redefines(&call.name)
                || cx.model.macro_at(&call.name, usize::MAX).is_some()
            {
                continue;
            }
            let Some(mask) = call.args.first() else {
                continue;
            };
            let Some((32, origin)) = mask_bits(cx, f, *mask, 0) else {
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
                severity: if !own_headers {
                    Severity::Error
                } else if cx.may_be_mapped(&call.name) {
                    Severity::Hint
                } else {
                    Severity::Warning
                },
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

/// `T __shfl_down_sync(unsigned mask, T v, ...) { return __shfl_down_sync(mask, v.base(), ...); }`
fn wrapper<'t>(cx: &Context<'t>, f: &Function<'t>, out: &mut Vec<Diagnostic>) {
    if !takes_mask(&f.name) {
        return;
    }
    let first = f
        .bindings
        .iter()
        .find(|b| b.kind == hipsmith_syntax::lanes::BindingKind::Parameter);
    if let Some(mask) = first {
        let name = cx.text(mask.name);
        // By its text: calls of conversions (`v.operator T()`) do not parse.
        let hands_on = cx.text(f.body).contains(&format!("_sync({name},"));
        let short = cx.is_short(Some(f), &mask.type_text, mask.name.start_byte());
        if !hands_on || mask.compound || !short {
            return;
        }
        let ty = mask.declaration.child_by_field_name("type");
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Error,
            range: mask.declaration.byte_range(),
            message: format!(
                "`{}` takes its mask as `{}` and hands it on, but HIP's masks have 64 bits, one per lane: it does not compile with them; take `unsigned long long`",
                f.name, mask.type_text
            ),
            related: Vec::new(),
            fix: ty.map(|t| {
                Fix::new(
                    "Take a mask of 64 bits",
                    vec![(t.byte_range(), "unsigned long long".into())],
                    Safety::Unsafe,
                )
            }),
        });
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
    fn masks_through_names() {
        expect(
            RULE.id,
            "
typedef unsigned mask_t;
using wide_t = unsigned long long;
constexpr unsigned kAll = 0xffffffffu;
const wide_t kWide = ~0ull;
enum { ALL = 0xffffffff };
struct Group { mask_t mask; wide_t lanes; static constexpr unsigned kMask = 0xffffffff; };
__device__ unsigned active() { return 0xffffu; }
__device__ int f(int v, Group g, int lane) {
  auto all = 0xffffffff;
  v += __shfl_xor_sync(kAll, v, 1);
                     //^ error: `kAll` has 32 bits
  v += __shfl_xor_sync(all, v, 1);
                     //^ error: `all` has 32 bits
  v += __shfl_xor_sync(g.mask, v, 1) + __shfl_xor_sync(g.lanes, v, 1) + __shfl_xor_sync(kWide, v, 1);
                     //^ error: `g.mask` has 32 bits
  v += __any_sync(active(), v);
                //^ error: `active()` has 32 bits
  v += __any_sync((1u << lane) - 1, v);
                //^ error: has 32 bits
  v += __any_sync(mask_t(5) | 1ull, v);
  return v;
}
__device__ half2x __shfl_down_sync(const unsigned mask, const half2x v, unsigned d) {
                                 //^ error: hands it on
  return __shfl_down_sync(mask, v.base(), d);
}
template <typename T> __device__ T __shfl_up_sync(unsigned mask, T v, unsigned d) { return __shfl_up(v, d); }
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
        expect(
            RULE.id,
            "
#include \"reduce.h\"
__device__ int f(int v) { return __shfl_xor_sync(0xffffffff, v, 1); }
                                               //^ warning: unless a header
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
