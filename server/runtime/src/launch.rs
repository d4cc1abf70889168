//! Launches: arguments gathered, limits checked, executed at once.

use std::sync::Arc;

use hipsmith_simulator::{Fault, Kernel, Launch};

use crate::abi::{Address, Dim3};
use crate::error::{Error, Hip};
use crate::state::{State, lock, say};

/// Explicit arguments laid out as the code object says, from HIP's array of pointers to them.
fn gather(kernel: &Kernel, args: Address) -> Hip<Vec<u8>> {
    let explicit = || kernel.args.iter().filter(|a| !a.is_hidden());
    let mut bytes = vec![0; kernel.explicit_kernarg_size() as usize];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    if args.is_null() {
        return Err(Error::InvalidValue);
    }
    for (index, arg) in explicit().enumerate() {
        // SAFETY: HIP's contract: `args` has a pointer to each argument, which has the parameter's size.
        let value = unsafe {
            let at = args.pointer(index);
            if at.is_null() {
                return Err(Error::InvalidValue);
            }
            at.bytes(arg.size as usize)
        };
        let (from, to) = (arg.offset as usize, arg.offset as usize + value.len());
        bytes
            .get_mut(from..to)
            .ok_or(Error::InvalidImage)?
            .copy_from_slice(&value);
    }
    Ok(bytes)
}

/// Arguments laid out by the program itself, from HIP's `extra` list.
fn packed(extra: Address) -> Hip<Vec<u8>> {
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    const END: usize = 3;
    let (mut buffer, mut size) = (Address(0), 0);
    let mut index = 0;
    // SAFETY: HIP's contract: pairs of a key and a pointer, ended by END; SIZE points to a `size_t`.
    unsafe {
        loop {
            match extra.pointer(index).0 {
                BUFFER => buffer = extra.pointer(index + 1),
                SIZE => size = extra.pointer(index + 1).pointer(0).0,
                END => break,
                _ => return Err(Error::InvalidValue),
            }
            index += 2;
            if index > 8 {
                return Err(Error::InvalidValue);
            }
        }
        if buffer.is_null() && size > 0 {
            return Err(Error::InvalidValue);
        }
        Ok(buffer.bytes(size))
    }
}

impl State {
    fn launch(
        &mut self,
        kernel: Arc<Kernel>,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: usize,
        kernargs: Vec<u8>,
    ) -> Hip {
        self.healthy()?;
        if let Err((error, reason)) = self.check(&kernel, grid, block, dynamic_lds) {
            let sentence = format!(
                "kernel {} cannot be launched on {}: {reason}",
                kernel.display_name,
                self.target().name
            );
            say(&sentence);
            self.recorder.refused(&kernel, sentence);
            return Err(error);
        }
        let launch = Launch {
            kernel: kernel.clone(),
            grid,
            block,
            dynamic_lds: dynamic_lds as u32,
            kernargs,
        };
        let recording = if self.capture.is_some() {
            let variables = self.variables_beside(&kernel);
            self.capture
                .as_mut()
                .and_then(|c| c.before(&launch, &self.simulator, &variables))
        } else {
            None
        };
        let simulator = self.simulator.clone();
        let limits = self.limits.clone();
        match simulator.dispatch(&launch, &limits) {
            Ok(dispatch) => {
                self.clock_ns += dispatch.prediction.ns;
                self.recorder.dispatch(&launch, &dispatch);
                if let (Some(recording), Some(capture)) = (recording, &mut self.capture) {
                    match capture.after(recording, &launch, &simulator, &dispatch) {
                        Ok(false) => {}
                        Ok(true) => {
                            self.recorder.write(false);
                            // The program's own output so far must not be lost.
                            // SAFETY: flushes all of C's streams.
                            unsafe { libc::fflush(std::ptr::null_mut()) };
                            // SAFETY: ends the process without its destructors, which may expect a GPU's results.
                            unsafe { libc::_exit(0) };
                        }
                        Err(sentence) => {
                            say(&sentence);
                            self.recorder
                                .fault(Some(&kernel.display_name), sentence, None);
                        }
                    }
                }
                Ok(())
            }
            Err(fault) => Err(self.faulted(&kernel, &fault)),
        }
    }

    /// What the target or the compiled kernel forbids, with HIP's error for it.
    fn check(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: usize,
    ) -> Result<(), (Error, String)> {
        let target = self.target();
        let threads = block
            .iter()
            .fold(1u64, |n, d| n.saturating_mul(u64::from(*d)));
        let [gx, gy, gz] = grid;
        let [bx, by, bz] = block;
        if threads == 0 || grid.contains(&0) {
            return Err((
                Error::InvalidConfiguration,
                format!("the grid ({gx},{gy},{gz}) or the block ({bx},{by},{bz}) is empty"),
            ));
        }
        if threads > u64::from(target.exec.max_workgroup) {
            return Err((
                Error::InvalidConfiguration,
                format!(
                    "a block of ({bx},{by},{bz}) has {threads} threads, and a workgroup can have at most {}; make the block smaller",
                    target.exec.max_workgroup
                ),
            ));
        }
        if threads > u64::from(kernel.max_flat_workgroup_size) {
            return Err((
                Error::LaunchFailure,
                format!(
                    "a block of ({bx},{by},{bz}) has {threads} threads, and the kernel was compiled for at most {}; raise its __launch_bounds__ or make the block smaller",
                    kernel.max_flat_workgroup_size
                ),
            ));
        }
        if grid
            .iter()
            .zip(block)
            .any(|(g, b)| u64::from(*g) * u64::from(b) > u64::from(u32::MAX))
        {
            return Err((
                Error::InvalidConfiguration,
                format!(
                    "grid ({gx},{gy},{gz}) times block ({bx},{by},{bz}) is more than 2^32 - 1 threads in one dimension"
                ),
            ));
        }
        let limit = u64::from(target.lds.max_bytes_per_workgroup);
        let fixed = u64::from(kernel.group_segment_fixed_size);
        if fixed.saturating_add(dynamic_lds as u64) > limit {
            return Err((
                Error::InvalidValue,
                format!(
                    "{fixed} bytes of static LDS and {dynamic_lds} of dynamic LDS are more than the {limit} bytes that a workgroup can have; use a smaller tile"
                ),
            ));
        }
        Ok(())
    }

    fn faulted(&mut self, kernel: &Kernel, fault: &Fault) -> Error {
        let sentence = fault.to_string();
        say(&sentence);
        let source = fault.site().and_then(|s| s.source.clone());
        let error = match fault {
            Fault::LaunchRefused { .. } => {
                self.recorder.refused(kernel, sentence);
                return Error::LaunchOutOfResources;
            }
            Fault::OutOfBounds { .. } => Error::IllegalAddress,
            Fault::TooLong { .. } => Error::LaunchTimeOut,
            Fault::Trap { .. } => Error::Assert,
            _ => Error::LaunchFailure,
        };
        self.recorder.stopped(kernel, sentence, source);
        self.sticky = Some(error);
        error
    }

    fn launch_stub(
        &mut self,
        function: Address,
        grid: Dim3,
        block: Dim3,
        args: Address,
        dynamic_lds: usize,
        stream: Address,
    ) -> Hip {
        self.check_stream(stream)?;
        let kernel = self.kernel(function)?;
        let kernargs = gather(&kernel, args)?;
        self.launch(kernel, grid.into(), block.into(), dynamic_lds, kernargs)
    }
}

/// A launch through `hipFunction_t`; `grid` in workgroups.
fn launch_function(
    function: Address,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_lds: u32,
    stream: Address,
    args: Address,
    extra: Address,
) -> Hip {
    let mut state = lock();
    state.check_stream(stream)?;
    let kernel = state.kernel(function).map_err(|_| Error::InvalidHandle)?;
    let kernargs = if args.is_null() && !extra.is_null() {
        packed(extra)?
    } else {
        gather(&kernel, args)?
    };
    state.launch(kernel, grid, block, dynamic_lds as usize, kernargs)
}

hip! {
    fn hipLaunchKernel(
        function: Address, grid: Dim3, block: Dim3, args: Address, dynamic_lds: usize, stream: Address,
    ) {
        lock().launch_stub(function, grid, block, args, dynamic_lds, stream)
    }

    fn hipLaunchKernel_spt(
        function: Address, grid: Dim3, block: Dim3, args: Address, dynamic_lds: usize, stream: Address,
    ) {
        lock().launch_stub(function, grid, block, args, dynamic_lds, stream)
    }

    fn hipExtLaunchKernel(
        function: Address, grid: Dim3, block: Dim3, args: Address, dynamic_lds: usize, stream: Address,
        start: Address, stop: Address, _flags: i32,
    ) {
        let mut state = lock();
        state.record_event(start)?;
        state.launch_stub(function, grid, block, args, dynamic_lds, stream)?;
        state.record_event(stop)
    }

    /// Workgroups run one after the other here, so a kernel that synchronizes the whole grid stops with a fault.
    fn hipLaunchCooperativeKernel(
        function: Address, grid: Dim3, block: Dim3, args: Address, dynamic_lds: u32, stream: Address,
    ) {
        let mut state = lock();
        let kernel = state.kernel(function)?;
        let threads = block.x.saturating_mul(block.y).saturating_mul(block.z);
        let at_once = state.resident_workgroups(&kernel, threads, dynamic_lds as usize);
        let groups = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
        if groups > u64::from(at_once) {
            say(&format!(
                "kernel {} cannot be launched cooperatively on {}: {groups} workgroups, and the device holds {at_once} at once",
                kernel.display_name, state.target().name
            ));
            return Err(Error::CooperativeLaunchTooLarge);
        }
        state.launch_stub(function, grid, block, args, dynamic_lds as usize, stream)
    }

    fn hipModuleLaunchKernel(
        function: Address, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32,
        dynamic_lds: u32, stream: Address, args: Address, extra: Address,
    ) {
        launch_function(function, [gx, gy, gz], [bx, by, bz], dynamic_lds, stream, args, extra)
    }
}

/// `hipExtModuleLaunchKernel`, which has C++ linkage; its grid counts threads.
#[unsafe(export_name = "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j")]
extern "C" fn ext_module_launch_kernel(
    function: Address,
    tx: u32,
    ty: u32,
    tz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    dynamic_lds: usize,
    stream: Address,
    args: Address,
    extra: Address,
    start: Address,
    stop: Address,
    _flags: u32,
) -> i32 {
    crate::abi::call("hipExtModuleLaunchKernel", || {
        let groups = |threads: u32, block: u32| {
            if block == 0 || !threads.is_multiple_of(block) {
                say(&format!(
                    "hipExtModuleLaunchKernel: {threads} threads are no multiple of a block of {block}, which the simulated runtime needs"
                ));
                return Err(Error::InvalidConfiguration);
            }
            Ok(threads / block)
        };
        let grid = [groups(tx, bx)?, groups(ty, by)?, groups(tz, bz)?];
        let lds = u32::try_from(dynamic_lds).map_err(|_| Error::InvalidValue)?;
        lock().record_event(start)?;
        launch_function(function, grid, [bx, by, bz], lds, stream, args, extra)?;
        lock().record_event(stop)
    })
}
