//! What the compiler says each kernel of a text needs, for displays beside the source.

use std::path::Path;

use hipsmith_process::Cancel;

use crate::code_object::signature;
use crate::compile::{CompileError, Compiler};

/// One compiled kernel (one per template instantiation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// Name in the source, without namespace and template arguments.
    pub kernel: String,
    /// The whole demangled name.
    pub full: String,
    /// Vector registers per lane.
    pub vgprs: u32,
    /// Scalar registers per wavefront.
    pub sgprs: u32,
    /// Static LDS per workgroup, bytes.
    pub lds: u32,
    /// Scratch per lane, bytes; above 0 registers or arrays spill to memory.
    pub scratch: u32,
    /// Lanes per workgroup the kernel may be launched with.
    pub max_block: u32,
}

/// What compiling a text gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compilation {
    /// The architecture that was compiled for; another one than the target when the compiler does not know it.
    pub arch: String,
    /// The compiler's version.
    pub compiler: String,
    /// Every kernel in the code object.
    pub kernels: Vec<KernelResources>,
}

/// Compile the device half of `text` (the content of `file`) and read what its kernels need.
///
/// # Errors
/// One sentence: no compiler, cancelled, or the compiler's first error.
pub fn resources(
    file: &Path,
    text: &str,
    target: &str,
    cancel: &Cancel,
) -> Result<Compilation, String> {
    let explain = |error| match error {
        CompileError::Refused(why) | CompileError::Broken(why) => why,
        CompileError::Cancelled => "cancelled".to_owned(),
    };
    let compiler = Compiler::find(file, target, &[], cancel).map_err(explain)?;
    let compiled = compiler.device(text, cancel).map_err(explain)?;
    let kernels = compiled
        .object
        .kernels
        .iter()
        .map(|kernel| {
            let signature = signature(&kernel.symbol);
            KernelResources {
                kernel: signature.name,
                full: signature.full,
                vgprs: kernel.vgprs,
                sgprs: kernel.sgprs,
                lds: kernel.lds,
                scratch: kernel.scratch,
                max_block: kernel.max_block,
            }
        })
        .collect();
    Ok(Compilation {
        arch: compiler.arch.clone(),
        compiler: compiler.version.clone(),
        kernels,
    })
}
