//! Predicted time of a dispatch.

/// What binds the predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Vector ALU issue.
    Valu,
    /// Scalar issue: scalar ALU, scalar memory and branches.
    Scalar,
    /// LDS cycles, bank conflicts included.
    Lds,
    /// Lines through the vector L1.
    L1,
    /// L2 bandwidth.
    L2,
    /// Device memory bandwidth.
    Memory,
    /// Latency that too few wavefronts hide.
    Latency,
    /// The launch itself.
    Launch,
}

/// Predicted time, from the model that the module's documentation describes. Not a measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// Time of the dispatch in nanoseconds, launch overhead included.
    pub ns: f64,
    /// Engine cycles of the dispatch without launch overhead.
    pub cycles: f64,
    /// What binds.
    pub bound_by: Bound,
    /// Wavefronts that a SIMD can hold, by the kernel's registers, LDS and workgroup.
    pub occupancy: u32,
    /// Cycles that each resource needs alone, largest first.
    pub parts: Vec<(Bound, f64)>,
    /// What the model assumes, as sentences for the user.
    pub assumptions: Vec<String>,
}
