//! `ballot-in-32-bits`

use std::collections::HashSet;
use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::Binding;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{Function, ancestor, arguments, callee_name, unparenthesized, walk, within};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "ballot-in-32-bits",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "The mask of a 64-lane vote is kept or counted in 32 bits, so lanes 32 to 63 are lost.",
    docs: r#"
## What it does
Reports a `__ballot`, `__activemask` or `__match_any` result that is stored in, returned as, cast to or passed as a
type of 32 bits or fewer, and the 32-bit functions `__popc`, `__ffs` and `__clz` on such a result. Also a 32-bit
literal shifted by a lane number that goes up to 63.

Silent where the cut is deliberate or harmless: a half taken with a shift (`(unsigned)(__ballot(p) >> (tid & 32))`),
kernels that the file launches with at most 32 threads, and branches for a wave size of 32.

## Why it matters on 64 lanes
A vote returns one bit per lane: 64 bits. In 32 bits the votes of the upper half vanish without a warning from the
compiler: counts are too small, positions repeat, and `1 << lane` is undefined from lane 32 on.

## Example that fires
```hip fires
__global__ void compact(const int* in, int* out, int n) {
  int lane = threadIdx.x & 63;
  bool keep = in[threadIdx.x] > 0;
  unsigned int votes = __ballot(keep);
  int position = __popc(votes & ((1ULL << lane) - 1));
  if (keep) out[position] = in[threadIdx.x];
}
```

## Example that does not
```hip quiet
__global__ void compact(const int* in, int* out, int n) {
  int lane = threadIdx.x & 63;
  bool keep = in[threadIdx.x] > 0;
  unsigned long long votes = __ballot(keep);
  unsigned half = (unsigned)(__ballot(keep) >> (threadIdx.x & 32));
  int position = __popcll(votes & ((1ULL << lane) - 1));
  if (keep) out[position] = in[threadIdx.x] + (int)half;
}
```

## Fix
Make the type `unsigned long long`, `__popc` to `__popcll`, `__ffs` to `__ffsll`, `1 << lane` to `1ULL << lane`. Safe
when every use of the variable is a count, a search, a test against zero or such a shift; otherwise it needs a look.

## Sources
HIP programming guide, warp cross-lane functions: `__ballot` returns `unsigned long long`.
"#,
    check,
};

/// Bits of an integer type as written; `None` for names we do not know.
fn bits(type_text: &str) -> Option<u32> {
    let mut long = false;
    let mut size = None;
    for word in type_text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        match word {
            "long" => long = true,
            "int64_t" | "uint64_t" | "size_t" | "ptrdiff_t" | "uintptr_t" | "ulong" => long = true,
            "int" | "unsigned" | "signed" | "int32_t" | "uint32_t" | "uint" => {
                size = size.or(Some(32));
            }
            "short" | "int16_t" | "uint16_t" | "ushort" => size = Some(16),
            "char" | "int8_t" | "uint8_t" | "uchar" => size = Some(8),
            "" | "const" | "constexpr" | "static" | "register" | "volatile" | "std" | "inline"
            | "extern" => {}
            _ => return None,
        }
    }
    if long { Some(64) } else { size }
}

fn is_short(type_text: &str) -> bool {
    bits(type_text).is_some_and(|b| b <= 32)
}

/// Whether the call votes over the whole wavefront, itself or through a function of the file that hands the 64 bits on.
fn votes(cx: &Context<'_>, call: Node<'_>) -> bool {
    let name = callee_name(cx.source, call);
    match name {
        "__ballot" | "__ballot_sync" | "__activemask" | "__match_any" | "__match_any_sync" => {
            !cx.redefines(name)
        }
        _ => cx.only_function(name).is_some_and(|g| {
            !is_short(&return_type(cx, g))
                && g.returns.iter().any(|r| {
                    r.named_child(0).map(unparenthesized).is_some_and(|v| {
                        v.kind() == "call_expression" && {
                            let inner = callee_name(cx.source, v);
                            matches!(inner, "__ballot" | "__ballot_sync" | "__activemask")
                                && !cx.redefines(inner)
                        }
                    })
                })
                && bits(&return_type(cx, g)) == Some(64)
        }),
    }
}

fn return_type(cx: &Context<'_>, g: &Function<'_>) -> String {
    crate::facts::return_type(g.node)
        .map(|t| cx.text(t).to_owned())
        .unwrap_or_default()
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        let mut few = None;
        let mut reported: HashSet<usize> = HashSet::new();
        for call in &f.calls {
            let finding = if votes(cx, call.node) {
                vote(cx, f, call.node, &mut reported)
            } else if let Some(wide) = wider(&call.name) {
                narrow_call(cx, f, call.node, &call.name, wide)
            } else {
                None
            };
            let Some(finding) = finding else { continue };
            if cx.only_on_32(f, call.node)
                || *few.get_or_insert_with(|| cx.at_most_32_threads(index))
            {
                continue;
            }
            out.push(finding);
        }
        shifts(cx, f, index, out);
    }
}

fn wider(name: &str) -> Option<&'static str> {
    Some(match name {
        "__popc" => "__popcll",
        "__ffs" => "__ffsll",
        "__clz" => "__clzll",
        _ => return None,
    })
}

fn diagnostic(range: Range<usize>, message: String) -> Diagnostic {
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range,
        message,
        related: Vec::new(),
        fix: None,
    }
}

/// Where the result of a vote goes.
fn vote<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    call: Node<'t>,
    reported: &mut HashSet<usize>,
) -> Option<Diagnostic> {
    let name = callee_name(cx.source, call);
    let mut value = call;
    let mut parent = call.parent()?;
    while parent.kind() == "parenthesized_expression" {
        value = parent;
        parent = parent.parent()?;
    }
    let lost = "a wavefront has 64 lanes and the votes of lanes 32 to 63 are lost";
    match parent.kind() {
        "init_declarator" if parent.child_by_field_name("value") == Some(value) => {
            let declaration = parent.parent()?;
            let declared = declaration.child_by_field_name("type")?;
            if !is_short(cx.text(declared)) {
                return None;
            }
            let declarator = parent.child_by_field_name("declarator")?;
            let binding = f
                .bindings
                .resolve(cx.text(declarator), declarator.start_byte())?;
            variable(cx, f, binding, call, name, lost, reported)
        }
        "assignment_expression" if parent.child_by_field_name("right") == Some(value) => {
            let left = unparenthesized(parent.child_by_field_name("left")?);
            if left.kind() == "subscript_expression" {
                let array = left.child_by_field_name("argument")?;
                let binding = f.bindings.resolve(cx.text(array), array.start_byte())?;
                return is_short(&binding.type_text).then(|| {
                    let mut d = diagnostic(
                        left.byte_range(),
                        format!(
                            "the result of `{name}` is stored in an array of `{}`: {lost}; use `unsigned long long` elements",
                            binding.type_text
                        ),
                    );
                    d.related.push((binding.name.byte_range(), "the array is declared here".into()));
                    d
                });
            }
            if left.kind() != "identifier" {
                return None;
            }
            let binding = f.bindings.resolve(cx.text(left), left.start_byte())?;
            if binding.compound || !is_short(&binding.type_text) {
                return None;
            }
            variable(cx, f, binding, call, name, lost, reported)
        }
        "return_statement" => {
            let declared = crate::facts::return_type(f.node)?;
            if !is_short(cx.text(declared))
                || f.node.child_by_field_name("declarator")?.kind() == "pointer_declarator"
            {
                return None;
            }
            let mut d = diagnostic(
                parent.byte_range(),
                format!(
                    "`{}` returns the result of `{name}` as `{}`: {lost}; return `unsigned long long`",
                    f.name,
                    cx.text(declared)
                ),
            );
            d.related
                .push((declared.byte_range(), "the return type".into()));
            d.fix = Some(Fix::new(
                "Return `unsigned long long`",
                vec![(declared.byte_range(), "unsigned long long".into())],
                Safety::Unsafe,
            ));
            Some(d)
        }
        "cast_expression" => {
            let ty = cx.text(parent.child_by_field_name("type")?);
            is_short(ty).then(|| {
                diagnostic(
                    parent.byte_range(),
                    format!("the result of `{name}` is cut to `{ty}`: {lost}; keep it in `unsigned long long`"),
                )
            })
        }
        "argument_list" => {
            let outer = parent.parent()?;
            let callee = outer.child_by_field_name("function")?;
            if callee.kind() == "template_function" {
                let cast = cx.text(callee);
                let ty = cast.strip_prefix("static_cast<")?.trim_end_matches('>');
                return is_short(ty).then(|| {
                    diagnostic(
                        outer.byte_range(),
                        format!("the result of `{name}` is cut to `{ty}`: {lost}; keep it in `unsigned long long`"),
                    )
                });
            }
            // `f(__ballot(p))` where f takes 32 bits.
            let g = cx.only_function(cx.text(callee))?;
            let position = arguments(outer).iter().position(|a| *a == value)?;
            let parameter = g
                .bindings
                .iter()
                .filter(|b| b.kind == hipsmith_syntax::lanes::BindingKind::Parameter)
                .nth(position)?;
            (is_short(&parameter.type_text) && !parameter.compound).then(|| {
                let mut d = diagnostic(
                    value.byte_range(),
                    format!(
                        "the result of `{name}` is passed to `{}` as `{}`: {lost}; make the parameter `unsigned long long`",
                        g.name, parameter.type_text
                    ),
                );
                d.related.push((parameter.name.byte_range(), "the parameter".into()));
                d
            })
        }
        _ => None,
    }
}

/// The vote goes into a 32-bit variable.
fn variable<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    binding: &Binding<'t>,
    call: Node<'t>,
    name: &str,
    lost: &str,
    reported: &mut HashSet<usize>,
) -> Option<Diagnostic> {
    let variable = cx.text(binding.name);
    let mut d = diagnostic(
        call.byte_range(),
        format!(
            "the result of `{name}` is held in 32 bits (`{} {variable}`): {lost}; use `unsigned long long`",
            binding.type_text
        ),
    );
    if binding.name.start_byte() != call.start_byte() {
        d.related.push((
            binding.name.byte_range(),
            format!("`{variable}` is declared here"),
        ));
    }
    // One fix per variable is enough: it changes all uses.
    if reported.insert(binding.name.id()) {
        d.fix = widen(cx, f, binding);
    }
    Some(d)
}

/// Make a variable 64 bits wide, with all the uses that depend on its width.
fn widen<'t>(cx: &Context<'t>, f: &Function<'t>, binding: &Binding<'t>) -> Option<Fix> {
    let declaration = binding.declaration;
    if declaration.kind() != "declaration" {
        return None;
    }
    if declaration.children_by_field_name("declarator").count() != 1 {
        return None;
    }
    let ty = declaration.child_by_field_name("type")?;
    // `unsigned const x`, `int unsigned`: leave what is not one plain type node.
    let mut edits = vec![(ty.byte_range(), "unsigned long long".to_owned())];
    let variable = cx.text(binding.name);
    let mut safe = !binding.escapes;
    walk(f.body, &mut |n| {
        if n.kind() != "identifier"
            || n == binding.name
            || cx.text(n) != variable
            || f.bindings.resolve(variable, n.start_byte()).map(|b| b.name) != Some(binding.name)
        {
            return true;
        }
        safe &= follow(cx, f, n, &mut edits);
        true
    });
    let safety = if safe { Safety::Safe } else { Safety::Unsafe };
    Some(Fix::new(
        format!("Hold `{variable}` in `unsigned long long`"),
        edits,
        safety,
    ))
}

/// What a use of a widened variable needs; whether it is understood.
fn follow<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    identifier: Node<'t>,
    edits: &mut Vec<(Range<usize>, String)>,
) -> bool {
    let mut node = identifier;
    loop {
        let Some(parent) = node.parent() else {
            return false;
        };
        match parent.kind() {
            "parenthesized_expression" | "condition_clause" => {}
            "unary_expression" => {
                if cx.text(parent).starts_with('!') {
                    return true;
                }
            }
            "binary_expression" => {
                let operator = parent
                    .child_by_field_name("operator")
                    .map(|o| cx.text(o))
                    .unwrap_or("");
                let other = ["left", "right"]
                    .iter()
                    .filter_map(|side| parent.child_by_field_name(side))
                    .find(|side| *side != node);
                match (operator, other) {
                    ("==" | "!=", Some(o)) => return cx.text(o) == "0",
                    ("&&" | "||", _) => return true,
                    ("&" | "|" | "^", Some(o)) => {
                        if !widen_shifts(cx, f, o, edits) {
                            return false;
                        }
                    }
                    ("-", Some(o)) if cx.text(o) == "1" => {}
                    (">>", _) if parent.child_by_field_name("left") == Some(node) => {}
                    _ => return false,
                }
            }
            "argument_list" => {
                let Some(callee) = parent
                    .parent()
                    .and_then(|c| c.child_by_field_name("function"))
                else {
                    return false;
                };
                return match cx.text(callee) {
                    "__popc" => {
                        edits.push((callee.byte_range(), "__popcll".into()));
                        true
                    }
                    "__ffs" => {
                        edits.push((callee.byte_range(), "__ffsll".into()));
                        true
                    }
                    "__popcll" | "__ffsll" => true,
                    _ => false,
                };
            }
            "assignment_expression" => {
                let left = parent.child_by_field_name("left");
                if left == Some(node) {
                    // The variable is written: by a vote, or by an operation on itself, which is followed there.
                    let Some(right) = parent.child_by_field_name("right") else {
                        return false;
                    };
                    let right = unparenthesized(right);
                    return right.kind() == "call_expression" && votes(cx, right)
                        || widen_shifts(cx, f, right, edits);
                }
                // `mask &= mask - 1`
                return left.is_some_and(|l| cx.text(l) == cx.text(identifier));
            }
            "if_statement" | "while_statement" | "for_statement" | "do_statement" => return true,
            "conditional_expression" => {
                return parent.child_by_field_name("condition") == Some(node);
            }
            _ => return false,
        }
        node = parent;
    }
}

/// Make the 32-bit literals that are shifted in `node` 64 bits wide; whether everything in it keeps its meaning
/// when it is combined with 64 bits.
fn widen_shifts(
    cx: &Context<'_>,
    f: &Function<'_>,
    node: Node<'_>,
    edits: &mut Vec<(Range<usize>, String)>,
) -> bool {
    let node = unparenthesized(node);
    match node.kind() {
        "unary_expression" => {
            let Some(argument) = node.child_by_field_name("argument") else {
                return false;
            };
            match cx.text(node).chars().next() {
                Some('~') => widen_shifts(cx, f, argument, edits),
                _ => false,
            }
        }
        "binary_expression" => {
            let (Some(left), Some(right), Some(operator)) = (
                node.child_by_field_name("left"),
                node.child_by_field_name("right"),
                node.child_by_field_name("operator"),
            ) else {
                return false;
            };
            match cx.text(operator) {
                "<<" => match one(cx.text(left)) {
                    Some(wide) => {
                        edits.push((left.byte_range(), wide.to_owned()));
                        true
                    }
                    None => wide_literal(cx.text(unparenthesized(left))),
                },
                "-" => cx.text(right) == "1" && widen_shifts(cx, f, left, edits),
                "&" | "|" | "^" => {
                    widen_shifts(cx, f, left, edits) && widen_shifts(cx, f, right, edits)
                }
                _ => false,
            }
        }
        "identifier" => f
            .bindings
            .resolve(cx.text(node), node.start_byte())
            .is_some_and(|b| bits(&b.type_text) == Some(64) || b.type_text.contains("unsigned")),
        "call_expression" => votes(cx, node),
        _ => false,
    }
}

fn one(text: &str) -> Option<&'static str> {
    match text {
        "1" | "1u" | "1U" => Some("1ULL"),
        "-1" => Some("-1LL"),
        _ => None,
    }
}

fn wide_literal(text: &str) -> bool {
    text.to_ascii_lowercase().ends_with("ll") || text.to_ascii_lowercase().ends_with("ul")
}

/// `__popc(v)` where v is a 64-bit vote.
fn narrow_call<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    call: Node<'t>,
    name: &str,
    wide: &str,
) -> Option<Diagnostic> {
    let args = arguments(call);
    let [arg] = args[..] else { return None };
    let mut origin = None;
    let mut halved = false;
    walk(arg, &mut |n| {
        match n.kind() {
            "cast_expression" => halved = true,
            "binary_expression" => {
                let operator = n
                    .child_by_field_name("operator")
                    .map(|o| cx.text(o))
                    .unwrap_or("");
                halved |= operator == ">>";
            }
            "call_expression" => {
                if votes(cx, n) {
                    origin = Some(n.byte_range());
                } else {
                    halved = true;
                }
                return false;
            }
            "identifier" => {
                if let Some(b) = f.bindings.resolve(cx.text(n), n.start_byte())
                    && !b.compound
                    && bits(&b.type_text) == Some(64)
                    && holds_vote(cx, b)
                {
                    origin = Some(b.name.byte_range());
                }
            }
            _ => {}
        }
        true
    });
    let origin = origin.filter(|_| !halved)?;
    let mut d = diagnostic(
        call.byte_range(),
        format!(
            "`{name}` takes 32 bits, but its argument holds one bit for each of 64 lanes: lanes 32 to 63 are not seen; use `{wide}`"
        ),
    );
    if !within(call, arg) || origin != arg.byte_range() {
        d.related.push((origin, "the 64-bit vote".into()));
    }
    let callee = call.child_by_field_name("function")?;
    let mut edits = vec![(callee.byte_range(), wide.to_owned())];
    walk(arg, &mut |n| {
        if n.kind() == "binary_expression"
            && n.child_by_field_name("operator")
                .is_some_and(|o| cx.text(o) == "<<")
            && let Some(left) = n.child_by_field_name("left")
            && let Some(wide) = one(cx.text(left))
        {
            edits.push((left.byte_range(), wide.to_owned()));
        }
        true
    });
    // The count of leading zeros depends on the width, so its uses have to change too.
    let safety = if name == "__clz" {
        Safety::Unsafe
    } else {
        Safety::Safe
    };
    d.fix = Some(Fix::new(format!("Use `{wide}`"), edits, safety));
    Some(d)
}

fn holds_vote(cx: &Context<'_>, binding: &Binding<'_>) -> bool {
    let is_vote = |n: Node<'_>| {
        let n = unparenthesized(n);
        n.kind() == "call_expression" && votes(cx, n)
    };
    binding.init.is_some_and(is_vote)
        || binding
            .writes
            .iter()
            .filter_map(|w| w.child_by_field_name("right"))
            .any(is_vote)
}

/// `1 << lane` with lanes up to 63.
fn shifts<'t>(cx: &Context<'t>, f: &Function<'t>, index: usize, out: &mut Vec<Diagnostic>) {
    let eval = cx.wide(f);
    for b in f.binaries.iter().filter(|b| b.operator == "<<") {
        let (n, left, right) = (b.node, b.left, b.right);
        let Some(wide) = one(cx.text(unparenthesized(left))) else {
            continue;
        };
        let Some(id) = cx.id_of(f, &eval, right) else {
            continue;
        };
        if !id.lane || id.size < 64 || cx.only_on_32(f, n) || cx.at_most_32_threads(index) {
            continue;
        }
        // A bit of a lane is only of interest to a mask: `x & (1 << lane)`.
        if ancestor(n, &["subscript_expression"], f.node).is_some() {
            continue;
        }
        let mut d = diagnostic(
            n.byte_range(),
            format!(
                "`{}` shifts a 32-bit value by a lane number that goes up to 63: undefined from lane 32 on; use `{wide}`",
                cx.text(n)
            ),
        );
        d.related.push((id.range, "the lane number".into()));
        d.fix = Some(Fix::new(
            format!("Shift `{wide}`"),
            vec![(left.byte_range(), wide.to_owned())],
            Safety::Unsafe,
        ));
        out.push(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn where_the_vote_goes() {
        expect(
            RULE.id,
            "
__device__ unsigned f(int p) {
  return __ballot(p);
//^^^^^^^^^^^^^ error: returns the result of `__ballot` as `unsigned`
}
__device__ unsigned long long g(int p) { return __ballot(p); }
__device__ void h(unsigned m) {}
__global__ void k(int* out, int p) {
  int a = __ballot(p);
        //^ error: held in 32 bits
  int b;
  b = __ballot(p);
    //^ error: held in 32 bits
  unsigned long long c = __ballot(p);
  int d = g(p);
        //^ error: held in 32 bits
  int e = __popc(c);
        //^ error: `__popc` takes 32 bits
  int n = __popc(__ballot(p));
        //^ error: `__popc` takes 32 bits
  h(__ballot(p));
  //^ error: passed to `h`
  bool any = __ballot(p) != 0;
  if (__ballot(p)) out[0] = 1;
  out[1] = (int)__ballot(p);
         //^ error: is cut to `int`
}
",
        );
    }

    #[test]
    fn deliberate_or_harmless_cuts_are_silent() {
        expect(
            RULE.id,
            "
__global__ void small(int* out) { unsigned m = __ballot(out[threadIdx.x]); out[0] = m; }
void launch(int* out) { small<<<1, 32>>>(out); }
template <int WarpSize> __global__ void k(int* out, int p) {
  unsigned half = (unsigned)(__ballot(p) >> (threadIdx.x & 32));
  unsigned low = __popc((unsigned)(__ballot(p) >> 32));
  auto all = __ballot(p);
  lane_mask_type m = __ballot(p);
  if (WarpSize == 32) { unsigned n = __ballot(p); out[2] = n; }
  int words = __popc(out[3]);
}
",
        );
    }

    #[test]
    fn words_and_lanes() {
        expect(
            RULE.id,
            "
__global__ void k(unsigned* out, unsigned bits) {
  int lane = threadIdx.x & 63;
  int lane32 = threadIdx.x & 31;
  out[0] |= 1 << lane;
          //^ error: shifts a 32-bit value
  out[1] |= 1 << lane32;
  out[2] |= 1ull << lane;
}
",
        );
    }

    #[test]
    fn fix_follows_the_uses() {
        expect_fix(
            RULE.id,
            "
__global__ void k(int* out, int p) {
  const int lane = threadIdx.x % 64;
  const int bal = __ballot(p);
  const int pos = __popc(bal & ~(-1 << lane));
  if (bal != 0) out[pos] = __ffs(bal);
}
",
            "
__global__ void k(int* out, int p) {
  const int lane = threadIdx.x % 64;
  const unsigned long long bal = __ballot(p);
  const int pos = __popcll(bal & ~(-1LL << lane));
  if (bal != 0) out[pos] = __ffsll(bal);
}
",
            Safety::Safe,
        );
    }

    #[test]
    fn fix_that_changes_other_code_is_unsafe() {
        expect_fix(
            RULE.id,
            "__global__ void k(int* out, int p) { int m = __ballot(p); out[0] = m; }\n",
            "__global__ void k(int* out, int p) { unsigned long long m = __ballot(p); out[0] = m; }\n",
            Safety::Unsafe,
        );
    }
}
