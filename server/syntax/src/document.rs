//! A text, its masked form, its tree and (on demand) its kernel model, kept in step through edits.

use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hipsmith_target::Target;
use line_index::{LineCol, LineIndex, TextSize, WideEncoding, WideLineCol};
use tree_sitter::{InputEdit, ParseOptions, Parser, Point, Tree as Parsed};

use crate::includes::Includes;
use crate::mask::{Mark, MaskConfig, mask};
use crate::model::Model;
use crate::preproc::{Preprocessed, preprocess};
use crate::tree::{Node, Tree, Unchanged};

/// Longer texts are kept but not parsed: their tree is empty ([`Document::is_parsed`] says so).
pub const MAX_BYTES: usize = 8 << 20;

/// A parse that takes longer than this is given up; only hostile text does.
const PARSE_LIMIT: Duration = Duration::from_secs(5);

/// What a document is read for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides preprocessor branches, the wavefront size and limits.
    pub target: &'static Target,
    /// Macros given on the command line (`-D`), name and value.
    pub defines: Vec<(String, String)>,
    /// Words to mask beyond HIP's own.
    pub mask: MaskConfig,
    /// The file, for the headers that it includes; empty for a text without one.
    pub path: PathBuf,
    /// For a header: the files that led to it, outermost first.
    pub included_from: Vec<PathBuf>,
    /// Where its headers come from; without it none are followed.
    pub includes: Option<Arc<dyn Includes>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: hipsmith_target::default_target(),
            defines: Vec::new(),
            mask: MaskConfig::default(),
            path: PathBuf::new(),
            included_from: Vec::new(),
            includes: None,
        }
    }
}

/// How the columns of a [`Position`] are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Encoding {
    /// In bytes.
    Utf8,
    /// In UTF-16 code units.
    Utf16,
}

/// A place in a text, 0-based. Lines end with `\n` (a `\r` before it belongs to the line break).
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in units of an [`Encoding`].
    pub column: u32,
}

/// One change of the text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edit {
    /// Bytes replaced. Clamped to the text and to character boundaries.
    pub range: Range<usize>,
    /// What stands there afterwards.
    pub text: String,
}

/// One version of a text with everything derived from it. Cloning is cheap: a clone is a snapshot.
#[derive(Clone, Debug)]
pub struct Document {
    text: Arc<str>,
    version: i32,
    options: Arc<Options>,
    masked: Arc<str>,
    marks: Arc<[Mark]>,
    pre: Arc<Preprocessed>,
    /// What the next parse starts from.
    grammar: Parsed,
    tree: Arc<Tree>,
    parsed: bool,
    /// Whether the last parse started from an older tree.
    patched: bool,
    lines: Arc<LineIndex>,
    model: Arc<OnceLock<Arc<Model>>>,
}

impl Document {
    /// A document for the default target, at version 0.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self::with_options(text, 0, Arc::new(Options::default()))
    }

    /// A document for the given target and settings.
    pub fn with_options(text: impl Into<Arc<str>>, version: i32, options: Arc<Options>) -> Self {
        let text = text.into();
        let (masked, marks, pre) = prepare(&text, &options);
        let masked: Arc<str> = masked.into();
        let (grammar, mut parsed) = parse(&masked, None);
        parsed &= text.len() <= MAX_BYTES;
        Self {
            lines: Arc::new(LineIndex::new(&text)),
            text,
            version,
            options,
            tree: Arc::new(Tree::new(&grammar, masked.clone(), None)),
            masked,
            marks: marks.into(),
            pre: Arc::new(pre),
            grammar,
            parsed,
            patched: false,
            model: Arc::default(),
        }
    }

    /// Apply `edits` one after the other (each range counts in the text that the ones before left) and take `version`.
    pub fn apply(&mut self, edits: &[Edit], version: i32) {
        let mut text = self.text.to_string();
        for edit in edits {
            let start = floor_boundary(&text, edit.range.start);
            let end = floor_boundary(&text, edit.range.end).max(start);
            text.replace_range(start..end, &edit.text);
        }
        self.set_text(text, version);
    }

    /// Apply changes given by positions, as an editor sends them: one after the other, `None` replacing the whole text.
    pub fn apply_positions(
        &mut self,
        changes: &[(Option<(Position, Position)>, &str)],
        encoding: Encoding,
        version: i32,
    ) {
        let mut text = self.text.to_string();
        let mut lines: Option<LineIndex> = None;
        for (range, new) in changes {
            match range {
                None => text = (*new).to_owned(),
                Some((from, to)) => {
                    let index = lines.as_ref().unwrap_or(&self.lines);
                    let start = offset_in(&text, index, *from, encoding);
                    let end = offset_in(&text, index, *to, encoding).max(start);
                    text.replace_range(start..end, new);
                }
            }
            lines = Some(LineIndex::new(&text));
        }
        self.set_text(text, version);
    }

    /// Replace the text, reusing what the old tree and the new have in common.
    pub fn set_text(&mut self, text: impl Into<Arc<str>>, version: i32) {
        let text = text.into();
        self.version = version;
        if *text == *self.text {
            return;
        }
        let (masked, marks, pre) = prepare(&text, &self.options);
        let masked: Arc<str> = masked.into();
        if let Some(edit) = difference(&self.masked, &masked) {
            let mut old = self.grammar.clone();
            old.edit(&edit);
            let known = self.parsed;
            self.patched = known;
            (self.grammar, self.parsed) = parse(&masked, known.then_some(&old));
            let unchanged = (known && self.parsed).then(|| Unchanged {
                before: &self.tree,
                prefix: edit.start_byte,
                suffix: edit.new_end_byte,
                shift: edit.new_end_byte.cast_signed() - edit.old_end_byte.cast_signed(),
                restructured: old
                    .changed_ranges(&self.grammar)
                    .map(|r| r.start_byte..r.end_byte)
                    .collect(),
            });
            let tree = Tree::new(&self.grammar, masked.clone(), unchanged.as_ref());
            self.tree = Arc::new(tree);
        }
        self.parsed &= text.len() <= MAX_BYTES;
        self.lines = Arc::new(LineIndex::new(&text));
        self.text = text;
        self.masked = masked;
        self.marks = marks.into();
        self.pre = Arc::new(pre);
        self.model = Arc::default();
    }

    /// Parse once more from scratch if it could matter; whether anything changed.
    ///
    /// Around an error the grammar guesses, and with the pieces of an older tree at hand it may guess otherwise than
    /// without. Worth the time when the user pauses, not at each keystroke.
    pub fn settle(&mut self) -> bool {
        if std::mem::take(&mut self.patched) && self.root().has_error() {
            let (grammar, parsed) = parse(&self.masked, None);
            let tree = Tree::new(&grammar, self.masked.clone(), None);
            let changed = tree != *self.tree;
            (self.grammar, self.parsed) = (grammar, parsed);
            if changed {
                self.tree = Arc::new(tree);
                self.model = Arc::default();
            }
            return changed;
        }
        false
    }
    /// Whether [`Document::settle`] could change anything.
    pub fn is_settled(&self) -> bool {
        !(self.patched && self.root().has_error())
    }

    /// The user's text.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The user's text, shared.
    pub fn shared_text(&self) -> Arc<str> {
        self.text.clone()
    }
    /// The version given with the last change.
    pub fn version(&self) -> i32 {
        self.version
    }
    /// Target and settings.
    pub fn options(&self) -> &Arc<Options> {
        &self.options
    }
    /// The target.
    pub fn target(&self) -> &'static Target {
        self.options.target
    }
    /// What the grammar saw: HIP words and code that the target does not compile are blank. Same offsets as the text.
    pub fn masked(&self) -> &str {
        &self.masked
    }
    /// The masked HIP words and launches, in text order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }
    /// The root of the masked text's tree. Skip nodes with `has_error()`.
    pub fn root(&self) -> Node<'_> {
        self.tree.root()
    }
    /// Whether the tree is of this text; false for text longer than [`MAX_BYTES`] (the tree is then empty).
    pub fn is_parsed(&self) -> bool {
        self.parsed
    }
    /// Where the first error in the tree is: code around it is not looked at.
    pub fn first_error(&self) -> Option<usize> {
        let mut node = self.root();
        if !node.has_error() {
            return None;
        }
        while !node.is_error() && !node.is_missing() {
            let Some(next) = node.children().find(|c| c.has_error()) else {
                break;
            };
            node = next;
        }
        Some(node.start_byte())
    }
    /// Byte ranges of code that the target does not compile, in text order.
    pub fn inactive(&self) -> &[Range<usize>] {
        &self.pre.inactive
    }
    /// Whether the byte at `offset` is in code that the target does not compile.
    pub fn is_inactive(&self, offset: usize) -> bool {
        let at = self.pre.inactive.partition_point(|r| r.end <= offset);
        self.pre
            .inactive
            .get(at)
            .is_some_and(|r| r.contains(&offset))
    }
    /// The original text of `range`; empty if it is out of bounds.
    pub fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
    /// The original text of a node.
    pub fn node_text(&self, node: Node<'_>) -> &str {
        self.slice(node.byte_range())
    }
    /// The kernel model, made at the first call and shared afterwards.
    pub fn model(&self) -> &Arc<Model> {
        self.model.get_or_init(|| Arc::new(Model::build(self)))
    }
    pub(crate) fn preprocessed(&self) -> &Arc<Preprocessed> {
        &self.pre
    }

    /// The position of a byte offset. Offsets beyond the text or inside a character go to the nearest place before.
    pub fn position(&self, offset: usize, encoding: Encoding) -> Position {
        let offset = floor_boundary(&self.text, offset);
        let at = self
            .lines
            .try_line_col(TextSize::new(u32::try_from(offset).unwrap_or(u32::MAX)))
            .unwrap_or(LineCol { line: 0, col: 0 });
        let column = match encoding {
            Encoding::Utf8 => at.col,
            Encoding::Utf16 => self
                .lines
                .to_wide(WideEncoding::Utf16, at)
                .map_or(at.col, |w| w.col),
        };
        Position {
            line: at.line,
            column,
        }
    }
    /// The byte offset of a position. Beyond the end of a line it is the line's end, beyond the text the text's end.
    pub fn offset(&self, position: Position, encoding: Encoding) -> usize {
        offset_in(&self.text, &self.lines, position, encoding)
    }
}

fn offset_in(text: &str, lines: &LineIndex, p: Position, encoding: Encoding) -> usize {
    let Some(line) = lines.line(p.line) else {
        return text.len();
    };
    let start = usize::from(line.start());
    let content =
        text[start..usize::from(line.end()).min(text.len())].trim_end_matches(['\n', '\r']);
    let column = match encoding {
        Encoding::Utf8 => p.column as usize,
        Encoding::Utf16 => {
            let wide = WideLineCol {
                line: p.line,
                col: p.column,
            };
            let units = content.chars().map(char::len_utf16).sum::<usize>();
            if p.column as usize >= units {
                content.len()
            } else {
                lines
                    .to_utf8(WideEncoding::Utf16, wide)
                    .map_or(content.len(), |c| c.col as usize)
            }
        }
    };
    floor_boundary(text, start + column.min(content.len()))
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset)
}

/// Preprocess, blank what is not compiled, mask.
fn prepare(text: &str, options: &Options) -> (String, Vec<Mark>, Preprocessed) {
    if text.len() > MAX_BYTES {
        return (String::new(), Vec::new(), Preprocessed::default());
    }
    let pre = preprocess(text, options);
    let mut config = std::borrow::Cow::Borrowed(&options.mask);
    if !pre.aliases.is_empty() {
        config.to_mut().aliases.extend(pre.aliases.iter().cloned());
    }
    let masked = if pre.inactive.is_empty() && pre.decided.is_empty() {
        mask(text, &config)
    } else {
        let mut bytes = text.as_bytes().to_vec();
        for range in pre.inactive.iter().chain(&pre.decided) {
            for b in &mut bytes[range.clone()] {
                if *b != b'\n' && *b != b'\r' {
                    *b = b' ';
                }
            }
        }
        // The ranges end at `#` and line breaks, so no character was cut.
        let blanked = String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned());
        mask(&blanked, &config)
    };
    (masked.text, masked.marks, pre)
}

/// Parse `text`, from `old` (edited to match) if given. The flag is false if the text is too long or was given up.
fn parse(text: &str, old: Option<&Parsed>) -> (Parsed, bool) {
    thread_local! {
        static PARSER: std::cell::RefCell<Parser> = std::cell::RefCell::new({
            let mut parser = Parser::new();
            parser
                .set_language(&crate::language())
                .expect("the pinned grammar fits the pinned library; a test parses with it");
            parser
        });
    }
    PARSER.with_borrow_mut(|parser| {
        let begun = Instant::now();
        let mut give_up = |_: &tree_sitter::ParseState| {
            if begun.elapsed() > PARSE_LIMIT {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut give_up);
        let bytes = text.as_bytes();
        let tree = parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            old,
            Some(options),
        );
        match tree {
            Some(tree) => (tree, true),
            None => {
                parser.reset();
                let empty = parser
                    .parse("", None)
                    .expect("an empty text parses at once");
                (empty, false)
            }
        }
    })
}

/// The one edit that turns `old` into `new`: what lies between their common start and common end.
fn difference(old: &str, new: &str) -> Option<InputEdit> {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    if a == b {
        return None;
    }
    let prefix = common_start(a, b);
    let suffix = common_end(&a[prefix..], &b[prefix..]);
    let mut start = prefix;
    while !old.is_char_boundary(start) || !new.is_char_boundary(start) {
        start -= 1;
    }
    let (mut old_end, mut new_end) = (a.len() - suffix, b.len() - suffix);
    while !old.is_char_boundary(old_end) || !new.is_char_boundary(new_end) {
        old_end += 1;
        new_end += 1;
    }
    let from = point(a, start, Point::new(0, 0), 0);
    Some(InputEdit {
        start_byte: start,
        old_end_byte: old_end,
        new_end_byte: new_end,
        start_position: from,
        old_end_position: point(a, old_end, from, start),
        new_end_position: point(b, new_end, from, start),
    })
}

/// Bytes compared at once: keystrokes in long texts are mostly this comparison.
const BLOCK: usize = 64;

fn common_start(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let at = blocks.take_while(|(x, y)| x == y).count() * BLOCK;
    at + a[at..]
        .iter()
        .zip(&b[at..])
        .take_while(|(x, y)| x == y)
        .count()
}

fn common_end(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    let n = blocks.take_while(|(x, y)| x == y).count() * BLOCK;
    let (a, b) = (&a[..a.len() - n], &b[..b.len() - n]);
    n + a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| x == y)
        .count()
}

/// The point of byte `at`, counting from the known point `from` of byte `base`.
fn point(s: &[u8], at: usize, from: Point, base: usize) -> Point {
    let between = &s[base..at];
    let rows = between.iter().filter(|b| **b == b'\n').count();
    match between.iter().rposition(|b| *b == b'\n') {
        Some(last) => Point::new(from.row + rows, between.len() - last - 1),
        None => Point::new(from.row, from.column + between.len()),
    }
}
