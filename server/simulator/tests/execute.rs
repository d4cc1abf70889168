//! Small HIP kernels, compiled by the real compiler and executed, against references in Rust.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hipsmith_process::{Cancel, Job};
use hipsmith_simulator::{
    Dispatch, Fault, Launch, Limits, Memory, Module, Printer, Simulator, Stream,
};

/// The compiled kernels, or `None` (said once) where there is no compiler.
fn code() -> Option<&'static [u8]> {
    static CODE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    CODE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/basic.hip");
        let dir = tempfile::tempdir().unwrap();
        let out: PathBuf = dir.path().join("basic.co");
        let compiler = std::env::var_os("HIPSMITH_HIPCC").unwrap_or_else(|| "hipcc".into());
        let job = Job::new(compiler)
            .args([
                "--offload-arch=gfx906",
                "-O3",
                "-g",
                "--cuda-device-only",
                "-c",
            ])
            .arg(source)
            .arg("-o")
            .arg(&out)
            .timeout(Duration::from_secs(120));
        match hipsmith_process::run(&job, &Cancel::new()) {
            Err(hipsmith_process::Error::NotFound { .. }) => {
                eprintln!("skipped: no hipcc");
                None
            }
            Err(e) => panic!("{e}"),
            Ok(output) => {
                assert!(output.status.success(), "{}", output.stderr_tail(20));
                Some(std::fs::read(out).unwrap())
            }
        }
    })
    .as_deref()
}

/// A device with the compiled kernels.
struct Device {
    memory: Memory,
    module: Arc<Module>,
    simulator: Simulator,
}

fn device() -> Option<Device> {
    let memory = Memory::new();
    let module = Module::load(code()?, &memory).unwrap();
    let simulator = Simulator::new(hipsmith_target::default_target(), memory.clone());
    Some(Device {
        memory,
        module,
        simulator,
    })
}

/// Plain data that can be copied to the device and back.
trait Plain: Copy + Default {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for i64 {}
impl Plain for u64 {}
impl Plain for f32 {}
impl Plain for f64 {}

impl Device {
    fn give<T: Plain>(&self, data: &[T]) -> u64 {
        let bytes = size_of_val(data);
        let at = self.memory.alloc(bytes as u64, "test data").unwrap();
        // SAFETY: plain numbers are bytes.
        let raw = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), bytes) };
        self.memory.write_bytes(at, raw).unwrap();
        at
    }
    fn take<T: Plain>(&self, at: u64, n: usize) -> Vec<T> {
        let mut out = vec![T::default(); n];
        let bytes = size_of_val(&out[..]);
        // SAFETY: any bytes are plain numbers.
        let raw = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), bytes) };
        self.memory.read_bytes(at, raw).unwrap();
        out
    }
    fn launch(&self, name: &str, grid: [u32; 3], block: [u32; 3], args: &[Arg]) -> Launch {
        let kernel = self
            .module
            .kernel(name)
            .unwrap_or_else(|| panic!("no kernel {name}"));
        let mut launch = Launch::new(kernel, grid, block);
        for arg in args {
            let bytes = match arg {
                Arg::P(p) => p.to_le_bytes().to_vec(),
                Arg::I(i) => i.to_le_bytes().to_vec(),
            };
            while !launch.kernargs.len().is_multiple_of(bytes.len()) {
                launch.kernargs.push(0);
            }
            launch.kernargs.extend(bytes);
        }
        launch
    }
    fn run(&self, name: &str, grid: u32, block: u32, args: &[Arg]) -> Dispatch {
        self.try_run(name, grid, block, args)
            .unwrap_or_else(|e| panic!("{e}"))
    }
    fn try_run(&self, name: &str, grid: u32, block: u32, args: &[Arg]) -> Result<Dispatch, Fault> {
        let launch = self.launch(name, [grid, 1, 1], [block, 1, 1], args);
        self.simulator.dispatch(&launch, &Limits::default())
    }
}

enum Arg {
    P(u64),
    I(i32),
}
use Arg::{I, P};

macro_rules! device {
    () => {
        match device() {
            Some(device) => device,
            None => return,
        }
    };
}

#[test]
fn vector_add() {
    let d = device!();
    let n = 1000;
    let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    let b: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
    let (pa, pb, pc) = (d.give(&a), d.give(&b), d.give(&vec![0f32; n]));
    let dispatch = d.run("vector_add", 4, 256, &[P(pa), P(pb), P(pc), I(n as i32)]);
    let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    assert_eq!(d.take::<f32>(pc, n), want);
    let c = dispatch.counters;
    assert_eq!(
        (c.sq_waves, c.sq_insts_vmem_rd, c.sq_insts_vmem_wr),
        (16, 32, 16)
    );
    assert_eq!((c.bytes_read, c.bytes_written), (8000, 4000));
    assert_eq!(c.lines_touched, c.lines_ideal);
    assert!(
        dispatch
            .lines
            .iter()
            .any(|l| l.at.file.ends_with("basic.hip") && l.counters.bytes_written == 4000)
    );
    assert!(dispatch.prediction.ns > 0.0);
}

#[test]
fn reduction_with_lds_and_barriers() {
    let d = device!();
    let input: Vec<f32> = (0..5000).map(|i| (i % 17) as f32).collect();
    let (pi, po) = (d.give(&input), d.give(&[0f32; 3]));
    let dispatch = d.run("reduce", 3, 256, &[P(pi), P(po), I(5000)]);
    let total: f32 = d.take::<f32>(po, 3).iter().sum();
    assert_eq!(total, input.iter().sum::<f32>());
    assert!(dispatch.counters.barriers >= 3 * 4 * 8);
    assert_eq!(dispatch.counters.sq_lds_bank_conflict, 0);
}

#[test]
fn shuffles_and_ballot() {
    let d = device!();
    let input: Vec<i32> = (0..64).map(|i| i * i - 7 * i).collect();
    let (pi, po) = (d.give(&input), d.give(&[0i32; 256]));
    d.run("shuffle", 1, 64, &[P(pi), P(po)]);
    let out = d.take::<i32>(po, 256);
    let sum: i32 = input.iter().sum();
    let odd = input.iter().filter(|v| **v & 1 == 1).count() as i32;
    for i in 0..64 {
        let down = if i + 3 < 64 { input[i + 3] } else { input[i] };
        assert_eq!(
            out[4 * i..4 * i + 4],
            [sum, down, input[5], odd],
            "lane {i}"
        );
    }
}

#[test]
fn histogram_with_atomics() {
    let d = device!();
    let input: Vec<u8> = (0..20_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let (pi, po) = (d.give(&input), d.give(&[0u32; 256]));
    let dispatch = d.run("histogram", 5, 256, &[P(pi), P(po), I(20_000)]);
    let mut want = [0u32; 256];
    for b in &input {
        want[usize::from(*b)] += 1;
    }
    assert_eq!(d.take::<u32>(po, 256), want);
    assert_eq!(dispatch.counters.atomics, 5 * 256);
}

#[test]
fn transposes_differ_in_bank_conflicts_only() {
    let d = device!();
    let width = 64usize;
    let input: Vec<f32> = (0..width * width).map(|i| i as f32).collect();
    let mut results = Vec::new();
    for name in ["transpose", "transpose_padded"] {
        let (pi, po) = (d.give(&input), d.give(&vec![0f32; width * width]));
        let launch = d.launch(
            name,
            [2, 2, 1],
            [32, 8, 1],
            &[P(pi), P(po), I(width as i32)],
        );
        let dispatch = d.simulator.dispatch(&launch, &Limits::default()).unwrap();
        let out = d.take::<f32>(po, width * width);
        for y in 0..width {
            for x in 0..width {
                assert_eq!(out[y * width + x], input[x * width + y]);
            }
        }
        results.push(dispatch);
    }
    assert!(results[0].counters.sq_lds_bank_conflict > 0);
    assert_eq!(results[1].counters.sq_lds_bank_conflict, 0);
    let [plain, padded] = [&results[0].prediction, &results[1].prediction];
    assert!(plain.cycles > padded.cycles, "{plain:?} {padded:?}");
}

#[test]
fn matrix_multiplication() {
    let d = device!();
    let n = 128usize;
    let a: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32 * 0.5).collect();
    let mut want = vec![0f32; n * n];
    for y in 0..n {
        for k in 0..n {
            for x in 0..n {
                want[y * n + x] += a[y * n + k] * b[k * n + x];
            }
        }
    }
    let (pa, pb) = (d.give(&a), d.give(&b));
    let mut cycles = Vec::new();
    for (name, grid, block) in [
        ("matmul", [8, 8, 1], [16, 16, 1]),
        ("matmul_blocked", [2, 2, 1], [256, 1, 1]),
    ] {
        let pc = d.give(&vec![0f32; n * n]);
        let launch = d.launch(name, grid, block, &[P(pa), P(pb), P(pc), I(n as i32)]);
        let dispatch = d.simulator.dispatch(&launch, &Limits::default()).unwrap();
        assert_eq!(d.take::<f32>(pc, n * n), want, "{name}");
        assert!(dispatch.counters.flops >= 2 * (n * n * n) as u64, "{name}");
        cycles.push(dispatch.counters.sq_lds_idx_active);
    }
    assert!(cycles[1] < cycles[0], "{cycles:?}");
}

#[test]
fn divergent_control_flow() {
    let d = device!();
    let input: Vec<i32> = (1..65).collect();
    let (pi, po) = (d.give(&input), d.give(&[0i32; 64]));
    d.run("divergent", 1, 64, &[P(pi), P(po)]);
    let collatz = |mut x: i32| {
        let mut n = 0;
        while x != 1 {
            x = if x & 1 == 1 { 3 * x + 1 } else { x / 2 };
            n += 1;
        }
        n
    };
    let want: Vec<i32> = input.iter().map(|x| collatz(*x)).collect();
    assert_eq!(d.take::<i32>(po, 64), want);
}

#[test]
fn doubles_divide_and_root() {
    let d = device!();
    let a: Vec<f64> = (0..64).map(|i| f64::from(i) * 1.7 + 0.3).collect();
    let b: Vec<f64> = (0..64).map(|i| f64::from(i) * -0.9 + 11.1).collect();
    let (pa, pb, po) = (d.give(&a), d.give(&b), d.give(&[0f64; 64]));
    d.run("doubles", 1, 64, &[P(pa), P(pb), P(po)]);
    for (i, out) in d.take::<f64>(po, 64).iter().enumerate() {
        let want = a[i] / b[i] + a[i].sqrt() * b[i];
        assert!(
            (out - want).abs() <= want.abs() * 1e-15,
            "{i}: {out} {want}"
        );
    }
}

#[test]
fn halves() {
    use half::f16;
    let d = device!();
    let a: Vec<u16> = (0..64)
        .map(|i| f16::from_f32(i as f32 * 0.25).to_bits())
        .collect();
    let b: Vec<u16> = (0..64)
        .map(|i| f16::from_f32(3.0 - i as f32 * 0.125).to_bits())
        .collect();
    let (pa, pb, po) = (d.give(&a), d.give(&b), d.give(&[0u16; 64]));
    d.run("halves", 1, 64, &[P(pa), P(pb), P(po)]);
    for (i, out) in d.take::<u16>(po, 64).iter().enumerate() {
        let (x, y) = (f16::from_bits(a[i]).to_f64(), f16::from_bits(b[i]).to_f64());
        // Fused or not, as the compiler likes.
        let fused = f16::from_f64(x * y + x);
        let twice = f16::from_f64(f16::from_f64(x * y).to_f64() + x);
        let out = f16::from_bits(*out);
        assert!(out == fused || out == twice, "{i}: {out} {fused} {twice}");
    }
}

#[test]
fn private_arrays_and_calls() {
    let d = device!();
    let input: Vec<i32> = (0..64).map(|i| i * 3).collect();
    let (pi, po) = (d.give(&input), d.give(&[0i32; 64]));
    let dispatch = d.run("private_array", 1, 64, &[P(pi), P(po)]);
    let want: Vec<i32> = input
        .iter()
        .map(|v| {
            let mut local = [0i32; 48];
            for i in 0..48 {
                local[((i * 7 + v) % 48) as usize] = i * i;
            }
            (0..48).fold(0i32, |sum, i| {
                sum.wrapping_mul(3)
                    .wrapping_add(local[((v * 5 + i) % 48) as usize])
            })
        })
        .collect();
    assert_eq!(d.take::<i32>(po, 64), want);
    assert!(dispatch.counters.scratch_bytes > 0);

    d.run("calls", 1, 64, &[P(pi), P(po)]);
    let helper = |a: i32, b: i32| a * a - 7 * b;
    let want: Vec<i32> = input
        .iter()
        .map(|v| helper(*v, 3) + helper(3, *v) + (v & 7).pow(5))
        .collect();
    assert_eq!(d.take::<i32>(po, 64), want);
}

#[test]
fn integer_division() {
    let d = device!();
    let a: Vec<i64> = (0..64).map(|i| (i - 30) * 0x1234_5678_9abc + i).collect();
    let b: Vec<i64> = (0..64)
        .map(|i| {
            if i % 3 == 0 {
                i + 1
            } else {
                -(i * 1_000_003 + 7)
            }
        })
        .collect();
    let (pa, pb, po) = (d.give(&a), d.give(&b), d.give(&[0i64; 192]));
    d.run("divide", 1, 64, &[P(pa), P(pb), P(po), I(97)]);
    let out = d.take::<i64>(po, 192);
    for i in 0..64 {
        let last = i64::from((a[i] as u32 / 97).wrapping_add(b[i] as u32 % 97));
        assert_eq!(
            out[3 * i..3 * i + 3],
            [a[i] / b[i], a[i] % b[i], last],
            "{i}"
        );
    }
}

#[test]
fn switches() {
    let d = device!();
    let input: Vec<i32> = (0..64).map(|i| i * 11 - 100).collect();
    let (pi, po) = (d.give(&input), d.give(&[0i32; 64]));
    for uniform in 0..8 {
        d.run("table", 1, 64, &[P(pi), P(po), I(uniform)]);
        let want: Vec<i32> = input
            .iter()
            .map(|v| {
                let r = match uniform {
                    0 => v + 1,
                    1 => v * 3,
                    2 => v ^ 0x55,
                    3 => v << 2,
                    4 => -v,
                    5 => v / 7,
                    6 => !v,
                    _ => 0,
                };
                match v & 7 {
                    0 => r + 100,
                    1 => r - 5,
                    2 => r * 2,
                    3 => r ^ 9,
                    5 => r + v,
                    _ => r,
                }
            })
            .collect();
        assert_eq!(d.take::<i32>(po, 64), want, "{uniform}");
    }
}

#[test]
fn globals_live_in_the_module() {
    let d = device!();
    let po = d.give(&[0i32; 128]);
    d.run("globals", 1, 128, &[P(po)]);
    assert_eq!(d.take::<i32>(po, 8), [3, 1, 4, 1, 3, 1, 4, 1]);
    let (counter, size) = d.module.symbol("counter").unwrap();
    assert_eq!(size, 4);
    assert_eq!(d.take::<i32>(counter, 1), [5 + 128]);
    let (weights, _) = d.module.symbol("weights").unwrap();
    d.memory.write_bytes(weights, &9i32.to_le_bytes()).unwrap();
    d.run("globals", 1, 128, &[P(po)]);
    assert_eq!(d.take::<i32>(po, 4), [9, 1, 4, 1]);
}

#[test]
fn dynamic_lds_and_its_limit() {
    let d = device!();
    let input: Vec<i32> = (0..256).collect();
    let (pi, po) = (d.give(&input), d.give(&[0i32; 256]));
    let mut launch = d.launch("dynamic_lds", [1, 1, 1], [256, 1, 1], &[P(pi), P(po)]);
    launch.dynamic_lds = 1024;
    d.simulator.dispatch(&launch, &Limits::default()).unwrap();
    let want: Vec<i32> = (0..256).rev().collect();
    assert_eq!(d.take::<i32>(po, 256), want);

    launch.dynamic_lds = 512;
    let fault = d
        .simulator
        .dispatch(&launch, &Limits::default())
        .unwrap_err();
    assert!(
        matches!(fault, Fault::LdsOutOfRange { offset: 512, .. }),
        "{fault}"
    );

    launch.dynamic_lds = 70_000;
    let fault = d
        .simulator
        .dispatch(&launch, &Limits::default())
        .unwrap_err();
    let text = fault.to_string();
    assert!(matches!(fault, Fault::LaunchRefused { .. }));
    assert!(text.contains("70000") && text.contains("65536"), "{text}");
}

#[test]
fn wide_loads_need_fewer_instructions() {
    let d = device!();
    let n = 480 * 1024;
    let input: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (pi, po) = (d.give(&input), d.give(&vec![0f32; n]));
    let wide = d.run("vector_loads", 480, 256, &[P(pi), P(po)]);
    let out = d.take::<f32>(po, n);
    assert_eq!(out[..8], [3.0, 2.0, 1.0, 0.0, 7.0, 6.0, 5.0, 4.0]);
    let narrow = d.run("copy1", 1920, 256, &[P(pi), P(po)]);
    assert_eq!(wide.counters.bytes_read, narrow.counters.bytes_read);
    assert!(wide.instructions < narrow.instructions);
    assert!(wide.prediction.cycles <= narrow.prediction.cycles);
}

#[test]
fn strided_access_is_predicted_slower() {
    let d = device!();
    let n = 64 * 256usize;
    let (pi, po) = (d.give(&vec![1f32; n * 32]), d.give(&vec![0f32; n]));
    let unit = d.run("strided", 64, 256, &[P(pi), P(po), I(1)]);
    let strided = d.run("strided", 64, 256, &[P(pi), P(po), I(32)]);
    assert!(strided.counters.lines_touched > 5 * unit.counters.lines_touched);
    assert!(strided.prediction.cycles > unit.prediction.cycles);
    assert_eq!(unit.counters.lines_per_ideal(), Some(1.0));
}

#[test]
fn three_dimensional_ids() {
    let d = device!();
    let (g, b) = ([3u32, 2, 2], [4u32, 3, 6]);
    let n = (g.iter().product::<u32>() * b.iter().product::<u32>()) as usize;
    let po = d.give(&vec![-1i32; n]);
    let launch = d.launch("ids", g, b, &[P(po)]);
    d.simulator.dispatch(&launch, &Limits::default()).unwrap();
    let out = d.take::<i32>(po, n);
    let per_block = b.iter().product::<u32>();
    for (i, v) in out.iter().enumerate() {
        let (block, t) = (i as u32 / per_block, i as u32 % per_block);
        let want = block * 10_000 + t % b[0] * 100 + t / b[0] % b[1] * 10 + t / (b[0] * b[1]);
        assert_eq!(*v, want as i32, "{i}");
    }
}

#[test]
fn atomics_of_every_kind() {
    let d = device!();
    let sum = d.give(&[0u64]);
    let (low, high, taken) = (d.give(&[0i32]), d.give(&[0i32]), d.give(&[0i32]));
    let (turns, f) = (d.give(&[0u32]), d.give(&[0f32]));
    let args = [P(sum), P(low), P(high), P(turns), P(f), P(taken)];
    d.run("wide_atomics", 4, 100, &args);
    let n: u64 = (0..400).sum();
    assert_eq!(d.take::<u64>(sum, 1), [n * 0x1_0000_0001]);
    assert_eq!(d.take::<i32>(low, 1), [-399]);
    assert_eq!(d.take::<i32>(high, 1), [399 * 3]);
    assert_eq!(d.take::<u32>(turns, 1), [0]);
    assert_eq!(d.take::<f32>(f, 1), [200.0]);
    assert_eq!(d.take::<i32>(taken, 1), [1]);
}

#[test]
fn blocks_that_wait_for_each_other_make_progress() {
    let d = device!();
    let (flags, out) = (d.give(&[0i32; 8]), d.give(&[-1i32; 8]));
    d.run("spin_on_earlier_blocks", 8, 64, &[P(flags), P(out)]);
    assert_eq!(d.take::<i32>(out, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_same_run_twice_gives_the_same_counters() {
    let d = device!();
    let input: Vec<f32> = (0..5000).map(|i| i as f32).collect();
    let (pi, po) = (d.give(&input), d.give(&[0f32; 40]));
    let run = || {
        let dispatch = d.run("reduce", 40, 256, &[P(pi), P(po), I(5000)]);
        (
            dispatch.counters,
            dispatch.prediction.cycles,
            dispatch.lines,
        )
    };
    assert_eq!(run(), run());
}

#[test]
fn out_of_bounds_is_a_fault_with_its_place() {
    let d = device!();
    let po = d.give(&[0i32; 100]);
    let fault = d
        .try_run("out_of_bounds", 1, 64, &[P(po), I(50)])
        .unwrap_err();
    let text = fault.to_string();
    let site = fault.site().unwrap();
    assert_eq!((site.block, site.wave, site.lane), ([0, 0, 0], 0, Some(50)));
    assert!(site.source.as_ref().unwrap().file.ends_with("basic.hip"));
    assert!(text.contains("write of 4 bytes"), "{text}");
    assert!(text.contains("basic.hip:"), "{text}");
    assert!(text.contains("test data of 400 bytes"), "{text}");
    // A null pointer and a host pointer are faults too, not crashes.
    let host = Box::new([0i32; 64]);
    for wild in [0, host.as_ptr() as u64, 0xdead_beef_0000] {
        let fault = d
            .try_run("out_of_bounds", 1, 64, &[P(wild), I(0)])
            .unwrap_err();
        assert!(matches!(fault, Fault::OutOfBounds { .. }), "{fault}");
    }
}

#[test]
fn a_kernel_that_never_ends_is_stopped() {
    let d = device!();
    let flag = d.give(&[0i32]);
    let launch = d.launch("forever", [1, 1, 1], [64, 1, 1], &[P(flag)]);
    let limits = Limits {
        max_instructions: 100_000,
        ..Limits::default()
    };
    let fault = d.simulator.dispatch(&launch, &limits).unwrap_err();
    assert!(matches!(fault, Fault::TooLong { .. }), "{fault}");
    let limits = Limits {
        timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let fault = d.simulator.dispatch(&launch, &limits).unwrap_err();
    assert!(matches!(fault, Fault::TooLong { .. }), "{fault}");
    let limits = Limits::default();
    limits.cancel.cancel();
    let fault = d.simulator.dispatch(&launch, &limits).unwrap_err();
    assert!(matches!(fault, Fault::Cancelled { .. }), "{fault}");
}

#[test]
fn traps_and_wild_lds() {
    let d = device!();
    let po = d.give(&[0i32; 64]);
    let fault = d.try_run("trap", 1, 1, &[P(po)]).unwrap_err();
    assert!(matches!(fault, Fault::Trap { id: 2, .. }), "{fault}");
    let fault = d.try_run("lds_wild", 1, 64, &[P(po), I(1)]).unwrap_err();
    assert!(
        matches!(fault, Fault::LdsOutOfRange { offset: 256, .. }),
        "{fault}"
    );
    assert_eq!(fault.site().unwrap().lane, Some(63));
}

#[test]
fn another_rounding_mode_stops_the_kernel_instead_of_rounding_wrongly() {
    let d = device!();
    let po = d.give(&[0f32; 64]);
    let fault = d.try_run("round_up", 1, 64, &[P(po)]).unwrap_err();
    assert!(fault.to_string().contains("rounding mode"), "{fault}");
}

#[test]
fn lds_races_and_unwritten_reads_are_told() {
    let d = device!();
    let (pi, po) = (d.give(&[1i32; 128]), d.give(&[0i32; 128]));
    let warnings = |name: &str, block: u32| -> Vec<String> {
        let dispatch = d.run(name, 2, block, &[P(pi), P(po)]);
        dispatch.warnings.into_iter().map(|w| w.message).collect()
    };
    let racy = warnings("racy", 128);
    assert!(
        racy.iter()
            .any(|w| w.contains("LDS race") && w.contains("basic.hip:")),
        "{racy:?}"
    );
    let unwritten = warnings("unwritten", 64);
    assert_eq!(unwritten.len(), 1, "{unwritten:?}");
    assert!(unwritten[0].contains("offset 128"), "{unwritten:?}");
    // Kernels that are right say nothing.
    let input: Vec<f32> = (0..5000).map(|i| i as f32).collect();
    let (pi, po) = (d.give(&input), d.give(&[0f32; 8]));
    for name in ["reduce", "matmul_blocked", "transpose"] {
        let launch = match name {
            "reduce" => d.launch(name, [3, 1, 1], [256, 1, 1], &[P(pi), P(po), I(5000)]),
            "transpose" => {
                let big = d.give(&[0f32; 64 * 64]);
                d.launch(name, [2, 2, 1], [32, 8, 1], &[P(big), P(big), I(64)])
            }
            _ => {
                let m = d.give(&[0f32; 64 * 64]);
                d.launch(name, [1, 1, 1], [256, 1, 1], &[P(m), P(m), P(m), I(64)])
            }
        };
        let dispatch = d.simulator.dispatch(&launch, &Limits::default()).unwrap();
        assert_eq!(dispatch.warnings, [], "{name}");
    }
}

type Heard = Arc<Mutex<Vec<(Stream, String)>>>;

/// Limits whose printer collects what is printed.
fn listening() -> (Limits, Heard) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let printer = Printer::new(move |stream, text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        sink.lock().unwrap().push((stream, text));
    });
    let limits = Limits {
        printer,
        ..Limits::default()
    };
    (limits, heard)
}

#[test]
fn kernels_print() {
    let d = device!();
    let (limits, heard) = listening();
    let launch = d.launch("prints", [2, 1, 1], [100, 1, 1], &[I(70)]);
    d.simulator.dispatch(&launch, &limits).unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 140);
    for t in [0usize, 33, 69] {
        let want = format!("thread {t} of many: {:.2}\n", t as f32 * 0.5);
        assert_eq!(heard.iter().filter(|(_, text)| *text == want).count(), 2);
    }
    assert!(heard.iter().all(|(stream, _)| *stream == Stream::Stdout));
}

#[test]
fn a_failed_assertion_says_where() {
    let d = device!();
    let (limits, heard) = listening();
    let mut input = [0i32; 64];
    let good = d.give(&input);
    let launch = d.launch("asserts", [1, 1, 1], [64, 1, 1], &[P(good)]);
    d.simulator.dispatch(&launch, &limits).unwrap();
    input[5] = 1;
    let bad = d.give(&input);
    let launch = d.launch("asserts", [1, 1, 1], [64, 1, 1], &[P(bad)]);
    let fault = d.simulator.dispatch(&launch, &limits).unwrap_err();
    assert!(matches!(fault, Fault::Trap { .. }), "{fault}");
    let heard = heard.lock().unwrap();
    assert!(
        heard
            .iter()
            .any(|(_, text)| text.contains("in[threadIdx.x] == 0")),
        "{heard:?}"
    );
}

#[test]
fn impossible_launches_are_refused() {
    let d = device!();
    let po = d.give(&[0i32; 64]);
    for (grid, block) in [(0, 64), (1, 0), (1, 1025), (u32::MAX, 1024)] {
        let fault = d.try_run("ids", grid, block, &[P(po)]).unwrap_err();
        assert!(matches!(fault, Fault::LaunchRefused { .. }), "{fault}");
    }
}

#[test]
fn everything_in_the_test_kernels_is_implemented() {
    let d = device!();
    assert_eq!(
        d.module.unimplemented().unwrap(),
        std::collections::BTreeMap::new()
    );
}

/// Damaged code objects are errors, never panics or hangs.
#[test]
fn any_damage_to_a_code_object_is_survived() {
    let Some(good) = code() else { return };
    let memory = Memory::new();
    let step = (good.len() / 150).max(1);
    for cut in (0..good.len()).step_by(step) {
        let _ = Module::load(&good[..cut], &memory);
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..600 {
        let mut bad = good.to_vec();
        for _ in 0..1 + next() % 8 {
            // Headers and metadata are where damage hurts: most flips go to the first pages.
            let span = if next() % 4 == 0 {
                bad.len()
            } else {
                bad.len().min(0x2400)
            };
            let at = next() as usize % span;
            bad[at] ^= 1 << (next() % 8);
        }
        let _ = Module::load(&bad, &memory);
    }
    assert_eq!(
        memory.allocated_bytes(),
        0,
        "a failed load leaks device memory"
    );
}
