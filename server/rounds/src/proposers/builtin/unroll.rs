//! The innermost loop is unrolled four times.
//!
//! **Does.** `#pragma unroll 4` before each innermost `for` that has no pragma.
//!
//! **Legal** always: the pragma changes no meaning.
//!
//! **Expected.** Nothing (1.0x): Clang's own unrolling is usually better, and hard unrolling past the instruction cache
//! is a known dead end. It is cheap to try where all else is done.

use super::code::{Code, all};
use super::edit::{Edits, indent_at};
use super::{Idea, Kind};

/// The rewrite.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    let mut edits = Edits::default();
    let mut lines = Vec::new();
    for node in all(code.body).filter(|n| n.kind() == "for_statement") {
        let inner = all(node).skip(1).any(|n| {
            matches!(
                n.kind(),
                "for_statement" | "while_statement" | "do_statement" | "for_range_loop"
            )
        });
        let hinted = node
            .prev_named_sibling()
            .is_some_and(|p| p.kind() == "preproc_call");
        let starts_line = code
            .text
            .get(..node.start_byte())
            .is_some_and(|t| t.trim_end_matches([' ', '\t']).ends_with('\n'));
        let in_block = node
            .parent()
            .is_some_and(|p| p.kind() == "compound_statement");
        if inner || hinted || !starts_line || !in_block || code.norm(node).contains("__syncthreads")
        {
            continue;
        }
        edits.insert(
            node.start_byte(),
            format!(
                "#pragma unroll 4\n{}",
                indent_at(code.text, node.start_byte())
            ),
        );
        lines.push(code.line_of(node).to_string());
    }
    let Some(new_text) = (!lines.is_empty())
        .then(|| edits.apply(code.text))
        .flatten()
    else {
        return Vec::new();
    };
    vec![Idea {
        id: "unroll/4".to_owned(),
        kind: Kind::Hint,
        what: format!(
            "the loop in line {} may leave latency uncovered; four iterations at once may hide it, though the \
             compiler's own choice is usually as good",
            lines.join(" and ")
        ),
        expected: 1.0,
        new_text,
        launch: None,
    }]
}
