//! `ballot-in-32-bits`

use std::collections::HashSet;
use std::ops::Range;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::Binding;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{
    Function, ancestor, arguments, binary, callee_name, unparenthesized, walk, within,
};
use crate::rule::{Rule, Scope};
use crate::votes::VoteMacro;

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

/// Why it matters, for every message.
const LOST: &str = "a wavefront has 64 lanes and the votes of lanes 32 to 63 are lost";

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        macros(cx, f, out);
        let mut few = None;
        let mut reported: HashSet<usize> = HashSet::new();
        let mut found = Vec::new();
        for call in &f.calls {
            if cx.call_votes(call) {
                let what = format!("the result of `{}`", callee_name(cx.source, call.node));
                found.extend(destination(cx, f, call.node, &what, &mut reported));
            } else if let Some(wide) = wider(&call.name) {
                found.extend(narrow_call(cx, f, call.node, &call.name, wide));
            }
        }
        found.extend(later_uses(cx, f, &mut reported));
        if !found.is_empty() {
            let eval = cx.wide(f);
            found.retain(|d| {
                let node = f.body.descendant_for_byte_range(d.range.start, d.range.end);
                !node.is_some_and(|n| cx.only_on_32(f, n) || cx.lower_half_only(f, &eval, n))
                    && !*few.get_or_insert_with(|| cx.at_most_32_threads(index))
            });
            out.append(&mut found);
        }
        shifts(cx, f, index, out);
    }
}

fn wider(name: &str) -> Option<&'static str> {
    Some(match name {
        "__popc" => "__popcll",
        "__ffs" => "__ffsll",
        "__clz" => "__clzll",
        "__brev" => "__brevll",
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

/// `#define VOTE(p) ((unsigned)__ballot(p))`, where `f` uses it.
fn macros(cx: &Context<'_>, f: &Function<'_>, out: &mut Vec<Diagnostic>) {
    if cx.vote_macros().is_empty() {
        return;
    }
    for call in &f.calls {
        let name = &call.name;
        if cx.vote_macros().get(name) != Some(&VoteMacro::Cut) {
            continue;
        }
        let Some(m) = cx.model.macro_at(name, usize::MAX) else {
            continue;
        };
        if out.iter().any(|d| d.rule == RULE.id && d.range == m.range) {
            continue;
        }
        let mut d = diagnostic(
            m.range.clone(),
            format!("`{name}` cuts a vote to 32 bits: {LOST}; leave it in `unsigned long long`"),
        );
        d.related
            .push((call.node.byte_range(), format!("`{name}` is used here")));
        out.push(d);
    }
}

/// Where variables that hold a vote in 64 bits are put into fewer.
fn later_uses<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    reported: &mut HashSet<usize>,
) -> Vec<Diagnostic> {
    let holders: Vec<&Binding<'t>> = f
        .bindings
        .iter()
        .filter(|b| (b.init.is_some() || !b.writes.is_empty()) && cx.variable_holds_vote(f, b, 0))
        .collect();
    let mut uses: Vec<(Node<'t>, usize)> = Vec::new();
    if !holders.is_empty() {
        walk(f.body, &mut |n| {
            if n.kind() == "identifier"
                && let Some(b) = f.bindings.resolve(cx.text(n), n.start_byte())
                && b.name != n
                && holders.iter().any(|h| h.name == b.name)
            {
                uses.push((n, b.name.id()));
            }
            true
        });
    }
    // The lower half beside `votes >> 32` is half of a whole, and one beside `votes >> (tid & 32)` a choice.
    let halved: HashSet<usize> = uses
        .iter()
        .filter(|(n, _)| {
            n.parent().and_then(binary).is_some_and(|b| {
                b.operator == ">>" && b.left == *n && cx.text(b.right).contains("32")
            })
        })
        .map(|(_, id)| *id)
        .collect();
    uses.into_iter()
        .filter(|(_, id)| !halved.contains(id))
        .filter_map(|(n, _)| {
            let what = format!("the vote in `{}`", cx.text(n));
            destination(cx, f, n, &what, reported)
        })
        .collect()
}

/// From a vote up through what keeps its bits in place: brackets, `&`, `|`, `^`, `~` and the arms of `?:`. `None` where a
/// constant of 32 bits says which bits are wanted.
fn carried<'t>(cx: &Context<'t>, f: &Function<'t>, node: Node<'t>) -> Option<(Node<'t>, Node<'t>)> {
    let mut value = node;
    loop {
        let parent = value.parent()?;
        let up = match parent.kind() {
            "parenthesized_expression" => true,
            "unary_expression" => cx.text(parent).starts_with('~'),
            "conditional_expression" => parent.child_by_field_name("condition") != Some(value),
            "binary_expression" => {
                let b = binary(parent)?;
                let other = if b.left == value { b.right } else { b.left };
                if b.operator == "&"
                    && cx
                        .wide(f)
                        .constant(other)
                        .is_some_and(|c| (0..=i64::from(u32::MAX)).contains(&c))
                {
                    return None;
                }
                matches!(b.operator, "&" | "|" | "^")
            }
            _ => false,
        };
        if !up {
            return Some((value, parent));
        }
        value = parent;
    }
}

/// Where a vote goes, if that has 32 bits or fewer.
fn destination<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    vote: Node<'t>,
    what: &str,
    reported: &mut HashSet<usize>,
) -> Option<Diagnostic> {
    let (value, parent) = carried(cx, f, vote)?;
    let short = |ty: &str| cx.is_short(Some(f), ty, vote.start_byte());
    match parent.kind() {
        "init_declarator" if parent.child_by_field_name("value") == Some(value) => {
            let declaration = parent.parent()?;
            let declared = declaration.child_by_field_name("type")?;
            if !short(cx.text(declared)) {
                return None;
            }
            let declarator = parent.child_by_field_name("declarator")?;
            let binding = f
                .bindings
                .resolve(cx.text(declarator), declarator.start_byte())?;
            Some(variable(cx, f, binding, vote, what, reported))
        }
        // `unsigned votes(__ballot(p));`, `unsigned votes{__ballot(p)};`
        "argument_list" | "initializer_list"
            if parent
                .parent()
                .is_some_and(|p| p.kind() == "init_declarator") =>
        {
            let declarator = parent.parent()?.child_by_field_name("declarator")?;
            let binding = f
                .bindings
                .resolve(cx.text(declarator), declarator.start_byte())?;
            (!binding.compound && short(&binding.type_text))
                .then(|| variable(cx, f, binding, vote, what, reported))
        }
        "assignment_expression" if parent.child_by_field_name("right") == Some(value) => {
            stored(cx, f, parent, vote, what, reported)
        }
        "return_statement" => {
            let lambda = ancestor(parent, &["lambda_expression"], f.node).is_some();
            let declared = crate::facts::return_type(f.node).filter(|_| !lambda)?;
            let ty = cx.text(declared);
            let bits = cx.return_bits(f);
            let seems_int = bits.is_none() && ty.to_ascii_lowercase().ends_with("_int");
            if bits.is_none_or(|b| b > 32) && !seems_int {
                return None;
            }
            let mut d = diagnostic(
                parent.byte_range(),
                format!(
                    "`{}` returns {what} as `{ty}`: {LOST}; return `unsigned long long`",
                    f.name
                ),
            );
            if seems_int {
                d.severity = Severity::Warning;
            }
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
            short(ty).then(|| cast(parent, what, ty))
        }
        "argument_list" => passed(cx, f, parent.parent()?, value, what),
        _ => None,
    }
}

fn cast(node: Node<'_>, what: &str, ty: &str) -> Diagnostic {
    diagnostic(
        node.byte_range(),
        format!("{what} is cut to `{ty}`: {LOST}; keep it in `unsigned long long`"),
    )
}

/// `left = vote`, `left |= vote`
fn stored<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    assignment: Node<'t>,
    vote: Node<'t>,
    what: &str,
    reported: &mut HashSet<usize>,
) -> Option<Diagnostic> {
    let left = unparenthesized(assignment.child_by_field_name("left")?);
    if left.kind() == "identifier"
        && let Some(binding) = f.bindings.resolve(cx.text(left), left.start_byte())
    {
        let short = cx.is_short(Some(f), &binding.type_text, vote.start_byte());
        return (!binding.compound && short)
            .then(|| variable(cx, f, binding, vote, what, reported));
    }
    let (ty, declared) = element(cx, f, left)?;
    if !cx.is_short(Some(f), &ty, vote.start_byte()) {
        return None;
    }
    let mut d = diagnostic(
        left.byte_range(),
        format!(
            "{what} is stored in `{}`, which is `{ty}`: {LOST}; use `unsigned long long`",
            cx.text(left)
        ),
    );
    if let Some(range) = declared {
        d.related.push((range, "declared here".into()));
    }
    Some(d)
}

/// The type of what `x[i]`, `x.y` or `*x` names, and where it is declared.
fn element<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    node: Node<'t>,
) -> Option<(String, Option<Range<usize>>)> {
    match node.kind() {
        "field_expression" => {
            let field = cx.text(node.child_by_field_name("field")?);
            if let Some(ty) = cx.member_type(field) {
                return Some((ty.to_owned(), None));
            }
            // Components of `uint2` and the like.
            let object = unparenthesized(node.child_by_field_name("argument")?);
            let binding = f.bindings.resolve(cx.text(object), object.start_byte())?;
            let base = binding.type_text.trim_end_matches(['1', '2', '3', '4']);
            let component = matches!(field, "x" | "y" | "z" | "w");
            (component && base != binding.type_text)
                .then(|| (base.to_owned(), Some(binding.name.byte_range())))
        }
        "subscript_expression" | "pointer_expression" => {
            let object = unparenthesized(node.child_by_field_name("argument")?);
            element(cx, f, object)
        }
        "identifier" => {
            let name = cx.text(node);
            if let Some(b) = f.bindings.resolve(name, node.start_byte()) {
                return Some((b.type_text.clone(), Some(b.name.byte_range())));
            }
            if let Some(s) = cx.model.shared_at(name, node.start_byte()) {
                return Some((s.element.clone(), Some(s.name_range.clone())));
            }
            let v = cx.model.variable_at(name, node.start_byte())?;
            Some((v.ty.base.clone(), Some(v.name_range.clone())))
        }
        _ => None,
    }
}

/// `f(vote)`, also when `f` is a cast.
fn passed<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    outer: Node<'t>,
    value: Node<'t>,
    what: &str,
) -> Option<Diagnostic> {
    let callee = outer.child_by_field_name("function")?;
    let all = arguments(outer);
    let text = cx.text(callee);
    let ty = text
        .strip_prefix("static_cast<")
        .map_or(text, |t| t.trim_end_matches('>'));
    if all.len() == 1
        && (ty != text || matches!(callee.kind(), "primitive_type" | "identifier"))
        && cx.only_function(text).is_none()
        && cx.is_short(Some(f), ty, outer.start_byte())
    {
        return Some(cast(outer, what, ty));
    }
    let position = all.iter().position(|a| *a == value)?;
    // `atomicOr(&words[i], vote)`
    if position == 1 && matches!(text, "atomicOr" | "atomicAnd" | "atomicXor" | "atomicExch") {
        let (ty, _) = element(cx, f, unparenthesized(*all.first()?))?;
        return cx.is_short(Some(f), &ty, outer.start_byte()).then(|| {
            diagnostic(
                outer.byte_range(),
                format!("{what} goes into a `{ty}` in memory: {LOST}; use `unsigned long long`"),
            )
        });
    }
    let g = cx.only_function(callee_name(cx.source, outer))?;
    let parameter = g
        .bindings
        .iter()
        .filter(|b| b.kind == hipsmith_syntax::lanes::BindingKind::Parameter)
        .nth(position)?;
    let short = cx.is_short(None, &parameter.type_text, g.node.start_byte());
    (short && !parameter.compound).then(|| {
        let mut d = diagnostic(
            value.byte_range(),
            format!(
                "{what} is passed to `{}` as `{}`: {LOST}; make the parameter `unsigned long long`",
                g.name, parameter.type_text
            ),
        );
        d.related
            .push((parameter.name.byte_range(), "the parameter".into()));
        d
    })
}

/// The vote goes into a 32-bit variable.
fn variable<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    binding: &Binding<'t>,
    vote: Node<'t>,
    what: &str,
    reported: &mut HashSet<usize>,
) -> Diagnostic {
    let variable = cx.text(binding.name);
    let mut d = diagnostic(
        vote.byte_range(),
        format!(
            "{what} is held in 32 bits (`{} {variable}`): {LOST}; use `unsigned long long`",
            binding.type_text
        ),
    );
    if binding.name.start_byte() != vote.start_byte() {
        d.related.push((
            binding.name.byte_range(),
            format!("`{variable}` is declared here"),
        ));
    }
    // One fix per variable is enough: it changes all uses.
    if reported.insert(binding.name.id()) {
        d.fix = widen(cx, f, binding);
    }
    d
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
                    return right.kind() == "call_expression" && cx.votes(right)
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
fn widen_shifts<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    node: Node<'t>,
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
            .is_some_and(|b| {
                cx.bits(Some(f), &b.type_text, node.start_byte()) == Some(64)
                    || b.type_text.contains("unsigned")
            }),
        "call_expression" => cx.votes(node),
        _ => false,
    }
}

fn one(text: &str) -> Option<&'static str> {
    match text {
        "1" | "1u" | "1U" => Some("1ULL"),
        "-1" => Some("-1LL"),
        "0xffffffff" | "0xFFFFFFFF" | "0xffffffffu" | "0xFFFFFFFFu" | "0xFFFFFFFFU" | "~0u"
        | "~0U" => Some("~0ULL"),
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
                if cx.votes(n) {
                    origin = Some(n.byte_range());
                } else {
                    halved = true;
                }
                return false;
            }
            "identifier" => {
                if let Some(b) = f.bindings.resolve(cx.text(n), n.start_byte())
                    && cx.variable_holds_vote(f, b, 0)
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
    fn types_through_names() {
        expect(
            RULE.id,
            "
typedef unsigned int mask32;
using word = mask32;
using mask64 = unsigned long long;
#define BITS unsigned
struct State { mask32 votes; mask64 all; word rows[4]; };
template <typename M = unsigned> __device__ void def(int p) { M m = __ballot(p); }
                                                                  //^ error: held in 32 bits
template <typename M> __device__ void given(int p) { M m = __ballot(p); }
template <typename M> __device__ void open(int p) { M m = __ballot(p); }
__global__ void k(uint2* pairs, int p) {
  word a = __ballot(p);
         //^ error: held in 32 bits
  mask64 b = __ballot(p);
  BITS c = __activemask();
         //^ error: held in 32 bits
  State s;
  s.votes = __ballot(p);
//^ error: which is `mask32`
  s.all = __ballot(p);
  s.rows[1] = __ballot(p);
//^ error: which is `word`
  pairs[0].x = __ballot(p);
  uint2 q;
  q.x = __ballot(p);
//^ error: which is `uint`
  given<unsigned long long>(p);
  def(p);
}
",
        );
    }

    #[test]
    fn votes_through_wrappers_and_variables() {
        expect(
            RULE.id,
            "
#define VOTE(p) __ballot(p)
#define CUT(p) ((unsigned int)__ballot(p))
//~ error: `CUT` cuts a vote to 32 bits
#define BALLOT __ballot
__device__ auto whole(int p) { return __ballot(p); }
__device__ unsigned long long twice(int p) { return whole(p); }
__device__ int lower(int p, unsigned mask) {
  return __ballot(p) & mask;
//^ error: returns the result of `__ballot` as `int`
}
__device__ my_int odd(int p) { return __ballot(p); }
                             //^ warning: returns the result of `__ballot` as `my_int`
__global__ void k(unsigned* out, int p, unsigned long long mask) {
  unsigned a = VOTE(p);
             //^ error: held in 32 bits
  int b = BALLOT(p);
        //^ error: held in 32 bits
  unsigned c = twice(p);
             //^ error: held in 32 bits
  auto all = __ballot(p);
  int n = __popc(all);
        //^ error: `__popc` takes 32 bits
  unsigned d = all & mask;
             //^ error: the vote in `all` is held in 32 bits
  out[0] = static_cast<unsigned>(all);
         //^ error: the vote in `all` is cut
  out[1] = unsigned(~__ballot(p));
         //^ error: is cut to `unsigned`
  atomicOr(&out[2], __ballot(p));
//^ error: goes into a `unsigned` in memory
  out[3] = p ? __ballot(p) : 0;
//^ error: which is `unsigned`
  out[4] = CUT(p) + n + b + c + d + a;
}
",
        );
    }

    #[test]
    fn no_bits_are_lost() {
        expect(
            RULE.id,
            "
#define LOW(p) ((unsigned)(__ballot(p) & 0xff))
__global__ void k(unsigned* out, int p) {
  unsigned long long all = __ballot(p);
  out[0] = (unsigned)all;
  out[1] = (unsigned)(all >> 32);
  unsigned byte = __ballot(p) & 0xff;
  bool mine = __ballot(p) & (1ull << p);
  out[2] = (__ballot(p) >> (threadIdx.x & 63)) & 1;
  if (threadIdx.x < 32) out[3] = (unsigned)__ballot(p);
  if (threadIdx.x / 64 == 0 && (threadIdx.x & 63) < 16) out[4] = __ballot(p);
  if (out[5] > 0) return;
  if (threadIdx.x >= 32) return;
  unsigned few = __ballot(p);
  out[5] = LOW(p);
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
  out[3] = bits & ~(0xffffffffu << lane);
                  //^ error: shifts a 32-bit value
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
            "__global__ void k(int* out, int p) { int m = __ballot(p); out[0] = m % 3; }\n",
            "__global__ void k(int* out, int p) { unsigned long long m = __ballot(p); out[0] = m % 3; }\n",
            Safety::Unsafe,
        );
    }
}
