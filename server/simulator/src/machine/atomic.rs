//! Read-modify-write operations, shared by global, flat, buffer and LDS atomics.

/// Old value, operand and comparand (compare-and-swap only) to new value.
pub(crate) type Update = fn(old: u64, data: u64, compare: u64) -> u64;

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn f32_bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn pairs(old: u64, data: u64, add: fn(u16, u16) -> u16) -> u64 {
    let half = |shift: u32| u64::from(add((old >> shift) as u16, (data >> shift) as u16)) << shift;
    half(0) | half(16)
}

/// The smaller (or larger) of two floats as IEEE minNum has it: a NaN loses.
fn pick(a: f64, b: f64, smaller: bool) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || (a < b) == smaller {
        a
    } else {
        b
    }
}

/// The operation of an atomic's name without address space and width: `add`, `smin`, `cmpswap`, `min_f32`.
/// `wide`: 64-bit operands.
pub(crate) fn update(name: &str, wide: bool) -> Option<Update> {
    let f: Update = match (name, wide) {
        ("swap" | "wrxchg", _) => |_, d, _| d,
        ("cmpswap" | "cmpst", _) => |o, d, c| if o == c { d } else { o },
        ("add", false) => |o, d, _| u64::from((o as u32).wrapping_add(d as u32)),
        ("add", true) => |o, d, _| o.wrapping_add(d),
        ("sub", false) => |o, d, _| u64::from((o as u32).wrapping_sub(d as u32)),
        ("sub", true) => |o, d, _| o.wrapping_sub(d),
        ("rsub", false) => |o, d, _| u64::from((d as u32).wrapping_sub(o as u32)),
        ("rsub", true) => |o, d, _| d.wrapping_sub(o),
        ("smin", false) => |o, d, _| u64::from((o as i32).min(d as i32) as u32),
        ("smin", true) => |o, d, _| (o as i64).min(d as i64) as u64,
        ("smax", false) => |o, d, _| u64::from((o as i32).max(d as i32) as u32),
        ("smax", true) => |o, d, _| (o as i64).max(d as i64) as u64,
        ("umin", _) => |o, d, _| o.min(d),
        ("umax", _) => |o, d, _| o.max(d),
        ("and", _) => |o, d, _| o & d,
        ("or", _) => |o, d, _| o | d,
        ("xor", _) => |o, d, _| o ^ d,
        // Counts up to the operand and wraps to 0; counts down from it.
        ("inc", _) => |o, d, _| if o >= d { 0 } else { o + 1 },
        ("dec", _) => |o, d, _| if o == 0 || o > d { d } else { o - 1 },
        ("add_f32", false) => |o, d, _| f32_bits(f32_of(o) + f32_of(d)),
        ("min_f32" | "fmin", false) => {
            |o, d, _| f32_bits(pick(f64::from(f32_of(o)), f64::from(f32_of(d)), true) as f32)
        }
        ("max_f32" | "fmax", false) => {
            |o, d, _| f32_bits(pick(f64::from(f32_of(o)), f64::from(f32_of(d)), false) as f32)
        }
        ("cmpst_f32" | "fcmpswap", false) => |o, d, c| if f32_of(o) == f32_of(c) { d } else { o },
        ("add_f64", true) => |o, d, _| (f64::from_bits(o) + f64::from_bits(d)).to_bits(),
        ("min_f64" | "fmin", true) => {
            |o, d, _| pick(f64::from_bits(o), f64::from_bits(d), true).to_bits()
        }
        ("max_f64" | "fmax", true) => {
            |o, d, _| pick(f64::from_bits(o), f64::from_bits(d), false).to_bits()
        }
        ("cmpst_f64" | "fcmpswap", true) => |o, d, c| {
            if f64::from_bits(o) == f64::from_bits(c) {
                d
            } else {
                o
            }
        },
        ("pk_add_f16", false) => |o, d, _| {
            pairs(o, d, |a, b| {
                let sum = half::f16::from_bits(a).to_f32() + half::f16::from_bits(b).to_f32();
                half::f16::from_f32(sum).to_bits()
            })
        },
        ("pk_add_bf16", false) => |o, d, _| {
            pairs(o, d, |a, b| {
                let sum = half::bf16::from_bits(a).to_f32() + half::bf16::from_bits(b).to_f32();
                half::bf16::from_f32(sum).to_bits()
            })
        },
        _ => return None,
    };
    Some(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, wide: bool, o: u64, d: u64) -> u64 {
        update(name, wide).unwrap()(o, d, 0)
    }

    #[test]
    fn integers_wrap_and_compare_by_sign() {
        assert_eq!(run("add", false, 0xffff_ffff, 2), 1);
        assert_eq!(run("smin", false, 0xffff_ffff, 2), 0xffff_ffff);
        assert_eq!(run("umin", false, 0xffff_ffff, 2), 2);
        assert_eq!(run("inc", false, 5, 5), 0);
        assert_eq!(run("dec", false, 0, 5), 5);
        assert_eq!(update("cmpswap", true).unwrap()(7, 9, 7), 9);
    }

    #[test]
    fn floats_ignore_nan_in_min_and_max() {
        let nan = u64::from(f32::NAN.to_bits());
        let one = u64::from(1f32.to_bits());
        assert_eq!(run("min_f32", false, nan, one), one);
        assert_eq!(run("max_f32", false, one, nan), one);
        assert_eq!(
            run("pk_add_f16", false, 0x3c00_3c00, 0x3c00_0000),
            0x4000_3c00
        );
    }
}
