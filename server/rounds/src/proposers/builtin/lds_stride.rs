//! Two-dimensional LDS arrays whose rows start in the same banks get another row stride, or swizzled columns.
//!
//! **Does.** `__shared__ T a[R][C]` becomes `a[R][C + p]`, or every `a[r][c]` becomes `a[r][c ^ (r % C)]`.
//!
//! **Legal when** every use of the array is a full `a[r][c]` whose address is not taken: then only the place of each
//! element changes, and results are bit-equal. The swizzle also needs `C` to be a power of two (so that a row's columns
//! are exchanged among themselves) and index expressions without effects. An array that is read through a pointer, or
//! as vectors, is left alone: irregular padding breaks vector alignment (a known dead end).
//!
//! **Expected.** The target's own lane groups are evaluated for every access of one wavefront, before and after; only a
//! layout that costs fewer LDS cycles is proposed. 20-40 % in the field report where LDS is the bottleneck. The swizzle is
//! expected to win less: neighbouring columns are no longer neighbours, so the compiler cannot join their reads.

use hipsmith_syntax::Node;

use hipsmith_target::LdsAccess;

use super::code::{Code, Shared, all};
use super::edit::Edits;
use super::{Idea, Kind};

/// The rewrite: one idea for padding, one for swizzling, each over all arrays that gain.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    // Code that this target does not compile is not in the tree: its accesses would be missed.
    if code.has_directives(code.body.byte_range()) {
        return Vec::new();
    }
    [Layout::Padded, Layout::Swizzled]
        .into_iter()
        .filter_map(|layout| all_arrays(code, layout))
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Padded,
    Swizzled,
}

fn all_arrays(code: &Code, layout: Layout) -> Option<Idea> {
    let mut edits = Edits::default();
    let mut said = Vec::new();
    let mut room = i64::from(code.target.lds.max_bytes_per_workgroup) - lds_bytes(code)?;
    let (mut cost_before, mut cost_after) = (0, 0);
    for array in &code.shared {
        let Some(grid) = Grid::of(code, array) else {
            continue;
        };
        let before = grid.cost(code, 0, false)?;
        let (after, pad) = match layout {
            Layout::Padded => [1, 2, 4, 8, 16]
                .into_iter()
                // Whole banks only: an odd number of 2-byte elements would split words between lanes.
                .filter(|p| p * grid.bytes % 4 == 0)
                .filter(|p| i64::from(p * grid.bytes) * i64::from(grid.rows) <= room)
                .filter_map(|p| Some((grid.cost(code, p, false)?, p)))
                .min()?,
            Layout::Swizzled if grid.columns.is_power_of_two() => (grid.cost(code, 0, true)?, 0),
            Layout::Swizzled => continue,
        };
        if after >= before {
            continue;
        }
        let width = array.dims.get(1)?.0.clone();
        match layout {
            Layout::Padded => {
                room -= i64::from(pad * grid.bytes) * i64::from(grid.rows);
                edits.replace(width.end..width.end, format!(" + {pad}"));
            }
            Layout::Swizzled => {
                let columns = code.text.get(width)?;
                for access in &grid.accesses {
                    let (row, column) = (code.str(access.row), code.str(access.column));
                    let mask = if columns.chars().all(|c| c.is_alphanumeric() || c == '_') {
                        columns.to_owned()
                    } else {
                        format!("({columns})")
                    };
                    edits.replace(
                        access.column.byte_range(),
                        format!(
                            "{} ^ ({} % {mask})",
                            enclosed(access.column, column),
                            enclosed(access.row, row)
                        ),
                    );
                }
            }
        }
        cost_before += before;
        cost_after += after;
        said.push(match layout {
            Layout::Padded => format!(
                "`{}` gets rows of {} elements",
                array.name,
                grid.columns + pad
            ),
            Layout::Swizzled => format!("the columns of `{}` are exchanged by row", array.name),
        });
    }
    if said.is_empty() {
        return None;
    }
    let (id, expected) = match layout {
        Layout::Padded => ("lds-stride/pad", 1.2),
        Layout::Swizzled => ("lds-stride/swizzle", 1.05),
    };
    Some(Idea {
        id: id.to_owned(),
        kind: Kind::Lds,
        what: format!(
            "LDS accesses of one wavefront cost {cost_before} cycles by the lane groups of {}, {cost_after} when {}",
            code.target.name,
            said.join(" and ")
        ),
        expected,
        new_text: edits.apply(code.text)?,
        launch: None,
    })
}

/// Static LDS of the kernel, bytes; `None` when a size is unknown.
fn lds_bytes(code: &Code) -> Option<i64> {
    code.shared
        .iter()
        .filter(|s| !s.dynamic)
        .try_fold(0, |sum, s| {
            let elements: u64 = s.dims.iter().map(|d| d.1).product::<Option<u64>>()?;
            Some(sum + i64::try_from(elements).ok()? * i64::from(size_of(code, &s.element)?))
        })
}

fn size_of(code: &Code, element: &str) -> Option<u32> {
    match element {
        "float" | "int" | "unsigned" | "unsigned int" | "int32_t" | "uint32_t" => Some(4),
        "double" | "long long" | "unsigned long long" | "int64_t" | "uint64_t" | "float2" => {
            Some(8)
        }
        "half" | "__half" | "_Float16" | "short" | "unsigned short" | "uint16_t" | "int16_t" => {
            Some(2)
        }
        "char" | "unsigned char" | "uint8_t" | "int8_t" => Some(1),
        t => {
            let position = code.template_params.iter().position(|p| p == t)?;
            let launch = code.launches.first()?;
            let given = launch.template_args.get(position)?;
            (given != t).then(|| size_of(code, given.trim())).flatten()
        }
    }
}

/// A two-dimensional array whose every use is known.
struct Grid<'a> {
    rows: u32,
    columns: u32,
    bytes: u32,
    accesses: Vec<Access<'a>>,
}

struct Access<'a> {
    row: Node<'a>,
    column: Node<'a>,
    kind: LdsAccess,
    weight: u32,
}

impl<'a> Grid<'a> {
    fn of(code: &Code<'a>, array: &Shared) -> Option<Self> {
        let [(_, Some(rows)), (_, Some(columns))] = array.dims.as_slice() else {
            return None;
        };
        let mut accesses = Vec::new();
        for name in
            all(code.body).filter(|n| n.kind() == "identifier" && code.str(*n) == array.name)
        {
            if array.range.contains(&name.start_byte()) {
                continue;
            }
            let inner = name
                .parent()
                .filter(|p| p.kind() == "subscript_expression")?;
            let outer = inner
                .parent()
                .filter(|p| p.kind() == "subscript_expression")?;
            let user = outer.parent()?;
            let is_base = code
                .subscript_base(outer)
                .is_some_and(|b| b.id() == inner.id());
            if !is_base || (user.kind() == "pointer_expression" && code.operator(user) == "&") {
                return None;
            }
            // A call might take the element by reference and walk on from there.
            if user.kind() == "argument_list" {
                let callee = user
                    .parent()
                    .and_then(|c| c.child_by_field_name("function"))?;
                if !code.is_pure(&code.norm(callee)) {
                    return None;
                }
            }
            let (row, column) = (code.subscript_index(inner)?, code.subscript_index(outer)?);
            let effects = |n: Node<'a>| code.writes_in(n).next().is_some();
            if effects(row) || effects(column) {
                return None;
            }
            let stored = user.kind() == "assignment_expression"
                && user
                    .child_by_field_name("left")
                    .is_some_and(|l| l.id() == outer.id());
            let mut depth = 0;
            let mut at = outer;
            while let Some(parent) = at.parent()
                && at.id() != code.body.id()
            {
                depth += u32::from(matches!(
                    parent.kind(),
                    "for_statement" | "while_statement" | "do_statement"
                ));
                at = parent;
            }
            accesses.push(Access {
                row,
                column,
                kind: if stored {
                    LdsAccess::Write
                } else {
                    LdsAccess::Read
                },
                weight: 16u32.saturating_pow(depth.min(3)),
            });
        }
        Some(Self {
            rows: u32::try_from(*rows).ok()?,
            columns: u32::try_from(*columns).ok()?,
            bytes: size_of(code, &array.element)?,
            accesses,
        })
        .filter(|g| !g.accesses.is_empty() && g.bytes > 0)
    }

    /// LDS cycles of one wavefront's accesses, those in loops counted 16-fold.
    fn cost(&self, code: &Code<'a>, pad: u32, swizzled: bool) -> Option<u64> {
        let block = code.proved_block().unwrap_or(code.dispatch.block);
        let mut total = 0;
        for access in &self.accesses {
            let mut addresses = [None; 64];
            for (lane, slot) in (0u32..).zip(addresses.iter_mut()) {
                let x = lane % block[0].max(1);
                let y = lane / block[0].max(1) % block[1].max(1);
                let known = |name: &str| match name {
                    "threadIdx.x" => Some(i64::from(x)),
                    "threadIdx.y" => Some(i64::from(y)),
                    "threadIdx.z" => Some(0),
                    "blockDim.x" => Some(i64::from(block[0])),
                    "blockDim.y" => Some(i64::from(block[1])),
                    _ => None,
                };
                let row = code.evaluate(access.row, &known)?;
                let column = code.evaluate(access.column, &known)?;
                let column = if swizzled {
                    column ^ row.checked_rem(i64::from(self.columns))?
                } else {
                    column
                };
                let width = i64::from(self.columns + pad);
                let bytes = row
                    .checked_mul(width)?
                    .checked_add(column)?
                    .checked_mul(i64::from(self.bytes))?;
                *slot = Some(u32::try_from(bytes).ok()?);
            }
            let cost = code.target.lds.cost(access.kind, self.bytes, &addresses);
            total += u64::from(cost.cycles) * u64::from(access.weight);
        }
        Some(total)
    }
}

/// The text, in parentheses unless it is a single name or number.
fn enclosed(node: Node, text: &str) -> String {
    match node.kind() {
        "identifier" | "number_literal" | "field_expression" | "parenthesized_expression" => {
            text.to_owned()
        }
        _ => format!("({text})"),
    }
}
