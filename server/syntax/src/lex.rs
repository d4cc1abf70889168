//! A small C++ lexer: tokens with byte ranges, comments skipped. Serves the mask, the preprocessor's
//! conditions, constant evaluation and everything that must look at text which the grammar does not parse
//! (macro bodies, launch configurations).

use std::ops::Range;

/// Kind of a [`Token`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenKind {
    /// An identifier or keyword.
    Ident,
    /// A number literal.
    Number,
    /// A string literal, raw or not, with its prefix.
    Str,
    /// A character literal, with its prefix.
    Char,
    /// An operator or other punctuation, longest match (but `>` never joins with a following `>`).
    Punct,
}

/// One token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it is, in bytes of the text lexed.
    pub range: Range<usize>,
}

impl Token {
    /// The token's text.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.range.clone()).unwrap_or_default()
    }
}

pub(crate) fn is_ident_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

pub(crate) fn is_ident(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// If a comment starts at `i`, its end.
pub(crate) fn comment_end(s: &[u8], i: usize) -> Option<usize> {
    if s.get(i) != Some(&b'/') {
        return None;
    }
    match s.get(i + 1) {
        Some(b'/') => {
            let mut j = i + 2;
            while j < s.len() {
                match s[j] {
                    b'\n' => return Some(j),
                    b'\\' => j = skip_escape(s, j),
                    _ => j += 1,
                }
            }
            Some(s.len())
        }
        Some(b'*') => Some(
            s[i + 2..]
                .windows(2)
                .position(|w| w == b"*/")
                .map_or(s.len(), |p| i + 2 + p + 2),
        ),
        _ => None,
    }
}

/// Past a backslash at `j` and what it escapes; a carriage return and line feed count as one character.
fn skip_escape(s: &[u8], j: usize) -> usize {
    if s.get(j + 1) == Some(&b'\r') && s.get(j + 2) == Some(&b'\n') {
        j + 3
    } else {
        (j + 2).min(s.len())
    }
}

/// If a string or character literal (without prefix) starts at `i`, its end. An unterminated one ends with its line.
fn quoted_end(s: &[u8], i: usize) -> Option<usize> {
    let quote = *s.get(i)?;
    if quote != b'"' && quote != b'\'' {
        return None;
    }
    let mut j = i + 1;
    while j < s.len() {
        match s[j] {
            b'\n' => return Some(j),
            b'\\' => j = skip_escape(s, j),
            b if b == quote => return Some(j + 1),
            _ => j += 1,
        }
    }
    Some(s.len())
}

/// End of the raw string whose quote is at `i`: `R"delimiter( ... )delimiter"`.
fn raw_end(s: &[u8], i: usize) -> usize {
    let open = s[i + 1..]
        .iter()
        .take(17)
        .position(|b| *b == b'(')
        .map(|p| i + 1 + p);
    let Some(open) = open else {
        return quoted_end(s, i).unwrap_or(i + 1);
    };
    let delimiter = &s[i + 1..open];
    let mut j = open + 1;
    while j < s.len() {
        if s[j] == b')'
            && s[j + 1..].starts_with(delimiter)
            && s.get(j + 1 + delimiter.len()) == Some(&b'"')
        {
            return j + 2 + delimiter.len();
        }
        j += 1;
    }
    s.len()
}

/// If a literal with or without prefix starts at `i` (which must not be inside an identifier), its end and kind.
pub(crate) fn literal_end(s: &[u8], i: usize) -> Option<(usize, TokenKind)> {
    let rest = s.get(i..)?;
    let prefix = [
        &b"u8R"[..],
        b"uR",
        b"UR",
        b"LR",
        b"R",
        b"u8",
        b"u",
        b"U",
        b"L",
        b"",
    ]
    .into_iter()
    .find(|p| rest.starts_with(p) && matches!(rest.get(p.len()), Some(b'"' | b'\'')))?;
    let quote = i + prefix.len();
    let is_string = s[quote] == b'"';
    let end = if is_string && prefix.ends_with(b"R") {
        raw_end(s, quote)
    } else if prefix.ends_with(b"R") {
        return None;
    } else {
        quoted_end(s, quote)?
    };
    let kind = if is_string {
        TokenKind::Str
    } else {
        TokenKind::Char
    };
    Some((end, kind))
}

/// End of the number that starts at `i`, with digit separators, exponents and suffixes.
pub(crate) fn number_end(s: &[u8], i: usize) -> usize {
    let mut j = i;
    while j < s.len() {
        let b = s[j];
        let sign_of_exponent = (b == b'+' || b == b'-')
            && j > i
            && matches!(s[j - 1], b'e' | b'E' | b'p' | b'P')
            && !(s[i..].starts_with(b"0x") && matches!(s[j - 1], b'e' | b'E'));
        let separator = b == b'\'' && j > i && s.get(j + 1).is_some_and(u8::is_ascii_hexdigit);
        if is_ident(b) || b == b'.' || sign_of_exponent || separator {
            j += 1;
        } else {
            break;
        }
    }
    j.max(i + 1)
}

const PUNCT: [&[u8]; 24] = [
    b"<<=", b"...", b"->*", b"<=>", b"::", b"->", b"++", b"--", b"<<", b"<=", b">=", b"==", b"!=",
    b"&&", b"||", b"+=", b"-=", b"*=", b"/=", b"%=", b"&=", b"|=", b"^=", b"##",
];

/// All tokens of `text`. Never fails: an odd byte is a one-character punctuation.
pub fn tokens(text: &str) -> Vec<Token> {
    let s = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < s.len() {
        let b = s[i];
        if b.is_ascii_whitespace() || (b == b'\\' && matches!(s.get(i + 1), Some(b'\n' | b'\r'))) {
            i += 1;
            continue;
        }
        if let Some(end) = comment_end(s, i) {
            i = end;
            continue;
        }
        let (end, kind) = if let Some(found) = literal_end(s, i) {
            found
        } else if is_ident_start(b) {
            let end = i + s[i..]
                .iter()
                .position(|b| !is_ident(*b))
                .unwrap_or(s.len() - i);
            (end, TokenKind::Ident)
        } else if b.is_ascii_digit() || (b == b'.' && s.get(i + 1).is_some_and(u8::is_ascii_digit))
        {
            (number_end(s, i), TokenKind::Number)
        } else {
            let len = PUNCT
                .iter()
                .find(|p| s[i..].starts_with(p))
                .map_or(1, |p| p.len());
            (i + len, TokenKind::Punct)
        };
        out.push(Token {
            kind,
            range: i..end,
        });
        i = end;
    }
    out
}

/// Byte offset of the bracket that closes the one at `open`, skipping comments and literals.
pub fn matching_close(text: &str, open: usize) -> Option<usize> {
    matching_close_within(text.as_bytes(), open)
}

/// As [`matching_close`], in bytes that need not end at the end of a text.
pub(crate) fn matching_close_within(s: &[u8], open: usize) -> Option<usize> {
    let mut stack = Vec::new();
    let mut i = open;
    while i < s.len() {
        if let Some(end) = comment_end(s, i) {
            i = end;
            continue;
        }
        let b = s[i];
        if is_ident_start(b) || b == b'"' || b == b'\'' {
            if let Some((end, _)) = literal_end(s, i) {
                i = end;
                continue;
            }
            while i < s.len() && is_ident(s[i]) {
                i += 1;
            }
            continue;
        }
        if b.is_ascii_digit() {
            i = number_end(s, i);
            continue;
        }
        match b {
            b'(' => stack.push(b')'),
            b'[' => stack.push(b']'),
            b'{' => stack.push(b'}'),
            b')' | b']' | b'}' => {
                if stack.pop() != Some(b) {
                    return None;
                }
                if stack.is_empty() {
                    return Some(i);
                }
            }
            _ => {}
        }
        i += 1;
    }
    None
}

/// Parts of `text[range]` between commas that are in no bracket; `<...>` that looks like template arguments counts
/// as a bracket. Parts are trimmed; empty text has no parts.
pub fn split_arguments(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let Some(inner) = text.get(range.clone()) else {
        return Vec::new();
    };
    let toks = tokens(inner);
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let mut first: Option<usize> = None;
    let mut last = 0;
    let mut i = 0;
    while i < toks.len() {
        let t = &toks[i];
        let word = t.text(inner);
        if word == "," && depth == 0 {
            parts.push(first.map_or(t.range.start..t.range.start, |f| f..last));
            first = None;
            i += 1;
            continue;
        }
        match word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "<" => {
                if let Some(close) = template_close(&toks, i, inner) {
                    first.get_or_insert(t.range.start);
                    last = toks[close].range.end;
                    i = close + 1;
                    continue;
                }
            }
            _ => {}
        }
        first.get_or_insert(t.range.start);
        last = t.range.end;
        i += 1;
    }
    if first.is_some() || !parts.is_empty() {
        let end = inner.len();
        parts.push(first.map_or(end..end, |f| f..last));
    }
    parts
        .into_iter()
        .map(|p| p.start + range.start..p.end + range.start)
        .collect()
}

/// If the `<` at token `open` looks like the start of template arguments, the token of its `>`.
///
/// It does when the token before is a name, and everything up to the matching `>` could be template arguments.
pub(crate) fn template_close(toks: &[Token], open: usize, text: &str) -> Option<usize> {
    if open == 0 || toks[open - 1].kind != TokenKind::Ident {
        return None;
    }
    let mut angle = 0usize;
    let mut round = 0usize;
    for (i, t) in toks.iter().enumerate().skip(open).take(200) {
        match t.text(text) {
            "<" => angle += 1,
            ">" if round == 0 => {
                angle -= 1;
                if angle == 0 {
                    // `a < b > c` as two comparisons is not written in launch configurations; `a < b` alone has no `>`.
                    return Some(i);
                }
            }
            "(" | "[" => round += 1,
            ")" | "]" => round = round.checked_sub(1)?,
            ";" | "{" | "}" | "&&" | "||" => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).iter().map(|t| t.text(text)).collect()
    }

    #[test]
    fn tokens_of_hip_text() {
        assert_eq!(
            words("a<<b /* < */ >>1'000u"),
            ["a", "<<", "b", ">", ">", "1'000u"]
        );
        assert_eq!(
            words("R\"x(a)\" )x\" 'a' u8\"\\\"\" L'x'"),
            ["R\"x(a)\" )x\"", "'a'", "u8\"\\\"\"", "L'x'"]
        );
        assert_eq!(words("1e+5f 0xe+1 .5"), ["1e+5f", "0xe", "+", "1", ".5"]);
        assert_eq!(words("// a\\\nb\nc"), ["c"]);
    }

    #[test]
    fn arguments_split_at_top_level() {
        let text = "dim3(a, b), f<int, 2>(x), a < b, {1, 2}, ";
        let parts: Vec<&str> = split_arguments(text, 0..text.len())
            .into_iter()
            .map(|r| &text[r])
            .collect();
        assert_eq!(parts, ["dim3(a, b)", "f<int, 2>(x)", "a < b", "{1, 2}", ""]);
        assert!(split_arguments("  ", 0..2).is_empty());
    }

    #[test]
    fn brackets_match_around_literals() {
        assert_eq!(matching_close("(')', \")\", /*)*/ [x])", 0), Some(20));
        assert_eq!(matching_close("(]", 0), None);
    }

    proptest! {
        #[test]
        fn tokens_are_ordered_and_inside(text in "\\PC{0,80}") {
            let mut at = 0;
            for t in tokens(&text) {
                prop_assert!(t.range.start >= at && t.range.end > t.range.start && t.range.end <= text.len());
                at = t.range.end;
            }
        }
        #[test]
        fn no_panic_on_quotes(text in "[\"'R(){}a1\\\\/*\n\r<>,u8]{0,60}") {
            let all = tokens(&text);
            split_arguments(&text, 0..text.len());
            for t in all { let _ = matching_close(&text, t.range.start); }
        }
    }
}
