//! Compare a candidate's buffer with the reference's, element by element.
//!
//! Tolerance. The reference is the original kernel in its own precision, so the two differ by how their sums
//! are ordered. For a sum of `n` terms in a precision with unit distance `eps`, rounding errors behave like a
//! random walk: the difference is of the order of `eps * sqrt(n)` times the size of the terms. We allow
//! `rtol = eps * (32 + 4 * sqrt(n))` of `max(|reference|, rms of the reference)`, with `n` the number of
//! elements of the largest input, and for the root mean square of all differences an eighth of it (rounding
//! spreads, a wrong term or a narrower type does not hide in the mean). Half types are mostly rounded once, when they are
//! stored: `n` = 1. Integers and unknown types must be the same bits.

use super::element::Element;

/// How much two results may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of one element, relative to `max(|reference|, rms)`.
    pub element: f64,
    /// Of the root mean square of all differences, relative to the reference's.
    pub mean: f64,
}

impl Tolerance {
    /// For results of a type that may each have accumulated up to `terms` inputs.
    pub fn of(element: Element, terms: usize) -> Self {
        let (scale, terms) = match element {
            Element::F64 | Element::F32 => (element.epsilon(), terms as f64),
            // One rounding to the stored type, plus the fp32 error that may move it over an edge.
            Element::F16 | Element::Bf16 => (element.epsilon() / 16.0, 1.0),
            Element::Bytes => {
                return Self {
                    element: 0.0,
                    mean: 0.0,
                };
            }
        };
        let rtol = scale * (32.0 + 4.0 * terms.sqrt());
        Self {
            element: rtol,
            mean: rtol / 8.0,
        }
    }
}

/// What a comparison saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// Elements compared.
    pub elements: usize,
    /// The largest difference.
    pub max_abs: f64,
    /// The largest difference relative to `max(|reference|, rms)`.
    pub max_rel: f64,
    /// Root mean square of the differences relative to the reference's.
    pub rms_rel: f64,
}

/// Compare `got` with `want`, bytes of the same buffer after the same launch; `before` is what it held then.
///
/// # Errors
/// One clause that says where and by how much they differ.
pub fn compare(
    element: Element,
    got: &[u8],
    want: &[u8],
    before: &[u8],
    tolerance: Tolerance,
) -> Result<Agreement, String> {
    if got.len() != want.len() {
        return Err(format!("{} bytes instead of {}", got.len(), want.len()));
    }
    // Bytes that make no whole element are compared as they are.
    let size = element.size();
    let whole = want.len() / size * size;
    if !element.is_float() || got[whole..] != want[whole..] {
        return match got.iter().zip(want).position(|(g, w)| g != w) {
            None => Ok(Agreement {
                elements: want.len(),
                ..Agreement::default()
            }),
            Some(at) => {
                let wrong = got.iter().zip(want).filter(|(g, w)| g != w).count();
                Err(format!(
                    "byte {at} is {:#04x} instead of {:#04x}, and {wrong} of {} bytes differ",
                    got[at],
                    want[at],
                    want.len()
                ))
            }
        };
    }
    let count = whole / size;
    let same = |a: &[u8], b: &[u8], i: usize| {
        let element = i * size..(i + 1) * size;
        a.get(element.clone()) == b.get(element)
    };
    // Poison that the reference leaves may be huge: it says nothing about the scale of results.
    let squares = (0..count)
        .filter(|i| !same(want, before, *i))
        .map(|i| element.get(want, i))
        .filter(|w| w.is_finite())
        .fold((0.0f64, 0usize), |(sum, n), w| (sum + w * w, n + 1));
    let rms = (squares.0 / squares.1.max(1) as f64).sqrt();
    let mut agreement = Agreement {
        elements: count,
        ..Agreement::default()
    };
    let mut worst: Option<(usize, f64, f64)> = None;
    let mut wrong = 0usize;
    let mut error_squares = 0.0f64;
    for i in 0..count {
        if same(got, want, i) {
            continue;
        }
        let (g, w) = (element.get(got, i), element.get(want, i));
        let difference = (g - w).abs();
        let alike = (g.is_nan() && w.is_nan()) || g == w;
        let allowed = tolerance.element * w.abs().max(rms);
        // A comparison with NaN is false: what is not finite is wrong unless it is the very same kind.
        let near = alike || (difference.is_finite() && difference <= allowed);
        if !near {
            wrong += 1;
            let severity = if difference.is_finite() {
                difference
            } else {
                f64::INFINITY
            };
            if worst.is_none_or(|(_, _, s)| severity > s) {
                worst = Some((i, g, severity));
            }
        } else if !alike {
            agreement.max_abs = agreement.max_abs.max(difference);
            agreement.max_rel = agreement
                .max_rel
                .max(difference / w.abs().max(rms).max(f64::MIN_POSITIVE));
            error_squares += difference * difference;
        }
    }
    if let Some((i, g, _)) = worst {
        return Err(format!(
            "element {i} is {g} instead of {}, and {wrong} of {count} elements are off by more than {:.1e} relative",
            element.get(want, i),
            tolerance.element
        ));
    }
    if squares.1 > 0 && squares.0 > 0.0 {
        agreement.rms_rel = (error_squares / squares.0).sqrt();
        if agreement.rms_rel > tolerance.mean {
            return Err(format!(
                "the root mean square error is {:.1e} of the result, over the {:.1e} that reordered sums explain: it \
                 lost precision",
                agreement.rms_rel, tolerance.mean
            ));
        }
    }
    Ok(agreement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn check(got: &[f32], want: &[f32]) -> Result<Agreement, String> {
        compare(
            Element::F32,
            &f32s(got),
            &f32s(want),
            &vec![0xAA; want.len() * 4],
            Tolerance::of(Element::F32, 1024),
        )
    }

    #[test]
    fn reordered_sums_pass_and_wrong_terms_do_not() {
        let values: Vec<f32> = (0..4096u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6)
            .collect();
        let serial: Vec<f32> = values.chunks(512).map(|c| c.iter().sum()).collect();
        let tree: Vec<f32> = values
            .chunks(512)
            .map(|c| {
                let mut v = c.to_vec();
                while v.len() > 1 {
                    let half = v.len() / 2;
                    v = (0..half).map(|i| v[i] + v[i + half]).collect();
                }
                v[0]
            })
            .collect();
        assert_ne!(serial, tree);
        check(&tree, &serial).unwrap();
        let missing: Vec<f32> = values.chunks(512).map(|c| c[1..].iter().sum()).collect();
        check(&missing, &serial).unwrap_err();
    }

    #[test]
    fn half_precision_results_do_not_pass_for_single() {
        let want: Vec<f32> = (1..1000).map(|i| 1.0 + i as f32 / 1000.0).collect();
        let got: Vec<f32> = want
            .iter()
            .map(|v| half::f16::from_f32(*v).to_f32())
            .collect();
        check(&got, &want).unwrap_err();
        // Truncated to 16 bits of mantissa: under the limit of each element, over that of the mean.
        let got: Vec<f32> = want
            .iter()
            .map(|v| f32::from_bits(v.to_bits() & 0xffff_ff80))
            .collect();
        let why = check(&got, &want).unwrap_err();
        assert!(why.contains("precision"), "{why}");
    }

    #[test]
    fn what_is_not_finite_is_no_wildcard() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        check(&[1.0, nan, inf], &[1.0, nan, inf]).unwrap();
        check(&[nan], &[1.0]).unwrap_err();
        check(&[1.0], &[nan]).unwrap_err();
        check(&[inf], &[-inf]).unwrap_err();
        check(&[1e30], &[inf]).unwrap_err();
        check(&[f32::from_bits(0x7fc0_0001)], &[nan]).unwrap();
    }

    #[test]
    fn zeros_and_constants_are_judged_like_anything_else() {
        check(&[0.0; 64], &[0.0; 64]).unwrap();
        check(&[0.0; 64], &[1.0; 64]).unwrap_err();
        check(&[1e-3], &[0.0]).unwrap_err();
        check(&[-0.0], &[0.0]).unwrap();
    }

    #[test]
    fn huge_poison_left_by_both_does_not_widen_the_tolerance() {
        let before = f32s(&[1e30; 72]);
        let mut want = vec![1e30f32; 64];
        want.extend([1.0; 8]);
        let t = Tolerance::of(Element::F32, 1024);
        let mut got = want.clone();
        compare(Element::F32, &f32s(&got), &f32s(&want), &before, t).unwrap();
        got[65] = 1.1;
        compare(Element::F32, &f32s(&got), &f32s(&want), &before, t).unwrap_err();
        got[65] = 1.0;
        got[3] = 0.5;
        compare(Element::F32, &f32s(&got), &f32s(&want), &before, t).unwrap_err();
    }

    #[test]
    fn a_zero_from_cancellation_is_judged_by_the_size_of_its_neighbours() {
        check(&[1e-9, 1.0, 2.0], &[0.0, 1.0, 2.0]).unwrap();
        check(&[1e-3, 1.0, 2.0], &[0.0, 1.0, 2.0]).unwrap_err();
    }

    #[test]
    fn integers_must_be_the_same_bits() {
        let t = Tolerance::of(Element::Bytes, 1000);
        compare(Element::Bytes, &[1, 2, 3], &[1, 2, 3], &[0; 3], t).unwrap();
        compare(Element::Bytes, &[1, 2, 4], &[1, 2, 3], &[0; 3], t).unwrap_err();
        compare(Element::Bytes, &[1, 2], &[1, 2, 3], &[0; 3], t).unwrap_err();
    }
}
