//! Which wavefronts wrote and read each dword of LDS since the last barrier: races, and reads of nothing.
//!
//! Lanes of one wavefront execute together, so only different wavefronts can race. Accesses narrower than a
//! dword are not checked for races, because neighbours may share a dword rightly.

use std::collections::BTreeMap;

use super::state::lanes;
use crate::fault::Access;

/// What was found at a pair of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Two wavefronts accessed the same dword between two barriers, at least one of them writing: the
    /// instructions in the order executed, and whether each wrote.
    Race(u32, bool, u32, bool),
    /// A dword was read that nobody had written.
    Unwritten(u32),
}

/// One place where a finding was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// Byte offset in LDS.
    pub(crate) offset: u32,
    /// Wavefronts: the first (or only) one and the second.
    pub(crate) waves: [u32; 2],
}

const MANY: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Cell {
    /// Barrier interval of the last write, counted from 1; 0: never written.
    write_epoch: u32,
    write_wave: u32,
    write_at: u32,
    write_atomic: bool,
    read_epoch: u32,
    read_wave: u32,
    read_at: u32,
}

/// The LDS of one workgroup.
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    epoch: u32,
    pub(crate) findings: BTreeMap<Finding, Example>,
}

impl Shadow {
    pub(crate) fn new(bytes: u32) -> Self {
        Self {
            cells: vec![Cell::default(); bytes.div_ceil(4) as usize],
            epoch: 1,
            findings: BTreeMap::new(),
        }
    }

    /// All wavefronts met at a barrier.
    pub(crate) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// An access that has been checked against the workgroup's LDS.
    pub(crate) fn access(
        &mut self,
        access: Access,
        at: u32,
        wave: u32,
        addresses: &[u32; 64],
        exec: u64,
        bytes: u32,
    ) {
        for lane in lanes(exec) {
            let first = addresses[lane] / 4;
            let last = (addresses[lane] + bytes - 1) / 4;
            for dword in first..=last {
                let narrow = bytes < 4 || !addresses[lane].is_multiple_of(4);
                self.touch(access, at, wave, dword, narrow);
            }
        }
    }

    fn touch(&mut self, access: Access, at: u32, wave: u32, dword: u32, narrow: bool) {
        let epoch = self.epoch;
        let Some(cell) = self.cells.get_mut(dword as usize) else {
            return;
        };
        let mut found = None;
        let writes = access != Access::Read;
        let atomic = access == Access::Atomic;
        if access != Access::Write && cell.write_epoch == 0 {
            found = Some((Finding::Unwritten(at), [wave, wave]));
        } else if !narrow && cell.write_epoch == epoch && cell.write_wave != wave {
            // Atomics may meet each other.
            if !(atomic && cell.write_atomic) {
                let race = Finding::Race(cell.write_at, true, at, writes);
                found = Some((race, [cell.write_wave, wave]));
            }
        } else if !narrow && writes && cell.read_epoch == epoch && cell.read_wave != wave {
            let race = Finding::Race(cell.read_at, false, at, true);
            found = Some((race, [cell.read_wave, wave]));
        }
        if writes {
            // A narrow write only says that something is there.
            cell.write_epoch = if narrow {
                cell.write_epoch.max(1)
            } else {
                epoch
            };
            cell.write_wave = if narrow && cell.write_epoch != epoch {
                cell.write_wave
            } else {
                wave
            };
            cell.write_at = at;
            cell.write_atomic = atomic;
        } else if !narrow {
            cell.read_wave = if cell.read_epoch == epoch && cell.read_wave != wave {
                MANY
            } else {
                wave
            };
            cell.read_epoch = epoch;
            cell.read_at = at;
        }
        if let Some((finding, waves)) = found {
            self.findings.entry(finding).or_insert(Example {
                offset: dword * 4,
                waves,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(shadow: &mut Shadow, access: Access, at: u32, wave: u32, offset: u32) {
        shadow.access(access, at, wave, &[offset; 64], 1, 4);
    }

    #[test]
    fn a_barrier_separates() {
        let mut s = Shadow::new(64);
        one(&mut s, Access::Write, 1, 0, 8);
        s.barrier();
        one(&mut s, Access::Read, 2, 1, 8);
        assert!(s.findings.is_empty());
        one(&mut s, Access::Write, 3, 0, 8);
        assert_eq!(
            s.findings.keys().collect::<Vec<_>>(),
            [&Finding::Race(2, false, 3, true)]
        );
    }

    #[test]
    fn races_between_writes_and_with_reads() {
        let mut s = Shadow::new(64);
        one(&mut s, Access::Write, 1, 0, 8);
        one(&mut s, Access::Read, 2, 0, 8);
        assert!(s.findings.is_empty(), "one wavefront is in order");
        one(&mut s, Access::Read, 3, 1, 8);
        one(&mut s, Access::Write, 4, 1, 8);
        assert_eq!(
            s.findings.keys().collect::<Vec<_>>(),
            [
                &Finding::Race(1, true, 3, false),
                &Finding::Race(1, true, 4, true)
            ]
        );
    }

    #[test]
    fn atomics_may_meet_and_nothing_may_be_read() {
        let mut s = Shadow::new(64);
        one(&mut s, Access::Write, 1, 0, 0);
        s.barrier();
        one(&mut s, Access::Atomic, 2, 0, 0);
        one(&mut s, Access::Atomic, 2, 1, 0);
        assert!(s.findings.is_empty());
        one(&mut s, Access::Read, 3, 0, 4);
        assert_eq!(
            s.findings.keys().collect::<Vec<_>>(),
            [&Finding::Unwritten(3)]
        );
    }

    #[test]
    fn bytes_of_one_dword_may_be_shared() {
        let mut s = Shadow::new(64);
        for wave in 0..4 {
            s.access(Access::Write, 1, wave, &[wave; 64], 1, 1);
        }
        assert!(s.findings.is_empty());
        s.barrier();
        one(&mut s, Access::Read, 2, 0, 0);
        assert!(s.findings.is_empty());
    }
}
