//! The rules. A new one: a file here, a `mod` line and a line in the table.

mod arch_list_misses_target;
mod assumes_32_lanes;
mod ballot_in_32_bits;
mod barrier_in_divergent_flow;
mod broadcast_without_width;
mod consistent_32_lanes;
mod cuda_error_code;
mod cuda_name;
mod cuda_only_intrinsic;
mod dynamic_parallelism;
mod fp8_format;
mod inline_ptx;
mod lane_id_masked_with_size;
mod lane_index_past_array;
mod lane_mask_literal_32;
mod launch_bounds_missing;
mod lds_bank_conflict;
mod lds_limits_occupancy;
mod lds_over_limit;
mod lds_quadratic_in_block;
mod lds_race_without_barrier;
mod library_wave_size;
mod matrix_builtin_missing;
mod missing_barrier_in_loop;
mod mixed_wave_sizes;
mod padding_breaks_vector_alignment;
mod silent_empty_on_target;
mod sync_argument_order;
mod sync_mask_32_bits;
mod sync_mask_not_active;
mod tensor_core_cuda_only;
mod uncoalesced_access;
mod unused_suppression;
mod wave_size_not_constant;
mod wave_size_on_host;

use crate::Rule;

pub(crate) static TABLE: &[&Rule] = &[
    &arch_list_misses_target::RULE,
    &assumes_32_lanes::RULE,
    &ballot_in_32_bits::RULE,
    &broadcast_without_width::RULE,
    &consistent_32_lanes::RULE,
    &lane_id_masked_with_size::RULE,
    &lane_index_past_array::RULE,
    &lane_mask_literal_32::RULE,
    &library_wave_size::RULE,
    &mixed_wave_sizes::RULE,
    &sync_argument_order::RULE,
    &sync_mask_not_active::RULE,
    &wave_size_not_constant::RULE,
    &wave_size_on_host::RULE,
    &lds_over_limit::RULE,
    &lds_quadratic_in_block::RULE,
    &lds_limits_occupancy::RULE,
    &lds_bank_conflict::RULE,
    &padding_breaks_vector_alignment::RULE,
    &barrier_in_divergent_flow::RULE,
    &lds_race_without_barrier::RULE,
    &missing_barrier_in_loop::RULE,
    &uncoalesced_access::RULE,
    &inline_ptx::RULE,
    &launch_bounds_missing::RULE,
    &cuda_only_intrinsic::RULE,
    &tensor_core_cuda_only::RULE,
    &matrix_builtin_missing::RULE,
    &fp8_format::RULE,
    &dynamic_parallelism::RULE,
    &cuda_error_code::RULE,
    &cuda_name::RULE,
    &silent_empty_on_target::RULE,
    &sync_mask_32_bits::RULE,
    &unused_suppression::RULE,
];
