//! What the gate must know of a code object: its kernels with their resources and arguments, its device
//! globals, and the bytes of a kernel's instructions.
//!
//! Layout: an AMDGPU ELF with an `NT_AMDGPU_METADATA` note (type 32) in MessagePack, as LLVM's "User Guide for
//! AMDGPU Backend", section "Code Object Metadata", describes it.

use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use rmpv::Value;

/// One kernel of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Mangled name, as the module API wants it.
    pub symbol: String,
    /// Static LDS of a workgroup, bytes (`.group_segment_fixed_size`).
    pub lds: u32,
    /// Scratch of a lane, bytes (`.private_segment_fixed_size`).
    pub scratch: u32,
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// The largest workgroup that the compiler allowed for, threads.
    pub max_block: u32,
    /// Lanes of a wavefront.
    pub wavefront: u32,
    /// The arguments that the source names; hidden ones are left out.
    pub args: Vec<Arg>,
    /// The kernel's instructions.
    pub code: Vec<u8>,
}

/// One argument in the kernel argument block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Where it starts, bytes.
    pub offset: u32,
    /// How long it is, bytes.
    pub size: u32,
    /// Whether it is a pointer to global memory.
    pub pointer: bool,
}

/// A code object, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeObject {
    /// All kernels, in the order of the metadata.
    pub kernels: Vec<Kernel>,
    /// Names of writable device variables, sorted.
    pub globals: Vec<String>,
    /// Names of functions that it calls but does not hold, sorted.
    pub imports: Vec<String>,
}

impl CodeObject {
    /// Read an ELF code object.
    ///
    /// # Errors
    /// One sentence when it is not one.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let elf = ElfFile64::<LittleEndian>::parse(bytes)
            .map_err(|e| format!("the compiler's output is not a code object: {e}"))?;
        let metadata = metadata(&elf).ok_or("the code object has no kernel metadata note")?;
        let kernels = field(&metadata, "amdhsa.kernels")
            .and_then(Value::as_array)
            .map(|all| all.iter().filter_map(|k| kernel(k, &elf)).collect())
            .unwrap_or_default();
        let mut globals: Vec<String> = elf
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Data && s.size() > 0)
            .filter(|s| {
                s.section_index()
                    .and_then(|i| elf.section_by_index(i).ok())
                    .is_some_and(|section| {
                        matches!(
                            section.kind(),
                            SectionKind::Data | SectionKind::UninitializedData
                        )
                    })
            })
            .filter_map(|s| s.name().ok().map(str::to_owned))
            .filter(|name| !name.ends_with(".kd") && !name.contains("__HIP_Coordinates"))
            .collect();
        globals.sort();
        globals.dedup();
        let mut imports: Vec<String> = elf
            .symbols()
            .chain(elf.dynamic_symbols())
            .filter(|s| s.is_undefined())
            .filter_map(|s| s.name().ok().map(str::to_owned))
            .filter(|name| !name.is_empty())
            .collect();
        imports.sort();
        imports.dedup();
        Ok(Self {
            kernels,
            globals,
            imports,
        })
    }

    /// The kernel with this mangled name.
    pub fn kernel(&self, symbol: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.symbol == symbol)
    }
}

fn metadata(elf: &ElfFile64<LittleEndian>) -> Option<Value> {
    let endian = LittleEndian;
    let header = elf.elf_header();
    let sections = header.sections(endian, elf.data()).ok()?;
    for section in sections.iter() {
        use object::read::elf::SectionHeader;
        let Ok(Some(mut notes)) = section.notes(endian, elf.data()) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == 32 && note.name() == b"AMDGPU" {
                return rmpv::decode::read_value(&mut note.desc()).ok();
            }
        }
    }
    None
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?
        .iter()
        .find(|(k, _)| k.as_str() == Some(name))
        .map(|(_, v)| v)
}

fn kernel(value: &Value, elf: &ElfFile64<LittleEndian>) -> Option<Kernel> {
    let number = |name: &str| {
        field(value, name)
            .and_then(Value::as_u64)
            .and_then(|v| u32::try_from(v).ok())
    };
    let symbol = field(value, ".name")?.as_str()?.to_owned();
    let args = field(value, ".args")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(argument).collect())
        .unwrap_or_default();
    let code = elf
        .symbols()
        .find(|s| s.name() == Ok(&symbol))
        .and_then(|s| {
            let section = elf.section_by_index(s.section_index()?).ok()?;
            section.data_range(s.address(), s.size()).ok()?
        })
        .map(<[u8]>::to_vec)
        .unwrap_or_default();
    Some(Kernel {
        lds: number(".group_segment_fixed_size")?,
        scratch: number(".private_segment_fixed_size")?,
        vgprs: number(".vgpr_count")?,
        sgprs: number(".sgpr_count")?,
        max_block: number(".max_flat_workgroup_size")?,
        wavefront: number(".wavefront_size")?,
        symbol,
        args,
        code,
    })
}

fn argument(value: &Value) -> Option<Arg> {
    let number = |name: &str| {
        field(value, name)
            .and_then(Value::as_u64)
            .and_then(|v| u32::try_from(v).ok())
    };
    let kind = field(value, ".value_kind")?.as_str()?;
    if kind.starts_with("hidden_") {
        return None;
    }
    Some(Arg {
        offset: number(".offset")?,
        size: number(".size")?,
        pointer: kind == "global_buffer",
    })
}

/// A mangled kernel name taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Last part of the qualified name, without template arguments: what the source calls the kernel.
    pub name: String,
    /// The whole demangled name, for messages.
    pub full: String,
    /// Parameter types as the demangler prints them, such as `float const*`.
    pub params: Vec<String>,
}

/// Take a mangled name apart; a name that is not mangled (`extern "C"`) has no parameter types.
pub fn signature(symbol: &str) -> Signature {
    let full = cpp_demangle::Symbol::new(symbol)
        .ok()
        .and_then(|s| s.demangle().ok())
        .unwrap_or_else(|| symbol.to_owned());
    let open = top_level_parenthesis(&full).unwrap_or(full.len());
    let head = &full[..open];
    let params = full
        .get(open + 1..)
        .and_then(|rest| rest.rfind(')').map(|end| &rest[..end]))
        .map(split_arguments)
        .unwrap_or_default();
    Signature {
        name: last_name(head).to_owned(),
        params,
        full,
    }
}

fn top_level_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    let mut rest = text;
    let mut at = 0;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("(anonymous namespace)") {
            at += "(anonymous namespace)".len();
            rest = &text[at..];
            continue;
        }
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => return Some(at),
            _ => {}
        }
        at += c.len_utf8();
        rest = &text[at..];
    }
    None
}

/// `void q::k<float, 4>` gives `k`.
fn last_name(head: &str) -> &str {
    let head = head.trim_end();
    let mut end = head.len();
    if head.ends_with('>') {
        let mut depth = 0i32;
        for (i, c) in head.char_indices().rev() {
            match c {
                '>' => depth += 1,
                '<' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = i;
                break;
            }
        }
    }
    let start = head[..end]
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
        .map_or(0, |i| {
            i + head[i..].chars().next().map_or(1, char::len_utf8)
        });
    &head[start..end]
}

fn split_arguments(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut depth = 0i32;
    let mut start = 0;
    for (i, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim().to_owned());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() && last != "void" {
        parts.push(last.to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let cases = [
            (
                "_ZN1q2k1EPKfPfjf",
                "k1",
                vec!["float const*", "float*", "unsigned int", "float"],
            ),
            (
                "_Z2k2IfEvPKT_P6__halfP15HIP_vector_typeIfLj4EEi",
                "k2",
                vec![
                    "float const*",
                    "__half*",
                    "HIP_vector_type<float, (unsigned int)4>*",
                    "int",
                ],
            ),
            ("plain_c", "plain_c", vec![]),
            ("_ZN12_GLOBAL__N_11kILi4EEEvPDF16_", "k", vec!["_Float16*"]),
            ("_Z1kv", "k", vec![]),
        ];
        for (symbol, name, params) in cases {
            let got = signature(symbol);
            assert_eq!(got.name, name, "{symbol}: {got:?}");
            assert_eq!(got.params, params, "{symbol}: {got:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_name_and_no_bytes_make_it_panic(name in "\\PC{0,40}", bytes in proptest::collection::vec(0u8..=255, 0..200)) {
            let _ = signature(&name);
            let _ = signature(&format!("_Z{name}"));
            let _ = CodeObject::read(&bytes);
        }
    }
}
