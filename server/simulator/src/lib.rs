//! AMDGPU code objects to wavefront execution, results, counters and predicted time.

pub mod isa;
pub mod machine;
pub mod valu;
