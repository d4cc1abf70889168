//! What the executed instructions did, under rocprof's names where rocprof has one.

use crate::SourceLine;

/// Counters of one dispatch or of one source line. Simulated, not measured on a device.
///
/// `sq_*` fields serialize under rocprof's upper-case names and count wave instructions, as rocprof's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Wavefronts started.
    #[serde(rename = "SQ_WAVES")]
    pub sq_waves: u64,
    /// Wave instructions of every kind.
    #[serde(rename = "SQ_INSTS")]
    pub sq_insts: u64,
    /// Vector ALU wave instructions, matrix instructions included.
    #[serde(rename = "SQ_INSTS_VALU")]
    pub sq_insts_valu: u64,
    /// Matrix wave instructions (MFMA, Hygon MMAC).
    #[serde(rename = "SQ_INSTS_MFMA")]
    pub sq_insts_mfma: u64,
    /// Scalar ALU wave instructions.
    #[serde(rename = "SQ_INSTS_SALU")]
    pub sq_insts_salu: u64,
    /// Scalar memory wave instructions.
    #[serde(rename = "SQ_INSTS_SMEM")]
    pub sq_insts_smem: u64,
    /// Global, buffer and scratch load wave instructions.
    #[serde(rename = "SQ_INSTS_VMEM_RD")]
    pub sq_insts_vmem_rd: u64,
    /// Global, buffer and scratch store and atomic wave instructions.
    #[serde(rename = "SQ_INSTS_VMEM_WR")]
    pub sq_insts_vmem_wr: u64,
    /// `flat_*` wave instructions (address space unknown to the compiler).
    #[serde(rename = "SQ_INSTS_FLAT")]
    pub sq_insts_flat: u64,
    /// LDS wave instructions, `ds_permute`, `ds_bpermute` and `ds_swizzle` included.
    #[serde(rename = "SQ_INSTS_LDS")]
    pub sq_insts_lds: u64,
    /// Branch wave instructions.
    #[serde(rename = "SQ_INSTS_BRANCH")]
    pub sq_insts_branch: u64,
    /// `s_barrier` wave instructions (no rocprof counter).
    pub barriers: u64,
    /// Active lanes summed over vector ALU wave instructions: divided by 64 times `SQ_INSTS_VALU` it is
    /// rocprof's VALUUtilization.
    #[serde(rename = "SQ_THREAD_CYCLES_VALU")]
    pub sq_thread_cycles_valu: u64,
    /// Floating-point operations of active lanes, a fused multiply-add being two; matrix instructions included.
    pub flops: u64,
    /// Cycles that the vector ALU was issuing, summed over waves.
    pub valu_cycles: u64,
    /// Cycles that waves waited for memory, LDS or a barrier, each as if alone on its compute unit (time model).
    pub wait_cycles: u64,
    /// Extra LDS cycles because lanes met in a bank.
    #[serde(rename = "SQ_LDS_BANK_CONFLICT")]
    pub sq_lds_bank_conflict: u64,
    /// LDS cycles of indexed accesses, conflicts included.
    #[serde(rename = "SQ_LDS_IDX_ACTIVE")]
    pub sq_lds_idx_active: u64,
    /// LDS bytes read and written by active lanes.
    pub lds_bytes: u64,
    /// Memory lines that vector memory instructions touched, summed over wave instructions.
    pub lines_touched: u64,
    /// Lines that the same bytes would need if lanes were packed.
    pub lines_ideal: u64,
    /// Bytes that active lanes loaded from global memory.
    pub bytes_read: u64,
    /// Bytes that active lanes stored or updated in global memory.
    pub bytes_written: u64,
    /// Lines requested from L1 and found there (model: per workgroup).
    pub l1_hits: u64,
    /// Lines that L1 had to ask L2 for.
    pub l1_misses: u64,
    /// Lane-level global atomic operations.
    pub atomics: u64,
    /// Scratch (private memory) bytes moved by active lanes.
    pub scratch_bytes: u64,
    /// Active lanes summed over all vector instructions.
    pub lane_instructions: u64,
}

impl Counters {
    /// Add another's counts to these.
    pub fn add(&mut self, other: &Self) {
        macro_rules! sum {
            ($($field:ident)*) => { $( self.$field += other.$field; )* };
        }
        sum!(sq_waves sq_insts sq_insts_valu sq_insts_mfma sq_insts_salu sq_insts_smem
             sq_insts_vmem_rd sq_insts_vmem_wr sq_insts_flat sq_insts_lds sq_insts_branch
             barriers sq_thread_cycles_valu flops valu_cycles wait_cycles sq_lds_bank_conflict sq_lds_idx_active lds_bytes
             lines_touched lines_ideal bytes_read bytes_written l1_hits l1_misses atomics
             scratch_bytes lane_instructions);
    }

    /// Share of lanes that were active in vector ALU instructions, 0 to 1; `None` without any.
    pub fn valu_utilization(&self) -> Option<f64> {
        (self.sq_insts_valu > 0)
            .then(|| self.sq_thread_cycles_valu as f64 / (64.0 * self.sq_insts_valu as f64))
    }

    /// Lines touched per line needed, 1 or more; `None` without vector memory access.
    pub fn lines_per_ideal(&self) -> Option<f64> {
        (self.lines_ideal > 0).then(|| self.lines_touched as f64 / self.lines_ideal as f64)
    }
}

/// What one LDS instruction did, all wavefronts together; lane exchanges are not among them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LdsCounters {
    /// Source line, when known.
    pub at: Option<SourceLine>,
    /// Column of that line, counted from 1; 0 when not known.
    pub column: u32,
    /// Address in the code object.
    pub pc: u64,
    /// The instruction's name.
    pub mnemonic: String,
    /// Times that a wavefront executed it.
    pub executions: u64,
    /// LDS cycles, conflicts included.
    pub cycles: u64,
    /// Extra LDS cycles because lanes met in a bank.
    pub conflict_cycles: u64,
    /// Ways of the worst conflict in any execution: 1 is free.
    pub degree: u32,
}

/// Counters of one source line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LineCounters {
    /// The line.
    #[serde(flatten)]
    pub at: SourceLine,
    /// What its instructions did.
    pub counters: Counters,
}
