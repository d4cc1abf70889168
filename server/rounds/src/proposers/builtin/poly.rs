//! Integer polynomials over opaque atoms: index arithmetic in a form that can be compared.
//!
//! `row * n + i`, `i + n * row` and `(blockIdx.x) * n + i` (with `row` being `blockIdx.x`) are one polynomial.
//! Machine integers wrap, and so do rings: an identity of polynomials is an identity modulo 2^32 or 2^64, as
//! long as all parts have one width, which the callers ensure by looking at declared types.

use std::collections::BTreeMap;

/// A sum of products of atoms, each with an integer coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Poly(BTreeMap<Vec<String>, i64>);

impl Poly {
    /// The constant `value`.
    pub fn int(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Self(terms)
    }

    /// One atom.
    pub fn atom(name: impl Into<String>) -> Self {
        Self(BTreeMap::from([(vec![name.into()], 1)]))
    }

    /// `self + other`; `None` when a coefficient overflows.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let mut terms = self.0.clone();
        for (product, coefficient) in &other.0 {
            let sum = terms
                .get(product)
                .copied()
                .unwrap_or(0)
                .checked_add(*coefficient)?;
            if sum == 0 {
                terms.remove(product);
            } else {
                terms.insert(product.clone(), sum);
            }
        }
        Some(Self(terms))
    }

    /// `-self`.
    pub fn negate(&self) -> Option<Self> {
        Self::int(-1).mul(self)
    }

    /// `self * other`; `None` when a coefficient overflows or the product has over 64 terms.
    pub fn mul(&self, other: &Self) -> Option<Self> {
        let mut result = Self::default();
        if self.0.len() * other.0.len() > 64 {
            return None;
        }
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut product: Vec<String> = a.iter().chain(b).cloned().collect();
                product.sort();
                result = result.add(&Self(BTreeMap::from([(product, x.checked_mul(*y)?)])))?;
            }
        }
        Some(result)
    }

    /// The value, if there are no atoms in it.
    pub fn constant(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// Every atom that occurs.
    pub fn atoms(&self) -> impl Iterator<Item = &str> {
        self.0.keys().flatten().map(String::as_str)
    }

    /// Whether the atom occurs.
    pub fn mentions(&self, atom: &str) -> bool {
        self.atoms().any(|a| a == atom)
    }

    /// `Some(rest)` when `self` is `atom + rest` and `rest` does not mention the atom.
    pub fn minus_unit(&self, atom: &str) -> Option<Self> {
        let rest = self.add(&Self::atom(atom).negate()?)?;
        (self.mentions(atom) && !rest.mentions(atom)).then_some(rest)
    }

    /// Replace an atom by a polynomial.
    pub fn substitute(&self, atom: &str, by: &Self) -> Option<Self> {
        let mut result = Self::default();
        for (product, coefficient) in &self.0 {
            let mut term = Self::int(*coefficient);
            for a in product {
                term = term.mul(&if a == atom { by.clone() } else { Self::atom(a) })?;
            }
            result = result.add(&term)?;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::Poly;
    use proptest::prelude::*;

    fn poly() -> impl Strategy<Value = Poly> {
        prop::collection::vec((-9i64..9, prop::collection::vec("[abc]", 0..3)), 0..4).prop_map(
            |terms| {
                terms
                    .into_iter()
                    .try_fold(Poly::default(), |sum, (c, atoms)| {
                        let term = atoms
                            .iter()
                            .try_fold(Poly::int(c), |t, a| t.mul(&Poly::atom(a)))?;
                        sum.add(&term)
                    })
                    .unwrap_or_default()
            },
        )
    }

    fn value(p: &Poly) -> Option<i64> {
        ["a", "b", "c"]
            .iter()
            .zip([3, 5, 7])
            .try_fold(p.clone(), |p, (name, v)| p.substitute(name, &Poly::int(v)))?
            .constant()
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_integers(p in poly(), q in poly()) {
            let (x, y) = (value(&p).unwrap(), value(&q).unwrap());
            prop_assert_eq!(value(&p.add(&q).unwrap()), Some(x + y));
            prop_assert_eq!(value(&p.mul(&q).unwrap()), Some(x * y));
            prop_assert_eq!(p.add(&q), q.add(&p));
            prop_assert_eq!(p.add(&p.negate().unwrap()), Some(Poly::default()));
        }
    }

    #[test]
    fn a_unit_atom_is_split_off() {
        let row = Poly::atom("row").mul(&Poly::atom("n")).unwrap();
        let index = row.add(&Poly::atom("i")).unwrap();
        assert_eq!(index.minus_unit("i"), Some(row.clone()));
        assert_eq!(row.minus_unit("i"), None);
        let twice = index.add(&Poly::atom("i")).unwrap();
        assert_eq!(twice.minus_unit("i"), None);
    }
}
