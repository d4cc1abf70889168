//! Why a kernel did not run to its end, said so that somebody can act on it.

use std::fmt;
use std::sync::Arc;

/// A place in the user's source, from the code object's line table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SourceLine {
    /// Path as the compiler recorded it.
    pub file: Arc<str>,
    /// Line, counted from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Where in the program and on the machine an instruction was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Demangled name of the kernel that was launched.
    pub kernel: String,
    /// Source line, when the code object has a line table (`-g` or `-gline-tables-only`).
    pub source: Option<SourceLine>,
    /// The instruction as the disassembler prints it.
    pub instruction: String,
    /// Address of the instruction in the code object.
    pub pc: u64,
    /// Workgroup.
    pub block: [u32; 3],
    /// Wavefront in the workgroup.
    pub wave: u32,
    /// Lane in the wavefront, where one lane is to blame.
    pub lane: Option<u32>,
    /// Work-item of that lane in the workgroup.
    pub thread: Option<[u32; 3]>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernel)?;
        match &self.source {
            Some(source) => write!(f, " at {source}")?,
            None => write!(
                f,
                " at pc {:#x} (compile with -g for the source line)",
                self.pc
            )?,
        }
        let [x, y, z] = self.block;
        write!(f, ", block ({x},{y},{z}), wavefront {}", self.wave)?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, " (thread {x},{y},{z})")?;
        }
        write!(f, ", in `{}`", self.instruction)
    }
}

/// What a wave wanted from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A read-modify-write.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic update",
        })
    }
}

/// Why a dispatch gave no result. Every variant displays as one sentence that says what happened, where,
/// and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The launch cannot be made on this target; nothing was executed.
    #[error("kernel {kernel} cannot be launched on {target}: {reason}")]
    LaunchRefused {
        /// Demangled kernel name.
        kernel: String,
        /// Target it was to run on.
        target: String,
        /// What limit is broken, by how much, and what to change.
        reason: String,
    },
    /// The code cannot be disassembled (no disassembler, or it failed).
    #[error("kernel {kernel} cannot be simulated: {reason}")]
    Code {
        /// Demangled kernel name.
        kernel: String,
        /// What is missing and how to get it.
        reason: String,
    },
    /// An instruction that the simulator does not implement was reached.
    #[error("the simulator does not implement `{name}`: {site}; {why}")]
    UnknownInstruction {
        /// The mnemonic.
        name: String,
        /// Where it was reached.
        site: Box<Site>,
        /// What about it is unknown.
        why: String,
    },
    /// An access outside every allocation, or beyond the end of one.
    #[error("out of bounds {access} of {bytes} bytes at {address:#x}: {site}; {nearest}")]
    OutOfBounds {
        /// Load, store or atomic.
        access: Access,
        /// Address that the lane computed.
        address: u64,
        /// Bytes that the lane accesses.
        bytes: u32,
        /// Where.
        site: Box<Site>,
        /// A clause that relates the address to the nearest allocation.
        nearest: String,
    },
    /// An LDS access beyond the workgroup's LDS.
    #[error(
        "LDS {access} of {bytes} bytes at offset {offset} is beyond the workgroup's {lds_bytes} bytes: {site}; declare a larger __shared__ array or pass more dynamic LDS at the launch"
    )]
    LdsOutOfRange {
        /// Load, store or atomic.
        access: Access,
        /// Byte offset in LDS.
        offset: u64,
        /// Bytes that the lane accesses.
        bytes: u32,
        /// LDS bytes of the workgroup, static and dynamic.
        lds_bytes: u32,
        /// Where.
        site: Box<Site>,
    },
    /// A scratch access beyond the lane's private segment.
    #[error(
        "private memory {access} at offset {offset} is beyond the lane's {limit} bytes: {site}; an index into a local array is out of range, or recursion is deeper than the stack"
    )]
    ScratchOutOfRange {
        /// Load, store or atomic.
        access: Access,
        /// Byte offset in the lane's private segment.
        offset: u64,
        /// Bytes that the lane has.
        limit: u32,
        /// Where.
        site: Box<Site>,
    },
    /// An access whose address is not a multiple of what the instruction needs.
    #[error(
        "misaligned {access} of {bytes} bytes at {address:#x}: {site}; align the data to {bytes} bytes"
    )]
    Misaligned {
        /// Load, store or atomic.
        access: Access,
        /// Address that the lane computed.
        address: u64,
        /// Alignment that the instruction needs, in bytes.
        bytes: u32,
        /// Where.
        site: Box<Site>,
    },
    /// The instruction or time limit was reached.
    #[error(
        "the kernel did not end within {limit}: {site}; look for a loop that never ends, or raise the limit"
    )]
    TooLong {
        /// The limit that was reached, in words.
        limit: String,
        /// What a wave was executing when it was reached.
        site: Box<Site>,
    },
    /// `s_trap`: `__builtin_trap`, a failed device assertion or `abort()`.
    #[error("the kernel stopped itself (trap {id}): {site}; {what}")]
    Trap {
        /// Trap number.
        id: u8,
        /// What this trap number means.
        what: String,
        /// Where.
        site: Box<Site>,
    },
    /// A jump to an address that is not code.
    #[error(
        "jump to {address:#x}, which is no instruction of the code object: {site}; a function pointer is wrong or memory was overwritten"
    )]
    WildJump {
        /// Target of the jump.
        address: u64,
        /// Where.
        site: Box<Site>,
    },
    /// Somebody cancelled.
    #[error("kernel {kernel} was cancelled")]
    Cancelled {
        /// Demangled kernel name.
        kernel: String,
    },
    /// The host could not give memory to the simulation.
    #[error("kernel {kernel} cannot be simulated: {reason}")]
    Host {
        /// Demangled kernel name.
        kernel: String,
        /// What the host refused.
        reason: String,
    },
}

impl Fault {
    /// Where it happened, when something was executing.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Self::UnknownInstruction { site, .. }
            | Self::OutOfBounds { site, .. }
            | Self::LdsOutOfRange { site, .. }
            | Self::ScratchOutOfRange { site, .. }
            | Self::Misaligned { site, .. }
            | Self::TooLong { site, .. }
            | Self::Trap { site, .. }
            | Self::WildJump { site, .. } => Some(site),
            Self::LaunchRefused { .. }
            | Self::Code { .. }
            | Self::Cancelled { .. }
            | Self::Host { .. } => None,
        }
    }
}
