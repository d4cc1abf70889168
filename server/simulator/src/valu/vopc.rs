//! Compares. The result is a mask of lanes; inactive lanes give 0. The `cmpx` forms write EXEC too.

use half::f16;

use super::Spec;
use super::float::{self, Float};
use super::lane::{Kind, Lane, RunFn, run_fn, test};

/// A predicate over two typed lanes.
macro_rules! compare {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $body:expr) => {
        (
            run_fn!(|inst, wave| {
                let mask = test::<$A, $B>(inst, wave, |$a, $b| $body);
                inst.store_mask(wave, mask);
                if inst.to_exec {
                    wave.exec = mask;
                }
            }),
            [<$A as Lane>::KIND, <$B as Lane>::KIND, Kind::None],
        )
    };
}

type Compare = (RunFn, [Kind; 3]);

macro_rules! integer {
    ($t:ty, $predicate:expr) => {
        match $predicate {
            "f" => compare!(|_a: $t, _b: $t| false),
            "lt" => compare!(|a: $t, b: $t| a < b),
            "eq" => compare!(|a: $t, b: $t| a == b),
            "le" => compare!(|a: $t, b: $t| a <= b),
            "gt" => compare!(|a: $t, b: $t| a > b),
            "ne" => compare!(|a: $t, b: $t| a != b),
            "ge" => compare!(|a: $t, b: $t| a >= b),
            "t" => compare!(|_a: $t, _b: $t| true),
            _ => return None,
        }
    };
}

/// Ordered predicates are false with a NaN; the negated ones are true with one.
macro_rules! floating {
    ($t:ty, $predicate:expr, $value:expr) => {
        match $predicate {
            "f" => compare!(|_a: $t, _b: $t| false),
            "lt" => compare!(|a: $t, b: $t| $value(a) < $value(b)),
            "eq" => compare!(|a: $t, b: $t| $value(a) == $value(b)),
            "le" => compare!(|a: $t, b: $t| $value(a) <= $value(b)),
            "gt" => compare!(|a: $t, b: $t| $value(a) > $value(b)),
            "lg" => compare!(|a: $t, b: $t| $value(a) < $value(b) || $value(a) > $value(b)),
            "ge" => compare!(|a: $t, b: $t| $value(a) >= $value(b)),
            "o" => compare!(|a: $t, b: $t| !a.nan() && !b.nan()),
            "u" => compare!(|a: $t, b: $t| a.nan() || b.nan()),
            "nge" => compare!(|a: $t, b: $t| !($value(a) >= $value(b))),
            "nlg" => compare!(|a: $t, b: $t| !($value(a) < $value(b) || $value(a) > $value(b))),
            "ngt" => compare!(|a: $t, b: $t| !($value(a) > $value(b))),
            "nle" => compare!(|a: $t, b: $t| !($value(a) <= $value(b))),
            "neq" => compare!(|a: $t, b: $t| !($value(a) == $value(b))),
            "nlt" => compare!(|a: $t, b: $t| !($value(a) < $value(b))),
            "tru" => compare!(|_a: $t, _b: $t| true),
            _ => return None,
        }
    };
}

macro_rules! class {
    ($t:ty, $size:path) => {
        compare!(|a: $t, b: u32| float::class(a.nan(), a.signalling(), a.negative(), $size(a), b))
    };
}

fn class_of(kind: &str) -> Option<Compare> {
    Some(match kind {
        "f16" => class!(f16, float::size16),
        "f32" => class!(f32, float::size32),
        "f64" => class!(f64, float::size64),
        _ => return None,
    })
}

// A negated predicate is true with a NaN: `!(a < b)` is meant, not `a >= b`.
#[allow(clippy::neg_cmp_op_on_partial_ord, clippy::nonminimal_bool)]
fn predicate(name: &str, kind: &str) -> Option<Compare> {
    Some(match kind {
        "i16" => integer!(i16, name),
        "u16" => integer!(u16, name),
        "i32" => integer!(i32, name),
        "u32" => integer!(u32, name),
        "i64" => integer!(i64, name),
        "u64" => integer!(u64, name),
        "f16" => floating!(f16, name, float::single),
        "f32" => floating!(f32, name, std::convert::identity),
        "f64" => floating!(f64, name, std::convert::identity),
        _ => return None,
    })
}

pub(super) fn find(base: &str) -> Option<Spec> {
    let (rest, to_exec) = match base.strip_prefix("cmpx_") {
        Some(rest) => (rest, true),
        None => (base.strip_prefix("cmp_")?, false),
    };
    let (name, kind) = rest.rsplit_once('_')?;
    let (run, src) = if name == "class" {
        class_of(kind)?
    } else {
        predicate(name, kind)?
    };
    let mut spec = Spec::new(run, src, Kind::None).form(super::Form::ScalarResult);
    spec.to_exec = to_exec;
    Some(spec)
}
