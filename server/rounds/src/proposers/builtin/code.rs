//! A kernel as the rewrites see it: the text, its syntax tree, and what can be proved about names in it.
//!
//! Everything here answers "don't know" (`None`, [`Level::Thread`], an opaque atom) when a proof is incomplete;
//! a rewrite that gets such an answer emits nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hipsmith_syntax::Node;

use super::poly::Poly;

/// Over how many threads an expression is known to have one value at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The same in every thread of the launch.
    Grid,
    /// The same in every thread of a workgroup.
    Block,
    /// May differ from thread to thread, or not known.
    Thread,
}

/// A parameter of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The declaration as written, such as `const float *__restrict__ x`.
    pub text: String,
    /// Where that is.
    pub range: Range<usize>,
}

impl Param {
    /// Whether it is one plain pointer (not a pointer to pointers, not an array, not a reference).
    pub fn is_pointer(&self) -> bool {
        self.text.matches('*').count() == 1 && !self.text.contains(['&', '[', '('])
    }
    /// Whether it is declared `__restrict__`.
    pub fn is_restrict(&self) -> bool {
        words(&self.text).any(|w| matches!(w, "__restrict__" | "__restrict" | "restrict"))
    }
}

/// A `__shared__` array of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// Element type as written.
    pub element: String,
    /// Each dimension: its text and, if known, its value.
    pub dims: Vec<(Range<usize>, Option<u64>)>,
    /// Declared `extern __shared__ T name[]`.
    pub dynamic: bool,
    /// The declaration.
    pub range: Range<usize>,
}

/// One launch of the kernel in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Threads of a workgroup, if they can be evaluated.
    pub block: Option<[u32; 3]>,
    /// The kernel's arguments as written.
    pub args: Vec<String>,
    /// Template arguments as written.
    pub template_args: Vec<String>,
}

/// A constant of the file that the kernel mentions.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its value.
    pub value: i64,
    /// Where the literal stands, if the constant is defined by one.
    pub literal: Option<Range<usize>>,
}

/// What the rewrites need from outside the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Threads of a workgroup in the captured dispatch.
    pub block: [u32; 3],
}

/// One kernel in its file.
pub struct Code<'a> {
    /// The whole file.
    pub text: &'a str,
    /// The captured dispatch.
    pub dispatch: Dispatch,
    /// The target whose limits hold.
    pub target: &'static hipsmith_target::Target,
    /// The kernel's name.
    pub name: String,
    /// From the first specifier or `template` to the closing brace.
    pub range: Range<usize>,
    /// Where the kernel's name stands in its definition.
    pub name_at: Option<usize>,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Names of its template parameters.
    pub template_params: Vec<String>,
    /// The compound statement.
    pub body: Node<'a>,
    /// Its LDS arrays.
    pub shared: Vec<Shared>,
    /// Its launches in the file.
    pub launches: Vec<Launch>,
    /// Constants of the file that the kernel mentions.
    pub constants: BTreeMap<String, Constant>,
    locals: Vec<Local<'a>>,
    writes: Vec<Write<'a>>,
    levels: RefCell<Vec<(String, usize)>>,
}

/// A local variable.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// Its declarator's identifier.
    pub name: Node<'a>,
    /// The `declaration` node.
    pub declaration: Node<'a>,
    /// The initial value.
    pub value: Option<Node<'a>>,
    /// The innermost compound statement or `for` around it.
    pub scope: Node<'a>,
    /// Declared as a plain value (no pointer, reference or array).
    pub plain: bool,
    /// Declared as a plain pointer.
    pub pointer: bool,
}

/// One place where a variable, or memory reached through it, may change.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The variable.
    pub name: String,
    /// The whole expression.
    pub node: Node<'a>,
    /// How.
    pub kind: WriteKind<'a>,
}

/// How a variable changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteKind<'a> {
    /// `name = value`, `name += value`, ...
    Assign(Node<'a>),
    /// `++name`, `name--`.
    Step,
    /// `name[...] = ...`, `*name = ...`, `name.x = ...`, `++name[...]`.
    Element,
    /// Its address is taken, or a call that we know nothing about gets it.
    Escape,
}

impl<'a> Code<'a> {
    /// Look at one kernel. `body` must be a node of the tree of `text` (masked or not: offsets are equal).
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        text: &'a str,
        dispatch: Dispatch,
        target: &'static hipsmith_target::Target,
        name: &str,
        range: Range<usize>,
        params: Vec<Param>,
        template_params: Vec<String>,
        body: Node<'a>,
        shared: Vec<Shared>,
        launches: Vec<Launch>,
        constants: BTreeMap<String, Constant>,
    ) -> Self {
        let mut code = Self {
            text,
            dispatch,
            target,
            name: name.to_owned(),
            name_at: name_before(text, range.start..body.start_byte(), name),
            range,
            params,
            template_params,
            body,
            shared,
            launches,
            constants,
            locals: Vec::new(),
            writes: Vec::new(),
            levels: RefCell::default(),
        };
        for node in all(body) {
            code.note_local(node);
            code.note_write(node);
        }
        code
    }

    /// The text of a node.
    pub fn str(&self, node: Node) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    /// The text of a node with comments dropped and white space normalised: equal code gives equal strings.
    pub fn norm(&self, node: Node) -> String {
        let mut out = String::new();
        for leaf in all(node) {
            if leaf.child_count() > 0 || leaf.kind() == "comment" {
                continue;
            }
            let token = self.str(leaf).trim();
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if word(out.chars().last()) && word(token.chars().next()) {
                out.push(' ');
            }
            out.push_str(token);
        }
        out
    }

    /// The block that every launch of this kernel in the file has, if all are known and agree with the
    /// captured dispatch. Without a launch in the file nothing is proved.
    pub fn proved_block(&self) -> Option<[u32; 3]> {
        let all_same = self
            .launches
            .iter()
            .all(|l| l.block == Some(self.dispatch.block));
        (!self.launches.is_empty() && all_same).then_some(self.dispatch.block)
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == name)
    }

    /// The LDS array of that name.
    pub fn shared(&self, name: &str) -> Option<&Shared> {
        self.shared.iter().find(|s| s.name == name)
    }

    /// The local variable that `name` means at a byte, if it is one.
    pub fn local(&self, name: &str, at: usize) -> Option<Local<'a>> {
        self.locals
            .iter()
            .filter(|l| self.str(l.name) == name)
            .filter(|l| l.name.start_byte() <= at && l.scope.byte_range().contains(&at))
            .min_by_key(|l| (l.scope.byte_range().len(), usize::MAX - l.name.start_byte()))
            .copied()
    }

    /// Every place in the kernel where a variable of that name may change. Shadowed names count together:
    /// that can only hide a proof, never make a false one.
    pub fn writes<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s Write<'a>> + use<'s, 'a> {
        let name = name.to_owned();
        self.writes.iter().filter(move |w| w.name == name)
    }

    /// Every possible change inside a node.
    pub fn writes_in<'s>(
        &'s self,
        node: Node,
    ) -> impl Iterator<Item = &'s Write<'a>> + use<'s, 'a> {
        let range = node.byte_range();
        self.writes
            .iter()
            .filter(move |w| range.contains(&w.node.start_byte()))
    }

    /// The parameter that a pointer expression starts from, following locals that are initialised once:
    /// `row` in `const T *row = in + offset` gives `in`.
    pub fn root(&self, name: &str, at: usize) -> Option<&Param> {
        let mut name = name.to_owned();
        let mut at = at;
        for _ in 0..8 {
            let Some(local) = self.local(&name, at) else {
                return self.param(&name).filter(|p| p.is_pointer());
            };
            if !local.pointer || self.reassigned(&name) {
                return None;
            }
            let base = self.pointer_base(local.value?)?;
            at = local.name.start_byte().saturating_sub(1);
            name = base;
        }
        None
    }

    fn pointer_base(&self, value: Node<'a>) -> Option<String> {
        match value.kind() {
            "identifier" => Some(self.str(value).to_owned()),
            "parenthesized_expression" => self.pointer_base(named(value).into_iter().next()?),
            "binary_expression" if matches!(self.operator(value), "+" | "-") => {
                self.pointer_base(value.child_by_field_name("left")?)
            }
            "pointer_expression" if self.operator(value) == "&" => {
                let inner = value.child_by_field_name("argument")?;
                (inner.kind() == "subscript_expression")
                    .then(|| inner.child_by_field_name("argument"))
                    .flatten()
                    .and_then(|a| self.pointer_base(a))
            }
            _ => None,
        }
    }

    /// Whether the variable itself (not memory behind it) may change after its initialisation.
    pub fn reassigned(&self, name: &str) -> bool {
        self.writes(name)
            .any(|w| !matches!(w.kind, WriteKind::Element))
    }

    /// Whether a pointer's value goes into another variable or into a call.
    pub fn copied(&self, name: &str) -> bool {
        all(self.body)
            .filter(|n| n.kind() == "identifier" && self.str(*n) == name)
            .any(|n| {
                n.parent().is_none_or(|p| {
                    p.kind() != "subscript_expression"
                        || self.subscript_base(p).is_none_or(|b| b.id() != n.id())
                        || p.parent().is_some_and(|g| g.kind() == "pointer_expression")
                })
            })
    }

    /// Whether a range of the text holds preprocessor lines other than pragmas. Branches that are not compiled are
    /// not in the tree, so code around them must not be rewritten.
    pub fn has_directives(&self, range: Range<usize>) -> bool {
        self.text.get(range).unwrap_or("").lines().any(|line| {
            line.trim_start()
                .strip_prefix('#')
                .is_some_and(|d| !d.trim_start().starts_with("pragma"))
        })
    }

    /// Every name and word of the file's code, comments and strings left out.
    pub fn names(&self) -> BTreeSet<String> {
        let mut root = self.body;
        while let Some(parent) = root.parent() {
            root = parent;
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for leaf in all(root).filter(|n| n.child_count() == 0) {
            if !matches!(leaf.kind(), "comment" | "string_content") {
                names.extend(words(self.str(leaf)).map(str::to_owned));
            }
        }
        names
    }

    /// Whether a call only computes: a mathematical function, or a conversion to a template parameter.
    pub fn is_pure(&self, callee: &str) -> bool {
        is_pure_call(callee) || self.template_params.iter().any(|t| t == callee)
    }

    /// An operator's text.
    pub fn operator(&self, node: Node) -> &'a str {
        node.child_by_field_name("operator")
            .map_or("", |n| self.str(n))
    }

    /// The expression as a polynomial over parameters, thread and block indices, and opaque parts. Locals that
    /// are initialised once, from parts that never change, are replaced by what they stand for.
    pub fn poly(&self, node: Node<'a>) -> Option<Poly> {
        self.poly_at(node, 0)
    }

    fn poly_at(&self, node: Node<'a>, depth: u32) -> Option<Poly> {
        let opaque = || Some(Poly::atom(self.norm(node)));
        if depth > 24 {
            return opaque();
        }
        let field = |f| node.child_by_field_name(f);
        match node.kind() {
            "number_literal" => match integer(self.str(node)) {
                Some(v) => Some(Poly::int(v)),
                None => opaque(),
            },
            "parenthesized_expression" => match named(node).as_slice() {
                [inner] => self.poly_at(*inner, depth + 1),
                _ => opaque(),
            },
            "identifier" => {
                let name = self.str(node);
                if let Some(axis) = name.strip_prefix("hip")
                    && let Some((builtin, axis)) =
                        axis.split_once("Idx_").or(axis.split_once("Dim_"))
                    && matches!(axis, "x" | "y" | "z")
                {
                    let kind = if name.contains("Idx_") { "Idx" } else { "Dim" };
                    return Some(Poly::atom(format!(
                        "{}{kind}.{axis}",
                        builtin.to_lowercase()
                    )));
                }
                if let Some(local) = self.local(name, node.start_byte()) {
                    if let Some(value) = local.value
                        && local.plain
                        && is_integer_type(&self.type_of(local))
                        && !self.reassigned(name)
                    {
                        let p = self.poly_at(value, depth + 1)?;
                        if p.atoms().all(|a| self.stable(a)) {
                            return Some(p);
                        }
                    }
                    return Some(Poly::atom(name));
                }
                Some(Poly::atom(name))
            }
            "binary_expression" => {
                let left = || self.poly_at(field("left")?, depth + 1);
                let right = || self.poly_at(field("right")?, depth + 1);
                match self.operator(node) {
                    "+" => left()?.add(&right()?),
                    "-" => left()?.add(&right()?.negate()?),
                    "*" => left()?.mul(&right()?),
                    "<<" => match right()?.constant() {
                        Some(s @ 0..=30) => left()?.mul(&Poly::int(1 << s)),
                        _ => opaque(),
                    },
                    _ => opaque(),
                }
            }
            "unary_expression" if self.operator(node) == "-" => {
                self.poly_at(field("argument")?, depth + 1)?.negate()
            }
            "cast_expression" => {
                let to = field("type").map(|t| self.norm(t)).unwrap_or_default();
                if is_integer_type(&to) {
                    self.poly_at(field("value")?, depth + 1)
                } else {
                    opaque()
                }
            }
            "call_expression" => {
                let callee = self.norm(field("function")?);
                let args = named(field("arguments")?);
                let to = callee
                    .strip_prefix("static_cast<")
                    .and_then(|c| c.strip_suffix('>'))
                    .unwrap_or(&callee);
                match args.as_slice() {
                    [inner] if is_integer_type(to) => self.poly_at(*inner, depth + 1),
                    _ => opaque(),
                }
            }
            _ => opaque(),
        }
    }

    /// Whether an atom of a polynomial means the same everywhere in the kernel.
    fn stable(&self, atom: &str) -> bool {
        let builtin = atom
            .split_once('.')
            .is_some_and(|(a, _)| matches!(a, "threadIdx" | "blockIdx" | "blockDim" | "gridDim"));
        let is_name = atom.chars().all(|c| c.is_alphanumeric() || c == '_');
        let local = self.locals.iter().any(|l| self.str(l.name) == atom);
        builtin || (is_name && !self.reassigned(atom) && (!local || self.declared_once(atom)))
    }

    fn declared_once(&self, name: &str) -> bool {
        self.locals
            .iter()
            .filter(|l| self.str(l.name) == name)
            .count()
            == 1
    }

    /// A local's type as written, without the declarator.
    pub fn type_of(&self, local: Local) -> String {
        let end = local
            .declaration
            .child_by_field_name("type")
            .map_or(local.name.start_byte(), |t| t.end_byte());
        self.text
            .get(local.declaration.start_byte()..end)
            .map(|t| {
                words(t)
                    .filter(|w| {
                        !matches!(
                            *w,
                            "const" | "constexpr" | "volatile" | "static" | "register"
                        )
                    })
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .unwrap_or_default()
    }

    /// The value of a polynomial's constants replaced, `blockDim` included where the block is proved.
    pub fn known(&self, poly: &Poly) -> Option<Poly> {
        let mut result = poly.clone();
        let atoms: BTreeSet<String> = poly.atoms().map(str::to_owned).collect();
        for atom in atoms {
            let value = match (atom.as_str(), self.proved_block()) {
                ("blockDim.x", Some(b)) => Some(i64::from(b[0])),
                ("blockDim.y", Some(b)) => Some(i64::from(b[1])),
                ("blockDim.z", Some(b)) => Some(i64::from(b[2])),
                (name, _)
                    if self.locals.iter().all(|l| self.str(l.name) != name)
                        && self.param(name).is_none() =>
                {
                    self.constants.get(name).map(|c| c.value)
                }
                _ => None,
            };
            if let Some(v) = value {
                result = result.substitute(&atom, &Poly::int(v))?;
            }
        }
        Some(result)
    }

    /// Whether two index expressions are equal, as far as we can tell.
    pub fn same(&self, a: &Poly, b: &Poly) -> bool {
        a == b || matches!((self.known(a), self.known(b)), (Some(x), Some(y)) if x == y)
    }

    /// Whether an expression is `threadIdx.x`.
    pub fn is_thread_x(&self, node: Node<'a>) -> bool {
        self.poly(node) == Some(Poly::atom("threadIdx.x"))
    }

    /// Over how many threads the expression has one value.
    pub fn level(&self, node: Node<'a>) -> Level {
        let of_children = || {
            named(node)
                .into_iter()
                .map(|c| self.level(c))
                .max()
                .unwrap_or(Level::Grid)
        };
        match node.kind() {
            "number_literal" | "char_literal" | "true" | "false" | "null" | "nullptr"
            | "sizeof_expression" | "type_descriptor" | "primitive_type" | "string_literal" => {
                Level::Grid
            }
            "identifier" => self.level_of_name(self.str(node), node.start_byte()),
            "field_expression" => match self.norm(node).split_once('.') {
                Some(("threadIdx", _)) => Level::Thread,
                Some(("blockIdx", _)) => Level::Block,
                Some(("blockDim" | "gridDim", _)) => Level::Grid,
                _ => node
                    .child_by_field_name("argument")
                    .map_or(Level::Thread, |a| self.level(a)),
            },
            "subscript_expression" => self.level_of_load(node),
            "binary_expression"
            | "unary_expression"
            | "parenthesized_expression"
            | "cast_expression"
            | "conditional_expression"
            | "condition_clause"
            | "argument_list" => of_children(),
            "call_expression" => {
                let callee = node
                    .child_by_field_name("function")
                    .map(|f| self.norm(f))
                    .unwrap_or_default();
                if self.is_pure(&callee) {
                    node.child_by_field_name("arguments")
                        .map_or(Level::Thread, |a| self.level(a))
                } else {
                    Level::Thread
                }
            }
            _ => Level::Thread,
        }
    }

    fn level_of_load(&self, node: Node<'a>) -> Level {
        let (Some(base), Some(index)) = (self.subscript_base(node), self.subscript_index(node))
        else {
            return Level::Thread;
        };
        let name = self.str(base);
        let index_level = self.level(index);
        if base.kind() != "identifier" || index_level == Level::Thread {
            Level::Thread
        } else if self.shared(name).is_some() && self.local_is_shared(name) {
            // One address in LDS, read by all: without a barrier before it the original would race.
            Level::Block
        } else if self
            .root(name, node.start_byte())
            .is_some_and(|p| !self.written_anywhere(&p.name))
        {
            index_level.max(self.level_of_pointer(name, node.start_byte()))
        } else {
            Level::Thread
        }
    }

    fn local_is_shared(&self, name: &str) -> bool {
        // The declaration is a local one; another local of that name could shadow it.
        self.locals
            .iter()
            .filter(|l| self.str(l.name) == name)
            .count()
            <= 1
    }

    fn level_of_pointer(&self, name: &str, at: usize) -> Level {
        match self.local(name, at) {
            Some(l) => l.value.map_or(Level::Thread, |v| self.level(v)),
            None => Level::Grid,
        }
    }

    /// Whether memory of a pointer parameter may be written, through it or a local that starts from it.
    pub fn written_anywhere(&self, param: &str) -> bool {
        self.writes.iter().any(|w| {
            w.name == param
                || (matches!(w.kind, WriteKind::Element | WriteKind::Escape)
                    && self
                        .local(&w.name, w.node.start_byte())
                        .is_some_and(|l| l.pointer || self.type_of(l).contains("auto"))
                    && self
                        .root(&w.name, w.node.start_byte())
                        .is_none_or(|p| p.name == param))
        })
    }

    fn level_of_name(&self, name: &str, at: usize) -> Level {
        if let Some(local) = self.local(name, at) {
            let key = (name.to_owned(), local.name.start_byte());
            if self.levels.borrow().contains(&key) {
                // The variable's own part in its update: it is as uniform as everything else in it.
                return Level::Grid;
            }
            if !(local.plain || local.pointer) {
                return Level::Thread;
            }
            self.levels.borrow_mut().push(key);
            let level = self.level_of_local(name, local, at);
            self.levels.borrow_mut().pop();
            return level;
        }
        if self.param(name).is_some() {
            return if self.reassigned(name) {
                Level::Thread
            } else {
                Level::Grid
            };
        }
        let constant = self.constants.contains_key(name)
            || self.template_params.iter().any(|t| t == name)
            || matches!(
                name,
                "warpSize"
                    | "INFINITY"
                    | "FLT_MAX"
                    | "FLT_MIN"
                    | "FLT_EPSILON"
                    | "INT_MAX"
                    | "INT_MIN"
                    | "M_PI"
            );
        if constant { Level::Grid } else { Level::Thread }
    }

    fn level_of_local(&self, name: &str, local: Local<'a>, at: usize) -> Level {
        // The last plain assignment in the variable's own block hides what came before it.
        let reset = self
            .writes(name)
            .filter(|w| {
                let statement = w.node.parent();
                matches!(w.kind, WriteKind::Assign(_))
                    && self.operator(w.node) == "="
                    && w.node.end_byte() <= at
                    && statement.is_some_and(|s| s.kind() == "expression_statement")
                    && statement
                        .and_then(|s| s.parent())
                        .is_some_and(|b| b.id() == local.scope.id())
                    && matches!(w.kind, WriteKind::Assign(v)
                        if !all(v).any(|n| n.kind() == "identifier" && self.str(n) == name))
            })
            .max_by_key(|w| w.node.start_byte());
        let since = reset.map_or(0, |w| w.node.start_byte());
        let mut level = match (reset, local.value) {
            (None, Some(v)) => self.level(v),
            _ => Level::Grid,
        };
        let mut given = local.value.is_some();
        // Later writes count too: a loop may bring them back before the use. Only a use in the variable's own
        // block, outside any loop, could leave them out.
        for write in self.writes(name).filter(|w| w.node.start_byte() >= since) {
            if reset.is_some()
                && write.node.start_byte() > at
                && !self.shares_loop(write.node, at, local.scope)
            {
                continue;
            }
            given = true;
            level = level.max(match write.kind {
                WriteKind::Assign(value) => self.level(value),
                WriteKind::Step => Level::Grid,
                WriteKind::Element | WriteKind::Escape => Level::Thread,
            });
            level = level.max(self.control(write.node, local.scope));
        }
        if given { level } else { Level::Thread }
    }

    /// Whether a loop inside `scope` holds both a node and a byte.
    fn shares_loop(&self, node: Node<'a>, at: usize, scope: Node<'a>) -> bool {
        let mut up = node;
        while let Some(parent) = up.parent()
            && up.id() != scope.id()
        {
            up = parent;
            let is_loop = matches!(
                up.kind(),
                "for_statement" | "while_statement" | "do_statement" | "for_range_loop"
            );
            if is_loop && up.id() != scope.id() && up.byte_range().contains(&at) {
                return true;
            }
        }
        false
    }

    /// Over how many threads a node is reached together, counting conditions between it and `scope`.
    pub fn control(&self, node: Node<'a>, scope: Node<'a>) -> Level {
        let mut level = Level::Grid;
        let mut at = node;
        while let Some(parent) = at.parent() {
            if at.id() == scope.id() {
                break;
            }
            let condition = parent.child_by_field_name("condition");
            match parent.kind() {
                "if_statement"
                | "conditional_expression"
                | "while_statement"
                | "do_statement"
                | "switch_statement"
                | "for_statement" => {
                    let in_condition = condition.is_some_and(|c| c.id() == at.id());
                    if let Some(c) = condition
                        && !(in_condition && parent.kind() == "if_statement")
                    {
                        level = level.max(self.level(c));
                    }
                    let is_loop = matches!(
                        parent.kind(),
                        "while_statement" | "do_statement" | "for_statement"
                    );
                    if is_loop && all(parent).any(|n| is_jump(n.kind())) {
                        level = Level::Thread;
                    }
                }
                "binary_expression" if matches!(self.operator(parent), "&&" | "||") => {
                    if let Some(left) = parent.child_by_field_name("left") {
                        level = level.max(self.level(left));
                    }
                }
                "lambda_expression" | "for_range_loop" | "try_statement" => level = Level::Thread,
                _ => {}
            }
            at = parent;
        }
        level
    }

    /// Over how many threads the kernel reaches `node` together: conditions around it, and returns before it.
    pub fn reached_by(&self, node: Node<'a>) -> Level {
        let mut level = self.control(node, self.body);
        for n in all(self.body) {
            if is_jump(n.kind()) && n.start_byte() < node.start_byte() {
                level = level.max(if n.kind() == "return_statement" {
                    self.control(n, self.body)
                } else {
                    Level::Grid
                });
            }
        }
        level
    }

    /// The value of an integer expression where the names in `known` (`threadIdx.x`, ...) have values, and every
    /// other uniform part is 0: the result is right up to a shift that all lanes share. `None` when a part may
    /// differ between lanes in an unknown way.
    pub fn evaluate(&self, node: Node<'a>, known: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.evaluate_at(node, known, 0)
    }

    fn evaluate_at(
        &self,
        node: Node<'a>,
        known: &dyn Fn(&str) -> Option<i64>,
        depth: u32,
    ) -> Option<i64> {
        if depth > 24 {
            return None;
        }
        let field = |f| node.child_by_field_name(f);
        let inner = |n: Node<'a>| self.evaluate_at(n, known, depth + 1);
        let uniform = || (self.level(node) < Level::Thread).then_some(0);
        match node.kind() {
            "number_literal" => integer(self.str(node)),
            "parenthesized_expression" => inner(named(node).into_iter().next()?),
            "cast_expression" => inner(field("value")?),
            "field_expression" => known(&self.norm(node)).or_else(uniform),
            "identifier" => {
                let name = self.str(node);
                if let Some(local) = self.local(name, node.start_byte()) {
                    let value = local
                        .value
                        .filter(|_| local.plain && !self.reassigned(name));
                    return value.and_then(inner).or_else(uniform);
                }
                self.constants.get(name).map(|c| c.value).or_else(uniform)
            }
            "unary_expression" if self.operator(node) == "-" => {
                inner(field("argument")?)?.checked_neg()
            }
            "call_expression" => {
                let callee = self.norm(field("function")?);
                match named(field("arguments")?).as_slice() {
                    [one] if callee.starts_with("static_cast<") => inner(*one),
                    _ => uniform(),
                }
            }
            "binary_expression" => {
                let (a, b) = (inner(field("left")?)?, inner(field("right")?)?);
                match self.operator(node) {
                    "+" => a.checked_add(b),
                    "-" => a.checked_sub(b),
                    "*" => a.checked_mul(b),
                    "/" => a.checked_div(b),
                    "%" => a.checked_rem(b),
                    "&" => Some(a & b),
                    "|" => Some(a | b),
                    "^" => Some(a ^ b),
                    "<<" => a.checked_shl(u32::try_from(b).ok()?),
                    ">>" => a.checked_shr(u32::try_from(b).ok()?),
                    _ => uniform(),
                }
            }
            _ => uniform(),
        }
    }

    /// The line of a node, from 1.
    pub fn line_of(&self, node: Node) -> u32 {
        let lines = self
            .text
            .as_bytes()
            .iter()
            .take(node.start_byte())
            .filter(|b| **b == b'\n');
        u32::try_from(lines.count() + 1).unwrap_or(u32::MAX)
    }

    /// `x` in `x[i]`.
    pub fn subscript_base(&self, node: Node<'a>) -> Option<Node<'a>> {
        node.child_by_field_name("argument")
    }

    /// `i` in `x[i]`.
    pub fn subscript_index(&self, node: Node<'a>) -> Option<Node<'a>> {
        let list = node.child_by_field_name("indices")?;
        match named(list).as_slice() {
            [index] => Some(*index),
            _ => None,
        }
    }

    fn note_local(&mut self, node: Node<'a>) {
        if node.kind() != "declaration" {
            return;
        }
        let mut scope = node;
        while let Some(parent) = scope.parent() {
            scope = parent;
            if matches!(scope.kind(), "compound_statement" | "for_statement") {
                break;
            }
        }
        for declarator in node.children_by_field_name("declarator") {
            let (mut inner, value) = match declarator.kind() {
                "init_declarator" => (
                    declarator.child_by_field_name("declarator"),
                    declarator.child_by_field_name("value"),
                ),
                _ => (Some(declarator), None),
            };
            let outer = inner.map(|n| n.kind());
            while let Some(n) = inner
                && n.kind() != "identifier"
            {
                inner = n
                    .child_by_field_name("declarator")
                    .or_else(|| named(n).into_iter().next_back());
            }
            if let Some(name) = inner {
                let value = value.map(|v| match (v.kind(), named(v).as_slice()) {
                    ("argument_list" | "initializer_list", [one]) => *one,
                    _ => v,
                });
                self.locals.push(Local {
                    name,
                    declaration: node,
                    value,
                    scope,
                    plain: outer == Some("identifier"),
                    pointer: outer == Some("pointer_declarator")
                        && self
                            .text
                            .get(declarator.start_byte()..name.start_byte())
                            .is_some_and(|t| t.matches('*').count() == 1),
                });
            }
        }
    }

    fn note_write(&mut self, node: Node<'a>) {
        let mut push = |target: Node<'a>, whole: WriteKind<'a>| {
            if let Some((name, direct)) = self.target_of(target) {
                let kind = if direct { whole } else { WriteKind::Element };
                self.writes.push(Write { name, node, kind });
            }
        };
        match node.kind() {
            "assignment_expression" => {
                if let (Some(left), Some(right)) = (
                    node.child_by_field_name("left"),
                    node.child_by_field_name("right"),
                ) {
                    push(left, WriteKind::Assign(right));
                }
            }
            "update_expression" => {
                if let Some(argument) = node.child_by_field_name("argument") {
                    push(argument, WriteKind::Step);
                }
            }
            "pointer_expression" if self.operator(node) == "&" => {
                // `&x[i]` as the start of a pointer is followed by `root`; elsewhere it may be written through.
                let initialises = node.parent().is_some_and(|p| p.kind() == "init_declarator");
                if let Some(argument) = node.child_by_field_name("argument")
                    && let Some((name, direct)) = self.target_of(argument)
                    && (direct || !initialises)
                {
                    self.writes.push(Write {
                        name,
                        node,
                        kind: WriteKind::Escape,
                    });
                }
            }
            "call_expression" => {
                let callee = node
                    .child_by_field_name("function")
                    .map(|f| self.norm(f))
                    .unwrap_or_default();
                if self.is_pure(&callee) || is_by_value_call(&callee) || callee.contains("_cast<") {
                    return;
                }
                for argument in node
                    .child_by_field_name("arguments")
                    .map(named)
                    .unwrap_or_default()
                {
                    let mut inner = argument;
                    while let ("binary_expression", Some(left)) =
                        (inner.kind(), inner.child_by_field_name("left"))
                    {
                        inner = left;
                    }
                    if let Some((name, _)) = self.target_of(inner) {
                        self.writes.push(Write {
                            name,
                            node,
                            kind: WriteKind::Escape,
                        });
                    }
                }
            }
            "lambda_expression" | "gnu_asm_expression" => {
                for n in all(node).filter(|n| n.kind() == "identifier") {
                    let name = self.str(n).to_owned();
                    self.writes.push(Write {
                        name,
                        node,
                        kind: WriteKind::Escape,
                    });
                }
            }
            "reference_declarator" => {
                if let Some(value) = node.parent().and_then(|p| p.child_by_field_name("value"))
                    && let Some((name, _)) = self.target_of(value)
                {
                    self.writes.push(Write {
                        name,
                        node,
                        kind: WriteKind::Escape,
                    });
                }
            }
            _ => {}
        }
    }

    /// The variable at the bottom of an lvalue, and whether it is the variable itself.
    fn target_of(&self, node: Node<'a>) -> Option<(String, bool)> {
        match node.kind() {
            "identifier" => Some((self.str(node).to_owned(), true)),
            "parenthesized_expression" => self.target_of(named(node).into_iter().next()?),
            "subscript_expression" | "field_expression" | "pointer_expression" => {
                let (name, _) = self.target_of(node.child_by_field_name("argument")?)?;
                Some((name, false))
            }
            "binary_expression" => {
                let (name, _) = self.target_of(node.child_by_field_name("left")?)?;
                Some((name, false))
            }
            "cast_expression" => {
                let (name, _) = self.target_of(node.child_by_field_name("value")?)?;
                Some((name, false))
            }
            "call_expression" => {
                let arguments = node.child_by_field_name("arguments")?;
                let (name, _) = self.target_of(named(arguments).into_iter().next()?)?;
                Some((name, false))
            }
            _ => None,
        }
    }
}

/// Where a name stands before its parameter list.
fn name_before(text: &str, head: Range<usize>, name: &str) -> Option<usize> {
    let part = text.get(head.clone())?;
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    part.match_indices(name)
        .find(|(at, _)| {
            let (before, after) = (
                part.get(..*at).unwrap_or(""),
                part.get(at + name.len()..).unwrap_or(""),
            );
            !word(before.chars().next_back()) && after.trim_start().starts_with('(')
        })
        .map(|(at, _)| head.start + at)
}

/// A node and everything below it, in source order.
pub fn all(node: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    node.descendants()
}

/// Named children, comments dropped.
pub fn named(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children()
        .filter(|n| n.kind() != "comment")
        .collect()
}

/// The statement before or after, comments skipped.
pub fn sibling(node: Node<'_>, forward: bool) -> Option<Node<'_>> {
    let mut at = node;
    loop {
        at = if forward {
            at.next_named_sibling()?
        } else {
            at.prev_named_sibling()?
        };
        if at.kind() != "comment" {
            return Some(at);
        }
    }
}

/// Whether a node kind leaves the normal flow.
pub fn is_jump(kind: &str) -> bool {
    matches!(
        kind,
        "return_statement"
            | "break_statement"
            | "continue_statement"
            | "goto_statement"
            | "throw_statement"
    )
}

/// Whether a type name is an integer type at least as wide as a thread index.
pub fn is_integer_type(name: &str) -> bool {
    matches!(
        name.trim(),
        "int"
            | "unsigned"
            | "unsigned int"
            | "long"
            | "unsigned long"
            | "long long"
            | "unsigned long long"
            | "size_t"
            | "std::size_t"
            | "ptrdiff_t"
            | "int32_t"
            | "uint32_t"
            | "int64_t"
            | "uint64_t"
            | "uint"
            | "ulong"
            | "auto"
            | "signed"
            | "signed int"
            | "std::int64_t"
            | "std::uint32_t"
            | "index_t"
    )
}

/// Device functions that only compute: no memory, no other lanes, no arguments by reference.
fn is_pure_call(callee: &str) -> bool {
    let name = callee
        .trim_start_matches("::")
        .trim_start_matches("std::")
        .trim_start_matches("hip::");
    let plain = name.split('<').next().unwrap_or(name);
    if matches!(
        plain,
        "static_cast"
            | "float"
            | "double"
            | "int"
            | "unsigned"
            | "half"
            | "__half"
            | "size_t"
            | "bool"
    ) {
        return true;
    }
    let stem = plain.trim_start_matches("__");
    let stem = stem.strip_suffix('f').unwrap_or(stem);
    const MATH: &[&str] = &[
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "pow",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "atan2",
        "er",
        "erf",
        "erfc",
        "fabs",
        "abs",
        "fma",
        "fmax",
        "fmin",
        "max",
        "min",
        "floor",
        "ceil",
        "rint",
        "round",
        "trunc",
        "fmod",
        "copysign",
        "cbrt",
        "rcbrt",
        "hypot",
        "isnan",
        "isin",
        "isinf",
        "isfinite",
        "saturate",
        "frcp_rn",
        "fdividef",
        "fdivide",
        "rcp",
        "ldexp",
        "mul24",
        "umul24",
        "popc",
        "popcll",
        "clz",
        "ffs",
        "brev",
        "float2hal",
        "float2half",
        "float2half_rn",
        "half2float",
        "half2floa",
        "hadd",
        "hmul",
        "hsub",
        "hdiv",
        "hfma",
        "hmax",
        "hmin",
        "float2int_rn",
        "int2float_rn",
        "float2bfloat16",
        "bfloat162float",
        "bfloat162floa",
        "float_as_int",
        "int_as_float",
        "int_as_floa",
        "ldg",
        "fmul_rn",
        "fadd_rn",
        "fsub_rn",
        "fmaf_rn",
        "expf",
        "logf",
        "make_float2",
        "make_float4",
        "make_int4",
        "make_uint4",
    ];
    MATH.contains(&stem) || MATH.contains(&plain)
}

/// Calls that take scalars by value but are not pure.
fn is_by_value_call(callee: &str) -> bool {
    let plain = callee.trim_start_matches("::");
    let plain = plain.split('<').next().unwrap_or(plain);
    plain.starts_with("__shfl")
        || plain.starts_with("__ballot")
        || matches!(
            plain,
            "__any"
                | "__all"
                | "__syncthreads"
                | "printf"
                | "assert"
                | "reinterpret_cast"
                | "const_cast"
        )
}

/// An integer literal's value.
pub fn integer(text: &str) -> Option<i64> {
    let t = text.replace('\'', "");
    let t = t.trim_end_matches(['u', 'U', 'l', 'L', 'z', 'Z']);
    if let Some(hex) = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
        return i64::from_str_radix(hex, 16).ok();
    }
    if let Some(bin) = t.strip_prefix("0b") {
        return i64::from_str_radix(bin, 2).ok();
    }
    if t.len() > 1 && t.starts_with('0') {
        return i64::from_str_radix(t, 8).ok();
    }
    t.parse().ok()
}

/// The identifiers and keywords in a piece of text.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|w| !w.is_empty())
}
