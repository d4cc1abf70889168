//! What a program asks and sets about a kernel.

use crate::abi::{Address, Out};
use crate::error::{Error, Hip};
use crate::state::{State, lock, say};

/// HIP's `hipFuncAttributes`.
#[repr(C)]
struct Attributes {
    binary_version: i32,
    cache_mode: i32,
    const_bytes: usize,
    local_bytes: usize,
    max_dynamic_lds: i32,
    max_threads_per_block: i32,
    registers: i32,
    preferred_carveout: i32,
    ptx_version: i32,
    static_lds: usize,
}

fn attributes(state: &mut State, function: Address) -> Hip<Attributes> {
    let kernel = state.kernel(function)?;
    let lds = state.target().lds.max_bytes_per_workgroup;
    let version = kernel
        .isa()
        .trim_start_matches("gfx")
        .get(..2)
        .and_then(|v| v.parse().ok())
        .unwrap_or(0);
    Ok(Attributes {
        binary_version: version,
        cache_mode: 0,
        const_bytes: 0,
        local_bytes: kernel.private_segment_fixed_size as usize,
        max_dynamic_lds: lds.saturating_sub(kernel.group_segment_fixed_size) as i32,
        max_threads_per_block: kernel.max_flat_workgroup_size as i32,
        registers: kernel.vgpr_count as i32,
        preferred_carveout: 0,
        ptx_version: version,
        static_lds: kernel.group_segment_fixed_size as usize,
    })
}

/// Of `hipFuncAttribute`.
const MAX_DYNAMIC_LDS: i32 = 8;
const PREFERRED_CARVEOUT: i32 = 9;

hip! {
    fn hipFuncGetAttributes(into: Out<Attributes>, function: Address) {
        into.set(attributes(&mut lock(), function)?)
    }

    fn hipFuncGetAttribute(into: Out<i32>, attribute: i32, function: Address) {
        let a = attributes(&mut lock(), function)?;
        into.set(match attribute {
            0 => a.max_threads_per_block,
            1 => a.static_lds as i32,
            2 => a.const_bytes as i32,
            3 => a.local_bytes as i32,
            4 => a.registers,
            5 => a.ptx_version,
            6 => a.binary_version,
            7 => a.cache_mode,
            8 => a.max_dynamic_lds,
            9 => a.preferred_carveout,
            _ => return Err(Error::InvalidValue),
        })
    }

    fn hipFuncSetAttribute(function: Address, attribute: i32, value: i32) {
        let mut state = lock();
        let kernel = state.kernel(function)?;
        match attribute {
            MAX_DYNAMIC_LDS => {
                let wanted = u32::try_from(value).map_err(|_| Error::InvalidValue)?;
                let target = state.target();
                let limit = target.lds.max_bytes_per_workgroup;
                if wanted.saturating_add(kernel.group_segment_fixed_size) > limit {
                    say(&format!(
                        "hipFuncSetAttribute: {wanted} bytes of dynamic LDS and {} of static LDS for kernel {} are more than the {limit} bytes of LDS that a workgroup can have on {}",
                        kernel.group_segment_fixed_size, kernel.display_name, target.name
                    ));
                    return Err(Error::InvalidValue);
                }
                Ok(())
            }
            PREFERRED_CARVEOUT => Ok(()),
            _ => Err(Error::InvalidValue),
        }
    }

    fn hipFuncSetCacheConfig(function: Address, _config: i32) {
        lock().kernel(function).map(drop)
    }

    fn hipFuncSetSharedMemConfig(function: Address, _config: i32) {
        lock().kernel(function).map(drop)
    }
}
