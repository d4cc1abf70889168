//! What the rules know of a file's functions, gathered in one walk of the tree.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use hipsmith_syntax::lanes::Bindings;
use hipsmith_syntax::{Node, Notable};

/// Where a function runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// `__global__`
    Kernel,
    /// `__device__`, or a lambda or function called from one.
    Device,
    /// No HIP word: host code, or a device function behind a project's own macro.
    Unmarked,
}

/// A call in a function body.
#[derive(Clone, Debug)]
pub struct Call<'t> {
    /// The whole call.
    pub node: Node<'t>,
    /// Last part of the callee's name, without template arguments.
    pub name: String,
    /// The arguments.
    pub args: Vec<Node<'t>>,
}

/// A function definition. What is in it ([`Contents`], which it dereferences to) is read when first asked for.
#[derive(Debug)]
pub struct Function<'t> {
    /// The `function_definition`.
    pub node: Node<'t>,
    /// Its block.
    pub body: Node<'t>,
    /// Its name.
    pub name: String,
    /// Bytes of the name.
    pub name_range: Range<usize>,
    /// Where it runs.
    pub place: Place,
    source: &'t str,
    aliases: Rc<HashMap<&'t str, &'t str>>,
    contents: OnceCell<Contents<'t>>,
}

impl<'t> Deref for Function<'t> {
    type Target = Contents<'t>;
    fn deref(&self) -> &Contents<'t> {
        self.contents
            .get_or_init(|| contents(self.source, self.node, self.body, &self.aliases))
    }
}

/// What is in a function.
#[derive(Debug)]
pub struct Contents<'t> {
    /// Its parameters and local variables.
    pub bindings: Bindings<'t>,
    /// Calls, in text order.
    pub calls: Vec<Call<'t>>,
    /// Assignments, in text order.
    pub assignments: Vec<Node<'t>>,
    /// Subscripts, in text order.
    pub subscripts: Vec<Node<'t>>,
    /// `return` statements.
    pub returns: Vec<Node<'t>>,
    /// Two-operand expressions with their operator, in text order.
    pub binaries: Vec<Binary<'t>>,
}

/// `left operator right`
#[derive(Clone, Copy, Debug)]
pub struct Binary<'t> {
    /// The whole expression.
    pub node: Node<'t>,
    /// The operator's token.
    pub operator: &'t str,
    /// Its left side.
    pub left: Node<'t>,
    /// Its right side.
    pub right: Node<'t>,
}

/// Read a `binary_expression`.
pub fn binary(node: Node<'_>) -> Option<Binary<'_>> {
    Some(Binary {
        node,
        operator: node.child_by_field_name("operator")?.kind(),
        left: node.child_by_field_name("left")?,
        right: node.child_by_field_name("right")?,
    })
}

/// The text of a node.
pub fn text<'s>(source: &'s str, node: Node<'_>) -> &'s str {
    source.get(node.byte_range()).unwrap_or("")
}

/// Strip parentheses and casts.
pub fn bare(mut node: Node<'_>) -> Node<'_> {
    loop {
        let inner = match node.kind() {
            "parenthesized_expression" => node.named_child(0),
            "cast_expression" => node.child_by_field_name("value"),
            _ => None,
        };
        match inner {
            Some(n) => node = n,
            None => return node,
        }
    }
}

/// Strip parentheses only.
pub fn unparenthesized(mut node: Node<'_>) -> Node<'_> {
    while node.kind() == "parenthesized_expression" {
        let Some(inner) = node.named_child(0) else {
            break;
        };
        node = inner;
    }
    node
}

/// Last part of a callee's name: `f` of `ns::f<T>`, `m` of `object.m`.
pub fn callee_name<'s>(source: &'s str, call: Node<'_>) -> &'s str {
    let Some(mut node) = call.child_by_field_name("function") else {
        return "";
    };
    for _ in 0..8 {
        let next = match node.kind() {
            "template_function" | "template_method" | "qualified_identifier" => {
                node.child_by_field_name("name")
            }
            "field_expression" => node.child_by_field_name("field"),
            "parenthesized_expression" => node.named_child(0),
            _ => None,
        };
        match next {
            Some(n) => node = n,
            None => break,
        }
    }
    text(source, node)
}

/// The arguments of a call, comments left out.
pub fn arguments(call: Node<'_>) -> Vec<Node<'_>> {
    let Some(list) = call.child_by_field_name("arguments") else {
        return Vec::new();
    };
    list.named_children()
        .filter(|n| n.kind() != "comment")
        .collect()
}

/// Innermost ancestor of one of the kinds, no further out than `limit`.
pub fn ancestor<'t>(node: Node<'t>, kinds: &[&str], limit: Node<'t>) -> Option<Node<'t>> {
    let mut node = node;
    while node.id() != limit.id() {
        node = node.parent()?;
        if kinds.contains(&node.kind()) {
            return Some(node);
        }
    }
    None
}

/// Whether `inner` lies in `outer`.
pub fn within(outer: Node<'_>, inner: Node<'_>) -> bool {
    outer.start_byte() <= inner.start_byte() && inner.end_byte() <= outer.end_byte()
}

/// Whether an identifier `name` occurs in `node`.
pub fn mentions(source: &str, node: Node<'_>, name: &str) -> bool {
    let mut found = false;
    walk(node, &mut |n| {
        if !found && n.kind() == "identifier" && text(source, n) == name {
            found = true;
        }
        !found
    });
    found
}

/// Visit `node` and what is below it; `visit` says whether to go down.
pub fn walk<'t>(node: Node<'t>, visit: &mut dyn FnMut(Node<'t>) -> bool) {
    let mut nodes = node.descendants();
    while let Some(n) = nodes.next() {
        if !visit(n) {
            nodes.skip_below(n);
        }
    }
}

fn declared_name<'t>(source: &str, function: Node<'t>) -> Option<(String, Range<usize>)> {
    let mut node = function.child_by_field_name("declarator")?;
    for _ in 0..16 {
        let next = node
            .child_by_field_name("declarator")
            .or_else(|| node.child_by_field_name("name"))
            .or_else(|| match node.kind() {
                "reference_declarator" | "parenthesized_declarator" => node.named_child(0),
                _ => None,
            });
        match next {
            Some(n) => node = n,
            None => break,
        }
    }
    let name = text(source, node);
    (!name.is_empty()).then(|| (name.to_owned(), node.byte_range()))
}

/// All function definitions under `root`; `places` says where they run, by the offset of the name, and `aliases` which
/// names are macros for other names.
pub fn functions<'t>(
    source: &'t str,
    root: Node<'t>,
    places: &HashMap<usize, Place>,
    aliases: &Rc<HashMap<&'t str, &'t str>>,
) -> Vec<Function<'t>> {
    let mut out = Vec::new();
    let mut end = 0;
    for (what, node) in root.notable() {
        // Functions inside functions (local classes) are rare, and their parts are read with the outer one's.
        if what != Notable::Function || node.start_byte() < end {
            continue;
        }
        let (Some(body), Some((name, name_range))) = (
            node.child_by_field_name("body"),
            declared_name(source, node),
        ) else {
            continue;
        };
        end = node.end_byte();
        out.push(Function {
            node,
            body,
            name,
            place: places
                .get(&name_range.start)
                .copied()
                .unwrap_or(Place::Unmarked),
            name_range,
            source,
            aliases: aliases.clone(),
            contents: OnceCell::new(),
        });
    }
    out
}

fn contents<'t>(
    source: &str,
    function: Node<'t>,
    body: Node<'t>,
    aliases: &HashMap<&str, &str>,
) -> Contents<'t> {
    let mut f = Contents {
        bindings: Bindings::of(source, function),
        calls: Vec::new(),
        assignments: Vec::new(),
        subscripts: Vec::new(),
        returns: Vec::new(),
        binaries: Vec::new(),
    };
    for (what, node) in body.notable() {
        if node.is_in_error() || node.has_error() {
            continue;
        }
        match what {
            Notable::Call => {
                // `#define SHFL_DOWN __shfl_down`: a call means what its name stands for.
                let mut name = callee_name(source, node);
                for _ in 0..4 {
                    match aliases.get(name) {
                        Some(real) => name = real,
                        None => break,
                    }
                }
                f.calls.push(Call {
                    node,
                    name: name.to_owned(),
                    args: arguments(node),
                });
            }
            Notable::Assignment => f.assignments.push(node),
            Notable::Subscript => f.subscripts.push(node),
            Notable::Return => f.returns.push(node),
            Notable::Binary => f.binaries.extend(binary(node)),
            _ => {}
        }
    }
    leave_out_cuda_arguments(&mut f);
    f
}

/// `X_HIP_OR_CUDA(a, b)` and `X_CUDA_OR_HIP(b, a)`: macros of which HIP sees `a` only.
fn leave_out_cuda_arguments(f: &mut Contents<'_>) {
    let foreign: Vec<Range<usize>> = f
        .calls
        .iter()
        .filter_map(|c| {
            let name = &c.name;
            let place = if name.contains("HIP_OR_CUDA") {
                1
            } else if name.contains("CUDA_OR_HIP") {
                0
            } else {
                return None;
            };
            Some(c.args.get(place)?.byte_range())
        })
        .collect();
    if foreign.is_empty() {
        return;
    }
    let seen = |n: &Node<'_>| {
        !foreign
            .iter()
            .any(|r| r.start <= n.start_byte() && n.end_byte() <= r.end)
    };
    f.calls.retain(|c| seen(&c.node));
    f.assignments.retain(|n| seen(n));
    f.subscripts.retain(|n| seen(n));
    f.binaries.retain(|b| seen(&b.node));
}

/// The node of a function's return type. An unknown word in front (`DI uint32_t f()`) takes the place of the type for the
/// grammar, and the type itself stands in an error node behind it.
pub fn return_type(function: Node<'_>) -> Option<Node<'_>> {
    let ty = function.child_by_field_name("type")?;
    match ty.next_sibling() {
        Some(e) if e.kind() == "ERROR" && e.named_child_count() == 1 => e.named_child(0),
        _ => Some(ty),
    }
}

/// Functions by name, for calls within the file.
pub fn by_name(functions: &[Function<'_>]) -> HashMap<String, Vec<usize>> {
    let mut out: HashMap<String, Vec<usize>> = HashMap::new();
    for (i, f) in functions.iter().enumerate() {
        out.entry(f.name.clone()).or_default().push(i);
    }
    out
}
