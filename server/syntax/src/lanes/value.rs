//! The domain of lane evaluation: one integer for each of the 64 lanes, known up to a part that all lanes share.

/// Lanes of a wavefront on every target of hipsmith.
pub const LANES: usize = 64;

/// The part of a value that all lanes have in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uniform {
    /// No unknown part: the lane values are the values.
    Zero,
    /// One unknown integer, the same in all lanes.
    Unknown {
        /// It is a multiple of this; at least 1.
        multiple: i64,
        /// It is known not to be negative.
        nonnegative: bool,
    },
}

/// An integer expression in all 64 lanes: `lanes[l]` plus the uniform part.
///
/// An expression whose lanes differ in an unknown way has no `Lanes` at all (`None`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lanes {
    lanes: [i64; LANES],
    uniform: Uniform,
}

/// Values beyond this magnitude are given up, so that no arithmetic below can overflow.
const LIMIT: i64 = 1 << 40;

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// A two-operand operator of C on integers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    LogicalAnd,
    LogicalOr,
    Min,
    Max,
}

impl Op {
    /// The operator of a C token.
    pub fn from_token(token: &str) -> Option<Op> {
        Some(match token {
            "+" => Op::Add,
            "-" => Op::Sub,
            "*" => Op::Mul,
            "/" => Op::Div,
            "%" => Op::Rem,
            "<<" => Op::Shl,
            ">>" => Op::Shr,
            "&" => Op::And,
            "|" => Op::Or,
            "^" => Op::Xor,
            "<" => Op::Lt,
            "<=" => Op::Le,
            ">" => Op::Gt,
            ">=" => Op::Ge,
            "==" => Op::Eq,
            "!=" => Op::Ne,
            "&&" => Op::LogicalAnd,
            "||" => Op::LogicalOr,
            _ => return None,
        })
    }

    /// The operator on two known integers; `None` where C leaves it undefined or the result is too large to follow.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        let value = match self {
            Op::Add => a.checked_add(b)?,
            Op::Sub => a.checked_sub(b)?,
            Op::Mul => a.checked_mul(b)?,
            Op::Div => a.checked_div(b)?,
            Op::Rem => a.checked_rem(b)?,
            Op::Shl => {
                if a < 0 || !(0..40).contains(&b) {
                    return None;
                }
                a.checked_mul(1 << b)?
            }
            Op::Shr => {
                if !(0..63).contains(&b) {
                    return None;
                }
                a >> b
            }
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::Lt => i64::from(a < b),
            Op::Le => i64::from(a <= b),
            Op::Gt => i64::from(a > b),
            Op::Ge => i64::from(a >= b),
            Op::Eq => i64::from(a == b),
            Op::Ne => i64::from(a != b),
            Op::LogicalAnd => i64::from(a != 0 && b != 0),
            Op::LogicalOr => i64::from(a != 0 || b != 0),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
        };
        (value.abs() < LIMIT).then_some(value)
    }
}

impl Lanes {
    /// The same known value in all lanes.
    pub fn constant(value: i64) -> Option<Lanes> {
        (value.abs() < LIMIT).then_some(Lanes {
            lanes: [value; LANES],
            uniform: Uniform::Zero,
        })
    }

    /// A known value for each lane.
    pub fn known(lanes: [i64; LANES]) -> Option<Lanes> {
        lanes.iter().all(|v| v.abs() < LIMIT).then_some(Lanes {
            lanes,
            uniform: Uniform::Zero,
        })
    }

    /// An unknown value that is the same in all lanes, a multiple of `multiple`.
    pub fn uniform(multiple: i64, nonnegative: bool) -> Lanes {
        Lanes {
            lanes: [0; LANES],
            uniform: Uniform::Unknown {
                multiple: multiple.clamp(1, LIMIT),
                nonnegative,
            },
        }
    }

    /// The known part of each lane.
    pub fn lanes(&self) -> &[i64; LANES] {
        &self.lanes
    }

    /// The part that all lanes share.
    pub fn shared(&self) -> Uniform {
        self.uniform
    }

    /// The values themselves, when no part is unknown.
    pub fn values(&self) -> Option<&[i64; LANES]> {
        (self.uniform == Uniform::Zero).then_some(&self.lanes)
    }

    /// Whether all lanes have the same value, known or not.
    pub fn is_uniform(&self) -> bool {
        self.lanes.iter().all(|v| *v == self.lanes[0])
    }

    /// The value, when it is known and the same in all lanes.
    pub fn as_constant(&self) -> Option<i64> {
        (self.uniform == Uniform::Zero && self.is_uniform()).then_some(self.lanes[0])
    }

    /// What the uniform part is a multiple of: 0 when it is zero.
    fn multiple(&self) -> i64 {
        match self.uniform {
            Uniform::Zero => 0,
            Uniform::Unknown { multiple, .. } => multiple,
        }
    }

    fn uniform_nonnegative(&self) -> bool {
        match self.uniform {
            Uniform::Zero => true,
            Uniform::Unknown { nonnegative, .. } => nonnegative,
        }
    }

    /// Whether no lane can be negative.
    pub fn is_nonnegative(&self) -> bool {
        self.uniform_nonnegative() && self.lanes.iter().all(|v| *v >= 0)
    }

    fn make(lanes: [i64; LANES], multiple: i64, nonnegative: bool) -> Option<Lanes> {
        if lanes.iter().any(|v| v.abs() >= LIMIT) {
            return None;
        }
        let uniform = if multiple == 0 {
            Uniform::Zero
        } else {
            Uniform::Unknown {
                multiple: if multiple >= LIMIT { 1 } else { multiple },
                nonnegative,
            }
        };
        Some(Lanes { lanes, uniform })
    }

    fn map(&self, f: impl Fn(i64) -> Option<i64>) -> Option<[i64; LANES]> {
        let mut out = [0; LANES];
        for (o, v) in out.iter_mut().zip(&self.lanes) {
            *o = f(*v)?;
        }
        Some(out)
    }

    fn zip(&self, other: &Lanes, f: impl Fn(i64, i64) -> Option<i64>) -> Option<[i64; LANES]> {
        let mut out = [0; LANES];
        for (l, o) in out.iter_mut().enumerate() {
            *o = f(self.lanes[l], other.lanes[l])?;
        }
        Some(out)
    }

    /// The same values, with the lane parts all in `0..2^j` and the uniform part a multiple of `2^j`;
    /// `None` when the lanes cannot be cut so. Then `|`, `&` and `^` act on the two parts separately.
    fn cut(&self) -> Option<(Lanes, i64)> {
        let multiple = self.multiple();
        if multiple == 0 {
            return None;
        }
        let unit = 1i64 << multiple.trailing_zeros().min(40);
        let high = self.lanes[0].div_euclid(unit);
        let lanes = self.map(|v| (v.div_euclid(unit) == high).then_some(v.rem_euclid(unit)))?;
        let nonnegative = self.uniform_nonnegative() && high >= 0;
        Some((
            Lanes {
                lanes,
                uniform: Uniform::Unknown {
                    multiple: unit,
                    nonnegative,
                },
            },
            unit,
        ))
    }

    /// Either an unknown uniform result (both operands uniform) or nothing.
    fn both_uniform(&self, other: &Lanes, nonnegative: bool) -> Option<Lanes> {
        (self.is_uniform() && other.is_uniform()).then(|| Lanes::uniform(1, nonnegative))
    }

    /// The operator in every lane. `None` when the lanes of the result differ in a way that is not known.
    pub fn apply(op: Op, a: &Lanes, b: &Lanes) -> Option<Lanes> {
        if let (Some(x), Some(y)) = (a.values(), b.values()) {
            let mut out = [0; LANES];
            for (l, o) in out.iter_mut().enumerate() {
                *o = op.apply(x[l], y[l])?;
            }
            return Lanes::known(out);
        }
        let nonnegative = a.is_nonnegative() && b.is_nonnegative();
        match op {
            Op::Add => Lanes::make(
                a.zip(b, i64::checked_add)?,
                gcd(a.multiple(), b.multiple()),
                a.uniform_nonnegative() && b.uniform_nonnegative(),
            ),
            Op::Sub => Lanes::make(
                a.zip(b, i64::checked_sub)?,
                gcd(a.multiple(), b.multiple()),
                b.uniform == Uniform::Zero && a.uniform_nonnegative(),
            ),
            Op::Mul => Lanes::multiply(a, b),
            Op::Shl => {
                let shift = b.as_constant().filter(|s| (0..32).contains(s));
                match shift {
                    Some(s) => Lanes::multiply(a, &Lanes::constant(1 << s)?),
                    None => a.both_uniform(b, nonnegative),
                }
            }
            Op::Shr => match b.as_constant().filter(|s| (0..32).contains(s)) {
                // An arithmetic shift rounds down, whatever the sign.
                Some(s) => a.divide(1 << s),
                None => a.both_uniform(b, nonnegative),
            },
            Op::Div => match b.as_constant() {
                // C rounds towards zero, which is rounding down only without a sign.
                Some(n) if n > 0 && a.is_nonnegative() => a.divide(n),
                _ => a.both_uniform(b, nonnegative),
            },
            Op::Rem => match b.as_constant() {
                Some(n) if n > 0 && a.is_nonnegative() => a.remainder(n),
                _ => a.both_uniform(b, nonnegative),
            },
            Op::And => Lanes::and(a, b),
            Op::Or | Op::Xor => Lanes::or_xor(op, a, b),
            Op::Eq | Op::Ne => {
                // Two values whose uniform parts are multiples of more than the lanes span can only be equal
                // where the lane parts are; that they are equal is not known, so only uniform answers count.
                a.both_uniform(b, true)
            }
            Op::Lt
            | Op::Le
            | Op::Gt
            | Op::Ge
            | Op::LogicalAnd
            | Op::LogicalOr
            | Op::Min
            | Op::Max => a.both_uniform(b, nonnegative),
        }
    }

    fn multiply(a: &Lanes, b: &Lanes) -> Option<Lanes> {
        let (value, factor) = match (a.as_constant(), b.as_constant()) {
            (_, Some(f)) => (a, f),
            (Some(f), _) => (b, f),
            _ => {
                // Two uniform values: the multiples multiply when there is no known part beside them.
                let pure = |v: &Lanes| v.lanes.iter().all(|x| *x == 0);
                let multiple = if pure(a) && pure(b) {
                    a.multiple()
                        .checked_mul(b.multiple())
                        .filter(|m| (1..LIMIT).contains(m))
                } else {
                    None
                };
                let nonnegative = a.is_nonnegative() && b.is_nonnegative();
                return (a.is_uniform() && b.is_uniform())
                    .then(|| Lanes::uniform(multiple.unwrap_or(1), nonnegative));
            }
        };
        if factor == 0 {
            return Lanes::constant(0);
        }
        Lanes::make(
            value.map(|v| v.checked_mul(factor))?,
            value
                .multiple()
                .checked_mul(factor.abs())
                .filter(|m| *m < LIMIT)?,
            value.uniform_nonnegative() && factor > 0,
        )
    }

    /// Division by a positive constant, rounding down.
    fn divide(&self, n: i64) -> Option<Lanes> {
        let multiple = self.multiple();
        let nonnegative = self.uniform_nonnegative();
        if multiple % n == 0 {
            return Lanes::make(
                self.map(|v| Some(v.div_euclid(n)))?,
                multiple / n,
                nonnegative,
            );
        }
        // U = k * multiple and n = j * multiple: a lane part below `multiple` cannot carry.
        if n % multiple == 0 {
            let high = self.lanes[0].div_euclid(multiple);
            if self.lanes.iter().all(|v| v.div_euclid(multiple) == high) {
                return Some(Lanes::uniform(1, self.is_nonnegative()));
            }
        }
        self.is_uniform()
            .then(|| Lanes::uniform(1, self.is_nonnegative()))
    }

    /// Remainder of values that are not negative by a positive constant.
    fn remainder(&self, n: i64) -> Option<Lanes> {
        let multiple = self.multiple();
        if multiple % n == 0 {
            return Lanes::known(self.map(|v| Some(v.rem_euclid(n)))?);
        }
        if n % multiple == 0 {
            let high = self.lanes[0].div_euclid(multiple);
            if self.lanes.iter().all(|v| v.div_euclid(multiple) == high) {
                return Lanes::make(self.map(|v| Some(v.rem_euclid(multiple)))?, multiple, true);
            }
        }
        self.is_uniform().then(|| Lanes::uniform(1, true))
    }

    fn and(a: &Lanes, b: &Lanes) -> Option<Lanes> {
        let (value, mask) = match (a.values(), b.values()) {
            (_, Some(mask)) => (a, mask),
            (Some(mask), _) => (b, mask),
            _ => {
                let nonnegative = a.is_nonnegative() || b.is_nonnegative();
                return a.both_uniform(b, nonnegative);
            }
        };
        let unit = 1i64 << value.multiple().trailing_zeros().min(40);
        // A mask below the unit never sees the uniform part.
        if mask.iter().all(|m| (0..unit).contains(m)) {
            let mut out = [0; LANES];
            for (l, o) in out.iter_mut().enumerate() {
                *o = value.lanes[l].rem_euclid(unit) & mask[l];
            }
            return Lanes::known(out);
        }
        if mask.iter().any(|m| *m != mask[0]) {
            return None;
        }
        let mask = mask[0];
        let (cut, unit) = match value.cut() {
            Some(cut) => cut,
            None => return value.is_uniform().then(|| Lanes::uniform(1, mask >= 0)),
        };
        let low = mask.rem_euclid(unit);
        // What the mask keeps of the uniform part is a multiple of the unit, and of the mask's lowest bit above it.
        let high = mask - low;
        let kept = if high == 0 {
            0
        } else {
            1i64 << high.trailing_zeros().min(39)
        };
        Lanes::make(
            cut.map(|v| Some(v & low))?,
            kept,
            mask >= 0 || cut.uniform_nonnegative(),
        )
    }

    fn or_xor(op: Op, a: &Lanes, b: &Lanes) -> Option<Lanes> {
        let combine = |x: i64, y: i64| if op == Op::Or { x | y } else { x ^ y };
        let nonnegative = a.is_nonnegative() && b.is_nonnegative();
        let fallback = || a.both_uniform(b, nonnegative);
        let unit = match (a.multiple(), b.multiple()) {
            (0, m) | (m, 0) => 1i64 << m.trailing_zeros().min(40),
            (m, n) => 1i64 << m.trailing_zeros().min(n.trailing_zeros()).min(40),
        };
        // Bring both to the same unit: lane parts inside it, uniform parts multiples of it.
        let part = |v: &Lanes| -> Option<[i64; LANES]> {
            let high = v.lanes[0].div_euclid(unit);
            v.map(|x| (x.div_euclid(unit) == high).then_some(x.rem_euclid(unit)))
        };
        let (Some(x), Some(y)) = (part(a), part(b)) else {
            return fallback();
        };
        let mut out = [0; LANES];
        for (l, o) in out.iter_mut().enumerate() {
            *o = combine(x[l], y[l]);
        }
        Lanes::make(out, unit, nonnegative)
    }

    /// `condition ? a : b` in every lane.
    pub fn select(
        condition: Option<&Lanes>,
        a: Option<&Lanes>,
        b: Option<&Lanes>,
    ) -> Option<Lanes> {
        let known = condition.and_then(Lanes::values);
        match known {
            Some(c) if c.iter().all(|v| *v != 0) => a.cloned(),
            Some(c) if c.iter().all(|v| *v == 0) => b.cloned(),
            Some(c) => {
                let (x, y) = (a?.values()?, b?.values()?);
                let mut out = [0; LANES];
                for (l, o) in out.iter_mut().enumerate() {
                    *o = if c[l] != 0 { x[l] } else { y[l] };
                }
                Lanes::known(out)
            }
            None => {
                let (a, b) = (a?, b?);
                if a.uniform == Uniform::Zero && a == b {
                    return Some(a.clone());
                }
                let uniform = condition?.is_uniform() && a.is_uniform() && b.is_uniform();
                uniform.then(|| Lanes::uniform(1, a.is_nonnegative() && b.is_nonnegative()))
            }
        }
    }

    /// `-a`.
    pub fn negate(&self) -> Option<Lanes> {
        Lanes::make(self.map(i64::checked_neg)?, self.multiple(), false)
    }

    /// `~a`, with a sign: `-a - 1`.
    pub fn complement(&self) -> Option<Lanes> {
        Lanes::make(
            self.map(|v| v.checked_neg()?.checked_sub(1))?,
            self.multiple(),
            false,
        )
    }

    /// `!a`.
    pub fn not(&self) -> Option<Lanes> {
        match self.values() {
            Some(_) => Lanes::known(self.map(|v| Some(i64::from(v == 0)))?),
            None => self.is_uniform().then(|| Lanes::uniform(1, true)),
        }
    }
}
