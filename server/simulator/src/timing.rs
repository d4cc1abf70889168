//! Predicted time of a dispatch.
//!
//! # Model
//! Workgroups are dealt evenly over the compute units; the fullest unit decides. On it every resource needs
//! some cycles for the counted work:
//!
//! * vector ALU: 4 cycles per wave instruction on one of the SIMDs, more for double precision,
//!   transcendentals, 32-bit multiplication and matrix instructions;
//! * scalar: one scalar, branch or scalar-memory instruction per cycle;
//! * LDS: cycles by the target's lane groups and banks, conflicts included;
//! * L1: 64 bytes per cycle, and at least 4 cycles for the 64 addresses of an instruction;
//! * L2: lines that L1 (16 KiB or so, shared by the workgroups on the unit) did not hold, over the whole
//!   device;
//! * memory: lines touched for the first time, and re-touched lines as far as the footprint exceeds the L2;
//! * latency: what a workgroup takes alone, times the rounds of workgroups that do not fit at once. Each wave
//!   has its own clock: instructions take their issue cycles, loads and LDS accesses complete a latency later
//!   (plus the cycles that the access itself takes), `s_waitcnt` waits for them in order, and a barrier waits
//!   for the last wave.
//!
//! The resources overlap, but not perfectly: the total is the 4-norm of all of them, so that the largest
//! decides and the others still count a little. A constant for the launch is added.
//!
//! # Known limits
//! No instruction cache, no DVFS, no channel conflicts, no TLB, no contention of atomics on one address beyond
//! their traffic. It ranks variants of a kernel; its absolute figures are not measurements.

use hipsmith_target::Target;

use crate::counters::Counters;
use crate::machine::{Clock, Matrix, Rate};

/// Assumed time from launch to the first wave and from the last wave to completion, in nanoseconds.
pub const LAUNCH_NS: f64 = 2000.0;

/// Share of the peak memory bandwidth that is assumed to be reachable where nobody measured it: gfx936 reads at
/// 1339 of 1843 GB/s (LearnMF/kernel-roofline-analysis-tools), which is 0.73.
const REACHABLE: f64 = 0.73;

/// L1 bandwidth of a compute unit in bytes per cycle (rocprof-compute's documentation of gfx9).
const L1_BYTES_PER_CLK: f64 = 64.0;

/// What binds the predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Vector ALU issue.
    Valu,
    /// Scalar issue: scalar ALU, scalar memory and branches.
    Scalar,
    /// LDS cycles, bank conflicts included.
    Lds,
    /// Lines through the vector L1.
    L1,
    /// L2 bandwidth.
    L2,
    /// Device memory bandwidth.
    Memory,
    /// Latency that too few wavefronts hide.
    Latency,
    /// The launch itself: the kernel takes less than a quarter of it.
    Launch,
}

impl Bound {
    /// A few words for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Valu => "vector ALU issue",
            Self::Scalar => "scalar issue",
            Self::Lds => "LDS cycles",
            Self::L1 => "L1 cache lines",
            Self::L2 => "L2 bandwidth",
            Self::Memory => "memory bandwidth",
            Self::Latency => "latency",
            Self::Launch => "launch overhead",
        }
    }
}

/// Predicted time, from the model that the module's documentation describes. Not a measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// Time of the dispatch in nanoseconds, launch overhead included.
    pub ns: f64,
    /// Engine cycles of the dispatch without launch overhead.
    pub cycles: f64,
    /// What binds.
    pub bound_by: Bound,
    /// Wavefronts that a SIMD can hold, by the kernel's registers, LDS and workgroup.
    pub occupancy: u32,
    /// Bytes from and to device memory, by the cache model.
    pub memory_bytes: f64,
    /// Bytes between L1 and L2, by the cache model.
    pub l2_bytes: f64,
    /// Cycles that each resource needs alone, largest first.
    pub parts: Vec<(Bound, f64)>,
    /// What the model assumes, as sentences for the user.
    pub assumptions: Vec<String>,
}

impl Prediction {
    /// Share of what L1 did not hold that comes from device memory rather than from L2, 0 to 1.
    pub fn memory_share(&self) -> f64 {
        if self.l2_bytes > 0.0 {
            (self.memory_bytes / self.l2_bytes).min(1.0)
        } else {
            0.0
        }
    }
}

/// What a dispatch did, as the model needs it.
pub(crate) struct Work<'a> {
    pub(crate) target: &'a Target,
    pub(crate) counters: &'a Counters,
    pub(crate) occupancy: u32,
    pub(crate) groups: u64,
    pub(crate) waves_per_group: u64,
    pub(crate) groups_per_cu: u64,
    /// Sum over workgroups of the time from first to last instruction, and the longest.
    pub(crate) time: Clock,
    pub(crate) longest: Clock,
    /// Distinct lines read and written.
    pub(crate) lines_read: u64,
    pub(crate) lines_written: u64,
    /// Target that the code was compiled for.
    pub(crate) compiled_for: &'a str,
}

/// Cycles for which one wave instruction occupies its SIMD.
pub(crate) fn issue_cycles(rate: Rate, target: &Target) -> u64 {
    let peak = |kind: &str| {
        target
            .compute
            .flops_per_clk_per_cu
            .get(kind)
            .copied()
            .filter(|f| *f > 0.0)
    };
    let per_simd = |flops: f64| flops / f64::from(target.exec.simds_per_cu.max(1));
    // How many times slower double precision is than single.
    let divisor = || match (peak("vec_fp64"), target.compute.fp64_in_hardware) {
        (Some(flops), _) => (32.0 / per_simd(flops)).ceil().max(1.0) as u32,
        (None, true) => 2,
        (None, false) => 16,
    };
    match rate {
        Rate::Vector(rate) => rate.cycles(divisor()).into(),
        Rate::Wide => 8,
        Rate::Matrix(operations, kind) => {
            let name = match kind {
                Matrix::F32 => "fp32",
                Matrix::Tf32 => "tf32",
                Matrix::F16 => "fp16",
                Matrix::Bf16 => "bf16",
                Matrix::I8 => "int8",
                Matrix::F64 => "fp64",
                Matrix::F8 => "fp8",
            };
            let flops = ["mfma", "mmac"]
                .iter()
                .find_map(|family| peak(&format!("{family}_{name}")))
                .or_else(|| peak("vec_fp32"));
            let cycles = flops.map_or(64.0, |f| operations / per_simd(f));
            (cycles.ceil() as u64).max(4)
        }
    }
}

pub(crate) fn predict(work: &Work) -> Prediction {
    let t = work.target;
    let c = work.counters;
    let f = |n: u64| n as f64;
    let cus = f64::from(t.device.cu.max(1));
    let simds = f64::from(t.exec.simds_per_cu.max(1));
    let clock_hz = f64::from(t.device.clock_mhz.max(1)) * 1e6;
    let line = f64::from(t.cache.l1_line_bytes.max(1));
    let groups = f(work.groups.max(1));

    // The fullest compute unit's share of everything that a unit does by itself.
    let groups_on_fullest = (groups / cus).ceil();
    let share = groups_on_fullest / groups;
    let resident_groups = groups_on_fullest.min(f(work.groups_per_cu.max(1)));
    let resident_waves = resident_groups * f(work.waves_per_group.max(1));
    let busy_simds = simds.min(resident_waves);

    let valu = f(c.valu_cycles) * share / busy_simds;
    let others = c.sq_insts
        - c.sq_insts_valu
        - c.sq_insts_lds
        - c.sq_insts_vmem_rd
        - c.sq_insts_vmem_wr
        - c.sq_insts_flat;
    let scalar = f(others) * share;
    let lds = f(c.sq_lds_idx_active) * share;
    let vector_memory = f(c.sq_insts_vmem_rd + c.sq_insts_vmem_wr + c.sq_insts_flat);
    let l1 = (f(c.lines_touched) * line / L1_BYTES_PER_CLK).max(4.0 * vector_memory) * share;

    let unique = f(work.lines_read + work.lines_written);
    let l2_bytes = f(c.l1_misses) * line;
    let l2 = l2_bytes / t.cache.l2_bytes_per_clk.value.max(1.0);
    let footprint = unique * line;
    let overflow = if footprint > f(t.cache.l2_bytes) {
        1.0 - f(t.cache.l2_bytes) / footprint
    } else {
        0.0
    };
    let again = (f(c.l1_misses) - unique).max(0.0) * line;
    let memory_bytes = footprint.min(l2_bytes.max(footprint)) + again * overflow;
    let gbps = t
        .device
        .memory_gbps_measured
        .unwrap_or(t.device.memory_gbps.value * REACHABLE);
    let memory = memory_bytes / (gbps * 1e9 / clock_hz);

    let from_memory = if l2_bytes > 0.0 {
        (memory_bytes / l2_bytes).min(1.0)
    } else {
        0.0
    };
    let mixed = |clock: Clock| f(clock[0]) * (1.0 - from_memory) + f(clock[1]) * from_memory;
    let rounds = (groups_on_fullest / resident_groups).ceil();
    // Workgroups of one kernel may differ: the longest one must end too.
    let latency_bound = (mixed(work.time) / groups * rounds).max(mixed(work.longest));

    let mut parts = vec![
        (Bound::Valu, valu),
        (Bound::Scalar, scalar),
        (Bound::Lds, lds),
        (Bound::L1, l1),
        (Bound::L2, l2),
        (Bound::Memory, memory),
        (Bound::Latency, latency_bound),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let cycles = parts
        .iter()
        .map(|(_, cycles)| cycles.powi(4))
        .sum::<f64>()
        .powf(0.25);
    let kernel_ns = cycles / clock_hz * 1e9;
    let bound_by = if kernel_ns < LAUNCH_NS / 4.0 {
        Bound::Launch
    } else {
        parts.first().map_or(Bound::Launch, |p| p.0)
    };
    Prediction {
        ns: kernel_ns + LAUNCH_NS,
        cycles,
        bound_by,
        occupancy: work.occupancy,
        memory_bytes,
        l2_bytes,
        parts,
        assumptions: assumptions(work, gbps),
    }
}

fn assumptions(work: &Work, gbps: f64) -> Vec<String> {
    let t = work.target;
    let mut list = vec![
        format!(
            "predicted by a model of {} as {} ({} CU at {} MHz), not measured",
            t.name, t.device.name, t.device.cu, t.device.clock_mhz
        ),
        format!(
            "memory is taken to deliver {gbps:.0} GB/s ({})",
            if t.device.memory_gbps_measured.is_some() {
                "measured by others".to_owned()
            } else {
                format!("{:.0} % of the stated peak", REACHABLE * 100.0)
            }
        ),
        format!("a launch is taken to cost {LAUNCH_NS:.0} ns"),
        "a vector instruction is taken to issue in 4 cycles; resources overlap as a 4-norm"
            .to_owned(),
    ];
    if t.name != work.compiled_for {
        list.push(format!(
            "the code was compiled for {} and is simulated with {}'s figures",
            work.compiled_for, t.name
        ));
    }
    list.extend(t.doubts.iter().cloned());
    list
}
