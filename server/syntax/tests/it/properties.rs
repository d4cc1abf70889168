//! What must hold for any text and any edits.

use std::ops::Range;

use hipsmith_syntax::{Document, Edit, Encoding, MarkKind, MaskConfig, Position, lex, mask};
use proptest::prelude::*;
use tree_sitter::{Parser, Tree};

/// Pieces that HIP text is made of, the awkward ones included.
const PIECES: &[&str] = &[
    "__global__ ",
    "__device__ __forceinline__ ",
    "__shared__ float s[64];\n",
    "extern __shared__ ",
    "HIP_DYNAMIC_SHARED(float, buf);\n",
    "HIP_DYNAMIC_SHARED(",
    "__launch_bounds__(256, 2) ",
    "__launch_bounds__(",
    "__attribute__((amdgpu_waves_per_eu(2, 4))) ",
    "__attribute__((annotate(\"a)b\"))) ",
    "void k(float *__restrict__ x, int n) {\n",
    "template <int B, typename T = float>\n",
    "k<<<g, b>>>(x);\n",
    "k<256, float><<<dim3(g, 1), dim3(b), 0, s>>>(x, n);\r\n",
    "<<<",
    ">>>",
    ">>>(",
    "int i = threadIdx.x + blockIdx.x * blockDim.x;\n",
    "if (i < n) { x[i] = s[i & 31]; }\n",
    "}\n",
    "{",
    "(",
    ")",
    ";",
    "\"a string with __shared__ and <<<\"",
    "'\\''",
    "1'000'000",
    "R\"x( raw __global__ \" )x\"",
    "// comment __device__ <<< don't\n",
    "/* block \n __shared__ */",
    "/*",
    "\"",
    "'",
    "#define N 64\n",
    "#define HD __host__ __device__\n",
    "HD ",
    "#if 0\nwhat isn't code\n#endif\n",
    "#ifdef __CUDA_ARCH__\nint a;\n#else\nint b;\n#endif\n",
    "#if ",
    "#else\n",
    "#endif\n",
    "\\\n",
    "\r\n",
    "\n",
    " ",
    "é",
    "😀",
    "\u{2028}",
    "x",
    "0",
    "__syncthreads();\n",
];

fn hip_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES), 0..40).prop_map(|p| p.concat())
}

/// Literals and comments of a text outside the arguments of masked words.
fn untouchable(text: &str, marks: &[hipsmith_syntax::Mark]) -> Vec<Range<usize>> {
    lex::tokens(text)
        .into_iter()
        .filter(|t| matches!(t.kind, lex::TokenKind::Str | lex::TokenKind::Char))
        .map(|t| t.range)
        .filter(|r| {
            !marks.iter().any(|m| {
                m.kind != MarkKind::Launch && m.range.start <= r.start && r.end <= m.range.end
            })
        })
        .collect()
}

fn breaks(text: &str) -> Vec<(usize, u8)> {
    text.bytes()
        .enumerate()
        .filter(|(_, b)| matches!(b, b'\n' | b'\r'))
        .collect()
}

fn check_mask(text: &str) -> Result<(), TestCaseError> {
    let config = MaskConfig::default();
    let masked = mask(text, &config);
    prop_assert_eq!(masked.text.len(), text.len());
    prop_assert_eq!(breaks(&masked.text), breaks(text));
    for r in untouchable(text, &masked.marks) {
        prop_assert_eq!(&masked.text[r.clone()], &text[r]);
    }
    // Everything outside the marks is untouched, so comments are too.
    let mut may_change = vec![false; text.len()];
    for m in &masked.marks {
        let all = m.range.clone();
        let parts = match m.kind {
            MarkKind::Launch => vec![all.start..all.start + 3, all.end - 3..all.end],
            _ => vec![all],
        };
        for part in parts {
            may_change[part].fill(true);
        }
    }
    for (i, (a, b)) in text.bytes().zip(masked.text.bytes()).enumerate() {
        prop_assert!(a == b || may_change[i], "byte {} was changed", i);
    }
    Ok(())
}

/// The document's nodes are the grammar's, and every way from one to another leads there.
fn same_tree(doc: &Document, grammar: &Tree) -> Result<(), TestCaseError> {
    let mut cursor = grammar.walk();
    let mut ours = doc.root().descendants();
    'nodes: loop {
        let (theirs, Some(node)) = (cursor.node(), ours.next()) else {
            return Err(TestCaseError::fail("nodes are missing"));
        };
        prop_assert_eq!(node.kind(), theirs.kind());
        prop_assert_eq!(node.byte_range(), theirs.byte_range());
        prop_assert_eq!(node.is_missing(), theirs.is_missing());
        prop_assert_eq!(node.is_named(), theirs.is_named());
        prop_assert_eq!(node.is_extra(), theirs.is_extra());
        prop_assert_eq!(node.is_error(), theirs.is_error());
        prop_assert_eq!(node.has_error(), theirs.has_error());
        prop_assert_eq!(node.child_count(), theirs.child_count() as usize);
        prop_assert_eq!(node.named_child_count(), theirs.named_child_count());
        if let Some(field) = cursor.field_name() {
            let parent = node.parent();
            prop_assert!(
                parent.is_some_and(|p| p.children_by_field_name(field).any(|c| c == node))
            );
        }
        let children: Vec<_> = node.children().collect();
        for (i, child) in children.iter().enumerate() {
            prop_assert_eq!(child.parent(), Some(node));
            prop_assert_eq!(child.next_sibling(), children.get(i + 1).copied());
            prop_assert_eq!(child.prev_sibling(), i.checked_sub(1).map(|i| children[i]));
        }
        // An error node has parts of what it was going to be; only the cursor tells their fields.
        let fields = [
            "declarator",
            "body",
            "value",
            "type",
            "name",
            "arguments",
            "condition",
        ];
        for field in fields.into_iter().filter(|_| !node.is_error()) {
            prop_assert_eq!(
                node.child_by_field_name(field).map(|c| c.byte_range()),
                theirs.child_by_field_name(field).map(|c| c.byte_range())
            );
        }
        // Of an empty range, the grammar takes missing nodes.
        let (start, end) = (node.start_byte(), node.end_byte());
        if start < end {
            let (root, top) = (doc.root(), grammar.root_node());
            prop_assert_eq!(
                root.descendant_for_byte_range(start, end)
                    .map(|n| (n.kind(), n.byte_range())),
                top.descendant_for_byte_range(start, end)
                    .map(|n| (n.kind(), n.byte_range()))
            );
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'nodes;
            }
        }
    }
    prop_assert!(ours.next().is_none());
    Ok(())
}

fn fresh(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser
        .set_language(&hipsmith_syntax::language())
        .expect("the grammar loads");
    parser.parse(text, None).expect("an unlimited parse ends")
}

/// A place in a text as an editor gives it, from a fraction of its length.
fn boundary(text: &str, fraction: f64) -> usize {
    text.floor_char_boundary((text.len() as f64 * fraction) as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn mask_keeps_its_promises(text in hip_text()) {
        check_mask(&text)?;
    }

    #[test]
    fn mask_is_idempotent(text in hip_text()) {
        let config = MaskConfig::default();
        let once = mask(&text, &config).text;
        prop_assert_eq!(&mask(&once, &config).text, &once);
    }

    #[test]
    fn mask_takes_any_text(text in "\\PC{0,200}") {
        check_mask(&text)?;
    }

    /// The document's tree after any edits is the tree of its text; the model is built on the way.
    #[test]
    fn incremental_equals_fresh(
        text in hip_text(),
        edits in proptest::collection::vec((0.0f64..1.0, 0.0f64..0.2, proptest::sample::select(PIECES)), 1..8),
    ) {
        let mut doc = Document::new(text);
        for (version, (at, len, piece)) in edits.into_iter().enumerate() {
            let start = boundary(doc.text(), at);
            let end = boundary(doc.text(), (at + len).min(1.0));
            let mut want = doc.text().to_owned();
            want.replace_range(start..end, piece);
            doc.apply(&[Edit { range: start..end, text: piece.to_owned() }], version as i32);
            prop_assert_eq!(doc.text(), &want);
            prop_assert_eq!(doc.masked().len(), want.len());
            prop_assert_eq!(breaks(doc.masked()), breaks(&want));
            if !doc.is_settled() {
                doc.settle();
            }
            same_tree(&doc, &fresh(doc.masked()))?;
            let again = Document::new(want);
            prop_assert_eq!(doc.masked(), again.masked());
            prop_assert_eq!(&doc.model().functions, &again.model().functions);
            prop_assert_eq!(&doc.model().shared, &again.model().shared);
            prop_assert_eq!(&doc.model().launches, &again.model().launches);
        }
    }

    /// Positions there and back, in both encodings, with CRLF and characters of any width; an edit by positions is the
    /// edit by bytes.
    #[test]
    fn positions_there_and_back(text in hip_text(), at in 0.0f64..1.0, to in 0.0f64..1.0) {
        let doc = Document::new(text.clone());
        let (a, b) = (boundary(&text, at.min(to)), boundary(&text, at.max(to)));
        for encoding in [Encoding::Utf8, Encoding::Utf16] {
            let position = |offset: usize| {
                let before = &text[..offset];
                let line = before.matches('\n').count() as u32;
                let tail = &before[before.rfind('\n').map_or(0, |p| p + 1)..];
                let column = match encoding {
                    Encoding::Utf8 => tail.len(),
                    Encoding::Utf16 => tail.encode_utf16().count(),
                } as u32;
                Position { line, column }
            };
            for offset in [a, b] {
                prop_assert_eq!(doc.position(offset, encoding), position(offset));
                // Between `\r` and `\n` there is no place for a cursor.
                let inside_break = text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                if !inside_break && !text[..offset].ends_with('\r') {
                    prop_assert_eq!(doc.offset(position(offset), encoding), offset);
                }
            }
            let clean = |o: usize| !text[..o].ends_with('\r');
            if clean(a) && clean(b) {
                let mut edited = doc.clone();
                edited.apply_positions(&[(Some((position(a), position(b))), "é")], encoding, 1);
                let mut want = text.clone();
                want.replace_range(a..b, "é");
                prop_assert_eq!(edited.text(), want);
            }
        }
        // Far outside is the nearest place inside.
        let far = Position { line: u32::MAX, column: u32::MAX };
        prop_assert_eq!(doc.offset(far, Encoding::Utf16), text.len());
        prop_assert_eq!(doc.position(usize::MAX, Encoding::Utf8), doc.position(text.len(), Encoding::Utf8));
    }

    #[test]
    fn any_bytes_make_a_document(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let doc = Document::new(text.clone());
        let _ = doc.model();
        check_mask(&text)?;
        let _ = hipsmith_syntax::is_hip(&text, "a.cpp");
    }

    #[test]
    fn edits_out_of_bounds_are_clamped(text in hip_text(), start in 0usize..500, end in 0usize..500) {
        let mut doc = Document::new(text);
        doc.apply(&[Edit { range: start..end, text: "é".into() }], 2);
        prop_assert_eq!(doc.version(), 2);
        doc.settle();
        same_tree(&doc, &fresh(doc.masked()))?;
    }
}

#[test]
fn deep_nesting_and_large_texts() {
    for piece in [
        "(",
        "{",
        "[",
        "a<",
        "#if 1\n",
        "<<<",
        "/*",
        "\"",
        "__attribute__((",
        "!",
    ] {
        let doc = Document::new(piece.repeat(3_000));
        let _ = doc.model();
    }
    let large = Document::new("int a;\n".repeat(hipsmith_syntax::MAX_BYTES / 7 + 1));
    assert!(!large.is_parsed());
    assert!(large.model().functions.is_empty());
    assert!(Document::new("int a;").is_parsed());
}
