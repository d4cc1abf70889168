//! Votes of the wavefront: which expressions hold one bit for each of 64 lanes, and how many bits a type has.

use std::collections::HashMap;

use hipsmith_syntax::lanes::Binding;
use hipsmith_syntax::lex::{Token, TokenKind, tokens};
use hipsmith_syntax::{Node, Notable, Scope};

use crate::context::Context;
use crate::facts::{self, Call, Function, callee_name, unparenthesized};

/// Types that the file names: aliases, and the members of its classes. `None` where the same name means several.
#[derive(Debug, Default)]
pub(crate) struct TypeNames {
    aliases: HashMap<String, Option<String>>,
    members: HashMap<String, Option<String>>,
}

fn insert(map: &mut HashMap<String, Option<String>>, name: &str, ty: &str) {
    map.entry(name.to_owned())
        .and_modify(|known| {
            if known.as_deref() != Some(ty) {
                *known = None;
            }
        })
        .or_insert_with(|| Some(ty.to_owned()));
}

impl TypeNames {
    /// Those outside functions; `inside`: all.
    fn of(source: &str, root: Node<'_>, inside: bool) -> Self {
        let text = |n: Node<'_>| facts::text(source, n).to_owned();
        let mut out = Self::default();
        let mut end = 0;
        for (what, node) in root.notable() {
            if what == Notable::Function {
                end = end.max(node.end_byte());
            }
            // What a function names for itself is looked up in it.
            if !inside && node.start_byte() < end {
                continue;
            }
            let Some(ty) = node.child_by_field_name("type").map(text) else {
                continue;
            };
            match (what, node.kind()) {
                (Notable::Alias, "alias_declaration") => {
                    if let Some(name) = node.child_by_field_name("name").map(text) {
                        insert(&mut out.aliases, &name, &ty);
                    }
                }
                (Notable::Alias, _) => {
                    for d in node.children_by_field_name("declarator") {
                        if d.kind() == "type_identifier" {
                            insert(&mut out.aliases, &text(d), &ty);
                        }
                    }
                }
                (Notable::Field, _) => {
                    for d in node.children_by_field_name("declarator") {
                        let mut name = d;
                        while name.kind() == "array_declarator" {
                            let Some(inner) = name.child_by_field_name("declarator") else {
                                break;
                            };
                            name = inner;
                        }
                        if name.kind() == "field_identifier" {
                            insert(&mut out.members, &text(name), &ty);
                        }
                    }
                }
                _ => {}
            }
        }
        out
    }
}

/// What a function-like macro makes of a vote.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VoteMacro {
    /// It is the vote, in 64 bits.
    Whole,
    /// It casts the vote to 32 bits or fewer.
    Cut,
}

/// The builtins that return a bit for each lane.
pub(crate) fn is_vote_name(name: &str) -> bool {
    matches!(
        name,
        "__ballot"
            | "__ballot_sync"
            | "__activemask"
            | "__match_any"
            | "__match_any_sync"
            | "__match_all"
            | "__match_all_sync"
    )
}

/// Without brackets around the whole.
fn without_brackets<'a>(mut all: &'a [Token], body: &str) -> &'a [Token] {
    while let [first, inner @ .., last] = all
        && first.text(body) == "("
        && last.text(body) == ")"
        && closes_at_end(all, body)
    {
        all = inner;
    }
    all
}

/// Whether the bracket that opens `all` is closed by its last token.
fn closes_at_end(all: &[Token], body: &str) -> bool {
    let mut depth = 0;
    for (i, t) in all.iter().enumerate() {
        match t.text(body) {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1 == all.len();
        }
    }
    false
}

fn vote_macro(cx: &Context<'_>, body: &str) -> Option<VoteMacro> {
    let all = tokens(body);
    let all = without_brackets(&all, body);
    let is_vote = |rest: &[Token]| {
        let rest = without_brackets(rest, body);
        matches!(rest, [name, arguments @ ..]
            if is_vote_name(name.text(body)) && closes_at_end(arguments, body))
    };
    if is_vote(all) {
        return Some(VoteMacro::Whole);
    }
    // `(unsigned)__ballot(p)`, `unsigned(__ballot(p))`, `static_cast<int>(__ballot(p))`
    let close = all.iter().position(|t| matches!(t.text(body), ")" | ">"))?;
    let (head, rest) = match all.first()?.text(body) {
        "(" => (&all[1..close], &all[close + 1..]),
        "static_cast" => (all.get(2..close)?, &all[close + 1..]),
        _ => (&all[..1], &all[1..]),
    };
    let ty: Vec<&str> = head
        .iter()
        .filter(|t| t.kind == TokenKind::Ident)
        .map(|t| t.text(body))
        .collect();
    let cut = is_vote(rest)
        && cx
            .bits(None, &ty.join(" "), usize::MAX)
            .is_some_and(|b| b <= 32);
    cut.then_some(VoteMacro::Cut)
}

/// Integers wider than this many names deep are given up.
const DEPTH: u32 = 8;

impl<'t> Context<'t> {
    fn type_names(&self) -> &TypeNames {
        self.types
            .get_or_init(|| TypeNames::of(self.source, self.document.root(), false))
    }

    /// The type of the class member called `name`, where all members of that name in the file agree.
    pub(crate) fn member_type(&self, name: &str) -> Option<&str> {
        self.type_names().members.get(name)?.as_deref()
    }

    /// Bits of an integer type as written in `f` at byte `at`, through aliases, macros and template parameters; `None`
    /// for what is no integer or not known.
    pub(crate) fn bits(&self, f: Option<&Function<'t>>, type_text: &str, at: usize) -> Option<u32> {
        self.bits_at(f, type_text, at, 0)
    }

    fn bits_at(
        &self,
        f: Option<&Function<'t>>,
        type_text: &str,
        at: usize,
        depth: u32,
    ) -> Option<u32> {
        let mut long = false;
        let mut size = None;
        let mut named = None;
        for word in type_text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            match word {
                "long" | "int64_t" | "uint64_t" | "size_t" | "ptrdiff_t" | "uintptr_t"
                | "ulong" | "ulonglong" => long = true,
                "int" | "unsigned" | "signed" | "int32_t" | "uint32_t" | "uint" => {
                    size = size.or(Some(32));
                }
                "short" | "int16_t" | "uint16_t" | "ushort" => size = Some(16),
                "char" | "int8_t" | "uint8_t" | "uchar" => size = Some(8),
                "" | "const" | "constexpr" | "static" | "register" | "volatile" | "std"
                | "inline" | "extern" | "typename" | "__restrict__" => {}
                _ if named.is_none() => named = Some(word),
                _ => return None,
            }
        }
        let Some(name) = named else {
            return if long { Some(64) } else { size };
        };
        if long || size.is_some() || depth > DEPTH {
            return None;
        }
        if matches!(
            name,
            "auto" | "bool" | "float" | "double" | "half" | "__half" | "void" | "decltype"
        ) {
            return None;
        }
        if let Some(ty) = f.and_then(|f| self.template_argument(f, name)) {
            return self.bits_at(None, &ty?, at, depth + 1);
        }
        if let Some(ty) = self.type_names().aliases.get(name) {
            return self.bits_at(f, ty.as_deref()?, at, depth + 1);
        }
        if let Some(f) = f
            && f.body.notable().any(|(what, _)| what == Notable::Alias)
        {
            let own = TypeNames::of(self.source, f.body, true);
            if let Some(ty) = own.aliases.get(name) {
                return self.bits_at(Some(f), ty.as_deref()?, at, depth + 1);
            }
        }
        if let Some(m) = self.model.macro_at(name, at) {
            return match m.parameters {
                None => self.bits_at(f, &m.body, at, depth + 1),
                Some(_) => None,
            };
        }
        let bytes = self.model.size_of(name, &Scope::at(at))?;
        u32::try_from(bytes).ok()?.checked_mul(8)
    }

    /// What the type parameter `name` of `f` stands for: the outer `None` when it is no type parameter, the inner one when
    /// it is not known. The calls of the file that name it decide, or its default when there is none.
    fn template_argument(&self, f: &Function<'t>, name: &str) -> Option<Option<String>> {
        let model = self
            .model
            .functions
            .iter()
            .find(|m| m.name_range == f.name_range)?;
        let place = model.template_params.iter().position(|p| p.name == name)?;
        let default = model.template_params.get(place)?.default.as_deref();
        let mut given: Option<&str> = None;
        let index = self
            .functions
            .iter()
            .position(|g| g.name_range == f.name_range)?;
        let callers = self
            .callers_of(index)
            .iter()
            .filter_map(|i| self.functions.get(*i));
        for call in callers.flat_map(|g| &g.calls) {
            if call.name != f.name {
                continue;
            }
            let argument = call
                .node
                .child_by_field_name("function")
                .and_then(|c| c.child_by_field_name("arguments"))
                .and_then(|a| a.named_children().nth(place))
                .map(|a| self.text(a))
                .or(default);
            match (given, argument) {
                (_, None) => return Some(None),
                (Some(known), Some(a)) if known != a => return Some(None),
                (_, Some(a)) => given = Some(a),
            }
        }
        Some(given.or(default).map(str::to_owned))
    }

    /// Whether an integer type has 32 bits or fewer.
    pub(crate) fn is_short(&self, f: Option<&Function<'t>>, type_text: &str, at: usize) -> bool {
        self.bits(f, type_text, at).is_some_and(|b| b <= 32)
    }

    /// Bits of what `f` returns.
    pub(crate) fn return_bits(&self, f: &Function<'t>) -> Option<u32> {
        let ty = facts::return_type(f.node)?;
        let pointer = f
            .node
            .child_by_field_name("declarator")
            .is_some_and(|d| d.kind() == "pointer_declarator");
        if pointer {
            return None;
        }
        self.bits(Some(f), self.text(ty), ty.start_byte())
    }

    /// Macros of the file that are votes.
    pub(crate) fn vote_macros(&self) -> &HashMap<String, VoteMacro> {
        self.vote_macros.get_or_init(|| {
            self.model
                .macros()
                .filter(|(_, m)| {
                    m.parameters.is_some()
                        && ["ballot", "activemask", "__match_"]
                            .iter()
                            .any(|w| m.body.contains(w))
                })
                .filter_map(|(name, m)| Some((name.to_owned(), vote_macro(self, &m.body)?)))
                .collect()
        })
    }

    /// Whether the call votes over the whole wavefront, itself or through a macro or function of the file that hands the
    /// 64 bits on.
    pub(crate) fn votes(&self, call: Node<'t>) -> bool {
        self.votes_at(callee_name(self.source, call), 0)
    }

    /// As [`Context::votes`], for a call whose name is known to stand for another.
    pub(crate) fn call_votes(&self, call: &Call<'t>) -> bool {
        self.votes_at(&call.name, 0)
    }

    fn votes_at(&self, name: &str, depth: u32) -> bool {
        if is_vote_name(name) && !self.redefines(name) {
            return true;
        }
        if self.vote_macros().get(name) == Some(&VoteMacro::Whole) {
            return true;
        }
        if let Some(real) = self.macro_names.get(name) {
            return depth < DEPTH && self.votes_at(real, depth + 1);
        }
        let Some(g) = self.only_function(name) else {
            return false;
        };
        depth < DEPTH
            && g.returns.iter().any(|r| {
                r.named_child(0).map(unparenthesized).is_some_and(|v| {
                    v.kind() == "call_expression"
                        && self.votes_at(callee_name(self.source, v), depth + 1)
                })
            })
            && (self.return_bits(g) == Some(64)
                || facts::return_type(g.node).is_some_and(|t| self.text(t) == "auto"))
    }

    /// Whether the expression holds a bit for each lane: a vote, a variable of 64 bits that holds one, or such combined by
    /// `&`, `|`, `^`, `~` and `?:`.
    pub(crate) fn holds_vote(&self, f: &Function<'t>, node: Node<'t>) -> bool {
        self.holds_vote_at(f, node, 0)
    }

    fn holds_vote_at(&self, f: &Function<'t>, node: Node<'t>, depth: u32) -> bool {
        if depth > DEPTH {
            return false;
        }
        let node = unparenthesized(node);
        let field = |name: &str| {
            node.child_by_field_name(name)
                .is_some_and(|n| self.holds_vote_at(f, n, depth + 1))
        };
        match node.kind() {
            "call_expression" => self.votes(node),
            "unary_expression" => self.text(node).starts_with('~') && field("argument"),
            "conditional_expression" => field("consequence") || field("alternative"),
            "binary_expression" => {
                let Some(b) = facts::binary(node) else {
                    return false;
                };
                matches!(b.operator, "&" | "|" | "^") && (field("left") || field("right"))
            }
            "identifier" => f
                .bindings
                .resolve(self.text(node), node.start_byte())
                .is_some_and(|b| self.variable_holds_vote(f, b, depth + 1)),
            _ => false,
        }
    }

    /// Whether a local variable of 64 bits is given a vote.
    pub(crate) fn variable_holds_vote(
        &self,
        f: &Function<'t>,
        b: &Binding<'t>,
        depth: u32,
    ) -> bool {
        if b.compound {
            return false;
        }
        let given = b
            .init
            .into_iter()
            .chain(
                b.writes
                    .iter()
                    .filter_map(|w| w.child_by_field_name("right")),
            )
            .any(|n| self.holds_vote_at(f, n, depth + 1));
        given
            && (b.type_text.split_whitespace().any(|w| w == "auto")
                || self.bits(Some(f), &b.type_text, b.name.start_byte()) == Some(64))
    }
}
