//! The compiler is told how large the workgroup is.
//!
//! **Does.** `__global__ void k(...)` becomes `__global__ void __launch_bounds__(N) k(...)`, `N` being the block of
//! every launch in the file.
//!
//! **Legal when** every launch of the kernel in the file has one and the same known block (a launch with more threads
//! than the bound fails).
//!
//! **Expected.** Without a bound the compiler must leave room for 1024 threads: at most 64 VGPRs a lane, spills
//! beyond. A kernel that needs fewer registers gains nothing, so none is promised.

use super::code::{Code, words};
use super::edit::Edits;
use super::{Idea, Kind};

/// The rewrite.
pub fn rewrite(code: &Code) -> Vec<Idea> {
    bounded(code).into_iter().collect()
}

fn bounded(code: &Code) -> Option<Idea> {
    let threads: u32 = code.proved_block()?.iter().product();
    let head = code.text.get(code.range.start..code.body.start_byte())?;
    if words(head).any(|w| w == "__launch_bounds__" || w == "amdgpu_flat_work_group_size") {
        return None;
    }
    let at = code.name_at?;
    let mut edits = Edits::default();
    edits.insert(at, format!("__launch_bounds__({threads}) "));
    Some(Idea {
        id: format!("launch-bounds/{threads}"),
        kind: Kind::Hint,
        what: format!(
            "every launch has {threads} threads but the compiler must allow for 1024; with the bound it may use more \
             registers instead of spilling"
        ),
        expected: 1.0,
        new_text: edits.apply(code.text)?,
        launch: None,
    })
}
