//! Candidates that cheat, on a device made of Rust functions: each must be refused, each honest one must pass.

use std::path::Path;
use std::time::Duration;

use hipsmith_devices::harness::{Arg, Case, Launches, Ran};
use hipsmith_devices::{Device, Failure};
use hipsmith_process::Cancel;

use super::element::Element;
use super::{Verdict, Verifier};
use crate::subject::{Data, Shape, Subject};

/// `y[i] = x[i] / 3 + sum of x's first 64 elements`, for i < n. The "module" is the behaviour's name.
struct Functions;

impl Device for Functions {
    fn describe(&self) -> String {
        "functions".to_owned()
    }

    fn launch(&self, launches: &Launches, _cancel: &Cancel) -> Result<Ran, Failure> {
        let name = launches.module.to_str().unwrap();
        let mut memo: Option<Vec<f32>> = None;
        let mut buffers = Vec::new();
        for (c, case) in launches.cases.iter().enumerate() {
            buffers.push(one(name, c, launches.cases.len(), case, &mut memo)?);
        }
        Ok(Ran {
            buffers,
            report: None,
            wall: Duration::from_millis(1),
        })
    }
}

fn one(
    name: &str,
    index: usize,
    of: usize,
    case: &Case,
    memo: &mut Option<Vec<f32>>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut out = case.buffers.clone();
    let (Arg::Pointer { offset: x_at, .. }, Arg::Pointer { offset: y_at, .. }, Arg::Value(n)) =
        (&case.args[0], &case.args[1], &case.args[2])
    else {
        panic!("other arguments");
    };
    let n = u32::from_le_bytes(n[..].try_into().unwrap()) as usize;
    let (x_at, y_at) = (*x_at as usize, *y_at as usize);
    let x: Vec<f32> = (0..n)
        .map(|i| Element::F32.get(&case.buffers[0][x_at..], i) as f32)
        .collect();
    let right = |sum: f32| x.iter().map(|v| v / 3.0 + sum).collect::<Vec<f32>>();
    // Of magnitudes: a sum that happens to cancel leaves only rounding errors, and the verifier, which draws fresh
    // values each time, rightly takes a reordering of those for a loss of precision.
    let sum = |part: &[f32]| part.iter().map(|v| v.abs()).sum::<f32>();
    let serial = sum(&x[..64]);
    let pairs: f32 = x[..64].chunks(8).map(sum).sum();
    let y: Vec<f32> = match name {
        "original" | "oob-after" | "oob-before" | "writes-input" => right(serial),
        "reordered" => right(pairs),
        "reciprocal" => x.iter().map(|v| v * (1.0 / 3.0) + serial).collect(),
        "no-op" => return Ok(out),
        "first-only" => right(serial)[..1].to_vec(),
        "all-but-last" => right(serial)[..n - 1].to_vec(),
        "copy" => x.clone(),
        "zeros" => vec![0.0; n],
        "constant" => vec![right(serial)[0]; n],
        "nan" => vec![f32::NAN; n],
        "memo" => memo.get_or_insert_with(|| right(serial)).clone(),
        "right-at-first" if index >= 8 => vec![0.0; n],
        "right-at-first" => right(serial),
        "wrong-at-last" if index + 1 == of => right(serial + 1.0),
        "wrong-at-last" => right(serial),
        "half" => right(serial)
            .iter()
            .map(|v| half::f16::from_f32(*v).to_f32())
            .collect(),
        "half-inputs" => {
            let narrow = |v: &f32| half::f16::from_f32(*v).to_f32();
            x.iter().map(|v| narrow(v) / 3.0 + serial).collect()
        }
        "truncated" => right(serial)
            .iter()
            .map(|v| f32::from_bits(v.to_bits() & 0xffff_ff00))
            .collect(),
        "main-shape-only" if n != 1000 => return Ok(out),
        "main-shape-only" => right(serial),
        "faults" => {
            return Err(Failure::Kernel {
                case: index,
                what: "wrote out of bounds".into(),
            });
        }
        other => panic!("no behaviour {other}"),
    };
    for (i, v) in y.iter().enumerate() {
        Element::F32.put(&mut out[1][y_at..], i, f64::from(*v));
    }
    match name {
        // Past an exact allocation it would be a fault; between red zones it is a write.
        "oob-after" => Element::F32.put(&mut out[1][y_at..], n, 1.0),
        "oob-before" if y_at >= 4 => out[1][y_at - 1] ^= 0x10,
        "writes-input" => out[0][x_at] ^= 1,
        _ => {}
    }
    Ok(out)
}

fn shape(n: usize) -> Shape {
    let mut state = n as u64;
    let values: Vec<f32> = (0..n)
        .map(|_| {
            state = super::cases::mix(state);
            (state >> 40) as f32 / 1e6 - 8.0
        })
        .collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let data = |before: Vec<u8>, writable| Data {
        before,
        after: None,
        element: Element::F32,
        writable,
    };
    Shape {
        grid: [1; 3],
        block: [64, 1, 1],
        dynamic_lds: 0,
        args: vec![
            Arg::Pointer {
                buffer: 0,
                offset: 0,
            },
            Arg::Pointer {
                buffer: 1,
                offset: 0,
            },
            Arg::Value((n as u32).to_le_bytes().to_vec()),
        ],
        buffers: vec![data(bytes, false), data(vec![0; 4 * n], true)],
        globals: Vec::new(),
    }
}

fn verifier(original: &str) -> Result<Verifier, Verdict> {
    let subject = Subject {
        symbol: "k".into(),
        origin: "a test".into(),
        shapes: vec![shape(1000), shape(130)],
    };
    Verifier::prepare(&Functions, Path::new(original), &subject, &Cancel::new())
}

#[test]
fn honest_candidates_pass() {
    let verifier = verifier("original").unwrap();
    assert_eq!(verifier.held_out(), 1);
    // A byte may happen to equal the poison.
    assert!((3900..=4000).contains(&verifier.written_bytes()));
    for name in ["original", "reordered", "reciprocal"] {
        let evidence = verifier
            .check(&Functions, Path::new(name), &[], &Cancel::new())
            .unwrap_or_else(|why| panic!("{name}: {why:?}"));
        assert_eq!(evidence.launches.len(), verifier.launches());
        let fresh = verifier
            .redraw(&Functions, Path::new("original"), &Cancel::new())
            .unwrap();
        assert_ne!(fresh.seed, verifier.seed);
        fresh
            .check(&Functions, Path::new(name), &[], &Cancel::new())
            .unwrap();
    }
}

#[test]
fn dishonest_candidates_are_refused() {
    let verifier = verifier("original").unwrap();
    for name in [
        "no-op",
        "first-only",
        "all-but-last",
        "copy",
        "zeros",
        "constant",
        "nan",
        "memo",
        "right-at-first",
        "wrong-at-last",
        "half",
        "half-inputs",
        "truncated",
        "main-shape-only",
        "oob-after",
        "oob-before",
        "writes-input",
        "faults",
    ] {
        let verdict = verifier.check(&Functions, Path::new(name), &[], &Cancel::new());
        assert!(
            matches!(verdict, Err(Verdict::Wrong(_))),
            "{name}: {verdict:?}"
        );
    }
}

#[test]
fn a_workload_that_proves_nothing_is_no_workload() {
    for name in ["no-op", "zeros"] {
        let verdict = verifier(name).map(|_| ());
        assert!(
            matches!(verdict, Err(Verdict::Anomaly(_))),
            "{name}: {verdict:?}"
        );
    }
}
