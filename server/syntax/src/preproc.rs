//! Preprocessor: which branches the chosen target compiles, and what macros there are.
//!
//! Names that neither the text, nor the options, nor the compiler for the target define count as undefined,
//! as a compiler would have it; but a project's own switch for HIP (`GGML_USE_HIP`) is on, as its build sets it.
//! Conditions over names that come from system headers (`HIP_VERSION`) cannot be decided: all their branches stay
//! active. So it is with a project's own switch for CUDA (`HYPRE_USING_CUDA`) in a file that knows nothing of HIP yet, and
//! with `__CUDA_ARCH__` under it: a port turns them on.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hipsmith_target::Target;

use crate::document::Options;
use crate::expr::{Macro, Names, evaluate};
use crate::includes::{Header, Include};
use crate::lex::{
    TokenKind, comment_end, is_ident, is_ident_start, literal_end, number_end, tokens,
};
use crate::mask::{MarkKind, builtin};

/// From which offset on a name has which definition; `None` for `#undef`.
type Definition = (usize, Option<Arc<Macro>>);

/// Macros by name, each with its definitions in text order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Macros {
    by_name: HashMap<String, Vec<Definition>>,
    /// Headers with the end of their `#include`, in text order.
    imports: Vec<(usize, Arc<Header>)>,
}

impl Macros {
    fn set(&mut self, name: &str, at: usize, value: Option<Arc<Macro>>) {
        self.by_name
            .entry(name.to_owned())
            .or_default()
            .push((at, value));
    }
    /// The definition that holds at `at`.
    pub(crate) fn get(&self, name: &str, at: usize) -> Option<&Arc<Macro>> {
        let own = self
            .by_name
            .get(name)
            .and_then(|all| all.iter().rev().find(|(from, _)| *from <= at));
        let after = own.map_or(0, |(from, _)| *from);
        let imported = self
            .imports
            .iter()
            .rev()
            .skip_while(|(from, _)| *from > at)
            .take_while(|(from, _)| *from >= after)
            .find_map(|(_, header)| header.find_macro(name));
        imported.or_else(|| own?.1.as_ref())
    }
    /// Whether the text itself takes the name away, `#undef`.
    fn is_undefined(&self, name: &str) -> bool {
        self.by_name
            .get(name)
            .and_then(|all| all.last())
            .is_some_and(|(_, value)| value.is_none())
    }
    /// What holds at the end of the text, without what the compiler or the command line defines.
    pub(crate) fn at_end(&self) -> impl Iterator<Item = (&str, &Arc<Macro>)> {
        let own = self
            .by_name
            .iter()
            .filter(|(_, all)| all.iter().any(|(from, _)| *from > 0))
            .map(|(name, _)| name.as_str());
        let imported = self
            .imports
            .iter()
            .flat_map(|(_, header)| header.macros().map(|(name, _)| name));
        own.chain(imported)
            .filter_map(|name| Some((name, self.get(name, usize::MAX)?)))
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Macro>)> {
        self.by_name.iter().flat_map(|(name, all)| {
            all.iter()
                .filter_map(move |(_, m)| Some((name.as_str(), m.as_ref()?)))
        })
    }
}

/// What the preprocessor found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preprocessed {
    /// Code that the target does not compile, from the end of a conditional directive to the next one's `#`.
    pub(crate) inactive: Vec<Range<usize>>,
    /// Conditional directives (from `#` to the line's end) that were decided, and can be blanked for the grammar.
    pub(crate) decided: Vec<Range<usize>>,
    pub(crate) macros: Macros,
    /// Names that stand for HIP words.
    pub(crate) aliases: Vec<(String, Vec<MarkKind>)>,
    /// Files included, as written between the quotes or angle brackets, and whether in quotes.
    pub(crate) includes: Vec<(String, bool)>,
    /// The headers behind them and the headers that those include, each once.
    pub(crate) headers: Vec<Arc<Header>>,
    /// Names that conditions asked for and nobody had defined.
    pub(crate) asked: Vec<String>,
    /// Whether a header in quotes, here or in one of the headers, is not there.
    pub(crate) misses: bool,
}

/// What the compiler for `target` defines, as far as HIP code asks for it.
fn predefined(target: &Target) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = [
        ("__HIP__", "1"),
        ("__HIPCC__", "1"),
        ("__HIP_PLATFORM_AMD__", "1"),
        ("__HIP_PLATFORM_HCC__", "1"),
        ("__HIP_DEVICE_COMPILE__", "1"),
        ("__AMDGCN__", "1"),
        ("__AMDGPU__", "1"),
        ("__AMDGCN_WAVEFRONT_SIZE", "64"),
        ("__AMDGCN_WAVEFRONT_SIZE__", "64"),
        ("__GFX9__", "1"),
        ("USE_ROCM", "1"),
        ("__clang__", "1"),
        ("__GNUC__", "4"),
        ("__cplusplus", "201703L"),
        ("__linux__", "1"),
        ("__x86_64__", "1"),
        ("__LP64__", "1"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into();
    all.push((target.macro_name(), "1".to_owned()));
    all
}

/// Defined by system headers, with values that we do not know.
fn from_headers(name: &str) -> bool {
    name.starts_with("HIP_VERSION")
        || name.starts_with("ROCM_VERSION")
        || name.starts_with("TORCH_HIP_VERSION")
        || name.starts_with("__clang_m")
        || name.starts_with("__has_")
        || name.starts_with("__HIP_ARCH_")
        || name.starts_with("HIPRT_")
}

/// A project's switch for its HIP build: `GGML_USE_HIP`, `HYPRE_USING_HIP`, `WITH_ROCM`.
fn is_hip_switch(name: &str) -> bool {
    ["_HIP", "_ROCM"].iter().any(|s| is_switch(name, s))
}

/// A project's switch for its CUDA build.
fn is_cuda_switch(name: &str) -> bool {
    is_switch(name, "_CUDA")
}

fn is_switch(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|verb| {
        ["USE", "USING", "WITH", "ENABLE", "ENABLED"]
            .iter()
            .any(|v| verb == *v || verb.strip_suffix(v).is_some_and(|p| p.ends_with('_')))
    })
}

struct Conditions<'a> {
    macros: &'a Macros,
    /// Names asked for that are not defined.
    asked: &'a RefCell<Vec<String>>,
    /// The text names nothing of HIP.
    cuda_only: bool,
    /// The directive stands under a project's switch for CUDA in such a text.
    under_cuda: bool,
}

impl Conditions<'_> {
    fn note(&self, name: &str) {
        let mut asked = self.asked.borrow_mut();
        // The compiler's own names are the same for every file.
        if !name.starts_with("__") && asked.len() < 64 && !asked.iter().any(|n| n == name) {
            asked.push(name.to_owned());
        }
    }
    /// Not to be decided: a build that we do not see sets it.
    fn is_open(&self, name: &str) -> bool {
        from_headers(name)
            || self.cuda_only && is_cuda_switch(name)
            || self.under_cuda && matches!(name, "__CUDA_ARCH__" | "__CUDACC__" | "__NVCC__")
    }
}

impl Names for Conditions<'_> {
    fn find_macro(&self, name: &str) -> Option<Cow<'_, Macro>> {
        self.macros
            .get(name, usize::MAX)
            .map(|m| Cow::Borrowed(m.as_ref()))
    }
    fn value(&self, _: &str) -> Option<i64> {
        None
    }
    fn size_of(&self, _: &str) -> Option<u64> {
        None
    }
    fn is_type(&self, _: &str) -> bool {
        false
    }
    fn call(&self, _: &str, _: &[i64]) -> Option<i64> {
        None
    }
    fn defined(&self, name: &str) -> Option<bool> {
        if self.macros.is_undefined(name) {
            Some(false)
        } else if self.macros.get(name, usize::MAX).is_some() {
            Some(true)
        } else if is_hip_switch(name) {
            self.note(name);
            Some(true)
        } else if self.is_open(name) {
            None
        } else {
            self.note(name);
            Some(false)
        }
    }
    fn undefined(&self, name: &str) -> Option<i64> {
        if is_hip_switch(name) && !self.macros.is_undefined(name) {
            self.note(name);
            return Some(1);
        }
        // A version to compare with is old CUDA's all the same.
        if self.is_open(name) && name != "__CUDA_ARCH__" {
            return None;
        }
        self.note(name);
        Some(0)
    }
}

/// One `#if` ... `#endif` that is open.
struct Open {
    /// Whether the surrounding code is active.
    outer: bool,
    /// Whether this branch is active.
    active: bool,
    /// Whether an earlier branch was certainly taken.
    taken: bool,
    /// Whether every condition so far could be decided.
    decided: bool,
    /// It asks for a project's switch for CUDA, and the text names nothing of HIP.
    cuda: bool,
    /// The directives' lines so far.
    lines: Vec<Range<usize>>,
}

/// Run the preprocessor over `text`.
pub(crate) fn preprocess(text: &str, options: &Options) -> Preprocessed {
    let s = text.as_bytes();
    let mut out = Preprocessed::default();
    for (name, body) in predefined(options.target).iter().chain(&options.defines) {
        let mac = Macro {
            parameters: None,
            body: body.clone(),
            range: 0..0,
        };
        out.macros.set(name, 0, Some(Arc::new(mac)));
    }
    let cuda_only = text.contains("CUDA")
        && !["hip", "HIP", "Hip", "ROCM", "AMD", "__gfx", "__GFX"]
            .iter()
            .any(|w| text.contains(w));
    let mut stack: Vec<Open> = Vec::new();
    let mut inactive_from: Option<usize> = None;
    let mut line_start = true;
    let mut i = 0;
    while i < s.len() {
        let b = s[i];
        let active = stack.last().is_none_or(|o| o.active);
        if b == b'\n' {
            line_start = true;
            i += 1;
        } else if b == b'#' && line_start {
            let end = directive_end(s, i);
            directive(text, i..end, options, cuda_only, &mut stack, &mut out);
            let now = stack.last().is_none_or(|o| o.active);
            match (inactive_from, now) {
                (None, false) => inactive_from = Some(end),
                (Some(from), true) => {
                    if from < i {
                        out.inactive.push(from..i);
                    }
                    inactive_from = None;
                }
                _ => {}
            }
            i = end;
        } else if let Some(end) = comment_end(s, i) {
            i = end;
        } else if !active {
            // What is not compiled need not be C++: an apostrophe there starts no literal.
            line_start &= b.is_ascii_whitespace();
            i += 1;
        } else {
            line_start &= b.is_ascii_whitespace();
            i = skip(s, i);
        }
    }
    if let Some(from) = inactive_from
        && from < s.len()
    {
        out.inactive.push(from..s.len());
    }
    // A conditional without its end keeps its lines: the reader should see the error where it is.
    out.decided.sort_by_key(|r| r.start);
    out
}

/// Past the literal, name, number or character at `i`.
fn skip(s: &[u8], i: usize) -> usize {
    let b = s[i];
    if is_ident_start(b) || b == b'"' || b == b'\'' {
        if let Some((end, _)) = literal_end(s, i) {
            return end;
        }
        return i + s[i..]
            .iter()
            .position(|b| !is_ident(*b))
            .unwrap_or(s.len() - i)
            .max(1);
    }
    if b.is_ascii_digit() {
        return number_end(s, i);
    }
    i + 1
}

/// End of the directive that starts at `i`, before its line break; continued lines belong to it.
pub(crate) fn directive_end(s: &[u8], mut i: usize) -> usize {
    while i < s.len() {
        match s[i] {
            b'\n' => return i,
            b'\\' if s.get(i + 1) == Some(&b'\r') && s.get(i + 2) == Some(&b'\n') => i += 3,
            b'\\' => i = (i + 2).min(s.len()),
            _ => match comment_end(s, i) {
                Some(end) => i = end,
                None => i += 1,
            },
        }
    }
    s.len()
}

fn condition(text: &str, conditions: &Conditions<'_>) -> Option<bool> {
    evaluate(text, conditions).map(|v| v != 0)
}

fn directive(
    text: &str,
    range: Range<usize>,
    options: &Options,
    cuda_only: bool,
    stack: &mut Vec<Open>,
    out: &mut Preprocessed,
) {
    let body = &text[range.clone()];
    let toks = tokens(body);
    let word = toks.get(1).map_or("", |t| t.text(body));
    let rest_at = toks.get(1).map_or(body.len(), |t| t.range.end);
    let rest = &body[rest_at..];
    let active = stack.last().is_none_or(|o| o.active);
    let whole = range.clone();
    let asked = RefCell::new(std::mem::take(&mut out.asked));
    let conditions = Conditions {
        macros: &out.macros,
        asked: &asked,
        cuda_only,
        under_cuda: stack.iter().any(|o| o.cuda),
    };
    let cuda = cuda_only && toks.iter().any(|t| is_cuda_switch(t.text(body)));
    match word {
        "if" | "ifdef" | "ifndef" => {
            let value = if !active {
                Some(false)
            } else if word == "if" {
                condition(rest, &conditions)
            } else {
                let name = toks.get(2).map_or("", |t| t.text(body));
                conditions.defined(name).map(|d| d == (word == "ifdef"))
            };
            stack.push(Open {
                outer: active,
                active: active && value != Some(false),
                taken: value == Some(true),
                decided: value.is_some(),
                cuda,
                lines: vec![whole],
            });
        }
        "elif" | "else" => {
            let Some(open) = stack.last_mut() else {
                out.asked = asked.into_inner();
                return;
            };
            let value = if word == "else" {
                Some(true)
            } else if open.taken || !open.outer {
                Some(false)
            } else {
                condition(rest, &conditions)
            };
            open.active = open.outer && !open.taken && value != Some(false);
            open.taken |= value == Some(true);
            open.decided &= value.is_some();
            open.lines.push(whole);
        }
        "endif" => {
            if let Some(mut open) = stack.pop()
                && open.decided
            {
                open.lines.push(whole);
                out.decided.append(&mut open.lines);
            }
        }
        _ => {}
    }
    out.asked = asked.into_inner();
    if !active {
        return;
    }
    match word {
        "define" => define(body, range.start, &toks, out),
        "undef" => {
            if let Some(t) = toks.get(2) {
                out.macros.set(t.text(body), range.end, None);
            }
        }
        "include" => {
            let rest = rest.trim();
            let quoted = rest.starts_with('"');
            let name = rest
                .trim_start_matches(['"', '<'])
                .split(['"', '>'])
                .next()
                .unwrap_or_default();
            if !name.is_empty() {
                out.includes.push((name.to_owned(), quoted));
                import(name, quoted, range.end, options, out);
            }
        }
        _ => {}
    }
}

/// More headers than this, those included by headers among them, are not followed from one file.
const MAX_HEADERS: usize = 512;

/// Follow an `#include` that ends at `at`.
fn import(name: &str, quoted: bool, at: usize, options: &Options, out: &mut Preprocessed) {
    let Some(includes) = &options.includes else {
        out.misses |= quoted;
        return;
    };
    let mut include = Include {
        name,
        quoted,
        from: &options.path,
        through: &options.included_from,
        defines: &[],
    };
    let Some(mut header) = includes.header(&include) else {
        out.misses |= quoted;
        return;
    };
    out.misses |= header.model().preprocessed().misses;
    // What is defined here may decide what of the header is compiled.
    let defines: Vec<(String, String)> = header
        .asks()
        .iter()
        .filter_map(|name| {
            let m = out.macros.get(name, usize::MAX)?;
            m.parameters
                .is_none()
                .then(|| (name.clone(), m.body.clone()))
        })
        .collect();
    if !defines.is_empty() {
        include.defines = &defines;
        header = includes.header(&include).unwrap_or(header);
    }
    for name in header.asks() {
        if out.asked.len() < 64 && !out.asked.contains(name) {
            out.asked.push(name.clone());
        }
    }
    let inner = &header.model().preprocessed().headers;
    for one in inner.iter().chain([&header]) {
        let known = out.headers.iter().any(|h| h.path() == one.path());
        if !known && out.headers.len() < MAX_HEADERS {
            out.headers.push(one.clone());
        }
    }
    let aliases = &header.model().preprocessed().aliases;
    out.aliases.extend(aliases.iter().cloned());
    out.macros.imports.push((at, header));
}

fn define(body: &str, at: usize, toks: &[crate::lex::Token], out: &mut Preprocessed) {
    let Some(name) = toks.get(2).filter(|t| t.kind == TokenKind::Ident) else {
        return;
    };
    let mut next = 3;
    let mut parameters = None;
    // A function-like macro's bracket follows its name at once.
    if body[name.range.end..].starts_with('(') {
        let mut names = Vec::new();
        next = 4;
        while let Some(t) = toks.get(next) {
            next += 1;
            match t.text(body) {
                ")" => break,
                "," => {}
                p => names.push(p.to_owned()),
            }
        }
        parameters = Some(names);
    }
    let replacement = &toks[next.min(toks.len())..];
    let text: String = replacement
        .iter()
        .map(|t| t.text(body))
        .collect::<Vec<_>>()
        .join(" ");
    let name = name.text(body);
    if parameters.is_none() {
        let kinds = hip_words(replacement.iter().map(|t| t.text(body)), out);
        if let Some(kinds) = kinds {
            out.aliases.push((name.to_owned(), kinds));
        }
    }
    let mac = Macro {
        parameters,
        body: text,
        range: at..at + body.len(),
    };
    out.macros.set(name, at + body.len(), Some(Arc::new(mac)));
}

/// If the words are nothing but specifiers with a HIP word among them, the HIP words' kinds.
fn hip_words<'a>(
    words: impl Iterator<Item = &'a str>,
    out: &Preprocessed,
) -> Option<Vec<MarkKind>> {
    let mut kinds = Vec::new();
    let mut depth = 0usize;
    for word in words {
        match word {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            "inline" | "static" | "__inline__" | "__inline" | "extern" | "constexpr" => {}
            _ => {
                if let Some((kind, _)) = builtin(word.as_bytes()) {
                    if kind == MarkKind::DynamicShared {
                        return None;
                    }
                    kinds.push(kind);
                } else {
                    let (_, of_alias) = out.aliases.iter().rev().find(|(name, _)| name == word)?;
                    kinds.extend(of_alias);
                }
            }
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inactive(text: &str) -> Vec<&str> {
        preprocess(text, &Options::default())
            .inactive
            .into_iter()
            .map(|r| text[r].trim())
            .collect()
    }

    #[test]
    fn branches_for_the_target() {
        assert_eq!(inactive("#if 0\ndon't\n#else\na\n#endif\n"), ["don't"]);
        assert_eq!(
            inactive("#ifdef __CUDA_ARCH__\nc\n#elif defined(__gfx928__)\nh\n#else\ne\n#endif"),
            ["c", "e"]
        );
        assert_eq!(
            inactive("#if __AMDGCN_WAVEFRONT_SIZE == 64\na\n#else\nb\n#endif"),
            ["b"]
        );
        assert_eq!(
            inactive("#if HIP_VERSION >= 60000000\na\n#else\nb\n#endif"),
            [] as [&str; 0]
        );
        assert_eq!(
            inactive("#define X 3\n#if X > 2 && !defined(Y)\na\n#else\nb\n#endif"),
            ["b"]
        );
        assert_eq!(inactive("/*\n#if 0\n*/ a\n"), [] as [&str; 0]);
        assert_eq!(
            inactive("#if 0\n#if 1\na\n#else\nb\n#endif\nc\n#endif\nd"),
            ["#if 1\na\n#else\nb\n#endif\nc"]
        );
        assert_eq!(inactive("#ifndef H\n#define H\na\n#endif"), [] as [&str; 0]);
        assert_eq!(inactive("#if 0\na"), ["a"]);
        assert_eq!(inactive("#endif\n#else\na"), [] as [&str; 0]);
    }

    #[test]
    fn switches_of_a_hip_build_are_on() {
        assert_eq!(
            inactive(
                "#if defined(A_USE_HIP)\na\n#else\nb\n#endif\n#ifdef WITH_ROCM\nc\n#else\nd\n#endif"
            ),
            ["b", "d"]
        );
        assert_eq!(
            inactive("#if B_USING_CUDA\na\n#elif B_USING_HIP\nb\n#endif"),
            ["a"]
        );
        assert_eq!(
            inactive("#undef A_USE_HIP\n#ifdef A_USE_HIP\na\n#endif\n#ifdef MISUSE_HIP\nb\n#endif"),
            ["a", "b"]
        );
    }

    #[test]
    fn a_file_for_cuda_alone_asks_for_the_device() {
        let device =
            "#ifdef __CUDA_ARCH__\na\n#else\nb\n#endif\n#if __CUDA_ARCH__ >= 800\nc\n#endif\n";
        let switched = format!("#if defined(A_USING_CUDA)\n{device}#endif\n");
        assert_eq!(inactive(&switched), ["c"]);
        assert_eq!(inactive(device), ["a", "c"]);
        assert_eq!(
            inactive(&format!("#include <hip/hip_runtime.h>\n{switched}")),
            [device.trim()]
        );
    }

    #[test]
    fn macros_hold_from_their_place_on() {
        let text = "#define N 1\n#undef N\n#define N 2 /* c */ + 3\n#define F(a, b) a\\\n + b\n#define HD __host__ __device__ inline\n";
        let p = preprocess(text, &Options::default());
        assert_eq!(p.macros.get("N", 12).map(|m| m.body.as_str()), Some("1"));
        assert!(p.macros.get("N", 20).is_none());
        assert_eq!(
            p.macros.get("N", 99).map(|m| m.body.as_str()),
            Some("2 + 3")
        );
        let f = p
            .macros
            .get("F", 999)
            .map(|m| (m.parameters.clone(), m.body.clone()));
        assert_eq!(
            f,
            Some((Some(vec!["a".into(), "b".into()]), "a + b".into()))
        );
        assert_eq!(
            p.aliases,
            [("HD".into(), vec![MarkKind::Host, MarkKind::Device])]
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "(#if |#else|#endif|#define |#elif |\n|\\\\|\"|'|/\\*|\\*/|//|a|0|\\(|\\)|é){0,40}") {
            let p = preprocess(&text, &Options::default());
            for r in p.inactive.iter().chain(&p.decided) {
                prop_assert!(text.get(r.clone()).is_some());
            }
        }
    }
}
