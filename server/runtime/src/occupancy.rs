//! How many workgroups fit, by the target's tables.

use hipsmith_simulator::Kernel;
use hipsmith_target::{Resources, occupancy};

use crate::abi::{Address, Out};
use crate::error::{Error, Hip};
use crate::state::{State, lock};

impl State {
    fn workgroups_per_cu(&self, kernel: &Kernel, threads: u32, dynamic_lds: usize) -> u32 {
        let target = self.target();
        let lds = u64::from(kernel.group_segment_fixed_size).saturating_add(dynamic_lds as u64);
        let resources = Resources {
            vgprs: target
                .registers
                .total_vgprs(kernel.vgpr_count, kernel.agpr_count),
            sgprs: kernel.sgpr_count,
            lds_bytes: u32::try_from(lds).unwrap_or(u32::MAX),
            workgroup: threads,
        };
        if threads > kernel.max_flat_workgroup_size {
            return 0;
        }
        occupancy(target, &resources).workgroups_per_cu
    }

    /// Workgroups that the whole device holds at once.
    pub(crate) fn resident_workgroups(
        &self,
        kernel: &Kernel,
        threads: u32,
        dynamic_lds: usize,
    ) -> u32 {
        self.workgroups_per_cu(kernel, threads, dynamic_lds)
            .saturating_mul(self.target().device.cu)
    }
}

fn active_blocks(into: Out<i32>, function: Address, threads: i32, dynamic_lds: usize) -> Hip {
    let mut state = lock();
    let kernel = state.kernel(function)?;
    let threads = u32::try_from(threads)
        .ok()
        .filter(|t| *t > 0)
        .ok_or(Error::InvalidValue)?;
    into.set(state.workgroups_per_cu(&kernel, threads, dynamic_lds) as i32)
}

/// The block that fills the most lanes of a compute unit, the largest among equals, and the grid that fills the
/// device with it.
fn best_block(
    grid: Out<i32>,
    block: Out<i32>,
    function: Address,
    dynamic_lds: usize,
    limit: i32,
) -> Hip {
    let mut state = lock();
    let kernel = state.kernel(function)?;
    let target = state.target();
    let wave = target.wave_size.max(1);
    let mut most = kernel
        .max_flat_workgroup_size
        .min(target.exec.max_workgroup);
    if let Ok(limit @ 1..) = u32::try_from(limit) {
        most = most.min(limit);
    }
    let sizes = (1..=most / wave)
        .map(|n| n * wave)
        .chain((most < wave).then_some(most));
    let (lanes, threads, groups) = sizes
        .map(|threads| {
            let groups = state.workgroups_per_cu(&kernel, threads, dynamic_lds);
            (groups * threads, threads, groups)
        })
        .max()
        .unwrap_or((0, 0, 0));
    if lanes == 0 {
        return Err(Error::InvalidConfiguration);
    }
    grid.set(groups.saturating_mul(target.device.cu) as i32)?;
    block.set(threads as i32)
}

hip! {
    fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
        into: Out<i32>, function: Address, threads: i32, dynamic_lds: usize,
    ) {
        active_blocks(into, function, threads, dynamic_lds)
    }
    fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        into: Out<i32>, function: Address, threads: i32, dynamic_lds: usize, _flags: u32,
    ) {
        active_blocks(into, function, threads, dynamic_lds)
    }
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        into: Out<i32>, function: Address, threads: i32, dynamic_lds: usize,
    ) {
        active_blocks(into, function, threads, dynamic_lds)
    }
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        into: Out<i32>, function: Address, threads: i32, dynamic_lds: usize, _flags: u32,
    ) {
        active_blocks(into, function, threads, dynamic_lds)
    }
    fn hipOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: Address, dynamic_lds: usize, limit: i32,
    ) {
        best_block(grid, block, function, dynamic_lds, limit)
    }
    fn hipModuleOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: Address, dynamic_lds: usize, limit: i32,
    ) {
        best_block(grid, block, function, dynamic_lds, limit)
    }
    fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, function: Address, dynamic_lds: usize, limit: i32, _flags: u32,
    ) {
        best_block(grid, block, function, dynamic_lds, limit)
    }
}
