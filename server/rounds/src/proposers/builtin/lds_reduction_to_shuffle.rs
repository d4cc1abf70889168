//! A tree reduction through LDS becomes 64-lane shuffles and one LDS slot a wavefront.
//!
//! **Does.** `sh[tid] = v; barrier; for (s = block / 2; s > 0; s /= 2) { if (tid < s) sh[tid] += sh[tid + s]; barrier; }`
//! with `sh[0]` read afterwards becomes six `__shfl_xor` steps in registers, one store a wavefront, one barrier, and a
//! short loop in which every thread joins the slots.
//!
//! **Legal when** the block is proved from the file's launches to be one-dimensional, a power of two and between one
//! wavefront and 1024 threads (so all 64 lanes take part in each shuffle); the kernel reaches the tree with all
//! threads (a barrier stands there, and no thread-dependent return before it); the operation is `+`, `max` or `min`;
//! and the array's only later use is its first slot. A sum is added in another order: results differ within rounding,
//! which the verifier's tolerance judges.
//!
//! **Expected.** A tree of 256 threads has nine barriers and eight LDS round trips; this has one of each. The field
//! report names wavefront shuffles among what worked, without a figure; the gain is that share of the kernel's time.

use super::code::{Code, Level, all, sibling};
use super::edit::{Edits, indent_at, indent_unit, lay_out};
use super::reduction::{Tree, WavePart, is_barrier, trees, wave_code};
use super::{Idea, Kind, fresh_ok};

/// The rewrite.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    let mut edits = Edits::default();
    let mut barriers = 0;
    let found = trees(code);
    let mut changed: Vec<&Tree> = Vec::new();
    for tree in &found {
        if let Some(saved) = one(code, tree, &found, &mut edits) {
            barriers += saved;
            changed.push(tree);
        }
    }
    let Some(new_text) = (!changed.is_empty())
        .then(|| edits.apply(code.text))
        .flatten()
    else {
        return Vec::new();
    };
    let mut arrays: Vec<String> = changed
        .iter()
        .flat_map(|t| t.leaves.iter().map(|l| format!("`{}`", l.array)))
        .collect();
    arrays.dedup();
    let arrays = arrays.join(" and ");
    vec![Idea {
        id: "lds-reduction-to-shuffle".to_owned(),
        kind: Kind::Barriers,
        what: format!(
            "the tree reduction over {arrays} goes through LDS with {barriers} barriers a workgroup; \
             six shuffles in each wavefront and one LDS slot a wavefront need {}",
            changed.len()
        ),
        expected: 1.15,
        new_text,
        launch: None,
    }]
}

/// Add the edits for one tree; gives the number of barriers it had.
fn one(code: &Code, tree: &Tree, all_trees: &[Tree], edits: &mut Edits) -> Option<u32> {
    let block = code.proved_block()?[0];
    let scope = tree
        .steps
        .parent()
        .filter(|p| p.kind() == "compound_statement")?;
    if code.reached_by(tree.steps) > Level::Block {
        return None;
    }
    let in_loop = {
        let mut at = tree.steps;
        let mut found = false;
        while let Some(parent) = at.parent() {
            found |= matches!(
                parent.kind(),
                "for_statement" | "while_statement" | "do_statement"
            );
            if parent.id() == code.body.id() {
                break;
            }
            at = parent;
        }
        found
    };
    let range = tree.range();
    let mut again = in_loop;
    let mut parts = Vec::new();
    let mut own = Vec::new();
    for leaf in &tree.leaves {
        let shared = code.shared(&leaf.array)?;
        if !shuffles(code, &shared.element) {
            return None;
        }
        let over_this: Vec<_> = all_trees
            .iter()
            .filter(|t| t.leaves.iter().any(|l| l.array == leaf.array))
            .map(Tree::range)
            .collect();
        let nth = over_this.iter().filter(|r| r.start < range.start).count();
        let part = WavePart {
            array: leaf.array.clone(),
            element: shared.element.clone(),
            op: leaf.op.clone(),
            value: code.str(leaf.value).to_owned(),
            nth: if nth == 0 {
                String::new()
            } else {
                (nth + 1).to_string()
            },
        };
        if !fresh_ok(code, &[&part.lane(), &part.total()]) {
            return None;
        }
        // Before the next one fills the array, every thread must have read its slots.
        let next = over_this
            .iter()
            .map(|r| r.start)
            .filter(|s| *s > range.start)
            .min();
        let separated = std::iter::successors(sibling(tree.steps, true), |n| sibling(*n, true))
            .take_while(|n| next.is_some_and(|next| n.start_byte() < next))
            .any(|n| is_barrier(code, n));
        again |= next.is_some() && !separated;
        for node in
            all(code.body).filter(|n| n.kind() == "identifier" && code.str(*n) == leaf.array)
        {
            let at = node.start_byte();
            if shared.range.contains(&at) || over_this.iter().any(|r| r.contains(&at)) {
                continue;
            }
            // A read belongs to the last reduction before it; only the first slot may be read, none written.
            let owner = over_this
                .iter()
                .filter(|r| r.end <= at)
                .max_by_key(|r| r.end)?;
            let read = node.parent().filter(|p| {
                p.kind() == "subscript_expression"
                    && code
                        .subscript_index(*p)
                        .is_some_and(|i| code.norm(i) == "0")
            })?;
            let written = code
                .writes(&leaf.array)
                .any(|w| w.node.byte_range().contains(&at));
            if written {
                return None;
            }
            if *owner == range {
                if !scope.byte_range().contains(&at) {
                    return None;
                }
                own.push((read.byte_range(), part.total()));
            }
        }
        parts.push(part);
    }
    for (read, total) in own {
        edits.replace(read, total);
    }
    let waves = parts
        .iter()
        .filter_map(|p| code.shared(&p.array))
        .find_map(|s| match s.dims.as_slice() {
            [(text, Some(n))] if *n == u64::from(block) => code
                .text
                .get(text.clone())
                .filter(|t| {
                    t.chars().all(|c| c.is_alphanumeric() || c == '_')
                        && code.constants.contains_key(*t)
                })
                .map(|t| format!("{t} / 64")),
            _ => None,
        })
        .unwrap_or_else(|| "blockDim.x / 64".to_owned());
    let mut lines =
        String::from("// 64 lanes reduce in registers; each wavefront leaves one value in LDS.\n");
    lines.push_str(&wave_code(&parts, &tree.tid, &waves));
    if again {
        lines.push_str("__syncthreads();\n");
    }
    let unit = indent_unit(code.text.get(code.body.byte_range())?);
    let base = indent_at(code.text, range.start);
    edits.replace(range, lay_out(lines.trim_end(), base, &unit));
    Some(block.ilog2() + 1)
}

/// Whether `__shfl_xor` takes the type.
fn shuffles(code: &Code, element: &str) -> bool {
    let known = |t: &str| {
        matches!(
            t.trim(),
            "float"
                | "double"
                | "int"
                | "unsigned"
                | "unsigned int"
                | "uint32_t"
                | "int32_t"
                | "long long"
                | "unsigned long long"
                | "long"
                | "unsigned long"
        )
    };
    if code.template_params.iter().any(|t| t == element) {
        // Every instantiation must be known: the file's launches name them.
        let position = code.template_params.iter().position(|t| t == element);
        return !code.launches.is_empty()
            && code.launches.iter().all(|l| {
                position
                    .and_then(|p| l.template_args.get(p))
                    .is_some_and(|t| known(t))
            });
    }
    known(element)
}
