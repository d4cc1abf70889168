//! Decoded code of one code object: instructions in a row, and where each comes from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hipsmith_process::Cancel;
use object::{Object as _, ObjectSection as _};

use super::lds::{self, Lds};
use super::salu::{self, Salu, Source};
use super::smem::{self, Smem};
use super::vmem::{self, Space, Vmem};
use crate::fault::SourceLine;
use crate::isa::{self, Instruction, Operand};
use crate::object::Image;
use crate::valu::{self, ValuInst};

/// What a branch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    Scc(bool),
    /// Taken when the mask is zero (`true`) or not.
    VccZero(bool),
    ExecZero(bool),
}

/// One decoded instruction.
#[derive(Debug)]
pub(crate) enum Op {
    Valu(ValuInst),
    /// A vector instruction under `s_set_gpr_idx_on`, with the enabled operands (1, 2, 4: sources, 8: destination).
    Indexed(Box<Instruction>, u8),
    Salu(Salu),
    Smem(Smem),
    Lds(Lds),
    Vmem(Vmem),
    /// Target instruction.
    Branch(Condition, u32),
    /// Return address register pair and target instruction.
    Call(u8, u32),
    /// The address after this instruction.
    GetPc(u8, u64),
    SetPc(Source),
    /// Return address register pair, its value, and the target.
    SwapPc(u8, u64, Source),
    Wait {
        vm: u32,
        lgkm: u32,
    },
    Barrier,
    End,
    /// Destination, register id, bit offset and bits.
    GetReg(u8, u8, u8, u8),
    SetReg(Source, u8, u8, u8),
    Time(u8),
    IndexOn(Source, u8),
    IndexOff,
    IndexSet(Source),
    Trap(u8),
    /// `s_sendmsg`: a doorbell may have been rung.
    Message,
    /// No effect that is simulated: cache control, priorities.
    Nop,
    /// Why it is not supported.
    Unknown(String),
}

/// How an instruction is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Valu,
    Matrix,
    Salu,
    Smem,
    Lds,
    /// Whether it reads.
    Vmem(bool),
    Flat(bool),
    Branch,
    Barrier,
    Other,
}

/// How fast the vector ALU issues an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// By its throughput class.
    Vector(valu::Rate),
    /// 64-bit shifts: half rate, whatever the target's double precision does.
    Wide,
    /// Operations of one matrix instruction, and the type they are done in.
    Matrix(f64, Matrix),
}

/// Type of a matrix instruction's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matrix {
    F32,
    Tf32,
    F16,
    Bf16,
    I8,
    F64,
    F8,
}

/// An instruction with what the counters and messages need.
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) rate: Rate,
    /// Floating-point operations per active lane.
    pub(crate) flops: u8,
    /// Index into [`Code::lines`], or `u32::MAX`.
    pub(crate) line: u32,
    /// Column of that line, counted from 1; 0 when not known.
    pub(crate) column: u32,
    pub(crate) address: u64,
    pub(crate) text: Box<str>,
}

/// What can be reached from a kernel's entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Vector and accumulation registers needed.
    pub(crate) vgprs: usize,
    pub(crate) agprs: usize,
    /// Whether workgroups can influence each other through atomics, volatile loads or scalar stores.
    pub(crate) ordered: bool,
}

/// All instructions of a code object.
pub(crate) struct Code {
    pub(crate) insts: Vec<Inst>,
    pub(crate) lines: Vec<SourceLine>,
    first: u64,
    /// Instruction index by dword from `first`; `u32::MAX` inside instructions.
    index: Vec<u32>,
    /// Registers that each instruction needs.
    needs: Vec<(u16, u16)>,
}

impl Code {
    /// Disassemble and decode the image.
    pub(crate) fn disassemble(image: &Image, cancel: &Cancel) -> Result<Self, String> {
        let text = isa::disassemble(&image.file, &image.isa, cancel)?;
        let parsed: Vec<Instruction> = text.lines().filter_map(isa::parse_line).collect();
        let lines = line_table(&image.file, parsed.iter().map(|i| i.address));
        Self::build(parsed, image.bias, lines)
    }

    /// Decode instructions in a row. `bias` is what turns code object addresses into device addresses;
    /// `lines` are source lines in the order of the instructions.
    pub(crate) fn build(
        mut parsed: Vec<Instruction>,
        bias: u64,
        lines: Vec<Option<Place>>,
    ) -> Result<Self, String> {
        let mut lines = lines.into_iter();
        let mut tagged: Vec<(Instruction, Option<Place>)> = parsed
            .drain(..)
            .map(|i| (i, lines.next().flatten()))
            .collect();
        tagged.sort_by_key(|(i, _)| i.address);
        tagged.dedup_by_key(|(i, _)| i.address);
        let (Some((head, _)), Some((tail, _))) = (tagged.first(), tagged.last()) else {
            return Err("the disassembler found no instructions".to_owned());
        };
        let first = head.address;
        let span = tail.address + tail.size() - first;
        if span > 1 << 30 || first % 4 != 0 {
            return Err("the disassembler's addresses are absurd".to_owned());
        }
        let mut index = vec![u32::MAX; (span / 4) as usize + 1];
        // A gap in the listing must not be fallen through.
        let mut rows: Vec<(Option<Instruction>, Option<Place>, u64)> = Vec::new();
        for (inst, line) in tagged {
            if let Some((Some(last), _, _)) = rows.last()
                && last.address + last.size() != inst.address
            {
                let hole = last.address + last.size();
                rows.push((None, None, hole));
            }
            let at = inst.address;
            if at % 4 == 0 {
                index[((at - first) / 4) as usize] = rows.len() as u32;
            }
            rows.push((Some(inst), line, at));
        }
        rows.push((None, None, first + span));
        let target = |address: u64| -> Option<u32> {
            let offset = address.checked_sub(first)?;
            (offset % 4 == 0)
                .then(|| index.get((offset / 4) as usize))
                .flatten()
                .copied()
                .filter(|i| *i != u32::MAX)
        };
        let mut table: Vec<SourceLine> = Vec::new();
        let mut known: HashMap<SourceLine, u32> = HashMap::new();
        let mut insts = Vec::with_capacity(rows.len());
        let mut needs = Vec::with_capacity(rows.len());
        let mut indexing = 0u8;
        for (inst, line, address) in rows {
            let (line, column) = line.map_or((None, 0), |(line, column)| (Some(line), column));
            let line = match line {
                Some(line) => *known.entry(line.clone()).or_insert_with(|| {
                    table.push(line);
                    table.len() as u32 - 1
                }),
                None => u32::MAX,
            };
            let Some(inst) = inst else {
                needs.push((0, 0));
                insts.push(Inst {
                    op: Op::Unknown("control ran into bytes that are no instruction".to_owned()),
                    class: Class::Other,
                    rate: Rate::Vector(valu::Rate::Full),
                    flops: 0,
                    line,
                    column: 0,
                    address,
                    text: "(no instruction)".into(),
                });
                continue;
            };
            needs.push(registers(&inst));
            let op = decode(&inst, bias, &target, indexing).unwrap_or_else(Op::Unknown);
            match &op {
                Op::IndexOn(_, mode) => indexing = *mode,
                Op::IndexOff | Op::End | Op::SetPc(_) => indexing = 0,
                _ => {}
            }
            let (rate, flops) = rate(&op, &inst.mnemonic);
            insts.push(Inst {
                class: classify(&op, &inst.mnemonic),
                rate,
                flops,
                op,
                line,
                column,
                address,
                text: inst.text.into(),
            });
        }
        Ok(Self {
            insts,
            lines: table,
            first,
            index,
            needs,
        })
    }

    /// Index of the instruction at a code object address.
    pub(crate) fn at(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(self.first)?;
        if offset % 4 != 0 {
            return None;
        }
        let index = *self.index.get(usize::try_from(offset / 4).ok()?)?;
        (index != u32::MAX).then_some(index)
    }

    /// Mnemonics that are not implemented, and how often each occurs.
    pub(crate) fn unimplemented(&self) -> BTreeMap<String, usize> {
        let mut missing = BTreeMap::new();
        for inst in &self.insts {
            if let Op::Unknown(why) = &inst.op
                && &*inst.text != "(no instruction)"
            {
                let name = inst.text.split(' ').next().unwrap_or_default();
                *missing.entry(format!("{name}: {why}")).or_insert(0) += 1;
            }
        }
        missing
    }

    /// What the code reachable from `entry` needs. With calls through registers, everything is reachable.
    pub(crate) fn reach(&self, entry: u32) -> Reach {
        let mut seen = vec![false; self.insts.len()];
        let mut open = vec![entry];
        let mut all = false;
        while let Some(at) = open.pop() {
            let at = at as usize;
            if at >= seen.len() || seen[at] {
                continue;
            }
            seen[at] = true;
            let next = at as u32 + 1;
            match &self.insts[at].op {
                Op::Branch(Condition::Always, to) => open.push(*to),
                Op::Branch(_, to) | Op::Call(_, to) => open.extend([*to, next]),
                Op::End | Op::Unknown(_) => {}
                Op::SetPc(_) | Op::SwapPc(..) => {
                    all = true;
                    break;
                }
                _ => open.push(next),
            }
        }
        let mut reach = Reach::default();
        for (at, inst) in self.insts.iter().enumerate() {
            if !(all || seen[at]) {
                continue;
            }
            reach.vgprs = reach.vgprs.max(usize::from(self.needs[at].0));
            reach.agprs = reach.agprs.max(usize::from(self.needs[at].1));
            reach.ordered |= match &inst.op {
                Op::Vmem(vmem) => vmem.communicates(),
                Op::Smem(smem) => smem.is_store(),
                _ => false,
            };
        }
        reach
    }
}

/// Vector and accumulation registers that an instruction names, as counts.
fn registers(inst: &Instruction) -> (u16, u16) {
    let mut needs = (0, 0);
    for operand in &inst.operands {
        match operand {
            Operand::Vgpr { first, count } => needs.0 = needs.0.max(first + u16::from(*count)),
            Operand::Agpr { first, count } => needs.1 = needs.1.max(first + u16::from(*count)),
            _ => {}
        }
    }
    needs
}

fn decode(
    inst: &Instruction,
    bias: u64,
    target: &dyn Fn(u64) -> Option<u32>,
    indexing: u8,
) -> Result<Op, String> {
    let name = inst.mnemonic.as_str();
    if name == ".long" {
        return Err(
            "the disassembler does not know this encoding; set HIPSMITH_OBJDUMP to the one of the compiler that made it"
                .to_owned(),
        );
    }
    if name.starts_with("v_") {
        if name == "v_nop" {
            return Ok(Op::Nop);
        }
        if indexing != 0 {
            return Ok(Op::Indexed(Box::new(inst.clone()), indexing));
        }
        return match valu::decode(name, &inst.operands, &inst.modifiers) {
            Some(Ok(valu)) => Ok(Op::Valu(valu)),
            Some(Err(why)) => Err(why),
            None => Err("it is not implemented yet".to_owned()),
        };
    }
    if name.starts_with("s_") {
        if let Some(salu) = salu::decode(inst) {
            return salu.map(Op::Salu);
        }
        if let Some(smem) = smem::decode(inst) {
            return smem.map(Op::Smem);
        }
        return control(inst, bias, target);
    }
    if name.starts_with("ds_")
        && let Some(lds) = lds::decode(inst)
    {
        return lds.map(Op::Lds);
    }
    if let Some(vmem) = vmem::decode(inst) {
        return vmem.map(Op::Vmem);
    }
    if name.starts_with("buffer_wb")
        || name.starts_with("buffer_inv")
        || name.starts_with("buffer_gl")
    {
        return Ok(Op::Nop);
    }
    Err("it is not implemented yet".to_owned())
}

/// Program control, waiting and hardware registers.
fn control(
    inst: &Instruction,
    bias: u64,
    target: &dyn Fn(u64) -> Option<u32>,
) -> Result<Op, String> {
    let imm = inst.simm16();
    let next = inst.address + inst.size();
    let jump = || {
        let to = (inst.address + 4).wrapping_add_signed(i64::from(imm) * 4);
        target(to).ok_or_else(|| format!("its target {to:#x} is no instruction"))
    };
    let dst = || match inst.operands.first() {
        Some(Operand::Sgpr { first, .. }) => Ok(*first),
        _ => Err("its destination is no scalar register".to_owned()),
    };
    let source = |n: usize| {
        inst.operands
            .get(n)
            .ok_or_else(|| "an operand is missing".to_owned())
            .and_then(Source::new)
    };
    // hwreg(id, offset, size) as the immediate encodes it.
    let field = {
        let bits = imm as u16;
        (
            (bits & 63) as u8,
            (bits >> 6 & 31) as u8,
            (bits >> 11) as u8 + 1,
        )
    };
    Ok(match inst.mnemonic.as_str() {
        "s_branch" => Op::Branch(Condition::Always, jump()?),
        "s_cbranch_scc0" => Op::Branch(Condition::Scc(false), jump()?),
        "s_cbranch_scc1" => Op::Branch(Condition::Scc(true), jump()?),
        "s_cbranch_vccz" => Op::Branch(Condition::VccZero(true), jump()?),
        "s_cbranch_vccnz" => Op::Branch(Condition::VccZero(false), jump()?),
        "s_cbranch_execz" => Op::Branch(Condition::ExecZero(true), jump()?),
        "s_cbranch_execnz" => Op::Branch(Condition::ExecZero(false), jump()?),
        "s_call_b64" => Op::Call(dst()?, jump()?),
        "s_getpc_b64" => Op::GetPc(dst()?, bias.wrapping_add(next)),
        "s_setpc_b64" => Op::SetPc(source(0)?),
        "s_swappc_b64" => Op::SwapPc(dst()?, bias.wrapping_add(next), source(1)?),
        "s_waitcnt" => {
            let bits = u32::from(imm as u16);
            Op::Wait {
                vm: bits & 15 | bits >> 14 << 4,
                lgkm: bits >> 8 & 15,
            }
        }
        "s_barrier" => Op::Barrier,
        "s_endpgm" | "s_endpgm_saved" => Op::End,
        "s_getreg_b32" => Op::GetReg(dst()?, field.0, field.1, field.2),
        "s_setreg_b32" => Op::SetReg(
            // The register is printed as hwreg(..), which is no operand here.
            source(0)?,
            field.0,
            field.1,
            field.2,
        ),
        "s_setreg_imm32_b32" => {
            let value = inst.words.get(1).copied().unwrap_or(0);
            Op::SetReg(
                Source::Constant(value, u64::from(value)),
                field.0,
                field.1,
                field.2,
            )
        }
        "s_memtime" | "s_memrealtime" => Op::Time(dst()?),
        "s_set_gpr_idx_on" => {
            // Encoded as SOPC: the second source field holds the mode bits.
            let mode = inst.words.first().map_or(0, |w| (w >> 8) as u8) & 15;
            Op::IndexOn(source(0)?, mode)
        }
        "s_set_gpr_idx_off" => Op::IndexOff,
        "s_set_gpr_idx_idx" => Op::IndexSet(source(0)?),
        "s_trap" => Op::Trap(imm as u8),
        "s_sendmsg" => Op::Message,
        "s_nop"
        | "s_sleep"
        | "s_setprio"
        | "s_wakeup"
        | "s_icache_inv"
        | "s_dcache_wb"
        | "s_dcache_inv"
        | "s_dcache_wb_vol"
        | "s_dcache_inv_vol"
        | "s_incperflevel"
        | "s_decperflevel"
        | "s_ttracedata"
        | "s_inst_prefetch"
        | "s_code_end"
        | "s_sethalt"
        | "s_dcache_discard"
        | "s_dcache_discard_x2"
        | "s_atc_probe"
        | "s_atc_probe_buffer" => Op::Nop,
        _ => return Err("it is not implemented yet".to_owned()),
    })
}

fn classify(op: &Op, mnemonic: &str) -> Class {
    match op {
        Op::Valu(_) | Op::Indexed(..) => {
            if mnemonic.contains("mfma") || mnemonic.contains("mmac") {
                Class::Matrix
            } else {
                Class::Valu
            }
        }
        Op::Salu(_)
        | Op::GetPc(..)
        | Op::GetReg(..)
        | Op::SetReg(..)
        | Op::IndexOn(..)
        | Op::IndexSet(_) => Class::Salu,
        Op::Smem(_) | Op::Time(_) => Class::Smem,
        Op::Lds(_) => Class::Lds,
        Op::Vmem(v) if v.space == Space::Flat => Class::Flat(v.is_load()),
        Op::Vmem(v) => Class::Vmem(v.is_load()),
        Op::Branch(..) | Op::Call(..) | Op::SetPc(_) | Op::SwapPc(..) => Class::Branch,
        Op::Barrier => Class::Barrier,
        _ => Class::Other,
    }
}

/// Issue rate and floating-point operations per lane of a vector ALU instruction.
fn rate(op: &Op, name: &str) -> (Rate, u8) {
    if name.contains("mfma") || name.contains("mmac") {
        return (matrix(name), 0);
    }
    match op {
        Op::Valu(valu) => {
            let cost = valu.cost();
            let flops = if cost.float { cost.ops } else { 0 };
            if cost.rate == valu::Rate::Double && !name.contains("f64") {
                (Rate::Wide, flops)
            } else {
                (Rate::Vector(cost.rate), flops)
            }
        }
        _ => (Rate::Vector(valu::Rate::Full), 0),
    }
}

/// `v_mfma_f32_32x32x8f16`, `v_mfma_f32_32x32x4_2b_f32`, `v_mmac_f32_16x16x16_f16`: operations and input type.
fn matrix(name: &str) -> Rate {
    let parts: Vec<&str> = name.split('_').collect();
    let shape = parts
        .iter()
        .find(|p| p.contains('x') && p.as_bytes()[0].is_ascii_digit());
    let Some(shape) = shape else {
        return Rate::Vector(valu::Rate::Full);
    };
    let mut numbers = shape.split('x').map(|n| {
        let digits: String = n.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<f64>().unwrap_or(1.0)
    });
    let (m, n, k) = (
        numbers.next().unwrap_or(1.0),
        numbers.next().unwrap_or(1.0),
        numbers.next().unwrap_or(1.0),
    );
    // `2b`: that many independent blocks; older names imply them by lanes: 64 lanes hold m*k*blocks/… inputs.
    let blocks = parts
        .iter()
        .find_map(|p| p.strip_suffix('b').and_then(|b| b.parse::<f64>().ok()))
        .unwrap_or(1.0);
    let tail = &name[name.find(shape).unwrap_or(0)..];
    let kind = if tail.contains("bf16") {
        Matrix::Bf16
    } else if tail.contains("f16") {
        Matrix::F16
    } else if tail.contains("f64") {
        Matrix::F64
    } else if tail.contains("i8") || tail.contains("u8") || tail.contains("i4") {
        Matrix::I8
    } else if tail.contains("xf32") || tail.contains("tf32") {
        Matrix::Tf32
    } else if tail.contains("fp8") || tail.contains("bf8") {
        Matrix::F8
    } else {
        Matrix::F32
    };
    Rate::Matrix(2.0 * m * n * k * blocks, kind)
}

/// A source line and the column in it, counted from 1; 0 when not known.
type Place = (SourceLine, u32);

/// Source lines of addresses, from the line table. Code from system headers is charged to the line that
/// called it, as far as inlining is recorded.
fn line_table(file: &[u8], addresses: impl Iterator<Item = u64>) -> Vec<Option<Place>> {
    let Some(context) = debug_context(file) else {
        return Vec::new();
    };
    let mut files: HashMap<String, Arc<str>> = HashMap::new();
    addresses
        .map(|address| {
            let mut frames = context.find_frames(address).skip_all_loads().ok()?;
            let mut best: Option<(String, u32, u32)> = None;
            while let Ok(Some(frame)) = frames.next() {
                let Some(location) = frame.location else {
                    continue;
                };
                let (Some(file), Some(line)) = (location.file, location.line) else {
                    continue;
                };
                if line == 0 {
                    continue;
                }
                let system = is_system(file);
                if best.is_none() || !system {
                    best = Some((file.to_owned(), line, location.column.unwrap_or(0)));
                }
                if !system {
                    break;
                }
            }
            let (file, line, column) = best?;
            let file = files
                .entry(file)
                .or_insert_with_key(|f| Arc::from(f.as_str()))
                .clone();
            Some((SourceLine { file, line }, column))
        })
        .collect()
}

/// Whether a file belongs to the toolchain rather than to the user.
fn is_system(file: &str) -> bool {
    ["/usr/", "/opt/rocm", "/opt/dtk"]
        .iter()
        .any(|p| file.starts_with(p))
        || file.contains("/lib/clang/")
        || file.contains("/include/hip/")
}

type Reader = gimli::EndianArcSlice<gimli::RunTimeEndian>;

fn debug_context(file: &[u8]) -> Option<addr2line::Context<Reader>> {
    let object = object::File::parse(file).ok()?;
    object.section_by_name(".debug_line")?;
    let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = object
            .section_by_name(id.name())
            .and_then(|s| s.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(gimli::EndianArcSlice::new(
            Arc::from(&*data),
            gimli::RunTimeEndian::Little,
        ))
    };
    let dwarf = gimli::Dwarf::load(load).ok()?;
    addr2line::Context::from_dwarf(dwarf).ok()
}
