//! AMDGPU code objects to wavefront execution, results, counters and predicted time.
//!
//! ```no_run
//! use hipsmith_simulator::{Launch, Limits, Memory, Module, Simulator};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new();
//! let module = Module::load(&std::fs::read("kernel.o")?, &memory)?;
//! let kernel = module.kernel("_Z4vaddPKfS0_Pfi").ok_or("no such kernel")?;
//! let a = memory.alloc(4096, "a")?;
//! let mut launch = Launch::new(kernel, [4, 1, 1], [256, 1, 1]);
//! launch.kernargs.extend_from_slice(&a.to_le_bytes()); // the explicit arguments, laid out as KernelArg says
//! let simulator = Simulator::new(hipsmith_target::default_target(), memory.clone());
//! let dispatch = simulator.dispatch(&launch, &Limits::default())?;
//! println!("{} ns predicted", dispatch.prediction.ns);
//! # Ok(()) }
//! ```

mod counters;
mod dispatch;
mod fault;
mod hostcall;
pub mod isa;
pub mod machine;
mod memory;
mod object;
mod timing;
pub mod valu;

pub use counters::{Counters, LdsCounters, LineCounters};
pub use dispatch::{Dispatch, Launch, Limits, Simulator, Warning};
pub use fault::{Access, Fault, Site, SourceLine};
pub use hostcall::{Printer, Stream};
pub use memory::{ALIGNMENT, Allocation, Memory, MemoryError};
pub use object::{Kernel, KernelArg, LoadError, Module};
pub use timing::{Bound, LAUNCH_NS, Prediction};
