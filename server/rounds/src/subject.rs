//! The subject of a job: one kernel, its launches with all their data, and where they come from.

use std::path::Path;

use hipsmith_devices::harness::Arg;
use hipsmith_profile::subject as captured;

use crate::code_object::signature;
use crate::verify::element::Element;

/// What the rounds optimize, and on which data.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Mangled name.
    pub symbol: String,
    /// How the data were got, for the report.
    pub origin: String,
    /// The launch that is timed, then held-out ones.
    pub shapes: Vec<Shape>,
}

/// One launch with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes.
    pub dynamic_lds: u32,
    /// Arguments in order.
    pub args: Vec<Arg>,
    /// Allocations that the arguments point into.
    pub buffers: Vec<Data>,
    /// Device variables and their contents before the launch.
    pub globals: Vec<(String, Vec<u8>)>,
}

/// One allocation of a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Contents before the launch.
    pub before: Vec<u8>,
    /// Contents after the original kernel ran; `None` when nobody ran it yet.
    pub after: Option<Vec<u8>>,
    /// What it holds.
    pub element: Element,
    /// Whether the kernel takes it by a pointer to non-const.
    pub writable: bool,
}

/// Held-out launches that are kept; more only cost time.
const MAX_HELD_OUT: usize = 2;

/// Read what the simulated runtime recorded.
///
/// # Errors
/// One sentence when the recording cannot be read or holds what the harness cannot repeat.
pub fn read_capture(folder: &Path) -> Result<Subject, String> {
    let main = captured::Subject::read(folder).map_err(|e| e.to_string())?;
    let mut shapes = vec![shape(folder, &main)?];
    for extra in captured::Subject::extras(folder) {
        let dispatch = captured::Subject::read(&extra).map_err(|e| e.to_string())?;
        if dispatch.kernel != main.kernel {
            continue;
        }
        let held_out = shape(&extra, &dispatch)?;
        let differs = shapes.iter().all(|s| {
            s.grid != held_out.grid || s.block != held_out.block || values(s) != values(&held_out)
        });
        if differs && shapes.len() <= MAX_HELD_OUT {
            shapes.push(held_out);
        }
    }
    Ok(Subject {
        symbol: main.kernel.clone(),
        origin: format!("dispatch {} of `{}`", main.dispatch, main.program.join(" ")),
        shapes,
    })
}

fn values(shape: &Shape) -> Vec<&[u8]> {
    shape
        .args
        .iter()
        .filter_map(|a| match a {
            Arg::Value(bytes) => Some(bytes.as_slice()),
            Arg::Pointer { .. } => None,
        })
        .collect()
}

fn shape(folder: &Path, dispatch: &captured::Subject) -> Result<Shape, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))
    };
    let params = signature(&dispatch.kernel).params;
    let mut args = Vec::new();
    let mut elements: Vec<Option<Element>> = vec![None; dispatch.buffers.len()];
    let mut writable = vec![false; dispatch.buffers.len()];
    for (i, arg) in dispatch.args.iter().enumerate() {
        args.push(match &arg.kind {
            captured::ArgKind::Value { bytes, pointers } if pointers.is_empty() => Arg::Value(
                unhex(bytes).ok_or_else(|| format!("argument {i} of the recording is not hexadecimal"))?,
            ),
            captured::ArgKind::Value { .. } => {
                return Err(format!(
                    "argument {i} of `{}` is a struct that holds device pointers, which the harness cannot repeat yet; \
                     pass the pointers as arguments of their own",
                    dispatch.display
                ));
            }
            captured::ArgKind::Pointer {
                buffer,
                buffer_offset: offset,
            } => {
                let param = params.get(i).map_or("", String::as_str);
                let slot = elements
                    .get_mut(*buffer)
                    .ok_or_else(|| format!("argument {i} of the recording points into no buffer"))?;
                let here = Element::of(param);
                // Two views of one allocation: only its bytes are sure.
                *slot = Some(match *slot {
                    Some(other) if other != here => Element::Bytes,
                    _ => here,
                });
                writable[*buffer] |= !param.contains("const");
                Arg::Pointer {
                    buffer: *buffer,
                    offset: *offset,
                }
            }
            captured::ArgKind::Dangling { address } => Arg::Value(address.to_le_bytes().to_vec()),
        });
    }
    let mut buffers = Vec::new();
    for (b, buffer) in dispatch.buffers.iter().enumerate() {
        if !buffer.pointers.is_empty() {
            return Err(format!(
                "`{}` reads device pointers from memory (an array of pointers), which the harness cannot repeat yet",
                dispatch.display
            ));
        }
        buffers.push(Data {
            before: read(&buffer.before)?,
            after: Some(read(&buffer.after)?),
            element: elements.get(b).copied().flatten().unwrap_or(Element::Bytes),
            writable: writable[b] || buffer.changed,
        });
    }
    let globals = dispatch
        .globals
        .iter()
        .map(|g| Ok((g.name.clone(), read(&g.before)?)))
        .collect::<Result<_, String>>()?;
    Ok(Shape {
        grid: dispatch.grid,
        block: dispatch.block,
        dynamic_lds: dispatch.dynamic_lds,
        args,
        buffers,
        globals,
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| {
        digits
            .chunks_exact(2)
            .map(|p| (p[0] << 4 | p[1]) as u8)
            .collect()
    })
}
