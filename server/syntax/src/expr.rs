//! Values of C++ integer constant expressions, from text.
//!
//! Works on tokens with macros expanded, since what matters is often in places that the grammar does not
//! parse: macro bodies, `#if` lines, launch configurations. An expression that is not understood, or that
//! needs an unknown name, has no value.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::lex::{TokenKind, tokens};

/// A macro as defined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Macro {
    /// Parameter names of a function-like macro.
    pub parameters: Option<Vec<String>>,
    /// The replacement text, trimmed.
    pub body: String,
    /// Where the whole `#define` stands; empty at 0 for a predefined macro.
    pub range: std::ops::Range<usize>,
}

/// What an expression may ask of its surroundings.
pub(crate) trait Names {
    fn find_macro(&self, name: &str) -> Option<Cow<'_, Macro>>;
    /// Value of a variable, enumerator or template parameter; `name` may be qualified.
    fn value(&self, name: &str) -> Option<i64>;
    /// Size of a type in bytes.
    fn size_of(&self, ty: &str) -> Option<u64>;
    /// Alignment of a type in bytes.
    fn align_of(&self, _ty: &str) -> Option<u64> {
        None
    }
    /// Whether a name (not a built-in type's) is a type.
    fn is_type(&self, name: &str) -> bool;
    /// A call of a constexpr function.
    fn call(&self, name: &str, arguments: &[i64]) -> Option<i64>;
    /// Whether `defined(name)`; `None` if it cannot be known. Asked in `#if` lines only.
    fn defined(&self, _name: &str) -> Option<bool> {
        None
    }
    /// Value of a name that nobody defined: 0 in `#if` lines.
    fn undefined(&self, _name: &str) -> Option<i64> {
        None
    }
}

#[derive(Clone, Debug)]
struct Tok {
    kind: TokenKind,
    text: String,
}

const MAX_TOKENS: usize = 4096;
const MAX_DEPTH: usize = 60;

fn lex(text: &str) -> Vec<Tok> {
    tokens(text)
        .into_iter()
        .take(MAX_TOKENS)
        .map(|t| Tok {
            kind: t.kind,
            text: t.text(text).to_owned(),
        })
        .collect()
}

/// Replace macros, as often as the standard would (a macro is not replaced within its own replacement).
fn expand(
    input: Vec<Tok>,
    names: &dyn Names,
    hidden: &mut HashSet<String>,
    depth: usize,
) -> Option<Vec<Tok>> {
    if depth > 24 {
        return None;
    }
    let mut out = Vec::with_capacity(input.len());
    let mut i = 0;
    while i < input.len() {
        if out.len() > MAX_TOKENS {
            return None;
        }
        let tok = &input[i];
        let is_name = tok.kind == TokenKind::Ident;
        if is_name && tok.text == "defined" {
            // The operand of `defined` is not expanded.
            let operand = if input.get(i + 1).is_some_and(|t| t.text == "(") {
                4
            } else {
                2
            };
            out.extend(input[i..(i + operand).min(input.len())].iter().cloned());
            i += operand;
            continue;
        }
        let found = if is_name && !hidden.contains(&tok.text) {
            names.find_macro(&tok.text)
        } else {
            None
        };
        let Some(mac) = found else {
            out.push(tok.clone());
            i += 1;
            continue;
        };
        let mut next = i + 1;
        let body = match &mac.parameters {
            None => lex(&mac.body),
            Some(parameters) => {
                if input.get(i + 1).is_none_or(|t| t.text != "(") {
                    out.push(tok.clone());
                    i += 1;
                    continue;
                }
                let (arguments, after) = call_arguments(&input, i + 1)?;
                next = after;
                substitute(&lex(&mac.body), parameters, &arguments)?
            }
        };
        let name = tok.text.clone();
        let fresh = hidden.insert(name.clone());
        let expanded = expand(body, names, hidden, depth + 1);
        if fresh {
            hidden.remove(&name);
        }
        out.extend(expanded?);
        i = next;
    }
    Some(out)
}

/// Arguments of the call whose `(` is token `open`, and the token after its `)`.
fn call_arguments(input: &[Tok], open: usize) -> Option<(Vec<Vec<Tok>>, usize)> {
    let mut depth = 0usize;
    let mut arguments = vec![Vec::new()];
    for (i, t) in input.iter().enumerate().skip(open) {
        match t.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            "," if depth == 1 => {
                arguments.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Some((arguments, i + 1));
        }
        if i > open {
            arguments.last_mut()?.push(t.clone());
        }
    }
    None
}

fn substitute(body: &[Tok], parameters: &[String], arguments: &[Vec<Tok>]) -> Option<Vec<Tok>> {
    if body
        .iter()
        .any(|t| t.text == "##" || t.text == "#" || t.text == "__VA_ARGS__")
        || (parameters.len() != arguments.len() && !(parameters.is_empty() && arguments.len() == 1))
    {
        return None;
    }
    let mut out = Vec::new();
    for t in body {
        match parameters.iter().position(|p| *p == t.text) {
            Some(at) if t.kind == TokenKind::Ident => {
                out.extend(arguments.get(at)?.iter().cloned())
            }
            _ => out.push(t.clone()),
        }
        if out.len() > MAX_TOKENS {
            return None;
        }
    }
    Some(out)
}

/// The words of `text` with macros replaced.
pub(crate) fn expanded(text: &str, names: &dyn Names) -> Option<Vec<String>> {
    let toks = expand(lex(text), names, &mut HashSet::new(), 0)?;
    Some(toks.into_iter().map(|t| t.text).collect())
}

/// The value of `text`, if it is an integer constant expression whose names are all known.
pub(crate) fn evaluate(text: &str, names: &dyn Names) -> Option<i64> {
    // The commonest expression by far needs no machinery.
    let trimmed = text.trim();
    if !trimmed.is_empty()
        && trimmed.len() < 10
        && trimmed.bytes().all(|b| b.is_ascii_digit())
        && !trimmed.starts_with('0')
    {
        return trimmed.parse().ok();
    }
    let toks = expand(lex(text), names, &mut HashSet::new(), 0)?;
    let mut p = Parser {
        toks: &toks,
        at: 0,
        depth: 0,
        names,
    };
    let value = p.ternary().ok()?;
    (p.at == toks.len()).then_some(value).flatten()
}

/// Not understood; an unknown value is `Ok(None)`.
struct Confused;
type Parsed = Result<Option<i64>, Confused>;

struct Parser<'a> {
    toks: &'a [Tok],
    at: usize,
    depth: usize,
    names: &'a dyn Names,
}

impl Parser<'_> {
    fn peek(&self) -> &str {
        self.peek_at(0)
    }
    fn peek_at(&self, n: usize) -> &str {
        self.toks.get(self.at + n).map_or("", |t| t.text.as_str())
    }
    fn eat(&mut self, text: &str) -> bool {
        let yes = self.peek() == text;
        if yes {
            self.at += 1;
        }
        yes
    }
    fn expect(&mut self, text: &str) -> Result<(), Confused> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(Confused)
        }
    }

    fn ternary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Confused);
        }
        let condition = self.binary(0)?;
        let value = if self.eat("?") {
            let yes = self.ternary()?;
            self.expect(":")?;
            let no = self.ternary()?;
            match condition {
                Some(c) => {
                    if c != 0 {
                        yes
                    } else {
                        no
                    }
                }
                None if yes.is_some() && yes == no => yes,
                None => None,
            }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// The binary operator here: its name, how many tokens, how tightly it binds.
    fn operator(&self) -> Option<(&'static str, usize, u8)> {
        Some(match self.peek() {
            "||" => ("||", 1, 1),
            "&&" => ("&&", 1, 2),
            "|" => ("|", 1, 3),
            "^" => ("^", 1, 4),
            "&" => ("&", 1, 5),
            "==" => ("==", 1, 6),
            "!=" => ("!=", 1, 6),
            "<" => ("<", 1, 7),
            "<=" => ("<=", 1, 7),
            ">" if self.peek_at(1) == ">" => (">>", 2, 8),
            ">" => (">", 1, 7),
            ">=" => (">=", 1, 7),
            "<<" => ("<<", 1, 8),
            "+" => ("+", 1, 9),
            "-" => ("-", 1, 9),
            "*" => ("*", 1, 10),
            "/" => ("/", 1, 10),
            "%" => ("%", 1, 10),
            _ => return None,
        })
    }

    fn binary(&mut self, min: u8) -> Parsed {
        let mut left = self.unary()?;
        while let Some((op, tokens, binds)) = self.operator() {
            if binds <= min {
                break;
            }
            self.at += tokens;
            let right = self.binary(binds)?;
            left = apply(op, left, right);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Confused);
        }
        let value = match self.peek() {
            "+" => {
                self.at += 1;
                self.unary()
            }
            "-" => {
                self.at += 1;
                self.unary().map(|v| v.map(i64::wrapping_neg))
            }
            "!" => {
                self.at += 1;
                self.unary().map(|v| v.map(|v| i64::from(v == 0)))
            }
            "~" => {
                self.at += 1;
                self.unary().map(|v| v.map(|v| !v))
            }
            _ => self.primary(),
        };
        self.depth -= 1;
        value
    }

    fn primary(&mut self) -> Parsed {
        let Some(tok) = self.toks.get(self.at) else {
            return Err(Confused);
        };
        match tok.kind {
            TokenKind::Number => {
                self.at += 1;
                Ok(parse_number(&tok.text))
            }
            TokenKind::Char => {
                self.at += 1;
                Ok(parse_char(&tok.text))
            }
            TokenKind::Str => Err(Confused),
            TokenKind::Punct => {
                if tok.text == "::" {
                    return self.name();
                }
                self.expect("(")?;
                if let Some(ty) = self.type_until(")") {
                    self.at += 1;
                    let value = self.unary()?;
                    return Ok(cast(&ty, value, self.names));
                }
                let value = self.ternary()?;
                self.expect(")")?;
                Ok(value)
            }
            TokenKind::Ident => self.word(),
        }
    }

    fn word(&mut self) -> Parsed {
        match self.peek() {
            "true" => {
                self.at += 1;
                Ok(Some(1))
            }
            "false" | "nullptr" => {
                self.at += 1;
                Ok(Some(0))
            }
            word @ ("sizeof" | "alignof") => {
                let of_type = word == "sizeof";
                self.at += 1;
                if self.eat("...") {
                    return Err(Confused);
                }
                self.expect("(")?;
                let start = self.at;
                self.skip_to_close()?;
                let operand: Vec<&str> = self
                    .toks
                    .get(start..self.at.saturating_sub(1))
                    .unwrap_or_default()
                    .iter()
                    .map(|t| t.text.as_str())
                    .collect();
                let operand = operand.join(" ");
                let size = if of_type {
                    self.names.size_of(&operand)
                } else {
                    self.names.align_of(&operand)
                };
                Ok(size.and_then(|n| i64::try_from(n).ok()))
            }
            "defined" => {
                self.at += 1;
                let bracket = self.eat("(");
                let name = self.peek().to_owned();
                self.at += 1;
                if bracket {
                    self.expect(")")?;
                }
                Ok(self.names.defined(&name).map(i64::from))
            }
            "static_cast" | "reinterpret_cast" | "const_cast" => {
                self.at += 1;
                self.expect("<")?;
                let ty = self.type_until(">").ok_or(Confused)?;
                self.at += 1;
                self.expect("(")?;
                let value = self.ternary()?;
                self.expect(")")?;
                Ok(cast(&ty, value, self.names))
            }
            _ => {
                let start = self.at;
                for close in ["(", "{"] {
                    // `S::f(4)` calls a function unless `S::f` is a type.
                    if let Some(ty) = self
                        .type_until(close)
                        .filter(|ty| !ty.contains("::") || self.names.size_of(ty).is_some())
                    {
                        self.at += 1;
                        if self.eat(")") || self.eat("}") {
                            return Ok(Some(0));
                        }
                        let value = self.ternary()?;
                        self.expect(if close == "(" { ")" } else { "}" })?;
                        return Ok(cast(&ty, value, self.names));
                    }
                    self.at = start;
                }
                self.name()
            }
        }
    }

    /// A possibly qualified name, or a call.
    fn name(&mut self) -> Parsed {
        let mut name = String::new();
        self.eat("::");
        loop {
            let Some(tok) = self
                .toks
                .get(self.at)
                .filter(|t| t.kind == TokenKind::Ident)
            else {
                return Err(Confused);
            };
            name.push_str(&tok.text);
            self.at += 1;
            // `Traits<T>::N`, `f<4>(n)`: the arguments are part of the name.
            if self.peek() == "<"
                && let Some(close) = self.template_close(&name)
            {
                for t in self.toks.get(self.at..=close).unwrap_or_default() {
                    if !name.ends_with(|c: char| !c.is_alphanumeric() && c != '_') {
                        name.push(' ');
                    }
                    name.push_str(&t.text);
                }
                self.at = close + 1;
            }
            if self.eat("::") {
                name.push_str("::");
            } else {
                break;
            }
        }
        // `std::is_same<A, B>{}` and `std::is_same<A, B>()` are their value.
        if name.ends_with('>')
            && matches!((self.peek(), self.peek_at(1)), ("{", "}") | ("(", ")"))
            && let Some(value) = self.names.value(&format!("{name}::value"))
        {
            self.at += 2;
            return Ok(Some(value));
        }
        if self.eat("(") {
            let mut arguments = Vec::new();
            if !self.eat(")") {
                loop {
                    arguments.push(self.ternary()?);
                    if self.eat(")") {
                        break;
                    }
                    self.expect(",")?;
                }
            }
            let Some(arguments) = arguments.into_iter().collect::<Option<Vec<i64>>>() else {
                return Ok(None);
            };
            return Ok(self
                .names
                .call(&name, &arguments)
                .or_else(|| known_call(&name, &arguments)));
        }
        // A component of a `dim3` is a name of its own.
        if self.peek() == "." && matches!(self.peek_at(1), "x" | "y" | "z") {
            name.push('.');
            name.push_str(self.peek_at(1));
            self.at += 2;
        }
        if matches!(self.peek(), "." | "->" | "[" | "++" | "--") {
            return Err(Confused);
        }
        Ok(self
            .names
            .value(&name)
            .or_else(|| self.names.undefined(&name)))
    }

    /// The `>` that closes the template arguments which start here, if they do: what follows decides.
    fn template_close(&self, name: &str) -> Option<usize> {
        let (mut angle, mut round) = (0usize, 0usize);
        for (i, t) in self.toks.iter().enumerate().skip(self.at).take(256) {
            match t.text.as_str() {
                "<" if round == 0 => angle += 1,
                ">" if round == 0 => {
                    angle -= 1;
                    if angle == 0 {
                        let next = self.toks.get(i + 1).map_or("", |t| t.text.as_str());
                        let value = name.ends_with("_v");
                        return (value || matches!(next, "(" | "::" | "{")).then_some(i);
                    }
                }
                "(" => round += 1,
                ")" => round = round.checked_sub(1)?,
                ";" | "?" => return None,
                "&&" | "||" if round == 0 => return None,
                _ => {}
            }
        }
        None
    }

    fn skip_to_close(&mut self) -> Result<(), Confused> {
        let mut depth = 1usize;
        while let Some(t) = self.toks.get(self.at) {
            self.at += 1;
            match t.text.as_str() {
                "(" => depth += 1,
                ")" => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(Confused)
    }

    /// If a type stands here and `close` right after it, its text; then `close` is the next token. Moves only then.
    fn type_until(&mut self, close: &str) -> Option<String> {
        let mut i = self.at;
        let mut words: Vec<&str> = Vec::new();
        let mut known = false;
        while let Some(t) = self.toks.get(i) {
            let text = t.text.as_str();
            if text == close && (close != ">" || !words.is_empty()) {
                break;
            }
            match t.kind {
                TokenKind::Ident if is_type_word(text) => known = true,
                TokenKind::Ident if QUALIFIERS.contains(&text) => {}
                TokenKind::Ident => known |= self.names.is_type(text),
                TokenKind::Punct if matches!(text, "*" | "&" | "::") && !words.is_empty() => {}
                _ => return None,
            }
            words.push(text);
            i += 1;
        }
        // `(a * b)` is no cast: the first word that is no qualifier must be a type.
        let first = words
            .iter()
            .find(|w| !QUALIFIERS.contains(w) && **w != "std" && **w != "::")?;
        if !known
            || i >= self.toks.len()
            || !(is_type_word(first) || self.names.is_type(first))
            || words
                .windows(2)
                .any(|w| matches!(w[0], "*" | "&") && !matches!(w[1], "*" | "&" | "const"))
        {
            return None;
        }
        let joined = words.join(" ").replace(" :: ", "::");
        self.at = i;
        Some(joined)
    }
}

const QUALIFIERS: [&str; 6] = ["const", "volatile", "struct", "typename", "class", "enum"];

fn is_type_word(word: &str) -> bool {
    crate::types::builtin_size(word).is_some()
        || matches!(word, "unsigned" | "signed" | "long" | "short" | "void")
}

fn apply(op: &str, a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (op, a, b) {
        ("&&", Some(0), _) | ("&&", _, Some(0)) => return Some(0),
        ("||", Some(x), _) | ("||", _, Some(x)) if x != 0 => return Some(1),
        _ => {}
    }
    let (a, b) = (a?, b?);
    Some(match op {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        "<=" => i64::from(a <= b),
        ">" => i64::from(a > b),
        ">=" => i64::from(a >= b),
        "<<" => a.checked_shl(u32::try_from(b).ok()?)?,
        ">>" => a.checked_shr(u32::try_from(b).ok()?)?,
        "+" => a.checked_add(b)?,
        "-" => a.checked_sub(b)?,
        "*" => a.checked_mul(b)?,
        "/" => a.checked_div(b)?,
        "%" => a.checked_rem(b)?,
        _ => return None,
    })
}

fn known_call(name: &str, arguments: &[i64]) -> Option<i64> {
    match (name, arguments) {
        ("min" | "std::min", [a, b]) => Some(*a.min(b)),
        ("max" | "std::max", [a, b]) => Some(*a.max(b)),
        ("abs" | "std::abs", [a]) => a.checked_abs(),
        _ => None,
    }
}

pub(crate) fn cast(ty: &str, value: Option<i64>, names: &dyn Names) -> Option<i64> {
    let value = value?;
    let plain = ty.replace("const", "");
    let plain = plain.trim();
    if plain.contains('*') {
        return None;
    }
    if plain == "bool" {
        return Some(i64::from(value != 0));
    }
    if matches!(plain, "float" | "double" | "half" | "_Float16") {
        return None;
    }
    let unsigned = plain.contains("unsigned")
        || plain.trim_start_matches("std::").starts_with('u')
        || plain == "size_t"
        || plain == "std::size_t";
    match names.size_of(plain)? {
        1 if unsigned => Some(i64::from(value as u8)),
        1 => Some(i64::from(value as i8)),
        2 if unsigned => Some(i64::from(value as u16)),
        2 => Some(i64::from(value as i16)),
        4 if unsigned => Some(i64::from(value as u32)),
        4 => Some(i64::from(value as i32)),
        8 => Some(value),
        _ => None,
    }
}

/// An integer literal; a floating one has no integer value.
fn parse_number(text: &str) -> Option<i64> {
    let clean: String = text.chars().filter(|c| *c != '\'').collect();
    let clean = clean.trim_end_matches(['u', 'U', 'l', 'L', 'z', 'Z']);
    let lower = clean.to_ascii_lowercase();
    let parsed = if let Some(hex) = lower.strip_prefix("0x") {
        u64::from_str_radix(hex, 16)
    } else if let Some(bits) = lower.strip_prefix("0b") {
        u64::from_str_radix(bits, 2)
    } else if lower.len() > 1 && lower.starts_with('0') {
        u64::from_str_radix(&lower[1..], 8)
    } else {
        lower.parse()
    };
    // Masks such as 0xffffffffffffffff keep their bits.
    parsed.ok().map(|v| v as i64)
}

fn parse_char(text: &str) -> Option<i64> {
    let inner = text.split_once('\'')?.1.strip_suffix('\'')?;
    let mut chars = inner.chars();
    let value = match (chars.next()?, chars.next()) {
        ('\\', Some(e)) => match e {
            'n' => 10,
            't' => 9,
            'r' => 13,
            '0' => 0,
            '\\' | '\'' | '"' => e as u32,
            _ => return None,
        },
        (c, None) => c as u32,
        _ => return None,
    };
    Some(i64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Table {
        macros: HashMap<String, Macro>,
        values: HashMap<String, i64>,
    }

    impl Names for Table {
        fn find_macro(&self, name: &str) -> Option<Cow<'_, Macro>> {
            self.macros.get(name).map(Cow::Borrowed)
        }
        fn value(&self, name: &str) -> Option<i64> {
            self.values.get(name).copied()
        }
        fn size_of(&self, ty: &str) -> Option<u64> {
            crate::types::layout_of(ty).map(|l| l.size)
        }
        fn is_type(&self, name: &str) -> bool {
            name == "T"
        }
        fn call(&self, _: &str, _: &[i64]) -> Option<i64> {
            None
        }
    }

    fn table() -> Table {
        let mut t = Table::default();
        for (name, parameters, body) in [
            ("N", None, "(2*M)"),
            ("M", None, "16"),
            ("LOOP", None, "LOOP + 1"),
            ("DIV", Some("a b"), "(((a) + (b) - 1) / (b))"),
            ("CAT", Some("a b"), "a##b"),
        ] {
            t.macros.insert(
                name.into(),
                Macro {
                    parameters: parameters.map(|p: &str| p.split(' ').map(String::from).collect()),
                    body: body.into(),
                    range: 0..0,
                },
            );
        }
        t.values.insert("BM".into(), 64);
        t.values.insert("Tile::K".into(), 8);
        t
    }

    #[test]
    fn values() {
        let t = table();
        for (text, want) in [
            ("1 + 2 * 3", Some(7)),
            ("N", Some(32)),
            ("N << 1 | 1", Some(65)),
            ("256 >> 2 > 3", Some(1)),
            ("DIV(1000, N + 1)", Some(31)),
            ("CAT(1,2)", None),
            ("LOOP", None),
            ("BM % 48 == 16 ? 0x10 : 1/0", Some(16)),
            ("1 / 0", None),
            ("sizeof(float) * BM", Some(256)),
            (
                "sizeof(float4) + sizeof(unsigned long long) + sizeof(int*)",
                Some(32),
            ),
            ("sizeof(x)", None),
            ("(int)3 * (unsigned char)300", Some(132)),
            ("static_cast<size_t>(BM) / sizeof(T)", None),
            ("unsigned(-1)", Some(4294967295)),
            ("Tile::K * std::max(2, 3)", Some(24)),
            ("(BM) - 1", Some(63)),
            ("!0 + ~0", Some(0)),
            ("'a' + 1'000", Some(1097)),
            ("x || 1", Some(1)),
            ("x && 1", None),
            ("0xffffffffffffffffull", Some(-1)),
            ("010 + 0b11", Some(11)),
            ("1.5 * 2", None),
            ("f(3)", None),
            ("", None),
            ("1 2", None),
            ("a[3]", None),
        ] {
            assert_eq!(evaluate(text, &t), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+*/%<>=!&|^~?:(){}\\[\\]0-9a-zN ,.'\"#]{0,60}") {
            let _ = evaluate(&text, &table());
        }
        #[test]
        fn agrees_with_rust_arithmetic(a in -1000i64..1000, b in 1i64..1000, c in 0i64..20) {
            let t = table();
            prop_assert_eq!(evaluate(&format!("({a}) * {b} - ({a}) / {b} % {b} + ({b} << {c})"), &t),
                Some(a * b - a / b % b + (b << c)));
        }
    }

    #[test]
    fn deep_nesting_gives_up() {
        let t = table();
        assert_eq!(evaluate(&"(".repeat(100_000), &t), None);
        assert_eq!(evaluate(&"-".repeat(100_000), &t), None);
    }
}
