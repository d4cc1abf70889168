//! The simulated HIP runtime's report of a run, and how it reads as text.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Counters, ReadError};

/// What a program's kernels did on the simulator. Every figure in it is simulated or, where the name says so,
/// predicted; none was measured on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of this format: 1.
    pub version: u32,
    /// `simulated`.
    pub origin: String,
    /// Target that was simulated.
    pub target: String,
    /// Device whose clock, compute units and bandwidth the time model uses.
    pub device: String,
    /// Targets that the code objects which ran were compiled for.
    pub compiled_for: Vec<String>,
    /// The program with its arguments.
    pub program: Vec<String>,
    /// Whether the program reached its end; `false` in a report written on the way.
    pub complete: bool,
    /// What the reader must know about how the run was made.
    pub notes: Vec<String>,
    /// Doubtful hardware facts of the target.
    pub doubts: Vec<String>,
    /// What the time model assumes.
    pub assumptions: Vec<String>,
    /// Kernels in the order of their first launch.
    pub kernels: Vec<KernelReport>,
    /// Kernels that did not run to their end, launches that were refused, code that could not be loaded.
    pub faults: Vec<FaultReport>,
    /// Doubtful things that kernels did without being stopped.
    pub warnings: Vec<WarningReport>,
    /// HIP functions that the program called and that the simulated runtime does not have.
    pub unsupported: Vec<String>,
}

/// One kernel over all its dispatches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Symbol (mangled).
    pub name: String,
    /// Demangled name with its parameter types.
    pub display: String,
    /// Dispatches that ran to their end.
    pub dispatches: u64,
    /// Launch shapes, at most [`MAX_SHAPES`].
    pub shapes: Vec<Shape>,
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// Static LDS of a workgroup in bytes.
    pub static_lds: u32,
    /// Private memory of a lane in bytes.
    pub scratch: u32,
    /// Counters summed over the dispatches.
    pub counters: Counters,
    /// Counters by source line; empty when the code object has no line table.
    pub lines: Vec<LineReport>,
    /// LDS accesses by instruction, in the order of the code; lane exchanges are not among them.
    #[serde(default)]
    pub lds: Vec<LdsReport>,
    /// Predicted time of all dispatches on the simulated target, nanoseconds.
    pub predicted_ns_total: f64,
    /// Predicted time of one dispatch on average, nanoseconds.
    pub predicted_ns_per_dispatch: f64,
    /// Predicted time of each dispatch in order, nanoseconds; the first [`MAX_DISPATCHES`].
    pub dispatch_ns: Vec<f64>,
    /// What binds the largest part of the predicted time.
    pub bound_by: String,
    /// Wavefronts that a SIMD can hold, lowest over the dispatches.
    pub occupancy: u32,
    /// Host time that simulating it took, nanoseconds.
    pub host_ns: u64,
    /// Dispatches that did not run to their end.
    pub faults: u64,
}

/// Shapes kept for each kernel.
pub const MAX_SHAPES: usize = 16;
/// Single dispatch times kept for each kernel.
pub const MAX_DISPATCHES: usize = 4096;

/// A launch shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Workgroups in x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    pub block: [u32; 3],
    /// Dynamic LDS in bytes.
    pub dynamic_lds: u32,
    /// Dispatches with this shape.
    pub dispatches: u64,
}

/// Counters of one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineReport {
    /// Path as the compiler recorded it.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Counters summed over the dispatches.
    pub counters: Counters,
}

/// What one LDS instruction of a kernel did, summed over the dispatches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdsReport {
    /// Path as the compiler recorded it; `None` without a line table.
    pub file: Option<String>,
    /// Line, counted from 1; 0 when not known.
    pub line: u32,
    /// Column, counted from 1; 0 when not known.
    pub column: u32,
    /// Address in the code object.
    pub pc: u64,
    /// Its name, such as `ds_read2_b32`.
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

/// Why something did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Kernel, demangled, when one was concerned.
    pub kernel: Option<String>,
    /// One sentence: what happened, where, what to do.
    pub message: String,
    /// Source file, when known.
    pub file: Option<String>,
    /// Source line, counted from 1, when known.
    pub line: Option<u32>,
}

/// Something doubtful that a kernel did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarningReport {
    /// Kernel, demangled.
    pub kernel: String,
    /// One sentence.
    pub message: String,
    /// Source file, when known.
    pub file: Option<String>,
    /// Source line, counted from 1, when known.
    pub line: Option<u32>,
}

impl RunReport {
    /// Read a report from a file.
    ///
    /// # Errors
    /// [`ReadError`] if it is missing or not in this format.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        crate::read_json(path, "report of a simulated run")
    }

    /// The report as text for a terminal; with `by_line` also the counters of each source line.
    pub fn to_text(&self, by_line: bool) -> String {
        let mut out = String::new();
        let _ = self.write_text(&mut out, by_line);
        out
    }

    fn write_text(&self, out: &mut String, by_line: bool) -> std::fmt::Result {
        writeln!(
            out,
            "simulated {} ({}): counters are simulated, times are predicted, nothing was measured on a device",
            self.target, self.device
        )?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for kernel in &self.kernels {
            kernel.write_text(out, by_line)?;
        }
        for warning in &self.warnings {
            let place = place(warning.file.as_deref(), warning.line);
            writeln!(
                out,
                "warning: {}{}: {}",
                warning.kernel, place, warning.message
            )?;
        }
        for name in &self.unsupported {
            writeln!(
                out,
                "warning: the program called {name}, which the simulated runtime does not have; it got hipErrorNotSupported"
            )?;
        }
        for fault in &self.faults {
            writeln!(out, "fault: {}", fault.message)?;
        }
        for doubt in &self.doubts {
            writeln!(out, "doubt: {doubt}")?;
        }
        Ok(())
    }
}

fn place(file: Option<&str>, line: Option<u32>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!(" at {file}:{line}"),
        (Some(file), None) => format!(" in {file}"),
        _ => String::new(),
    }
}

impl KernelReport {
    fn write_text(&self, out: &mut String, by_line: bool) -> std::fmt::Result {
        writeln!(out)?;
        writeln!(out, "kernel {}", self.display)?;
        let times = if self.dispatches == 1 {
            "dispatch"
        } else {
            "dispatches"
        };
        write!(out, "  {} {times}", count(self.dispatches))?;
        if self.faults > 0 {
            write!(out, " and {} that did not run to the end", self.faults)?;
        }
        for (i, shape) in self.shapes.iter().enumerate().take(4) {
            write!(
                out,
                "{} grid {} block {}",
                if i == 0 { ":" } else { ";" },
                dims(shape.grid),
                dims(shape.block)
            )?;
            if shape.dynamic_lds > 0 {
                write!(out, " dynamic LDS {} bytes", shape.dynamic_lds)?;
            }
            if self.shapes.len() > 1 {
                write!(out, " ({} times)", count(shape.dispatches))?;
            }
        }
        if self.shapes.len() > 4 {
            write!(out, "; ...")?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "  resources    {} VGPRs, {} SGPRs, {} bytes static LDS, {} bytes scratch per lane{}",
            self.vgprs,
            self.sgprs,
            self.static_lds,
            self.scratch,
            match self.dispatches {
                0 => String::new(),
                _ => format!("; occupancy {} wavefronts per SIMD", self.occupancy),
            }
        )?;
        if self.dispatches == 0 {
            return Ok(());
        }
        let c = &self.counters;
        let n = |name: &str| count(c.get(name));
        writeln!(
            out,
            "  instructions {} by {} wavefronts: {} VALU, {} matrix, {} SALU, {} scalar memory, {} vector loads, {} vector stores and atomics, {} flat, {} LDS, {} branches, {} barriers",
            n("SQ_INSTS"),
            n("SQ_WAVES"),
            n("SQ_INSTS_VALU"),
            n("SQ_INSTS_MFMA"),
            n("SQ_INSTS_SALU"),
            n("SQ_INSTS_SMEM"),
            n("SQ_INSTS_VMEM_RD"),
            n("SQ_INSTS_VMEM_WR"),
            n("SQ_INSTS_FLAT"),
            n("SQ_INSTS_LDS"),
            n("SQ_INSTS_BRANCH"),
            n("barriers"),
        )?;
        if let Some(share) = c.valu_utilization() {
            writeln!(
                out,
                "  lanes        {:.1} % active in VALU instructions",
                100.0 * share
            )?;
        }
        if let Some(share) = c.lds_conflict_share() {
            writeln!(
                out,
                "  LDS          {} instructions, {} bytes, {} cycles of which {} bank conflicts ({:.1} %)",
                n("SQ_INSTS_LDS"),
                n("lds_bytes"),
                n("SQ_LDS_IDX_ACTIVE"),
                n("SQ_LDS_BANK_CONFLICT"),
                100.0 * share,
            )?;
        }
        if let Some(ratio) = c.lines_per_ideal() {
            writeln!(
                out,
                "  memory       {} bytes read, {} bytes written; {} lines touched, {} if lanes were packed ({ratio:.2} times)",
                n("bytes_read"),
                n("bytes_written"),
                n("lines_touched"),
                n("lines_ideal"),
            )?;
        }
        writeln!(
            out,
            "  time         {} predicted per dispatch, {} in all; bound by {}",
            duration(self.predicted_ns_per_dispatch),
            duration(self.predicted_ns_total),
            self.bound_by,
        )?;
        if by_line {
            self.write_lines(out)?;
        }
        Ok(())
    }

    fn write_lines(&self, out: &mut String) -> std::fmt::Result {
        if self.lines.is_empty() {
            return writeln!(
                out,
                "  by line      not known: the code object has no line table; compile with -g or -gline-tables-only"
            );
        }
        writeln!(
            out,
            "  {:>14} {:>12} {:>12} {:>12} {:>14} {:>12} {:>14}  line",
            "instructions", "VALU", "LDS", "LDS conflict", "lines touched", "packed", "bytes moved"
        )?;
        for line in &self.lines {
            let c = &line.counters;
            writeln!(
                out,
                "  {:>14} {:>12} {:>12} {:>12} {:>14} {:>12} {:>14}  {}:{}",
                count(c.get("SQ_INSTS")),
                count(c.get("SQ_INSTS_VALU")),
                count(c.get("SQ_INSTS_LDS")),
                count(c.get("SQ_LDS_BANK_CONFLICT")),
                count(c.get("lines_touched")),
                count(c.get("lines_ideal")),
                count(c.get("bytes_read") + c.get("bytes_written")),
                line.file,
                line.line,
            )?;
        }
        Ok(())
    }
}

/// `1234567` as `1 234 567`.
fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn dims([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

fn duration(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.2} us", ns / 1e3)
    } else if ns < 1e9 {
        format!("{:.2} ms", ns / 1e6)
    } else {
        format!("{:.2} s", ns / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> RunReport {
        RunReport {
            version: 1,
            origin: "simulated".to_owned(),
            target: "gfx928".to_owned(),
            device: "K500SM_AI".to_owned(),
            compiled_for: vec!["gfx906".to_owned()],
            program: vec!["./x".to_owned()],
            complete: true,
            notes: vec!["compiled for gfx906, simulated with gfx928's table".to_owned()],
            kernels: vec![KernelReport {
                name: "_Z1kPf".to_owned(),
                display: "k(float*)".to_owned(),
                dispatches: 2,
                shapes: vec![Shape {
                    grid: [4, 1, 1],
                    block: [16, 16, 1],
                    dynamic_lds: 0,
                    dispatches: 2,
                }],
                vgprs: 8,
                sgprs: 16,
                counters: Counters::from_iter([
                    ("SQ_INSTS", 1_234_567),
                    ("SQ_INSTS_VALU", 1000),
                    ("SQ_THREAD_CYCLES_VALU", 32_000),
                    ("SQ_LDS_IDX_ACTIVE", 100),
                    ("SQ_LDS_BANK_CONFLICT", 50),
                    ("lines_touched", 40),
                    ("lines_ideal", 10),
                ]),
                lines: vec![LineReport {
                    file: "k.hip".to_owned(),
                    line: 7,
                    counters: Counters::from_iter([("SQ_INSTS", 12)]),
                }],
                predicted_ns_total: 5000.0,
                predicted_ns_per_dispatch: 2500.0,
                bound_by: "LDS".to_owned(),
                occupancy: 10,
                ..KernelReport::default()
            }],
            faults: vec![FaultReport {
                kernel: None,
                message: "something happened".to_owned(),
                ..FaultReport::default()
            }],
            unsupported: vec!["hipGraphCreate".to_owned()],
            ..RunReport::default()
        }
    }

    #[test]
    fn the_text_says_what_is_simulated_and_what_predicted() {
        let text = report().to_text(true);
        for part in [
            "simulated gfx928",
            "nothing was measured",
            "1 234 567",
            "50.0 % active",
            "50 bank conflicts (50.0 %)",
            "4.00 times",
            "2.50 us predicted per dispatch",
            "grid 4 block 16x16",
            "k.hip:7",
            "fault: something happened",
            "hipGraphCreate",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!report().to_text(false).contains("k.hip:7"));
    }

    #[test]
    fn a_report_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        crate::write_atomically(&path, &serde_json::to_vec(&report()).unwrap()).unwrap();
        assert_eq!(RunReport::read(&path).unwrap(), report());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
