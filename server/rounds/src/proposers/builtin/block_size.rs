//! Constants that set block and tile sizes are tried at double and at half their value.
//!
//! **Does.** For a `#define` or `constexpr` with a literal value that decides the kernel's block (or that the kernel uses
//! as a power-of-two tile size), the literal is replaced; the launch follows because it is written with the same name.
//!
//! **Legal when** no other device code mentions the constant; the block of every launch in the new text is known, at most
//! the target's limit and a multiple of 64; LDS still fits; and each axis of the grid either does not mention the constant
//! or divides by it, rounding up. That the kernel is right for any block size is the verifier's question.
//!
//! **Expected.** Tile sizes fitted to LDS and registers are worth 50-100 % in the field report, where CUDA's choices were
//! bad; a neighbouring size of a sane one a few per cent at most.

use super::code::{Code, Constant, words};
use super::edit::Edits;
use super::read::{axes, document};
use super::{Idea, Kind};
use crate::proposer::LaunchChange;

use hipsmith_syntax::{Document, Scope};

/// The rewrite: up to two neighbours for each constant.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    let mut ideas = Vec::new();
    if code.proved_block().is_none() {
        return ideas;
    }
    let before = document(code.text, code.target);
    for (name, constant) in &code.constants {
        if constant.value < 2 || !u64::try_from(constant.value).is_ok_and(u64::is_power_of_two) {
            continue;
        }
        for new in [constant.value.checked_mul(2), Some(constant.value / 2)] {
            ideas.extend(new.and_then(|new| neighbour(code, &before, name, constant, new)));
        }
    }
    ideas
}

fn neighbour(
    code: &Code,
    before: &Document,
    name: &str,
    constant: &Constant,
    new: i64,
) -> Option<Idea> {
    let literal = constant.literal.clone()?;
    let mut edits = Edits::default();
    edits.replace(literal, new.to_string());
    let new_text = edits.apply(code.text)?;

    let after = document(&new_text, code.target);
    let (old_index, new_index) = (
        before.model().kernel(&code.name)?,
        after.model().kernel(&code.name)?,
    );
    // Other device code with the same constant would change unseen.
    for (i, other) in before.model().functions.iter().enumerate() {
        if i != old_index
            && other.is_device()
            && words(before.slice(other.range.clone())).any(|w| w == name)
        {
            return None;
        }
    }
    let blocks = |d: &Document, k: usize| -> Option<[u32; 3]> {
        match d.model().block_shapes(k).as_slice() {
            [one] => axes(*one),
            _ => None,
        }
    };
    let (old_block, new_block) = (blocks(before, old_index)?, blocks(&after, new_index)?);
    if old_block != code.dispatch.block {
        return None;
    }
    let threads: u32 = new_block.iter().try_fold(1u32, |p, n| p.checked_mul(*n))?;
    if threads > code.target.exec.max_workgroup || !threads.is_multiple_of(code.target.wave_size) {
        return None;
    }
    for instance in after.model().instances(new_index) {
        let bytes = after.model().static_lds(new_index, &instance).bytes?;
        if bytes > u64::from(code.target.lds.max_bytes_per_workgroup) {
            return None;
        }
    }
    let scale = grid_scale(before, old_index, name, constant.value, new)?;
    let launch = LaunchChange {
        block: new_block,
        grid_scale: scale,
        dynamic_lds: None,
    };
    let unchanged = new_block == old_block && scale == [(1, 1); 3];
    let shape = |b: [u32; 3]| format!("{} x {} x {}", b[0], b[1], b[2]);
    let what = if new_block == old_block {
        format!(
            "the kernel is sized by `{name}` = {}; {new} may fit registers and LDS better",
            constant.value
        )
    } else {
        format!(
            "the block is {} because `{name}` = {}; {} ({name} = {new}) has another share of idle lanes, barriers and LDS",
            shape(old_block),
            constant.value,
            shape(new_block)
        )
    };
    Some(Idea {
        id: format!("constant/{name}={new}"),
        kind: Kind::Shape,
        what,
        expected: 1.05,
        new_text,
        launch: (!unchanged).then_some(launch),
    })
}

/// How each axis of the grid follows the constant, if the launch says so plainly.
fn grid_scale(
    document: &Document,
    kernel: usize,
    name: &str,
    old: i64,
    new: i64,
) -> Option<[(u32, u32); 3]> {
    let model = document.model();
    let mut result: Option<[(u32, u32); 3]> = None;
    for launch in model.launches_of(kernel) {
        let mut scale = [(1, 1); 3];
        let axes = axis_texts(
            document,
            name,
            &launch.grid_expr.text,
            launch.range.start,
            0,
        );
        for (axis, slot) in axes.iter().zip(scale.iter_mut()) {
            if !words(axis).any(|w| w == name) {
                // A number that the constant decides in some hidden way would still change.
                continue;
            }
            let t: String = axis.chars().filter(|c| !c.is_whitespace()).collect();
            let rounds_up = t.ends_with(&format!("+{name}-1)/{name}"))
                || t.ends_with(&format!("-1+{name})/{name}"));
            let bare = t
                .strip_suffix(&format!("/{name}"))
                .is_some_and(|x| !words(x).any(|w| w == name) && !x.contains([',', '?']));
            let counted = t.matches(name).count() == if rounds_up { 2 } else { 1 };
            if !(rounds_up || bare) || !counted {
                return None;
            }
            *slot = (u32::try_from(old).ok()?, u32::try_from(new).ok()?);
            let [n, d] = reduce(slot.0, slot.1);
            *slot = (n, d);
        }
        if result.is_some_and(|r| r != scale) {
            return None;
        }
        result = Some(scale);
    }
    result
}

/// The expressions of a grid's axes, variables followed to what they were initialised with.
fn axis_texts(document: &Document, name: &str, text: &str, at: usize, depth: u32) -> Vec<String> {
    let model = document.model();
    let text = text.trim();
    let follow = |t: &str| -> Option<(String, String)> {
        let v = model.variable_at(t, at)?;
        Some((v.ty.base.clone(), v.init.as_ref()?.text.clone()))
    };
    if depth > 4 {
        return vec![text.to_owned()];
    }
    if text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && model.eval(text, &Scope::file()).is_none()
    {
        return match follow(text) {
            Some((ty, init)) if ty == "dim3" => {
                split_arguments(init.trim().trim_start_matches("dim3"))
                    .iter()
                    .flat_map(|a| {
                        axis_texts(document, name, a, at, depth + 1)
                            .into_iter()
                            .next()
                    })
                    .collect()
            }
            Some((_, init)) => axis_texts(document, name, &init, at, depth + 1),
            None => vec![text.to_owned()],
        };
    }
    if let Some(arguments) = text.strip_prefix("dim3") {
        return split_arguments(arguments)
            .iter()
            .flat_map(|a| {
                axis_texts(document, name, a, at, depth + 1)
                    .into_iter()
                    .next()
            })
            .collect();
    }
    // `blocks > 0 ? blocks : 1` and the like: that a part follows the constant must show.
    let mut whole = text.to_owned();
    for word in words(text) {
        if let Some((_, init)) = follow(word)
            && words(&init).any(|w| w == name)
        {
            whole.push_str(&format!(" /* {init} */"));
        }
    }
    vec![whole]
}

/// The top-level arguments of `(a, b(c, d))`, brackets optional.
fn split_arguments(text: &str) -> Vec<String> {
    let text = text.trim();
    let inner = text
        .strip_prefix(['(', '{'])
        .and_then(|t| t.strip_suffix([')', '}']))
        .unwrap_or(text);
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in inner.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.iter().map(|p| p.trim().to_owned()).collect()
}

fn reduce(a: u32, b: u32) -> [u32; 2] {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    [a / x.max(1), b / x.max(1)]
}
