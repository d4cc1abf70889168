//! What a wavefront and a workgroup own while they run.

use std::collections::VecDeque;

use super::wave::{LANES, Wave};
use crate::fault::Access;

/// How far a wavefront is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    /// At an `s_barrier`, whose instruction index this is.
    Barrier(u32),
    Ended,
}

/// A point in a wave's own time in cycles, twice: as if all that misses L1 came from L2, and as if it came from
/// device memory. The time model mixes the two when the whole dispatch is known.
pub(crate) type Clock = [u64; 2];

/// Operations of one wait counter that have not completed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(VecDeque<Clock>);

impl Outstanding {
    /// One more, done after `latency` from `now`; they complete in order.
    pub(crate) fn issue(&mut self, now: Clock, latency: Clock) {
        let last = self.0.back().copied().unwrap_or_default();
        self.0
            .push_back([0, 1].map(|i| (now[i] + latency[i]).max(last[i])));
        // The hardware's counter has 6 bits; a wave that would need more is held back.
        if self.0.len() > 63 {
            self.0.pop_front();
        }
    }
    /// Wait until at most `left` are outstanding; the time then.
    pub(crate) fn wait(&mut self, left: usize, mut now: Clock) -> Clock {
        while self.0.len() > left {
            if let Some(done) = self.0.pop_front() {
                now = [0, 1].map(|i| now[i].max(done[i]));
            }
        }
        now
    }
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// One wavefront: registers, private memory and what it waits for.
pub(crate) struct WaveState {
    pub(crate) w: Wave,
    /// Number in the workgroup.
    pub(crate) index: u32,
    /// Index of the next instruction.
    pub(crate) pc: u32,
    pub(crate) status: Status,
    /// Private memory as rows of one dword per lane, grown on first use.
    pub(crate) scratch: Vec<[u32; LANES]>,
    /// Private memory per lane in bytes.
    pub(crate) scratch_limit: u32,
    pub(crate) executed: u64,
    /// The wave's own time: what it would need alone on the compute unit.
    pub(crate) now: Clock,
    /// Vector memory operations on their way.
    pub(crate) vm: Outstanding,
    /// LDS and scalar memory operations on their way.
    pub(crate) lgkm: Outstanding,
}

/// Why an instruction could not be executed; the dispatcher adds where.
#[derive(Debug)]
pub(crate) enum Problem {
    Wild {
        access: Access,
        address: u64,
        bytes: u32,
        lane: u32,
    },
    Lds {
        access: Access,
        offset: u64,
        bytes: u32,
        lane: u32,
    },
    Scratch {
        access: Access,
        offset: u64,
        lane: u32,
    },
    Misaligned {
        access: Access,
        address: u64,
        bytes: u32,
        lane: u32,
    },
    Unknown {
        name: String,
        why: String,
    },
    Trap(u8),
    Jump(u64),
    Instructions,
    Time,
    Cancelled,
}

/// Indices of the set bits.
#[inline(always)]
pub(crate) fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}

impl WaveState {
    /// One dword row of private memory, grown to hold it.
    pub(crate) fn scratch_row(&mut self, row: usize) -> &mut [u32; LANES] {
        if row >= self.scratch.len() {
            self.scratch
                .resize((row + 1).next_multiple_of(16), [0; LANES]);
        }
        &mut self.scratch[row]
    }

    /// Check a private access.
    #[inline]
    pub(crate) fn scratch_check(
        &self,
        access: Access,
        offset: u64,
        bytes: u32,
        lane: usize,
    ) -> Result<(), Problem> {
        if offset.saturating_add(u64::from(bytes)) > u64::from(self.scratch_limit) {
            return Err(Problem::Scratch {
                access,
                offset,
                lane: lane as u32,
            });
        }
        Ok(())
    }

    /// Read up to 4 bytes of a lane's private memory; the range has been checked.
    pub(crate) fn scratch_read(&mut self, lane: usize, offset: u64, bytes: u32) -> u32 {
        let row = (offset / 4) as usize;
        let shift = (offset % 4) as u32 * 8;
        let mut value = u64::from(self.scratch_row(row)[lane]);
        if shift / 8 + bytes > 4 {
            value |= u64::from(self.scratch_row(row + 1)[lane]) << 32;
        }
        let mask = (1u64 << (8 * bytes)) - 1;
        (value >> shift & mask) as u32
    }

    /// Write up to 4 bytes of a lane's private memory; the range has been checked.
    pub(crate) fn scratch_write(&mut self, lane: usize, offset: u64, bytes: u32, value: u32) {
        let row = (offset / 4) as usize;
        let shift = (offset % 4) as u32 * 8;
        let mask = ((1u64 << (8 * bytes)) - 1) << shift;
        let value = u64::from(value) << shift & mask;
        let low = &mut self.scratch_row(row)[lane];
        *low = *low & !(mask as u32) | value as u32;
        if mask >> 32 != 0 {
            let high = &mut self.scratch_row(row + 1)[lane];
            *high = *high & !((mask >> 32) as u32) | (value >> 32) as u32;
        }
    }
}
