//! HIP words out of the way of a C++ grammar, byte for byte.
//!
//! The grammar knows no `__global__` and no `<<<...>>>`. [`mask`] writes spaces over the words (and their
//! parenthesized arguments), and turns `k<<<g, b>>>(x)` into `k  (g, b)  (x)`, a call of a call. Length and
//! line breaks stay, so byte offsets in the parsed text are offsets in the user's text. What was masked is kept
//! in a side table of [`Mark`]s.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::lex::{
    comment_end, is_ident, is_ident_start, literal_end, matching_close_within, number_end,
};
use crate::preproc::directive_end;

/// What a [`Mark`] stood for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum MarkKind {
    /// `__global__`
    Global,
    /// `__device__`
    Device,
    /// `__host__`
    Host,
    /// `__shared__`
    Shared,
    /// `__constant__`
    Constant,
    /// `__managed__`
    Managed,
    /// `__forceinline__`
    ForceInline,
    /// `__noinline__`
    NoInline,
    /// `__grid_constant__`
    GridConstant,
    /// `__restrict__` and `__restrict`
    Restrict,
    /// `__launch_bounds__(threads[, waves])`
    LaunchBounds,
    /// `__align__(n)`
    Align,
    /// `__attribute__((...))`
    Attribute,
    /// `HIP_DYNAMIC_SHARED(type, name)`: becomes `extern type name`.
    DynamicShared,
    /// A launch's `<<<...>>>`.
    Launch,
    /// A word from [`MaskConfig::words`].
    Custom,
}

/// One masked place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mark {
    /// What it was.
    pub kind: MarkKind,
    /// Bytes of the whole place, arguments included.
    pub range: Range<usize>,
    /// Bytes between the word's parentheses, or between `<<<` and `>>>`; `None` for a word without arguments.
    pub arguments: Option<Range<usize>>,
}

/// Words to mask beyond HIP's own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MaskConfig {
    /// Word to whether its parenthesized arguments are masked with it, such as `CK_TILE_DEVICE` to `false`.
    pub words: BTreeMap<String, bool>,
    /// Words that stand for HIP words, such as `HOST_DEVICE` for `__host__` and `__device__`; a document adds the
    /// macros of its own text that are defined so.
    pub aliases: BTreeMap<String, Vec<MarkKind>>,
}

/// How far the end of a word's arguments, and of a launch's configuration, is looked for: unclosed ones in a row
/// would otherwise each search to the end of the text.
const ARGUMENTS_LIMIT: usize = 4 << 10;

/// The text for the grammar and the side table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Masked {
    /// As long as the original, with the same line breaks.
    pub text: String,
    /// What was masked, in text order.
    pub marks: Vec<Mark>,
}

pub(crate) fn builtin(word: &[u8]) -> Option<(MarkKind, bool)> {
    use MarkKind::*;
    Some(match word {
        b"__global__" => (Global, false),
        b"__device__" => (Device, false),
        b"__host__" => (Host, false),
        b"__shared__" => (Shared, false),
        b"__constant__" => (Constant, false),
        b"__managed__" => (Managed, false),
        b"__forceinline__" => (ForceInline, false),
        b"__noinline__" => (NoInline, false),
        b"__grid_constant__" => (GridConstant, false),
        b"__restrict__" | b"__restrict" => (Restrict, false),
        b"__launch_bounds__" => (LaunchBounds, true),
        b"__align__" => (Align, true),
        b"__attribute__" => (Attribute, true),
        b"HIP_DYNAMIC_SHARED" => (DynamicShared, true),
        _ => return None,
    })
}

/// Mask the HIP words of `text`. Comments and preprocessor directives stay as they are, and so do strings outside a
/// masked word's own arguments; never fails, whatever the text.
pub fn mask(text: &str, config: &MaskConfig) -> Masked {
    let source = text.as_bytes();
    let mut out = source.to_vec();
    let mut marks = Vec::new();
    let mut line_start = true;
    let mut i = 0;
    while i < source.len() {
        let b = source[i];
        if b == b'/'
            && let Some(end) = comment_end(source, i)
        {
            i = end;
            continue;
        }
        if b == b'#' && line_start {
            // A directive's words are no code: `#define HD __host__` must keep its name and value.
            i = directive_end(source, i);
            continue;
        }
        line_start = b == b'\n' || (line_start && b.is_ascii_whitespace());
        if b == b'"' || b == b'\'' {
            i = literal_end(source, i).map_or(i + 1, |(end, _)| end);
        } else if is_ident_start(b) {
            if matches!(b, b'u' | b'U' | b'L' | b'R')
                && let Some((end, _)) = literal_end(source, i)
            {
                i = end;
                continue;
            }
            let start = i;
            while i < source.len() && is_ident(source[i]) {
                i += 1;
            }
            let word = &source[start..i];
            let found = if b == b'_' || b == b'H' {
                builtin(word)
            } else {
                None
            };
            if let Some((kind, takes_arguments)) = found {
                i = mask_word(text, &mut out, &mut marks, kind, start..i, takes_arguments);
            } else if let Some(kinds) = config.aliases.get(&text[start..i]) {
                blank(source, &mut out, start..i);
                marks.extend(kinds.iter().map(|kind| Mark {
                    kind: *kind,
                    range: start..i,
                    arguments: None,
                }));
            } else if let Some(takes) = config.words.get(&text[start..i]) {
                i = mask_word(
                    text,
                    &mut out,
                    &mut marks,
                    MarkKind::Custom,
                    start..i,
                    *takes,
                );
            }
        } else if b.is_ascii_digit() {
            i = number_end(source, i);
        } else if b == b'<' {
            let run = source[i..].iter().take_while(|b| **b == b'<').count();
            if run == 3
                && let Some(close) = launch_close(text, i + 3)
            {
                out[i..i + 3].copy_from_slice(b"  (");
                out[close..close + 3].copy_from_slice(b")  ");
                marks.push(Mark {
                    kind: MarkKind::Launch,
                    range: i..close + 3,
                    arguments: Some(i + 3..close),
                });
            }
            i += run;
        } else {
            i += 1;
        }
    }
    marks.sort_by_key(|m| m.range.start);
    // Whole characters were replaced by spaces, so this is text; were it not, the unmasked text keeps every promise
    // but the grammar's comfort.
    let text = String::from_utf8(out).unwrap_or_else(|_| text.to_owned());
    Masked { text, marks }
}

/// Blank `range` of `out` but for line breaks and comments.
fn blank(source: &[u8], out: &mut [u8], range: Range<usize>) {
    let mut i = range.start;
    while i < range.end {
        let literal = if matches!(source[i], b'"' | b'\'') {
            literal_end(source, i).map(|(end, _)| end.min(range.end))
        } else {
            None
        };
        if let Some(end) = comment_end(source, i) {
            i = end;
            continue;
        }
        let end = literal.unwrap_or(i + 1);
        for b in &mut out[i..end] {
            if *b != b'\n' && *b != b'\r' {
                *b = b' ';
            }
        }
        i = end;
    }
}

/// Mask one word (and its arguments); where to go on.
fn mask_word(
    text: &str,
    out: &mut [u8],
    marks: &mut Vec<Mark>,
    kind: MarkKind,
    word: Range<usize>,
    takes_arguments: bool,
) -> usize {
    let source = text.as_bytes();
    let mut end = word.end;
    let mut arguments = None;
    if takes_arguments {
        let mut open = word.end;
        while open < source.len() && source[open].is_ascii_whitespace() {
            open += 1;
        }
        if source.get(open) == Some(&b'(')
            && let Some(close) =
                matching_close_within(&source[..source.len().min(open + ARGUMENTS_LIMIT)], open)
        {
            arguments = Some(open + 1..close);
            end = close + 1;
        } else if kind == MarkKind::DynamicShared {
            return word.end;
        }
    }
    if kind == MarkKind::DynamicShared {
        // `extern type name`: the comma and the brackets go, the type and the name stay.
        let inner = arguments.clone().unwrap_or(end..end);
        let parts = crate::lex::split_arguments(text, inner.clone());
        let [ty, name] = parts.as_slice() else {
            return word.end;
        };
        let (ty, is_name) = (&text[ty.clone()], text[name.clone()].bytes().all(is_ident));
        if !is_name
            || name.is_empty()
            || ty.contains(['(', ')', ';', '{', '}'])
            || ty.contains("<<<")
        {
            return word.end;
        }
        blank(source, out, word.start..inner.start);
        out[word.start..word.start + 6].copy_from_slice(b"extern");
        if let Some(comma) = source[..name.start].iter().rposition(|b| *b == b',') {
            out[comma] = b' ';
        }
        // The macro brings no `;`, and people who write none get away with it.
        let next = next_code(source, end);
        out[inner.end] = if source.get(next) == Some(&b';') {
            b' '
        } else {
            b';'
        };
    } else {
        blank(source, out, word.start..end);
    }
    marks.push(Mark {
        kind,
        range: word.start..end,
        arguments,
    });
    end
}

/// Offset of the `>>>` that closes the launch whose configuration starts at `start`: the first one outside
/// brackets that a `(` follows.
fn launch_close(text: &str, start: usize) -> Option<usize> {
    let s = &text.as_bytes()[..text.len().min(start + ARGUMENTS_LIMIT)];
    let mut depth = 0usize;
    let mut i = start;
    while i < s.len() {
        if let Some(end) = comment_end(s, i) {
            i = end;
            continue;
        }
        let b = s[i];
        if b == b'"' || b == b'\'' {
            i = literal_end(s, i)?.0;
            continue;
        }
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b';' | b'#' if depth == 0 => return None,
            b'>' if depth == 0 => {
                let run = s[i..].iter().take_while(|b| **b == b'>').count();
                let next = next_code(s, i + run);
                if run >= 3 && s.get(next) == Some(&b'(') {
                    return Some(i + run - 3);
                }
                i += run;
                continue;
            }
            _ if b.is_ascii_digit() => {
                i = number_end(s, i);
                continue;
            }
            _ if is_ident_start(b) => {
                if let Some((end, _)) = literal_end(s, i) {
                    i = end;
                    continue;
                }
                while i < s.len() && is_ident(s[i]) {
                    i += 1;
                }
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    None
}

/// The first byte from `i` on that is neither white space, a line continuation nor in a comment.
fn next_code(s: &[u8], mut i: usize) -> usize {
    while i < s.len() {
        if let Some(end) = comment_end(s, i) {
            i = end;
        } else if s[i].is_ascii_whitespace() || s[i] == b'\\' {
            i += 1;
        } else {
            break;
        }
    }
    i
}

/// Whether `text` is HIP: always for `.hip` and `.cu` names, else by a HIP word outside comments and strings.
pub fn is_hip(text: &str, path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, e)| e);
    if matches!(extension, "hip" | "cu" | "cuh" | "hiph") || name.contains(".hip.") {
        return true;
    }
    const MARKERS: [&str; 8] = [
        "__global__",
        "__launch_bounds__",
        "__shared__",
        "hipLaunchKernelGGL",
        "hip_runtime.h",
        "HIP_DYNAMIC_SHARED",
        "hipMalloc",
        "__device__",
    ];
    // Cheap first: most C++ files have no such word anywhere.
    if !MARKERS.iter().any(|m| text.contains(m)) {
        return false;
    }
    crate::lex::tokens(text).iter().any(|t| {
        let word = t.text(text);
        t.kind == crate::lex::TokenKind::Ident && MARKERS.contains(&word)
    }) || text.lines().any(|l| {
        let l = l.trim_start();
        l.starts_with('#') && l.contains("include") && l.contains("hip/hip_runtime")
    })
}
