//! The rules. A new one: a file here, a `mod` line and a line in the table.

mod ballot_in_32_bits;
mod broadcast_without_width;
mod consistent_32_lanes;
mod launch_bounds_missing;
mod lds_bank_conflict;
mod lds_over_limit;
mod mixed_wave_sizes;
mod sync_argument_order;

use crate::Rule;

pub(crate) static TABLE: &[&Rule] = &[
    &ballot_in_32_bits::RULE,
    &broadcast_without_width::RULE,
    &consistent_32_lanes::RULE,
    &mixed_wave_sizes::RULE,
    &sync_argument_order::RULE,
    &lds_over_limit::RULE,
    &lds_bank_conflict::RULE,
    &launch_bounds_missing::RULE,
];
