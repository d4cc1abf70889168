//! Counters by kernel and source line: readers and the one model they fill.
