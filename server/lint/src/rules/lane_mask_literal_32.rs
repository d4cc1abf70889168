//! `lane-mask-literal-32`

use hipsmith_syntax::Node;

use super::sync_mask_32_bits::{all_ones, takes_mask};
use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::unparenthesized;
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "lane-mask-literal-32",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "A vote of 64 lanes is held against a mask of 32 ones, or a mask for 64 lanes has digits missing.",
    docs: r#"
## What it does
Reports the result of `__ballot`, `__ballot_sync` or `__activemask` compared with `0xffffffff`, `~0u` or a macro of that
value, and a mask literal or macro with 9 to 15 hexadecimal `f`: sixteen make 64 bits.

`0xffffffff` anywhere else (infinity, sentinel, lower word, buffer size) is not looked at. A 32-bit mask as the
argument of a `_sync` function is the matter of `sync-mask-32-bits`.

## Why it matters on 64 lanes
When all 64 lanes vote yes the result is `0xffffffffffffffff`, which is not equal to `0xffffffff`: the test for "all"
never succeeds. A mask with fifteen digits leaves out the last four lanes.

## Example that fires
```hip fires
__global__ void k(const int* x, int* out) {
  if (__ballot(x[threadIdx.x] > 0) == 0xffffffff) out[0] = 1;
}
```

## Example that does not
```hip quiet
__global__ void k(const int* x, int* out) {
  if (__ballot(x[threadIdx.x] > 0) == 0xffffffffffffffffULL) out[0] = 1;
  if (x[threadIdx.x] == 0xffffffff) out[1] = 1;
}
```

## Fix
`~0ULL`, all ones in 64 bits. Safe where the other side is a vote of the whole wavefront.

## Sources
HIP programming guide, `__ballot`; hypre's fix with a 15-digit mask (60 lanes).
"#,
    check,
};

/// Nine to fifteen `f`: more than 32 bits were meant, and not all 64 are there.
fn incomplete(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']).trim_start_matches("0x");
    lower.starts_with("0x") && (9..=15).contains(&digits.len()) && digits.chars().all(|c| c == 'f')
}

fn is_short_mask(cx: &Context<'_>, node: Node<'_>) -> bool {
    let node = unparenthesized(node);
    let text = cx.text(node);
    match node.kind() {
        "identifier" => cx
            .model
            .macro_at(text, node.start_byte())
            .is_some_and(|m| short(&m.body)),
        _ => short(text),
    }
}

/// All ones in 32 bits. `~0` and `-1` are widened with their sign, so they are all ones in 64 bits too.
fn short(text: &str) -> bool {
    let signed = text.trim_matches(['(', ')', ' ']);
    all_ones(text) && !text.contains(['l', 'L']) && signed != "~0" && signed != "-1"
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        for b in f
            .binaries
            .iter()
            .filter(|b| matches!(b.operator, "==" | "!="))
        {
            let (n, l, r) = (b.node, b.left, b.right);
            for (vote, mask) in [(l, r), (r, l)] {
                if cx.holds_vote(f, vote)
                    && is_short_mask(cx, mask)
                    && !cx.only_on_32(f, n)
                    && !cx.at_most_32_threads(index)
                {
                    out.push(Diagnostic {
                            rule: RULE.id,
                            family: RULE.family,
                            severity: Severity::Error,
                            range: mask.byte_range(),
                            message: format!(
                                "`{}` is 32 ones, but all 64 lanes of a wavefront vote: the two are never equal when every lane says yes; use `~0ULL`",
                                cx.text(mask)
                            ),
                            related: vec![(vote.byte_range(), "the vote of 64 lanes".into())],
                            fix: Some(Fix::new(
                                "Compare with 64 ones",
                                vec![(mask.byte_range(), "~0ULL".into())],
                                Safety::Safe,
                            )),
                        });
                }
            }
        }
        for call in &f.calls {
            let Some(mask) = call.args.first().map(|m| unparenthesized(*m)) else {
                continue;
            };
            if takes_mask(&call.name)
                && mask.kind() == "number_literal"
                && incomplete(cx.text(mask))
            {
                out.push(missing_digits(mask.byte_range(), cx.text(mask)));
            }
        }
    }
    let macros = cx.is_outside_functions().then(|| cx.model.macros());
    for (name, m) in macros.into_iter().flatten() {
        if !name.to_ascii_uppercase().contains("MASK")
            || !incomplete(m.body.trim_matches(['(', ')', ' ']))
        {
            continue;
        }
        let body = m.body.trim_matches(['(', ')', ' ']);
        let Some(at) = cx
            .model
            .text()
            .get(m.range.clone())
            .and_then(|d| d.rfind(body))
        else {
            continue;
        };
        let start = m.range.start + at;
        out.push(missing_digits(start..start + body.len(), body));
    }
}

fn missing_digits(range: std::ops::Range<usize>, text: &str) -> Diagnostic {
    let digits = text
        .to_ascii_lowercase()
        .trim_start_matches("0x")
        .chars()
        .filter(|c| *c == 'f')
        .count();
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range: range.clone(),
        message: format!(
            "this mask has {digits} digits, so it names {} of the 64 lanes of a wavefront; 16 digits name all",
            digits * 4
        ),
        related: Vec::new(),
        fix: Some(Fix::new(
            "Write all 16 digits",
            vec![(range, "0xffffffffffffffffULL".into())],
            Safety::Unsafe,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn comparisons_and_missing_digits() {
        expect(
            RULE.id,
            "
#define ALL 0xFFFFFFFF
#define WARP_MASK 0xFFFFFFFFFFFFFFF
                //^ error: has 15 digits, so it names 60 of the 64 lanes
#define BIG 0xFFFFFFFFFFF
__global__ void k(unsigned* x, int p) {
  auto votes = __ballot(p);
  if (votes != ALL) x[0] = 0xffffffff;
             //^ error: `ALL` is 32 ones
  if (__activemask() == ~0u) x[1] = 1;
                      //^ error: `~0u` is 32 ones
  if (__ballot(p) == ~0) x[2] = 1;
  unsigned long long some = __ballot(p) & ~1ull;
  if (0xffffffffu == some) x[4] = 1;
    //^ error: `0xffffffffu` is 32 ones
  unsigned half = __ballot(p);
  if (half == 0xffffffff) x[5] = 1;
  if (x[0] == 0xffffffffu) x[3] = __shfl_sync(0xfffffffffff, p, 0);
                                            //^ error: has 11 digits
}
",
        );
    }

    #[test]
    fn fix() {
        expect_fix(
            RULE.id,
            "__global__ void k(int* x) { if (__ballot(x[0]) == 0xffffffffu) x[0] = 1; }\n",
            "__global__ void k(int* x) { if (__ballot(x[0]) == ~0ULL) x[0] = 1; }\n",
            Safety::Safe,
        );
    }
}
