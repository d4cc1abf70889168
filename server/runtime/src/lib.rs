//! The HIP runtime API on the simulator, so that any HIP program runs without a GPU.
