//! Coalescing: how many memory lines one access of a wavefront touches.

use crate::Target;

impl Target {
    /// Distinct lines of the vector L1 that an access of `bytes` per lane touches; `None` is an inactive lane.
    pub fn memory_lines(&self, addrs: &[Option<u64>; 64], bytes: u32) -> u32 {
        let mut flat = [0u64; 64];
        let mut active = 0u64;
        for (lane, addr) in addrs.iter().enumerate() {
            if let Some(a) = addr {
                flat[lane] = *a;
                active |= 1 << lane;
            }
        }
        self.memory_lines_masked(&flat, bytes, active)
    }

    /// As [`Target::memory_lines`], with the active lanes as a mask (bit per lane, as EXEC): the form for hot loops.
    pub fn memory_lines_masked(&self, addrs: &[u64; 64], bytes: u32, active: u64) -> u32 {
        let line = u64::from(self.cache.l1_line_bytes.max(1));
        let span = u64::from(bytes.clamp(1, 64)) - 1;
        // Up to 64 bytes per lane touch at most two lines of at least 64 bytes.
        let mut lines = [0u64; 128];
        let mut used = 0usize;
        let mut sorted = true;
        for (lane, &addr) in addrs.iter().enumerate() {
            if active >> lane & 1 == 0 {
                continue;
            }
            let first = addr / line;
            let last = addr.saturating_add(span) / line;
            for l in [first, last] {
                if used == 0 || l > lines[used - 1] {
                    lines[used] = l;
                    used += 1;
                } else if l < lines[used - 1] {
                    sorted = false;
                    lines[used] = l;
                    used += 1;
                }
            }
        }
        if sorted {
            return used as u32;
        }
        let seen = &mut lines[..used];
        seen.sort_unstable();
        1 + seen.windows(2).filter(|w| w[0] != w[1]).count() as u32
    }

    /// The fewest lines that `active` lanes of `bytes` each could touch.
    pub fn ideal_memory_lines(&self, active: u32, bytes: u32) -> u32 {
        (active * bytes).div_ceil(self.cache.l1_line_bytes.max(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::default_target;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn coalesced_strided_and_broadcast() {
        let t = default_target();
        let lines = |stride: u64, bytes| {
            t.memory_lines(
                &std::array::from_fn(|i| Some(4096 + i as u64 * stride)),
                bytes,
            )
        };
        assert_eq!(lines(4, 4), 4);
        assert_eq!(lines(16, 16), 16);
        assert_eq!(lines(64, 4), 64);
        assert_eq!(lines(0, 4), 1);
        assert_eq!(t.memory_lines(&[None; 64], 4), 0);
        assert_eq!(t.ideal_memory_lines(64, 4), 4);
    }

    proptest! {
        #[test]
        fn lines_are_counted_exactly(addrs in proptest::collection::vec(proptest::option::of(0u64..3000), 64), bytes in 1u32..17) {
            let t = default_target();
            let line = u64::from(t.cache.l1_line_bytes);
            let addrs: [Option<u64>; 64] = std::array::from_fn(|i| addrs[i]);
            let want: BTreeSet<u64> = addrs.iter().flatten()
                .flat_map(|a| (*a..*a + u64::from(bytes)).map(move |b| b / line)).collect();
            prop_assert_eq!(t.memory_lines(&addrs, bytes), want.len() as u32);
        }
    }
}
