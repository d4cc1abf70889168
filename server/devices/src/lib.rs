//! Where the harness runs; in this version the simulated device.
