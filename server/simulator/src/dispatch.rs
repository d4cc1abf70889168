//! A launch: checked against the target, executed workgroup by workgroup, and accounted for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hipsmith_process::Cancel;
use hipsmith_target::{Resources, Target, occupancy};

use crate::counters::{Counters, LdsCounters, LineCounters};
use crate::fault::{Fault, Site, SourceLine};
use crate::hostcall::{Hostcall, Printer};
use crate::machine::{
    Bounds, Class, Clock, Code, Example, Finding, LANES, Mode, Op, Outstanding, Problem, Rate,
    Shadow, Stat, Status, Touched, Wave, WaveState, Worker, run,
};
use crate::memory::{Memory, Snapshot};
use crate::object::{Kernel, KernelArg};
use crate::timing::{self, Prediction};

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
    /// What takes the text that kernels print.
    pub printer: Printer,
}

impl Default for Limits {
    /// 100 million instructions per wavefront, 10 minutes, all cores.
    fn default() -> Self {
        Self {
            max_instructions: 100_000_000,
            timeout: Duration::from_secs(600),
            cancel: Cancel::new(),
            threads: 0,
            printer: Printer::default(),
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
    /// LDS accesses by instruction, in the order of the code.
    pub lds: Vec<LdsCounters>,
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
    /// Doubtful things the run showed: LDS races and reads of unwritten LDS (checked in the first workgroups),
    /// wavefronts at different barriers.
    pub warnings: Vec<Warning>,
}

/// Executes kernels on a model of one target. Cheap to clone; can be used from several threads.
#[derive(Clone, Debug)]
pub struct Simulator {
    target: &'static Target,
    memory: Memory,
}

/// Private memory per lane where the compiler does not know how deep calls go, in bytes.
const DYNAMIC_STACK: u32 = 64 << 10;

/// Workgroups whose LDS accesses are checked for races and for reads of nothing. What is wrong in one is wrong
/// in most, and the check costs time.
const CHECKED_GROUPS: u64 = 4;

/// Instructions that a wave executes before the other waves of its workgroup get a turn.
const WAVE_QUANTUM: u64 = 1 << 14;

/// Turns that all waves of a workgroup get before other workgroups go on: it may wait for one of them.
const GROUP_ROUNDS: u32 = 16;

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
    /// kernels with global atomics or volatile loads run them in order on one thread. The result is the same on
    /// every run.
    ///
    /// # Errors
    /// [`Fault`]: refused, wild access, unknown instruction, limit reached, trap or cancelled. Memory that
    /// was written until then stays written.
    pub fn dispatch(&self, launch: &Launch, limits: &Limits) -> Result<Dispatch, Fault> {
        let start = Instant::now();
        let kernel = &*launch.kernel;
        let lds_bytes = self.admit(launch)?;
        let code = Arc::clone(kernel.code(&limits.cancel).map_err(|reason| {
            if limits.cancel.is_cancelled() {
                Fault::Cancelled {
                    kernel: kernel.display_name.clone(),
                }
            } else {
                Fault::Code {
                    kernel: kernel.display_name.clone(),
                    reason,
                }
            }
        })?);
        let entry = code
            .at(kernel.descriptor.entry)
            .ok_or_else(|| Fault::Code {
                kernel: kernel.display_name.clone(),
                reason: format!(
                    "its first instruction at {:#x} was not disassembled",
                    kernel.descriptor.entry
                ),
            })?;
        let host = |reason: String| Fault::Host {
            kernel: kernel.display_name.clone(),
            reason,
        };
        let prints = |a: &KernelArg| a.value_kind == "hidden_hostcall_buffer";
        let hostcall = kernel
            .args
            .iter()
            .any(prints)
            .then(|| Hostcall::new(&self.memory, limits.printer.clone()))
            .transpose()
            .map_err(|e| host(e.to_string()))?;
        let buffer = hostcall.as_ref().map_or(0, Hostcall::address);
        let arguments = Arguments::place(&self.memory, launch, buffer).map_err(host)?;
        let snapshot = self.memory.snapshot();
        let touched = Touched::new(&snapshot, self.target.cache.l1_line_bytes);
        let resources = Resources {
            vgprs: self
                .target
                .registers
                .total_vgprs(kernel.vgpr_count, kernel.agpr_count),
            sgprs: kernel.sgpr_count,
            lds_bytes,
            workgroup: launch.block.iter().product(),
        };
        let held = occupancy(self.target, &resources);
        let run = Run {
            target: self.target,
            launch,
            code: &code,
            entry,
            reach: code.reach(entry),
            lds_bytes,
            arguments: &arguments,
            hostcall: hostcall.map(Mutex::new),
            snapshot: &snapshot,
            touched: &touched,
            groups_per_cu: held.workgroups_per_cu.max(1),
            deadline: start + limits.timeout,
            timeout: limits.timeout,
            limits,
        };
        let total = run.execute()?;
        Ok(run.report(total, held.waves_per_simd, start.elapsed()))
    }

    /// Whether the target can run the launch at all; the LDS bytes of a workgroup.
    fn admit(&self, launch: &Launch) -> Result<u32, Fault> {
        let kernel = &*launch.kernel;
        let refuse = |reason: String| Fault::LaunchRefused {
            kernel: kernel.display_name.clone(),
            target: self.target.name.clone(),
            reason,
        };
        if launch.grid.contains(&0) || launch.block.contains(&0) {
            return Err(refuse(format!(
                "the grid {:?} or block {:?} has a zero dimension; launch at least one work-item",
                launch.grid, launch.block
            )));
        }
        let threads = launch
            .block
            .iter()
            .try_fold(1u32, |n, d| n.checked_mul(*d))
            .unwrap_or(u32::MAX);
        let max = self.target.exec.max_workgroup;
        if threads > max {
            return Err(refuse(format!(
                "a block of {threads} work-items is over the limit of {max}; use a smaller block"
            )));
        }
        if kernel.max_flat_workgroup_size != 0 && threads > kernel.max_flat_workgroup_size {
            return Err(refuse(format!(
                "a block of {threads} work-items is over the {} that the kernel was compiled for; raise __launch_bounds__ or use a smaller block",
                kernel.max_flat_workgroup_size
            )));
        }
        // FLOAT_ROUND_MODE_32 and _16_64 of COMPUTE_PGM_RSRC1 (LLVM AMDGPUUsage); 0 is nearest even.
        if kernel.descriptor.rsrc1 >> 12 & 0xf != 0 {
            return Err(refuse(
                "it asks for a rounding mode other than to nearest even, which the simulator does not have"
                    .to_owned(),
            ));
        }
        let items = launch
            .grid
            .iter()
            .zip(launch.block)
            .try_fold(1u64, |n, (g, b)| -> Option<u64> {
                n.checked_mul(u64::from(*g) * u64::from(b))
            });
        if items.is_none()
            || launch
                .grid
                .iter()
                .zip(launch.block)
                .any(|(g, b)| u64::from(*g) * u64::from(b) > u64::from(u32::MAX))
        {
            return Err(refuse(
                "the grid has 2^32 or more work-items in one dimension; use a smaller grid"
                    .to_owned(),
            ));
        }
        if kernel.wavefront_size != 0 && kernel.wavefront_size != 64 {
            return Err(refuse(format!(
                "it was compiled for wavefronts of {} lanes; compile for a gfx9 target",
                kernel.wavefront_size
            )));
        }
        let lds = u64::from(kernel.group_segment_fixed_size) + u64::from(launch.dynamic_lds);
        let max = self.target.lds.max_bytes_per_workgroup;
        if lds > u64::from(max) {
            return Err(refuse(format!(
                "it needs {lds} bytes of LDS ({} static, {} dynamic) and a workgroup can have {max}; use smaller __shared__ arrays",
                kernel.group_segment_fixed_size, launch.dynamic_lds
            )));
        }
        Ok(lds as u32)
    }
}

/// Kernel arguments and dispatch packet in device memory, freed with the dispatch.
struct Arguments {
    memory: Memory,
    base: u64,
    kernarg: u64,
    packet: u64,
}

impl Arguments {
    fn place(memory: &Memory, launch: &Launch, hostcall: u64) -> Result<Self, String> {
        let kernel = &launch.kernel;
        let mut bytes = launch.kernargs.clone();
        // Metadata from a damaged file must not make us allocate without bound.
        let size = kernel.kernarg_size.min(1 << 20) as usize;
        bytes.resize(bytes.len().max(size), 0);
        for arg in kernel.args.iter().filter(|a| a.is_hidden()) {
            hidden(launch, arg, hostcall, &mut bytes);
        }
        let kernarg_len = bytes.len().next_multiple_of(64);
        let base = memory
            .alloc(kernarg_len as u64 + 64, "the kernel arguments")
            .map_err(|e| e.to_string())?;
        let arguments = Self {
            memory: memory.clone(),
            base,
            kernarg: base,
            packet: base + kernarg_len as u64,
        };
        let packet = packet(launch, arguments.kernarg);
        memory
            .write_bytes(arguments.kernarg, &bytes)
            .and_then(|()| memory.write_bytes(arguments.packet, &packet))
            .map_err(|e| e.to_string())?;
        Ok(arguments)
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        let _ = self.memory.free(self.base);
    }
}

/// Fill one hidden argument (LLVM's AMDGPU usage guide, "Code Object V3/V5 Metadata").
fn hidden(launch: &Launch, arg: &KernelArg, hostcall: u64, bytes: &mut [u8]) {
    let dims = launch.grid.iter().zip(launch.block);
    let grid_dims = dims
        .enumerate()
        .filter(|(_, (g, b))| u64::from(**g) * u64::from(*b) > 1)
        .map(|(d, _)| d as u64 + 1)
        .max()
        .unwrap_or(1);
    let value = match arg.value_kind.as_str() {
        "hidden_block_count_x" => u64::from(launch.grid[0]),
        "hidden_block_count_y" => u64::from(launch.grid[1]),
        "hidden_block_count_z" => u64::from(launch.grid[2]),
        "hidden_group_size_x" => u64::from(launch.block[0]),
        "hidden_group_size_y" => u64::from(launch.block[1]),
        "hidden_group_size_z" => u64::from(launch.block[2]),
        "hidden_grid_dims" => grid_dims,
        "hidden_hostcall_buffer" => hostcall,
        "hidden_dynamic_lds_size" => u64::from(launch.dynamic_lds),
        "hidden_private_base" => crate::machine::PRIVATE_APERTURE >> 32,
        "hidden_shared_base" => crate::machine::SHARED_APERTURE >> 32,
        // Offsets and remainders are 0 for HIP's whole blocks; buffers that only a runtime has are null.
        _ => 0,
    };
    let start = arg.offset as usize;
    let len = (arg.size as usize).min(8);
    if let Some(place) = bytes.get_mut(start..start.saturating_add(len)) {
        place.copy_from_slice(&value.to_le_bytes()[..len]);
    }
}

/// `hsa_kernel_dispatch_packet_t`.
fn packet(launch: &Launch, kernarg: u64) -> [u8; 64] {
    let mut packet = [0u8; 64];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &2u16.to_le_bytes());
    put(2, &3u16.to_le_bytes());
    for d in 0..3 {
        put(4 + 2 * d, &(launch.block[d] as u16).to_le_bytes());
        let items = launch.grid[d].wrapping_mul(launch.block[d]);
        put(12 + 4 * d, &items.to_le_bytes());
    }
    put(24, &launch.kernel.private_segment_fixed_size.to_le_bytes());
    let lds = launch
        .kernel
        .group_segment_fixed_size
        .wrapping_add(launch.dynamic_lds);
    put(28, &lds.to_le_bytes());
    put(40, &kernarg.to_le_bytes());
    packet
}

/// A workgroup while it runs.
struct Group {
    id: [u32; 3],
    lds: Vec<u8>,
    waves: Vec<WaveState>,
    shadow: Option<Shadow>,
}

/// What workers give back.
#[derive(Default)]
struct Total {
    stats: Vec<Stat>,
    waves: u64,
    groups: u64,
    /// Sum over workgroups of the time that the last wave ends, and the longest.
    time: Clock,
    longest: Clock,
    warnings: BTreeMap<String, Option<SourceLine>>,
    findings: BTreeMap<Finding, (String, Option<SourceLine>)>,
}

impl Total {
    fn merge(&mut self, other: Self) {
        if self.stats.is_empty() {
            self.stats = other.stats;
        } else {
            for (a, b) in self.stats.iter_mut().zip(&other.stats) {
                a.add(b);
            }
        }
        self.waves += other.waves;
        self.groups += other.groups;
        for i in 0..2 {
            self.time[i] += other.time[i];
            self.longest[i] = self.longest[i].max(other.longest[i]);
        }
        self.warnings.extend(other.warnings);
        for (finding, told) in other.findings {
            let mine = self.findings.entry(finding).or_insert_with(|| told.clone());
            if told.0 < mine.0 {
                *mine = told;
            }
        }
    }
}

/// One dispatch under way.
struct Run<'a> {
    target: &'static Target,
    launch: &'a Launch,
    code: &'a Code,
    entry: u32,
    reach: crate::machine::Reach,
    lds_bytes: u32,
    arguments: &'a Arguments,
    hostcall: Option<Mutex<Hostcall>>,
    snapshot: &'a Snapshot,
    touched: &'a Touched,
    groups_per_cu: u32,
    deadline: Instant,
    timeout: Duration,
    limits: &'a Limits,
}

impl Run<'_> {
    fn groups(&self) -> u64 {
        self.launch.grid.iter().map(|g| u64::from(*g)).product()
    }

    fn execute(&self) -> Result<Total, Fault> {
        let groups = self.groups();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = match self.limits.threads {
            0 => cores,
            n => n.min(cores),
        };
        let threads = if self.reach.ordered {
            1
        } else {
            wanted
                .min(usize::try_from(groups).unwrap_or(usize::MAX))
                .max(1)
        };
        let resident = u64::from(self.target.device.cu) * u64::from(self.groups_per_cu);
        let capacity = (usize::try_from(resident).unwrap_or(usize::MAX) / threads).max(1);
        let stop = AtomicBool::new(false);
        let next = AtomicU64::new(0);
        // The fault of the lowest workgroup wins, so that the message is the same on every run.
        let fault: Mutex<Option<(u64, Fault)>> = Mutex::new(None);
        let total = Mutex::new(Total::default());
        let work = || {
            let mut worker = self.worker();
            let mut mine = Total::default();
            let result = self.work(&mut worker, &mut mine, &next, &stop, capacity);
            mine.stats = std::mem::take(&mut worker.stats);
            lock(&total).merge(mine);
            if let Err((group, problem)) = result {
                stop.store(true, Ordering::Relaxed);
                let mut first = lock(&fault);
                if first.as_ref().is_none_or(|(g, _)| group < *g) {
                    *first = Some((group, problem));
                }
            }
        };
        if threads == 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(work);
                }
            });
        }
        match fault
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            Some((_, fault)) => Err(fault),
            None => Ok(total
                .into_inner()
                .unwrap_or_else(std::sync::PoisonError::into_inner)),
        }
    }

    fn worker(&self) -> Worker<'_> {
        let line = u64::from(self.target.cache.l1_line_bytes.max(1));
        let lines = self.target.cache.l1_bytes_per_cu / line / u64::from(self.groups_per_cu);
        Worker::new(self.code, self.snapshot, self.target, self.touched, lines)
    }

    /// Workgroups from a shared counter, each to its end. Those that do not come to their end soon take turns
    /// with others, as many as the device could hold at the same time: they may wait for one another.
    fn work(
        &self,
        worker: &mut Worker,
        total: &mut Total,
        next: &AtomicU64,
        stop: &AtomicBool,
        capacity: usize,
    ) -> Result<(), (u64, Fault)> {
        let groups = self.groups();
        let mut waiting: VecDeque<(u64, Group)> = VecDeque::new();
        let mut spare = None;
        let mut more = true;
        while more || !waiting.is_empty() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // New workgroups first, then those that wait, the one that ran last at the end.
            let mut fresh = None;
            if more && waiting.len() < capacity {
                let number = next.fetch_add(1, Ordering::Relaxed);
                more = number < groups;
                fresh = more.then_some(number);
            }
            let (number, mut group) = match fresh {
                Some(number) => (number, self.group(number, spare.take())),
                None => match waiting.pop_front() {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            worker.l1.clear();
            worker.shadow = group.shadow.take();
            let mut done = false;
            for _ in 0..GROUP_ROUNDS {
                done = self
                    .round(worker, &mut group, total)
                    .map_err(|fault| (number, fault))?;
                if done {
                    break;
                }
            }
            group.shadow = worker.shadow.take();
            if done {
                self.finish(&group, total);
                spare = Some(group);
            } else {
                waiting.push_back((number, group));
            }
        }
        Ok(())
    }

    fn finish(&self, group: &Group, total: &mut Total) {
        if let Some(shadow) = &group.shadow {
            for (finding, example) in &shadow.findings {
                let (message, at) = self.describe(*finding, *example, group.id);
                // The same pair of instructions is told once, with the lowest workgroup's example.
                total.findings.entry(*finding).or_insert((message, at));
            }
        }
        total.groups += 1;
        total.waves += group.waves.len() as u64;
        for i in 0..2 {
            let end = group.waves.iter().map(|w| w.now[i]).max().unwrap_or(0);
            total.time[i] += end;
            total.longest[i] = total.longest[i].max(end);
        }
    }

    /// Let every wave that can run use up one turn, opening barriers on the way. `true` when all have ended.
    fn round(
        &self,
        worker: &mut Worker,
        group: &mut Group,
        total: &mut Total,
    ) -> Result<bool, Fault> {
        let stopped = || -> Option<Problem> {
            if self.limits.cancel.is_cancelled() {
                Some(Problem::Cancelled)
            } else if Instant::now() > self.deadline {
                Some(Problem::Time)
            } else {
                None
            }
        };
        let bounds = Bounds {
            max_instructions: self.limits.max_instructions,
            interrupted: &stopped,
            bias: self.launch.kernel.image.bias,
        };
        loop {
            let mut used_up = false;
            for index in 0..group.waves.len() {
                let state = &mut group.waves[index];
                if state.status != Status::Running {
                    continue;
                }
                run(worker, state, &mut group.lds, WAVE_QUANTUM, &bounds)
                    .map_err(|problem| self.fault(problem, group, index))?;
                if worker.message {
                    worker.message = false;
                    if let Some(hostcall) = &self.hostcall {
                        // Fails only if the program freed the buffer under the kernel.
                        let _ = lock(hostcall).serve();
                    }
                }
                used_up |= group.waves[index].status == Status::Running;
            }
            if group.waves.iter().all(|w| w.status == Status::Ended) {
                return Ok(true);
            }
            if group.waves.iter().any(|w| w.status == Status::Running) {
                debug_assert!(used_up);
                return Ok(false);
            }
            // All that have not ended are at a barrier: open it.
            self.warn_divergent(group, total);
            if let Some(shadow) = &mut worker.shadow {
                shadow.barrier();
            }
            let barrier = u64::from(self.target.latency.barrier_cycles);
            let waiting = |w: &&WaveState| matches!(w.status, Status::Barrier(_));
            let open = [0, 1].map(|i| {
                let last = group.waves.iter().filter(waiting).map(|w| w.now[i]).max();
                last.unwrap_or(0) + barrier
            });
            for wave in &mut group.waves {
                if let Status::Barrier(at) = wave.status {
                    let stall = &mut worker.stats[at as usize].stall;
                    stall[0] += open[0] - wave.now[0];
                    stall[1] += open[1] - wave.now[1];
                    wave.now = open;
                    wave.status = Status::Running;
                }
            }
        }
    }

    /// Waves that meet at different barriers, or go on without waves that ended, only work by accident.
    fn warn_divergent(&self, group: &Group, total: &mut Total) {
        let mut at: Option<u32> = None;
        for wave in &group.waves {
            if let Status::Barrier(index) = wave.status {
                match at {
                    None => at = Some(index),
                    Some(first) if first != index => {
                        let line = self.line(first);
                        let message = format!(
                            "wavefronts of one block wait at different barriers ({} and {}) in kernel {}; make every thread of the block reach the same __syncthreads()",
                            self.place(first.min(index)),
                            self.place(first.max(index)),
                            self.launch.kernel.display_name
                        );
                        total.warnings.entry(message).or_insert(line);
                        return;
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// A source line if there is one, or an address.
    fn place(&self, index: u32) -> String {
        match self.line(index) {
            Some(line) => line.to_string(),
            None => {
                let inst = self.code.insts.get(index as usize);
                format!("pc {:#x}", inst.map_or(0, |i| i.address))
            }
        }
    }

    /// A finding of the LDS check as a sentence, and the line to show it at.
    fn describe(
        &self,
        finding: Finding,
        example: Example,
        [x, y, z]: [u32; 3],
    ) -> (String, Option<SourceLine>) {
        let kernel = &self.launch.kernel.display_name;
        let offset = example.offset;
        match finding {
            Finding::Race(first, first_writes, second, second_writes) => {
                let does = |writes: bool| if writes { "writes" } else { "reads" };
                let [a, b] = example.waves.map(|w| match w {
                    u32::MAX => "one of several wavefronts".to_owned(),
                    w => format!("wavefront {w}"),
                });
                let message = format!(
                    "LDS race in kernel {kernel}: {a} {} offset {offset} at {} and {b} {} it at {} with no barrier between (block ({x},{y},{z})); put __syncthreads() between the two",
                    does(first_writes),
                    self.place(first),
                    does(second_writes),
                    self.place(second),
                );
                (message, self.line(second))
            }
            Finding::Unwritten(at) => {
                let message = format!(
                    "kernel {kernel} reads LDS offset {offset} at {} before anything was written there (block ({x},{y},{z}), wavefront {}); initialise the __shared__ array or check the index",
                    self.place(at),
                    example.waves[0],
                );
                (message, self.line(at))
            }
        }
    }

    fn line(&self, index: u32) -> Option<SourceLine> {
        let inst = self.code.insts.get(index as usize)?;
        self.code.lines.get(inst.line as usize).cloned()
    }

    /// A workgroup at its start. Registers that the ABI does not set are zero.
    fn group(&self, number: u64, spare: Option<Group>) -> Group {
        let [gx, gy, _] = self.launch.grid.map(u64::from);
        let id = [
            (number % gx) as u32,
            (number / gx % gy) as u32,
            (number / (gx * gy)) as u32,
        ];
        let threads: u32 = self.launch.block.iter().product();
        let waves = threads.div_ceil(64);
        let (mut lds, mut states) = match spare {
            Some(group) => (group.lds, group.waves),
            None => (Vec::new(), Vec::new()),
        };
        lds.clear();
        lds.resize(self.lds_bytes as usize, 0);
        if states.is_empty() {
            states = (0..waves).map(|_| self.empty_wave()).collect();
        }
        for (wave, state) in states.iter_mut().enumerate() {
            state.index = wave as u32;
            self.start_wave(state, id, wave as u32, threads);
        }
        Group {
            id,
            lds,
            waves: states,
            shadow: (number < CHECKED_GROUPS && self.lds_bytes > 0)
                .then(|| Shadow::new(self.lds_bytes)),
        }
    }

    fn empty_wave(&self) -> WaveState {
        WaveState {
            w: Wave {
                v: vec![[0; LANES]; self.reach.vgprs.max(4)],
                a: vec![[0; LANES]; self.reach.agprs],
                s: [0; 128],
                exec: 0,
                scc: false,
                mode: self.mode(),
            },
            index: 0,
            pc: self.entry,
            status: Status::Running,
            scratch: Vec::new(),
            scratch_limit: 0,
            executed: 0,
            now: [0; 2],
            vm: Outstanding::default(),
            lgkm: Outstanding::default(),
        }
    }

    fn mode(&self) -> Mode {
        let rsrc1 = self.launch.kernel.descriptor.rsrc1;
        let two = |shift: u32| (rsrc1 >> shift & 3) as u8;
        Mode {
            round_f32: two(12),
            round_f16_f64: two(14),
            denorm_f32: two(16),
            denorm_f16_f64: two(18),
            dx10_clamp: rsrc1 >> 21 & 1 == 1,
            ieee: rsrc1 >> 23 & 1 == 1,
        }
    }

    /// Initial registers (LLVM's AMDGPU usage guide, "Initial Kernel Execution State").
    fn start_wave(&self, state: &mut WaveState, id: [u32; 3], wave: u32, threads: u32) {
        let kernel = &*self.launch.kernel;
        let d = kernel.descriptor;
        state.w.v.fill([0; LANES]);
        state.w.a.fill([0; LANES]);
        state.w.s = [0; 128];
        state.w.scc = false;
        state.w.mode = self.mode();
        state.pc = self.entry;
        state.status = Status::Running;
        state.scratch.fill([0; LANES]);
        state.scratch_limit = if kernel.uses_dynamic_stack {
            kernel
                .private_segment_fixed_size
                .saturating_add(DYNAMIC_STACK)
        } else {
            kernel.private_segment_fixed_size
        };
        state.executed = 0;
        state.now = [0; 2];
        state.vm.clear();
        state.lgkm.clear();
        let active = (threads - wave * 64).min(64);
        state.w.exec = u64::MAX >> (64 - active);

        let mut next = 0u8;
        let mut put = |w: &mut Wave, values: &[u32]| {
            for value in values {
                if next < 102 {
                    w.set_sgpr(next, *value);
                    next += 1;
                }
            }
        };
        let halves = |address: u64| [address as u32, (address >> 32) as u32];
        let property = |bit: u32| d.properties >> bit & 1 == 1;
        let w = &mut state.w;
        if property(0) {
            // Swizzled, 64-lane index stride, thread id added: recognized by the private memory instructions.
            put(w, &[0, 1 << 31, u32::MAX, 0x00e8_0000]);
        }
        if property(1) {
            put(w, &halves(self.arguments.packet));
        }
        if property(2) {
            put(w, &[0, 0]);
        }
        if property(3) {
            put(w, &halves(self.arguments.kernarg));
        }
        if property(4) {
            put(w, &[0, 0]);
        }
        if property(5) {
            put(w, &[0, 0]);
        }
        if property(6) {
            put(w, &[state.scratch_limit]);
        }
        // Kernel arguments preloaded into registers (gfx940 and later).
        let preload = u32::from(d.kernarg_preload & 0x7f);
        let from = u32::from(d.kernarg_preload >> 7);
        for dword in from..from + preload {
            let mut bytes = [0u8; 4];
            let place = self.arguments.kernarg + 4 * u64::from(dword);
            let _ = self.arguments.memory.read_bytes(place, &mut bytes);
            put(w, &[u32::from_le_bytes(bytes)]);
        }
        for (axis, value) in id.iter().enumerate() {
            if d.rsrc2 >> (7 + axis) & 1 == 1 {
                put(w, &[*value]);
            }
        }
        if d.rsrc2 >> 10 & 1 == 1 {
            put(w, &[0]);
        }
        if d.rsrc2 & 1 == 1 {
            put(w, &[0]);
        }

        let packed = matches!(
            kernel.isa(),
            "gfx90a" | "gfx940" | "gfx941" | "gfx942" | "gfx950"
        );
        let wanted = d.rsrc2 >> 11 & 3;
        for lane in 0..active {
            let [x, y, z] = self.thread(wave * 64 + lane);
            let lane = lane as usize;
            if packed {
                w.v[0][lane] = x | y << 10 | z << 20;
            } else {
                w.v[0][lane] = x;
                if wanted >= 1 {
                    w.v[1][lane] = y;
                }
                if wanted >= 2 {
                    w.v[2][lane] = z;
                }
            }
        }
    }

    /// Work-item ids of a flat id in the workgroup.
    fn thread(&self, flat: u32) -> [u32; 3] {
        let [bx, by, _] = self.launch.block;
        [flat % bx, flat / bx % by, flat / (bx * by)]
    }

    fn site(&self, group: &Group, index: usize, lane: Option<u32>) -> Box<Site> {
        let pc = group.waves[index].pc;
        let inst = self.code.insts.get(pc as usize);
        Box::new(Site {
            kernel: self.launch.kernel.display_name.clone(),
            source: self.line(pc),
            instruction: inst.map_or_else(|| "?".to_owned(), |i| i.text.to_string()),
            pc: inst.map_or(0, |i| i.address),
            block: group.id,
            wave: index as u32,
            lane,
            thread: lane.map(|l| self.thread(index as u32 * 64 + l)),
        })
    }

    fn fault(&self, problem: Problem, group: &Group, index: usize) -> Fault {
        let site = |lane: Option<u32>| self.site(group, index, lane);
        match problem {
            Problem::Wild {
                access,
                address,
                bytes,
                lane,
            } => {
                let scalar = matches!(
                    self.code
                        .insts
                        .get(group.waves[index].pc as usize)
                        .map(|i| &i.op),
                    Some(Op::Smem(_))
                );
                Fault::OutOfBounds {
                    access,
                    address,
                    bytes,
                    site: site((!scalar).then_some(lane)),
                    nearest: self.snapshot.nearest(address),
                }
            }
            Problem::Lds {
                access,
                offset,
                bytes,
                lane,
            } => Fault::LdsOutOfRange {
                access,
                offset,
                bytes,
                lds_bytes: self.lds_bytes,
                site: site(Some(lane)),
            },
            Problem::Scratch {
                access,
                offset,
                lane,
            } => Fault::ScratchOutOfRange {
                access,
                offset,
                limit: group.waves[index].scratch_limit,
                site: site(Some(lane)),
            },
            Problem::Misaligned {
                access,
                address,
                bytes,
                lane,
            } => Fault::Misaligned {
                access,
                address,
                bytes,
                site: site(Some(lane)),
            },
            Problem::Unknown { name, why } => Fault::UnknownInstruction {
                name,
                site: site(None),
                why,
            },
            Problem::Trap(id) => Fault::Trap {
                id,
                what: match id {
                    2 => "a device assertion failed, or __builtin_trap() or abort() was called"
                        .to_owned(),
                    _ => "the program asked for this trap".to_owned(),
                },
                site: site(None),
            },
            Problem::Jump(address) => Fault::WildJump {
                address,
                site: site(None),
            },
            Problem::Instructions => Fault::TooLong {
                limit: format!(
                    "{} instructions of one wavefront",
                    self.limits.max_instructions
                ),
                site: site(None),
            },
            Problem::Time => Fault::TooLong {
                limit: format!("{} s", self.timeout.as_secs_f64()),
                site: site(None),
            },
            Problem::Cancelled => Fault::Cancelled {
                kernel: self.launch.kernel.display_name.clone(),
            },
        }
    }

    fn report(&self, total: Total, occupancy: u32, elapsed: Duration) -> Dispatch {
        let mut total = total;
        if self.hostcall.as_ref().is_some_and(|h| lock(h).allocated) {
            let message = format!(
                "kernel {} asked for device memory with malloc or new, which is not simulated: it got a null pointer; allocate with hipMalloc before the launch",
                self.launch.kernel.display_name
            );
            total.warnings.insert(message, None);
        }
        let mut counters = Counters::default();
        for (inst, stat) in self.code.insts.iter().zip(&total.stats) {
            let mut one = Counters::default();
            count(inst, stat, self.target, 0.0, &mut one);
            counters.add(&one);
        }
        counters.sq_waves = total.waves;
        let (lines_read, lines_written) = self.touched.count();
        let prediction = timing::predict(&timing::Work {
            target: self.target,
            counters: &counters,
            occupancy,
            groups: total.groups,
            waves_per_group: self
                .launch
                .block
                .iter()
                .product::<u32>()
                .div_ceil(64)
                .into(),
            groups_per_cu: self.groups_per_cu.into(),
            time: total.time,
            longest: total.longest,
            lines_read,
            lines_written,
            compiled_for: self.launch.kernel.isa(),
        });
        // What missed L1 waited for L2 or for memory, in the same mix everywhere.
        let mix = prediction.memory_share();
        counters.wait_cycles = 0;
        let mut lines: BTreeMap<u32, Counters> = BTreeMap::new();
        let mut lds = Vec::new();
        for (inst, stat) in self.code.insts.iter().zip(&total.stats) {
            if stat.count == 0 {
                continue;
            }
            let mut one = Counters::default();
            count(inst, stat, self.target, mix, &mut one);
            counters.wait_cycles += one.wait_cycles;
            // Lane exchanges have no bank and no degree.
            if inst.class == Class::Lds && stat.degree > 0 {
                lds.push(LdsCounters {
                    at: self.code.lines.get(inst.line as usize).cloned(),
                    column: inst.column,
                    pc: inst.address,
                    mnemonic: inst.text.split_whitespace().next().unwrap_or("").to_owned(),
                    executions: stat.count,
                    cycles: one.sq_lds_idx_active,
                    conflict_cycles: one.sq_lds_bank_conflict,
                    degree: stat.degree,
                });
            }
            if inst.line != u32::MAX {
                lines.entry(inst.line).or_default().add(&one);
            }
        }
        let mut lines: Vec<LineCounters> = lines
            .into_iter()
            .filter_map(|(line, counters)| {
                let at = self.code.lines.get(line as usize)?.clone();
                Some(LineCounters { at, counters })
            })
            .collect();
        lines.sort_by(|a, b| a.at.cmp(&b.at));
        Dispatch {
            instructions: counters.sq_insts,
            lane_instructions: counters.lane_instructions,
            counters,
            lines,
            lds,
            prediction,
            workgroups: total.groups,
            host_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            warnings: total
                .warnings
                .into_iter()
                .chain(total.findings.into_values())
                .map(|(message, at)| Warning { message, at })
                .collect(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Turn what happened at one instruction into counters.
/// Waiting is `mix` parts device memory and the rest L2.
fn count(inst: &crate::machine::Inst, stat: &Stat, target: &Target, mix: f64, into: &mut Counters) {
    into.sq_insts = stat.count;
    into.wait_cycles =
        (stat.stall[0] as f64 * (1.0 - mix) + stat.stall[1] as f64 * mix).round() as u64;
    let mut memory = |read: bool| {
        into.lines_touched = stat.cost;
        into.lines_ideal = stat.ideal;
        into.scratch_bytes = stat.scratch;
        into.l1_misses = stat.misses;
        into.l1_hits = stat.cost.saturating_sub(stat.misses);
        if read {
            into.bytes_read = stat.bytes;
        } else {
            into.bytes_written = stat.bytes;
        }
        into.lane_instructions = stat.lanes;
    };
    match inst.class {
        Class::Valu | Class::Matrix => {
            into.sq_insts_valu = stat.count;
            into.sq_thread_cycles_valu = stat.lanes;
            into.valu_cycles = stat.count * timing::issue_cycles(inst.rate, target);
            into.lane_instructions = stat.lanes;
            into.flops = match inst.rate {
                Rate::Matrix(operations, _) => stat.count * operations as u64,
                _ => stat.lanes * u64::from(inst.flops),
            };
            if inst.class == Class::Matrix {
                into.sq_insts_mfma = stat.count;
            }
        }
        Class::Salu => into.sq_insts_salu = stat.count,
        Class::Smem => into.sq_insts_smem = stat.count,
        Class::Lds => {
            into.sq_insts_lds = stat.count;
            into.sq_lds_idx_active = stat.cost;
            into.sq_lds_bank_conflict = stat.cost - stat.ideal.min(stat.cost);
            into.lds_bytes = stat.bytes;
            into.lane_instructions = stat.lanes;
        }
        Class::Vmem(true) => {
            memory(true);
            into.sq_insts_vmem_rd = stat.count;
        }
        Class::Vmem(false) => {
            memory(false);
            into.sq_insts_vmem_wr = stat.count;
        }
        Class::Flat(read) => {
            memory(read);
            into.sq_insts_flat = stat.count;
        }
        Class::Branch => into.sq_insts_branch = stat.count,
        Class::Barrier => into.barriers = stat.count,
        Class::Other => {}
    }
    if let Op::Vmem(vmem) = &inst.op
        && vmem.is_atomic()
    {
        into.atomics = stat.lanes;
    }
}
