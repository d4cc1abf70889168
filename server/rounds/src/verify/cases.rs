//! The launches that decide whether a candidate is right: which inputs, which poison, with or without red zones.

use hipsmith_devices::harness::{Arg, Case};

use super::element::Element;
use crate::subject::{Data, Shape};

/// What a kernel does with a buffer, found by running the original on poison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Never written.
    Input,
    /// Written, and its old contents do not matter: poisoned before every launch.
    Output,
    /// Written, and its old contents matter.
    InOut,
}

/// What the float inputs hold. Everything else stays as recorded: an index must stay an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// As recorded.
    Recorded,
    /// The recorded values in another order: the same domain, another result.
    Shuffled,
    /// Uniform between the recorded extremes.
    Uniform,
    /// All zero.
    Zeros,
    /// All the same power of two, so that sums are exact in any order.
    Constant,
    /// As recorded with the sign alternating: sums cancel.
    Alternating,
    /// Recorded values times 1024.
    Large,
    /// Recorded values over 1024 * 1024.
    Tiny,
}

/// What the outputs hold before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Poison {
    /// Quiet NaN of the type; 0xFF for other types.
    Nan,
    /// Bytes of 0xAA.
    Pattern,
    /// Large finite numbers of the type; 0x7F for other types.
    Huge,
    /// The right result for the recorded inputs, which is wrong for these.
    Stale,
}

/// One launch to make.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Spec {
    /// Which shape of the subject; 0 is the timed one, others are held out.
    pub shape: usize,
    /// What the inputs hold.
    pub values: Values,
    /// What the outputs hold before.
    pub poison: Poison,
    /// Red zones around every buffer. Without them allocations have their exact size, so that a device that
    /// checks bounds sees reads past the end.
    pub guarded: bool,
    /// Seed of the drawn values.
    pub seed: u64,
}

/// Bytes before and after each buffer in a guarded launch; a multiple of every alignment that hipMalloc gives.
const GUARD: usize = 4096;

/// Launches in the order in which they run; the last repeats the second, so that a kernel that is right only at
/// first is found. `most` bounds the count, least important ones last to be kept.
pub fn plan(shapes: usize, floats: bool, most: usize, seed: u64) -> Vec<Spec> {
    use Poison::{Huge, Nan, Pattern, Stale};
    use Values::{Alternating, Constant, Large, Recorded, Shuffled, Tiny, Uniform, Zeros};
    let mut specs = Vec::new();
    let mut draw = seed;
    let mut add = |shape, values, poison, guarded| {
        draw = mix(draw);
        specs.push(Spec {
            shape,
            values,
            poison,
            guarded,
            seed: draw,
        });
    };
    add(0, Recorded, Nan, false);
    add(0, Recorded, Pattern, true);
    for shape in 1..shapes {
        add(shape, Recorded, Nan, false);
    }
    if floats {
        add(0, Shuffled, Stale, true);
        for shape in 1..shapes {
            add(shape, Uniform, Huge, true);
        }
        add(0, Zeros, Nan, true);
        add(0, Uniform, Huge, true);
        add(0, Constant, Stale, true);
        add(0, Alternating, Pattern, true);
        add(0, Large, Nan, true);
        add(0, Tiny, Stale, true);
        for poison in [Nan, Pattern, Huge] {
            add(0, Shuffled, poison, true);
        }
    } else {
        add(0, Recorded, Huge, true);
    }
    specs.truncate(most.max(3).saturating_sub(1));
    if let Some(again) = specs.get(1).cloned() {
        specs.push(again);
    }
    specs
}

/// Build the launch that a spec describes.
pub fn build(spec: &Spec, shape: &Shape, roles: &[Role]) -> Case {
    let guard = if spec.guarded { GUARD } else { 0 };
    let buffers = shape
        .buffers
        .iter()
        .zip(roles)
        .enumerate()
        .map(|(b, (data, role))| {
            let inner = contents(spec, data, *role, b as u64);
            let mut bytes = Vec::with_capacity(inner.len() + 2 * guard);
            bytes.extend((0..guard).map(canary));
            bytes.extend_from_slice(&inner);
            bytes.extend((0..guard).map(canary));
            bytes
        })
        .collect();
    let args = shape
        .args
        .iter()
        .map(|a| match a {
            Arg::Value(bytes) => Arg::Value(bytes.clone()),
            Arg::Pointer { buffer, offset } => Arg::Pointer {
                buffer: *buffer,
                offset: offset + guard as u64,
            },
        })
        .collect();
    Case {
        name: format!(
            "{:?} values, {:?} poison, shape {}{}",
            spec.values,
            spec.poison,
            spec.shape,
            if spec.guarded { ", red zones" } else { "" }
        ),
        grid: shape.grid,
        block: shape.block,
        dynamic_lds: shape.dynamic_lds,
        buffers,
        args,
        globals: shape.globals.clone(),
        fresh: false,
    }
}

/// Take the red zones off a buffer that came back.
///
/// # Errors
/// One clause when a red zone was written to.
pub fn unguard<'a>(spec: &Spec, bytes: &'a [u8]) -> Result<&'a [u8], String> {
    if !spec.guarded {
        return Ok(bytes);
    }
    let Some(inner) = bytes.get(GUARD..bytes.len().saturating_sub(GUARD)) else {
        return Err("came back without its red zones".to_owned());
    };
    let front = bytes[..GUARD]
        .iter()
        .enumerate()
        .rev()
        .find(|(i, b)| **b != canary(*i));
    if let Some((at, _)) = front {
        return Err(format!(
            "was written to {} bytes before its start",
            GUARD - at
        ));
    }
    let back = bytes[GUARD + inner.len()..]
        .iter()
        .enumerate()
        .find(|(i, b)| **b != canary(*i));
    if let Some((at, _)) = back {
        return Err(format!("was written to {at} bytes past its end"));
    }
    Ok(inner)
}

fn canary(i: usize) -> u8 {
    (i * 131 + 89) as u8
}

/// What a buffer holds before the launch.
pub fn contents(spec: &Spec, data: &Data, role: Role, salt: u64) -> Vec<u8> {
    if role == Role::Output {
        return poison(spec.poison, data);
    }
    draw(spec.values, data, mix(spec.seed ^ salt))
}

/// A whole buffer of poison.
pub fn poison(kind: Poison, data: &Data) -> Vec<u8> {
    let element = data.element;
    let fill = |value: f64, other: u8| {
        let mut bytes = vec![other; data.before.len()];
        if element.is_float() {
            for i in 0..bytes.len() / element.size() {
                element.put(&mut bytes, i, value);
            }
        }
        bytes
    };
    match kind {
        Poison::Nan => fill(f64::NAN, 0xFF),
        Poison::Pattern => vec![0xAA; data.before.len()],
        Poison::Huge => fill(if element == Element::F16 { 6e4 } else { 1e30 }, 0x7F),
        Poison::Stale => data.after.clone().unwrap_or_else(|| fill(1.0, 1)),
    }
}

fn draw(values: Values, data: &Data, seed: u64) -> Vec<u8> {
    let element = data.element;
    let mut bytes = data.before.clone();
    if !element.is_float() || values == Values::Recorded {
        return bytes;
    }
    let count = bytes.len() / element.size();
    let mut random = seed;
    let mut unit = || {
        random = mix(random);
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let recorded: Vec<f64> = (0..count).map(|i| element.get(&data.before, i)).collect();
    match values {
        Values::Recorded => {}
        Values::Shuffled => {
            // Fisher and Yates.
            let mut order: Vec<usize> = (0..count).collect();
            for i in (1..count).rev() {
                order.swap(i, ((unit() * (i + 1) as f64) as usize).min(i));
            }
            for (i, from) in order.into_iter().enumerate() {
                element.put(&mut bytes, i, recorded[from]);
            }
        }
        Values::Uniform => {
            let finite = || recorded.iter().copied().filter(|v| v.is_finite());
            let low = finite().fold(f64::INFINITY, f64::min);
            let high = finite().fold(f64::NEG_INFINITY, f64::max);
            let (low, high) = if low < high { (low, high) } else { (-1.0, 1.0) };
            for i in 0..count {
                let v = low + unit() * (high - low);
                element.put(&mut bytes, i, v);
            }
        }
        Values::Zeros => bytes.fill(0),
        Values::Constant => (0..count).for_each(|i| element.put(&mut bytes, i, 0.5)),
        Values::Alternating => {
            for (i, v) in recorded.iter().enumerate() {
                element.put(&mut bytes, i, if i % 2 == 0 { v.abs() } else { -v.abs() });
            }
        }
        Values::Large => recorded
            .iter()
            .enumerate()
            .for_each(|(i, v)| element.put(&mut bytes, i, v * 1024.0)),
        Values::Tiny => recorded
            .iter()
            .enumerate()
            .for_each(|(i, v)| element.put(&mut bytes, i, v / 1_048_576.0)),
    }
    bytes
}

/// SplitMix64, by Sebastiano Vigna: one step and the output.
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed that no candidate can know: from the operating system, or the clock where that is missing.
pub fn entropy() -> u64 {
    use std::io::Read;
    let mut bytes = [0u8; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    match read {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => mix(clock ^ u64::from(std::process::id())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        let before: Vec<u8> = (0..100u32)
            .flat_map(|i| (i as f32 / 10.0 - 3.0).to_le_bytes())
            .collect();
        Data {
            after: None,
            element: Element::F32,
            writable: false,
            before,
        }
    }

    fn sorted(bytes: &[u8]) -> Vec<String> {
        let mut all: Vec<String> = (0..bytes.len() / 4)
            .map(|i| format!("{:+.3}", Element::F32.get(bytes, i)))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_shuffle_keeps_the_values_and_a_seed_repeats_itself() {
        let d = data();
        let a = draw(Values::Shuffled, &d, 1);
        assert_ne!(a, d.before);
        assert_eq!(sorted(&a), sorted(&d.before));
        assert_eq!(a, draw(Values::Shuffled, &d, 1));
        assert_ne!(a, draw(Values::Shuffled, &d, 2));
    }

    #[test]
    fn integers_are_never_redrawn() {
        let mut d = data();
        d.element = Element::Bytes;
        for values in [Values::Shuffled, Values::Zeros, Values::Large] {
            assert_eq!(draw(values, &d, 7), d.before);
        }
    }

    #[test]
    fn a_write_outside_is_found_on_either_side() {
        let spec = &plan(1, true, 10, 1)[1];
        assert!(spec.guarded);
        let shape = Shape {
            grid: [1; 3],
            block: [64, 1, 1],
            dynamic_lds: 0,
            args: vec![Arg::Pointer {
                buffer: 0,
                offset: 16,
            }],
            buffers: vec![data()],
            globals: Vec::new(),
        };
        let case = build(spec, &shape, &[Role::Input]);
        assert_eq!(
            case.args[0],
            Arg::Pointer {
                buffer: 0,
                offset: 16 + GUARD as u64
            }
        );
        let clean = case.buffers[0].clone();
        assert_eq!(unguard(spec, &clean).unwrap(), data().before);
        for at in [0, GUARD - 1, GUARD + 400, clean.len() - 1] {
            let mut dirty = clean.clone();
            dirty[at] ^= 1;
            unguard(spec, &dirty).unwrap_err();
        }
    }

    #[test]
    fn every_plan_repeats_a_launch_at_its_end_and_draws_fresh_values() {
        let a = plan(3, true, 30, 5);
        assert_eq!(a.last(), a.get(1));
        assert!(a.iter().any(|s| s.shape == 2));
        let drawn = a
            .iter()
            .filter(|s| matches!(s.values, Values::Shuffled | Values::Uniform))
            .count();
        assert!(drawn >= 6);
        assert_ne!(a[3].seed, plan(3, true, 30, 6)[3].seed);
        assert_eq!(plan(3, true, 4, 5).len(), 4);
    }
}
