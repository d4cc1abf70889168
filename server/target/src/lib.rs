//! Hardware facts of the 64-lane targets: limits, occupancy, LDS bank rule, memory lines.
//!
//! One TOML file per gfx target under `targets/`, compiled in and parsed once. Every group says its
//! source and how sure it is ([`Confidence`]); [`Target::doubts`] lists in sentences what is assumed.
//! Figures shown to a user that rest on an inferred group must say so.
//!
//! ```
//! use hipsmith_target::{Resources, default_target, occupancy};
//! let target = default_target(); // gfx928
//! let r = Resources { vgprs: 64, sgprs: 32, lds_bytes: 16 * 1024, workgroup: 256 };
//! let o = occupancy(target, &r);
//! assert_eq!((o.waves_per_simd, o.workgroups_per_cu), (4, 4)); // four 16 KiB workgroups fit into 64 KiB
//! ```

mod builtins;
mod lds;
mod memory;
mod occupancy;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use builtins::Lack;
pub use lds::{LaneGroups, Lds, LdsAccess, LdsCost};
pub use occupancy::{Limiter, Occupancy, Resources, occupancy};

/// How sure a fact is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// From a vendor's document or source code, or a compiler's or runtime's source.
    Documented,
    /// From a published measurement or a read-out of a device.
    Measured,
    /// Derived, or copied from a sibling: a default, not a fact.
    Inferred,
}

/// One figure with its own source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The value, in the unit that the field holding it names.
    pub value: f64,
    /// Where it comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// One gfx target. Obtain it with [`by_name`], [`all`] or [`default_target`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The name that the compiler takes, such as `gfx928`.
    pub name: String,
    /// `AMD` or `Hygon`.
    pub vendor: String,
    /// The vendor's family name, such as `CDNA3`.
    pub family: String,
    /// The vendor's code name, where one is known.
    #[serde(default)]
    pub codename: Option<String>,
    /// Other gfx names that share these facts.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Lanes in a wavefront: 64 on every target here.
    pub wave_size: u32,
    /// `EF_AMDGPU_MACH` (low byte of the code object's ELF flags); unknown for Hygon's own targets.
    #[serde(default)]
    pub elf_mach: Option<u32>,
    /// What is assumed or contradictory, as sentences for the user.
    pub doubts: Vec<String>,
    /// Wavefront slots and workgroup limits.
    pub exec: Exec,
    /// Register files.
    pub registers: Registers,
    /// Local data share: sizes and the bank rule.
    pub lds: Lds,
    /// Vector L1 and L2.
    pub cache: Cache,
    /// Latencies of dependent accesses.
    pub latency: Latency,
    /// Arithmetic peaks and matrix instructions.
    pub compute: Compute,
    /// The device that the time model stands for.
    pub device: Device,
}

/// Wavefront slots and workgroup limits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// SIMD units in a compute unit.
    pub simds_per_cu: u32,
    /// Wavefronts that a SIMD can hold.
    pub max_waves_per_simd: u32,
    /// Work-items in a workgroup at most.
    pub max_workgroup: u32,
    /// Workgroups of more than one wavefront that a compute unit can hold (barrier resources).
    pub max_multiwave_workgroups_per_cu: u32,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// Where accumulation registers (AGPRs) live.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Accumulation {
    /// The target has none.
    None,
    /// A second file of the same size: the larger of the two counts limits occupancy (gfx908).
    Separate,
    /// The same file: `align4(vgprs) + agprs` limits occupancy (gfx90a and later).
    Unified,
}

/// Register files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registers {
    /// Vector registers per lane that a SIMD shares out among its wavefronts.
    pub vgprs_per_simd: u32,
    /// Vector registers are given to a wavefront in multiples of this.
    pub vgpr_granule: u32,
    /// Vector registers of one wavefront at most.
    pub vgprs_max_per_wave: u32,
    /// Scalar registers of one wavefront at most.
    pub sgprs_max_per_wave: u32,
    /// Accumulation registers.
    pub accumulation: Accumulation,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

impl Registers {
    /// The vector-register count that limits occupancy, from architectural and accumulation registers.
    pub fn total_vgprs(&self, arch: u32, accumulation: u32) -> u32 {
        match self.accumulation {
            Accumulation::None => arch,
            Accumulation::Separate => arch.max(accumulation),
            Accumulation::Unified if accumulation == 0 => arch,
            Accumulation::Unified => arch.next_multiple_of(4).saturating_add(accumulation),
        }
    }
}

/// Vector L1 and L2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Vector L1 of one compute unit, bytes.
    pub l1_bytes_per_cu: u64,
    /// Line of the vector L1, bytes: what [`Target::memory_lines`] counts.
    pub l1_line_bytes: u32,
    /// L2 of the whole device (of one die for multi-die parts), bytes.
    pub l2_bytes: u64,
    /// Line of the L2, bytes.
    pub l2_line_bytes: u32,
    /// L2 bandwidth of the whole device, bytes per clock.
    pub l2_bytes_per_clk: Figure,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// Latencies of dependent accesses, in cycles. Published for gfx936 only; elsewhere borrowed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// A hit in the vector L1.
    pub l1_cycles: u32,
    /// A hit in the L2.
    pub l2_cycles: u32,
    /// An access to device memory.
    pub memory_cycles: u32,
    /// An LDS access.
    pub lds_cycles: u32,
    /// A workgroup barrier.
    pub barrier_cycles: u32,
    /// The target whose figures these are, if not this one's.
    #[serde(default)]
    pub borrowed_from: Option<String>,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// Arithmetic peaks and matrix instructions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Kind of matrix or dot-product instructions: `none`, `dot`, `mfma`, `mmac`, `mmac_small`.
    pub matrix: String,
    /// Peak operations (a fused multiply-add is two) per clock and compute unit, by kind such as `vec_fp32`.
    pub flops_per_clk_per_cu: BTreeMap<String, f64>,
    /// Compiler builtins for the matrix instructions, where known.
    #[serde(default)]
    pub matrix_builtins: Vec<String>,
    /// Whether double precision runs in hardware.
    pub fp64_in_hardware: bool,
    /// Format of the 8-bit floats in hardware, or `none`.
    pub fp8: String,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// The device that the time model stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Marketing name.
    pub name: String,
    /// Compute units.
    pub cu: u32,
    /// Engine clock, MHz.
    pub clock_mhz: u32,
    /// Device memory, GiB.
    pub memory_gib: f64,
    /// Peak memory bandwidth, GB/s (1e9 bytes).
    pub memory_gbps: Figure,
    /// Read bandwidth that somebody measured, GB/s.
    #[serde(default)]
    pub memory_gbps_measured: Option<f64>,
    /// Where CU count, clock and memory size come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

macro_rules! sources {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../targets/", $name, ".toml")))),+]
    };
}

/// The default target stands first.
const SOURCES: [(&str, &str); 10] = sources![
    "gfx928", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx926", "gfx936",
    "gfx938",
];

static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    SOURCES
        .iter()
        .map(|(name, text)| {
            // The files are compiled in and a test parses them all: a fault here cannot reach a user.
            let mut target: Target =
                toml::from_str(text).unwrap_or_else(|e| panic!("targets/{name}.toml: {e}"));
            target.lds.resolve(name);
            target
        })
        .collect()
});

/// All targets, the default first.
pub fn all() -> &'static [Target] {
    &TARGETS
}

/// The default: gfx928.
pub fn default_target() -> &'static Target {
    &TARGETS[0]
}

/// The target called `name`; takes aliases (`gfx940`) and target ids with features (`gfx928:sramecc+:xnack-`).
pub fn by_name(name: &str) -> Option<&'static Target> {
    let name = name.trim().split(':').next().unwrap_or_default();
    TARGETS
        .iter()
        .find(|t| t.name == name || t.aliases.iter().any(|a| a == name))
}

impl Target {
    /// The macro that the compiler defines for this target, such as `__gfx928__`.
    pub fn macro_name(&self) -> String {
        format!("__{}__", self.name)
    }

    /// Peak single-precision TFLOPS of the vector units of the default device.
    pub fn vector_fp32_tflops(&self) -> f64 {
        let per_clk = self
            .compute
            .flops_per_clk_per_cu
            .get("vec_fp32")
            .copied()
            .unwrap_or(0.0);
        per_clk * f64::from(self.device.cu) * f64::from(self.device.clock_mhz) * 1e6 / 1e12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_parse_and_are_complete() {
        assert_eq!(default_target().name, "gfx928");
        assert_eq!(all().len(), SOURCES.len());
        for (t, (name, _)) in all().iter().zip(SOURCES) {
            assert_eq!(t.name, name);
            assert_eq!(t.wave_size, 64);
            assert!(t.device.cu > 0 && t.device.clock_mhz > 0 && t.device.memory_gbps.value > 0.0);
            assert!(t.vector_fp32_tflops() > 5.0, "{name}");
            for source in [
                &t.exec.source,
                &t.registers.source,
                &t.lds.source,
                &t.cache.source,
                &t.latency.source,
                &t.compute.source,
                &t.device.source,
                &t.device.memory_gbps.source,
            ] {
                assert!(!source.is_empty(), "{name}");
            }
            let inferred = [
                t.registers.confidence,
                t.lds.confidence,
                t.cache.confidence,
                t.device.confidence,
            ]
            .contains(&Confidence::Inferred);
            assert!(
                !inferred || !t.doubts.is_empty(),
                "{name}: an inferred group needs a doubt"
            );
            assert_eq!(t.latency.borrowed_from.is_none(), name == "gfx936");
        }
    }

    #[test]
    fn names_aliases_and_target_ids() {
        assert_eq!(by_name("gfx940").map(|t| t.name.as_str()), Some("gfx942"));
        assert_eq!(
            by_name("gfx928:sramecc+:xnack-").map(|t| t.name.as_str()),
            Some("gfx928")
        );
        assert!(by_name("gfx1100").is_none());
        assert!(by_name("").is_none());
        assert_eq!(default_target().macro_name(), "__gfx928__");
    }

    #[test]
    fn accumulation_registers() {
        let total = |t: &str, v, a| by_name(t).map(|t| t.registers.total_vgprs(v, a));
        assert_eq!(total("gfx906", 10, 0), Some(10));
        assert_eq!(total("gfx908", 10, 20), Some(20));
        assert_eq!(total("gfx90a", 10, 20), Some(32));
        assert_eq!(total("gfx90a", 10, 0), Some(10));
    }
}
