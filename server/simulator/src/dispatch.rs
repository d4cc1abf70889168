//! A launch: checked against the target, executed workgroup by workgroup, and accounted for.

use std::sync::Arc;
use std::time::Duration;

use hipsmith_process::Cancel;
use hipsmith_target::Target;

use crate::counters::{Counters, LineCounters};
use crate::fault::{Fault, SourceLine};
use crate::memory::Memory;
use crate::object::Kernel;
use crate::timing::Prediction;

/// A kernel with its launch shape and arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What to run.
    pub kernel: Arc<Kernel>,
    /// Workgroups in x, y and z (HIP's grid).
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z (HIP's block).
    pub block: [u32; 3],
    /// Dynamic LDS in bytes, beyond the kernel's static LDS.
    pub dynamic_lds: u32,
    /// Explicit arguments laid out as [`crate::KernelArg`] says; missing bytes are zero. Hidden arguments are
    /// filled in by [`Simulator::dispatch`].
    pub kernargs: Vec<u8>,
}

impl Launch {
    /// A launch without dynamic LDS and with empty arguments.
    pub fn new(kernel: Arc<Kernel>, grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            kernel,
            grid,
            block,
            dynamic_lds: 0,
            kernargs: Vec::new(),
        }
    }
}

/// Bounds on one dispatch.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Instructions that one wavefront may execute.
    pub max_instructions: u64,
    /// Wall-clock time.
    pub timeout: Duration,
    /// Stops the dispatch early.
    pub cancel: Cancel,
    /// Threads to use at most; 0 means one per available core.
    pub threads: usize,
}

impl Default for Limits {
    /// 100 million instructions per wavefront, 10 minutes, all cores.
    fn default() -> Self {
        Self {
            max_instructions: 100_000_000,
            timeout: Duration::from_secs(600),
            cancel: Cancel::new(),
            threads: 0,
        }
    }
}

/// Something that is wrong or doubtful in the program without stopping it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// One sentence: what, where, what to do.
    pub message: String,
    /// Source line, when known.
    pub at: Option<SourceLine>,
}

/// What a dispatch did. All figures are simulated.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Dispatch {
    /// Counters of the whole dispatch.
    pub counters: Counters,
    /// Counters per source line, by file and line; empty without a line table.
    pub lines: Vec<LineCounters>,
    /// Predicted time.
    pub prediction: Prediction,
    /// Wave instructions executed.
    pub instructions: u64,
    /// Active lanes summed over vector instructions.
    pub lane_instructions: u64,
    /// Workgroups that ran.
    pub workgroups: u64,
    /// Host time that the simulation took, in nanoseconds.
    pub host_ns: u64,
    /// Doubtful things the run showed.
    pub warnings: Vec<Warning>,
}

/// Executes kernels on a model of one target. Cheap to clone; can be used from several threads.
#[derive(Clone, Debug)]
pub struct Simulator {
    target: &'static Target,
    memory: Memory,
}

impl Simulator {
    /// A simulator of `target` whose kernels access `memory`.
    pub fn new(target: &'static Target, memory: Memory) -> Self {
        Self { target, memory }
    }

    /// The target that is simulated.
    pub fn target(&self) -> &'static Target {
        self.target
    }

    /// The device memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Run a launch to its end. Workgroups run in parallel where the result cannot depend on their order;
    /// kernels with global atomics run them in order on one thread. The result is the same on every run.
    ///
    /// # Errors
    /// [`Fault`]: refused, wild access, unknown instruction, limit reached, trap or cancelled. Memory that
    /// was written until then stays written.
    pub fn dispatch(&self, launch: &Launch, limits: &Limits) -> Result<Dispatch, Fault> {
        let _ = limits;
        Err(Fault::Code {
            kernel: launch.kernel.display_name.clone(),
            reason: "execution is not there yet".to_owned(),
        })
    }
}
