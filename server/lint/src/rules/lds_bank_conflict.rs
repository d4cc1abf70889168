//! `lds-bank-conflict`

use std::collections::HashSet;

use hipsmith_syntax::Node;
use hipsmith_syntax::lanes::{BindingKind, Evaluator, Geometry, LANES, Lanes, Op, Uniform};
use hipsmith_syntax::{Binding as Bound, Scope, SharedArray};
use hipsmith_target::{LdsAccess, LdsCost};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{Function, ancestor, unparenthesized, walk, within};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lds-bank-conflict",
    family: Family::B,
    severity: Severity::Warning,
    scope: LooksAt::Function,
    summary: "The lanes of one LDS access meet on the same bank and take turns.",
    docs: r#"
## What it does
Works out the address of every lane for each read and write of a `__shared__` array and counts, with the target's lane
groups and banks, how many different words the busiest bank has to give in one turn. Four or more is a warning, two or
three a hint. Loop variables are unknown, or tried in their first iterations where the answer depends on them; guards
such as `if (tid < 32)` take lanes out.

Silent where the index, the size of an element or the shape of the block is not known. A kernel that uses only
`threadIdx.x` counts as one-dimensional.

## Why it matters on 64 lanes
The LDS has 32 banks of 4 bytes and serves a 4-byte access of a wavefront in two turns of 32 lanes. An array with rows
of 32 words has a whole column in one bank: reading it takes 32 turns instead of one, 16 times longer than the rest of
the access.

## Example that fires
```hip fires
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
void launch(const float* in, float* out, int n) { transpose<<<1, dim3(32, 32)>>>(in, out, n); }
```

## Example that does not
```hip quiet
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][32 + 1];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
void launch(const float* in, float* out, int n) { transpose<<<1, dim3(32, 32)>>>(in, out, n); }
```

## Fix
For a two-dimensional array: the smallest padding of a row that leaves none of its accesses in conflict and keeps
vector accesses aligned. Safe when the array is local to the function, is used only through its two subscripts, and
still fits the LDS. Otherwise the stride has to be changed by hand, or the column swizzled with an XOR.

## Sources
Target tables (`lds.read`, `lds.write`, lane groups); AMD's "LDS bank conflict" article and the CK-tile documentation.
"#,
    check,
};

/// An access to LDS in the text.
struct Access<'t> {
    /// The outermost subscript.
    node: Node<'t>,
    /// Index of each dimension, outermost first.
    indices: Vec<Node<'t>>,
    reads: bool,
    writes: bool,
    /// Bytes of a lane, when the access is through a vector pointer.
    vector: Option<u32>,
}

/// A block shape with what it binds the template parameters to.
struct Setting {
    geometry: Geometry,
    bound: Vec<(String, Bound)>,
}

/// Loop iterations tried per variable.
const ITERATIONS: usize = 8;

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.model.shared.is_empty() {
        return;
    }
    for (index, f) in cx.subjects() {
        let mut accesses: Vec<(usize, Access<'_>)> = Vec::new();
        for s in &f.subscripts {
            if let Some(found) = access(cx, f, *s) {
                accesses.push(found);
            }
        }
        if accesses.is_empty() {
            continue;
        }
        let settings = settings(cx, f, index);
        let mut said: HashSet<(usize, String)> = HashSet::new();
        for (array, a) in &accesses {
            let Some(shared) = cx.model.shared.get(*array) else {
                continue;
            };
            let Some(worst) = worst(cx, f, shared, a, &settings, None) else {
                continue;
            };
            if worst.cost.degree < 2 || !said.insert((*array, cx.text(a.node).to_owned())) {
                continue;
            }
            let own: Vec<&Access<'_>> = accesses
                .iter()
                .filter(|(i, _)| i == array)
                .map(|(_, a)| a)
                .collect();
            out.push(report(cx, f, shared, a, &worst, &settings, &own));
        }
    }
}

struct Worst {
    cost: LdsCost,
    access: LdsAccess,
    bytes: u32,
    /// It depends on the iteration of a loop.
    some_iterations: bool,
}

fn report<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    shared: &SharedArray,
    a: &Access<'t>,
    worst: &Worst,
    settings: &[Setting],
    own: &[&Access<'t>],
) -> Diagnostic {
    let kind = match worst.access {
        LdsAccess::Read => "read",
        LdsAccess::Write => "write",
    };
    let doubt = if cx.target.lds.banks_known {
        ""
    } else {
        " (its bank count is not published; 32 is supposed)"
    };
    let fix = padding(cx, f, shared, settings, own);
    let advice = match &fix {
        Some(fix) => fix.title.clone(),
        None => "change the stride between lanes to an odd number of words, or swizzle the column"
            .into(),
    };
    let mut message = format!(
        "{}{}-way LDS bank conflict: this {kind} of {} bytes per lane takes {} turns of a wavefront instead of {} on {}{doubt}; {}",
        if worst.some_iterations { "up to " } else { "" },
        worst.cost.degree,
        worst.bytes,
        worst.cost.cycles,
        worst.cost.ideal_cycles,
        cx.target.name,
        lower_first(&advice),
    );
    if settings.iter().any(|s| s.geometry == Geometry::FirstWave) {
        message.push_str(" (supposing a one-dimensional block)");
    }
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: if worst.cost.degree >= 4 {
            Severity::Warning
        } else {
            Severity::Hint
        },
        range: a.node.byte_range(),
        message,
        related: vec![(
            shared.name_range.clone(),
            format!("`{}` is declared here", shared.name),
        )],
        fix,
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_lowercase().chain(chars).collect())
}

/// The block shapes to check a function for: those of the launches, or one-dimensional when nothing speaks against it.
fn settings(cx: &Context<'_>, f: &Function<'_>, index: usize) -> Vec<Setting> {
    let mut out: Vec<Setting> = Vec::new();
    let mut unknown = false;
    for k in cx.kernels_reaching(index) {
        let Some(kernel) = cx.functions.get(k) else {
            continue;
        };
        let Some(model) = cx
            .model
            .functions
            .iter()
            .position(|m| m.name_range == kernel.name_range)
        else {
            continue;
        };
        for launch in cx.model.launches_of(model) {
            let bound = if k == index {
                cx.model.instance_of(model, launch)
            } else {
                Vec::new()
            };
            let shape = launch.block.and_then(|b| {
                let [x, y, z] = b.map(|d| u32::try_from(d).ok().filter(|d| (1..=1024).contains(d)));
                Some([x?, y?, z?])
            });
            match shape {
                Some(shape) => {
                    let geometry = Geometry::Block { shape, wave: 0 };
                    if !out
                        .iter()
                        .any(|s| s.geometry == geometry && s.bound == bound)
                    {
                        out.push(Setting { geometry, bound });
                    }
                }
                None => {
                    unknown = true;
                    if !out
                        .iter()
                        .any(|s| s.geometry == Geometry::FirstWave && s.bound == bound)
                    {
                        out.push(Setting {
                            geometry: Geometry::FirstWave,
                            bound,
                        });
                    }
                }
            }
        }
        unknown |= out.is_empty();
    }
    if out.is_empty() {
        out.push(Setting {
            geometry: Geometry::FirstWave,
            bound: Vec::new(),
        });
        unknown = true;
    }
    if unknown {
        // A second dimension of unknown size moves lanes to other rows.
        let body = cx.text(f.body);
        let flat = ![
            "threadIdx.y",
            "threadIdx.z",
            "hipThreadIdx_y",
            "hipThreadIdx_z",
            "blockDim.y",
        ]
        .iter()
        .any(|w| body.contains(w));
        if !flat {
            out.retain(|s| s.geometry != Geometry::FirstWave);
        }
    }
    out.truncate(8);
    out
}

/// Read a subscript as a whole access to a shared array.
fn access<'t>(cx: &Context<'t>, f: &Function<'t>, node: Node<'t>) -> Option<(usize, Access<'t>)> {
    let mut inner = node;
    while inner.kind() == "subscript_expression" {
        inner = inner.child_by_field_name("argument")?;
    }
    if !cx.shared_names.contains(cx.text(inner)) {
        return None;
    }
    // Only the outermost of `a[i][j]`.
    let parent = node.parent()?;
    if parent.kind() == "subscript_expression"
        && parent.child_by_field_name("argument") == Some(node)
    {
        return None;
    }
    let mut indices = Vec::new();
    let mut base = node;
    while base.kind() == "subscript_expression" {
        let list = base.child_by_field_name("indices")?;
        if list.named_child_count() != 1 {
            return None;
        }
        indices.push(list.named_child(0)?);
        base = base.child_by_field_name("argument")?;
    }
    indices.reverse();
    if base.kind() != "identifier" {
        return None;
    }
    let name = cx.text(base);
    let shared = cx.model.shared_at(name, node.start_byte())?;
    // A local variable or parameter of the same name hides a global one.
    if let Some(b) = f.bindings.resolve(name, base.start_byte())
        && b.name.byte_range() != shared.name_range
    {
        return None;
    }
    let array = cx
        .model
        .shared
        .iter()
        .position(|s| s.name_range == shared.name_range)?;
    let dims = if shared.dynamic { 1 } else { shared.dims.len() };
    if indices.len() != dims {
        return None;
    }
    let mut a = Access {
        node,
        indices,
        reads: true,
        writes: false,
        vector: None,
    };
    match parent.kind() {
        "assignment_expression" if parent.child_by_field_name("left") == Some(node) => {
            a.writes = true;
            a.reads = parent
                .child_by_field_name("operator")
                .is_some_and(|o| cx.text(o) != "=");
        }
        "update_expression" => a.writes = true,
        "field_expression" => return None,
        "pointer_expression" => {
            let pointer = pointer_use(cx, parent)?;
            a.vector = pointer.0;
            a.reads = pointer.1;
            a.writes = pointer.2;
        }
        _ => {}
    }
    Some((array, a))
}

/// What is done with `&a[i]`: bytes per lane if it is a vector access, whether it reads, whether it writes.
fn pointer_use(cx: &Context<'_>, address: Node<'_>) -> Option<(Option<u32>, bool, bool)> {
    let parent = address.parent()?;
    if parent.kind() == "argument_list" {
        let call = parent.parent()?;
        let callee = call.child_by_field_name("function")?;
        let text = cx.text(callee);
        if text.starts_with("atomic") && parent.named_child(0) == Some(address) {
            return Some((None, false, true));
        }
        if let Some(ty) = text.strip_prefix("reinterpret_cast<") {
            return dereference(cx, call, ty.trim_end_matches('>'));
        }
        return None;
    }
    if parent.kind() == "cast_expression" {
        let ty = cx.text(parent.child_by_field_name("type")?);
        return dereference(cx, parent, ty);
    }
    None
}

fn dereference(cx: &Context<'_>, cast: Node<'_>, ty: &str) -> Option<(Option<u32>, bool, bool)> {
    let element = ty
        .trim()
        .strip_suffix('*')?
        .trim()
        .trim_start_matches("const ")
        .trim();
    let bytes = u32::try_from(cx.model.size_of(element, &Scope::at(cast.start_byte()))?).ok()?;
    let mut node = cast;
    while node.parent()?.kind() == "parenthesized_expression" {
        node = node.parent()?;
    }
    let mut whole = node.parent()?;
    match whole.kind() {
        "pointer_expression" if cx.text(whole).starts_with('*') => {}
        "subscript_expression" => {
            let index = whole.child_by_field_name("indices")?;
            if cx.text(index).trim_matches(['[', ']', ' ']) != "0" {
                return None;
            }
        }
        _ => return None,
    }
    while whole.parent()?.kind() == "parenthesized_expression" {
        whole = whole.parent()?;
    }
    let parent = whole.parent()?;
    let written = parent.kind() == "assignment_expression"
        && parent.child_by_field_name("left") == Some(whole);
    Some((Some(bytes), !written, written))
}

/// The costliest way the access happens, over the settings. `pad` adds elements to the rows of a 2-D array.
fn worst<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    shared: &SharedArray,
    a: &Access<'t>,
    settings: &[Setting],
    pad: Option<i64>,
) -> Option<Worst> {
    let mut out: Option<Worst> = None;
    for setting in settings {
        let Some(found) = cost(cx, f, shared, a, setting, pad) else {
            continue;
        };
        if out
            .as_ref()
            .is_none_or(|o| found.cost.cycles > o.cost.cycles)
        {
            out = Some(found);
        }
    }
    out
}

fn cost<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    shared: &SharedArray,
    a: &Access<'t>,
    setting: &Setting,
    pad: Option<i64>,
) -> Option<Worst> {
    let eval = cx.evaluator(f, setting.geometry);
    for (name, value) in &setting.bound {
        let Bound::Value(v) = value else { continue };
        for b in f
            .bindings
            .iter()
            .filter(|b| b.kind == BindingKind::Template)
        {
            if cx.text(b.name) == name {
                eval.pin(b, Some(*v));
            }
        }
    }
    let scope = Scope::at(shared.name_range.start).with(&setting.bound);
    let element = cx.model.size_of(&shared.element, &scope)?;
    let element = i64::try_from(element)
        .ok()
        .filter(|e| matches!(e, 1 | 2 | 4 | 8 | 16))?;
    // Strides in elements, innermost last.
    let mut stride = 1i64;
    let mut strides = vec![1i64; a.indices.len()];
    for i in (0..a.indices.len()).rev() {
        strides[i] = stride;
        if i > 0 {
            let dim = cx.model.eval(&shared.dims.get(i)?.text, &scope)?;
            let dim = if i + 1 == a.indices.len() {
                dim + pad.unwrap_or(0)
            } else {
                dim
            };
            stride = stride
                .checked_mul(dim)
                .filter(|s| (1..1 << 20).contains(s))?;
        }
    }
    let bytes = a.vector.map_or(element, i64::from);
    let (bytes, access) = (
        u32::try_from(bytes)
            .ok()
            .filter(|b| matches!(b, 1 | 2 | 4 | 8 | 12 | 16))?,
        if a.writes && !a.reads {
            LdsAccess::Write
        } else {
            LdsAccess::Read
        },
    );
    let one = || -> Option<LdsCost> {
        let mut index = Lanes::constant(0)?;
        for (node, stride) in a.indices.iter().zip(&strides) {
            let i = eval.eval(*node)?;
            let part = Lanes::apply(Op::Mul, &i, &Lanes::constant(*stride)?)?;
            index = Lanes::apply(Op::Add, &index, &part)?;
        }
        if let Uniform::Unknown { multiple, .. } = index.shared()
            && (multiple * element) % 4 != 0
        {
            return None;
        }
        let active = active(cx, f, &eval, a.node)?;
        let mut addresses = [None; LANES];
        for (lane, address) in addresses.iter_mut().enumerate() {
            if active[lane] && setting.geometry.is_active(lane) {
                let byte = index.lanes()[lane].checked_mul(element)?;
                *address = Some((byte.rem_euclid(1 << 32)) as u32);
            }
        }
        Some(cx.target.lds.cost(access, bytes, &addresses))
    };
    let build = |cost, some_iterations| Worst {
        cost,
        access,
        bytes,
        some_iterations,
    };
    if let Some(cost) = one() {
        return Some(build(cost, false));
    }
    // The answer depends on loop variables: try their first iterations.
    let mut loops: Vec<_> = Vec::new();
    let mut collect = |node: Node<'t>| {
        walk(node, &mut |n| {
            if n.kind() == "identifier"
                && let Some(b) = f.bindings.resolve(cx.text(n), n.start_byte())
            {
                if b.kind == BindingKind::Loop {
                    loops.push(b);
                } else if let Some(init) = b.init.filter(|_| b.kind == BindingKind::Local) {
                    walk(init, &mut |m| {
                        if m.kind() == "identifier"
                            && let Some(b) = f.bindings.resolve(cx.text(m), m.start_byte())
                            && b.kind == BindingKind::Loop
                        {
                            loops.push(b);
                        }
                        true
                    });
                }
            }
            true
        });
    };
    for node in &a.indices {
        collect(*node);
    }
    loops.sort_by_key(|b| b.name.start_byte());
    loops.dedup_by_key(|b| b.name.start_byte());
    if loops.is_empty() || loops.len() > 2 {
        return None;
    }
    let first: Vec<i64> = eval.iterations(loops[0], ITERATIONS);
    let mut worst: Option<LdsCost> = None;
    for v in first {
        eval.pin(loops[0], Some(v));
        let second = match loops.get(1) {
            Some(b) => eval
                .iterations(b, ITERATIONS)
                .into_iter()
                .map(Some)
                .collect(),
            None => vec![None],
        };
        for w in second {
            if let (Some(b), Some(w)) = (loops.get(1), w) {
                eval.pin(b, Some(w));
            }
            let cost = one()?;
            if worst.is_none_or(|c| cost.cycles > c.cycles) {
                worst = Some(cost);
            }
        }
    }
    worst.map(|c| build(c, true))
}

/// The lanes that reach a node, by the conditions around it; `None` when they may be few in an unknown way.
fn active<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    node: Node<'t>,
) -> Option<[bool; LANES]> {
    let mut out = [true; LANES];
    let mut n = node;
    while n.id() != f.body.id() {
        let parent = n.parent()?;
        let (condition, inverted) = match parent.kind() {
            "if_statement" => {
                let c = parent.child_by_field_name("condition")?;
                if within(c, node) {
                    n = parent;
                    continue;
                }
                let c = c
                    .child_by_field_name("value")
                    .or_else(|| c.named_child(0))?;
                let then = parent
                    .child_by_field_name("consequence")
                    .is_some_and(|b| within(b, node));
                (Some(c), !then)
            }
            "conditional_expression" => {
                let c = parent.child_by_field_name("condition")?;
                if within(c, node) {
                    (None, false)
                } else {
                    let then = parent
                        .child_by_field_name("consequence")
                        .is_some_and(|b| within(b, node));
                    (Some(c), !then)
                }
            }
            _ => (None, false),
        };
        if let Some(c) = condition {
            restrict(cx, eval, unparenthesized(c), inverted, &mut out)?;
        }
        n = parent;
    }
    Some(out)
}

fn restrict<'t>(
    cx: &Context<'t>,
    eval: &Evaluator<'_, 't>,
    condition: Node<'t>,
    inverted: bool,
    out: &mut [bool; LANES],
) -> Option<()> {
    let value = eval.eval(condition);
    if let Some(values) = value.as_ref().and_then(Lanes::values) {
        for (o, v) in out.iter_mut().zip(values) {
            *o &= (*v != 0) != inverted;
        }
        return Some(());
    }
    if value.is_some_and(|v| v.is_uniform()) {
        return Some(());
    }
    if condition.kind() != "binary_expression" {
        return None;
    }
    let operator = cx.text(condition.child_by_field_name("operator")?);
    match operator {
        "&&" | "||" => {
            if (operator == "&&") == inverted {
                // Either side may be the reason.
                return Some(());
            }
            restrict(
                cx,
                eval,
                unparenthesized(condition.child_by_field_name("left")?),
                inverted,
                out,
            )?;
            restrict(
                cx,
                eval,
                unparenthesized(condition.child_by_field_name("right")?),
                inverted,
                out,
            )
        }
        // A bound: all lanes of most wavefronts pass it.
        "<" | "<=" | ">" | ">=" => Some(()),
        "!=" if !inverted => Some(()),
        "==" if inverted => Some(()),
        // One lane, or those that the data choose.
        _ => None,
    }
}

/// The row padding that leaves no access of a two-dimensional array in conflict.
fn padding<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    shared: &SharedArray,
    settings: &[Setting],
    own: &[&Access<'t>],
) -> Option<Fix> {
    if shared.dynamic || shared.dims.len() != 2 {
        return None;
    }
    let scope = Scope::at(shared.name_range.start);
    let bound = settings
        .first()
        .map(|s| s.bound.as_slice())
        .unwrap_or_default();
    let scope = scope.with(bound);
    let element = i64::try_from(cx.model.size_of(&shared.element, &scope)?).ok()?;
    let widest = own
        .iter()
        .filter_map(|a| a.vector)
        .map(i64::from)
        .max()
        .unwrap_or(element)
        .max(element);
    let unit = (widest / element).max(1);
    let pad = (1..=8).map(|k| k * unit).find(|pad| {
        own.iter()
            .all(|a| match worst(cx, f, shared, a, settings, None) {
                // What is not known now stays as it is.
                None => true,
                Some(before) => {
                    worst(cx, f, shared, a, settings, Some(*pad)).is_some_and(|after| {
                        after.cost.degree <= 1
                            || after.cost.degree < before.cost.degree
                                && after.cost.degree <= 2
                                && unit > 1
                    })
                }
            })
    })?;
    let last = shared.dims.last()?;
    let simple = last
        .text
        .trim()
        .chars()
        .all(|c| c.is_alphanumeric() || "_ *+-:".contains(c));
    let end = last.range.end;
    let edits = if simple {
        vec![(end..end, format!(" + {pad}"))]
    } else {
        vec![
            (last.range.start..last.range.start, "(".to_owned()),
            (end..end, format!(") + {pad}")),
        ]
    };
    // Only when every use goes through both subscripts does nothing else see the stride.
    let owner = shared.function.and_then(|m| cx.model.functions.get(m));
    let local = owner.is_some_and(|m| m.name_range == f.name_range);
    let mut covered = local;
    walk(f.body, &mut |n| {
        if n.kind() == "identifier"
            && cx.text(n) == shared.name
            && n.byte_range() != shared.name_range
        {
            covered &= own.iter().any(|a| within(a.node, n))
                || ancestor(n, &["subscript_expression"], f.body)
                    .is_some_and(|s| whole(cx, s, &shared.name));
        }
        true
    });
    let rows = cx.model.eval(&shared.dims[0].text, &scope);
    let fits = rows
        .and_then(|r| r.checked_mul(pad)?.checked_mul(element))
        .and_then(|more| u64::try_from(more).ok())
        .is_some_and(|more| fits(cx, f, more));
    let safety = if covered && fits {
        Safety::Safe
    } else {
        Safety::Unsafe
    };
    Some(Fix::new(
        format!(
            "Pad the rows of `{}` by {pad} element{}",
            shared.name,
            if pad == 1 { "" } else { "s" }
        ),
        edits,
        safety,
    ))
}

/// Whether a subscript is `name[i][j]` used as a value.
fn whole(cx: &Context<'_>, inner: Node<'_>, name: &str) -> bool {
    let Some(outer) = inner.parent() else {
        return false;
    };
    outer.kind() == "subscript_expression"
        && outer.child_by_field_name("argument") == Some(inner)
        && inner
            .child_by_field_name("argument")
            .is_some_and(|a| cx.text(a) == name)
        && outer
            .parent()
            .is_none_or(|p| !matches!(p.kind(), "pointer_expression" | "subscript_expression"))
}

/// Whether `more` bytes fit beside the LDS that every kernel with this function has now.
fn fits(cx: &Context<'_>, f: &Function<'_>, more: u64) -> bool {
    let limit = u64::from(cx.target.lds.max_bytes_per_workgroup);
    let Some(m) = cx
        .model
        .functions
        .iter()
        .position(|m| m.name_range == f.name_range)
    else {
        return false;
    };
    if cx.model.functions[m].kind != hipsmith_syntax::FunctionKind::Kernel {
        return false;
    }
    let launches: Vec<_> = cx.model.launches_of(m).collect();
    if launches.is_empty() {
        return cx
            .model
            .static_lds(m, &[])
            .bytes
            .is_some_and(|b| b + more <= limit);
    }
    launches.iter().all(|l| {
        let bound = cx.model.instance_of(m, l);
        let fixed = cx.model.static_lds(m, &bound).bytes;
        let dynamic = l.lds_bytes.and_then(|b| u64::try_from(b).ok());
        fixed
            .zip(dynamic)
            .is_some_and(|(a, b)| a + b + more <= limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn strides() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, int n) {
  __shared__ float s[2048];
  __shared__ double d[64];
  s[threadIdx.x * 32] = x[0];
  //~ warning: 32-way LDS bank conflict: this write of 4 bytes per lane takes 64 turns of a wavefront instead of 2
  s[threadIdx.x * 2 + n] = x[1];
  //~ hint: 2-way
  s[threadIdx.x * 33] = x[2];
  s[threadIdx.x] = d[threadIdx.x];
  x[0] = s[n] + s[(threadIdx.x ^ 5) % 64] + s[n * threadIdx.x];
  if (threadIdx.x < 2) x[1] = s[threadIdx.x * 96];
                            //^ hint: 2-way
  if (threadIdx.x == n) x[2] = s[threadIdx.x * 32];
  for (int i = 0; i < 64; ++i) x[i] = s[threadIdx.x * 64 + (i ^ (threadIdx.x & 31))];
  for (int i = 0; i < 64; ++i) x[i] = s[threadIdx.x * 64 + i];
                                    //^ warning: 32-way
  for (int i = 1; i < 64; i *= 2) if (threadIdx.x * i * 2 < 64) x[i] = s[threadIdx.x * i * 2];
                                                                     //^ hint: up to 2-way
}
",
        );
    }

    #[test]
    fn two_dimensional_blocks_need_a_known_shape() {
        expect(
            RULE.id,
            "
#define N 16
template <int T> __global__ void t(float* x) {
  __shared__ float s[T][T];
  x[0] = s[threadIdx.x][threadIdx.y];
       //^ warning: 16-way
}
__global__ void u(float* x) {
  __shared__ float s[N][N];
  x[0] = s[threadIdx.x][threadIdx.y];
}
void go(float* x, dim3 b) {
  dim3 block(32, 8);
  t<32><<<1, block>>>(x);
  u<<<1, b>>>(x);
}
"
            .replace("16-way", "32-way")
            .as_str(),
        );
    }

    #[test]
    fn fix_pads_the_rows() {
        let head = "__global__ void t(float* x) {\n  __shared__ float s[32][32";
        let tail = "];\n  s[threadIdx.y][threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n  \
                    x[0] = s[threadIdx.x][threadIdx.y];\n}\nvoid go(float* x) { t<<<1, dim3(32, 32)>>>(x); }\n";
        expect_fix(
            RULE.id,
            &format!("{head}{tail}"),
            &format!("{head} + 1{tail}"),
            Safety::Safe,
        );
    }

    #[test]
    fn fix_of_an_array_that_is_handed_on_is_unsafe() {
        let source = |pad: &str| {
            format!(
                "__device__ void f(float (*s)[32]);\n__global__ void t(float* x) {{\n  __shared__ float s[32][32{pad}];\n  \
                 f(s);\n  x[0] = s[threadIdx.x][threadIdx.y];\n}}\nvoid go(float* x) {{ t<<<1, dim3(32, 32)>>>(x); }}\n"
            )
        };
        expect_fix(RULE.id, &source(""), &source(" + 1"), Safety::Unsafe);
    }
}
