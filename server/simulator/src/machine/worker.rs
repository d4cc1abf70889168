//! What one host thread keeps while it executes workgroups: checked memory, caches of the model, counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hipsmith_target::Target;

use super::code::{Class, Code};
use super::shadow::Shadow;
use super::state::{Clock, Problem, lanes};
use crate::fault::Access;
use crate::memory::Snapshot;
use crate::timing;
use crate::valu::ValuInst;

/// Counts of one instruction. Its kind says what the memory fields mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stat {
    /// Wave executions.
    pub(crate) count: u64,
    /// Active lanes, summed.
    pub(crate) lanes: u64,
    /// Memory lines touched, or LDS cycles.
    pub(crate) cost: u64,
    /// Memory lines needed at least, or LDS cycles without conflicts.
    pub(crate) ideal: u64,
    /// Bytes that active lanes moved in global memory or LDS.
    pub(crate) bytes: u64,
    /// Bytes that active lanes moved in private memory.
    pub(crate) scratch: u64,
    /// Lines that missed L1.
    pub(crate) misses: u64,
    /// Ways of the worst LDS bank conflict.
    pub(crate) degree: u32,
    /// Cycles that waves stood still here.
    pub(crate) stall: Clock,
}

impl Stat {
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.lanes += other.lanes;
        self.cost += other.cost;
        self.ideal += other.ideal;
        self.bytes += other.bytes;
        self.scratch += other.scratch;
        self.misses += other.misses;
        self.degree = self.degree.max(other.degree);
        self.stall[0] += other.stall[0];
        self.stall[1] += other.stall[1];
    }
}

/// Which lines of each allocation were touched at least once, shared by all threads of a dispatch.
pub(crate) struct Touched {
    line_shift: u32,
    /// Per region of the snapshot: a bit per line for reads, and one for writes.
    regions: Vec<[std::sync::OnceLock<Box<[AtomicU64]>>; 2]>,
}

impl Touched {
    pub(crate) fn new(snapshot: &Snapshot, line_bytes: u32) -> Self {
        Self {
            line_shift: line_bytes.max(1).trailing_zeros(),
            regions: snapshot
                .regions
                .iter()
                .map(|_| Default::default())
                .collect(),
        }
    }

    /// Mark a line, given by its number, in a region.
    #[inline]
    fn mark(&self, snapshot: &Snapshot, region: usize, line: u64, write: bool) {
        let info = &snapshot.regions[region].info;
        let first = info.base >> self.line_shift;
        let bits = self.regions[region][usize::from(write)].get_or_init(|| {
            let lines = ((info.base + info.len) >> self.line_shift) - first + 1;
            (0..lines.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
        });
        let index = line.wrapping_sub(first);
        if let Some(word) = bits.get((index / 64) as usize) {
            let bit = 1 << (index % 64);
            // Testing first keeps lines that many threads touch in everybody's cache.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Distinct lines read and written.
    pub(crate) fn count(&self) -> (u64, u64) {
        let sum = |write: usize| {
            self.regions
                .iter()
                .filter_map(|r| r[write].get())
                .flat_map(|bits| bits.iter())
                .map(|w| u64::from(w.load(Ordering::Relaxed).count_ones()))
                .sum()
        };
        (sum(0), sum(1))
    }
}

/// The vector L1 as one workgroup sees it: 4 ways, least recently used, cold at the workgroup's start.
pub(crate) struct L1 {
    sets: Vec<[u64; 4]>,
}

impl L1 {
    pub(crate) fn new(lines: u64) -> Self {
        let sets = (lines / 4).max(1).next_power_of_two();
        Self {
            sets: vec![[u64::MAX; 4]; sets as usize],
        }
    }
    pub(crate) fn clear(&mut self) {
        self.sets.fill([u64::MAX; 4]);
    }
    /// Look a line up and put it in front; whether it was there.
    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        let index = line as usize & (self.sets.len() - 1);
        let set = &mut self.sets[index];
        if set[0] == line {
            return true;
        }
        let at = set.iter().position(|l| *l == line);
        let end = at.unwrap_or(3);
        set.copy_within(0..end, 1);
        set[0] = line;
        at.is_some()
    }
}

/// The last pattern of an LDS instruction: bank conflicts do not change when all lanes move by whole dwords.
pub(crate) struct LdsMemo {
    pub(crate) exec: u64,
    pub(crate) phase: u32,
    pub(crate) relative: [u32; 64],
    pub(crate) cycles: u32,
    pub(crate) ideal: u32,
    pub(crate) degree: u32,
}

/// One access of a wave to global memory.
#[derive(Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub(crate) addresses: &'a [u64; 64],
    pub(crate) exec: u64,
    /// Bytes per lane.
    pub(crate) bytes: u32,
    pub(crate) access: Access,
    /// All lanes are active and follow each other without gaps.
    pub(crate) sequential: bool,
}

impl<'a> Touch<'a> {
    #[inline]
    pub(crate) fn new(addresses: &'a [u64; 64], exec: u64, bytes: u32, access: Access) -> Self {
        Self {
            addresses,
            exec,
            bytes,
            access,
            sequential: exec == u64::MAX && is_sequential(addresses, bytes),
        }
    }
}

/// One host thread's share of a dispatch.
pub(crate) struct Worker<'a> {
    pub(crate) code: &'a Code,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) target: &'static Target,
    pub(crate) touched: &'a Touched,
    pub(crate) l1: L1,
    pub(crate) stats: Vec<Stat>,
    /// Per instruction: the region that it accessed last.
    pub(crate) last_region: Vec<u32>,
    /// Per instruction: the LDS pattern that was costed last.
    pub(crate) lds_memo: Vec<Option<Box<LdsMemo>>>,
    /// Vector instructions under `s_set_gpr_idx_on`, by instruction and index.
    pub(crate) indexed: HashMap<(u32, u32), ValuInst>,
    /// Per instruction: cycles to issue it.
    pub(crate) issue: Vec<u16>,
    /// Who wrote what in the LDS of the workgroup that runs, if it is one of those checked.
    pub(crate) shadow: Option<Shadow>,
    /// A wave has just sent a message to the host.
    pub(crate) message: bool,
    /// Executed wave instructions.
    pub(crate) clock: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        code: &'a Code,
        snapshot: &'a Snapshot,
        target: &'static Target,
        touched: &'a Touched,
        l1_lines: u64,
    ) -> Self {
        Self {
            code,
            snapshot,
            target,
            touched,
            l1: L1::new(l1_lines),
            stats: vec![Stat::default(); code.insts.len()],
            last_region: vec![0; code.insts.len()],
            lds_memo: code.insts.iter().map(|_| None).collect(),
            indexed: HashMap::new(),
            issue: code
                .insts
                .iter()
                .map(|i| match i.class {
                    Class::Valu | Class::Matrix => timing::issue_cycles(i.rate, target) as u16,
                    _ => 4,
                })
                .collect(),
            shadow: None,
            message: false,
            clock: 0,
        }
    }

    /// Check that every active lane's `bytes` bytes lie inside one allocation each, and return the region that
    /// holds all of them, if one does.
    #[inline]
    pub(crate) fn check(&mut self, at: u32, touch: &Touch) -> Result<Option<usize>, Problem> {
        let Touch {
            addresses,
            exec,
            bytes,
            access,
            sequential,
        } = *touch;
        if exec == 0 {
            return Ok(None);
        }
        let (mut low, mut high) = (u64::MAX, 0);
        if sequential {
            (low, high) = (addresses[0], addresses[63]);
        } else if exec == u64::MAX {
            for a in addresses {
                low = low.min(*a);
                high = high.max(*a);
            }
        } else {
            for lane in lanes(exec) {
                low = low.min(addresses[lane]);
                high = high.max(addresses[lane]);
            }
        }
        let holds = |index: usize| {
            self.snapshot.regions.get(index).is_some_and(|r| {
                low >= r.info.base
                    && high
                        .checked_add(u64::from(bytes))
                        .is_some_and(|end| end <= r.info.base + r.info.len)
            })
        };
        let last = self.last_region[at as usize] as usize;
        if holds(last) {
            return Ok(Some(last));
        }
        if let Some(found) = self.snapshot.find(low)
            && holds(found)
        {
            self.last_region[at as usize] = found as u32;
            return Ok(Some(found));
        }
        for lane in lanes(exec) {
            let address = addresses[lane];
            let inside = self.snapshot.find(address).is_some_and(|index| {
                let info = &self.snapshot.regions[index].info;
                address
                    .checked_add(u64::from(bytes))
                    .is_some_and(|end| end <= info.base + info.len)
            });
            if !inside {
                return Err(Problem::Wild {
                    access,
                    address,
                    bytes,
                    lane: lane as u32,
                });
            }
        }
        Ok(None)
    }

    /// Account for a checked global access: lines, caches, bytes. Returns its latency.
    #[inline]
    pub(crate) fn account(&mut self, at: u32, region: Option<usize>, touch: &Touch) -> Clock {
        let Touch {
            addresses,
            exec,
            bytes,
            access,
            sequential,
        } = *touch;
        if exec == 0 {
            return [0, 0];
        }
        let line_bytes = u64::from(self.target.cache.l1_line_bytes.max(1));
        let mut buffer = [0u64; 128];
        let shift = line_bytes.trailing_zeros();
        let used = if sequential {
            consecutive_lines(addresses, bytes, shift, &mut buffer)
        } else {
            distinct_lines(addresses, exec, bytes, shift, &mut buffer)
        };
        let count = exec.count_ones();
        let mut misses = 0;
        for line in &buffer[..used] {
            // Stores write through and do not allocate; atomics happen in L2.
            let hit = access == Access::Read && self.l1.touch(*line);
            if !hit {
                misses += 1;
                let region = region.or_else(|| {
                    let first = *line * line_bytes;
                    self.snapshot
                        .find(first)
                        .or_else(|| self.snapshot.find(first + line_bytes - 1))
                });
                if let Some(region) = region {
                    self.touched
                        .mark(self.snapshot, region, *line, access != Access::Read);
                }
            }
        }
        let stat = &mut self.stats[at as usize];
        stat.cost += used as u64;
        stat.ideal += u64::from(count * bytes).div_ceil(line_bytes);
        stat.bytes += u64::from(count * bytes);
        stat.misses += misses;
        let latency = &self.target.latency;
        // One line (64 bytes or so) a cycle; 64 addresses take 4 cycles at least.
        let service = (used as u64).max(4);
        if misses > 0 {
            [latency.l2_cycles, latency.memory_cycles].map(|l| u64::from(l) + service)
        } else {
            [u64::from(latency.l1_cycles) + service; 2]
        }
    }
}

/// Numbers of the lines that 64 lanes without gaps touch.
#[inline]
fn consecutive_lines(
    addresses: &[u64; 64],
    bytes: u32,
    shift: u32,
    into: &mut [u64; 128],
) -> usize {
    let first = addresses[0] >> shift;
    let last = (addresses[63] + u64::from(bytes) - 1) >> shift;
    // 64 lanes of 16 bytes are 1024 bytes: at most 33 lines of 32 bytes.
    let used = ((last - first + 1) as usize).min(into.len());
    for (i, slot) in into.iter_mut().enumerate().take(used) {
        *slot = first + i as u64;
    }
    used
}

/// Numbers of the distinct lines that the active lanes touch, at most 128.
#[inline]
fn distinct_lines(
    addresses: &[u64; 64],
    exec: u64,
    bytes: u32,
    shift: u32,
    into: &mut [u64; 128],
) -> usize {
    let span = u64::from(bytes) - 1;
    let mut used = 0usize;
    let mut sorted = true;
    let mut push = |line: u64, used: &mut usize| {
        if *used == 0 || into[*used - 1] != line {
            sorted &= *used == 0 || line > into[*used - 1];
            into[*used] = line;
            *used += 1;
        }
    };
    for lane in lanes(exec) {
        let first = addresses[lane] >> shift;
        let last = addresses[lane].wrapping_add(span) >> shift;
        push(first, &mut used);
        if last != first {
            push(last, &mut used);
        }
    }
    if sorted {
        return used;
    }
    let seen = &mut into[..used];
    seen.sort_unstable();
    let mut kept = 1;
    for i in 1..seen.len() {
        if seen[i] != seen[kept - 1] {
            seen[kept] = seen[i];
            kept += 1;
        }
    }
    kept
}

/// Whether lane after lane follows without gaps, and without running over the end of the address space.
#[inline]
fn is_sequential(addresses: &[u64; 64], bytes: u32) -> bool {
    let base = addresses[0];
    let step = u64::from(bytes);
    let mut same = base <= u64::MAX - 64 * step;
    for (i, a) in addresses.iter().enumerate() {
        same &= *a == base.wrapping_add(i as u64 * step);
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn l1_keeps_the_four_last_lines_of_a_set() {
        let mut l1 = L1::new(8);
        assert!(!l1.touch(0));
        assert!(l1.touch(0));
        for line in [2, 4, 6, 8] {
            assert!(!l1.touch(line));
        }
        assert!(!l1.touch(0));
        assert!(l1.touch(8) && l1.touch(6) && !l1.touch(2));
    }

    proptest! {
        #[test]
        fn lines_are_counted_as_the_target_counts_them(
            base in 0u64..10_000, stride in prop_oneof![0u64..300, Just(4u64), Just(16u64)], exec in any::<u64>(), full in any::<bool>(),
            noise in proptest::collection::vec(0u64..500, 64), noisy in any::<bool>(), wide in 0u32..5,
        ) {
            let target = hipsmith_target::default_target();
            let bytes = 1 << wide;
            let exec = if full { u64::MAX } else { exec };
            let addresses: [u64; 64] = std::array::from_fn(|i| base + stride * i as u64 + if noisy { noise[i] } else { 0 });
            let mut buffer = [0; 128];
            let shift = target.cache.l1_line_bytes.trailing_zeros();
            let used = distinct_lines(&addresses, exec, bytes, shift, &mut buffer);
            prop_assert_eq!(used as u32, target.memory_lines_masked(&addresses, bytes, exec));
            if exec == u64::MAX && is_sequential(&addresses, bytes) {
                prop_assert_eq!(consecutive_lines(&addresses, bytes, shift, &mut [0; 128]), used);
            }
        }
    }
}
