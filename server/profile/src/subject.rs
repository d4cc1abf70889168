//! One recorded dispatch of a user's program: the subject of an optimization, with nothing to describe by hand.
//!
//! The simulated HIP runtime writes it as a folder: `subject.json` (a [`Subject`]), `module.co` (the code object)
//! and, for each buffer, its contents before and after the dispatch. Folders `extra-1`, `extra-2`... below it hold
//! further dispatches of the same kernel with other shapes or arguments, in the same form.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ReadError;

/// Name of the description inside a capture folder.
pub const FILE: &str = "subject.json";

/// One dispatch with everything that it takes to repeat it. File names are relative to its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Version of this format: 1.
    pub version: u32,
    /// Symbol of the kernel in the code object (mangled).
    pub kernel: String,
    /// Demangled name with its parameter types.
    pub display: String,
    /// Target that the run simulated.
    pub target: String,
    /// Target that the code object was compiled for.
    pub compiled_for: String,
    /// Which dispatch of this kernel it was, counted from 0.
    pub dispatch: u64,
    /// Workgroups in x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    pub block: [u32; 3],
    /// Dynamic LDS in bytes.
    pub dynamic_lds: u32,
    /// Static LDS in bytes, from the kernel descriptor.
    pub static_lds: u32,
    /// Explicit arguments in order.
    pub args: Vec<Arg>,
    /// Allocations that the kernel can reach through its arguments.
    pub buffers: Vec<Buffer>,
    /// Device variables of the code object as they were before the dispatch.
    pub globals: Vec<Global>,
    /// File of the code object.
    pub module: String,
    /// Predicted time of the dispatch on the simulated target, in nanoseconds.
    pub predicted_ns: f64,
    /// The program that was recorded, with its arguments.
    pub program: Vec<String>,
}

/// One explicit kernel argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arg {
    /// Position among the explicit arguments.
    pub index: usize,
    /// Name, when the code object has it.
    pub name: Option<String>,
    /// Type as written in the source, when the code object has it.
    pub type_name: Option<String>,
    /// Byte offset in the kernel-argument segment.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// What is passed.
    #[serde(flatten)]
    pub kind: ArgKind,
}

/// What an argument passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArgKind {
    /// Bytes by value.
    Value {
        /// The bytes, as two hexadecimal digits each.
        bytes: String,
        /// Device pointers inside the bytes (a struct passed by value).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pointers: Vec<PointerAt>,
    },
    /// A pointer into a buffer.
    Pointer {
        /// [`Buffer::id`].
        buffer: usize,
        /// Byte offset from the buffer's start.
        buffer_offset: u64,
    },
    /// A null pointer, or one that points to no device memory.
    Dangling {
        /// Its value.
        address: u64,
    },
}

/// A device pointer stored inside other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerAt {
    /// Byte offset at which the eight bytes of the pointer stand.
    pub at: u64,
    /// [`Buffer::id`] of what it points into.
    pub buffer: usize,
    /// Byte offset from that buffer's start.
    pub offset: u64,
}

/// One allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Position in [`Subject::buffers`].
    pub id: usize,
    /// How it was allocated, such as `hipMalloc`.
    pub label: String,
    /// Address that it had in the recorded run.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// File with its contents before the dispatch.
    pub before: String,
    /// File with its contents after the dispatch.
    pub after: String,
    /// Whether the dispatch changed a byte of it.
    pub changed: bool,
    /// Device pointers among its contents before the dispatch (an array of pointers).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<PointerAt>,
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// File with its contents before the dispatch.
    pub before: String,
    /// Whether the dispatch changed a byte of it.
    pub changed: bool,
}

impl Subject {
    /// Read the description in a capture folder.
    ///
    /// # Errors
    /// [`ReadError`] if it is missing or not in this format.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        crate::read_json(&folder.join(FILE), "recorded dispatch")
    }

    /// The folders of the further dispatches recorded beside the one in `folder`, in order.
    pub fn extras(folder: &Path) -> Vec<PathBuf> {
        (1..)
            .map(|n| folder.join(format!("extra-{n}")))
            .take_while(|extra| extra.join(FILE).is_file())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_survives_its_file() {
        let subject = Subject {
            version: 1,
            kernel: "_Z1kPfS_".to_owned(),
            display: "k(float*, S)".to_owned(),
            target: "gfx928".to_owned(),
            compiled_for: "gfx906".to_owned(),
            dispatch: 0,
            grid: [4, 1, 1],
            block: [256, 1, 1],
            dynamic_lds: 0,
            static_lds: 1024,
            args: vec![
                Arg {
                    index: 0,
                    name: Some("x".to_owned()),
                    type_name: None,
                    offset: 0,
                    size: 8,
                    kind: ArgKind::Pointer {
                        buffer: 0,
                        buffer_offset: 16,
                    },
                },
                Arg {
                    index: 1,
                    name: None,
                    type_name: None,
                    offset: 8,
                    size: 4,
                    kind: ArgKind::Value {
                        bytes: "01000000".to_owned(),
                        pointers: Vec::new(),
                    },
                },
            ],
            buffers: vec![Buffer {
                id: 0,
                label: "hipMalloc".to_owned(),
                address: 0x7f00_0000_0000,
                bytes: 64,
                before: "b0.before.bin".to_owned(),
                after: "b0.after.bin".to_owned(),
                changed: true,
                pointers: Vec::new(),
            }],
            globals: Vec::new(),
            module: "module.co".to_owned(),
            predicted_ns: 1234.5,
            program: vec!["./x".to_owned()],
        };
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string_pretty(&subject).unwrap();
        crate::write_atomically(&folder.path().join(FILE), text.as_bytes()).unwrap();
        assert_eq!(Subject::read(folder.path()).unwrap(), subject);
        assert!(text.contains("\"kind\": \"pointer\""), "{text}");
        assert!(Subject::extras(folder.path()).is_empty());
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        let error = Subject::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is not a recorded dispatch"), "{error}");
    }
}
