//! The LDS: sizes, lane groups, and what an access costs.
//!
//! `bank = (address / 4) % banks`. The lanes of one instruction compete in fixed groups, which depend on
//! the access width and the target. A group takes as many cycles as its busiest bank has *distinct* dwords:
//! lanes that touch the same dword share it (broadcast).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::Confidence;

/// Whether an LDS instruction reads or writes; the lane groups differ.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LdsAccess {
    /// `ds_read_*`
    Read,
    /// `ds_write_*` and atomics.
    Write,
}

/// What one LDS instruction of one wavefront costs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LdsCost {
    /// Cycles in the LDS: `ideal_cycles + conflict_cycles`.
    pub cycles: u32,
    /// One cycle per lane group with an active lane.
    pub ideal_cycles: u32,
    /// Cycles lost to bank conflicts; what `SQ_LDS_BANK_CONFLICT` counts.
    pub conflict_cycles: u32,
    /// Ways of the worst conflict: distinct dwords on the busiest bank of any group. 1 is free, 0 means no active lane.
    pub degree: u32,
}

/// The lanes that compete, for one access kind and width.
#[derive(Clone, Debug, Default)]
pub struct LaneGroups {
    /// Each group's lanes. Every lane is in exactly one group.
    pub groups: Vec<Vec<u8>>,
    /// Banks that this access sees: 32 or 64.
    pub banks: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupChoice {
    lanes: String,
    banks: u32,
}

/// Local data share of a target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lds {
    /// LDS of a compute unit, bytes.
    pub bytes_per_cu: u32,
    /// LDS that one workgroup can have (static plus dynamic), bytes.
    pub max_bytes_per_workgroup: u32,
    /// LDS is given to a workgroup in multiples of this many bytes.
    pub granule: u32,
    /// Banks of 4 bytes.
    pub banks: u32,
    /// Whether the bank count is published; if not, conflict figures are an assumption.
    pub banks_known: bool,
    /// Peak bandwidth of a compute unit's LDS, bytes per clock.
    pub peak_bytes_per_clk_per_cu: u32,
    /// Where this group comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
    read: BTreeMap<String, GroupChoice>,
    write: BTreeMap<String, GroupChoice>,
    #[serde(skip)]
    resolved: Vec<LaneGroups>,
}

#[derive(Deserialize)]
struct Phases {
    groups: Vec<Vec<u8>>,
}

static PHASES: LazyLock<BTreeMap<String, Phases>> = LazyLock::new(|| {
    toml::from_str(include_str!("../targets/phases.toml"))
        .unwrap_or_else(|e| panic!("targets/phases.toml: {e}"))
});

const WIDTHS: [(u32, &str); 6] = [
    (1, "b8"),
    (2, "b16"),
    (4, "b32"),
    (8, "b64"),
    (12, "b96"),
    (16, "b128"),
];

fn width_index(bytes: u32) -> usize {
    match bytes {
        0..=1 => 0,
        2..=3 => 1,
        4..=7 => 2,
        8..=11 => 3,
        12..=15 => 4,
        _ => 5,
    }
}

impl Lds {
    /// Turn the names of the lane tables into the tables. Called once per target, on data compiled in.
    pub(crate) fn resolve(&mut self, target: &str) {
        for side in [&self.read, &self.write] {
            for (_, width) in WIDTHS {
                let choice = side
                    .get(width)
                    .unwrap_or_else(|| panic!("{target}: no LDS lane groups for {width}"));
                let phases = PHASES
                    .get(&choice.lanes)
                    .unwrap_or_else(|| panic!("{target}: unknown lane table {}", choice.lanes));
                assert!(matches!(choice.banks, 32 | 64), "{target}: {width} banks");
                self.resolved.push(LaneGroups {
                    groups: phases.groups.clone(),
                    banks: choice.banks,
                });
            }
        }
    }

    /// Lane groups and banks of an access of `bytes` (1, 2, 4, 8, 12 or 16) per lane.
    pub fn lane_groups(&self, access: LdsAccess, bytes: u32) -> &LaneGroups {
        let side = match access {
            LdsAccess::Read => 0,
            LdsAccess::Write => WIDTHS.len(),
        };
        &self.resolved[side + width_index(bytes)]
    }

    /// The groups of lanes that compete in an access of `bytes` (1, 2, 4, 8, 12 or 16) per lane.
    pub fn phases(&self, access: LdsAccess, bytes: u32) -> &[Vec<u8>] {
        &self.lane_groups(access, bytes).groups
    }

    /// Cost of one LDS instruction: `addrs` is each lane's byte address, `None` for an inactive lane.
    pub fn cost(&self, access: LdsAccess, bytes: u32, addrs: &[Option<u32>; 64]) -> LdsCost {
        let mut flat = [0u32; 64];
        let mut active = 0u64;
        for (lane, addr) in addrs.iter().enumerate() {
            if let Some(a) = addr {
                flat[lane] = *a;
                active |= 1 << lane;
            }
        }
        self.cost_masked(access, bytes, &flat, active)
    }

    /// As [`Lds::cost`], with the active lanes as a mask (bit per lane, as EXEC): the form for hot loops.
    pub fn cost_masked(
        &self,
        access: LdsAccess,
        bytes: u32,
        addrs: &[u32; 64],
        active: u64,
    ) -> LdsCost {
        let LaneGroups { groups, banks } = self.lane_groups(access, bytes);
        if active == 0 {
            return LdsCost::default();
        }
        if active == u64::MAX && is_sequential(addrs, bytes) {
            let n = groups.len() as u32;
            return LdsCost {
                cycles: n,
                ideal_cycles: n,
                conflict_cycles: 0,
                degree: 1,
            };
        }
        let mut cost = LdsCost::default();
        for group in groups {
            let ways = group_ways(group, *banks, bytes, addrs, active);
            cost.cycles += ways;
            cost.ideal_cycles += ways.min(1);
            cost.degree = cost.degree.max(ways);
        }
        cost.conflict_cycles = cost.cycles - cost.ideal_cycles;
        cost
    }
}

/// Lanes one after the other from an aligned start: by far the commonest access, never in conflict.
fn is_sequential(addrs: &[u32; 64], bytes: u32) -> bool {
    let base = addrs[0];
    // 12-byte rows are checked the long way: their lane groups are not consecutive.
    bytes.is_power_of_two()
        && bytes <= 16
        && base.is_multiple_of(bytes)
        && base <= u32::MAX - 64 * bytes
        && addrs
            .iter()
            .enumerate()
            .fold(true, |ok, (i, a)| ok & (*a == base + i as u32 * bytes))
}

/// Most distinct dwords that the active lanes of `group` want from one bank; 0 without an active lane.
fn group_ways(group: &[u8], banks: u32, bytes: u32, addrs: &[u32; 64], active: u64) -> u32 {
    // A lane touches at most 5 dwords (16 bytes, misaligned). Per bank, a linked list of the distinct dwords.
    const NONE: u16 = u16::MAX;
    let bank_mask = banks - 1;
    let mut head = [NONE; 64];
    let mut count = [0u32; 64];
    let mut dwords = [0u32; 64 * 5];
    let mut next = [NONE; 64 * 5];
    let mut used = 0usize;
    let mut ways = 0;
    for &lane in group {
        let lane = usize::from(lane & 63);
        if active >> lane & 1 == 0 {
            continue;
        }
        let first = addrs[lane] / 4;
        let last = addrs[lane].saturating_add(bytes.clamp(1, 16) - 1) / 4;
        for dword in first..=last {
            let bank = (dword & bank_mask) as usize;
            let mut at = head[bank];
            while at != NONE && dwords[usize::from(at)] != dword {
                at = next[usize::from(at)];
            }
            if at == NONE {
                dwords[used] = dword;
                next[used] = head[bank];
                head[bank] = used as u16;
                used += 1;
                count[bank] += 1;
                ways = ways.max(count[bank]);
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, by_name, default_target};
    use proptest::prelude::*;

    fn strided(stride: u32) -> [Option<u32>; 64] {
        std::array::from_fn(|i| Some(i as u32 * stride))
    }

    #[test]
    fn every_lane_is_in_one_group() {
        for t in all() {
            for access in [LdsAccess::Read, LdsAccess::Write] {
                for (bytes, width) in WIDTHS {
                    let mut lanes: Vec<u8> = t.lds.phases(access, bytes).concat();
                    lanes.sort_unstable();
                    assert_eq!(lanes, (0..64).collect::<Vec<u8>>(), "{} {width}", t.name);
                }
            }
        }
    }

    /// tingqli/pyhip measured `ds_read_b32` at lane strides of 4, 8, 16 and 32 dwords on MI300 as 907, 1806,
    /// 3601 and 7196 us: linear in 8, 16, 32 and 64 cycles.
    #[test]
    fn strides_measured_on_mi300() -> Result<(), String> {
        let lds = &by_name("gfx942").ok_or("gfx942")?.lds;
        for (stride, cycles) in [(4, 8), (8, 16), (16, 32), (32, 64), (1, 2)] {
            let cost = lds.cost(LdsAccess::Read, 4, &strided(stride * 4));
            assert_eq!(cost.cycles, cycles, "stride {stride}");
            assert_eq!(cost.ideal_cycles, 2);
            assert_eq!(cost.degree, cycles / 2);
        }
        Ok(())
    }

    #[test]
    fn sequential_and_broadcast_are_free() {
        for t in all() {
            for access in [LdsAccess::Read, LdsAccess::Write] {
                // Packed 12-byte reads do conflict: their measured lane groups are not consecutive.
                for (bytes, width) in WIDTHS.into_iter().filter(|(bytes, _)| *bytes != 12) {
                    let cost = t.lds.cost(access, bytes, &strided(bytes));
                    assert_eq!(cost.conflict_cycles, 0, "{} {width} {access:?}", t.name);
                    assert_eq!(t.lds.cost(access, bytes, &[Some(64); 64]).degree, 1);
                }
            }
        }
    }

    #[test]
    fn padding_removes_a_column_conflict() {
        let lds = &default_target().lds;
        assert_eq!(lds.cost(LdsAccess::Read, 4, &strided(32 * 4)).degree, 32);
        assert_eq!(
            lds.cost(LdsAccess::Read, 4, &strided(33 * 4))
                .conflict_cycles,
            0
        );
        // 16 bytes per lane, rows of 64 bytes: the 8 lanes of a group share two sets of four banks.
        assert_eq!(lds.cost(LdsAccess::Write, 16, &strided(64)).degree, 4);
    }

    #[test]
    fn inactive_lanes_cost_nothing() {
        let lds = &default_target().lds;
        assert_eq!(
            lds.cost(LdsAccess::Read, 4, &[None; 64]),
            LdsCost::default()
        );
        let mut one = [None; 64];
        one[40] = Some(123);
        let cost = lds.cost(LdsAccess::Read, 4, &one);
        assert_eq!((cost.cycles, cost.ideal_cycles, cost.degree), (1, 1, 1));
    }

    /// The rule as one would write it down, without any shortcut.
    fn plain(lds: &Lds, access: LdsAccess, bytes: u32, addrs: &[Option<u32>; 64]) -> (u32, u32) {
        use std::collections::{BTreeMap, BTreeSet};
        let groups = lds.lane_groups(access, bytes);
        let (mut cycles, mut ideal) = (0, 0);
        for group in &groups.groups {
            let mut banks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for lane in group {
                if let Some(a) = addrs[usize::from(*lane)] {
                    for byte in a..a + bytes {
                        let dword = byte / 4;
                        banks.entry(dword % groups.banks).or_default().insert(dword);
                    }
                }
            }
            let ways = banks.values().map(BTreeSet::len).max().unwrap_or(0) as u32;
            cycles += ways;
            ideal += ways.min(1);
        }
        (cycles, ideal)
    }

    proptest! {
        #[test]
        fn cost_is_the_plain_rule(
            base in 0u32..256, stride in 0u32..160, xor in 0u32..128, noise in proptest::collection::vec(0u32..8, 64),
            active in any::<u64>(), all_active in any::<bool>(), width in 0usize..6, target in 0usize..10,
        ) {
            let t = &all()[target % all().len()];
            let bytes = WIDTHS[width].0;
            let addrs: [Option<u32>; 64] = std::array::from_fn(|i| {
                (all_active || active >> i & 1 == 1)
                    .then(|| base + ((i as u32 * stride) ^ xor) + if stride % 3 == 0 { noise[i] * 4 } else { 0 })
            });
            for access in [LdsAccess::Read, LdsAccess::Write] {
                let cost = t.lds.cost(access, bytes, &addrs);
                let (cycles, ideal) = plain(&t.lds, access, bytes, &addrs);
                prop_assert_eq!((cost.cycles, cost.ideal_cycles), (cycles, ideal));
                prop_assert_eq!(cost.cycles, cost.ideal_cycles + cost.conflict_cycles);
            }
        }

        #[test]
        fn any_address_is_fine(addrs in proptest::collection::vec(any::<u32>(), 64), active in any::<u64>(), bytes in any::<u32>()) {
            let addrs: [u32; 64] = std::array::from_fn(|i| addrs[i]);
            let cost = default_target().lds.cost_masked(LdsAccess::Read, bytes, &addrs, active);
            prop_assert!(cost.degree <= 64);
        }
    }
}
