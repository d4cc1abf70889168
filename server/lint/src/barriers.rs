//! Barriers of the workgroup: where they stand, directly or in a function that is called.

use hipsmith_syntax::Node;

use crate::context::Context;
use crate::facts::{self, Call, Function, Place};

/// Calls followed to find a barrier.
const DEPTH: u32 = 4;

/// What a call means for the threads of a workgroup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meeting {
    /// All threads of the workgroup wait for each other, in this call or in the function that it calls.
    Barrier,
    /// Known not to wait.
    None,
    /// A function of which nothing is known.
    Unknown,
}

/// The block-wide barriers by name. A cooperative group's `sync()` counts when the group is the workgroup.
fn is_barrier_name(name: &str) -> bool {
    matches!(
        name,
        "__syncthreads"
            | "__syncthreads_or"
            | "__syncthreads_and"
            | "__syncthreads_count"
            | "__builtin_amdgcn_s_barrier"
            | "__work_group_barrier"
            | "work_group_barrier"
    )
}

/// Names that never wait for the workgroup: builtins and mathematics.
fn never_waits(name: &str) -> bool {
    name.starts_with("__shfl")
        || name.starts_with("atomic")
        || name.starts_with("__builtin_")
        || name.starts_with("__ballot")
        || name.starts_with("make_")
        || name.starts_with("__float")
        || name.starts_with("__half")
        || name.starts_with("__int")
        || name.starts_with("__f")
        || name.starts_with("__h")
        || matches!(
            name,
            "min"
                | "max"
                | "abs"
                | "fabs"
                | "fabsf"
                | "sqrt"
                | "sqrtf"
                | "rsqrt"
                | "rsqrtf"
                | "exp"
                | "expf"
                | "log"
                | "logf"
                | "pow"
                | "powf"
                | "sin"
                | "sinf"
                | "cos"
                | "cosf"
                | "fma"
                | "fmaf"
                | "fmin"
                | "fminf"
                | "fmax"
                | "fmaxf"
                | "floor"
                | "floorf"
                | "ceil"
                | "ceilf"
                | "printf"
                | "__expf"
                | "__logf"
                | "__powf"
                | "__ldg"
                | "__popc"
                | "__popcll"
                | "__ffs"
                | "__ffsll"
                | "__clz"
                | "__clzll"
                | "__any"
                | "__all"
                | "__activemask"
                | "__syncwarp"
                | "__threadfence"
                | "__threadfence_block"
                | "__threadfence_system"
                | "static_cast"
                | "reinterpret_cast"
                | "const_cast"
                | "int"
                | "float"
                | "double"
                | "unsigned"
                | "T"
                | "size_t"
                | "assert"
                | "__mul24"
                | "__umul24"
                | "__lane_id"
                | "tanhf"
                | "tanh"
                | "swap"
                | "clock"
                | "clock64"
                | "wall_clock64"
                | "isnan"
                | "isinf"
                | "__saturatef"
                | "__fdividef"
                | "sizeof"
                | "fmod"
                | "fmodf"
                | "round"
                | "roundf"
                | "rint"
                | "erf"
                | "erff"
                | "cbrt"
                | "acos"
                | "acosf"
                | "atan2"
                | "atan2f"
                | "log2f"
                | "exp2f"
                | "float2"
                | "float4"
                | "double2"
                | "int4"
        )
}

impl<'t> Context<'t> {
    /// What a call in `f` means for the threads of the workgroup.
    pub fn meeting(&self, f: &Function<'t>, call: &Call<'t>) -> Meeting {
        self.meeting_at(f, call, 0)
    }

    fn meeting_at(&self, f: &Function<'t>, call: &Call<'t>, depth: u32) -> Meeting {
        let name = call.name.as_str();
        if is_barrier_name(name) {
            return Meeting::Barrier;
        }
        if name == "sync" {
            return self.group_sync(f, call);
        }
        if let Some((_, m)) = self
            .model
            .macros()
            .find(|(n, m)| *n == name && m.parameters.is_some())
        {
            return if m.body.contains("__syncthreads") {
                Meeting::Barrier
            } else if m.body.contains('(') {
                Meeting::Unknown
            } else {
                Meeting::None
            };
        }
        match self.by_name.get(name).map(Vec::as_slice) {
            Some([index]) => {
                let Some(callee) = self.functions.get(*index) else {
                    return Meeting::Unknown;
                };
                if depth >= DEPTH {
                    return Meeting::Unknown;
                }
                // A launch: its threads are others.
                if callee.place == Place::Kernel {
                    return Meeting::None;
                }
                let mut out = Meeting::None;
                for inner in &callee.calls {
                    match self.meeting_at(callee, inner, depth + 1) {
                        Meeting::Barrier => return Meeting::Barrier,
                        Meeting::Unknown => out = Meeting::Unknown,
                        Meeting::None => {}
                    }
                }
                out
            }
            Some(_) => Meeting::Unknown,
            None if never_waits(name) => Meeting::None,
            None => Meeting::Unknown,
        }
    }

    /// `block.sync()` and `cg::sync(block)` wait for the workgroup, a tile's do not.
    fn group_sync(&self, f: &Function<'t>, call: &Call<'t>) -> Meeting {
        let object = call
            .node
            .child_by_field_name("function")
            .filter(|n| n.kind() == "field_expression")
            .and_then(|n| n.child_by_field_name("argument"))
            .or_else(|| call.args.first().copied());
        let Some(object) = object.map(facts::bare) else {
            return Meeting::Unknown;
        };
        let group = match f.bindings.resolve(self.text(object), object.start_byte()) {
            Some(b) => {
                let init = b.init.map_or("", |i| self.text(i));
                format!("{} {init}", b.type_text)
            }
            None => self.text(object).to_owned(),
        };
        if group.contains("tile") || group.contains("coalesced") || group.contains("warp") {
            Meeting::None
        } else if group.contains("thread_block") {
            Meeting::Barrier
        } else {
            Meeting::Unknown
        }
    }

    /// The barriers in the text of `f` in text order: the calls, and statements that are a macro for one.
    pub fn barriers(&self, f: &Function<'t>) -> Vec<Node<'t>> {
        f.calls
            .iter()
            .filter(|c| self.meeting(f, c) == Meeting::Barrier)
            .map(|c| c.node)
            .collect()
    }

    /// Whether the text may hold a barrier at all.
    pub fn may_have_barriers(&self) -> bool {
        self.has_text("__syncthreads") || self.has_text("s_barrier") || self.has_text("sync()")
    }
}
