//! Hardware facts of the 64-lane targets: limits, occupancy, LDS bank and coalescing rules.
