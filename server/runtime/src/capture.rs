//! Records dispatches of the user's program as subjects for the rounds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_profile::subject::{Arg, ArgKind, Buffer, FILE, Global, PointerAt, Subject};
use hipsmith_simulator::{Dispatch, Kernel, Launch, Simulator};

use crate::report::program;
use crate::state::{number, say};

/// Contents kept of one dispatch at most, before and after each.
const MAX_BYTES: u64 = 2 << 30;
/// Pointers listed of one buffer at most; a buffer with more is an array of pointers that nobody describes.
const MAX_POINTERS: usize = 65_536;

/// What is to be recorded, and how far that has come.
pub(crate) struct Capture {
    folder: PathBuf,
    /// Any kernel when absent.
    wanted: Option<String>,
    index: u64,
    extra: usize,
    stop: bool,
    /// Dispatches of the wanted kernel that began.
    seen: u64,
    /// Shapes and values of what was recorded; the first is the subject itself.
    recorded: Vec<Signature>,
    /// The symbol that the wanted name first matched: overloads and instantiations are other kernels.
    symbol: Option<String>,
}

/// What makes a dispatch worth recording beside another: shape, values, buffer sizes.
#[derive(Clone, PartialEq)]
struct Signature {
    shape: ([u32; 3], [u32; 3], u32),
    args: Vec<Vec<u8>>,
    sizes: Vec<u64>,
}

/// A device variable of the code object that a kernel comes from.
pub(crate) struct DeviceVariable {
    pub(crate) name: Arc<str>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// A dispatch of which only the contents afterwards are missing.
pub(crate) struct Recording {
    subject: Subject,
    signature: Signature,
    before: Vec<Vec<u8>>,
    globals: Vec<(u64, Vec<u8>)>,
}

impl Capture {
    pub(crate) fn from_environment() -> Option<Self> {
        let folder = std::env::var_os("HIPSMITH_CAPTURE").filter(|f| !f.is_empty())?;
        Some(Self {
            folder: std::path::absolute(&folder).unwrap_or_else(|_| folder.into()),
            wanted: std::env::var("HIPSMITH_CAPTURE_KERNEL")
                .ok()
                .map(|k| k.trim().to_owned())
                .filter(|k| !k.is_empty()),
            index: number("HIPSMITH_CAPTURE_INDEX").unwrap_or(0),
            extra: number("HIPSMITH_CAPTURE_EXTRA").unwrap_or(0),
            stop: std::env::var_os("HIPSMITH_CAPTURE_STOP").is_some_and(|s| s == "1"),
            seen: 0,
            recorded: Vec::new(),
            symbol: None,
        })
    }

    /// A sentence when the program ended before the wanted dispatch.
    pub(crate) fn unmet(&self) -> Option<String> {
        if !self.recorded.is_empty() {
            return None;
        }
        Some(match &self.wanted {
            Some(name) => format!(
                "nothing was recorded: the program dispatched kernel {name} {} times to the end, and dispatch number {} (from 0) was wanted",
                self.seen, self.index
            ),
            None => "nothing was recorded: the program dispatched no kernel to the end".to_owned(),
        })
    }

    /// Look at a dispatch that is about to run: what it takes to record it, if it is wanted.
    pub(crate) fn before(
        &mut self,
        launch: &Launch,
        simulator: &Simulator,
        variables: &[DeviceVariable],
    ) -> Option<Recording> {
        let kernel = &launch.kernel;
        let matches = match (&self.symbol, &self.wanted) {
            (Some(symbol), _) => *symbol == kernel.name,
            (None, Some(wanted)) => is_named(kernel, wanted),
            (None, None) => true,
        };
        if !matches {
            return None;
        }
        let number = self.seen;
        self.seen += 1;
        let first = self.recorded.is_empty();
        if (first && number != self.index) || self.recorded.len() > self.extra {
            return None;
        }
        let recording = record(launch, simulator, number, variables);
        match recording {
            Ok(recording) if first || !self.recorded.contains(&recording.signature) => {
                Some(recording)
            }
            Ok(_) => None,
            Err(sentence) => {
                say(&sentence);
                None
            }
        }
    }

    /// Finish what [`Capture::before`] began. True when the program need not go on.
    ///
    /// # Errors
    /// A sentence when the folder cannot be written.
    pub(crate) fn after(
        &mut self,
        mut recording: Recording,
        launch: &Launch,
        simulator: &Simulator,
        dispatch: &Dispatch,
    ) -> Result<bool, String> {
        recording.subject.predicted_ns = dispatch.prediction.ns;
        let folder = match self.recorded.len() {
            0 => self.folder.clone(),
            n => self.folder.join(format!("extra-{n}")),
        };
        write(&folder, &mut recording, launch, simulator).map_err(|error| {
            format!(
                "the recorded dispatch cannot be written to {}: {error}",
                folder.display()
            )
        })?;
        self.symbol = Some(launch.kernel.name.clone());
        self.recorded.push(recording.signature);
        Ok(self.stop && self.recorded.len() > self.extra)
    }
}

fn read(simulator: &Simulator, base: u64, len: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|e| e.to_string())?];
    simulator
        .memory()
        .read_bytes(base, &mut bytes)
        .map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// The buffers found so far, and the allocations that they may be.
struct Reach<'a> {
    simulator: &'a Simulator,
    lowest: u64,
    highest: u64,
    buffers: Vec<Buffer>,
    before: Vec<Vec<u8>>,
    bytes: u64,
}

impl Reach<'_> {
    /// The buffer that `address` points into, added if it is new.
    fn buffer(&mut self, address: u64) -> Result<Option<(usize, u64)>, String> {
        if address < self.lowest || address >= self.highest {
            return Ok(None);
        }
        let Some(found) = self.simulator.memory().find(address) else {
            return Ok(None);
        };
        // Pointers into the code object (functions, device variables) are not buffers.
        if found.label.as_ref() == CODE_OBJECT {
            return Ok(None);
        }
        if let Some(known) = self.buffers.iter().find(|b| b.address == found.base) {
            return Ok(Some((known.id, address - found.base)));
        }
        self.bytes = self.bytes.saturating_add(found.len);
        if self.bytes > MAX_BYTES {
            return Err(format!(
                "the dispatch is not recorded: its buffers have more than {MAX_BYTES} bytes; run the program on a smaller problem"
            ));
        }
        let id = self.buffers.len();
        self.before
            .push(read(self.simulator, found.base, found.len)?);
        self.buffers.push(Buffer {
            id,
            label: found.label.to_string(),
            address: found.base,
            bytes: found.len,
            before: format!("b{id}.before.bin"),
            after: format!("b{id}.after.bin"),
            changed: false,
            pointers: Vec::new(),
        });
        Ok(Some((id, address - found.base)))
    }

    /// Device pointers at aligned places of `bytes`.
    fn pointers(&mut self, bytes: &[u8]) -> Result<Vec<PointerAt>, String> {
        let mut found = Vec::new();
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            let Ok(word) = word.try_into().map(u64::from_le_bytes) else {
                continue;
            };
            if let Some((buffer, offset)) = self.buffer(word)? {
                found.push(PointerAt {
                    at: 8 * i as u64,
                    buffer,
                    offset,
                });
                if found.len() > MAX_POINTERS {
                    return Err(format!(
                        "the dispatch is not recorded: one of its buffers holds more than {MAX_POINTERS} device pointers"
                    ));
                }
            }
        }
        Ok(found)
    }
}

/// Label that the simulator gives to loaded code.
const CODE_OBJECT: &str = "the code object";

fn record(
    launch: &Launch,
    simulator: &Simulator,
    number: u64,
    variables: &[DeviceVariable],
) -> Result<Recording, String> {
    let kernel = &launch.kernel;
    let allocations = simulator.memory().allocations();
    let mut reach = Reach {
        simulator,
        lowest: allocations.first().map_or(0, |a| a.base),
        highest: allocations
            .iter()
            .map(|a| a.base + a.len)
            .max()
            .unwrap_or(0),
        buffers: Vec::new(),
        before: Vec::new(),
        bytes: 0,
    };
    let mut args = Vec::new();
    let mut values = Vec::new();
    for (index, arg) in kernel.args.iter().filter(|a| !a.is_hidden()).enumerate() {
        let from = arg.offset as usize;
        let bytes = launch
            .kernargs
            .get(from..from + arg.size as usize)
            .unwrap_or_default();
        let word = bytes.try_into().map(u64::from_le_bytes).ok();
        let kind = match (arg.value_kind.as_str(), word) {
            ("global_buffer", Some(address)) => match reach.buffer(address)? {
                Some((buffer, buffer_offset)) => ArgKind::Pointer {
                    buffer,
                    buffer_offset,
                },
                None => ArgKind::Dangling { address },
            },
            _ => {
                values.push(bytes.to_vec());
                ArgKind::Value {
                    bytes: bytes.iter().map(|b| format!("{b:02x}")).collect(),
                    pointers: reach.pointers(bytes)?,
                }
            }
        };
        args.push(Arg {
            index,
            name: arg.name.clone(),
            type_name: arg.type_name.clone(),
            offset: arg.offset,
            size: arg.size,
            kind,
        });
    }
    // Buffers may hold pointers to further buffers; the list grows while it is walked.
    let mut next = 0;
    while next < reach.buffers.len() {
        let contents = std::mem::take(&mut reach.before[next]);
        let pointers = reach.pointers(&contents)?;
        reach.before[next] = contents;
        reach.buffers[next].pointers = pointers;
        next += 1;
    }
    let mut globals = Vec::new();
    let mut contents = Vec::new();
    for (id, variable) in variables.iter().enumerate() {
        let before = read(simulator, variable.address, variable.bytes)?;
        contents.push((variable.address, before));
        globals.push(Global {
            name: variable.name.to_string(),
            bytes: variable.bytes,
            before: format!("g{id}.before.bin"),
            changed: false,
        });
    }
    let signature = Signature {
        shape: (launch.grid, launch.block, launch.dynamic_lds),
        args: values,
        sizes: reach.buffers.iter().map(|b| b.bytes).collect(),
    };
    Ok(Recording {
        subject: Subject {
            version: 1,
            kernel: kernel.name.clone(),
            display: kernel.display_name.clone(),
            target: simulator.target().name.clone(),
            compiled_for: kernel.isa().to_owned(),
            dispatch: number,
            grid: launch.grid,
            block: launch.block,
            dynamic_lds: launch.dynamic_lds,
            static_lds: kernel.group_segment_fixed_size,
            args,
            buffers: reach.buffers,
            globals,
            module: "module.co".to_owned(),
            predicted_ns: 0.0,
            program: program(),
        },
        signature,
        before: reach.before,
        globals: contents,
    })
}

/// The description goes last: a folder with it is whole.
fn write(
    folder: &Path,
    recording: &mut Recording,
    launch: &Launch,
    simulator: &Simulator,
) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let description = folder.join(FILE);
    match std::fs::remove_file(&description) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let subject = &mut recording.subject;
    std::fs::write(folder.join(&subject.module), launch.kernel.code_object())?;
    for (buffer, before) in subject.buffers.iter_mut().zip(&recording.before) {
        let after = read(simulator, buffer.address, buffer.bytes).map_err(io::Error::other)?;
        buffer.changed = after != *before;
        std::fs::write(folder.join(&buffer.before), before)?;
        std::fs::write(folder.join(&buffer.after), &after)?;
    }
    for (global, (address, before)) in subject.globals.iter_mut().zip(&recording.globals) {
        let after = read(simulator, *address, global.bytes).map_err(io::Error::other)?;
        global.changed = after != *before;
        std::fs::write(folder.join(&global.before), before)?;
    }
    let text = serde_json::to_vec_pretty(subject).map_err(io::Error::other)?;
    hipsmith_profile::write_atomically(&description, &text)
}

fn is_named(kernel: &Kernel, wanted: &str) -> bool {
    kernel.name == wanted || names(&kernel.display_name, wanted)
}

/// Whether `wanted` names the function that demangles to `display`: as it stands there, without its parameters,
/// without its template arguments, or without its namespaces.
fn names(display: &str, wanted: &str) -> bool {
    const ANONYMOUS: &str = "(anonymous namespace)::";
    let display = display.replace(ANONYMOUS, "");
    let wanted = wanted.replace(ANONYMOUS, "");
    // A bracket inside template arguments ends nothing.
    let mut depth = 0;
    let mut end = display.len();
    let mut template = None;
    let mut start = 0;
    for (i, c) in display.char_indices() {
        match c {
            '<' => {
                if depth == 0 && template.is_none() {
                    template = Some(i);
                }
                depth += 1;
            }
            '>' => depth -= 1,
            '(' if depth == 0 => {
                end = i;
                break;
            }
            // The return type of a template's instantiation ends here.
            ' ' if depth == 0 => {
                start = i + 1;
                template = None;
            }
            _ => {}
        }
    }
    let qualified = &display[start..end];
    let plain = &display[start..template.map_or(end, |t| t.max(start))];
    let last = |name: &str| {
        // Namespaces stand before the template arguments only.
        let cut = name.find('<').unwrap_or(name.len());
        let from = name[..cut].rfind("::").map_or(0, |i| i + 2);
        name[from..].to_owned()
    };
    let squeeze = |s: &str| s.replace(' ', "");
    let wanted = squeeze(&wanted);
    [
        squeeze(&display),
        squeeze(qualified),
        squeeze(&last(qualified)),
        squeeze(plain),
        squeeze(&last(plain)),
    ]
    .contains(&wanted)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_kernel_answers_to_its_names() {
        let display = "void net::norm<float, 4>(float const*, float*, int)";
        for wanted in [
            display,
            "net::norm<float, 4>",
            "norm<float,4>",
            "net::norm",
            "norm",
        ] {
            assert!(names(display, wanted), "{wanted}");
        }
        for other in ["nor", "net", "float", "norm<float, 8>", "void", ""] {
            assert!(!names(display, other), "{other}");
        }
        assert!(names("saxpy(float, float*)", "saxpy"));
        assert!(names("(anonymous namespace)::k(int)", "k"));
        assert!(names("void k<(Kind)1, std::pair<int, int> >(int)", "k"));
        assert!(names("void a::k<b::T>(b::T*)", "k"));
        assert!(names("plain", "plain"));
    }
}
