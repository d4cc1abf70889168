//! What every source of ideas implements: it gets a [`Brief`], it gives a [`Proposal`] or says it has no more.

use std::path::Path;

use crate::Cancel;
use crate::journal::Entry;

/// Everything a proposer may know about the kernel as it stands now. All proposers get the same brief.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The file that holds the kernel; for messages and include paths only, the text is in [`Brief::text`].
    pub file: &'a Path,
    /// The best text so far: a proposal edits this one.
    pub text: &'a str,
    /// The kernel's name in the source.
    pub kernel: &'a str,
    /// Target name such as `gfx928`; its table is in `hipsmith_target`.
    pub target: &'a str,
    /// Threads of a workgroup in the captured dispatch of [`Brief::text`].
    pub block: [u32; 3],
    /// Workgroups in the captured dispatch of [`Brief::text`].
    pub grid: [u32; 3],
    /// Dynamic LDS of the captured dispatch, bytes.
    pub dynamic_lds: u32,
    /// The kernel's arguments in the captured dispatch, in order.
    pub args: &'a [ArgFact],
    /// What the rules say about [`Brief::text`], this kernel's lines first.
    pub findings: &'a [Finding],
    /// Counters of [`Brief::text`] on the device that runs the rounds, if it gives any.
    pub profile: Option<&'a KernelProfile>,
    /// What the compiler gave the kernel.
    pub resources: Option<Resources>,
    /// What was tried on this kernel and target, oldest first: this job's entries and earlier jobs'.
    pub journal: &'a [Entry],
    /// Names of the skills that match this kernel, for proposers that read them.
    pub skills: &'a [String],
}

impl Brief<'_> {
    /// Whether this job has already judged `id` on this very text. Proposing it again wastes a round.
    pub fn tried(&self, id: &str) -> bool {
        let base = crate::hash(self.text);
        self.journal
            .iter()
            .any(|e| e.this_job && e.id == id && e.base == base)
    }
    /// What earlier jobs learned about `id` on this kernel and target. A dead end is a reason to try it
    /// late, not a prohibition.
    pub fn prior(&self, id: &str) -> Prior {
        let before = || self.journal.iter().filter(|e| !e.this_job && e.id == id);
        if before().any(|e| e.outcome == crate::Outcome::Effective) {
            Prior::Worked
        } else if before().next().is_some() {
            Prior::DeadEnd
        } else {
            Prior::Unknown
        }
    }
}

/// What earlier jobs say about an idea.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// It was effective at least once: try it early.
    Worked,
    /// Nobody tried it here.
    Unknown,
    /// It was tried and never effective: try it late.
    DeadEnd,
}

/// One kernel argument of the captured dispatch.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgFact {
    /// Passed by value: its bytes, as in the kernel argument block.
    Value(Vec<u8>),
    /// A pointer into an allocation.
    Buffer {
        /// Bytes from the pointer to the allocation's end.
        bytes: u64,
        /// The largest power of two that divides the pointer, bytes.
        align: u64,
        /// Whether the kernel changed the allocation.
        written: bool,
    },
}

/// One diagnostic of the rules on the brief's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// Line in the text, from 1.
    pub line: u32,
    /// What is wrong, why on this hardware, and how to fix it.
    pub message: String,
}

/// Counters of one kernel, summed over its dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelProfile {
    /// Time of the dispatch, ns (predicted when the device is simulated).
    pub ns: f64,
    /// `(counter, value)` of the whole kernel, under rocprof's names where there is one.
    pub counters: Vec<(String, f64)>,
    /// The same per source line of the brief's text, lines from 1.
    pub lines: Vec<(u32, Vec<(String, f64)>)>,
}

impl KernelProfile {
    /// The kernel's value of one counter.
    pub fn counter(&self, name: &str) -> Option<f64> {
        find(&self.counters, name)
    }
    /// One counter's value at a line (from 1).
    pub fn at_line(&self, line: u32, name: &str) -> Option<f64> {
        let (_, counters) = self.lines.iter().find(|(l, _)| *l == line)?;
        find(counters, name)
    }
}

fn find(counters: &[(String, f64)], name: &str) -> Option<f64> {
    counters.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
}

/// What the compiler gave a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// Static LDS of a workgroup, bytes.
    pub lds: u32,
    /// Scratch of a lane, bytes (spills and local arrays).
    pub scratch: u32,
    /// Wavefronts a SIMD can hold with these resources, if the target's table says.
    pub waves_per_simd: Option<u32>,
}

/// One idea, put into the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Stable name of the rewrite with its parameters, such as `vector-loads/float4`. The journal knows ideas
    /// by this name.
    pub id: String,
    /// What is changed and why it should help, for people; written down before anything is measured.
    pub hypothesis: String,
    /// Expected speed-up over the brief's text, 1.0 = none.
    pub expected_speedup: Option<f64>,
    /// The whole new text. It may differ from the brief's text in device code, in constants, and in the launch
    /// expressions of this kernel; the gate refuses anything else.
    pub new_text: String,
    /// How the kernel must be launched now, if not as before.
    pub launch: Option<LaunchChange>,
}

/// How a proposal's launches follow from the launches of the brief's text. The gate checks the claim against
/// the launch site in the new text, and refuses a change that it cannot confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchChange {
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Workgroups of each axis: new = ceil(old * numerator / denominator).
    pub grid_scale: [(u32, u32); 3],
    /// Dynamic LDS, bytes; `None` leaves it.
    pub dynamic_lds: Option<u32>,
}

/// A source of ideas.
pub trait Proposer {
    /// The next idea for the brief's text; `Ok(None)` when it has no more.
    ///
    /// # Errors
    /// One sentence when the proposer cannot work at all (an endpoint that does not answer, say).
    fn propose(&mut self, brief: &Brief, cancel: &Cancel) -> Result<Option<Proposal>, String>;
}
