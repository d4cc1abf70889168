//! `padding-breaks-vector-alignment`

use hipsmith_syntax::lanes::{Evaluator, Geometry};
use hipsmith_syntax::{Node, Scope, SharedArray};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, unparenthesized};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "padding-breaks-vector-alignment",
    family: Family::B,
    severity: Severity::Warning,
    scope: LooksAt::Function,
    summary: "Padding of an LDS row that helps no read and splits a vector store into scalar ones.",
    docs: r#"
## What it does
Finds a `__shared__` array whose rows are padded by a number of bytes that is no multiple of 16, into which the four
components of one vector are stored side by side, and which is never read down a column. The padding then removes no
conflict, and keeps the compiler from storing the four components at once.

Silent where some read takes a different row in each lane: there an odd stride is what avoids conflicts, and four scalar
stores are its price.

## Why it matters on 64 lanes
A store of 16 bytes per lane (`ds_write_b128`) needs an address that is a multiple of 16. It moves what four stores of 4
bytes move, with one instruction and one address, and the LDS reaches its full width only with it.

## Example that fires
```hip fires
__global__ void gemm(const float4* b, float* c, int n) {
  const int pad = 5;
  __shared__ float tile[8][64 + pad];
  int row = threadIdx.x / 16, column = threadIdx.x % 16 * 4;
  float4 v = b[threadIdx.x];
  tile[row][column + 0] = v.x;
  tile[row][column + 1] = v.y;
  tile[row][column + 2] = v.z;
  tile[row][column + 3] = v.w;
  __syncthreads();
  for (int k = 0; k < 8; ++k) c[threadIdx.x] += tile[k][threadIdx.x % 64];
}
```

## Example that does not
```hip quiet
__global__ void gemm(const float4* b, float* c, int n) {
  const int pad = 4;
  __shared__ float tile[8][64 + pad];
  int row = threadIdx.x / 16, column = threadIdx.x % 16 * 4;
  float4 v = b[threadIdx.x];
  tile[row][column + 0] = v.x;
  tile[row][column + 1] = v.y;
  tile[row][column + 2] = v.z;
  tile[row][column + 3] = v.w;
  __syncthreads();
  for (int k = 0; k < 8; ++k) c[threadIdx.x] += tile[k][threadIdx.x % 64];
}
```

## Fix
Pad by a multiple of 16 bytes, or not at all.

## Sources
AMD's CDNA3 ISA document, "LDS instructions" (alignment of `ds_write_b128`); LLVM's AMDGPU user guide.
"#,
    check,
};

/// Bytes that the widest LDS instruction moves for a lane.
const VECTOR: i64 = 16;

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if cx.model.shared.is_empty() {
        return;
    }
    for (_, f) in cx.subjects() {
        // What is looked for is the same in all lanes or not; the shape of the workgroup does not matter.
        let mut eval = None;
        for four in f.assignments.windows(4) {
            let Some((shared, first)) = side_by_side(cx, four) else {
                continue;
            };
            let eval = eval.get_or_insert_with(|| cx.evaluator(f, Geometry::FirstWave));
            let Some(row) = padded_row(cx, eval, shared, first) else {
                continue;
            };
            if row.bytes % VECTOR == 0 || !reads_along_rows(cx, f, eval, shared) {
                continue;
            }
            let per_vector = VECTOR / row.element;
            let better = (row.padding + per_vector - 1) / per_vector * per_vector;
            out.push(Diagnostic {
                rule: RULE.id,
                family: RULE.family,
                severity: RULE.severity,
                range: first.byte_range(),
                message: format!(
                    "rows of `{}` are padded by {} bytes, so this vector is stored in four pieces of {} bytes instead of one; no read takes different rows in its lanes, so the padding removes no conflict; pad by {better} elements or not at all",
                    shared.name,
                    row.padding * row.element,
                    row.element,
                ),
                related: vec![(
                    shared.name_range.clone(),
                    format!("`{}` is declared here", shared.name),
                )],
                fix: None,
            });
        }
    }
}

/// Four assignments in a row that put x, y, z and w of one vector into an array in LDS: the array and the first place.
fn side_by_side<'a, 't>(
    cx: &'a Context<'t>,
    four: &[Node<'t>],
) -> Option<(&'a SharedArray, Node<'t>)> {
    let mut object = None;
    let mut array: Option<&SharedArray> = None;
    let mut place = None;
    for (assignment, want) in four.iter().zip(["x", "y", "z", "w"]) {
        let right = assignment.child_by_field_name("right")?;
        if right.kind() != "field_expression"
            || cx.text(right.child_by_field_name("field")?) != want
            || cx.text(assignment.child_by_field_name("operator")?) != "="
        {
            return None;
        }
        let from = cx.text(right.child_by_field_name("argument")?);
        if object.is_some_and(|o| o != from) {
            return None;
        }
        object = Some(from);
        let left = assignment.child_by_field_name("left")?;
        let shared = array_of(cx, left)?;
        if array.is_some_and(|a| a.name_range != shared.name_range) {
            return None;
        }
        array = Some(shared);
        place = place.or(Some(left));
    }
    // The row of all four is written alike: `As[(c * 4 + 1) * BM + r]` goes down a column.
    let first = index_of(four.first()?.child_by_field_name("left")?)?;
    let last = index_of(four.last()?.child_by_field_name("left")?)?;
    let stem = |n: Node<'t>| match n.kind() {
        "binary_expression"
            if n.child_by_field_name("right")?.kind() == "number_literal"
                && cx.text(n.child_by_field_name("operator")?) == "+" =>
        {
            Some(cx.text(n.child_by_field_name("left")?))
        }
        _ => Some(cx.text(n)),
    };
    (stem(first)? == stem(last)?).then_some((array?, place?))
}

/// The innermost index of a subscript.
fn index_of(node: Node<'_>) -> Option<Node<'_>> {
    let list = node.child_by_field_name("indices")?;
    (list.named_child_count() == 1).then(|| list.named_child(0))?
}

fn array_of<'a>(cx: &'a Context<'_>, node: Node<'_>) -> Option<&'a SharedArray> {
    let mut base = node;
    for _ in 0..4 {
        if base.kind() != "subscript_expression" {
            break;
        }
        base = base.child_by_field_name("argument")?;
    }
    (base.kind() == "identifier" && base.id() != node.id())
        .then(|| cx.model.shared_at(cx.text(base), base.start_byte()))?
}

struct Row {
    /// Bytes of a row, up to multiples of [`VECTOR`].
    bytes: i64,
    /// Elements of padding.
    padding: i64,
    element: i64,
}

/// The padding of the rows of `shared`, whose place `node` is.
fn padded_row<'t>(
    cx: &Context<'t>,
    eval: &Evaluator<'_, 't>,
    shared: &SharedArray,
    node: Node<'t>,
) -> Option<Row> {
    let element = i64::try_from(shared.element_size?)
        .ok()
        .filter(|e| matches!(e, 1 | 2 | 4))?;
    if shared.dims.len() == 2 {
        let text = &shared.dims.get(1)?.text;
        let (_, padding) = text.rsplit_once('+')?;
        let scope = Scope::at(shared.name_range.start);
        let padding = cx.model.eval(padding.trim_end_matches(')'), &scope)?;
        // Rows of a template parameter's length are taken as whole vectors: nobody stores vectors into others.
        let bytes = match cx.model.eval(text, &scope) {
            Some(columns) => columns.checked_mul(element)?,
            None => padding.checked_mul(element)?,
        };
        return (1..32).contains(&padding).then_some(Row {
            bytes,
            padding,
            element,
        });
    }
    let (_, stride) = row_and_stride(cx, index_of(node)?)?;
    let padding = eval.constant(stride.child_by_field_name("right")?)?;
    let whole = eval
        .constant(stride.child_by_field_name("left")?)
        .unwrap_or(0);
    (1..32).contains(&padding).then_some(Row {
        bytes: whole.checked_add(padding)?.checked_mul(element)?,
        padding,
        element,
    })
}

/// `row * (columns + padding)` in an index: the row and the sum.
fn row_and_stride<'t>(cx: &Context<'t>, index: Node<'t>) -> Option<(Node<'t>, Node<'t>)> {
    let mut node = index;
    for _ in 0..16 {
        node = unparenthesized(node);
        if node.kind() != "binary_expression" {
            return None;
        }
        let (left, right) = (
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        );
        match cx.text(node.child_by_field_name("operator")?) {
            "+" => node = left,
            "*" => {
                let sum = unparenthesized(right);
                return (sum.kind() == "binary_expression"
                    && cx.text(sum.child_by_field_name("operator")?) == "+")
                    .then_some((left, sum));
            }
            _ => return None,
        }
    }
    None
}

/// Whether every read of the array in the function takes one row for all lanes.
fn reads_along_rows<'t>(
    cx: &Context<'t>,
    f: &Function<'t>,
    eval: &Evaluator<'_, 't>,
    shared: &SharedArray,
) -> bool {
    let mut any = false;
    for s in &f.subscripts {
        let Some(parent) = s.parent() else { continue };
        if parent.kind() == "subscript_expression"
            && parent.child_by_field_name("argument") == Some(*s)
            || array_of(cx, *s).is_none_or(|a| a.name_range != shared.name_range)
        {
            continue;
        }
        let written = parent.kind() == "assignment_expression"
            && parent.child_by_field_name("left") == Some(*s);
        if written {
            continue;
        }
        let row = if shared.dims.len() == 2 {
            s.child_by_field_name("argument").and_then(index_of)
        } else {
            index_of(*s)
                .and_then(|i| row_and_stride(cx, i))
                .map(|(row, _)| row)
        };
        if !row
            .and_then(|r| eval.eval(r))
            .is_some_and(|v| v.is_uniform())
        {
            return false;
        }
        any = true;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn strides_written_out() {
        expect(
            RULE.id,
            "
template <int BN, int BK> __global__ void k(const float4* b, float* c) {
  const int extra = 3;
  __shared__ float s[BK * (BN + extra)];
  __shared__ float t[BK * (BN + extra)];
  int r = threadIdx.x / (BN / 4), q = threadIdx.x % (BN / 4);
  float4 v = b[threadIdx.x];
  s[r * (BN + extra) + q * 4 + 0] = v.x;
  //~ warning: padded by 12 bytes
  s[r * (BN + extra) + q * 4 + 1] = v.y;
  s[r * (BN + extra) + q * 4 + 2] = v.z;
  s[r * (BN + extra) + q * 4 + 3] = v.w;
  t[r * (BN + extra) + q * 4 + 0] = v.x;
  t[r * (BN + extra) + q * 4 + 1] = v.y;
  t[r * (BN + extra) + q * 4 + 2] = v.z;
  t[r * (BN + extra) + q * 4 + 3] = v.w;
  __syncthreads();
  for (int i = 0; i < BK; ++i) c[i] = s[i * (BN + extra) + threadIdx.x] + t[threadIdx.x * (BN + extra) + i];
}
",
        );
    }
}
