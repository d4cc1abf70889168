//! From a file's text to the [`Code`] of one kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hipsmith_syntax::Node;
use hipsmith_syntax::{Document, Options, Scope};

use super::code::{Code, Constant, Dispatch, Launch, Param, Shared, all, integer, words};

/// Call `f` with the kernel of that name. `None` when there is no such kernel or more than one, when the target is
/// unknown, or when the grammar does not understand the kernel.
pub fn with_code<T>(
    text: &str,
    kernel: &str,
    target: &str,
    dispatch: Dispatch,
    f: impl FnOnce(&Code) -> T,
) -> Option<T> {
    let target = hipsmith_target::by_name(target)?;
    let document = document(text, target);
    let model = document.model();
    let mut found = model.kernels().filter(|(_, k)| k.name == kernel);
    let (index, function) = found.next()?;
    if found.next().is_some() || function.has_error {
        return None;
    }
    let body = body_node(document.root(), &function.body)?;
    let params = function
        .params
        .iter()
        .map(|p| Param {
            name: p.name.clone(),
            text: document.slice(p.range.clone()).to_owned(),
            range: p.range.clone(),
        })
        .collect();
    let shared = model
        .shared_of(index)
        .map(|(_, s)| Shared {
            name: s.name.clone(),
            element: s.element.clone(),
            dims: s
                .dims
                .iter()
                .zip(&s.dim_values)
                .map(|(d, v)| (d.range.clone(), v.and_then(|v| u64::try_from(v).ok())))
                .collect(),
            dynamic: s.dynamic,
            range: s.range.clone(),
        })
        .collect();
    let launches = model
        .launches_of(index)
        .map(|l| Launch {
            block: l.block.and_then(axes),
            args: l.args.iter().map(|a| a.text.clone()).collect(),
            template_args: l.template_args.iter().map(|a| a.text.clone()).collect(),
        })
        .collect();
    let local: BTreeSet<&str> = model
        .variables
        .iter()
        .filter(|v| function.range.contains(&v.name_range.start))
        .map(|v| v.name.as_str())
        .collect();
    let mut constants = BTreeMap::new();
    for word in words(document.slice(function.range.clone())).collect::<BTreeSet<_>>() {
        let starts_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !starts_name
            || local.contains(word)
            || function.template_params.iter().any(|t| t.name == word)
        {
            continue;
        }
        if let Some(value) = model.eval(word, &Scope::at(function.body.start)) {
            constants.insert(
                word.to_owned(),
                Constant {
                    value,
                    literal: literal_of(&document, word),
                },
            );
        }
    }
    let code = Code::new(
        text,
        dispatch,
        target,
        kernel,
        function.range.clone(),
        params,
        function
            .template_params
            .iter()
            .map(|t| t.name.clone())
            .collect(),
        body,
        shared,
        launches,
        constants,
    );
    Some(f(&code))
}

/// Whether `new` parses worse than `old`.
pub fn is_worse(old: &str, new: &str) -> bool {
    let target = hipsmith_target::default_target();
    let errors = |text: &str| {
        let document = document(text, target);
        all(document.root())
            .filter(|n| n.is_error() || n.is_missing())
            .count()
    };
    errors(new) > errors(old)
}

/// A document as the target's compiler sees it.
pub fn document(text: &str, target: &'static hipsmith_target::Target) -> Document {
    let options = Options {
        target,
        ..Options::default()
    };
    Document::with_options(text, 0, Arc::new(options))
}

/// Three axes as the runtime has them.
pub fn axes(block: [i64; 3]) -> Option<[u32; 3]> {
    let [x, y, z] = block.map(|v| u32::try_from(v).ok());
    Some([x?, y?, z?])
}

fn body_node<'a>(root: Node<'a>, body: &std::ops::Range<usize>) -> Option<Node<'a>> {
    let mut node = root.descendant_for_byte_range(body.start, body.end)?;
    while node.kind() != "compound_statement" || node.byte_range() != *body {
        node = node.parent()?;
    }
    Some(node)
}

/// Where the literal of a file-level constant stands, if a literal is all there is.
fn literal_of(document: &Document, name: &str) -> Option<std::ops::Range<usize>> {
    let model = document.model();
    if let Some((_, defined)) = model.macros().find(|(n, _)| *n == name) {
        let times = model.macros().filter(|(n, _)| *n == name).count();
        integer(&defined.body).filter(|_| times == 1 && defined.parameters.is_none())?;
        let text = document.slice(defined.range.clone());
        let at = defined.range.start + text.rfind(&defined.body)?;
        return Some(at..at + defined.body.len());
    }
    let mut variables = model.variables.iter().filter(|v| v.name == name);
    let variable = variables
        .next()
        .filter(|v| v.is_const && v.scope.start == 0)?;
    let init = variable.init.as_ref()?;
    if variables.next().is_some() {
        return None;
    }
    let start = init.range.start + (init.text.len() - init.text.trim_start().len());
    let text = init.text.trim();
    integer(text).map(|_| start..start + text.len())
}
