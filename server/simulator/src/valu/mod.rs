//! Vector ALU instructions: one function per operation, chosen once at decode, run for 64 lanes.
//!
//! Semantics follow AMD's published ISA documents (Vega 7 nm, CDNA). All arithmetic rounds to nearest even; the
//! loader must refuse other round modes. Lanes outside EXEC keep their destination; mask results are 0 there.

mod cost;
mod dpp;
mod float;
mod lane;
mod result;
mod sdwa;
mod source;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;

#[cfg(test)]
mod tests;

pub use cost::{Cost, Rate};

use crate::isa::{Modifiers, Operand, VCC_LO};
use crate::machine::Wave;
use dpp::Dpp;
use lane::{Kind, RunFn};
use result::Placement;
use sdwa::{Sdwa, Select};
use source::Source;

/// A decoded vector ALU instruction.
#[derive(Clone, Debug)]
pub struct ValuInst {
    exec: RunFn,
    src: [Source; 3],
    /// Carry-in, select mask or VCC.
    mask: Source,
    /// First destination register.
    dst: u16,
    /// Scalar destination.
    sdst: Option<u8>,
    /// Bit i: source i needs more than a plain read.
    cooked: u8,
    /// The result needs more than a plain write.
    dressed: bool,
    /// A compare that also writes EXEC.
    to_exec: bool,
    neg: u8,
    abs: u8,
    clamp: bool,
    omod: f32,
    placement: Placement,
    extra: Option<Box<Extra>>,
    vgprs: u16,
    cost: Cost,
}

/// The rarer parts of an instruction.
#[derive(Clone, Debug, Default)]
struct Extra {
    dpp: Option<Dpp>,
    sdwa: Option<Sdwa>,
    sext: u8,
    op_sel: u8,
    op_sel_hi: u8,
    neg_lo: u8,
    neg_hi: u8,
}

impl ValuInst {
    /// Execute for the lanes in `exec`.
    #[inline]
    pub fn execute(&self, wave: &mut Wave) {
        (self.exec)(self, wave);
    }

    /// Execute in the `s_set_gpr_idx_on` mode: `index` (M0 bits 7:0) is added to the vector registers of source 0,
    /// 1, 2 and the destination where bits 0, 1, 2 and 3 of `enable` are set.
    pub fn execute_indexed(&self, wave: &mut Wave, enable: u8, index: u8) {
        let mut moved = self.clone();
        for (i, s) in moved.src.iter_mut().enumerate() {
            if let Source::Row(r) = s
                && enable >> i & 1 != 0
            {
                *r = r.saturating_add(u16::from(index));
            }
        }
        if enable >> 3 & 1 != 0 {
            moved.dst = moved.dst.saturating_add(u16::from(index));
        }
        moved.execute(wave);
    }

    /// Vector registers that must exist for this instruction: one more than the highest it names.
    pub fn vgprs(&self) -> u16 {
        self.vgprs
    }

    /// Issue rate and arithmetic work.
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

/// How the printed operands map to destinations and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `dst, sources`
    Plain,
    /// `dst, sources` less the last one, which is the destination.
    Accumulate,
    /// `dst, sdst, sources`
    CarryOut,
    /// `dst, sdst, sources, mask`
    CarryInOut,
    /// `dst, sources, mask`
    Select,
    /// `dst, sources`, and VCC as the mask.
    FromVcc,
    /// `sdst, sources`
    ScalarResult,
    /// `dst, sources` with an accumulation register as destination.
    ToAcc,
    /// No operands.
    Nothing,
}

/// What an operation is, before operands.
#[derive(Clone, Copy)]
struct Spec {
    run: RunFn,
    src: [Kind; 3],
    dst: Kind,
    form: Form,
    /// What runs with `clamp` where the result is an integer.
    clamped: Option<RunFn>,
    /// 16-bit results keep the other half of the destination.
    keep: bool,
    placement: Placement,
    /// Destination dwords where the run function stores them itself.
    to_exec: bool,
}

impl Spec {
    fn new(run: RunFn, src: [Kind; 3], dst: Kind) -> Spec {
        Spec {
            run,
            src,
            dst,
            form: Form::Plain,
            clamped: None,
            keep: false,
            placement: Placement::Whole,
            to_exec: false,
        }
    }
    fn form(self, form: Form) -> Spec {
        Spec { form, ..self }
    }
    fn clamped(self, with: Spec) -> Spec {
        Spec {
            clamped: Some(with.run),
            ..self
        }
    }
    fn keep(self) -> Spec {
        Spec { keep: true, ..self }
    }
}

/// Encoding suffix of a mnemonic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Usual,
    Sdwa,
    Dpp,
}

fn split(mnemonic: &str) -> (&str, Encoding) {
    for (suffix, encoding) in [
        ("_e32", Encoding::Usual),
        ("_e64", Encoding::Usual),
        ("_sdwa", Encoding::Sdwa),
        ("_dpp", Encoding::Dpp),
    ] {
        if let Some(base) = mnemonic.strip_suffix(suffix) {
            return (base, encoding);
        }
    }
    (mnemonic, Encoding::Usual)
}

fn find(base: &str) -> Option<Spec> {
    vop2::find(base)
        .or_else(|| vop1::find(base))
        .or_else(|| vop3::find(base))
        .or_else(|| vop3p::find(base))
        .or_else(|| vopc::find(base))
}

/// Decode a vector ALU instruction. `None`: the mnemonic is not one of the vector ALU's.
///
/// # Errors
/// A sentence naming what about the operands or modifiers is not supported.
pub fn decode(
    mnemonic: &str,
    operands: &[Operand],
    modifiers: &Modifiers,
) -> Option<Result<ValuInst, String>> {
    let (base, encoding) = split(mnemonic.strip_prefix("v_")?);
    let spec = find(base)?;
    Some(
        build(base, &spec, encoding, operands, modifiers)
            .map_err(|what| format!("{mnemonic}: {what}")),
    )
}

/// Takes operands one after the other.
struct Operands<'a> {
    rest: &'a [Operand],
}

impl Operands<'_> {
    fn next(&mut self, what: &str) -> Result<Operand, String> {
        let (first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| format!("the {what} operand is missing"))?;
        self.rest = rest;
        Ok(*first)
    }
    fn vgpr(&mut self) -> Result<u16, String> {
        match self.next("destination")? {
            Operand::Vgpr { first, .. } => Ok(first),
            other => Err(format!(
                "the destination must be a vector register, not {other:?}"
            )),
        }
    }
    fn sgpr(&mut self) -> Result<Option<u8>, String> {
        match self.next("scalar destination")? {
            Operand::Sgpr { first, .. } if first < 127 => Ok(Some(first)),
            Operand::Special(crate::isa::Special::Null) => Ok(None),
            other => Err(format!(
                "the destination must be a scalar register, not {other:?}"
            )),
        }
    }
}

fn build(
    base: &str,
    spec: &Spec,
    encoding: Encoding,
    operands: &[Operand],
    m: &Modifiers,
) -> Result<ValuInst, String> {
    let mut inst = ValuInst {
        exec: spec.run,
        src: [Source::Const(0, 0); 3],
        mask: Source::Const(0, 0),
        dst: 0,
        sdst: None,
        cooked: 0,
        dressed: false,
        to_exec: spec.to_exec,
        neg: m.neg,
        abs: m.abs,
        clamp: m.clamp,
        omod: m.omod,
        placement: spec.placement,
        extra: None,
        vgprs: operands.iter().map(vector_end).max().unwrap_or(0),
        cost: cost::of(base),
    };
    let mut rest = Operands { rest: operands };
    match spec.form {
        Form::Nothing => {}
        Form::ScalarResult => inst.sdst = rest.sgpr()?,
        Form::ToAcc => match rest.next("destination")? {
            Operand::Agpr { first, .. } => inst.dst = first,
            other => {
                return Err(format!(
                    "the destination must be an accumulation register, not {other:?}"
                ));
            }
        },
        _ => inst.dst = rest.vgpr()?,
    }
    if matches!(spec.form, Form::CarryOut | Form::CarryInOut) {
        inst.sdst = rest.sgpr()?;
    }
    let count = spec.src.iter().filter(|&&k| k != Kind::None).count();
    for (n, &kind) in spec.src.iter().enumerate().take(count) {
        inst.src[n] = if spec.form == Form::Accumulate && n + 1 == count {
            Source::Row(inst.dst)
        } else {
            Source::resolve(&rest.next("source")?, kind)
        };
    }
    match spec.form {
        Form::CarryInOut | Form::Select => {
            inst.mask = Source::resolve(&rest.next("mask")?, Kind::B64);
        }
        Form::FromVcc => inst.mask = Source::Scalar(VCC_LO),
        _ => {}
    }
    if !rest.rest.is_empty() {
        return Err(format!(
            "{} operands are more than the operation takes",
            operands.len()
        ));
    }
    modify(&mut inst, spec, encoding, count, m)?;
    Ok(inst)
}

/// One more than the highest vector register of an operand.
fn vector_end(operand: &Operand) -> u16 {
    match operand {
        Operand::Vgpr { first, count } => first.saturating_add(u16::from(*count)),
        _ => 0,
    }
}

/// A list of bits such as `[0,1,1]`.
fn bits(name: &str, text: &str) -> Result<(u8, usize), String> {
    let mut value = 0u8;
    let mut len = 0;
    for part in text.trim_matches(['[', ']']).split(',') {
        match part.trim() {
            "0" => {}
            "1" if len < 8 => value |= 1 << len,
            _ => return Err(format!("{name}:{text} is not a list of bits")),
        }
        len += 1;
    }
    Ok((value, len))
}

fn modify(
    inst: &mut ValuInst,
    spec: &Spec,
    encoding: Encoding,
    count: usize,
    m: &Modifiers,
) -> Result<(), String> {
    let packed = spec.src.iter().any(|k| k.is_packed());
    let mut extra = Extra {
        sext: m.sext,
        op_sel_hi: if packed { 0b111 } else { 0 },
        ..Extra::default()
    };
    let mut high = false;
    for (name, value) in &m.named {
        match (name.as_str(), encoding) {
            ("op_sel", Encoding::Usual) => {
                let (b, len) = bits(name, value)?;
                extra.op_sel = b & ((1 << count) - 1);
                high = len > count && b >> count & 1 != 0;
            }
            ("op_sel_hi", Encoding::Usual) => extra.op_sel_hi = bits(name, value)?.0,
            ("neg_lo", Encoding::Usual) => extra.neg_lo = bits(name, value)?.0,
            ("neg_hi", Encoding::Usual) => extra.neg_hi = bits(name, value)?.0,
            ("dst_sel" | "dst_unused" | "src0_sel" | "src1_sel", Encoding::Sdwa) => {}
            (_, Encoding::Dpp) => {}
            _ => return Err(format!("the modifier {name} is not supported here")),
        }
    }
    let wide = |kinds: &[Kind]| kinds.iter().any(|k| k.dwords() == 2);
    match encoding {
        Encoding::Usual => {}
        _ if wide(&spec.src) || encoding == Encoding::Sdwa && wide(&[spec.dst]) => {
            return Err("SDWA and DPP of 64-bit operands are not supported".to_owned());
        }
        Encoding::Sdwa if spec.form == Form::Accumulate => {
            return Err("SDWA of an accumulating operation is not supported".to_owned());
        }
        Encoding::Sdwa => extra.sdwa = Some(Sdwa::parse(m)?),
        Encoding::Dpp => extra.dpp = Some(Dpp::parse(m)?),
    }

    if spec.keep {
        inst.placement = if high {
            Placement::High
        } else {
            Placement::Low
        };
    } else if high {
        return Err("op_sel cannot choose the destination's half here".to_owned());
    }
    if inst.clamp && !spec.dst.is_float() {
        inst.exec = spec
            .clamped
            .ok_or("clamp is not supported by this operation")?;
    }
    if m.omod != 0.0 && !matches!(spec.dst, Kind::F32 | Kind::F16 | Kind::F64) {
        return Err("an output modifier is not supported by this operation".to_owned());
    }
    for (n, kind) in spec.src.iter().enumerate().take(count) {
        let bit = |b: u8| b >> n & 1 != 0;
        let sdwa = extra
            .sdwa
            .as_ref()
            .and_then(|s| s.src.get(n))
            .is_some_and(|s| *s != Select::Dword);
        let halves = if kind.is_packed() {
            bit(extra.op_sel) || !bit(extra.op_sel_hi)
        } else if *kind == Kind::Mix {
            bit(extra.op_sel_hi)
        } else {
            kind.is_half() && bit(extra.op_sel)
        };
        if bit(m.neg | m.abs | m.sext | extra.neg_lo | extra.neg_hi)
            || halves
            || sdwa
            || n == 0 && extra.dpp.is_some()
        {
            inst.cooked |= 1 << n;
        }
    }
    inst.dressed = inst.clamp && spec.dst.is_float()
        || inst.omod != 0.0
        || inst.placement != Placement::Whole
        || extra.sdwa.is_some()
        || extra.dpp.is_some();
    if inst.cooked != 0 || inst.dressed {
        inst.extra = Some(Box::new(extra));
    }
    Ok(())
}
