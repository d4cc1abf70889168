//! What is kept of each dispatch, and the report written from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hipsmith_profile::Counters;
use hipsmith_profile::simulated::{
    FaultReport, KernelReport, LdsReport, LineReport, MAX_DISPATCHES, MAX_SHAPES, RunReport, Shape,
    WarningReport,
};
use hipsmith_simulator::{Bound, Dispatch, Kernel, Launch, SourceLine};
use hipsmith_target::Target;

use crate::state::say;

/// A report on the way is written at most so often.
const BETWEEN: Duration = Duration::from_secs(1);
/// Warnings kept; a kernel that does something doubtful does it in every workgroup.
const MAX_WARNINGS: usize = 100;

/// Collects what the report says.
pub(crate) struct Recorder {
    path: Option<PathBuf>,
    /// A process that the program forks has the same environment, and must not write over the report.
    process: u32,
    target: &'static Target,
    compiled_for: BTreeSet<String>,
    notes: Vec<String>,
    assumptions: Vec<String>,
    kernels: Vec<PerKernel>,
    by_name: HashMap<String, usize>,
    faults: Vec<FaultReport>,
    warnings: Vec<WarningReport>,
    unsupported: BTreeSet<&'static str>,
    written: Option<Instant>,
    complained: bool,
}

struct PerKernel {
    report: KernelReport,
    counters: hipsmith_simulator::Counters,
    lines: HashMap<SourceLine, hipsmith_simulator::Counters>,
    /// By address.
    lds: BTreeMap<u64, LdsReport>,
    bounds: Vec<(Bound, f64)>,
}

impl Recorder {
    pub(crate) fn new(target: &'static Target) -> Self {
        Self {
            path: std::env::var_os("HIPSMITH_REPORT")
                .filter(|p| !p.is_empty())
                .map(|p| std::path::absolute(&p).unwrap_or_else(|_| p.into())),
            process: std::process::id(),
            target,
            compiled_for: BTreeSet::new(),
            notes: Vec::new(),
            assumptions: Vec::new(),
            kernels: Vec::new(),
            by_name: HashMap::new(),
            faults: Vec::new(),
            warnings: Vec::new(),
            unsupported: BTreeSet::new(),
            written: None,
            complained: false,
        }
    }

    /// A code object was loaded.
    pub(crate) fn compiled_for(&mut self, isa: &str) {
        if self.compiled_for.insert(isa.to_owned()) && isa != self.target.name {
            self.notes.push(format!(
                "the code was compiled for {isa} and is simulated with the table of {}",
                self.target.name
            ));
        }
    }

    /// Something that the reader of the report must know.
    pub(crate) fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// The program called a function that is not there. True the first time.
    pub(crate) fn unsupported(&mut self, function: &'static str) -> bool {
        self.unsupported.insert(function)
    }

    /// Something failed outside a running kernel.
    pub(crate) fn fault(&mut self, kernel: Option<&str>, message: String, at: Option<SourceLine>) {
        self.faults.push(FaultReport {
            kernel: kernel.map(str::to_owned),
            message,
            file: at.as_ref().map(|a| a.file.to_string()),
            line: at.map(|a| a.line),
        });
        self.write(false);
    }

    /// A launch was refused.
    pub(crate) fn refused(&mut self, kernel: &Kernel, message: String) {
        self.stopped(kernel, message, None);
    }

    /// A kernel did not run to its end.
    pub(crate) fn stopped(&mut self, kernel: &Kernel, message: String, at: Option<SourceLine>) {
        self.entry(kernel).report.faults += 1;
        self.fault(Some(&kernel.display_name), message, at);
    }

    fn entry(&mut self, kernel: &Kernel) -> &mut PerKernel {
        let index = *self
            .by_name
            .entry(kernel.name.clone())
            .or_insert(self.kernels.len());
        if index == self.kernels.len() {
            self.kernels.push(PerKernel {
                report: KernelReport {
                    name: kernel.name.clone(),
                    display: kernel.display_name.clone(),
                    vgprs: kernel.vgpr_count,
                    sgprs: kernel.sgpr_count,
                    static_lds: kernel.group_segment_fixed_size,
                    scratch: kernel.private_segment_fixed_size,
                    ..KernelReport::default()
                },
                counters: hipsmith_simulator::Counters::default(),
                lines: HashMap::new(),
                lds: BTreeMap::new(),
                bounds: Vec::new(),
            });
        }
        &mut self.kernels[index]
    }

    /// A kernel ran to its end.
    pub(crate) fn dispatch(&mut self, launch: &Launch, dispatch: &Dispatch) {
        let prediction = &dispatch.prediction;
        let kernel = self.entry(&launch.kernel);
        let report = &mut kernel.report;
        report.dispatches += 1;
        report.predicted_ns_total += prediction.ns;
        if report.dispatch_ns.len() < MAX_DISPATCHES {
            report.dispatch_ns.push(prediction.ns);
        }
        report.host_ns = report.host_ns.saturating_add(dispatch.host_ns);
        report.occupancy = if report.dispatches == 1 {
            prediction.occupancy
        } else {
            report.occupancy.min(prediction.occupancy)
        };
        let shape = Shape {
            grid: launch.grid,
            block: launch.block,
            dynamic_lds: launch.dynamic_lds,
            dispatches: 1,
        };
        let same = |s: &Shape| {
            Shape {
                dispatches: 1,
                ..*s
            } == shape
        };
        match report.shapes.iter().position(same) {
            Some(known) => report.shapes[known].dispatches += 1,
            None if report.shapes.len() < MAX_SHAPES => report.shapes.push(shape),
            None => {}
        }
        kernel.counters.add(&dispatch.counters);
        for line in &dispatch.lines {
            match kernel.lines.get_mut(&line.at) {
                Some(sum) => sum.add(&line.counters),
                None => {
                    kernel.lines.insert(line.at.clone(), line.counters);
                }
            }
        }
        for one in &dispatch.lds {
            let sum = kernel.lds.entry(one.pc).or_insert_with(|| LdsReport {
                file: one.at.as_ref().map(|a| a.file.to_string()),
                line: one.at.as_ref().map_or(0, |a| a.line),
                column: one.column,
                pc: one.pc,
                mnemonic: one.mnemonic.clone(),
                ..LdsReport::default()
            });
            sum.executions += one.executions;
            sum.cycles += one.cycles;
            sum.conflict_cycles += one.conflict_cycles;
            sum.degree = sum.degree.max(one.degree);
        }
        let bound = prediction.bound_by;
        match kernel.bounds.iter_mut().find(|(b, _)| *b == bound) {
            Some((_, ns)) => *ns += prediction.ns,
            None => kernel.bounds.push((bound, prediction.ns)),
        }
        for warning in &dispatch.warnings {
            let report = WarningReport {
                kernel: launch.kernel.display_name.clone(),
                message: warning.message.clone(),
                file: warning.at.as_ref().map(|a| a.file.to_string()),
                line: warning.at.as_ref().map(|a| a.line),
            };
            if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&report) {
                self.warnings.push(report);
            }
        }
        for assumption in &prediction.assumptions {
            if !self.assumptions.contains(assumption) {
                self.assumptions.push(assumption.clone());
            }
        }
        self.write_now_and_then();
    }

    /// Write a report on the way, unless one was written a moment ago: a program that is killed leaves it behind.
    pub(crate) fn write_now_and_then(&mut self) {
        if self.written.is_none_or(|at| at.elapsed() > BETWEEN) {
            self.write(false);
        }
    }

    /// Write the report, if one is wanted.
    pub(crate) fn write(&mut self, complete: bool) {
        let Some(path) = self.path.clone() else {
            return;
        };
        if self.process != std::process::id() {
            return;
        }
        self.written = Some(Instant::now());
        let written = serde_json::to_vec_pretty(&self.report(complete))
            .map_err(std::io::Error::other)
            .and_then(|bytes| hipsmith_profile::write_atomically(&path, &bytes));
        if let Err(error) = written
            && !std::mem::replace(&mut self.complained, true)
        {
            say(&format!(
                "the report {} cannot be written: {error}",
                path.display()
            ));
        }
    }

    fn report(&self, complete: bool) -> RunReport {
        RunReport {
            version: 1,
            origin: "simulated".to_owned(),
            target: self.target.name.clone(),
            device: self.target.device.name.clone(),
            compiled_for: self.compiled_for.iter().cloned().collect(),
            program: program(),
            complete,
            notes: self.notes.clone(),
            doubts: self.target.doubts.clone(),
            assumptions: self.assumptions.clone(),
            kernels: self.kernels.iter().map(PerKernel::report).collect(),
            faults: self.faults.clone(),
            warnings: self.warnings.clone(),
            unsupported: self.unsupported.iter().map(|&n| n.to_owned()).collect(),
        }
    }
}

/// The program with its arguments.
pub(crate) fn program() -> Vec<String> {
    std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect()
}

impl PerKernel {
    fn report(&self) -> KernelReport {
        let mut report = self.report.clone();
        report.counters = counters(&self.counters);
        report.lines = self
            .lines
            .iter()
            .map(|(at, sum)| LineReport {
                file: at.file.to_string(),
                line: at.line,
                counters: counters(sum),
            })
            .collect();
        report
            .lines
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        report.lds = self.lds.values().cloned().collect();
        if report.dispatches > 0 {
            report.predicted_ns_per_dispatch = report.predicted_ns_total / report.dispatches as f64;
        }
        report.bound_by = self
            .bounds
            .iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(bound, _)| in_words(*bound).to_owned())
            .unwrap_or_default();
        report
    }
}

/// The simulator's counters under the names they serialize with.
fn counters(simulated: &hipsmith_simulator::Counters) -> Counters {
    match serde_json::to_value(simulated) {
        Ok(serde_json::Value::Object(fields)) => fields
            .into_iter()
            .filter_map(|(name, count)| Some((name, count.as_u64()?)))
            .collect(),
        _ => Counters::default(),
    }
}

fn in_words(bound: Bound) -> &'static str {
    match bound {
        Bound::Valu => "vector ALU issue",
        Bound::Scalar => "scalar issue",
        Bound::Lds => "LDS cycles",
        Bound::L1 => "lines through the vector L1",
        Bound::L2 => "L2 bandwidth",
        Bound::Memory => "device memory bandwidth",
        Bound::Latency => "latency that too few wavefronts hide",
        Bound::Launch => "the launch itself",
    }
}
