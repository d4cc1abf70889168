//! Pointers that nothing else can reach are declared `__restrict__`, and `const` where nothing is written.
//!
//! **Does.** `T *x` in the kernel's parameters becomes `T *__restrict__ x`; `const` is added for those it never writes.
//!
//! **Legal when** every launch in the file passes a different plain name for each pointer parameter, and no parameter
//! pointer is copied into another variable or escapes into a call. That two names can still mean one allocation is
//! why the verifier runs the result; a launch that passes one buffer twice blocks the rewrite.
//!
//! **Expected.** Loads may be hoisted and joined across stores, and uniform loads may become scalar loads. The effect
//! follows Clang, not nvcc, and is often none.

use std::collections::BTreeSet;

use super::code::Code;
use super::edit::Edits;
use super::{Idea, Kind};

/// The rewrite.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    restricted(code).into_iter().collect()
}

fn restricted(code: &Code) -> Option<Idea> {
    if code.launches.is_empty() {
        return None;
    }
    for launch in &code.launches {
        let pointers: Vec<&str> = code
            .params
            .iter()
            .zip(&launch.args)
            .filter(|(p, _)| p.is_pointer())
            .map(|(_, a)| a.trim())
            .collect();
        let plain = pointers
            .iter()
            .all(|a| a.chars().all(|c| c.is_alphanumeric() || c == '_'));
        let different = pointers.iter().collect::<BTreeSet<_>>().len() == pointers.len();
        if !plain || !different || launch.args.len() != code.params.len() {
            return None;
        }
    }
    let mut edits = Edits::default();
    let mut names = Vec::new();
    for param in code
        .params
        .iter()
        .filter(|p| p.is_pointer() && !p.is_restrict())
    {
        if param.text.contains("volatile") || code.reassigned(&param.name) {
            return None;
        }
        let star = param.range.start + param.text.find('*')? + 1;
        let spaced = code.text.get(star..)?.starts_with(' ');
        edits.insert(
            star,
            if spaced {
                "__restrict__"
            } else {
                "__restrict__ "
            },
        );
        let written = code.written_anywhere(&param.name);
        let is_const = param.text.trim_start().starts_with("const");
        if !written && !is_const && !code.copied(&param.name) {
            edits.insert(param.range.start, "const ");
        }
        names.push(format!("`{}`", param.name));
    }
    if names.is_empty() {
        return None;
    }
    Some(Idea {
        id: "restrict-pointers".to_owned(),
        kind: Kind::Hint,
        what: format!(
            "the compiler must assume that {} may overlap; every launch passes different buffers, and saying so lets \
             loads move across stores",
            names.join(", ")
        ),
        expected: 1.02,
        new_text: edits.apply(code.text)?,
        launch: None,
    })
}
