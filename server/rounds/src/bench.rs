//! How fast a verified kernel is, and whether that can be true.

use std::path::Path;

use hipsmith_devices::harness::{Case, Launches};
use hipsmith_devices::{Device, Failure};
use hipsmith_process::Cancel;
use hipsmith_profile::simulated::KernelReport;
use hipsmith_target::Target;

use crate::proposer::{KernelProfile, Resources};

/// A gain below this is chance, or the model's own error: the simulator repeats itself exactly, so this is
/// all the noise band there is.
pub const NOISE: f64 = 0.01;

/// Above this speed-up a person should look, however right the results are.
pub const TOO_GOOD: f64 = 10.0;

/// What one timed launch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Time of the launch, ns.
    pub ns: f64,
    /// Its counters.
    pub profile: KernelProfile,
    /// Its resources, as the device sees them.
    pub resources: Resources,
    /// What binds its time.
    pub bound_by: String,
}

/// Time one launch of a kernel, alone in its process.
///
/// # Errors
/// [`Failure`].
pub fn time(
    device: &dyn Device,
    module: &Path,
    symbol: &str,
    case: &Case,
    file: &Path,
    cancel: &Cancel,
) -> Result<Timing, Failure> {
    let launches = Launches {
        module,
        kernel: symbol,
        cases: std::slice::from_ref(case),
        timeout: std::time::Duration::from_secs(300),
    };
    let ran = device.launch(&launches, cancel)?;
    let report = ran.report.ok_or_else(|| {
        Failure::Anomaly("the simulated device wrote no report of the timed launch".to_owned())
    })?;
    let kernel = report
        .kernels
        .iter()
        .find(|k| k.name == symbol && k.dispatches == 1)
        .ok_or_else(|| {
            Failure::Anomaly("the report of the timed launch does not hold it".to_owned())
        })?;
    let ns = kernel.predicted_ns_per_dispatch;
    if !(ns.is_finite() && ns > 0.0) {
        return Err(Failure::Anomaly(format!(
            "the time model gave {ns} ns for the timed launch"
        )));
    }
    Ok(Timing {
        ns,
        profile: profile(kernel, file),
        resources: Resources {
            vgprs: kernel.vgprs,
            sgprs: kernel.sgprs,
            lds: kernel.static_lds,
            scratch: kernel.scratch,
            waves_per_simd: Some(kernel.occupancy),
        },
        bound_by: kernel.bound_by.clone(),
    })
}

fn profile(kernel: &KernelReport, file: &Path) -> KernelProfile {
    let pairs = |c: &hipsmith_profile::Counters| {
        c.0.iter()
            .map(|(name, n)| (name.clone(), *n as f64))
            .collect::<Vec<_>>()
    };
    let name = file.file_name();
    KernelProfile {
        ns: kernel.predicted_ns_per_dispatch,
        counters: pairs(&kernel.counters),
        lines: kernel
            .lines
            .iter()
            .filter(|l| Path::new(&l.file).file_name() == name)
            .map(|l| (l.line, pairs(&l.counters)))
            .collect(),
    }
}

/// The least time in which the bytes that the kernel must write can leave the chip, ns; 0 where they may stay
/// in its cache.
pub fn floor_ns(written: u64, target: &Target) -> f64 {
    if written <= 2 * target.cache.l2_bytes {
        return 0.0;
    }
    // GB/s is bytes/ns.
    (written - target.cache.l2_bytes) as f64 / target.device.memory_gbps.value.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_bytes_over_bandwidth_beyond_the_cache() {
        let target = hipsmith_target::default_target();
        assert_eq!(floor_ns(1024, target), 0.0);
        let gib = 1 << 30;
        let floor = floor_ns(gib, target);
        let all = gib as f64 / target.device.memory_gbps.value;
        assert!(floor > 0.9 * all && floor <= all);
    }
}
