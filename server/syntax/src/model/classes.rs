//! Types: which class a name means, what is in it, and how the compiler lays it out.
//!
//! Classes are read from the text, and only when somebody asks: few are, and a token reader also gets through what the
//! grammar stumbles over.

use std::ops::Range;

use crate::expr::{Names, evaluate};
use crate::lex::{Token, TokenKind, split_arguments, tokens};
use crate::types::{self, Layout};

use super::names::View;
use super::{Binding, Class, Model, TemplateParam};

/// What a class's text says.
#[derive(Debug, Default)]
pub(super) struct ClassBody {
    is_union: bool,
    /// `virtual` functions: a pointer comes first.
    is_dynamic: bool,
    is_packed: bool,
    /// `alignas` and the like, as written.
    aligns: Vec<String>,
    bases: Vec<String>,
    /// `None` if a member was not understood.
    fields: Option<Vec<Field>>,
    /// Static constants with their value's place.
    constants: Vec<(String, Range<usize>)>,
    pub(super) template_params: Vec<TemplateParam>,
    /// Arguments of a specialization, as written.
    arguments: Option<Vec<String>>,
}

#[derive(Debug)]
struct Field {
    ty: FieldType,
    dims: Vec<String>,
    /// Width of a bit field, as written.
    bits: Option<String>,
    align: Option<String>,
}

/// One declarator with its type.
#[derive(Debug)]
pub(super) struct Declared {
    /// Bytes of the name; empty if it has none.
    pub(super) name: Range<usize>,
    /// The type; empty where it stands elsewhere.
    pub(super) ty: String,
    pub(super) dims: Vec<String>,
    /// Width of a bit field.
    pub(super) bits: Option<String>,
}

#[derive(Debug)]
enum FieldType {
    Named(String),
    /// A class without a name, or one that is declared where it is used: its text.
    Inner(Range<usize>),
}

/// A class with its template parameters bound.
#[derive(Clone)]
pub(super) struct ClassRef<'a> {
    pub(super) model: &'a Model,
    pub(super) index: usize,
    pub(super) bindings: Vec<(String, Binding)>,
}

/// What a type's name stands for.
pub(super) enum Meaning<'a> {
    Class(ClassRef<'a>),
    /// A type that needs no lookup: built in, a pointer, or an array of those.
    Plain(String),
    /// A class of a library, of which no more is known than its size.
    Sized(Layout),
    /// A class of a library, of which no more is known than its `TempStorage`.
    Primitive {
        storage: Layout,
    },
}

/// One part of a qualified name: the name and its template arguments.
pub(super) type Segment = (String, Option<Vec<String>>);

impl Class {
    /// The name without the arguments of a specialization.
    pub(super) fn plain_name(&self) -> &str {
        self.name.split('<').next().unwrap_or(&self.name).trim_end()
    }
}

/// `a::B<int, 4>::c` in its parts; `None` if the text is something else.
pub(super) fn segments(text: &str) -> Option<Vec<Segment>> {
    let toks = tokens(text);
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
    let mut out: Vec<Segment> = Vec::new();
    let mut i = usize::from(word(0) == "::");
    loop {
        if word(i) == "template" {
            i += 1;
        }
        let name = toks.get(i).filter(|t| t.kind == TokenKind::Ident)?;
        i += 1;
        let mut arguments = None;
        if word(i) == "<" {
            let close = angle_close(&toks, i, text)?;
            let inner = toks.get(i)?.range.end..toks.get(close)?.range.start;
            arguments = Some(
                split_arguments(text, inner)
                    .into_iter()
                    .filter_map(|r| text.get(r).map(str::to_owned))
                    .collect(),
            );
            i = close + 1;
        }
        out.push((name.text(text).to_owned(), arguments));
        if i >= toks.len() {
            return Some(out);
        }
        if word(i) != "::" || out.len() > 16 {
            return None;
        }
        i += 1;
    }
}

/// The `>` of the `<` at `open`, in a text that is known to hold template arguments there.
pub(super) fn angle_close(toks: &[Token], open: usize, text: &str) -> Option<usize> {
    let (mut angle, mut round) = (0usize, 0usize);
    for (i, t) in toks.iter().enumerate().skip(open) {
        match t.text(text) {
            "<" if round == 0 => angle += 1,
            ">" if round == 0 => {
                angle = angle.checked_sub(1)?;
                if angle == 0 {
                    return Some(i);
                }
            }
            "(" | "[" | "{" => round += 1,
            ")" | "]" | "}" => round = round.checked_sub(1)?,
            ";" => return None,
            _ => {}
        }
    }
    None
}

/// The bracket that closes the one at token `open`.
pub(super) fn bracket_close(toks: &[Token], open: usize, text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (i, t) in toks.iter().enumerate().skip(open) {
        match t.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Words that say nothing about which type it is.
fn is_qualifier(word: &str) -> bool {
    matches!(
        word,
        "const"
            | "volatile"
            | "struct"
            | "class"
            | "union"
            | "enum"
            | "typename"
            | "static"
            | "extern"
            | "constexpr"
            | "inline"
            | "register"
            | "mutable"
            | "thread_local"
            | "__restrict__"
            | "__restrict"
            | "__shared__"
            | "__device__"
            | "__host__"
            | "__constant__"
    )
}

/// One spelling for each type that has several.
pub(super) fn canonical(ty: &str) -> String {
    let toks = tokens(ty);
    let words: Vec<&str> = toks
        .iter()
        .map(|t| t.text(ty))
        .filter(|w| !is_qualifier(w))
        .collect();
    let joined = words.join(" ");
    let plain = joined.strip_prefix("std :: ").unwrap_or(&joined);
    let plain = match plain {
        "unsigned" | "uint" | "uint32_t" | "unsigned int" => "unsigned int",
        "int32_t" | "signed" | "signed int" | "int" => "int",
        "uint8_t" | "uchar" | "unsigned char" => "unsigned char",
        "int8_t" | "signed char" => "signed char",
        "uint16_t" | "ushort" | "unsigned short int" | "unsigned short" => "unsigned short",
        "int16_t" | "short int" | "short" => "short",
        "uint64_t" | "size_t" | "ulong" | "unsigned long int" | "unsigned long" => "unsigned long",
        "int64_t" | "ssize_t" | "ptrdiff_t" | "long int" | "long" => "long",
        "unsigned long long int" | "ulonglong" | "unsigned long long" => "unsigned long long",
        "long long int" | "longlong" | "long long" => "long long",
        "half" | "__half" => "__half",
        "half2" | "__half2" => "__half2",
        other => other,
    };
    plain.to_owned()
}

/// Template parameters from `<typename T, int N = 4>`.
pub(super) fn template_params(list: &str) -> Vec<TemplateParam> {
    let Some(inner) = list
        .trim()
        .strip_prefix('<')
        .and_then(|l| l.strip_suffix('>'))
    else {
        return Vec::new();
    };
    split_arguments(inner, 0..inner.len())
        .into_iter()
        .filter_map(|r| {
            let text = inner.get(r)?;
            let toks = tokens(text);
            let equals = toks.iter().position(|t| t.text(text) == "=");
            let head = toks.get(..equals.unwrap_or(toks.len()))?;
            let first = head.first().map_or("", |t| t.text(text));
            let is_type = matches!(first, "typename" | "class" | "template")
                && head.iter().all(|t| t.text(text) != "::");
            let name = head
                .iter()
                .rev()
                .find(|t| t.kind == TokenKind::Ident)
                .map(|t| t.text(text))
                .filter(|n| head.len() > 1 && !matches!(*n, "typename" | "class"));
            let default = equals
                .and_then(|e| text.get(toks.get(e)?.range.end..))
                .map(|d| d.trim().to_owned());
            Some(TemplateParam {
                name: name.unwrap_or_default().to_owned(),
                is_type,
                default,
            })
        })
        .collect()
}

impl Model {
    /// What the text of a class says, read at the first call.
    pub(super) fn class_body(&self, index: usize) -> Option<&ClassBody> {
        let class = self.classes.get(index)?;
        let slot = self.index().bodies.get(index)?;
        Some(slot.get_or_init(|| {
            let mut body = self.read_class(class.range.clone());
            body.template_params = class
                .template
                .clone()
                .and_then(|t| self.text.get(t))
                .map(template_params)
                .unwrap_or_default();
            body.arguments = segments(&class.name)
                .and_then(|s| s.into_iter().next_back())
                .and_then(|(_, arguments)| arguments);
            body
        }))
    }

    /// The innermost class around a place.
    fn class_at(&self, at: usize) -> Option<usize> {
        self.classes
            .iter()
            .enumerate()
            .filter(|(_, c)| c.range.contains(&at))
            .min_by_key(|(_, c)| c.range.len())
            .map(|(i, _)| i)
    }

    fn read_class(&self, range: Range<usize>) -> ClassBody {
        let mut out = ClassBody {
            fields: Some(Vec::new()),
            ..ClassBody::default()
        };
        let toks = self.code(range);
        let text: &str = &self.text;
        let word = |i: usize| toks.get(i).map_or("", |t| t.text(text));
        out.is_union = word(0) == "union";
        let Some(open) = toks.iter().position(|t| t.text(text) == "{") else {
            out.fields = None;
            return out;
        };
        let mut i = 1;
        while i < open {
            match word(i) {
                "alignas" | "__align__" if word(i + 1) == "(" => {
                    let close = bracket_close(&toks, i + 1, text).unwrap_or(open);
                    out.aligns.extend(span(&toks, i + 2..close, text));
                    i = close + 1;
                }
                "__attribute__" if word(i + 1) == "(" => {
                    let close = bracket_close(&toks, i + 1, text).unwrap_or(open);
                    self.attribute(&toks, i + 2..close, &mut out.aligns, &mut out.is_packed);
                    i = close + 1;
                }
                ":" => {
                    let list = span(&toks, i + 1..open, text).unwrap_or_default();
                    out.bases = split_arguments(&list, 0..list.len())
                        .into_iter()
                        .filter_map(|r| list.get(r))
                        .map(|base| {
                            base.split_whitespace()
                                .filter(|w| !matches!(*w, "public" | "private" | "protected"))
                                .collect::<Vec<_>>()
                                .join(" ")
                        })
                        .collect();
                    out.is_dynamic |= out.bases.iter().any(|b| b.starts_with("virtual"));
                    break;
                }
                "<" => i = angle_close(&toks, i, text).unwrap_or(i) + 1,
                _ => i += 1,
            }
        }
        let end = bracket_close(&toks, open, text).unwrap_or(toks.len());
        let mut i = open + 1;
        while i < end {
            let next = self.member(&toks, i, end, &mut out);
            i = next.max(i + 1);
        }
        out
    }

    fn attribute(
        &self,
        toks: &[Token],
        range: Range<usize>,
        aligns: &mut Vec<String>,
        packed: &mut bool,
    ) {
        let text: &str = &self.text;
        for i in range {
            let Some(t) = toks.get(i) else { return };
            match t.text(text) {
                "packed" | "__packed__" => *packed = true,
                "aligned" | "__aligned__" => {
                    if let Some(close) = bracket_close(toks, i + 1, text) {
                        aligns.extend(span(toks, i + 2..close, text));
                    }
                }
                _ => {}
            }
        }
    }

    /// Read the member that starts at token `i`; the token after it.
    fn member(&self, toks: &[Token], start: usize, end: usize, out: &mut ClassBody) -> usize {
        let text: &str = &self.text;
        let word = |i: usize| {
            if i < end {
                toks.get(i).map_or("", |t| t.text(text))
            } else {
                ""
            }
        };
        match word(start) {
            ";" | ":" => return start + 1,
            "public" | "private" | "protected" if word(start + 1) == ":" => return start + 2,
            _ => {}
        }
        // Where it ends: `;`, or the `}` of a function's body.
        let mut i = start;
        let mut has_bracket = false;
        let mut equals = None;
        let mut inner_class = None;
        let mut is_static = false;
        let mut is_constant = false;
        let mut is_other = false;
        let mut align = None;
        while i < end {
            match word(i) {
                ";" => break,
                "static" => is_static = true,
                "const" | "constexpr" => is_constant = true,
                "virtual" => out.is_dynamic = true,
                "using" | "typedef" | "friend" | "static_assert" | "operator" | "~" => {
                    is_other = true;
                }
                "enum" => {
                    if let Some(open) = (i..end).find(|j| matches!(word(*j), "{" | ";"))
                        && word(open) == "{"
                    {
                        // `enum E { ... } member;` is a field of an int's size; `enum { ... };` is none.
                        let close = bracket_close(toks, open, text).unwrap_or(end);
                        if word(close + 1) != ";" {
                            inner_class = Some((i, close, true));
                        }
                        i = close + 1;
                        is_other |= inner_class.is_none();
                        continue;
                    }
                }
                "struct" | "class" | "union" if equals.is_none() && !has_bracket => {
                    let open = (i..end).find(|j| matches!(word(*j), "{" | ";" | "=" | "("));
                    if let Some(open) = open
                        && word(open) == "{"
                    {
                        let close = bracket_close(toks, open, text).unwrap_or(end);
                        inner_class = Some((i, close, false));
                        i = close + 1;
                        continue;
                    }
                }
                "template" if word(i + 1) == "<" => {
                    is_other = true;
                    i = angle_close(toks, i + 1, text).unwrap_or(i + 1) + 1;
                    continue;
                }
                "alignas" | "__align__" if word(i + 1) == "(" => {
                    let close = bracket_close(toks, i + 1, text).unwrap_or(end);
                    align = span(toks, i + 2..close, text);
                    i = close + 1;
                    continue;
                }
                "__attribute__" if word(i + 1) == "(" => {
                    let close = bracket_close(toks, i + 1, text).unwrap_or(end);
                    let mut aligns = Vec::new();
                    self.attribute(toks, i + 2..close, &mut aligns, &mut false);
                    align = aligns.pop().or(align);
                    i = close + 1;
                    continue;
                }
                "<" if equals.is_none() => {
                    if let Some(close) = angle_close(toks, i, text).filter(|c| *c < end) {
                        i = close + 1;
                        continue;
                    }
                }
                "(" => {
                    has_bracket |= equals.is_none();
                    i = bracket_close(toks, i, text).unwrap_or(end) + 1;
                    continue;
                }
                "[" => {
                    i = bracket_close(toks, i, text).unwrap_or(end) + 1;
                    continue;
                }
                "{" => {
                    let close = bracket_close(toks, i, text).unwrap_or(end);
                    if has_bracket && equals.is_none() {
                        // A function's body: nothing follows it (an initializer list before it is no matter).
                        if word(close + 1) != "," && word(close + 1) != "{" {
                            return close + 1 + usize::from(word(close + 1) == ";");
                        }
                    } else {
                        equals.get_or_insert(i);
                    }
                    i = close + 1;
                    continue;
                }
                "=" => {
                    equals.get_or_insert(i);
                }
                _ => {}
            }
            i += 1;
        }
        let after = (i + 1).min(end.max(start + 1));
        if is_other && inner_class.is_none() {
            return after;
        }
        let stop = i;
        if let Some((from, close, is_enum)) = inner_class {
            let range = toks.get(from).map_or(0, |t| t.range.start)
                ..toks.get(close).map_or(0, |t| t.range.end);
            let named = toks
                .get(from + 1)
                .is_some_and(|t| t.kind == TokenKind::Ident && !is_qualifier(t.text(text)));
            if is_static || word(start) == "typedef" {
                return after;
            }
            if close + 1 == stop {
                // Without a declarator only a nameless class adds members.
                if !named
                    && !is_enum
                    && let Some(all) = out.fields.as_mut()
                {
                    all.push(Field {
                        ty: FieldType::Inner(range),
                        dims: Vec::new(),
                        bits: None,
                        align,
                    });
                }
                return after;
            }
            let mut add = self.declarators(toks, close + 1..stop);
            for one in add.iter_mut().flatten() {
                if let Some(all) = out.fields.as_mut() {
                    all.push(Field {
                        ty: if one.ty.ends_with('*') {
                            FieldType::Named("void *".to_owned())
                        } else if is_enum {
                            FieldType::Named("int".to_owned())
                        } else {
                            FieldType::Inner(range.clone())
                        },
                        dims: std::mem::take(&mut one.dims),
                        bits: one.bits.take(),
                        align: align.clone(),
                    });
                }
            }
            if add.is_none() {
                out.fields = None;
            }
            return after;
        }
        if is_static {
            if is_constant && !has_bracket {
                self.constants(toks, start..stop, out);
            }
            return after;
        }
        if has_bracket {
            // `int (*f)(float)` is a pointer; everything else with a bracket is a function.
            let open = (start..stop).find(|j| word(*j) == "(").unwrap_or(stop);
            if word(open + 1) == "*"
                && let Some(all) = out.fields.as_mut()
            {
                all.push(Field {
                    ty: FieldType::Named("void *".to_owned()),
                    dims: Vec::new(),
                    bits: None,
                    align,
                });
            }
            return after;
        }
        if start == stop {
            return after;
        }
        // The type: up to the first declarator, which is the name before `[`, `=`, `{`, `,`, `:` or the end.
        match self.declarators(toks, start..stop) {
            Some(found) => {
                if let Some(all) = out.fields.as_mut() {
                    all.extend(found.into_iter().map(|one| Field {
                        ty: FieldType::Named(one.ty),
                        dims: one.dims,
                        bits: one.bits,
                        align: align.clone(),
                    }));
                }
            }
            None => out.fields = None,
        }
        after
    }

    /// `T a, *b[2], c : 3`
    pub(super) fn declarators(&self, toks: &[Token], range: Range<usize>) -> Option<Vec<Declared>> {
        let text: &str = &self.text;
        let word = |i: usize| {
            if i < range.end {
                toks.get(i).map_or("", |t| t.text(text))
            } else {
                ""
            }
        };
        let mut out = Vec::new();
        let mut base = String::new();
        let mut i = range.start;
        while i < range.end {
            let mut ty = base.clone();
            let mut dims = Vec::new();
            let mut bits = None;
            // Words of the type, then the name.
            let mut words: Vec<Range<usize>> = Vec::new();
            while i < range.end {
                match word(i) {
                    "alignas" | "__align__" | "__attribute__" if word(i + 1) == "(" => {
                        i = bracket_close(toks, i + 1, text)? + 1;
                        continue;
                    }
                    "[" | "=" | "{" | "," | ":" => break,
                    "<" => {
                        let close = angle_close(toks, i, text)?;
                        words.push(i..close + 1);
                        i = close + 1;
                        continue;
                    }
                    _ => words.push(i..i + 1),
                }
                i += 1;
            }
            // `int : 0` has no name.
            let nameless = word(i) == ":"
                && words
                    .last()
                    .is_some_and(|w| types::builtin_size(word(w.start)).is_some());
            let mut name = 0..0;
            if !nameless {
                let t = toks.get(words.pop()?.start)?;
                if t.kind != TokenKind::Ident {
                    return None;
                }
                name = t.range.clone();
            }
            let stars = words
                .iter()
                .filter(|w| matches!(word(w.start), "*" | "&" | "&&"))
                .count();
            let named: Vec<&str> = words
                .iter()
                .filter(|w| !matches!(word(w.start), "*" | "&" | "&&"))
                .filter_map(|w| {
                    let from = toks.get(w.start)?.range.start;
                    let to = toks.get(w.end.checked_sub(1)?)?.range.end;
                    text.get(from..to)
                })
                .filter(|w| !is_qualifier(w))
                .collect();
            if !named.is_empty() {
                base = named.join(" ");
                ty.clone_from(&base);
            }
            if stars > 0 {
                ty.push_str(" *");
            }
            while word(i) == "[" {
                let close = bracket_close(toks, i, text)?;
                dims.push(span(toks, i + 1..close, text)?);
                i = close + 1;
            }
            if word(i) == ":" {
                let to = (i..range.end)
                    .find(|j| matches!(word(*j), "," | "=" | "{"))
                    .unwrap_or(range.end);
                bits = span(toks, i + 1..to, text);
                i = to;
            }
            // An initializer.
            while i < range.end && word(i) != "," {
                i = match word(i) {
                    "(" | "[" | "{" => bracket_close(toks, i, text)? + 1,
                    _ => i + 1,
                };
            }
            out.push(Declared {
                name,
                ty,
                dims,
                bits,
            });
            i += 1;
        }
        Some(out)
    }

    /// `static constexpr int a = 1, b = 2;`
    fn constants(&self, toks: &[Token], range: Range<usize>, out: &mut ClassBody) {
        let text: &str = &self.text;
        let word = |i: usize| {
            if i < range.end {
                toks.get(i).map_or("", |t| t.text(text))
            } else {
                ""
            }
        };
        let mut i = range.start;
        while i < range.end {
            match word(i) {
                "<" => {
                    i = angle_close(toks, i, text).unwrap_or(i) + 1;
                    continue;
                }
                "=" | "{" => {
                    let name = word(i.saturating_sub(1)).to_owned();
                    let from = if word(i) == "=" { i + 1 } else { i };
                    let mut to = from;
                    while to < range.end && word(to) != "," {
                        to = match word(to) {
                            "(" | "[" | "{" => {
                                bracket_close(toks, to, text).unwrap_or(range.end) + 1
                            }
                            "<" => {
                                angle_close(toks, to, text)
                                    .filter(|c| *c < range.end)
                                    .unwrap_or(to)
                                    + 1
                            }
                            _ => to + 1,
                        };
                    }
                    if let (Some(a), Some(b)) = (
                        toks.get(from),
                        to.min(range.end).checked_sub(1).and_then(|b| toks.get(b)),
                    ) {
                        out.constants
                            .push((name, a.range.start..b.range.end.max(a.range.start)));
                    }
                    i = to;
                }
                _ => {}
            }
            i += 1;
        }
    }
}

/// The text of a span of tokens.
fn span(toks: &[Token], range: Range<usize>, text: &str) -> Option<String> {
    let from = toks.get(range.start)?.range.start;
    let to = toks.get(range.end.checked_sub(1)?)?.range.end;
    text.get(from..to).map(str::to_owned)
}

impl<'a> View<'a, '_> {
    /// A type as written here, as it means the same at the end of the file: template parameters replaced by what they
    /// are bound to, names of functions and classes around by what they stand for.
    pub(super) fn closed(&self, ty: &str) -> String {
        let mut out = String::new();
        let toks = tokens(ty);
        for (i, t) in toks.iter().enumerate().take(512) {
            let word = t.text(ty);
            let qualified = i
                .checked_sub(1)
                .and_then(|p| toks.get(p))
                .is_some_and(|p| matches!(p.text(ty), "::" | "."));
            let mut put = word.to_owned();
            if t.kind == TokenKind::Ident && !qualified {
                if let Some((_, b)) = self.bindings.iter().rev().find(|(n, _)| n == word) {
                    put = b.to_string();
                } else if let Some(alias) = self.local_alias(word)
                    && let Some(view) = self.elsewhere(self.model, alias, self.bindings)
                    && let Some(a) = self.model.alias_starting(alias)
                {
                    put = view.closed(a);
                }
            }
            if out.ends_with(|c: char| c.is_alphanumeric() || c == '_')
                && put.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                out.push(' ');
            }
            out.push_str(&put);
        }
        out
    }

    /// Where the alias called `name` of a function or class around this place is declared.
    fn local_alias(&self, name: &str) -> Option<usize> {
        let m = self.model;
        m.index()
            .aliases
            .get(name)
            .filter_map(|i| m.aliases.get(i))
            .filter(|a| a.name == name && a.at < self.at && a.template.is_none())
            .filter(|a| {
                let in_function = a.scope.len() < m.text.len() && a.scope.contains(&self.at);
                in_function
                    || m.class_at(a.at).is_some_and(|c| {
                        m.classes.get(c).is_some_and(|c| c.range.contains(&self.at))
                    })
            })
            .map(|a| a.at)
            .next_back()
    }

    /// What a type as written here is.
    pub(super) fn meaning(&self, ty: &str) -> Option<Meaning<'a>> {
        let toks = tokens(ty);
        let words: Vec<&str> = toks
            .iter()
            .map(|t| t.text(ty))
            .filter(|w| !is_qualifier(w))
            .collect();
        let mut depth = 0i32;
        let indirect = words.iter().any(|w| {
            depth += match *w {
                "<" | "(" => 1,
                ">" | ")" => -1,
                _ => 0,
            };
            depth == 0 && matches!(*w, "*" | "&" | "&&" | "[")
        });
        let text = words.join(" ");
        if indirect || types::layout_of(&text).is_some() {
            return Some(Meaning::Plain(text));
        }
        self.named(&segments(&text)?)
    }

    fn named(&self, path: &[Segment]) -> Option<Meaning<'a>> {
        let ((name, arguments), rest) = path.split_first()?;
        if name == "std" || name == "hipcub" || name == "cub" || name == "thrust" {
            return self.library(rest);
        }
        if name == "HIP_vector_type" {
            return self.library(path);
        }
        if arguments.is_none()
            && let Some((_, bound)) = self.bindings.iter().rev().find(|(n, _)| n == name)
        {
            let Binding::Type(bound) = bound else {
                return None;
            };
            // A type argument is closed: it means the same at the end of the file that asks.
            let bound = bound.clone();
            let view = self.elsewhere(self.root, usize::MAX, &[])?;
            return view.then(view.meaning(&bound)?, rest);
        }
        // A macro.
        if arguments.is_none()
            && let Some(m) = self.find_macro(name)
            && m.parameters.is_none()
            && m.body != *name
        {
            let body = m.body.clone();
            let view = self.elsewhere(self.model, self.at, self.bindings)?;
            return self.then(view.meaning(&body)?, rest);
        }
        let closed: Option<Vec<String>> = arguments
            .as_ref()
            .map(|all| all.iter().map(|a| self.closed_argument(a)).collect());
        for file in self.files() {
            let at = if std::ptr::eq(file, self.model) {
                self.at
            } else {
                usize::MAX
            };
            if let Some(found) = self.alias(file, at, name, closed.as_deref()) {
                return self.then(found, rest);
            }
            if let Some(class) = self.class(file, at, name, closed.as_deref()) {
                return self.then(Meaning::Class(class), rest);
            }
        }
        // Then it is a namespace.
        if arguments.is_none() && !rest.is_empty() {
            return self
                .elsewhere(self.model, self.at, self.bindings)?
                .named(rest);
        }
        None
    }

    /// A template argument: a value's number if it has one, else its text as a type.
    pub(super) fn closed_argument(&self, text: &str) -> String {
        match evaluate(text, self) {
            Some(value) => value.to_string(),
            None => self.closed(text),
        }
    }

    /// A member type of what was found, and so on.
    fn then(&self, found: Meaning<'a>, rest: &[Segment]) -> Option<Meaning<'a>> {
        let Some(((name, arguments), further)) = rest.split_first() else {
            return Some(found);
        };
        if let Meaning::Primitive { storage } = found {
            return (name == "TempStorage").then_some(Meaning::Sized(storage));
        }
        let Meaning::Class(class) = found else {
            return None;
        };
        let closed: Option<Vec<String>> = arguments
            .as_ref()
            .map(|all| all.iter().map(|a| self.closed_argument(a)).collect());
        let inner = self.member_type(&class, name, closed.as_deref(), 0)?;
        self.elsewhere(self.model, self.at, self.bindings)?
            .then(inner, further)
    }

    fn member_type(
        &self,
        class: &ClassRef<'a>,
        name: &str,
        arguments: Option<&[String]>,
        depth: usize,
    ) -> Option<Meaning<'a>> {
        let range = &class.model.classes.get(class.index)?.range;
        let m = class.model;
        let inside = |at: usize| m.class_at(at) == Some(class.index);
        let alias = m
            .index()
            .aliases
            .get(name)
            .filter_map(|i| m.aliases.get(i))
            .find(|a| a.name == name && inside(a.at));
        if let Some(a) = alias {
            let mut bindings = class.bindings.clone();
            if let (Some(list), Some(arguments)) = (&a.template, arguments) {
                let params = template_params(m.text.get(list.clone())?);
                bindings.extend(self.bound(&params, arguments, m, a.at, &class.bindings));
            }
            let view = self.elsewhere(m, a.at, &bindings)?;
            return view.meaning(&a.ty);
        }
        let nested = m.index().classes.get(name).find(|i| {
            m.classes.get(*i).is_some_and(|c| {
                c.plain_name() == name && range.start < c.range.start && c.range.end < range.end
            })
        });
        if let Some(index) = nested {
            let mut bindings = class.bindings.clone();
            if let Some(arguments) = arguments {
                let params = &m.class_body(index)?.template_params;
                bindings.extend(self.bound(params, arguments, m, range.start, &class.bindings));
            }
            return Some(Meaning::Class(ClassRef {
                model: m,
                index,
                bindings,
            }));
        }
        if depth > 8 {
            return None;
        }
        self.bases(class)
            .iter()
            .find_map(|base| self.member_type(base, name, arguments, depth + 1))
    }

    fn bases(&self, class: &ClassRef<'a>) -> Vec<ClassRef<'a>> {
        let Some(body) = class.model.class_body(class.index) else {
            return Vec::new();
        };
        let at = class
            .model
            .classes
            .get(class.index)
            .map_or(0, |c| c.range.start);
        body.bases
            .iter()
            .filter_map(|base| {
                let view = self.elsewhere(class.model, at, &class.bindings)?;
                match view.meaning(base)? {
                    Meaning::Class(c) => Some(c),
                    _ => None,
                }
            })
            .collect()
    }

    fn alias(
        &self,
        m: &'a Model,
        at: usize,
        name: &str,
        arguments: Option<&[String]>,
    ) -> Option<Meaning<'a>> {
        let a = m
            .index()
            .aliases
            .get(name)
            .filter_map(|i| m.aliases.get(i))
            .filter(|a| a.name == name && (a.scope.contains(&at) || a.scope.len() == m.text.len()))
            // A class's own alias is seen from inside only.
            .filter(|a| {
                m.class_at(a.at)
                    .and_then(|c| m.classes.get(c))
                    .is_none_or(|c| c.range.contains(&at))
            })
            .min_by_key(|a| (a.scope.len(), usize::MAX - a.at))?;
        if a.ty == name {
            return None;
        }
        let same = std::ptr::eq(m, self.model)
            && (m.function_at(a.at) == m.function_at(self.at) || m.class_at(a.at).is_some());
        let mut bindings = if same {
            self.bindings.to_vec()
        } else {
            Vec::new()
        };
        if let Some(list) = &a.template {
            let params = template_params(m.text.get(list.clone())?);
            bindings.extend(self.bound(&params, arguments?, m, a.at, &[]));
        }
        let view = self.elsewhere(m, a.at, &bindings)?;
        view.meaning(&a.ty)
    }

    /// The class called `name` in `m` with these arguments: the specialization that fits, or the primary template.
    fn class(
        &self,
        m: &'a Model,
        at: usize,
        name: &str,
        arguments: Option<&[String]>,
    ) -> Option<ClassRef<'a>> {
        let mut primary = None;
        let mut partial = None;
        for index in m.index().classes.get(name) {
            let class = m.classes.get(index)?;
            // A class within a class is seen from inside only.
            let hidden = m.classes.iter().any(|c| {
                c.range.start < class.range.start
                    && class.range.end <= c.range.end
                    && !c.range.contains(&at)
            });
            if class.plain_name() != name || hidden {
                continue;
            }
            let body = m.class_body(index)?;
            match (&body.arguments, arguments) {
                (None, _) => {
                    // A class of that name around this place comes before others.
                    let closer = class.range.contains(&at);
                    if primary.is_none() || closer {
                        primary = Some(index);
                    }
                }
                (Some(_), None) => {
                    // Inside a specialization its name means itself.
                    if class.range.contains(&at) {
                        primary = Some(index);
                    }
                }
                (Some(pattern), Some(actual)) => {
                    if pattern.len() != actual.len() {
                        continue;
                    }
                    let mut bindings = Vec::new();
                    let view = self.elsewhere(m, class.range.start, &[])?;
                    let fits = pattern
                        .iter()
                        .zip(actual)
                        .all(|(p, a)| view.fits(p, a, &body.template_params, &mut bindings, 0));
                    if fits {
                        let found = ClassRef {
                            model: m,
                            index,
                            bindings,
                        };
                        if body.template_params.is_empty() {
                            return Some(found);
                        }
                        partial = Some(found);
                    }
                }
            }
        }
        if partial.is_some() {
            return partial;
        }
        let index = primary?;
        let class = m.classes.get(index)?;
        let params = &m.class_body(index)?.template_params;
        let bindings = match arguments {
            Some(arguments) => {
                // Defaults may decide for a specialization: `Traits<float>` with `template <class T, int N = sizeof(T)>`.
                let bound = self.bound(params, arguments, m, class.range.start, &[]);
                if arguments.len() < params.len() && bound.len() == params.len() {
                    let full: Vec<String> = bound.iter().map(|(_, b)| b.to_string()).collect();
                    let view = self.elsewhere(m, at, self.bindings)?;
                    return view.class(m, at, name, Some(&full));
                }
                bound
            }
            // The injected name: the parameters are those around.
            None if class.range.contains(&at) => self.bindings.to_vec(),
            None if !params.is_empty() => self.bound(params, &[], m, class.range.start, &[]),
            None => Vec::new(),
        };
        Some(ClassRef {
            model: m,
            index,
            bindings,
        })
    }

    /// Whether a specialization's argument fits the actual one; what its parameters are then.
    fn fits(
        &self,
        pattern: &str,
        actual: &str,
        params: &[TemplateParam],
        bound: &mut Vec<(String, Binding)>,
        depth: usize,
    ) -> bool {
        if depth > 8 {
            return false;
        }
        let pattern = pattern.trim();
        if let Some(p) = params.iter().find(|p| p.name == pattern) {
            let binding = if p.is_type {
                Binding::Type(actual.to_owned())
            } else {
                match evaluate(actual, self) {
                    Some(v) => Binding::Value(v),
                    None => return false,
                }
            };
            if let Some((_, old)) = bound.iter().find(|(n, _)| *n == p.name) {
                return *old == binding;
            }
            bound.push((p.name.clone(), binding));
            return true;
        }
        for mark in ['*', '&'] {
            if let (Some(p), Some(a)) = (pattern.strip_suffix(mark), actual.strip_suffix(mark)) {
                return self.fits(p, a.trim_end(), params, bound, depth + 1);
            }
        }
        if let (Some(p), Some(a)) = (segments(pattern), segments(actual))
            && let (Some((pn, Some(pa))), Some((an, Some(aa)))) = (p.last(), a.last())
            && pn == an
            && pa.len() == aa.len()
        {
            return pa
                .iter()
                .zip(aa)
                .all(|(p, a)| self.fits(p, a, params, bound, depth + 1));
        }
        if let (Some(p), Some(a)) = (evaluate(pattern, self), evaluate(actual, self)) {
            return p == a;
        }
        self.same_type(pattern, actual)
    }

    pub(super) fn same_type(&self, a: &str, b: &str) -> bool {
        let (a, b) = (canonical(&self.closed(a)), canonical(&self.closed(b)));
        if a == b {
            return true;
        }
        let class = |ty: &str| match self.meaning(ty) {
            Some(Meaning::Class(c)) => Some((
                std::ptr::from_ref(c.model) as usize,
                c.index,
                format!("{:?}", c.bindings),
            )),
            _ => None,
        };
        let plain = |ty: &str| match self.meaning(ty) {
            Some(Meaning::Plain(text)) => Some(canonical(&text)),
            _ => None,
        };
        match (plain(&a), plain(&b)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => class(&a).is_some_and(|x| Some(x) == class(&b)),
            _ => false,
        }
    }

    /// Bind template parameters to closed arguments; defaults are seen from `at` in `m`.
    pub(super) fn bound(
        &self,
        params: &[TemplateParam],
        arguments: &[String],
        m: &'a Model,
        at: usize,
        outer: &[(String, Binding)],
    ) -> Vec<(String, Binding)> {
        let mut out: Vec<(String, Binding)> = Vec::new();
        for (i, p) in params.iter().enumerate() {
            if p.name.is_empty() {
                continue;
            }
            let mut around = outer.to_vec();
            around.extend(out.iter().cloned());
            let (text, view) = match (arguments.get(i), &p.default) {
                (Some(a), _) => (a, self.elsewhere(self.root, usize::MAX, &[])),
                (None, Some(d)) => (d, self.elsewhere(m, at, &around)),
                (None, None) => continue,
            };
            let Some(view) = view else { continue };
            let binding = if p.is_type {
                Some(Binding::Type(view.closed(text)))
            } else {
                evaluate(text, &view)
                    .or_else(|| super::names::demangled_value(text))
                    .map(Binding::Value)
            };
            out.extend(binding.map(|b| (p.name.clone(), b)));
        }
        out
    }

    /// Types of the standard library and of HIP that are templates.
    fn library(&self, path: &[Segment]) -> Option<Meaning<'a>> {
        let ((name, arguments), rest) = path.split_first()?;
        let view = self.elsewhere(self.model, self.at, self.bindings)?;
        let arguments = match arguments {
            Some(all) => all.as_slice(),
            None if rest.is_empty() && types::layout_of(name).is_some() => {
                return Some(Meaning::Plain(name.clone()));
            }
            None => return view.named(rest),
        };
        let member = rest.first().map_or("", |(n, _)| n.as_str());
        let typed = name.ends_with("_t") || member == "type";
        let base = name.strip_suffix("_t").unwrap_or(name);
        match (base, arguments) {
            ("conditional", [c, a, b]) if typed => {
                let chosen = if evaluate(c, &view)? != 0 { a } else { b };
                view.meaning(chosen)
            }
            (
                "remove_cv" | "remove_const" | "remove_volatile" | "remove_reference" | "decay"
                | "remove_cvref" | "type_identity" | "enable_if",
                all,
            ) if typed => {
                let ty = if base == "enable_if" {
                    all.get(1)
                } else {
                    all.first()
                }?;
                view.meaning(ty.trim_end_matches(['&', ' ']))
            }
            ("make_unsigned" | "make_signed" | "underlying_type", [a]) if typed => view.meaning(a),
            ("array", [ty, n]) => {
                let n = u64::try_from(evaluate(n, &view)?).ok()?;
                view.layout(ty)?.times(n).map(Meaning::Sized)
            }
            // Thrust aligns it as a whole, the standard library as its parts: as an array it has the same size.
            ("complex", [ty]) => view.layout(ty)?.times(2).map(Meaning::Sized),
            ("pair" | "KeyValuePair", [a, b]) => {
                let mut whole = Laying::default();
                whole.place(view.layout(a)?, 1)?;
                whole.place(view.layout(b)?, 1)?;
                let align = whole.align.max(1);
                let size = whole.size.checked_next_multiple_of(align)?;
                Some(Meaning::Sized(Layout { size, align }))
            }
            // One value for each wavefront, none where a workgroup is one wavefront. Other algorithms are not known.
            ("BlockReduce", [ty, threads, rest_of @ ..]) => {
                if rest_of
                    .first()
                    .is_some_and(|a| !a.ends_with("BLOCK_REDUCE_WARP_REDUCTIONS"))
                {
                    return None;
                }
                let mut all = evaluate(threads, &view)?;
                for more in rest_of.iter().skip(1) {
                    all = all.checked_mul(evaluate(more, &view)?)?;
                }
                let waves = u64::try_from(all)
                    .ok()?
                    .div_ceil(u64::from(self.root.target.wave_size.max(1)));
                let one = view.layout(ty)?;
                let storage = one.times(if waves > 1 { waves } else { 0 })?;
                view.then(Meaning::Primitive { storage }, rest)
            }
            ("HIP_vector_type", [ty, n]) => {
                let n = evaluate(n, &view)?;
                let ty = canonical(&view.closed(ty));
                let short = match ty.as_str() {
                    "unsigned char" => "uchar",
                    "signed char" => "char",
                    "unsigned short" => "ushort",
                    "unsigned int" => "uint",
                    "unsigned long" => "ulong",
                    "unsigned long long" => "ulonglong",
                    "long long" => "longlong",
                    other => other,
                };
                Some(Meaning::Plain(format!("{short}{n}")))
            }
            _ => None,
        }
    }

    /// Size and alignment of a type as written here.
    pub(super) fn layout(&self, ty: &str) -> Option<Layout> {
        match self.meaning(ty)? {
            Meaning::Plain(text) => {
                if let Some(open) = array_open(&text) {
                    let one = self
                        .elsewhere(self.model, self.at, self.bindings)?
                        .layout(text.get(..open)?)?;
                    let mut size = one.size;
                    let mut rest = text.get(open..)?.trim();
                    while let Some(inner) = rest.strip_prefix('[') {
                        let close = inner.find(']')?;
                        let n = evaluate(inner.get(..close)?, self)?;
                        size = size.checked_mul(u64::try_from(n).ok()?)?;
                        rest = inner.get(close + 1..)?.trim();
                    }
                    return Some(Layout { size, ..one });
                }
                types::layout_of(&text)
            }
            Meaning::Class(class) => self.class_layout(&class),
            Meaning::Sized(layout) => Some(layout),
            Meaning::Primitive { .. } => None,
        }
    }

    fn class_layout(&self, class: &ClassRef<'a>) -> Option<Layout> {
        let body = class.model.class_body(class.index)?;
        let at = class.model.classes.get(class.index)?.range.end;
        let view = self.elsewhere(class.model, at.saturating_sub(1), &class.bindings)?;
        view.body_layout(body).map(|(layout, _)| layout)
    }

    /// The layout, and whether the class has no data.
    fn body_layout(&self, body: &ClassBody) -> Option<(Layout, bool)> {
        let mut whole = Laying {
            is_union: body.is_union,
            align: 1,
            ..Laying::default()
        };
        let mut empty = true;
        if body.is_dynamic {
            whole.place(Layout { size: 8, align: 8 }, 1)?;
            empty = false;
        }
        for base in &body.bases {
            let Meaning::Class(class) = self.meaning(base.trim_start_matches("virtual "))? else {
                return None;
            };
            let inner = class.model.class_body(class.index)?;
            let at = class.model.classes.get(class.index)?.range.end;
            let view = self.elsewhere(class.model, at.saturating_sub(1), &class.bindings)?;
            let (layout, is_empty) = view.body_layout(inner)?;
            if !is_empty {
                whole.place(layout, 1)?;
                empty = false;
            }
        }
        for field in body.fields.as_ref()? {
            let mut one = match &field.ty {
                FieldType::Named(ty) => self.layout(ty)?,
                FieldType::Inner(range) => {
                    let inner = self.model.read_class(range.clone());
                    let view = self.elsewhere(self.model, self.at, self.bindings)?;
                    view.body_layout(&inner)?.0
                }
            };
            empty = false;
            if body.is_packed {
                one.align = 1;
            }
            if let Some(wanted) = &field.align {
                one.align = one.align.max(u64::try_from(evaluate(wanted, self)?).ok()?);
            }
            if let Some(width) = &field.bits {
                let width = u64::try_from(evaluate(width, self)?).ok()?;
                whole.place_bits(one, width)?;
                continue;
            }
            let mut count = 1u64;
            for dim in &field.dims {
                count = count.checked_mul(u64::try_from(evaluate(dim, self)?).ok()?)?;
            }
            whole.place(one, count)?;
        }
        for wanted in &body.aligns {
            let n = match evaluate(wanted, self) {
                Some(n) => u64::try_from(n).ok()?,
                None => self.layout(wanted)?.align,
            };
            whole.align = whole.align.max(n);
        }
        let size = whole
            .size
            .max(1)
            .checked_next_multiple_of(whole.align.max(1))?;
        let align = whole.align;
        Some((Layout { size, align }, empty))
    }

    /// The value of a class's constant, its enumerators and bases included.
    pub(super) fn member_value(
        &self,
        class: &ClassRef<'a>,
        name: &str,
        depth: usize,
    ) -> Option<i64> {
        let m = class.model;
        let body = m.class_body(class.index)?;
        if let Some((_, range)) = body.constants.iter().find(|(n, _)| n == name) {
            let view = self.elsewhere(m, range.start, &class.bindings)?;
            let text = m.text.get(range.clone())?;
            return evaluate(super::names::strip_braces(text), &view);
        }
        let own = &m.classes.get(class.index)?.range;
        let enumerator = m.index().enumerators.get(name).find(|i| {
            m.enumerators
                .get(*i)
                .is_some_and(|e| e.name == name && own.contains(&e.at))
        });
        if let Some(at) = enumerator {
            return self.enumerator(m, at, &class.bindings);
        }
        if depth > 8 {
            return None;
        }
        self.bases(class)
            .iter()
            .find_map(|base| self.member_value(base, name, depth + 1))
    }

    /// The classes around this place, innermost first, with the template parameters bound here.
    pub(super) fn classes_around(&self) -> Vec<ClassRef<'a>> {
        if self.at == usize::MAX {
            return Vec::new();
        }
        let mut all: Vec<(usize, usize)> = self
            .model
            .classes
            .iter()
            .enumerate()
            .filter(|(_, c)| c.range.contains(&self.at))
            .map(|(i, c)| (c.range.len(), i))
            .collect();
        all.sort_unstable();
        all.into_iter()
            .map(|(_, index)| ClassRef {
                model: self.model,
                index,
                bindings: self.bindings.to_vec(),
            })
            .collect()
    }
}

/// A class while its members are laid out.
#[derive(Default)]
struct Laying {
    is_union: bool,
    align: u64,
    /// Bits used so far.
    bits: u64,
    /// Bytes used at most.
    size: u64,
}

impl Laying {
    fn place(&mut self, one: Layout, count: u64) -> Option<()> {
        let bytes = one.size.checked_mul(count)?;
        self.align = self.align.max(one.align);
        if self.is_union {
            self.size = self.size.max(bytes);
        } else {
            let at = self
                .bits
                .div_ceil(8)
                .checked_next_multiple_of(one.align.max(1))?;
            self.bits = at.checked_add(bytes)?.checked_mul(8)?;
            self.size = self.size.max(self.bits / 8);
        }
        Some(())
    }

    /// A bit field does not cross a unit of its type.
    fn place_bits(&mut self, one: Layout, width: u64) -> Option<()> {
        let unit = one.size.checked_mul(8).filter(|u| *u > 0)?;
        self.align = self.align.max(one.align);
        if self.is_union {
            self.size = self.size.max(width.div_ceil(8));
            return Some(());
        }
        if width == 0 || (self.bits % unit).checked_add(width)? > unit {
            self.bits = self.bits.checked_next_multiple_of(unit)?;
        }
        self.bits = self.bits.checked_add(width)?;
        self.size = self.size.max(self.bits.div_ceil(8));
        Some(())
    }
}

/// Where the `[` of an array type starts.
fn array_open(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    text.char_indices().find_map(|(i, c)| {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            '[' if depth == 0 => return Some(i),
            _ => {}
        }
        None
    })
}
