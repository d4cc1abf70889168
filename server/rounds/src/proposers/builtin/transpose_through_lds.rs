//! A naive transpose goes through an LDS tile, so that both sides are coalesced.
//!
//! **Does.** `if (x < w && y < h) out[x * h + y] = in[y * w + x];`, with `x` and `y` from a two-dimensional block, reads
//! rows and writes columns: each lane's store is a memory line of its own. The tile is read as before, kept in LDS, and
//! written with the roles of the two thread indices exchanged. The mirrored form (columns read, rows written) is turned
//! the same way. The launch stays as it is.
//!
//! **Legal when** that assignment is all the kernel does, both index polynomials have the given form, the block is
//! proved from the file's launches to be square, and every thread reaches the new barrier (the bounds check moves inside,
//! no other return). Elements are moved, not computed: results are bit-equal.
//!
//! **Expected.** The strided side touches one line a lane instead of a few a wavefront. The field report lists coalesced
//! access with 16-byte loads at 2-3x on memory-bound kernels. The tile's row length is chosen by the target's own LDS
//! lane groups, not by habit.

use hipsmith_syntax::Node;

use hipsmith_target::LdsAccess;

use super::code::{Code, Level, Param, all, is_jump, named, words};
use super::edit::{Edits, indent_at, indent_unit, lay_out};
use super::poly::Poly;
use super::{Idea, Kind, fresh_ok};

/// The rewrite.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    transposed(code).into_iter().collect()
}

fn transposed(code: &Code) -> Option<Idea> {
    let [side, other, 1] = code.proved_block()? else {
        return None;
    };
    if side != other || !(8..=32).contains(&side) {
        return None;
    }
    let copy = Copy::find(code)?;
    let (x, y) = copy.axes(code, side)?;

    let index_of = |access: Node| code.subscript_index(access).map(|i| code.str(i));
    let (from, to) = (index_of(copy.load)?, index_of(copy.store)?);
    let load_base = code.str(code.subscript_base(copy.load)?);
    let store_base = code.str(code.subscript_base(copy.store)?);
    let element = element(code.param(load_base)?)?;
    let bytes = match element.as_str() {
        "float" | "int" | "unsigned" | "unsigned int" => 4,
        "double" | "long long" => 8,
        "half" | "__half" | "short" => 2,
        _ => 4,
    };
    let names = ["tile", "tile_x", "tile_y"];
    if !fresh_ok(code, &names) {
        return None;
    }
    // The constant that sizes the block, if the source has one: then the tile follows when it is changed.
    let size = words(code.str(x.value)).find(|w| {
        code.constants
            .get(*w)
            .is_some_and(|c| c.value == i64::from(side))
    });
    let size = size.map_or_else(|| side.to_string(), str::to_owned);
    let pad = best_pad(code, side, bytes);
    let columns = if pad == 0 {
        size.clone()
    } else {
        format!("{size} + {pad}")
    };

    let swapped = |text: &str| {
        let text = rename(text, &x.name, "tile_x");
        rename(&text, &y.name, "tile_y")
    };
    let guard = &copy.guard;
    let rows_read = copy.rows_read(code, &x, &y)?;
    let (tid_x, tid_y) = ("threadIdx.x", "threadIdx.y");
    // What is read in rows lands in tile[y][x]; what is read in columns has its indices exchanged already.
    let (read_guard, read_index, write_guard, write_index) = if rows_read {
        (guard.clone(), from.to_owned(), swapped(guard), swapped(to))
    } else {
        (swapped(guard), swapped(from), guard.clone(), to.to_owned())
    };
    let mut lines = String::new();
    let mut line = |depth: usize, text: String| {
        lines.push_str(&"\t".repeat(depth));
        lines.push_str(&text);
        lines.push('\n');
    };
    line(
        0,
        format!(
            "// A {side} x {side} tile in LDS: neighbouring lanes read neighbours and write neighbours."
        ),
    );
    line(0, format!("__shared__ {element} tile[{size}][{columns}];"));
    let kind = &x.kind;
    line(
        0,
        format!(
            "const {kind} tile_x = {};",
            exchange(code.str(x.value), tid_x, tid_y)?
        ),
    );
    line(
        0,
        format!(
            "const {kind} tile_y = {};",
            exchange(code.str(y.value), tid_y, tid_x)?
        ),
    );
    line(0, format!("if ({read_guard}) {{"));
    line(
        1,
        format!("tile[{tid_y}][{tid_x}] = {load_base}[{read_index}];"),
    );
    line(0, "}".to_owned());
    line(0, "__syncthreads();".to_owned());
    line(0, format!("if ({write_guard}) {{"));
    line(
        1,
        format!("{store_base}[{write_index}] = tile[{tid_x}][{tid_y}];"),
    );
    line(0, "}".to_owned());

    let mut edits = Edits::default();
    let base = indent_at(code.text, copy.range.start);
    let unit = indent_unit(code.text.get(code.body.byte_range())?);
    edits.replace(copy.range.clone(), lay_out(lines.trim_end(), base, &unit));
    let strided = if rows_read {
        ("writes", store_base)
    } else {
        ("reads", load_base)
    };
    Some(Idea {
        id: "transpose-through-lds".to_owned(),
        kind: Kind::Memory,
        what: format!(
            "each lane {} `{}` in a memory line of its own; through a {side} x {side} tile in LDS both sides are \
             coalesced{}",
            strided.0,
            strided.1,
            if pad == 0 {
                String::new()
            } else {
                format!(
                    ", with rows of {} elements against bank conflicts",
                    side + pad
                )
            },
        ),
        expected: 2.0,
        new_text: edits.apply(code.text)?,
        launch: None,
    })
}

/// `out[...] = in[...]` under a bounds check.
struct Copy<'a> {
    store: Node<'a>,
    load: Node<'a>,
    guard: String,
    condition: Node<'a>,
    /// The condition says which threads leave, not which stay.
    negated: bool,
    range: std::ops::Range<usize>,
}

/// One of the two element coordinates.
struct Axis<'a> {
    name: String,
    kind: String,
    value: Node<'a>,
}

impl<'a> Copy<'a> {
    fn find(code: &Code<'a>) -> Option<Self> {
        let statements = named(code.body);
        let (declarations, rest): (Vec<Node>, Vec<Node>) = statements
            .into_iter()
            .partition(|n| n.kind() == "declaration");
        // Nothing but coordinates before it: a declaration with a call may have an effect.
        let calls = |n: &Node| {
            all(*n)
                .any(|c| c.kind() == "call_expression" && !code.str(c).starts_with("static_cast"))
        };
        if declarations.iter().any(calls) || !code.shared.is_empty() {
            return None;
        }
        let (condition, negated, assignment, range) = match rest.as_slice() {
            [branch] if branch.kind() == "if_statement" => {
                let inner = only(branch.child_by_field_name("consequence")?)?;
                if branch.child_by_field_name("alternative").is_some() {
                    return None;
                }
                (condition_of(*branch)?, false, inner, branch.byte_range())
            }
            [branch, copy] if branch.kind() == "if_statement" => {
                let inner = only(branch.child_by_field_name("consequence")?)?;
                if inner.kind() != "return_statement"
                    || !named(inner).is_empty()
                    || branch.child_by_field_name("alternative").is_some()
                {
                    return None;
                }
                (
                    condition_of(*branch)?,
                    true,
                    *copy,
                    branch.start_byte()..copy.end_byte(),
                )
            }
            _ => return None,
        };
        let jumps = all(code.body).filter(|n| is_jump(n.kind())).count();
        if assignment.kind() != "expression_statement" || jumps != usize::from(negated) {
            return None;
        }
        let assignment = named(assignment).into_iter().next()?;
        let (store, load) = (
            assignment.child_by_field_name("left")?,
            assignment.child_by_field_name("right")?,
        );
        let both = store.kind() == "subscript_expression" && load.kind() == "subscript_expression";
        if !both || code.operator(assignment) != "=" {
            return None;
        }
        if code.has_directives(code.body.byte_range()) {
            return None;
        }
        let guard = if negated {
            negate(code, condition)?
        } else {
            code.str(condition).to_owned()
        };
        Some(Self {
            store,
            load,
            guard,
            condition,
            negated,
            range,
        })
    }

    /// The coordinates along x and y, if the bounds check names exactly these two.
    fn axes(&self, code: &Code<'a>, side: u32) -> Option<(Axis<'a>, Axis<'a>)> {
        let mut axes = Vec::new();
        let (left, right) = (
            self.condition.child_by_field_name("left")?,
            self.condition.child_by_field_name("right")?,
        );
        let (join, sign) = if self.negated {
            ("||", ">=")
        } else {
            ("&&", "<")
        };
        if code.operator(self.condition) != join {
            return None;
        }
        for part in [left, right] {
            let name = part.child_by_field_name("left")?;
            let bound = part.child_by_field_name("right")?;
            if code.operator(part) != sign || code.level(bound) != Level::Grid {
                return None;
            }
            let local = code.local(code.str(name), name.start_byte())?;
            if name.kind() != "identifier" || code.reassigned(code.str(name)) || !local.plain {
                return None;
            }
            axes.push(Axis {
                name: code.str(name).to_owned(),
                kind: code.type_of(local),
                value: local.value?,
            });
        }
        let along = |axis: &str| {
            let block = Poly::int(i64::from(side)).mul(&Poly::atom(format!("blockIdx.{axis}")))?;
            block.add(&Poly::atom(format!("threadIdx.{axis}")))
        };
        let is = |a: &Axis<'a>, axis: &str| Some(code.known(&code.poly(a.value)?)? == along(axis)?);
        let second = axes.pop()?;
        let first = axes.pop()?;
        if is(&first, "x")? && is(&second, "y")? {
            Some((first, second))
        } else if is(&first, "y")? && is(&second, "x")? {
            Some((second, first))
        } else {
            None
        }
    }

    /// Whether the load walks rows (`in[y * w + x]`, `out[x * h + y]`) or columns (the mirror image); `None` for
    /// anything else.
    fn rows_read(&self, code: &Code<'a>, x: &Axis, y: &Axis) -> Option<bool> {
        // The coefficient of a coordinate, as a polynomial: index(x = 1) - index(x = 0), with the index not yet
        // resolved to thread indices.
        let shape = |access: Node<'a>| -> Option<(bool, bool)> {
            let index = code.subscript_index(access)?;
            let terms = sum_terms(code, index)?;
            let unit = |name: &str| terms.iter().any(|t| t.as_slice() == [name.to_owned()]);
            let scaled = |name: &str| {
                terms.iter().any(|t| {
                    t.len() == 2
                        && t.iter().filter(|f| *f == name).count() == 1
                        && t.iter().all(|f| {
                            f == name || code.param(f).is_some() || code.constants.contains_key(f)
                        })
                })
            };
            (terms.len() == 2).then_some((
                unit(&x.name) && scaled(&y.name),
                unit(&y.name) && scaled(&x.name),
            ))
        };
        match (shape(self.load)?, shape(self.store)?) {
            ((true, false), (false, true)) => Some(true),
            ((false, true), (true, false)) => Some(false),
            _ => None,
        }
    }
}

/// An index as products of names, locals not resolved.
fn sum_terms(code: &Code, node: Node) -> Option<Vec<Vec<String>>> {
    match node.kind() {
        "identifier" => Some(vec![vec![code.str(node).to_owned()]]),
        "parenthesized_expression" => sum_terms(code, named(node).into_iter().next()?),
        "binary_expression" => {
            let left = sum_terms(code, node.child_by_field_name("left")?)?;
            let right = sum_terms(code, node.child_by_field_name("right")?)?;
            match code.operator(node) {
                "+" => Some(left.into_iter().chain(right).collect()),
                "*" => match (left.as_slice(), right.as_slice()) {
                    ([a], [b]) => Some(vec![a.iter().chain(b).cloned().collect()]),
                    _ => None,
                },
                _ => None,
            }
        }
        "call_expression" if code.str(node).starts_with("static_cast<") => sum_terms(
            code,
            named(node.child_by_field_name("arguments")?)
                .into_iter()
                .next()?,
        ),
        "cast_expression" => sum_terms(code, node.child_by_field_name("value")?),
        _ => None,
    }
}

/// The padding, in elements, with the fewest LDS cycles for writing rows and reading columns.
fn best_pad(code: &Code, side: u32, bytes: u32) -> u32 {
    let cost = |pad: u32| {
        let mut rows = [None; 64];
        let mut columns = [None; 64];
        for lane in 0..64u32 {
            let (tx, ty) = (lane % side, lane / side);
            let width = side + pad;
            if let (Some(r), Some(c)) =
                (rows.get_mut(lane as usize), columns.get_mut(lane as usize))
            {
                *r = Some((ty * width + tx) * bytes);
                *c = Some((tx * width + ty) * bytes);
            }
        }
        let lds = &code.target.lds;
        lds.cost(LdsAccess::Write, bytes, &rows).cycles
            + lds.cost(LdsAccess::Read, bytes, &columns).cycles
    };
    (0..=4).min_by_key(|pad| (cost(*pad), *pad)).unwrap_or(1)
}

fn element(param: &Param) -> Option<String> {
    let (before, _) = param.text.split_once('*')?;
    let element = words(before)
        .filter(|w| !matches!(*w, "const" | "__restrict__" | "volatile"))
        .collect::<Vec<_>>()
        .join(" ");
    (!element.is_empty() && !param.text.contains("volatile") && param.is_pointer())
        .then_some(element)
}

fn condition_of(branch: Node<'_>) -> Option<Node<'_>> {
    let clause = branch.child_by_field_name("condition")?;
    named(clause).into_iter().next()
}

/// The only statement of a block; a statement without braces is itself.
fn only(node: Node<'_>) -> Option<Node<'_>> {
    if node.kind() != "compound_statement" {
        return Some(node);
    }
    match named(node).as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// `x < w && y < h` for `x >= w || y >= h`.
fn negate(code: &Code, condition: Node) -> Option<String> {
    let part = |n: Node| {
        let (l, r) = (
            n.child_by_field_name("left")?,
            n.child_by_field_name("right")?,
        );
        (code.operator(n) == ">=").then(|| format!("{} < {}", code.str(l), code.str(r)))
    };
    let (left, right) = (
        condition.child_by_field_name("left")?,
        condition.child_by_field_name("right")?,
    );
    (code.operator(condition) == "||").then_some(())?;
    Some(format!("{} && {}", part(left)?, part(right)?))
}

/// The text with one word replaced.
fn rename(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let (before, after) = (
            rest.get(..at).unwrap_or(""),
            rest.get(at + from.len()..).unwrap_or(""),
        );
        let inside = word(
            before
                .chars()
                .last()
                .or(out.chars().last().filter(|_| before.is_empty())),
        ) || word(after.chars().next());
        out.push_str(before);
        out.push_str(if inside { from } else { to });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text with `threadIdx.x` and `threadIdx.y` exchanged; `None` when it gets them some other way.
fn exchange(text: &str, from: &str, to: &str) -> Option<String> {
    (text.matches(from).count() == 1).then(|| text.replace(from, to))
}
