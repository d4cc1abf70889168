//! How fast the simulator executes, in lane-instructions per second of CPU time. Needs `hipcc`.
//!
//! `cargo bench -p hipsmith-simulator` prints one line a kernel; add `--threads N` for more than one.

use std::path::Path;
use std::time::Duration;

use hipsmith_process::{Cancel, Job};
use hipsmith_simulator::{Launch, Limits, Memory, Module, Simulator};

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call only writes the struct given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Kernel, grid, block, pointers and the number behind them.
type Case = (&'static str, [u32; 3], [u32; 3], Vec<u64>, u32);

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/basic.hip");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("basic.co");
    let job = Job::new("hipcc")
        .args(["--offload-arch=gfx906", "-O3", "--cuda-device-only", "-c"])
        .arg(source)
        .arg("-o")
        .arg(&out)
        .timeout(Duration::from_secs(120));
    match hipsmith_process::run(&job, &Cancel::new()) {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{}", output.stderr_tail(20)),
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    }
    let args: Vec<String> = std::env::args().collect();
    let threads = args
        .iter()
        .position(|a| a == "--threads")
        .and_then(|i| args.get(i + 1)?.parse().ok())
        .unwrap_or(1);
    let limits = Limits {
        threads,
        ..Limits::default()
    };
    let memory = Memory::new();
    let module = Module::load(&std::fs::read(out).unwrap(), &memory).unwrap();
    let simulator = Simulator::new(hipsmith_target::default_target(), memory.clone());
    let n = 1u32 << 22;
    let buffers: Vec<u64> = (0..3)
        .map(|_| memory.alloc(u64::from(n) * 4, "bench").unwrap())
        .collect();
    let [a, b, c] = [buffers[0], buffers[1], buffers[2]];
    let cases: [Case; 6] = [
        ("copy1", [n / 256, 1, 1], [256, 1, 1], vec![a, c], 0),
        ("vector_add", [n / 256, 1, 1], [256, 1, 1], vec![a, b, c], n),
        ("vector_loads", [n / 1024, 1, 1], [256, 1, 1], vec![a, c], 0),
        ("transpose", [64, 64, 1], [32, 8, 1], vec![a, c], 2048),
        ("matmul", [32, 32, 1], [16, 16, 1], vec![a, b, c], 512),
        ("matmul_blocked", [8, 8, 1], [256, 1, 1], vec![a, b, c], 512),
    ];
    for (name, grid, block, pointers, number) in cases {
        let mut launch = Launch::new(module.kernel(name).unwrap(), grid, block);
        for p in pointers {
            launch.kernargs.extend(p.to_le_bytes());
        }
        launch.kernargs.extend(number.to_le_bytes());
        // The first run pays for page faults and disassembly.
        simulator.dispatch(&launch, &limits).unwrap();
        let mut best = f64::INFINITY;
        let mut dispatch = None;
        for _ in 0..3 {
            let before = cpu_seconds();
            dispatch = Some(simulator.dispatch(&launch, &limits).unwrap());
            best = best.min(cpu_seconds() - before);
        }
        let dispatch = dispatch.unwrap();
        println!(
            "{name:16} {:8.2e} lane-instructions/s  {:8.2e} wave-instructions/s  {:7.1} ms CPU",
            dispatch.lane_instructions as f64 / best,
            dispatch.instructions as f64 / best,
            best * 1e3
        );
    }
}
