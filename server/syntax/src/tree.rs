//! The syntax tree as the rest of the program sees it: the grammar's nodes copied once into flat tables.
//!
//! tree-sitter's nodes find their parent from the root and their fields by asking the grammar; rules do both all the
//! time. Here every step is an index. The tables are kept per *item* (a declaration outside functions) with offsets
//! from the item's start, so an edit copies only the items that changed: the others are shared with the tree before.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use tree_sitter::TreeCursor;

/// Names of node kinds and fields by the grammar's numbers.
struct Names {
    kinds: Vec<&'static str>,
    named: Vec<bool>,
    notable: Vec<Option<Notable>>,
    /// Whether the kind is that of a name.
    word: Vec<bool>,
    /// Whether the kind is a bracket, comma or the like: it stands in no field, and half of all nodes are such.
    plain: Vec<bool>,
    fields: Vec<&'static str>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    static LANGUAGE: LazyLock<tree_sitter::Language> = LazyLock::new(crate::language);
    let language = &*LANGUAGE;
    let kinds = u16::try_from(language.node_kind_count()).unwrap_or(u16::MAX);
    let fields = u16::try_from(language.field_count()).unwrap_or(u16::MAX);
    Names {
        kinds: (0..kinds)
            .map(|id| language.node_kind_for_id(id).unwrap_or(""))
            .collect(),
        named: (0..kinds)
            .map(|id| language.node_kind_is_named(id))
            .collect(),
        notable: (0..kinds)
            .map(|id| Notable::of(language.node_kind_for_id(id).unwrap_or("")))
            .collect(),
        plain: (0..kinds)
            .map(|id| {
                let kind = language.node_kind_for_id(id).unwrap_or("");
                matches!(
                    kind,
                    "(" | ")" | "[" | "]" | "{" | "}" | "," | ";" | ":" | "::"
                )
            })
            .collect(),
        word: (0..kinds)
            .map(|id| {
                let kind = language.node_kind_for_id(id).unwrap_or("");
                kind.ends_with("identifier") && !kind.starts_with("qualified")
            })
            .collect(),
        // Numbered from 1.
        fields: std::iter::once("")
            .chain((1..=fields).map(|id| language.field_name_for_id(id).unwrap_or("")))
            .collect(),
    }
});

/// tree-sitter's number for the kind `ERROR`.
const ERROR: u16 = u16::MAX;

const NAMED: u8 = 1;
const MISSING: u8 = 2;
const EXTRA: u8 = 4;
const HAS_ERROR: u8 = 8;
/// Stands in the skeleton for the item whose number is in `link`.
const ITEM: u8 = 16;
/// Is in an error node.
const IN_ERROR: u8 = 32;

/// What models and rules look for. Most nodes are none of it: finding these by going through all of them would take
/// most of the time of a check, so each item keeps a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notable {
    /// `function_definition`
    Function,
    /// `lambda_expression`
    Lambda,
    /// `compound_statement`
    Block,
    /// `for_statement`
    For,
    /// `for_range_loop`
    ForRange,
    /// `while_statement` or `do_statement`
    While,
    /// `if_statement`
    If,
    /// `switch_statement`
    Switch,
    /// `template_declaration`
    Template,
    /// `struct_specifier`, `class_specifier` or `union_specifier`
    Class,
    /// `enum_specifier`
    Enum,
    /// `enumerator`
    Enumerator,
    /// `declaration`
    Declaration,
    /// `field_declaration`
    Field,
    /// `alias_declaration` or `type_definition`
    Alias,
    /// `call_expression`
    Call,
    /// `assignment_expression`
    Assignment,
    /// `update_expression`
    Update,
    /// `pointer_expression`
    Pointer,
    /// `lambda_capture_specifier`
    Capture,
    /// `subscript_expression`
    Subscript,
    /// `return_statement`
    Return,
    /// `binary_expression`
    Binary,
    /// `gnu_asm_expression`
    Asm,
}

impl Notable {
    fn of(kind: &str) -> Option<Notable> {
        Some(match kind {
            "function_definition" => Notable::Function,
            "lambda_expression" => Notable::Lambda,
            "compound_statement" => Notable::Block,
            "for_statement" => Notable::For,
            "for_range_loop" => Notable::ForRange,
            "while_statement" | "do_statement" => Notable::While,
            "if_statement" => Notable::If,
            "switch_statement" => Notable::Switch,
            "template_declaration" => Notable::Template,
            "struct_specifier" | "class_specifier" | "union_specifier" => Notable::Class,
            "enum_specifier" => Notable::Enum,
            "enumerator" => Notable::Enumerator,
            "declaration" => Notable::Declaration,
            "field_declaration" => Notable::Field,
            "alias_declaration" | "type_definition" => Notable::Alias,
            "call_expression" => Notable::Call,
            "assignment_expression" => Notable::Assignment,
            "update_expression" => Notable::Update,
            "pointer_expression" => Notable::Pointer,
            "lambda_capture_specifier" => Notable::Capture,
            "subscript_expression" => Notable::Subscript,
            "return_statement" => Notable::Return,
            "binary_expression" => Notable::Binary,
            "gnu_asm_expression" => Notable::Asm,
            _ => return None,
        })
    }
}

/// One node. Nodes of a table stand in preorder: the first child follows its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Raw {
    kind: u16,
    field: u8,
    flags: u8,
    /// Bytes from the table's base.
    start: u32,
    end: u32,
    parent: u32,
    /// The node after this one's last descendant; for an [`ITEM`] the item's number.
    link: u32,
}

/// The nodes of one item.
#[derive(Debug, Eq, PartialEq)]
struct Table {
    nodes: Box<[Raw]>,
    /// Those that are [`Notable`], in order.
    notable: Box<[(u32, Notable)]>,
    /// Hashes of the names in it ([`word_hash`]), sorted, without repetition.
    words: Box<[u32]>,
}

#[derive(Clone, Debug)]
struct Item {
    /// Bytes from the start of the text.
    base: u32,
    /// Its place in the skeleton.
    slot: u32,
    table: Arc<Table>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |(a, b): (&Item, &Item)| (a.base, a.slot) == (b.base, b.slot) && a.table == b.table;
        self.items.len() == other.items.len() && self.items.iter().zip(&other.items).all(same)
    }
}

/// The tree of one text. The first table is the skeleton: the root, and what stands between it and the items.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    items: Vec<Item>,
    text: Arc<str>,
}

/// What an edit left as it was.
pub(crate) struct Unchanged<'a> {
    /// The tree before the edit.
    pub(crate) before: &'a Tree,
    /// Bytes at the start that both texts share.
    pub(crate) prefix: usize,
    /// Where the shared end begins in the new text.
    pub(crate) suffix: usize,
    /// New offset minus old offset, there.
    pub(crate) shift: isize,
    /// Ranges of the new text whose structure changed although their text may not have.
    pub(crate) restructured: Vec<Range<usize>>,
}

impl<'a> Unchanged<'a> {
    /// Where `node` started before, if the edit touched nothing of it.
    fn place(&self, node: tree_sitter::Node<'_>) -> Option<u32> {
        let (start, end) = (node.start_byte(), node.end_byte());
        let old = if end < self.prefix {
            start
        } else if start > self.suffix {
            start.checked_add_signed(self.shift.checked_neg()?)?
        } else {
            return None;
        };
        let at = self.restructured.partition_point(|r| r.end < start);
        if self.restructured.get(at).is_some_and(|r| r.start <= end) {
            return None;
        }
        u32::try_from(old).ok()
    }
    /// The item that started at `base`.
    fn item(&self, base: u32) -> Option<&'a Item> {
        let items = self.before.items.get(1..)?;
        items.get(items.binary_search_by_key(&base, |i| i.base).ok()?)
    }
    /// The table of the item `node`, if the edit did not touch it.
    fn table(&self, node: tree_sitter::Node<'_>) -> Option<Arc<Table>> {
        let item = self.item(self.place(node)?)?;
        let root = item.table.nodes.first()?;
        is_same(root, item.table.nodes.len(), node).then(|| item.table.clone())
    }
    /// The item that the edit made into `node`, to take from it what the edit did not touch.
    fn parts(&self, node: tree_sitter::Node<'_>) -> Option<Parts<'_>> {
        let start = node.start_byte();
        let item = self.item(u32::try_from(start).ok()?)?;
        (start < self.prefix).then_some(Parts {
            unchanged: self,
            item,
            next: 0,
        })
    }
}

/// Whether a node with `descendants` (itself included) is still what it was. Its text is known to be the same.
fn is_same(old: &Raw, descendants: usize, node: tree_sitter::Node<'_>) -> bool {
    (old.end - old.start) as usize == node.end_byte() - node.start_byte()
        && old.kind == node.kind_id()
        && descendants == node.descendant_count()
        && (old.flags & HAS_ERROR != 0) == node.has_error()
}

/// The nodes of an item before the edit, gone through once in order.
struct Parts<'a> {
    unchanged: &'a Unchanged<'a>,
    item: &'a Item,
    next: usize,
}

impl<'a> Parts<'a> {
    /// Below this many nodes, looking for them takes as long as copying them from the grammar.
    const WORTH: usize = 8;

    /// `node` as it was with all below it, and its index in the table.
    fn find(&mut self, node: tree_sitter::Node<'_>) -> Option<(&'a [Raw], u32)> {
        if node.descendant_count() < Self::WORTH {
            return None;
        }
        let start = self.unchanged.place(node)?.checked_sub(self.item.base)?;
        let nodes = &self.item.table.nodes;
        while let Some(old) = nodes.get(self.next) {
            let index = self.next;
            if old.start > start {
                return None;
            }
            let all = nodes.get(index..old.link as usize)?;
            if old.start == start && is_same(old, all.len(), node) {
                self.next += all.len();
                return Some((all, u32::try_from(index).ok()?));
            }
            self.next += 1;
        }
        None
    }
}

/// Kinds whose children are items or hold items.
fn holds_items(kind: &str) -> bool {
    matches!(
        kind,
        "translation_unit"
            | "namespace_definition"
            | "linkage_specification"
            | "declaration_list"
            | "preproc_if"
            | "preproc_ifdef"
            | "preproc_else"
            | "preproc_elif"
            | "preproc_elifdef"
    )
}

fn raw(cursor: &TreeCursor<'_>, node: tree_sitter::Node<'_>, base: u32, parent: u32) -> Raw {
    let kind = node.kind_id();
    let mut flags = 0;
    let named = NAMES.named.get(usize::from(kind)).copied();
    for (flag, on) in [
        (NAMED, named.unwrap_or(true)),
        (MISSING, node.is_missing()),
        (EXTRA, node.is_extra()),
        (HAS_ERROR, node.has_error()),
    ] {
        if on {
            flags |= flag;
        }
    }
    // Texts are at most MAX_BYTES long.
    let offset = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX).saturating_sub(base);
    Raw {
        kind,
        field: match NAMES.plain.get(usize::from(kind)) {
            Some(true) => 0,
            _ => cursor
                .field_id()
                .and_then(|id| u8::try_from(id.get()).ok())
                .unwrap_or(0),
        },
        flags,
        start: offset(node.start_byte()),
        end: offset(node.end_byte()),
        parent,
        link: 0,
    }
}

/// Copy the node under `cursor` and all below it; the cursor comes back to where it was.
fn table(cursor: &mut TreeCursor<'_>, text: &str, mut parts: Option<Parts<'_>>) -> Table {
    let root = cursor.node();
    let base = u32::try_from(root.start_byte()).unwrap_or(u32::MAX);
    let mut nodes = Vec::with_capacity(root.descendant_count());
    nodes.push(raw(cursor, root, base, 0));
    let mut above = Vec::new();
    let mut here = 0u32;
    // Whether what is below `here` is there already.
    let mut whole = false;
    'down: loop {
        if !whole && cursor.goto_first_child() {
            above.push(here);
        } else {
            loop {
                close(&mut nodes, here);
                let Some(&parent) = above.last() else {
                    break 'down;
                };
                if cursor.goto_next_sibling() {
                    break;
                }
                cursor.goto_parent();
                above.pop();
                here = parent;
            }
        }
        let parent = above.last().copied().unwrap_or(0);
        here = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut new = raw(cursor, cursor.node(), base, parent);
        if let Some(above) = nodes.get(parent as usize)
            && (above.kind == ERROR || above.flags & IN_ERROR != 0)
        {
            new.flags |= IN_ERROR;
        }
        let before = parts.as_mut().and_then(|p| p.find(cursor.node()));
        whole = before.is_some();
        nodes.push(new);
        if let Some(([old, below @ ..], index)) = before {
            let stays = (old.flags ^ new.flags) & IN_ERROR == 0;
            whole = stays;
            if stays {
                nodes.extend(below.iter().map(|n| Raw {
                    start: n.start - old.start + new.start,
                    end: n.end - old.start + new.start,
                    parent: n.parent - index + here,
                    link: n.link - index + here,
                    ..*n
                }));
            }
        }
    }
    let names = &*NAMES;
    let notable = nodes
        .iter()
        .zip(0u32..)
        .filter_map(|(n, i)| Some((i, (*names.notable.get(usize::from(n.kind))?)?)))
        .collect();
    let word = |n: &Raw| text.get((base + n.start) as usize..(base + n.end) as usize);
    let mut words: Vec<u32> = nodes
        .iter()
        .filter(|n| names.word.get(usize::from(n.kind)).is_some_and(|w| *w))
        .filter_map(|n| word(n).map(word_hash))
        .collect();
    words.sort_unstable();
    words.dedup();
    Table {
        nodes: nodes.into_boxed_slice(),
        notable,
        words: words.into_boxed_slice(),
    }
}

/// All descendants of `index` stand in the table.
fn close(nodes: &mut [Raw], index: u32) {
    let next = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if let Some(node) = nodes.get_mut(index as usize) {
        node.link = next;
    }
}

impl Tree {
    /// Copy `tree`, the tree of `text`; take from `unchanged` what the edit did not touch.
    pub(crate) fn new(
        tree: &tree_sitter::Tree,
        text: Arc<str>,
        unchanged: Option<&Unchanged<'_>>,
    ) -> Tree {
        let mut cursor = tree.walk();
        let mut skeleton = vec![raw(&cursor, cursor.node(), 0, 0)];
        let mut items = vec![Item {
            base: 0,
            slot: 0,
            table: Arc::new(Table {
                nodes: Box::default(),
                notable: Box::default(),
                words: Box::default(),
            }),
        }];
        let mut above = Vec::new();
        let mut here = 0u32;
        'down: loop {
            let inner = skeleton
                .get(here as usize)
                .is_some_and(|n| n.flags & ITEM == 0);
            if inner && cursor.goto_first_child() {
                above.push(here);
            } else {
                loop {
                    if skeleton
                        .get(here as usize)
                        .is_some_and(|n| n.flags & ITEM == 0)
                    {
                        close(&mut skeleton, here);
                    }
                    let Some(&parent) = above.last() else {
                        break 'down;
                    };
                    if cursor.goto_next_sibling() {
                        break;
                    }
                    cursor.goto_parent();
                    above.pop();
                    here = parent;
                }
            }
            let parent = above.last().copied().unwrap_or(0);
            here = u32::try_from(skeleton.len()).unwrap_or(u32::MAX);
            let node = cursor.node();
            let mut new = raw(&cursor, node, 0, parent);
            if node.child_count() > 0 && !holds_items(node.kind()) {
                new.flags |= ITEM;
                new.link = u32::try_from(items.len()).unwrap_or(u32::MAX);
                let table = unchanged.and_then(|u| u.table(node)).unwrap_or_else(|| {
                    let parts = unchanged.and_then(|u| u.parts(node));
                    Arc::new(table(&mut cursor, &text, parts))
                });
                items.push(Item {
                    base: new.start,
                    slot: here,
                    table,
                });
            }
            skeleton.push(new);
        }
        items[0].table = Arc::new(Table {
            nodes: skeleton.into_boxed_slice(),
            notable: Box::default(),
            words: Box::default(),
        });
        Tree { items, text }
    }

    /// The root; a tree always has one.
    pub(crate) fn root(&self) -> Node<'_> {
        Node {
            tree: self,
            item: 0,
            index: 0,
        }
    }

    fn raw(&self, item: u32, index: u32) -> Raw {
        const NOTHING: Raw = Raw {
            kind: ERROR,
            field: 0,
            flags: NAMED | HAS_ERROR,
            start: 0,
            end: 0,
            parent: 0,
            link: 0,
        };
        self.items
            .get(item as usize)
            .and_then(|i| i.table.nodes.get(index as usize))
            .copied()
            .unwrap_or(NOTHING)
    }

    fn base(&self, item: u32) -> u32 {
        self.items.get(item as usize).map_or(0, |i| i.base)
    }
}

/// FNV-1a in 32 bits: equal names have equal hashes, and the reverse is almost always true.
pub fn word_hash(word: &str) -> u32 {
    word.bytes().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}

/// A node of a [`crate::Document`]'s tree. Offsets are bytes of the text.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree,
    item: u32,
    index: u32,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.tree, other.tree) && self.id() == other.id()
    }
}
impl Eq for Node<'_> {}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind(), self.byte_range())
    }
}

impl<'t> Node<'t> {
    fn raw(self) -> Raw {
        self.tree.raw(self.item, self.index)
    }
    /// The node at `index` of the same table, or the item that stands for it.
    fn at(self, index: u32) -> Node<'t> {
        let raw = self.tree.raw(self.item, index);
        if raw.flags & ITEM != 0 {
            Node {
                tree: self.tree,
                item: raw.link,
                index: 0,
            }
        } else {
            Node { index, ..self }
        }
    }
    /// The place in the skeleton of an item's root; other nodes are their own place.
    fn placed(self) -> (u32, u32) {
        if self.index == 0 && self.item != 0 {
            let slot = self
                .tree
                .items
                .get(self.item as usize)
                .map_or(0, |i| i.slot);
            (0, slot)
        } else {
            (self.item, self.index)
        }
    }
    /// The entry after `index` and its descendants in the same table.
    fn after(self, item: u32, index: u32) -> u32 {
        let raw = self.tree.raw(item, index);
        if raw.flags & ITEM != 0 {
            index + 1
        } else {
            raw.link
        }
    }

    /// A number that no other node of the tree has.
    pub fn id(self) -> usize {
        ((self.item as usize) << 32) | self.index as usize
    }
    /// The grammar's name for what it is.
    pub fn kind(self) -> &'static str {
        match self.raw().kind {
            ERROR => "ERROR",
            id => NAMES.kinds.get(usize::from(id)).copied().unwrap_or(""),
        }
    }
    /// Its first byte.
    pub fn start_byte(self) -> usize {
        (self.tree.base(self.item) + self.raw().start) as usize
    }
    /// The byte after its last one.
    pub fn end_byte(self) -> usize {
        (self.tree.base(self.item) + self.raw().end) as usize
    }
    /// Its bytes.
    pub fn byte_range(self) -> Range<usize> {
        self.start_byte()..self.end_byte()
    }
    /// Its text, HIP words and code that is not compiled blanked.
    pub fn text(self) -> &'t str {
        self.tree.text.get(self.byte_range()).unwrap_or_default()
    }
    /// Whether the grammar has a name for it; tokens such as `+` have none.
    pub fn is_named(self) -> bool {
        self.raw().flags & NAMED != 0
    }
    /// Whether it is text that the grammar could make nothing of.
    pub fn is_error(self) -> bool {
        self.raw().kind == ERROR
    }
    /// Whether the grammar put it in where it was missing.
    pub fn is_missing(self) -> bool {
        self.raw().flags & MISSING != 0
    }
    /// Whether it stands in text that the grammar could make nothing of.
    pub fn is_in_error(self) -> bool {
        self.raw().flags & IN_ERROR != 0
    }
    /// Whether it may stand anywhere, as comments do.
    pub fn is_extra(self) -> bool {
        self.raw().flags & EXTRA != 0
    }
    /// Whether there is an error in it or below it.
    pub fn has_error(self) -> bool {
        self.raw().flags & HAS_ERROR != 0
    }
    /// The node that it is a child of.
    pub fn parent(self) -> Option<Node<'t>> {
        let (item, index) = self.placed();
        if index == 0 && item == 0 {
            return None;
        }
        let parent = self.tree.raw(item, index).parent;
        Some(Node {
            item,
            index: parent,
            ..self
        })
    }
    /// Its children in text order, unnamed ones included.
    pub fn children(self) -> Children<'t> {
        Children {
            next: self.index + 1,
            end: self.after(self.item, self.index),
            node: self,
        }
    }
    /// Its named children in text order.
    pub fn named_children(self) -> impl Iterator<Item = Node<'t>> {
        self.children().filter(|c| c.is_named())
    }
    /// Its children that stand in the given field, in text order.
    pub fn children_by_field_name(self, name: &str) -> impl Iterator<Item = Node<'t>> {
        let id = NAMES.fields.iter().position(|f| *f == name);
        let id = id.and_then(|id| u8::try_from(id).ok());
        let mut children = self.children();
        std::iter::from_fn(move || {
            while children.next < children.end {
                let field = self.tree.raw(self.item, children.next).field;
                let child = children.next()?;
                if Some(field) == id {
                    return Some(child);
                }
            }
            None
        })
    }
    /// The first child that stands in the given field.
    pub fn child_by_field_name(self, name: &str) -> Option<Node<'t>> {
        self.children_by_field_name(name).next()
    }
    /// How many children it has.
    pub fn child_count(self) -> usize {
        self.children().count()
    }
    /// The child of the given number.
    pub fn child(self, number: u32) -> Option<Node<'t>> {
        self.children().nth(number as usize)
    }
    /// How many named children it has.
    pub fn named_child_count(self) -> usize {
        self.named_children().count()
    }
    /// The named child of the given number.
    pub fn named_child(self, number: u32) -> Option<Node<'t>> {
        self.named_children().nth(number as usize)
    }
    /// The sibling after it.
    pub fn next_sibling(self) -> Option<Node<'t>> {
        let (item, index) = self.placed();
        if index == 0 {
            return None;
        }
        let parent = self.tree.raw(item, index).parent;
        let next = self.after(item, index);
        (next < self.after(item, parent)).then(|| Node { item, ..self }.at(next))
    }
    /// The sibling before it.
    pub fn prev_sibling(self) -> Option<Node<'t>> {
        let (item, index) = self.placed();
        let parent = self.tree.raw(item, index).parent;
        // The entry before is the sibling's last descendant, unless it is the parent.
        let mut at = index.checked_sub(1)?;
        if at == parent {
            return None;
        }
        loop {
            let above = self.tree.raw(item, at).parent;
            if above == parent {
                return Some(Node { item, ..self }.at(at));
            }
            at = (above < at).then_some(above)?;
        }
    }
    /// The named sibling after it.
    pub fn next_named_sibling(self) -> Option<Node<'t>> {
        std::iter::successors(self.next_sibling(), |n| n.next_sibling()).find(|n| n.is_named())
    }
    /// The named sibling before it.
    pub fn prev_named_sibling(self) -> Option<Node<'t>> {
        std::iter::successors(self.prev_sibling(), |n| n.prev_sibling()).find(|n| n.is_named())
    }
    /// The node itself and all below it, parents before their children, in text order.
    pub fn descendants(self) -> Descendants<'t> {
        Descendants {
            next: Some(self),
            root: self,
        }
    }
    /// The node itself and all below it that are [`Notable`], parents before their children, in text order.
    pub fn notable(self) -> impl Iterator<Item = (Notable, Node<'t>)> {
        let tree = self.tree;
        // Between items stands nothing notable.
        let items = if self.item == 0 {
            let end = self.end_byte();
            let from = tree.items.partition_point(|i| i.base < self.raw().start);
            let to = tree.items.partition_point(|i| (i.base as usize) < end);
            from.max(1)..to.max(from).max(1)
        } else {
            self.item()..self.item() + 1
        };
        let (from, to) = match self.item {
            0 => (0, u32::MAX),
            _ => (self.index, self.raw().link),
        };
        items.flat_map(move |number| {
            let all = tree.items.get(number).map(|i| &*i.table.notable);
            let all = all.unwrap_or_default();
            let item = u32::try_from(number).unwrap_or(u32::MAX);
            let first = all.partition_point(|(i, _)| *i < from);
            all.iter()
                .skip(first)
                .take_while(move |(i, _)| *i < to)
                .map(move |(index, what)| {
                    (
                        *what,
                        Node {
                            tree,
                            item,
                            index: *index,
                        },
                    )
                })
        })
    }
    /// The smallest node at or below it that spans the bytes.
    pub fn descendant_for_byte_range(self, start: usize, end: usize) -> Option<Node<'t>> {
        if start > end || start < self.start_byte() || end > self.end_byte() {
            return None;
        }
        let mut node = self;
        loop {
            if node.item == 0
                && let Some(item) = self.item_over(start, end)
                && (node.index == 0 || node.start_byte() <= item.start_byte())
            {
                node = item;
            }
            let spans = |c: &Node<'_>| c.end_byte() >= end && c.end_byte() > start;
            match node.children().find(spans) {
                Some(child) if child.start_byte() <= start => node = child,
                _ => return Some(node),
            }
        }
    }
    /// The item that spans the bytes, if one does: a text can have thousands.
    fn item_over(self, start: usize, end: usize) -> Option<Node<'t>> {
        let items = self.tree.items.get(1..)?;
        let at = items.partition_point(|i| i.base as usize <= start);
        let node = Node {
            tree: self.tree,
            item: u32::try_from(at).ok()?,
            index: 0,
        };
        (at > 0 && node.end_byte() >= end && node.end_byte() > start).then_some(node)
    }

    /// Hashes ([`word_hash`]) of the names in the item that the node stands in, sorted, without repetition.
    pub fn words_of_item(self) -> &'t [u32] {
        let item = self.tree.items.get(self.item as usize);
        item.map_or(&[], |i| &i.table.words)
    }
    /// The number of the item that the node stands in, 0 for what stands between items. Items are numbered in text order.
    pub fn item(self) -> usize {
        self.item as usize
    }
}

/// The children of a node.
#[derive(Clone, Debug)]
pub struct Children<'t> {
    node: Node<'t>,
    next: u32,
    end: u32,
}

impl<'t> Iterator for Children<'t> {
    type Item = Node<'t>;
    fn next(&mut self) -> Option<Node<'t>> {
        if self.next >= self.end {
            return None;
        }
        let child = self.node.at(self.next);
        self.next = self.node.after(self.node.item, self.next);
        Some(child)
    }
}

/// A node and all below it.
#[derive(Clone, Debug)]
pub struct Descendants<'t> {
    next: Option<Node<'t>>,
    root: Node<'t>,
}

impl<'t> Descendants<'t> {
    /// Leave out what is below `node`, the one that was given last.
    pub fn skip_below(&mut self, node: Node<'t>) {
        self.next = self.from(node.item, node.after(node.item, node.index));
    }
    /// The node at `index` of a table, or what follows the table's item.
    fn from(&self, item: u32, index: u32) -> Option<Node<'t>> {
        let Node { tree, .. } = self.root;
        let root = self.root;
        let (mut item, mut index) = (item, index);
        if item != root.item {
            let of = tree.items.get(item as usize)?;
            if (index as usize) < of.table.nodes.len() {
                return Some(Node { tree, item, index });
            }
            (item, index) = (0, of.slot + 1);
        }
        (index < root.after(root.item, root.index)).then(|| {
            Node {
                tree,
                item,
                index: 0,
            }
            .at(index)
        })
    }
}

impl<'t> Iterator for Descendants<'t> {
    type Item = Node<'t>;
    fn next(&mut self) -> Option<Node<'t>> {
        let node = self.next?;
        self.next = self.from(node.item, node.index + 1);
        Some(node)
    }
}
