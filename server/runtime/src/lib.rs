//! The HIP runtime API on the simulator, so that any HIP program runs without a GPU.
//!
//! Built as a shared library that calls itself `libamdhip64.so.5`: preloaded into an unmodified program, it takes
//! the real library's place. Kernels run at their launch, one after the other, so that every stream order holds.
//!
//! What it reads from the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `HIPSMITH_TARGET` | target to simulate; gfx928 without it |
//! | `HIPSMITH_REPORT` | file for the [report](hipsmith_profile::simulated::RunReport) of the run |
//! | `HIPSMITH_KERNEL_TIMEOUT` | seconds after which a kernel counts as one that never ends; 600 without it |
//! | `HIPSMITH_BOUNDS` | `page`: let kernels access the rest of an allocation's last page, as a device does; exact without it |
//! | `HIPSMITH_CAPTURE` | folder for a [recorded dispatch](hipsmith_profile::subject::Subject) |
//! | `HIPSMITH_CAPTURE_KERNEL` | which kernel to record: its name in the source, or its symbol; any without it |
//! | `HIPSMITH_CAPTURE_INDEX` | which of that kernel's dispatches, counted from 0 |
//! | `HIPSMITH_CAPTURE_EXTRA` | how many more dispatches with other shapes or values to record |
//! | `HIPSMITH_CAPTURE_STOP` | `1`: end the program, with success, once everything asked for is recorded |
#![allow(non_snake_case)] // The functions are named as HIP names them.

#[macro_use]
mod abi;
mod capture;
mod device;
mod error;
mod event;
mod kernel;
mod launch;
mod memory;
mod module;
mod occupancy;
mod registration;
mod report;
mod state;
mod stream;
mod unsupported;
