//! Kernels and device functions that the grammar lost in an error, read from the tokens around their HIP word.

use std::ops::Range;
use std::sync::OnceLock;

use crate::lex::{Token, TokenKind, matching_close_within, split_arguments, tokens};
use crate::mask::{Mark, MarkKind};

use super::classes::template_params;
use super::{Expr, Function, FunctionKind, Model, Param, SharedArray, Type, Variable};

/// How long a function's head can be.
const HEAD_LIMIT: usize = 4 << 10;
/// How far the end of a lost function's body is looked for.
const BODY_LIMIT: usize = 256 << 10;

/// Add the functions whose `__global__` or `__device__` belongs to none that is known.
pub(super) fn recover(model: &mut Model, masked: &str, marks: &[Mark]) {
    let mut known: Vec<Range<usize>> = model.functions.iter().map(|f| f.range.clone()).collect();
    known.sort_by_key(|r| r.start);
    let mut lost: Vec<&Mark> = Vec::new();
    for mark in marks {
        if !matches!(mark.kind, MarkKind::Global | MarkKind::Device) {
            continue;
        }
        let at = known.partition_point(|r| r.start <= mark.range.start);
        let inside = at
            .checked_sub(1)
            .and_then(|i| known.get(i))
            .is_some_and(|r| r.end > mark.range.start);
        if !inside {
            lost.push(mark);
        }
    }
    let mut from = 0;
    // Each is looked at over a bounded length; more than these hold no function anyhow.
    for mark in lost.into_iter().take(2000) {
        if mark.range.start < from {
            continue;
        }
        if let Some(f) = function(model, masked, mark, marks) {
            from = f.range.end;
            for p in f.params.iter().filter(|p| !p.name.is_empty()) {
                model.variables.push(Variable {
                    name: p.name.clone(),
                    name_range: p.name_range.clone(),
                    scope: f.range.clone(),
                    ty: p.ty.clone(),
                    init: None,
                    is_const: p.ty.is_const && p.ty.pointers == 0,
                    unchanged: OnceLock::new(),
                });
            }
            // What the grammar made of it begins after the word that it stumbled over.
            model
                .functions
                .retain(|g| g.body != f.body || g.kind != FunctionKind::Host);
            model.functions.push(f);
        }
    }
}

/// Add the `__shared__` variables whose declaration the grammar lost.
pub(super) fn recover_shared(model: &mut Model, marks: &[Mark]) {
    let mut found = Vec::new();
    for mark in marks.iter().filter(|m| m.kind == MarkKind::Shared) {
        if model
            .shared
            .iter()
            .any(|s| s.range.contains(&mark.range.start))
        {
            continue;
        }
        let start = mark.range.end;
        let text = model.text();
        let limit = text.floor_char_boundary(start.saturating_add(HEAD_LIMIT));
        let Some(end) = text
            .get(start..limit)
            .and_then(|rest| rest.find([';', '#', '{']))
            .filter(|e| text.as_bytes().get(start + e) == Some(&b';'))
            .map(|e| start + e)
        else {
            continue;
        };
        let toks = model.code(start..end);
        let Some(all) = model.declarators(&toks, 0..toks.len()) else {
            continue;
        };
        for one in all {
            if one.name.is_empty() || one.ty.is_empty() {
                continue;
            }
            let at = one.name.end..end;
            found.push(SharedArray {
                name: text.get(one.name.clone()).unwrap_or_default().to_owned(),
                range: mark.range.start..end,
                element: one.ty,
                element_size: None,
                dynamic: one.dims.iter().any(String::is_empty)
                    || toks.iter().any(|t| t.text(text) == "extern"),
                dims: one
                    .dims
                    .into_iter()
                    .map(|text| Expr {
                        range: at.clone(),
                        text,
                    })
                    .collect(),
                dim_values: Vec::new(),
                function: None,
                align: None,
                name_range: one.name,
            });
        }
    }
    model.shared.append(&mut found);
}

fn function(model: &Model, masked: &str, mark: &Mark, marks: &[Mark]) -> Option<Function> {
    let start = mark.range.end;
    let head = masked.get(start..)?;
    let limit = head.floor_char_boundary(HEAD_LIMIT);
    let head = head.get(..limit)?;
    let toks = tokens(head);
    let word = |i: usize| toks.get(i).map_or("", |t| t.text(head));
    let mut round = 0usize;
    let open = toks.iter().position(|t| {
        match t.text(head) {
            "(" => round += 1,
            ")" => round = round.saturating_sub(1),
            "{" | ";" | "=" | "#" if round == 0 => return true,
            _ => {}
        }
        false
    })?;
    if word(open) != "{" {
        return None;
    }
    // Back to the parameter list and the name before it.
    let close = (0..open).rev().find(|i| word(*i) == ")")?;
    let mut depth = 0usize;
    let first = (0..=close).rev().find(|i| {
        match word(*i) {
            ")" => depth += 1,
            "(" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })?;
    let name = toks
        .get(first.checked_sub(1)?)
        .filter(|t| t.kind == TokenKind::Ident)?;
    if matches!(
        name.text(head),
        "if" | "for" | "while" | "switch" | "return"
    ) {
        return None;
    }
    let body_start = start + toks.get(open)?.range.start;
    let bytes = masked.as_bytes();
    let end = matching_close_within(
        bytes.get(..bytes.len().min(body_start + BODY_LIMIT))?,
        body_start,
    )? + 1;
    let list = start + toks.get(first)?.range.end..start + toks.get(close)?.range.start;
    let mut params = Vec::new();
    for range in split_arguments(masked, list) {
        params.extend(parameter(masked, range));
    }
    let before = head_start(model.text(), mark.range.start);
    let kinds = marks
        .iter()
        .skip_while(|m| m.range.start < before.start)
        .take_while(|m| m.range.start < body_start);
    let mut kind = FunctionKind::Device;
    for m in kinds {
        match (m.kind, kind) {
            (MarkKind::Global, _) => kind = FunctionKind::Kernel,
            (MarkKind::Host, FunctionKind::Device) => kind = FunctionKind::HostDevice,
            _ => {}
        }
    }
    Some(Function {
        name: name.text(head).to_owned(),
        name_range: start + name.range.start..start + name.range.end,
        range: before.start..end,
        body: body_start..end,
        kind,
        return_type: String::new(),
        template_params: model
            .text()
            .get(before)
            .map(|list| template_params(list.trim_start_matches("template")))
            .unwrap_or_default(),
        params,
        launch_bounds: None,
        attributes: Vec::new(),
        has_error: true,
    })
}

/// The `template <...>` that ends right before `at` (specifiers between them do not matter); empty if there is none.
fn head_start(text: &str, at: usize) -> Range<usize> {
    let from = text.floor_char_boundary(at.saturating_sub(HEAD_LIMIT));
    let Some(before) = text.get(from..at) else {
        return at..at;
    };
    let Some(start) = before.rfind("template") else {
        return at..at;
    };
    let rest = before.get(start..).unwrap_or_default();
    let toks: Vec<Token> = tokens(rest);
    let close = super::classes::angle_close(&toks, 1, rest)
        .filter(|_| toks.get(1).is_some_and(|t| t.text(rest) == "<"));
    let Some(close) = close else { return at..at };
    let only_words = toks
        .iter()
        .skip(close + 1)
        .all(|t| t.kind == TokenKind::Ident);
    match toks.get(close) {
        Some(t) if only_words => from + start..from + start + t.range.end,
        _ => at..at,
    }
}

fn parameter(text: &str, range: Range<usize>) -> Option<Param> {
    let whole = text.get(range.clone())?;
    let toks = tokens(whole);
    let end = toks
        .iter()
        .position(|t| matches!(t.text(whole), "=" | "["))
        .unwrap_or(toks.len());
    let head = toks.get(..end)?;
    let name = head
        .last()
        .filter(|t| t.kind == TokenKind::Ident && head.len() > 1);
    let mut ty = Type::default();
    let mut words = Vec::new();
    for t in head.iter().take(head.len() - usize::from(name.is_some())) {
        match t.text(whole) {
            "*" => ty.pointers = ty.pointers.saturating_add(1),
            "&" | "&&" => ty.is_reference = true,
            "const" => ty.is_const |= ty.pointers == 0,
            "volatile" => ty.is_volatile = true,
            word => words.push(word),
        }
    }
    if toks.get(end).is_some_and(|t| t.text(whole) == "[") {
        ty.pointers = ty.pointers.saturating_add(1);
    }
    ty.base = words.join(" ").replace(" :: ", "::");
    let at = |r: &Range<usize>| range.start + r.start..range.start + r.end;
    Some(Param {
        name: name.map_or("", |n| n.text(whole)).to_owned(),
        name_range: name.map_or(range.end..range.end, |n| at(&n.range)),
        range,
        ty,
    })
}
