//! The counters every reader fills.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts by name: rocprof's upper-case names where rocprof has the counter, lower case for our own. Which
/// device they were measured or simulated on stands with whoever holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(pub BTreeMap<String, u64>);

impl Counters {
    /// One counter; 0 when it is not there.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
    /// Add another's counts to these.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            match self.0.get_mut(name) {
                Some(sum) => *sum = sum.saturating_add(*count),
                None => {
                    self.0.insert(name.clone(), *count);
                }
            }
        }
    }
    /// Share of lanes active in vector ALU instructions, 0 to 1; `None` without any.
    pub fn valu_utilization(&self) -> Option<f64> {
        let instructions = self.get("SQ_INSTS_VALU");
        (instructions > 0)
            .then(|| self.get("SQ_THREAD_CYCLES_VALU") as f64 / (64.0 * instructions as f64))
    }
    /// Memory lines touched for each line that packed lanes would need, 1 or more; `None` without vector
    /// memory access.
    pub fn lines_per_ideal(&self) -> Option<f64> {
        let ideal = self.get("lines_ideal");
        (ideal > 0).then(|| self.get("lines_touched") as f64 / ideal as f64)
    }
    /// Share of LDS cycles that were bank conflicts, 0 to 1; `None` without LDS access.
    pub fn lds_conflict_share(&self) -> Option<f64> {
        let active = self.get("SQ_LDS_IDX_ACTIVE");
        (active > 0).then(|| self.get("SQ_LDS_BANK_CONFLICT") as f64 / active as f64)
    }
}

impl<N: Into<String>> FromIterator<(N, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(counts: I) -> Self {
        Self(counts.into_iter().map(|(n, c)| (n.into(), c)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_shares() {
        let mut a = Counters::from_iter([("SQ_LDS_IDX_ACTIVE", 10), ("SQ_LDS_BANK_CONFLICT", 5)]);
        a.add(&Counters::from_iter([
            ("SQ_LDS_BANK_CONFLICT", 3),
            ("SQ_WAVES", u64::MAX),
        ]));
        a.add(&Counters::from_iter([("SQ_WAVES", 1)]));
        assert_eq!(a.get("SQ_WAVES"), u64::MAX);
        assert_eq!(a.lds_conflict_share(), Some(0.8));
        assert_eq!(a.valu_utilization(), None);
        assert_eq!(a.lines_per_ideal(), None);
    }
}
