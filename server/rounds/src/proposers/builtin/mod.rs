//! The built-in proposer: deterministic rewrites of the source, no model, no network.
//!
//! One file per rewrite. Each says what it does, when that is legal and why, and what it should gain; each emits
//! nothing when its pattern or its proof is not complete. The proposer orders what they emit by expected gain, by
//! what the profile and the rules say about this kernel, and by what was tried before.

use std::collections::BTreeSet;

use crate::Cancel;
use crate::proposer::{Brief, LaunchChange, Prior, Proposal, Proposer};

mod code;
mod edit;
mod poly;
mod read;
mod reduction;

mod block_size;
mod launch_bounds;
mod lds_reduction_to_shuffle;
mod lds_stride;
mod restrict_pointers;
mod transpose_through_lds;
mod unroll;
mod vector_loads;

#[cfg(test)]
mod tests;

use code::Code;

/// What part of the hardware an idea relieves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Global memory: fewer instructions, fewer lines, more bytes in flight.
    Memory,
    /// LDS bank conflicts.
    Lds,
    /// Barriers and LDS round trips.
    Barriers,
    /// How the kernel is cut into workgroups and tiles.
    Shape,
    /// What the compiler is told.
    Hint,
}

/// One rewrite applied: a proposal before it is ordered.
#[derive(Clone, Debug, PartialEq)]
struct Idea {
    id: String,
    kind: Kind,
    /// What is so now, and what the change does about it: one clause, no full stop.
    what: String,
    /// Expected speed-up if this kind of thing is the kernel's bottleneck.
    expected: f64,
    new_text: String,
    launch: Option<LaunchChange>,
}

/// Every rewrite, in the order in which ties are broken.
const REWRITES: &[fn(&Code) -> Vec<Idea>] = &[
    transpose_through_lds::rewrite,
    vector_loads::rewrite,
    lds_reduction_to_shuffle::rewrite,
    lds_stride::rewrite,
    block_size::rewrite,
    restrict_pointers::rewrite,
    launch_bounds::rewrite,
    unroll::rewrite,
];

/// The proposer that needs nothing but the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Builtin {
    /// A proposer with every rewrite.
    pub fn new() -> Self {
        Self
    }
}

impl Proposer for Builtin {
    fn propose(&mut self, brief: &Brief, cancel: &Cancel) -> Result<Option<Proposal>, String> {
        let mut ideas = ideas(brief);
        ideas.retain(|i| !brief.tried(&i.id));
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut best: Option<(f64, Idea)> = None;
        for idea in ideas {
            let score = score(&idea, brief);
            if best.as_ref().is_none_or(|(s, _)| score > *s) {
                best = Some((score, idea));
            }
        }
        Ok(best.map(|(_, idea)| {
            let expected = expected(&idea, brief);
            Proposal {
                hypothesis: hypothesis(&idea, brief, expected),
                id: idea.id,
                expected_speedup: Some(expected),
                new_text: idea.new_text,
                launch: idea.launch,
            }
        }))
    }
}

/// Everything that the rewrites offer for a brief's text, broken results dropped.
fn ideas(brief: &Brief) -> Vec<Idea> {
    let dispatch = code::Dispatch { block: brief.block };
    read::with_code(brief.text, brief.kernel, brief.target, dispatch, |code| {
        let mut ideas: Vec<Idea> = REWRITES.iter().flat_map(|r| r(code)).collect();
        ideas.retain(|i| i.new_text != brief.text && !read::is_worse(brief.text, &i.new_text));
        ideas
    })
    .unwrap_or_default()
}

/// Shares of the kernel's time that the profile blames on each kind, as far as it says.
fn weight(kind: Kind, brief: &Brief) -> f64 {
    let Some(profile) = brief.profile else {
        return 1.0;
    };
    let counter = |name: &str| profile.counter(name);
    match kind {
        Kind::Lds => match (counter("SQ_LDS_BANK_CONFLICT"), counter("SQ_INSTS_LDS")) {
            (Some(conflicts), Some(accesses)) if accesses > 0.0 => {
                (conflicts / accesses).clamp(0.0, 2.0)
            }
            _ => 1.0,
        },
        // A kernel without global loads has nothing to win from wider ones.
        Kind::Memory => match counter("SQ_INSTS_VMEM_RD").or(counter("SQ_INSTS_VMEM")) {
            Some(loads) if loads <= 0.0 => 0.2,
            _ => 1.0,
        },
        Kind::Barriers | Kind::Shape | Kind::Hint => 1.0,
    }
}

/// The expected speed-up, scaled by how much the profile blames what the idea relieves.
fn expected(idea: &Idea, brief: &Brief) -> f64 {
    let mut gain = (idea.expected - 1.0) * weight(idea.kind, brief);
    if idea.kind == Kind::Shape && fills_better(idea, brief) {
        gain += 0.2;
    }
    ((1.0 + gain) * 100.0).round() / 100.0
}

/// Whether a launch leaves wavefront slots of the machine empty that larger blocks would use: the same number of
/// workgroups, each with more threads.
fn fills_better(idea: &Idea, brief: &Brief) -> bool {
    let (Some(launch), Some(target)) = (&idea.launch, hipsmith_target::by_name(brief.target))
    else {
        return false;
    };
    let threads = |block: [u32; 3]| block.iter().map(|n| u64::from(*n)).product::<u64>();
    let groups = threads(brief.grid);
    let waves =
        groups.saturating_mul(threads(brief.block).div_ceil(u64::from(target.wave_size.max(1))));
    let slots = u64::from(target.device.cu)
        * u64::from(target.exec.simds_per_cu * target.exec.max_waves_per_simd);
    launch.grid_scale == [(1, 1); 3]
        && threads(launch.block) > threads(brief.block)
        && waves * 2 <= slots
}

/// The order in which ideas are tried: expected gain, then what is known about them.
fn score(idea: &Idea, brief: &Brief) -> f64 {
    let mut gain = expected(idea, brief) - 1.0;
    let told = brief.findings.iter().any(|f| relates(&f.rule, idea.kind));
    if told {
        gain = gain * 1.5 + 0.01;
    }
    match brief.prior(&idea.id) {
        Prior::Worked => gain = gain * 2.0 + 0.05,
        Prior::Unknown => {}
        Prior::DeadEnd => gain *= 0.25,
    }
    let failed_here = brief
        .journal
        .iter()
        .any(|e| e.this_job && e.id == idea.id && e.outcome != crate::Outcome::Effective);
    if failed_here {
        // It was tried on another text of this job; a changed text may change the verdict, but rarely does.
        gain = gain * 0.25 - 0.01;
    }
    gain
}

/// Whether a rule's finding speaks for a kind of idea.
fn relates(rule: &str, kind: Kind) -> bool {
    match kind {
        Kind::Lds => rule.contains("lds") && rule.contains("conflict"),
        Kind::Memory => {
            rule.contains("coalesc") || rule.contains("vector") || rule.contains("stride")
        }
        Kind::Barriers => rule.contains("reduction") || rule.contains("barrier"),
        Kind::Shape | Kind::Hint => false,
    }
}

/// What is changed and why it should help: evidence first, then the expectation.
fn hypothesis(idea: &Idea, brief: &Brief, expected: f64) -> String {
    let mut evidence = String::new();
    if let Some(profile) = brief.profile {
        let shown = match idea.kind {
            Kind::Lds => Some("SQ_LDS_BANK_CONFLICT"),
            Kind::Memory => Some("SQ_INSTS_VMEM_RD"),
            Kind::Barriers => Some("SQ_INSTS_LDS"),
            Kind::Shape | Kind::Hint => None,
        };
        if let Some((name, value)) = shown.and_then(|n| Some((n, profile.counter(n)?))) {
            evidence = format!(" (profile: {name} = {value:.0})");
        }
    }
    let finding = brief
        .findings
        .iter()
        .find(|f| relates(&f.rule, idea.kind))
        .map(|f| format!(" (rule {}, line {})", f.rule, f.line))
        .unwrap_or_default();
    let mut what = idea.what.clone();
    if let Some(first) = what.get(..1).map(str::to_uppercase) {
        what.replace_range(..1, &first);
    }
    format!("{what}{evidence}{finding}. Expected: {expected}x.")
}

/// A name that occurs nowhere in the file yet; it is taken from then on.
fn fresh(used: &mut BTreeSet<String>, wish: &str) -> String {
    let mut name = wish.to_owned();
    let mut n = 2;
    while !used.insert(name.clone()) {
        name = format!("{wish}{n}");
        n += 1;
    }
    name
}

/// Whether none of the names occurs in the file's code.
fn fresh_ok(code: &Code, names: &[&str]) -> bool {
    let used = code.names();
    names.iter().all(|n| !used.contains(*n))
}
