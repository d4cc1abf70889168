//! The one device that a program sees: the simulated target.

use hipsmith_target::Target;

use crate::abi::{Address, Out, Text, set_text};
use crate::error::{Error, Hip};
use crate::state::{State, lock};

/// The version of HIP whose headers and symbols this runtime follows.
const HIP_VERSION: i32 = 50_221_153;

/// HIP's `hipDeviceProp_t` of version 5.2.
#[repr(C)]
#[derive(Clone)]
struct Properties {
    name: [u8; 256],
    total_global_mem: usize,
    shared_mem_per_block: usize,
    regs_per_block: i32,
    warp_size: i32,
    max_threads_per_block: i32,
    max_threads_dim: [i32; 3],
    max_grid_size: [i32; 3],
    clock_rate: i32,
    memory_clock_rate: i32,
    memory_bus_width: i32,
    total_const_mem: usize,
    major: i32,
    minor: i32,
    multi_processor_count: i32,
    l2_cache_size: i32,
    max_threads_per_multi_processor: i32,
    compute_mode: i32,
    clock_instruction_rate: i32,
    /// Bit fields of `hipDeviceArch_t`.
    arch: u32,
    concurrent_kernels: i32,
    pci_domain: i32,
    pci_bus: i32,
    pci_device: i32,
    max_shared_memory_per_multi_processor: usize,
    is_multi_gpu_board: i32,
    can_map_host_memory: i32,
    gcn_arch: i32,
    gcn_arch_name: [u8; 256],
    integrated: i32,
    cooperative_launch: i32,
    cooperative_multi_device_launch: i32,
    max_texture_1d_linear: i32,
    max_texture_1d: i32,
    max_texture_2d: [i32; 2],
    max_texture_3d: [i32; 3],
    hdp_mem_flush: Address,
    hdp_reg_flush: Address,
    mem_pitch: usize,
    texture_alignment: usize,
    texture_pitch_alignment: usize,
    kernel_exec_timeout: i32,
    ecc: i32,
    tcc_driver: i32,
    unmatched: [i32; 4],
    is_large_bar: i32,
    asic_revision: i32,
    managed_memory: i32,
    direct_managed_access: i32,
    concurrent_managed_access: i32,
    pageable_access: i32,
    pageable_access_host_tables: i32,
}

fn fixed(text: &str) -> [u8; 256] {
    let mut bytes = [0; 256];
    let len = text.len().min(255);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}

fn device_name(target: &Target) -> String {
    format!(
        "hipsmith simulated {} ({})",
        target.name, target.device.name
    )
}

/// Major and minor version as in `gfx928`: 9 and 2.
fn version(target: &Target) -> (i32, i32) {
    let digits = target.name.trim_start_matches("gfx");
    let split = digits.len().saturating_sub(2);
    let major = digits.get(..split).and_then(|d| d.parse().ok());
    let minor = digits
        .get(split..split + 1)
        .and_then(|d| i32::from_str_radix(d, 16).ok());
    (major.unwrap_or(0), minor.unwrap_or(0))
}

/// 32-bit and 64-bit integer atomics, float exchange and add, doubles, vote, ballot, shuffle, fences, 3D grids;
/// no funnel shift, no surfaces, no dynamic parallelism. Bits in the order of `hipDeviceArch_t`.
const ARCH: u32 = 0b0_1001_0111_1111_1111;

fn properties(state: &State) -> Properties {
    let target = state.target();
    let int = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let (major, minor) = version(target);
    let vgprs = target.registers.vgprs_per_simd;
    Properties {
        name: fixed(&device_name(target)),
        total_global_mem: state.device_bytes() as usize,
        shared_mem_per_block: target.lds.max_bytes_per_workgroup as usize,
        regs_per_block: int(vgprs * target.wave_size * target.exec.simds_per_cu),
        warp_size: int(target.wave_size),
        max_threads_per_block: int(target.exec.max_workgroup),
        max_threads_dim: [int(target.exec.max_workgroup); 3],
        max_grid_size: [i32::MAX; 3],
        clock_rate: int(target.device.clock_mhz * 1000),
        // Nobody has published them for the simulated devices: 0 says that they are not known.
        memory_clock_rate: 0,
        memory_bus_width: 0,
        total_const_mem: i32::MAX as usize,
        major,
        minor,
        multi_processor_count: int(target.device.cu),
        l2_cache_size: i32::try_from(target.cache.l2_bytes).unwrap_or(i32::MAX),
        max_threads_per_multi_processor: int(target.wave_size
            * target.exec.max_waves_per_simd
            * target.exec.simds_per_cu),
        compute_mode: 0,
        clock_instruction_rate: int(target.device.clock_mhz * 1000),
        arch: ARCH,
        concurrent_kernels: 0,
        pci_domain: 0,
        pci_bus: 0,
        pci_device: 0,
        max_shared_memory_per_multi_processor: target.lds.bytes_per_cu as usize,
        is_multi_gpu_board: 0,
        can_map_host_memory: 1,
        gcn_arch: target
            .name
            .trim_start_matches("gfx")
            .parse()
            .unwrap_or_default(),
        gcn_arch_name: fixed(&target.name),
        integrated: 0,
        // Workgroups run one after the other, so a grid-wide barrier would never be reached by all.
        cooperative_launch: 0,
        cooperative_multi_device_launch: 0,
        max_texture_1d_linear: 0,
        max_texture_1d: 0,
        max_texture_2d: [0; 2],
        max_texture_3d: [0; 3],
        hdp_mem_flush: Address(0),
        hdp_reg_flush: Address(0),
        mem_pitch: i32::MAX as usize,
        texture_alignment: 256,
        texture_pitch_alignment: 256,
        kernel_exec_timeout: 0,
        ecc: 0,
        tcc_driver: 0,
        unmatched: [0; 4],
        is_large_bar: 1,
        asic_revision: 0,
        managed_memory: 1,
        direct_managed_access: 1,
        concurrent_managed_access: 1,
        pageable_access: 0,
        pageable_access_host_tables: 0,
    }
}

/// An attribute by its number in HIP 5.2's `hipDeviceAttribute_t`.
fn attribute(p: &Properties, number: i32) -> Hip<i32> {
    let bytes = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Ok(match number {
        0 => p.ecc,
        3 => p.can_map_host_memory,
        4 => 1,
        5 => p.clock_rate,
        6 => p.compute_mode,
        8 => p.concurrent_kernels,
        9 => p.concurrent_managed_access,
        10 => p.cooperative_launch,
        11 => p.cooperative_multi_device_launch,
        13 => p.direct_managed_access,
        16 => p.integrated,
        17 => p.is_multi_gpu_board,
        18 => p.kernel_exec_timeout,
        19 => p.l2_cache_size,
        23 => p.major,
        24 => p.managed_memory,
        26 => p.max_threads_dim[0],
        27 => p.max_threads_dim[1],
        28 => p.max_threads_dim[2],
        29 => p.max_grid_size[0],
        30 => p.max_grid_size[1],
        31 => p.max_grid_size[2],
        // Textures and surfaces of every kind: none.
        32..=54 => 0,
        55 => p.max_threads_dim[0],
        56 => p.max_threads_per_block,
        57 => p.max_threads_per_multi_processor,
        58 => bytes(p.mem_pitch),
        59 => p.memory_bus_width,
        60 => p.memory_clock_rate,
        61 => p.minor,
        63 => p.multi_processor_count,
        65 => p.pageable_access,
        66 => p.pageable_access_host_tables,
        67 => p.pci_bus,
        68 => p.pci_device,
        69 => p.pci_domain,
        71 | 72 => p.regs_per_block,
        73 => 0,
        74 | 75 => bytes(p.shared_mem_per_block),
        76 => bytes(p.max_shared_memory_per_multi_processor),
        78 => 0,
        80 => p.tcc_driver,
        81 => bytes(p.texture_alignment),
        82 => bytes(p.texture_pitch_alignment),
        83 => bytes(p.total_const_mem),
        84 => bytes(p.total_global_mem),
        85 => 1,
        87 => p.warp_size,
        88 => 0,
        10000 => p.clock_instruction_rate,
        10002 => bytes(p.max_shared_memory_per_multi_processor),
        10003 => p.gcn_arch,
        10007..=10010 => 0,
        10011 => p.is_large_bar,
        10012 => p.asic_revision,
        10013 | 10014 => 0,
        10015 => p.multi_processor_count,
        10016 => 1,
        _ => return Err(Error::InvalidValue),
    })
}

/// There is one device, number 0.
fn only(device: i32) -> Hip {
    if device == 0 {
        Ok(())
    } else {
        Err(Error::InvalidDevice)
    }
}

hip! {
    fn hipInit(flags: u32) {
        if flags == 0 { Ok(()) } else { Err(Error::InvalidValue) }
    }
    fn hipGetDeviceCount(into: Out<i32>) {
        into.set(1)
    }
    fn hipGetDevice(into: Out<i32>) {
        into.set(0)
    }
    fn hipSetDevice(device: i32) {
        only(device)
    }
    fn hipDeviceGet(into: Out<i32>, device: i32) {
        only(device)?;
        into.set(device)
    }
    fn hipGetDeviceProperties(into: Out<Properties>, device: i32) {
        only(device)?;
        into.set(properties(&lock()))
    }
    fn hipDeviceGetAttribute(into: Out<i32>, number: i32, device: i32) {
        only(device)?;
        into.set(attribute(&properties(&lock()), number)?)
    }
    fn hipDeviceGetName(into: Address, len: i32, device: i32) {
        only(device)?;
        let name = device_name(lock().target());
        set_text(into, len, &name)
    }
    fn hipDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        only(device)?;
        let (high, low) = version(lock().target());
        major.set(high)?;
        minor.set(low)
    }
    fn hipDeviceTotalMem(into: Out<usize>, device: i32) {
        only(device)?;
        into.set(lock().device_bytes() as usize)
    }
    fn hipDeviceGetPCIBusId(into: Address, len: i32, device: i32) {
        only(device)?;
        set_text(into, len, "0000:00:00.0")
    }
    fn hipDeviceGetByPCIBusId(into: Out<i32>, id: Text) {
        if id.get()? != "0000:00:00.0" {
            return Err(Error::InvalidValue);
        }
        into.set(0)
    }
    fn hipDeviceCanAccessPeer(into: Out<i32>, device: i32, peer: i32) {
        only(device)?;
        only(peer)?;
        into.set(0)
    }
    fn hipDeviceSynchronize() {
        lock().healthy()
    }
    /// Frees nothing: what a program frees after it must still be known. A faulted device is well again.
    fn hipDeviceReset() {
        lock().sticky = None;
        Ok(())
    }
    fn hipSetDeviceFlags(_flags: u32) {
        Ok(())
    }
    fn hipGetDeviceFlags(into: Out<u32>) {
        into.set(0)
    }
    // The AMD runtime accepts and ignores these too.
    fn hipDeviceSetCacheConfig(_config: i32) {
        Ok(())
    }
    fn hipDeviceGetCacheConfig(into: Out<i32>) {
        into.set(0)
    }
    fn hipDeviceSetSharedMemConfig(_config: i32) {
        Ok(())
    }
    fn hipDeviceGetSharedMemConfig(into: Out<i32>) {
        into.set(0)
    }
    fn hipProfilerStart() {
        Ok(())
    }
    fn hipProfilerStop() {
        Ok(())
    }
    fn hipRuntimeGetVersion(into: Out<i32>) {
        into.set(HIP_VERSION)
    }
    fn hipDriverGetVersion(into: Out<i32>) {
        into.set(HIP_VERSION)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Offsets that a C++ compiler gives for HIP 5.2's header.
    #[test]
    fn properties_lie_where_hips_header_has_them() {
        assert_eq!(size_of::<Properties>(), 792);
        assert_eq!(offset_of!(Properties, clock_rate), 308);
        assert_eq!(offset_of!(Properties, multi_processor_count), 336);
        assert_eq!(offset_of!(Properties, arch), 356);
        assert_eq!(
            offset_of!(Properties, max_shared_memory_per_multi_processor),
            376
        );
        assert_eq!(offset_of!(Properties, gcn_arch_name), 396);
        assert_eq!(offset_of!(Properties, integrated), 652);
        assert_eq!(offset_of!(Properties, hdp_mem_flush), 696);
        assert_eq!(offset_of!(Properties, mem_pitch), 712);
        assert_eq!(offset_of!(Properties, pageable_access_host_tables), 788);
    }

    #[test]
    fn versions_follow_the_name() {
        let of = |name| version(hipsmith_target::by_name(name).unwrap());
        assert_eq!(of("gfx928"), (9, 2));
        assert_eq!(of("gfx906"), (9, 0));
        assert_eq!(of("gfx90a"), (9, 0));
    }
}
