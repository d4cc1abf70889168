//! `uncoalesced-access`

use std::collections::HashSet;

use hipsmith_syntax::lanes::{Binding, BindingKind, Evaluator, Geometry, LANES, Lanes, Op};
use hipsmith_syntax::{Node, Scope};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{self, Function, bare, walk};
use crate::rule::{Rule, Scope as LooksAt};
use crate::shapes::{Setting, is_flat};
use crate::variance::guards;

pub(super) static RULE: Rule = Rule {
    id: "uncoalesced-access",
    family: Family::V,
    severity: Severity::Warning,
    scope: LooksAt::Function,
    summary: "The lanes of a wavefront read or write global memory so far apart that each costs a memory line of its own.",
    docs: r#"
## What it does
Works out the addresses that the 64 lanes of a wavefront use in one access to global memory, and counts the memory lines
they touch against the fewest that could hold them. Reported are constant strides (`x[threadIdx.x * 16]`) and strides that
the text names without a number, when it also says that they are the length of a row: a lane that walks its own row
(`x[row * n + i]` with `i < n`), and two-dimensional code that puts `threadIdx.x` on the slow dimension.

Silent are uniform addresses, LDS, local arrays, indices read from memory, strides that may be 1, and lanes that the block's
shape gathers in few rows. The lines are predicted from the text; caches may soften what is reported.

## Why it matters on 64 lanes
A load instruction of a wavefront is served line by line. 64 lanes with 4 bytes side by side are 4 lines of 64 bytes; a
stride of a row is 64 lines, twice as many as the 32 lanes that the code was written for, and 64 wavefronts of them no longer
fit the 16 KiB of L1, so that what the lines held besides is fetched again.

## Example that fires
```hip fires
__global__ void rows(const float* x, float* sum, int rows, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float s = 0;
  for (int i = 0; i < n; ++i) s += x[row * n + i];
  sum[row] = s;
}
```

## Example that does not
```hip quiet
__global__ void columns(const float* x, float* sum, int rows, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  float s = 0;
  for (int i = 0; i < rows; ++i) s += x[i * n + column];
  sum[column] = s;
}
```

## Fix
Let neighbouring lanes take neighbouring elements: a wavefront per row with its lanes along it, `threadIdx.x` on the
contiguous dimension, or a tile that is read along the rows and turned in LDS. No fix is offered.

## Sources
Target tables (`cache.l1_line_bytes`); AMD CDNA performance guide, coalescing; llm.c and SGEMM_CUDA (naive kernels).
"#,
    check,
};

/// Elements between rows whose length is not known: far more than a memory line.
const ROW: i64 = 1 << 14;
/// Lines against the ideal from which an access is reported, and from which it is a warning.
const HINT: u32 = 4;
const WARNING: u32 = 8;
/// Fewer lines than these are no burden, whatever the ideal: small strides are for the compiler to make vectors of.
const LINES: u32 = 16;
/// Fewer lanes than these are not a wavefront's access.
const MOST_LANES: usize = 32;

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    for (index, f) in cx.subjects() {
        if f.subscripts.is_empty() || cx.kernels_reaching(index).is_empty() {
            continue;
        }
        let settings = cx.settings(index);
        let (flat, wide) = (is_flat(cx, f), rows_are_wide(cx, f));
        let readers: Vec<(&Setting, Evaluator<'_, '_>)> = settings
            .iter()
            .filter_map(|setting| {
                let geometry = match setting.shape {
                    Some(shape) => Geometry::Block { shape, wave: 0 },
                    None if flat => Geometry::FirstWave,
                    None if wide => Geometry::Wide,
                    None => return None,
                };
                Some((setting, cx.evaluator_in(f, setting, geometry)))
            })
            .collect();
        let mut said: HashSet<&str> = HashSet::new();
        for s in &f.subscripts {
            let text = cx.text(*s);
            // The same text a second time says the same.
            if !said.insert(text) {
                continue;
            }
            let Some(found) = worst(cx, f, &readers, *s) else {
                continue;
            };
            out.push(report(cx, *s, &found));
        }
    }
}

/// An access that costs more than it need.
struct Found<'t> {
    lines: u32,
    ideal: u32,
    /// What the rows are apart, when it is not a number.
    factor: Option<Node<'t>>,
    /// The index runs along the row in a loop.
    walks: bool,
    /// A known stride in bytes.
    stride: Option<i64>,
}

fn report(cx: &Context<'_>, node: Node<'_>, found: &Found<'_>) -> Diagnostic {
    let parent = node.parent();
    let written = parent.is_some_and(|p| {
        p.kind() == "assignment_expression" && p.child_by_field_name("left") == Some(node)
    });
    let kind = if written { "write" } else { "read" };
    let apart = match (found.factor, found.stride) {
        (Some(factor), _) => format!(
            "neighbouring lanes are `{}` elements apart",
            cx.text(factor)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        ),
        (None, Some(stride)) => format!("neighbouring lanes are {stride} bytes apart"),
        _ => "neighbouring lanes are far apart".to_owned(),
    };
    let advice = match (found.factor, found.walks) {
        (Some(_), true) => {
            "give a row to a wavefront with its lanes along it, or turn a tile in LDS"
        }
        (Some(_), false) => "put `threadIdx.x` on the contiguous dimension, or turn a tile in LDS",
        _ => {
            "let neighbouring lanes take neighbouring elements, or load what a lane needs as one vector"
        }
    };
    let ratio = found.lines / found.ideal.max(1);
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: if ratio >= WARNING {
            Severity::Warning
        } else {
            Severity::Hint
        },
        range: node.byte_range(),
        message: format!(
            "uncoalesced {kind}: {apart}, so a wavefront touches {} memory lines of {} bytes instead of {} (predicted); {advice}",
            found.lines, cx.target.cache.l1_line_bytes, found.ideal,
        ),
        related: Vec::new(),
        fix: None,
    }
}

/// The access at a subscript in the worst of the launches.
fn worst<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    readers: &[(&Setting, Evaluator<'_, 't>)],
    node: Node<'t>,
) -> Option<Found<'t>> {
    let list = node.child_by_field_name("indices")?;
    if list.named_child_count() != 1 {
        return None;
    }
    let index = list.named_child(0)?;
    let base = bare(node.child_by_field_name("argument")?);
    // `x[i].y` and `x[i][j]` are accesses of another shape.
    if node.parent().is_some_and(|p| {
        matches!(
            p.kind(),
            "field_expression" | "subscript_expression" | "pointer_expression"
        )
    }) {
        return None;
    }
    let pointer = pointer(cx, f, base)?;
    let mut out: Option<Found<'t>> = None;
    for (setting, eval) in readers {
        let reader = Reader { cx, f, eval };
        let Some(found) = reader.access(setting, &pointer, index, node) else {
            continue;
        };
        if out.as_ref().is_none_or(|o| found.lines > o.lines) {
            out = Some(found);
        }
    }
    out
}

/// Whether nothing speaks against a block that is at least as wide as half a wavefront: a launch in the file that gives
/// another x, or one that cannot be read, does.
fn rows_are_wide(cx: &Context<'_>, f: &Function<'_>) -> bool {
    let Some(model) = cx
        .model
        .functions
        .iter()
        .position(|m| m.name_range == f.name_range)
    else {
        return false;
    };
    cx.model.launches_of(model).all(|l| {
        let named = cx
            .model
            .variable_at(l.block_expr.text.trim(), l.range.start)
            .and_then(|v| v.init.as_ref());
        let block = named.unwrap_or(&l.block_expr).text.trim();
        let inner = block.strip_prefix("dim3").unwrap_or(block).trim();
        let x = inner.trim_start_matches(['(', '{']).split(',').next();
        x.and_then(|x| {
            let x = x.trim_end_matches([')', '}']);
            cx.model.eval(x, &Scope::at(l.range.start))
        })
        .is_some_and(|x| x >= 32)
    })
}

/// A pointer to global memory.
struct Pointer<'a, 't> {
    /// Where it starts: the binding of the pointer, then of the one that it was made from.
    chain: Vec<&'a Binding<'t>>,
}

/// Follow a pointer to a parameter of the function.
fn pointer<'a, 't>(
    cx: &Context<'t>,
    f: &'a Function<'t>,
    base: Node<'t>,
) -> Option<Pointer<'a, 't>> {
    let mut chain = Vec::new();
    let mut node = base;
    for _ in 0..4 {
        if node.kind() != "identifier" {
            return None;
        }
        let name = cx.text(node);
        if cx.model.shared_at(name, node.start_byte()).is_some() {
            return None;
        }
        let b = f.bindings.resolve(name, node.start_byte())?;
        if b.escapes
            || !b.compound
            || b.name.parent()?.kind() == "array_declarator" && b.kind != BindingKind::Parameter
        {
            return None;
        }
        chain.push(b);
        match b.kind {
            BindingKind::Parameter => return Some(Pointer { chain }),
            BindingKind::Local => node = root(bare(b.init?))?,
            _ => return None,
        }
    }
    None
}

/// The pointer at the root of `p + i`, `&p[i]`.
fn root(node: Node<'_>) -> Option<Node<'_>> {
    match node.kind() {
        "identifier" => Some(node),
        "binary_expression" => root(bare(node.child_by_field_name("left")?)),
        "pointer_expression" => {
            let s = bare(node.child_by_field_name("argument")?);
            if s.kind() == "subscript_expression" {
                root(bare(s.child_by_field_name("argument")?))
            } else {
                None
            }
        }
        "call_expression" => None,
        _ => None,
    }
}

/// An index: its lanes, rows of unknown length counted as [`ROW`] elements.
struct Index<'t> {
    lanes: Lanes,
    /// The unknown length of the rows.
    factor: Option<Node<'t>>,
    /// Loop variables added as they are.
    loops: Vec<usize>,
    /// Another coordinate of the thread or workgroup is added as it is.
    coordinate: bool,
}

struct Reader<'b, 't> {
    cx: &'b Context<'t>,
    f: &'b Function<'t>,
    eval: &'b Evaluator<'b, 't>,
}

impl<'t> Reader<'_, 't> {
    fn access(
        &self,
        setting: &Setting,
        pointer: &Pointer<'_, 't>,
        index: Node<'t>,
        node: Node<'t>,
    ) -> Option<Found<'t>> {
        let cx = self.cx;
        let mut total = self.index(index, 0)?;
        for b in &pointer.chain {
            if let Some(init) = b.init {
                total = add(total, self.offset(bare(init), 0)?)?;
            }
            for w in &b.writes {
                total = add(total, self.step(*w)?)?;
            }
        }
        if total.lanes.is_uniform() {
            return None;
        }
        let walks = self.evidence(&total);
        if total.factor.is_some() && !walks && !total.coordinate {
            return None;
        }
        let active = self.active(node)?;
        if active.iter().filter(|a| **a).count() < MOST_LANES {
            return None;
        }
        let last = pointer.chain.first()?;
        let scope = Scope::at(node.start_byte()).with(&setting.bound);
        let ty = last.type_text.replace("const", "").replace("volatile", "");
        let known = cx.model.size_of(ty.trim(), &scope);
        let bytes = match known {
            Some(b) => u32::try_from(b)
                .ok()
                .filter(|b| matches!(b, 1 | 2 | 4 | 8 | 16))?,
            // A type of the template: the lanes' distance decides, if it is a row.
            None if total.factor.is_some() => 4,
            None => return None,
        };
        let lowest = *total.lanes.lanes().iter().min()?;
        let mut addresses = [None; LANES];
        let mut seen = HashSet::new();
        for (lane, a) in addresses.iter_mut().enumerate() {
            if active[lane] && self.eval.geometry().is_active(lane) {
                let element = total.lanes.lanes()[lane] - lowest;
                seen.insert(element);
                *a = Some(u64::try_from(element).ok()? * u64::from(bytes));
            }
        }
        if seen.len() < MOST_LANES {
            return None;
        }
        let lines = cx.target.memory_lines(&addresses, bytes);
        let ideal = cx
            .target
            .ideal_memory_lines(u32::try_from(seen.len()).ok()?, bytes);
        if lines < LINES || lines < HINT * ideal.max(1) {
            return None;
        }
        let lanes = total.lanes.lanes();
        let stride = lanes
            .windows(2)
            .all(|w| w[1] - w[0] == lanes[1] - lanes[0])
            .then(|| (lanes[1] - lanes[0]).abs() * i64::from(bytes));
        Some(Found {
            lines,
            ideal,
            factor: total.factor,
            walks,
            stride,
        })
    }

    /// Whether a loop says that the rows are as long as it runs.
    fn evidence(&self, index: &Index<'t>) -> bool {
        let Some(factor) = index.factor else {
            return false;
        };
        let factor = self.cx.text(bare(factor));
        if ["ld", "pitch", "stride_row", "row_stride"]
            .iter()
            .any(|p| factor.starts_with(p))
        {
            return !index.loops.is_empty();
        }
        self.f
            .bindings
            .iter()
            .filter(|b| index.loops.contains(&b.name.id()))
            .any(|b| {
                let Some(statement) = b.declaration.parent() else {
                    return false;
                };
                let statement = if statement.kind() == "for_statement" {
                    Some(statement)
                } else {
                    statement.parent()
                };
                statement
                    .filter(|s| s.kind() == "for_statement")
                    .and_then(|s| s.child_by_field_name("condition"))
                    .and_then(facts::binary)
                    .is_some_and(|c| matches!(c.operator, "<" | "!=") && self.same(c.right, factor))
            })
    }

    fn same(&self, node: Node<'t>, factor: &str) -> bool {
        let node = bare(node);
        if self.cx.text(node) == factor {
            return true;
        }
        let defined = |name: &str, at: usize| {
            self.f
                .bindings
                .resolve(name, at)
                .filter(|b| b.writes.is_empty())
                .and_then(|b| b.init)
                .map(|i| self.cx.text(bare(i)).to_owned())
        };
        defined(self.cx.text(node), node.start_byte()).is_some_and(|d| d == factor)
            || defined(factor, node.start_byte()).is_some_and(|d| d == self.cx.text(node))
    }

    /// What a pointer was moved by when it was made.
    fn offset(&self, node: Node<'t>, depth: u32) -> Option<Index<'t>> {
        if depth > 16 {
            return None;
        }
        match node.kind() {
            "identifier" => zero(),
            "binary_expression" => {
                let b = facts::binary(node)?;
                let left = self.offset(bare(b.left), depth + 1)?;
                let right = self.index(b.right, 0)?;
                match b.operator {
                    "+" => add(left, right),
                    _ => None,
                }
            }
            "pointer_expression" => {
                let s = bare(node.child_by_field_name("argument")?);
                let list = s.child_by_field_name("indices")?;
                let base = self.offset(bare(s.child_by_field_name("argument")?), depth + 1)?;
                add(base, self.index(list.named_child(0)?, 0)?)
            }
            _ => None,
        }
    }

    /// What an assignment moves a pointer by.
    fn step(&self, write: Node<'t>) -> Option<Index<'t>> {
        if write.kind() == "update_expression" {
            return zero();
        }
        let operator = write.child_by_field_name("operator")?;
        if self.cx.text(operator) != "+=" {
            return None;
        }
        self.index(write.child_by_field_name("right")?, 0)
    }

    fn index(&self, node: Node<'t>, depth: u32) -> Option<Index<'t>> {
        if depth > 24 {
            return None;
        }
        let node = match node.kind() {
            "parenthesized_expression" | "cast_expression" => bare(node),
            _ => node,
        };
        // An identifier is taken apart first: what it adds is evidence.
        if let Some(known) = self.eval.eval(node)
            && !matches!(node.kind(), "binary_expression" | "identifier")
        {
            return Some(self.leaf(node, known));
        }
        match node.kind() {
            "binary_expression" => {
                let b = facts::binary(node)?;
                match b.operator {
                    "+" | "-" => {
                        let left = self.index(b.left, depth + 1)?;
                        let right = self.index(b.right, depth + 1)?;
                        if b.operator == "+" {
                            return add(left, right);
                        }
                        (right.factor.is_none()).then_some(())?;
                        Some(Index {
                            lanes: Lanes::apply(Op::Sub, &left.lanes, &right.lanes)?,
                            ..left
                        })
                    }
                    "*" => self.product(node, b.left, b.right, depth),
                    _ => {
                        let known = self.eval.eval(node)?;
                        Some(self.leaf(node, known))
                    }
                }
            }
            "identifier" => {
                let known = self.eval.eval(node);
                let b = self
                    .f
                    .bindings
                    .resolve(self.cx.text(node), node.start_byte());
                if let Some(b) = b
                    && b.kind == BindingKind::Local
                    && !b.compound
                    && !b.escapes
                    && b.writes.is_empty()
                    && let Some(init) = b.init
                {
                    return self.index(init, depth + 1);
                }
                known.map(|k| self.leaf(node, k))
            }
            "call_expression" => {
                let function = node.child_by_field_name("function")?;
                let args = facts::arguments(node);
                if function.kind() == "template_function"
                    && facts::callee_name(self.cx.source, node) == "static_cast"
                    && let [arg] = args[..]
                {
                    return self.index(arg, depth + 1);
                }
                None
            }
            _ => None,
        }
    }

    /// A product: of lanes and an unknown number it is rows of unknown length.
    fn product(
        &self,
        node: Node<'t>,
        left: Node<'t>,
        right: Node<'t>,
        depth: u32,
    ) -> Option<Index<'t>> {
        if let Some(known) = self.eval.eval(node) {
            return Some(Index {
                lanes: known,
                factor: None,
                loops: Vec::new(),
                coordinate: false,
            });
        }
        let (a, b) = (self.index(left, depth + 1)?, self.index(right, depth + 1)?);
        let (rows, by, factor) = if b.lanes.is_uniform() && !a.lanes.is_uniform() {
            (a, b, right)
        } else if a.lanes.is_uniform() && !b.lanes.is_uniform() {
            (b, a, left)
        } else {
            return None;
        };
        let lanes = match by.lanes.as_constant() {
            Some(c) => Lanes::apply(Op::Mul, &rows.lanes, &Lanes::constant(c)?)?,
            // Rows of rows are rows.
            None if rows.factor.is_some() => rows.lanes,
            None => {
                let known = Lanes::known(*rows.lanes.lanes())?;
                let apart = Lanes::apply(Op::Mul, &known, &Lanes::constant(ROW)?)?;
                Lanes::apply(Op::Add, &apart, &Lanes::uniform(ROW, true))?
            }
        };
        Some(Index {
            lanes,
            factor: if by.lanes.as_constant().is_some() {
                rows.factor
            } else {
                Some(rows.factor.unwrap_or(factor))
            },
            loops: Vec::new(),
            coordinate: false,
        })
    }

    fn leaf(&self, node: Node<'t>, lanes: Lanes) -> Index<'t> {
        let mut loops = Vec::new();
        let mut coordinate = false;
        walk(node, &mut |n| {
            match n.kind() {
                "identifier" => {
                    let name = self.cx.text(n);
                    if let Some(b) = self.f.bindings.resolve(name, n.start_byte())
                        && b.kind == BindingKind::Loop
                        && n.id() == node.id()
                        && b.writes.iter().all(|w| w.kind() == "update_expression")
                    {
                        loops.push(b.name.id());
                    }
                    coordinate |=
                        name.starts_with("hipThreadIdx") || name.starts_with("hipBlockIdx");
                }
                "field_expression" => {
                    coordinate |= n
                        .child_by_field_name("argument")
                        .is_some_and(|a| matches!(self.cx.text(a), "threadIdx" | "blockIdx"));
                }
                _ => {}
            }
            true
        });
        Index {
            lanes,
            factor: None,
            loops,
            coordinate,
        }
    }

    /// The lanes that come to the access; `None` when they may be few in an unknown way.
    fn active(&self, node: Node<'t>) -> Option<[bool; LANES]> {
        let mut out = [true; LANES];
        for g in guards(self.f.body, node)? {
            let inverted = g.statement.kind() == "if_statement"
                && g.statement
                    .child_by_field_name("alternative")
                    .is_some_and(|a| facts::within(a, node));
            match self.eval.eval(g.condition) {
                Some(v) if v.is_uniform() => {}
                Some(v) => {
                    if let Some(values) = v.values() {
                        for (o, v) in out.iter_mut().zip(values) {
                            *o &= (*v != 0) != inverted;
                        }
                    }
                }
                None => {
                    let mut few = self.only_the_last(g.condition, inverted);
                    walk(g.condition, &mut |n| {
                        // One lane, or those that the data choose.
                        few |= facts::binary(n).is_some_and(|b| {
                            n.kind() == "binary_expression"
                                && (b.operator == "==") != inverted
                                && matches!(b.operator, "==" | "!=")
                        }) || n.kind() == "subscript_expression"
                            || n.kind() == "call_expression";
                        !few
                    });
                    if few {
                        return None;
                    }
                }
            }
        }
        Some(out)
    }
}

impl<'t> Reader<'_, 't> {
    /// Whether a comparison holds for the last lanes of the last wavefront only: the rest of an array that does not
    /// fill a vector.
    fn only_the_last(&self, condition: Node<'t>, inverted: bool) -> bool {
        let Some(c) = facts::binary(condition) else {
            return false;
        };
        let (Some(a), Some(b)) = (self.eval.eval(c.left), self.eval.eval(c.right)) else {
            return false;
        };
        let Some(difference) = Lanes::apply(Op::Sub, &a, &b) else {
            return false;
        };
        let lanes = difference.lanes();
        let rising = lanes.windows(2).all(|w| w[1] >= w[0]) && lanes[0] != lanes[LANES - 1];
        let falling = lanes.windows(2).all(|w| w[1] <= w[0]) && lanes[0] != lanes[LANES - 1];
        match c.operator {
            "<" | "<=" => (falling && !inverted) || (rising && inverted),
            ">" | ">=" => (rising && !inverted) || (falling && inverted),
            _ => false,
        }
    }
}

fn zero<'t>() -> Option<Index<'t>> {
    Some(Index {
        lanes: Lanes::constant(0)?,
        factor: None,
        loops: Vec::new(),
        coordinate: false,
    })
}

fn add<'t>(a: Index<'t>, b: Index<'t>) -> Option<Index<'t>> {
    let mut loops = a.loops;
    loops.extend(b.loops);
    Some(Index {
        lanes: Lanes::apply(Op::Add, &a.lanes, &b.lanes)?,
        factor: a.factor.or(b.factor),
        loops,
        coordinate: a.coordinate || b.coordinate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn rows() {
        expect(
            RULE.id,
            "
__global__ void k(float* out, const float* in, const float* w, int rows, int C, int stride, int lda) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    const float* x = in + row * C;
    float* y = &out[row * C];
    float m = 0;
    for (int i = 0; i < C; i++) m += x[i] * w[i];
                                   //^ warning: `C` elements apart, so a wavefront touches 64 memory lines of 64 bytes instead of 4
    for (int i = 0; i < C; i++) y[i] = m;
                              //^ warning: uncoalesced write
    for (int i = 0; i < 3; i++) m += in[row * stride + i];
    for (int i = 0; i < rows; i++) m += in[row * lda + i];
                                      //^ warning: `lda` elements
    for (int i = 0; i < C; i++) m += in[i * rows + row];
    if (row == rows - 1) for (int i = 0; i < C; i++) m += in[row * C + i + 1];
    out[row] = m;
  }
}
",
        );
    }

    #[test]
    fn swapped_roles() {
        expect(
            RULE.id,
            "
__global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  float t = 0;
  for (int i = 0; i < k; ++i) t += a[x * k + i] * b[i * n + y];
                                 //^ warning: `k` elements
  c[x * n + y] = t;
//^ warning: put `threadIdx.x` on the contiguous dimension
  c[y * n + x] = t;
}
__global__ void r(const float* a, float* c, int n) {
  int row = threadIdx.y, column = threadIdx.x;
  for (int i = 0; i < n; ++i) c[row * n + column] += a[row * n + i];
}
void go(float* x) { r<<<1, dim3(16, 16)>>>(x, x, 3); }
",
        );
    }

    #[test]
    fn constant_strides() {
        expect(
            RULE.id,
            "
__constant__ float table[4096];
__global__ void k(float* x, double* d, float4* v, const int* at, int n) {
  __shared__ float s[4096];
  float local[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i * 2] = 1;
  x[i * 16] = 1;
//^ warning: 64 bytes apart, so a wavefront touches 64 memory lines of 64 bytes instead of 4
  x[i * 4] = 1;
//^ hint: touches 16 memory lines
  unsigned left = n - i * 8;
  if (left < 8) x[i * 8] = 1;
  else x[i * 8 + 1] = 1;
     //^ warning: 32 bytes apart
  v[i] = v[n];
  x[at[i]] = s[threadIdx.x * 32] + table[i * 32] + local[(i * 32) % 64];
  x[i / 32] = x[(i & 31) * 16 & 15];
  if (threadIdx.x < 4) x[i * 32] = 0;
}
",
        );
    }
}
