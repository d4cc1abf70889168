//! Scalar element loops become loops over 16-byte vectors.
//!
//! **Does.** `for (i = tid; i < n; i += blockDim.x) { ... x[base + i] ... y[base + i] = ...; }` (or the same over the
//! whole grid) gets a vector loop in front of it: 16-byte loads of each `x`, the body once for each element, 16-byte
//! stores of each `y`. What the vector loop leaves over, and everything when an address is not on 16 bytes, is done
//! by the original loop, so any size and any alignment stays right.
//!
//! **Legal when** the loop hands each element to exactly one of the cooperating threads and nothing depends on which:
//! the start is the thread's index and the step their number; bound and base are uniform over those threads, so they
//! all take the same branch; all threads get there; the body uses the thread's identity only through `i`; a store is
//! unconditional and its array is touched nowhere else in the kernel; a value carried from element to element is a sum,
//! maximum or minimum that is afterwards reduced over all the cooperating threads; and stores cannot alias loads
//! (`__restrict__`, or different arguments at every launch in the file).
//!
//! **Expected.** 2-3x on memory-bound kernels in the field report ("the best single step"): a quarter of the memory
//! instructions, four times the bytes in flight.

use std::collections::BTreeSet;
use std::ops::Range;

use hipsmith_syntax::Node;

use super::code::{Code, Level, WriteKind, all, is_integer_type, is_jump, named, sibling, words};
use super::edit::{Edits, as_lines, indent_at, indent_unit, lay_out};
use super::poly::Poly;
use super::reduction::{Op, is_wave_code, trees, update};
use super::{Idea, Kind, fresh};

/// The rewrite: every loop of the kernel that qualifies.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    let mut edits = Edits::default();
    let mut used = code.names();
    let mut done: Vec<Range<usize>> = Vec::new();
    let mut arrays: BTreeSet<String> = BTreeSet::new();
    let mut bytes = 16;
    let mut lines = Vec::new();
    for node in all(code.body).filter(|n| n.kind() == "for_statement") {
        if done.iter().any(|r| r.contains(&node.start_byte())) {
            continue;
        }
        if let Some(found) = Loop::of(code, node)
            && let Some(plan) = Plan::of(code, found)
        {
            let range = plan.range.clone();
            edits.replace(range.clone(), plan.emit(code, &mut used));
            done.push(range);
            bytes = bytes.min(plan.streams.iter().map(|s| s.bytes).min().unwrap_or(16));
            arrays.extend(plan.streams.iter().map(|s| format!("`{}`", s.array)));
            lines.push(code.line_of(node));
        }
    }
    let Some(new_text) = (!done.is_empty()).then(|| edits.apply(code.text)).flatten() else {
        return Vec::new();
    };
    let list: Vec<_> = arrays.into_iter().collect();
    let at = lines
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    vec![Idea {
        id: "vector-loads/16-bytes".to_owned(),
        kind: Kind::Memory,
        what: format!(
            "{} {} {bytes} bytes a lane in each access of the loop in line {at}; 16-byte accesses need {} times fewer \
             memory instructions and keep more bytes in flight",
            list.join(" and "),
            if list.len() == 1 { "moves" } else { "move" },
            16 / bytes.max(1),
        ),
        expected: 1.5,
        new_text,
        launch: None,
    }]
}

/// A loop in which cooperating threads share out the elements 0..bound.
struct Loop<'a> {
    node: Node<'a>,
    variable: String,
    kind: String,
    start: Node<'a>,
    bound: Node<'a>,
    step: Node<'a>,
    body: Node<'a>,
    /// `Block`: the threads of a workgroup cooperate. `Grid`: all threads of the launch.
    scope: Level,
}

impl<'a> Loop<'a> {
    fn of(code: &Code<'a>, node: Node<'a>) -> Option<Self> {
        let init = node.child_by_field_name("initializer")?;
        let declarator = init.child_by_field_name("declarator")?;
        if init.kind() != "declaration" || declarator.kind() != "init_declarator" {
            return None;
        }
        let name = declarator.child_by_field_name("declarator")?;
        let only_one = init.children_by_field_name("declarator").count() == 1;
        let kind = code.norm(init.child_by_field_name("type")?);
        let prefix = code.text.get(init.start_byte()..name.start_byte())?.trim();
        if name.kind() != "identifier"
            || !only_one
            || !is_integer_type(&kind)
            || kind == "auto"
            || prefix != kind
        {
            return None;
        }
        let variable = code.str(name).to_owned();
        let start = declarator.child_by_field_name("value")?;
        let condition = node.child_by_field_name("condition")?;
        let bound = condition.child_by_field_name("right")?;
        if code.operator(condition) != "<"
            || code.norm(condition.child_by_field_name("left")?) != variable
        {
            return None;
        }
        let advance = node.child_by_field_name("update")?;
        let (target, op, step) = update(code, advance)?;
        if advance.kind() != "assignment_expression" || target != variable || op != Op::Add {
            return None;
        }
        let body = node.child_by_field_name("body")?;
        let (first, width) = (code.poly(start)?, code.poly(step)?);
        let thread = Poly::atom("threadIdx.x");
        let block = Poly::atom("blockDim.x");
        let global = Poly::atom("blockIdx.x").mul(&block)?.add(&thread)?;
        let whole = Poly::atom("gridDim.x").mul(&block)?;
        let scope = if code.same(&first, &thread) && code.same(&width, &block) {
            Level::Block
        } else if code.same(&first, &global) && code.same(&width, &whole) {
            Level::Grid
        } else {
            return None;
        };
        // With a second block dimension the same index would belong to several threads: each of them does the
        // whole loop, which stays so. What must not vary between them is checked through `level`.
        let uniform = code.level(bound) <= scope && code.reached_by(node) <= scope;
        let fixed = |n: Node<'a>| {
            all(n).all(|x| {
                x.kind() != "identifier" || code.writes_in(body).all(|w| w.name != code.str(x))
            })
        };
        (uniform && fixed(bound) && fixed(step) && fixed(start)).then_some(Self {
            node,
            variable,
            kind,
            start,
            bound,
            step,
            body,
            scope,
        })
    }
}

/// One array that the loop walks through.
struct Stream<'a> {
    array: String,
    /// The element type as written, without qualifiers.
    element: String,
    /// Its size, bytes; for a template parameter the smallest one launched.
    bytes: usize,
    /// Text of the index without the loop variable; empty if there is nothing else in it.
    base: String,
    base_poly: Poly,
    accesses: Vec<Node<'a>>,
    stored: bool,
    loaded: bool,
}

/// A loop, proved fit, with everything needed to write its vector form.
struct Plan<'a> {
    found: Loop<'a>,
    streams: Vec<Stream<'a>>,
    range: Range<usize>,
}

impl<'a> Plan<'a> {
    fn of(code: &Code<'a>, found: Loop<'a>) -> Option<Self> {
        let body = found.body;
        let refused = |n: Node| {
            is_jump(n.kind())
                || n.kind().starts_with("preproc")
                || matches!(
                    n.kind(),
                    "lambda_expression"
                        | "labeled_statement"
                        | "switch_statement"
                        | "gnu_asm_expression"
                        | "ERROR"
                        | "for_range_loop"
                        | "try_statement"
                )
                || n.is_missing()
        };
        if all(body).any(refused) {
            return None;
        }
        if code.has_directives(found.node.byte_range()) {
            return None;
        }
        let mut streams: Vec<Stream> = Vec::new();
        for access in all(body).filter(|n| n.kind() == "subscript_expression") {
            let index = code.subscript_index(access)?;
            if !mentions(code, index, &found.variable) {
                continue;
            }
            add_access(code, &found, access, index, &mut streams)?;
        }
        for stream in &mut streams {
            settle(code, &found, stream)?;
        }
        // A load that stays scalar would be strided once a lane does neighbouring elements.
        let all_wide = streams.iter().all(|s| s.stored || s.loaded);
        if streams.is_empty() || !all_wide || streams.iter().all(|s| s.bytes >= 16) {
            return None;
        }
        let width = streams.iter().map(|s| s.bytes).collect::<BTreeSet<_>>();
        let types = streams
            .iter()
            .map(|s| s.element.as_str())
            .collect::<BTreeSet<_>>();
        let generic = streams
            .iter()
            .any(|s| code.template_params.contains(&s.element));
        if width.len() > 1 || (generic && types.len() > 1) {
            return None;
        }
        if never_aligned(&streams) {
            return None;
        }
        check_body(code, &found, &streams)?;
        check_aliasing(code, &found, &streams)?;
        let mut range = found.node.byte_range();
        if let Some(pragma) = found.node.prev_named_sibling()
            && pragma.kind() == "preproc_call"
        {
            if !code.str(pragma).contains("unroll") {
                return None;
            }
            range.start = pragma.start_byte();
        }
        Some(Self {
            found,
            streams,
            range,
        })
    }

    /// The new text of the loop.
    fn emit(&self, code: &Code, used: &mut BTreeSet<String>) -> String {
        let f = &self.found;
        let i = &f.variable;
        let rest = fresh(used, &format!("{i}_rest"));
        // What is declared inside the new block may have the same name in the next one.
        let used = &mut used.clone();
        let vec = fresh(used, &format!("{i}_vec"));
        let k = fresh(used, "k");
        let elem: Vec<_> = self
            .streams
            .iter()
            .map(|s| fresh(used, &format!("{}_elem", s.array)))
            .collect();
        let load: Vec<_> = self
            .streams
            .iter()
            .map(|s| fresh(used, &format!("{}_vec", s.array)))
            .collect();
        let element = self.streams.first().map_or("float", |s| s.element.as_str());
        let native = native_vector(element);
        let lanes = match native {
            Some((_, fields)) => fields.len().to_string(),
            None => format!("(16 / sizeof({element}))"),
        };
        let lanes = match native {
            None if !code.template_params.iter().any(|t| t == element) => {
                (16 / self.streams.first().map_or(4, |s| s.bytes).max(1)).to_string()
            }
            None => format!("static_cast<int>{lanes}"),
            Some(_) => lanes,
        };
        let start = code.str(f.start);
        let bound = factor(code, f.bound);
        let step = code.str(f.step);
        let kind = &f.kind;

        let mut out = String::new();
        let mut line = |depth: usize, text: &str| {
            out.push_str(&"\t".repeat(depth));
            out.push_str(text);
            out.push('\n');
        };
        let address = |s: &Stream| {
            if s.base.is_empty() {
                s.array.clone()
            } else {
                format!("&{}[{}]", s.array, s.base)
            }
        };
        let aligned = self
            .streams
            .iter()
            .map(|s| format!("reinterpret_cast<size_t>({})", address(s)))
            .collect::<Vec<_>>();
        let aligned = match aligned.as_slice() {
            [one] => one.clone(),
            many => format!("({})", many.join("\n\t\t| ")),
        };
        let sized = if code.template_params.iter().any(|t| t == element) {
            format!("16 % sizeof({element}) == 0 && ")
        } else {
            String::new()
        };
        line(
            0,
            "// 16 bytes a lane where the addresses allow it; the loop below does what is left.",
        );
        line(0, &format!("{kind} {rest} = {start};"));
        line(0, &format!("if ({sized}{aligned} % 16 == 0) {{"));
        line(
            1,
            &format!("for ({kind} {vec} = {start}; {vec} < {bound} / {lanes}; {vec} += {step}) {{"),
        );
        for ((s, elem), load) in self.streams.iter().zip(&elem).zip(&load) {
            match native {
                Some((vector, fields)) if s.loaded => {
                    line(
                        2,
                        &format!(
                            "const {vector} {load} = reinterpret_cast<const {vector} *>({})[{vec}];",
                            address(s)
                        ),
                    );
                    let values = fields
                        .iter()
                        .map(|f| format!("{load}.{f}"))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let constant = if s.stored { "" } else { "const " };
                    line(
                        2,
                        &format!("{constant}{} {elem}[{lanes}] = {{{values}}};", s.element),
                    );
                }
                None if s.loaded => {
                    line(
                        2,
                        &format!(
                            "const uint4 {load} = reinterpret_cast<const uint4 *>({})[{vec}];",
                            address(s)
                        ),
                    );
                    line(2, &format!("{} {elem}[{lanes}];", s.element));
                    line(2, &format!("__builtin_memcpy({elem}, &{load}, 16);"));
                }
                _ => line(2, &format!("{} {elem}[{lanes}];", s.element)),
            }
        }
        line(0, "#pragma unroll");
        line(2, &format!("for (int {k} = 0; {k} < {lanes}; ++{k}) {{"));
        let replaced: Vec<(Range<usize>, String)> = self
            .streams
            .iter()
            .zip(&elem)
            .flat_map(|(s, e)| {
                let element = format!("{e}[{k}]");
                s.accesses
                    .iter()
                    .map(move |a| (a.byte_range(), element.clone()))
            })
            .collect();
        let inside = |n: &Node| replaced.iter().any(|(r, _)| r.contains(&n.start_byte()));
        let needs_i =
            all(f.body).any(|n| n.kind() == "identifier" && code.str(n) == i && !inside(&n));
        if needs_i {
            line(3, &format!("const {kind} {i} = {vec} * {lanes} + {k};"));
        }
        let (text, indent) = body_text(code, f.body, &replaced);
        for l in as_lines(&text, &indent, 3).lines() {
            line(0, l);
        }
        line(2, "}");
        for ((s, elem), load) in self.streams.iter().zip(&elem).zip(&load) {
            if !s.stored {
                continue;
            }
            match native {
                Some((vector, fields)) => {
                    let values = (0..fields.len())
                        .map(|j| format!("{elem}[{j}]"))
                        .collect::<Vec<_>>()
                        .join(", ");
                    line(
                        2,
                        &format!(
                            "reinterpret_cast<{vector} *>({})[{vec}] = make_{vector}({values});",
                            address(s)
                        ),
                    );
                }
                None => {
                    let store = if s.loaded {
                        format!("{load}_out")
                    } else {
                        load.clone()
                    };
                    line(2, &format!("uint4 {store};"));
                    line(2, &format!("__builtin_memcpy(&{store}, {elem}, 16);"));
                    line(
                        2,
                        &format!(
                            "reinterpret_cast<uint4 *>({})[{vec}] = {store};",
                            address(s)
                        ),
                    );
                }
            }
        }
        line(1, "}");
        line(
            1,
            &format!(
                "{rest} = {bound} / {lanes} * {lanes} + {};",
                factor(code, f.start)
            ),
        );
        line(0, "}");
        let base = indent_at(code.text, f.node.start_byte());
        let unit = indent_unit(code.text.get(code.body.byte_range()).unwrap_or(""));
        let mut new = lay_out(out.trim_end(), base, &unit);
        // The original loop, from where the vector loop ended.
        new.push('\n');
        new.push_str(base);
        let loop_start = f.node.start_byte();
        new.push_str(
            code.text
                .get(loop_start..f.start.start_byte())
                .unwrap_or(""),
        );
        new.push_str(&rest);
        new.push_str(
            code.text
                .get(f.start.end_byte()..f.node.end_byte())
                .unwrap_or(""),
        );
        if self.range.start != loop_start && indent_at(code.text, self.range.start).is_empty() {
            new.insert_str(0, base);
        }
        new
    }
}

/// The statements of a loop body with some ranges replaced, and the indentation that they have.
fn body_text(code: &Code, body: Node, replaced: &[(Range<usize>, String)]) -> (String, String) {
    let range = if body.kind() == "compound_statement" {
        body.start_byte() + 1..body.end_byte().saturating_sub(1)
    } else {
        body.byte_range()
    };
    let mut edits: Vec<_> = replaced
        .iter()
        .filter(|(r, _)| range.contains(&r.start))
        .collect();
    edits.sort_by_key(|(r, _)| r.start);
    let mut text = String::new();
    let mut at = range.start;
    for (r, new) in edits {
        text.push_str(code.text.get(at..r.start).unwrap_or(""));
        text.push_str(new);
        at = r.end;
    }
    text.push_str(code.text.get(at..range.end).unwrap_or(""));
    let first = named(body).first().map_or(range.start, |n| n.start_byte());
    let indent = indent_at(code.text, first).to_owned();
    (text.trim().to_owned(), indent)
}

/// The native 16-byte vector of an element type, and its fields.
fn native_vector(element: &str) -> Option<(&'static str, &'static [&'static str])> {
    const FOUR: &[&str] = &["x", "y", "z", "w"];
    match element {
        "float" => Some(("float4", FOUR)),
        "int" | "int32_t" => Some(("int4", FOUR)),
        "unsigned" | "unsigned int" | "uint32_t" => Some(("uint4", FOUR)),
        "double" => Some(("double2", &["x", "y"])),
        _ => None,
    }
}

/// Bytes of an element type that can be moved as part of 16 bytes.
fn size_of(element: &str) -> Option<usize> {
    match element {
        "float" | "int" | "int32_t" | "unsigned" | "unsigned int" | "uint32_t" => Some(4),
        "double" | "int64_t" | "uint64_t" | "long long" | "unsigned long long" => Some(8),
        "half" | "__half" | "_Float16" | "short" | "unsigned short" | "int16_t" | "uint16_t"
        | "hip_bfloat16" | "__hip_bfloat16" => Some(2),
        "char" | "signed char" | "unsigned char" | "int8_t" | "uint8_t" => Some(1),
        _ => None,
    }
}

fn mentions(code: &Code, node: Node, name: &str) -> bool {
    all(node).any(|n| n.kind() == "identifier" && code.str(n) == name)
}

/// An expression that can stand before `/` and after `+`.
fn factor(code: &Code, node: Node) -> String {
    let text = code.str(node);
    match node.kind() {
        "identifier"
        | "number_literal"
        | "parenthesized_expression"
        | "field_expression"
        | "call_expression"
        | "subscript_expression" => text.to_owned(),
        _ => format!("({text})"),
    }
}

/// Whether the streams cannot all start on 16 bytes, like `x[i]` and `x[i + 1]`: the vector loop would never run.
/// Buffers themselves are taken to be aligned, as every allocation is.
fn never_aligned(streams: &[Stream]) -> bool {
    let off = |base: Option<Poly>, bytes: usize| {
        let bytes = i64::try_from(bytes).unwrap_or(1);
        base.and_then(|b| b.constant())
            .is_some_and(|c| c.wrapping_mul(bytes) % 16 != 0)
    };
    streams.iter().enumerate().any(|(n, a)| {
        off(Some(a.base_poly.clone()), a.bytes)
            || streams
                .iter()
                .skip(n + 1)
                .filter(|b| b.array == a.array)
                .any(|b| {
                    let difference = b.base_poly.negate().and_then(|m| a.base_poly.add(&m));
                    off(difference, a.bytes)
                })
    })
}

/// Sort one access `array[base + i]` into its stream.
fn add_access<'a>(
    code: &Code<'a>,
    found: &Loop<'a>,
    access: Node<'a>,
    index: Node<'a>,
    streams: &mut Vec<Stream<'a>>,
) -> Option<()> {
    let base_node = code
        .subscript_base(access)
        .filter(|n| n.kind() == "identifier")?;
    let array = code.str(base_node).to_owned();
    // LDS or a local array indexed by the element: who does which element matters there.
    let root = code.root(&array, access.start_byte())?;
    let base_poly = code.poly(index)?.minus_unit(&found.variable)?;
    let base = without(code, index, &found.variable)?;
    // The address must be uniform, so that all cooperating threads take the vector path together.
    let uniform = all(index)
        .filter(|n| {
            matches!(
                n.kind(),
                "identifier" | "call_expression" | "subscript_expression" | "pointer_expression"
            )
        })
        .filter(|n| code.str(*n) != found.variable)
        .all(|n| {
            n.parent().is_some_and(|p| p.kind() == "field_expression")
                || code.level(n) <= found.scope
        })
        && all(index)
            .filter(|n| n.kind() == "field_expression")
            .all(|n| code.level(n) <= found.scope);
    let fixed = all(index)
        .filter(|n| n.kind() == "identifier")
        .all(|n| code.writes_in(found.body).all(|w| w.name != code.str(n)));
    let pointer_uniform = match code.local(&array, access.start_byte()) {
        Some(l) => {
            code.level(l.value?) <= found.scope
                && !code.reassigned(&array)
                && !found.body.byte_range().contains(&l.name.start_byte())
        }
        None => !code.reassigned(&array),
    };
    let inside_locals = all(index)
        .filter(|n| n.kind() == "identifier")
        .filter_map(|n| code.local(code.str(n), n.start_byte()))
        .any(|l| found.body.byte_range().contains(&l.name.start_byte()));
    if !uniform || !fixed || !pointer_uniform || inside_locals {
        return None;
    }
    let element = match code.local(&array, access.start_byte()) {
        Some(l) => code.type_of(l),
        None => element_of(&root.text, &root.name)?,
    };
    let bytes = match size_of(&element) {
        Some(b) => b,
        None => {
            let position = code.template_params.iter().position(|t| *t == element)?;
            let sizes = code
                .launches
                .iter()
                .map(|l| {
                    l.template_args
                        .get(position)
                        .and_then(|t| size_of(t.trim()))
                })
                .collect::<Option<Vec<_>>>()?;
            sizes.into_iter().min()?
        }
    };
    if root.text.contains("volatile") {
        return None;
    }
    match streams
        .iter_mut()
        .find(|s| s.array == array && s.base_poly == base_poly)
    {
        Some(stream) => stream.accesses.push(access),
        None => streams.push(Stream {
            array,
            element,
            bytes,
            base,
            base_poly,
            accesses: vec![access],
            stored: false,
            loaded: false,
        }),
    }
    Some(())
}

/// The element type in a pointer parameter's declaration.
fn element_of(declaration: &str, name: &str) -> Option<String> {
    let (before, _) = declaration.split_once('*')?;
    let element = words(before)
        .filter(|w| {
            !matches!(
                *w,
                "const" | "__restrict__" | "__restrict" | "restrict" | "std"
            )
        })
        .collect::<Vec<_>>()
        .join(" ");
    (!element.is_empty() && element != name).then_some(element)
}

/// The text of a sum without one of its terms, which must be the plain variable.
fn without(code: &Code, index: Node, variable: &str) -> Option<String> {
    match index.kind() {
        "identifier" if code.str(index) == variable => Some(String::new()),
        "parenthesized_expression" => without(code, named(index).into_iter().next()?, variable),
        "binary_expression" if code.operator(index) == "+" => {
            let (left, right) = (
                index.child_by_field_name("left")?,
                index.child_by_field_name("right")?,
            );
            let (l, r) = (
                mentions(code, left, variable),
                mentions(code, right, variable),
            );
            if l && !r {
                let rest = without(code, left, variable)?;
                let other = code.str(right);
                Some(if rest.is_empty() {
                    other.to_owned()
                } else {
                    format!("{rest} + {other}")
                })
            } else if r && !l {
                let rest = without(code, right, variable)?;
                let other = code.str(left);
                Some(if rest.is_empty() {
                    other.to_owned()
                } else {
                    format!("{other} + {rest}")
                })
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Decide whether a stream is loaded, stored or both; `None` refuses the loop.
fn settle<'a>(code: &Code<'a>, found: &Loop<'a>, stream: &mut Stream<'a>) -> Option<()> {
    let mut store_end = None;
    let mut conditional_load = false;
    for access in &stream.accesses {
        let parent = access.parent()?;
        let is_target = parent.kind() == "assignment_expression"
            && parent
                .child_by_field_name("left")
                .is_some_and(|l| l.id() == access.id());
        let escapes = parent.kind() == "update_expression"
            || (parent.kind() == "pointer_expression" && code.operator(parent) == "&");
        if escapes {
            return None;
        }
        let unconditional = always(code, *access, found.body);
        if is_target {
            // One store for each element, in every iteration, as a statement of its own.
            let statement = parent.parent()?;
            if !unconditional || store_end.is_some() || statement.kind() != "expression_statement" {
                return None;
            }
            store_end = Some(statement.end_byte());
            stream.loaded |= code.operator(parent) != "=";
        } else if !unconditional {
            conditional_load = true;
        } else if stream_read_is_early(access, store_end) {
            stream.loaded = true;
        }
    }
    stream.stored = store_end.is_some();
    // A load under a condition may be out of bounds where the condition is false.
    (!conditional_load || stream.loaded || !stream.stored).then_some(())
}

/// Whether a read comes before the element's store has happened.
fn stream_read_is_early(access: &Node, store_end: Option<usize>) -> bool {
    store_end.is_none_or(|end| access.start_byte() < end)
}

/// Whether a node is evaluated in every run of the body.
fn always<'a>(code: &Code<'a>, node: Node<'a>, body: Node<'a>) -> bool {
    let mut at = node;
    while at.id() != body.id() {
        let Some(parent) = at.parent() else {
            return false;
        };
        let is_condition = parent
            .child_by_field_name("condition")
            .is_some_and(|c| c.id() == at.id());
        match parent.kind() {
            "if_statement" | "conditional_expression" if !is_condition => return false,
            "for_statement" | "while_statement" | "do_statement" => return false,
            "binary_expression"
                if matches!(code.operator(parent), "&&" | "||")
                    && parent
                        .child_by_field_name("right")
                        .is_some_and(|r| r.id() == at.id()) =>
            {
                return false;
            }
            "sizeof_expression" => return false,
            _ => {}
        }
        at = parent;
    }
    true
}

/// Nothing in the body may depend on which thread does an element, or on the order of elements.
fn check_body<'a>(code: &Code<'a>, found: &Loop<'a>, streams: &[Stream<'a>]) -> Option<()> {
    let body = found.body;
    let in_body = |at: usize| body.byte_range().contains(&at);
    let mut carried: Vec<String> = Vec::new();
    for write in code.writes_in(body) {
        let declared_inside = code
            .local(&write.name, write.node.start_byte())
            .is_some_and(|l| {
                in_body(l.name.start_byte())
                    && (l.plain || matches!(write.kind, WriteKind::Element))
                    && !l.pointer
            });
        if declared_inside {
            continue;
        }
        let is_stream_store = write.node.child_by_field_name("left").is_some_and(|left| {
            streams
                .iter()
                .any(|s| s.accesses.iter().any(|a| a.id() == left.id()))
        });
        if is_stream_store {
            continue;
        }
        // What remains must be an accumulator.
        if !matches!(write.kind, WriteKind::Assign(_)) || carried.contains(&write.name) {
            return None;
        }
        let (target, op, _) = update(code, write.node)?;
        let statement = write
            .node
            .parent()
            .filter(|p| p.kind() == "expression_statement")?;
        let uses = all(body)
            .filter(|n| n.kind() == "identifier" && code.str(*n) == target)
            .filter(|n| !statement.byte_range().contains(&n.start_byte()))
            .count();
        let own_uses = all(write.node)
            .filter(|n| n.kind() == "identifier" && code.str(*n) == target)
            .count();
        let expected = if code.operator(write.node) == "=" {
            2
        } else {
            1
        };
        if uses > 0 || own_uses != expected || !reduced(code, found, &target, &op) {
            return None;
        }
        carried.push(target);
    }
    for node in all(body) {
        match node.kind() {
            "call_expression" => {
                let callee = code.norm(node.child_by_field_name("function")?);
                if !code.is_pure(&callee) {
                    return None;
                }
            }
            "identifier" => {
                let name = code.str(node);
                let inside_field = node
                    .parent()
                    .is_some_and(|p| p.kind() == "field_expression");
                let callee = node.parent().is_some_and(|p| {
                    matches!(
                        p.kind(),
                        "call_expression" | "template_function" | "qualified_identifier"
                    )
                });
                let own = name == found.variable
                    || carried.iter().any(|c| c == name)
                    || streams.iter().any(|s| s.array == name)
                    || code
                        .local(name, node.start_byte())
                        .is_some_and(|l| in_body(l.name.start_byte()));
                if own
                    || callee
                    || (inside_field && matches!(name, "blockIdx" | "blockDim" | "gridDim"))
                {
                    continue;
                }
                if code.shared(name).is_some() {
                    // One slot that all threads read, never written in the loop.
                    let read = node
                        .parent()
                        .filter(|p| p.kind() == "subscript_expression")?;
                    if code.level(read) > found.scope {
                        return None;
                    }
                    continue;
                }
                if code.root(name, node.start_byte()).is_some() {
                    // A gather through another pointer stays a scalar load; the pointer itself must be uniform.
                    let pointer = match code.local(name, node.start_byte()) {
                        Some(l) => code.level(l.value?),
                        None => Level::Grid,
                    };
                    if pointer > found.scope
                        || code.written_anywhere(&code.root(name, node.start_byte())?.name)
                    {
                        return None;
                    }
                    continue;
                }
                // Another of the cooperating threads may do the element, with its own value of the variable.
                if code.level(node) > found.scope {
                    return None;
                }
            }
            "field_expression"
                if code.level(node) > found.scope && code.norm(node).contains("Idx.") =>
            {
                return None;
            }
            "pointer_expression" => return None,
            _ => {}
        }
    }
    Some(())
}

/// Whether an accumulator is, after the loop, reduced with the same operation over all cooperating threads, and
/// used for nothing else before that.
fn reduced<'a>(code: &Code<'a>, found: &Loop<'a>, name: &str, op: &Op) -> bool {
    let Some(local) = code.local(name, found.node.start_byte()) else {
        return false;
    };
    // An enclosing loop between declaration and use would carry the partial value around.
    let same_block = found
        .node
        .parent()
        .is_some_and(|p| p.id() == local.scope.id());
    if !same_block || !local.plain {
        return false;
    }
    let all_trees = trees(code);
    let mut seen = false;
    for node in all(local.scope) {
        let at = node.start_byte();
        if node.kind() != "identifier" || code.str(node) != name || at < found.node.end_byte() {
            continue;
        }
        let Some(parent) = node.parent() else {
            return false;
        };
        // Overwritten: what follows does not see the partial value any more.
        let overwritten = parent.kind() == "assignment_expression"
            && code.operator(parent) == "="
            && parent
                .child_by_field_name("left")
                .is_some_and(|l| l.id() == node.id())
            && parent
                .child_by_field_name("right")
                .is_some_and(|r| !mentions(code, r, name))
            && parent
                .parent()
                .and_then(|s| s.parent())
                .is_some_and(|s| s.id() == local.scope.id());
        if overwritten {
            return true;
        }
        let tree = found.scope == Level::Block
            && all_trees.iter().flat_map(|t| &t.leaves).any(|l| {
                l.fill.byte_range().contains(&at) && l.value.id() == node.id() && l.op.agrees(op)
            });
        let wave = found.scope == Level::Block
            && parent.kind() == "init_declarator"
            && parent
                .parent()
                .is_some_and(|d| wave_op(code, d, name).is_some_and(|o| o.agrees(op)));
        let atomic = parent.kind() == "argument_list"
            && parent
                .parent()
                .is_some_and(|call| is_atomic(code, call, node, op, found.scope));
        // Another loop of the same kind may add to it.
        let other_loop = parent.kind() == "assignment_expression"
            && update(code, parent)
                .is_some_and(|(t, o, v)| t == name && o.agrees(op) && !mentions(code, v, name));
        if !(tree || wave || atomic || other_loop) {
            return false;
        }
        seen |= tree || wave || atomic;
    }
    seen
}

fn wave_op<'a>(code: &Code<'a>, declaration: Node<'a>, name: &str) -> Option<Op> {
    let mut first = declaration;
    while let Some(previous) = sibling(first, false)
        .filter(|p| p.kind() == "declaration" && code.str(*p).contains("_lane"))
    {
        first = previous;
    }
    is_wave_code(code, first, name)
}

fn is_atomic<'a>(code: &Code<'a>, call: Node<'a>, value: Node<'a>, op: &Op, scope: Level) -> bool {
    let callee = call
        .child_by_field_name("function")
        .map(|f| code.norm(f))
        .unwrap_or_default();
    let matching = match op {
        Op::Add => callee == "atomicAdd",
        Op::Call(f) if f.contains("max") => callee == "atomicMax",
        Op::Call(_) => callee == "atomicMin",
    };
    let arguments = call
        .child_by_field_name("arguments")
        .map(named)
        .unwrap_or_default();
    let unused = call
        .parent()
        .is_some_and(|p| p.kind() == "expression_statement");
    let [address, second] = arguments.as_slice() else {
        return false;
    };
    let uniform = all(*address)
        .filter(|n| matches!(n.kind(), "identifier" | "field_expression"))
        .all(|n| match n.kind() {
            "field_expression" => code.level(n) <= scope,
            _ => {
                n.parent().is_some_and(|p| p.kind() == "field_expression")
                    || code.shared(code.str(n)).is_some()
                    || code
                        .root(code.str(n), n.start_byte())
                        .is_some_and(|_| code.local(code.str(n), n.start_byte()).is_none())
                    || code.level(n) <= scope
            }
        });
    matching && unused && second.id() == value.id() && uniform && code.reached_by(call) <= scope
}

/// Loads and stores change places with each other: that is only right if they cannot meet in memory.
fn check_aliasing<'a>(code: &Code<'a>, found: &Loop<'a>, streams: &[Stream<'a>]) -> Option<()> {
    let stored: Vec<_> = streams.iter().filter(|s| s.stored).collect();
    for s in &stored {
        let root = code.root(&s.array, found.node.start_byte())?;
        // One base for a stored array, and no other use of it in the kernel.
        let mut cousins = streams.iter().filter(|o| {
            code.root(&o.array, found.node.start_byte())
                .is_some_and(|r| r.name == root.name)
        });
        if cousins.any(|o| o.array != s.array || o.base_poly != s.base_poly) {
            return None;
        }
        let elsewhere = all(code.body)
            .filter(|n| {
                n.kind() == "identifier" && (code.str(*n) == root.name || code.str(*n) == s.array)
            })
            .filter(|n| !found.body.byte_range().contains(&n.start_byte()))
            .filter(|n| {
                !all(code.body).any(|d| {
                    d.kind() == "init_declarator"
                        && d.byte_range().contains(&n.start_byte())
                        && d.child_by_field_name("declarator")
                            .is_some_and(|t| code.norm(t).trim_start_matches('*') == s.array)
                })
            })
            .count();
        let in_body_others = all(found.body)
            .filter(|n| {
                n.kind() == "identifier" && (code.str(*n) == root.name || code.str(*n) == s.array)
            })
            .filter(|n| {
                !streams.iter().any(|o| {
                    o.accesses
                        .iter()
                        .any(|a| a.byte_range().contains(&n.start_byte()))
                })
            })
            .count();
        if elsewhere + in_body_others > 0 {
            return None;
        }
        if !root.is_restrict() && !distinct_arguments(code) {
            return None;
        }
    }
    for s in streams.iter().filter(|s| !s.stored) {
        let root = code.root(&s.array, found.node.start_byte())?;
        if code.written_anywhere(&root.name) {
            return None;
        }
    }
    Some(())
}

/// Whether every launch in the file passes a different plain name for each pointer.
fn distinct_arguments(code: &Code) -> bool {
    !code.launches.is_empty()
        && code.launches.iter().all(|l| {
            let pointers: Vec<_> = code
                .params
                .iter()
                .zip(&l.args)
                .filter(|(p, _)| p.is_pointer())
                .map(|(_, a)| a.trim())
                .collect();
            let plain = pointers
                .iter()
                .all(|a| a.chars().all(|c| c.is_alphanumeric() || c == '_'));
            let different = pointers.iter().collect::<BTreeSet<_>>().len() == pointers.len();
            plain && different && l.args.len() == code.params.len()
        })
}
