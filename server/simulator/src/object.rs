//! Code objects: AMDGPU ELF files, alone or in an offload bundle, loaded into device memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use hipsmith_process::Cancel;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};

use crate::machine::Code;
use crate::memory::Memory;

/// Why a code object cannot be loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// Neither an AMDGPU ELF file nor an offload bundle.
    #[error("this is not an AMDGPU code object: {0}")]
    NotACodeObject(String),
    /// A bundle without code that a 64-lane gfx9 target can run.
    #[error(
        "the offload bundle has no code for a 64-lane gfx9 target (it has: {0}); compile with --offload-arch=gfx906"
    )]
    NoEntry(String),
    /// A bundle format that is not supported.
    #[error("the offload bundle is compressed; compile with --no-offload-compress")]
    Compressed,
    /// Code for another kind of GPU.
    #[error(
        "code for {0} cannot be simulated: only 64-lane gfx9 code can; compile with --offload-arch=gfx906"
    )]
    WrongTarget(String),
    /// The file contradicts itself.
    #[error("the code object is damaged: {0}")]
    Damaged(String),
    /// A symbol that another object should define.
    #[error(
        "the code object needs the symbol {0}, which it does not define; link device code with -fgpu-rdc or define it"
    )]
    Undefined(String),
    /// The host could not give the memory.
    #[error("the code object cannot be loaded: {0}")]
    Memory(String),
}

/// One kernel argument as the code object's metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KernelArg {
    /// Parameter name, where the compiler recorded one.
    pub name: Option<String>,
    /// Type name, where the compiler recorded one.
    pub type_name: Option<String>,
    /// Byte offset in the kernel argument segment.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// `by_value`, `global_buffer`, `dynamic_shared_pointer`, or one of the `hidden_*` kinds, which the
    /// simulator fills in.
    pub value_kind: String,
}

impl KernelArg {
    /// Whether the compiler added the argument (`hidden_*`).
    pub fn is_hidden(&self) -> bool {
        self.value_kind.starts_with("hidden_")
    }
}

/// The parts of a kernel descriptor that set a wavefront up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Descriptor {
    pub(crate) rsrc1: u32,
    pub(crate) rsrc2: u32,
    pub(crate) properties: u16,
    pub(crate) kernarg_preload: u16,
    /// Address of the first instruction in the code object.
    pub(crate) entry: u64,
}

/// A kernel of a loaded module; keeps the module alive.
pub struct Kernel {
    /// Mangled name, as symbol.
    pub name: String,
    /// Demangled name with parameters, for people.
    pub display_name: String,
    /// Size of the kernel argument segment in bytes, hidden arguments included.
    pub kernarg_size: u32,
    /// Static LDS in bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch (private memory) per lane in bytes.
    pub private_segment_fixed_size: u32,
    /// Whether the scratch size is only known at run time (recursion, calls through pointers).
    pub uses_dynamic_stack: bool,
    /// Vector registers per lane.
    pub vgpr_count: u32,
    /// Accumulation registers per lane.
    pub agpr_count: u32,
    /// Scalar registers per wavefront.
    pub sgpr_count: u32,
    /// Vector registers that were spilled to scratch.
    pub vgpr_spill_count: u32,
    /// Scalar registers that were spilled.
    pub sgpr_spill_count: u32,
    /// Work-items in a workgroup at most, as compiled (`__launch_bounds__`).
    pub max_flat_workgroup_size: u32,
    /// Lanes in a wavefront that it was compiled for.
    pub wavefront_size: u32,
    /// Arguments, explicit ones first as the compiler lists them.
    pub args: Vec<KernelArg>,
    /// Whether source lines are known.
    pub has_line_info: bool,
    pub(crate) descriptor: Descriptor,
    pub(crate) image: Arc<Image>,
}

impl Kernel {
    /// Bytes of explicit arguments: where the first hidden one begins.
    pub fn explicit_kernarg_size(&self) -> u32 {
        self.args
            .iter()
            .filter(|a| !a.is_hidden())
            .map(|a| a.offset.saturating_add(a.size))
            .max()
            .unwrap_or(0)
    }

    /// The target that the code was compiled for, such as `gfx906`.
    pub fn isa(&self) -> &str {
        &self.image.isa
    }

    /// The code object (an ELF file) that the kernel came in.
    pub fn code_object(&self) -> &[u8] {
        &self.image.file
    }

    /// The decoded code, disassembled at the first call.
    pub(crate) fn code(&self, cancel: &Cancel) -> Result<&Arc<Code>, String> {
        self.image
            .code
            .get_or_init(|| Code::disassemble(&self.image, cancel).map(Arc::new))
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What modules and kernels share: the file, and where it lies in device memory.
pub(crate) struct Image {
    pub(crate) isa: String,
    /// The ELF file.
    pub(crate) file: Vec<u8>,
    /// Device address of the code object's address 0.
    pub(crate) bias: u64,
    code: OnceLock<Result<Arc<Code>, String>>,
    memory: Memory,
    /// The allocation that holds all segments, if any.
    allocation: Option<u64>,
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Some(base) = self.allocation {
            // Only fails if somebody else freed it, and then there is nothing left to do.
            let _ = self.memory.free(base);
        }
    }
}

/// A code object in device memory. Its memory is freed when the module and its kernels are dropped.
pub struct Module {
    image: Arc<Image>,
    kernels: BTreeMap<String, Arc<Kernel>>,
    symbols: HashMap<String, (u64, u64)>,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("isa", &self.image.isa)
            .field("kernels", &self.kernels.keys())
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Load a code object: a raw ELF file or an uncompressed offload bundle, of which the gfx906 entry is
    /// taken, or else the first 64-lane gfx9 one. Data segments are placed in `memory` and relocated.
    ///
    /// # Errors
    /// [`LoadError`]; no bytes make it panic.
    pub fn load(bytes: &[u8], memory: &Memory) -> Result<Arc<Self>, LoadError> {
        let elf = select(bytes)?;
        load_elf(elf, memory).map(Arc::new)
    }

    /// A kernel by its mangled name.
    pub fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.get(name).cloned()
    }

    /// All kernels, by mangled name.
    pub fn kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        self.kernels.values()
    }

    /// Device address and size in bytes of a global variable or function.
    pub fn symbol(&self, name: &str) -> Option<(u64, u64)> {
        self.symbols.get(name).copied()
    }

    /// All symbols with their device addresses and sizes.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.symbols.iter().map(|(n, (a, s))| (n.as_str(), *a, *s))
    }

    /// The target that the code was compiled for, such as `gfx906`.
    pub fn isa(&self) -> &str {
        &self.image.isa
    }

    /// Mnemonics in this module that the simulator does not implement, each with the reason and how often it
    /// occurs.
    ///
    /// # Errors
    /// A sentence when the code cannot be disassembled.
    pub fn unimplemented(&self) -> Result<BTreeMap<String, usize>, String> {
        match self.kernels.values().next() {
            Some(kernel) => Ok(kernel.code(&Cancel::new())?.unimplemented()),
            None => Ok(BTreeMap::new()),
        }
    }
}

const BUNDLE_MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The ELF file to load out of whatever was given.
fn select(bytes: &[u8]) -> Result<&[u8], LoadError> {
    if bytes.starts_with(b"\x7fELF") {
        return Ok(bytes);
    }
    if bytes.starts_with(b"CCOB") {
        return Err(LoadError::Compressed);
    }
    if !bytes.starts_with(BUNDLE_MAGIC) {
        return Err(LoadError::NotACodeObject(
            "it begins neither as an ELF file nor as an offload bundle".to_owned(),
        ));
    }
    let damaged = || LoadError::Damaged("the bundle's table ends early".to_owned());
    let mut at = BUNDLE_MAGIC.len();
    let mut number = || -> Result<(u64, usize), LoadError> {
        let field = bytes.get(at..at + 8).ok_or_else(damaged)?;
        at += 8;
        Ok((
            u64::from_le_bytes(field.try_into().map_err(|_| damaged())?),
            at,
        ))
    };
    let (count, mut cursor) = number()?;
    let mut found: Vec<(String, &[u8])> = Vec::new();
    for _ in 0..count {
        let field = |at: usize| -> Result<u64, LoadError> {
            let end = at.checked_add(8).ok_or_else(damaged)?;
            let bytes = bytes.get(at..end).ok_or_else(damaged)?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?))
        };
        let offset = field(cursor)?;
        let size = field(cursor + 8)?;
        let id_len = usize::try_from(field(cursor + 16)?).map_err(|_| damaged())?;
        let id_start = cursor + 24;
        let id_end = id_start.checked_add(id_len).ok_or_else(damaged)?;
        let id = bytes.get(id_start..id_end).ok_or_else(damaged)?;
        cursor = id_end;
        let id = String::from_utf8_lossy(id).into_owned();
        if !id.contains("amdgcn") || size == 0 {
            continue;
        }
        let start = usize::try_from(offset).map_err(|_| damaged())?;
        let end = usize::try_from(size)
            .ok()
            .and_then(|s| start.checked_add(s))
            .ok_or_else(damaged)?;
        found.push((id, bytes.get(start..end).ok_or_else(damaged)?));
    }
    let isa = |id: &str| -> String {
        let from = id.find("gfx").unwrap_or(id.len());
        id[from..]
            .split([':', '-'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    found
        .iter()
        .find(|(id, _)| isa(id) == "gfx906")
        .or_else(|| found.iter().find(|(id, _)| is_wave64(&isa(id))))
        .map(|(_, elf)| *elf)
        .ok_or_else(|| {
            let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
            LoadError::NoEntry(if ids.is_empty() {
                "no device code".to_owned()
            } else {
                ids.join(", ")
            })
        })
}

fn is_wave64(isa: &str) -> bool {
    isa.len() == 6 && isa.starts_with("gfx9")
}

/// gfx name of the low byte of an AMDGPU ELF file's flags (LLVM's `EF_AMDGPU_MACH`).
fn mach_name(mach: u32) -> Option<&'static str> {
    Some(match mach {
        0x2c => "gfx900",
        0x2d => "gfx902",
        0x2e => "gfx904",
        0x2f => "gfx906",
        0x30 => "gfx908",
        0x31 => "gfx909",
        0x32 => "gfx90c",
        0x3f => "gfx90a",
        0x40 => "gfx940",
        0x4b => "gfx941",
        0x4c => "gfx942",
        0x4f => "gfx950",
        0x33 => "gfx1010",
        0x36 => "gfx1030",
        0x41 => "gfx1100",
        0x48 => "gfx1200",
        _ => return None,
    })
}

type Elf = object::elf::FileHeader64<object::Endianness>;

fn load_elf(bytes: &[u8], memory: &Memory) -> Result<Module, LoadError> {
    let damaged = |e: object::Error| LoadError::Damaged(e.to_string());
    let header = Elf::parse(bytes).map_err(|e| LoadError::NotACodeObject(e.to_string()))?;
    let endian = header.endian().map_err(damaged)?;
    if header.e_machine(endian) != object::elf::EM_AMDGPU {
        return Err(LoadError::NotACodeObject(format!(
            "it is an ELF file for machine {}, not AMDGPU",
            header.e_machine(endian)
        )));
    }
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes).map_err(damaged)?;
    let segments = header.program_headers(endian, bytes).map_err(damaged)?;

    let metadata = metadata(header, endian, bytes)?;
    let flags = header.e_flags(endian);
    let isa = metadata
        .target
        .as_deref()
        .and_then(|t| t.rsplit('-').next())
        .and_then(|t| t.split(':').next())
        .filter(|t| t.starts_with("gfx"))
        .map(str::to_owned)
        .or_else(|| mach_name(flags & 0xff).map(str::to_owned))
        .ok_or_else(|| {
            LoadError::WrongTarget(format!("an unknown target (ELF flags {flags:#x})"))
        })?;
    if !is_wave64(&isa) {
        return Err(LoadError::WrongTarget(isa));
    }

    // Lay all segments out in one allocation, so that distances between them stay as linked.
    const LARGEST: u64 = 1 << 33;
    let mut end = 0u64;
    for segment in segments
        .iter()
        .filter(|s| s.p_type(endian) == object::elf::PT_LOAD)
    {
        end = segment
            .p_vaddr(endian)
            .checked_add(segment.p_memsz(endian))
            .filter(|e| *e < LARGEST)
            .ok_or_else(|| LoadError::Damaged("a segment has an absurd size".to_owned()))?
            .max(end);
    }
    let mut contents: Vec<(u64, &[u8])> = Vec::new();
    for segment in segments
        .iter()
        .filter(|s| s.p_type(endian) == object::elf::PT_LOAD)
    {
        let data = segment
            .data(endian, bytes)
            .map_err(|()| LoadError::Damaged("a segment lies outside the file".to_owned()))?;
        if data.len() as u64 > segment.p_memsz(endian) {
            return Err(LoadError::Damaged(
                "a segment is larger in the file than in memory".to_owned(),
            ));
        }
        contents.push((segment.p_vaddr(endian), data));
    }
    let base = memory
        .alloc(end, "the code object")
        .map_err(|e| LoadError::Memory(e.to_string()))?;
    // From here on the image owns the allocation, so that every early return frees it.
    let image = Image {
        isa,
        file: bytes.to_vec(),
        bias: base,
        code: OnceLock::new(),
        memory: memory.clone(),
        allocation: Some(base),
    };
    for (vaddr, data) in contents {
        memory
            .write_bytes(base + vaddr, data)
            .map_err(|e| LoadError::Damaged(e.to_string()))?;
    }
    relocate(&file, base, memory)?;

    let mut symbols = HashMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.is_undefined() || symbol.address() > end {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        if !name.is_empty() {
            symbols.insert(
                name.to_owned(),
                (base + symbol.address(), symbol.size().min(end)),
            );
        }
    }
    let has_line_info = file
        .section_by_name(".debug_line")
        .is_some_and(|s| s.size() > 0);
    let image = Arc::new(image);
    let mut kernels = BTreeMap::new();
    for mut kernel in metadata.kernels {
        let Some(&(address, size)) = symbols.get(&kernel.descriptor_symbol) else {
            return Err(LoadError::Damaged(format!(
                "the kernel {} has no descriptor {}",
                kernel.name, kernel.descriptor_symbol
            )));
        };
        let mut bytes = [0u8; 64];
        if size < 64 || memory.read_bytes(address, &mut bytes).is_err() {
            return Err(LoadError::Damaged(format!(
                "the descriptor of kernel {} is cut off",
                kernel.name
            )));
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let entry_offset = u64::from(word(16)) | u64::from(word(20)) << 32;
        let descriptor = Descriptor {
            rsrc1: word(48),
            rsrc2: word(52),
            properties: word(56) as u16,
            kernarg_preload: (word(56) >> 16) as u16,
            entry: (address - base).wrapping_add(entry_offset),
        };
        kernel.group_segment_fixed_size = kernel.group_segment_fixed_size.max(word(0));
        kernel.private_segment_fixed_size = kernel.private_segment_fixed_size.max(word(4));
        kernels.insert(
            kernel.name.clone(),
            Arc::new(kernel.finish(descriptor, has_line_info, &image)),
        );
    }
    Ok(Module {
        image,
        kernels,
        symbols,
    })
}

fn relocate(
    file: &object::read::elf::ElfFile64<'_>,
    base: u64,
    memory: &Memory,
) -> Result<(), LoadError> {
    let Some(relocations) = file.dynamic_relocations() else {
        return Ok(());
    };
    let table = file.dynamic_symbol_table();
    for (offset, relocation) in relocations {
        let object::RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let symbol = match relocation.target() {
            object::RelocationTarget::Symbol(index) => {
                let symbol = table
                    .and_then(|t| t.symbol_by_index(index).ok())
                    .ok_or_else(|| LoadError::Damaged("a relocation names no symbol".to_owned()))?;
                if symbol.is_undefined() && !symbol.is_weak() {
                    return Err(LoadError::Undefined(
                        symbol.name().unwrap_or("?").to_owned(),
                    ));
                }
                if symbol.is_undefined() {
                    0
                } else {
                    base.wrapping_add(symbol.address())
                }
            }
            _ => 0,
        };
        let addend = relocation.addend() as u64;
        let place = base.wrapping_add(offset);
        let value = symbol.wrapping_add(addend);
        // R_AMDGPU_*: the numbers are in LLVM's AMDGPU usage guide.
        let bytes = match r_type {
            1 | 6 => (value as u32).to_le_bytes().to_vec(),
            2 => ((value >> 32) as u32).to_le_bytes().to_vec(),
            3 => value.to_le_bytes().to_vec(),
            4 => (value.wrapping_sub(place) as u32).to_le_bytes().to_vec(),
            5 => value.wrapping_sub(place).to_le_bytes().to_vec(),
            13 => base.wrapping_add(addend).to_le_bytes().to_vec(),
            0 => continue,
            other => {
                return Err(LoadError::Damaged(format!(
                    "relocation type {other} is not known"
                )));
            }
        };
        memory
            .write_bytes(place, &bytes)
            .map_err(|_| LoadError::Damaged("a relocation lies outside the segments".to_owned()))?;
    }
    Ok(())
}

/// A kernel as the metadata note describes it.
#[derive(Default)]
struct KernelMetadata {
    name: String,
    descriptor_symbol: String,
    kernarg_size: u32,
    group_segment_fixed_size: u32,
    private_segment_fixed_size: u32,
    uses_dynamic_stack: bool,
    vgpr_count: u32,
    agpr_count: u32,
    sgpr_count: u32,
    vgpr_spill_count: u32,
    sgpr_spill_count: u32,
    max_flat_workgroup_size: u32,
    wavefront_size: u32,
    args: Vec<KernelArg>,
}

impl KernelMetadata {
    fn finish(self, descriptor: Descriptor, has_line_info: bool, image: &Arc<Image>) -> Kernel {
        Kernel {
            display_name: demangle(&self.name),
            name: self.name,
            kernarg_size: self.kernarg_size,
            group_segment_fixed_size: self.group_segment_fixed_size,
            private_segment_fixed_size: self.private_segment_fixed_size,
            uses_dynamic_stack: self.uses_dynamic_stack || descriptor.properties >> 11 & 1 == 1,
            vgpr_count: self.vgpr_count,
            agpr_count: self.agpr_count,
            sgpr_count: self.sgpr_count,
            vgpr_spill_count: self.vgpr_spill_count,
            sgpr_spill_count: self.sgpr_spill_count,
            max_flat_workgroup_size: self.max_flat_workgroup_size,
            wavefront_size: self.wavefront_size,
            args: self.args,
            has_line_info,
            descriptor,
            image: Arc::clone(image),
        }
    }
}

/// A C++ name for people; names that do not demangle stay as they are.
pub(crate) fn demangle(name: &str) -> String {
    addr2line::demangle_auto(Cow::Borrowed(name), Some(gimli::DW_LANG_C_plus_plus)).into_owned()
}

#[derive(Default)]
struct Metadata {
    target: Option<String>,
    kernels: Vec<KernelMetadata>,
}

/// The AMDGPU metadata note (`NT_AMDGPU_METADATA`, MessagePack).
fn metadata(header: &Elf, endian: object::Endianness, bytes: &[u8]) -> Result<Metadata, LoadError> {
    const NT_AMDGPU_METADATA: u32 = 32;
    let damaged = |e: object::Error| LoadError::Damaged(e.to_string());
    let mut found: Option<&[u8]> = None;
    for segment in header.program_headers(endian, bytes).map_err(damaged)? {
        let Some(mut notes) = segment.notes(endian, bytes).map_err(damaged)? else {
            continue;
        };
        while let Some(note) = notes.next().map_err(damaged)? {
            if note.name() == b"AMDGPU" && note.n_type(endian) == NT_AMDGPU_METADATA {
                found = Some(note.desc());
            }
        }
    }
    let Some(mut desc) = found else {
        return Err(LoadError::Damaged(
            "it has no AMDGPU metadata note, so its kernels are unknown".to_owned(),
        ));
    };
    let value = rmpv::decode::read_value_with_max_depth(&mut desc, 32)
        .map_err(|e| LoadError::Damaged(format!("its metadata note cannot be read: {e}")))?;
    let mut metadata = Metadata {
        target: text(&value, "amdhsa.target"),
        kernels: Vec::new(),
    };
    let kernels = get(&value, "amdhsa.kernels").and_then(rmpv::Value::as_array);
    for kernel in kernels.into_iter().flatten() {
        let (Some(name), Some(symbol)) = (text(kernel, ".name"), text(kernel, ".symbol")) else {
            return Err(LoadError::Damaged("a kernel has no name".to_owned()));
        };
        let args = get(kernel, ".args").and_then(rmpv::Value::as_array);
        let args = args
            .into_iter()
            .flatten()
            .map(|arg| KernelArg {
                name: text(arg, ".name"),
                type_name: text(arg, ".type_name"),
                offset: number(arg, ".offset"),
                size: number(arg, ".size"),
                value_kind: text(arg, ".value_kind").unwrap_or_default(),
            })
            .collect();
        metadata.kernels.push(KernelMetadata {
            name,
            descriptor_symbol: symbol,
            kernarg_size: number(kernel, ".kernarg_segment_size"),
            group_segment_fixed_size: number(kernel, ".group_segment_fixed_size"),
            private_segment_fixed_size: number(kernel, ".private_segment_fixed_size"),
            uses_dynamic_stack: get(kernel, ".uses_dynamic_stack")
                .and_then(rmpv::Value::as_bool)
                .unwrap_or(false),
            vgpr_count: number(kernel, ".vgpr_count"),
            agpr_count: number(kernel, ".agpr_count"),
            sgpr_count: number(kernel, ".sgpr_count"),
            vgpr_spill_count: number(kernel, ".vgpr_spill_count"),
            sgpr_spill_count: number(kernel, ".sgpr_spill_count"),
            max_flat_workgroup_size: number(kernel, ".max_flat_workgroup_size"),
            wavefront_size: number(kernel, ".wavefront_size"),
            args,
        });
    }
    Ok(metadata)
}

fn get<'a>(map: &'a rmpv::Value, key: &str) -> Option<&'a rmpv::Value> {
    map.as_map()?
        .iter()
        .find(|(k, _)| k.as_str() == Some(key))
        .map(|(_, v)| v)
}

fn text(map: &rmpv::Value, key: &str) -> Option<String> {
    get(map, key)?.as_str().map(str::to_owned)
}

fn number(map: &rmpv::Value, key: &str) -> u32 {
    get(map, key)
        .and_then(rmpv::Value::as_u64)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0)
}
