//! One line of disassembly to mnemonic, operands and modifiers.
//!
//! Tolerant of what differs between LLVM 15 and 21 and DTK's own tools: everything that an encoding word says
//! more reliably than the text (branch distances, wait counts, hardware register ids) is left to the
//! executor, which gets the words too.

use super::operand::{EXEC_LO, M0, Modifiers, Operand, Special, VCC_LO};

/// An instruction as printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Address in the code object.
    pub address: u64,
    /// Encoding, in dwords.
    pub words: Vec<u32>,
    /// Mnemonic with its suffixes: `v_add_f32_e32`.
    pub mnemonic: String,
    /// The line without comment, for messages.
    pub text: String,
    /// Operands, destinations first; operands that are not registers or constants (`vmcnt(0)`, `hwreg(..)`) are
    /// left out.
    pub operands: Vec<Operand>,
    /// Modifiers.
    pub modifiers: Modifiers,
}

impl Instruction {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        4 * self.words.len() as u64
    }
    /// The low 16 bits of the first encoding word: the immediate of SOPP and SOPK instructions.
    pub fn simm16(&self) -> i16 {
        self.words.first().map_or(0, |w| *w as i16)
    }
    /// A named modifier as a number; 0 when absent.
    ///
    /// # Errors
    /// A sentence when it is there and is no number.
    pub fn number(&self, name: &str) -> Result<i64, String> {
        match self.modifiers.get(name) {
            None => Ok(0),
            Some(text) => {
                parse_int(text).ok_or_else(|| format!("the value of {name}:{text} is not a number"))
            }
        }
    }
    /// Whether a flag modifier is there.
    pub fn flag(&self, name: &str) -> bool {
        self.modifiers.get(name).is_some()
    }
}

/// Parse one line of `llvm-objdump -d`; `None` for lines that are not instructions (labels, blank lines,
/// data). Never panics.
pub fn parse_line(line: &str) -> Option<Instruction> {
    let (text, comment) = line.split_once("//")?;
    let text = text.trim();
    let (address, rest) = comment.trim().split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let words: Vec<u32> = rest
        .split_whitespace()
        .take_while(|w| w.len() == 8 && w.bytes().all(|b| b.is_ascii_hexdigit()))
        .filter_map(|w| u32::from_str_radix(w, 16).ok())
        .collect();
    if words.is_empty() {
        return None;
    }
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // `.long` is how an encoding that the disassembler does not know is printed.
    if mnemonic.is_empty() || mnemonic.starts_with('.') && mnemonic != ".long" {
        return None;
    }
    let (operands, modifiers) = operands(mnemonic, rest);
    Some(Instruction {
        address,
        words,
        mnemonic: mnemonic.to_owned(),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        operands,
        modifiers,
    })
}

/// Destination operands of a mnemonic, to number the sources that modifiers refer to.
fn destinations(mnemonic: &str) -> usize {
    let two = mnemonic.contains("_co_")
        || mnemonic.starts_with("v_div_scale")
        || mnemonic.starts_with("v_mad_u64_u32")
        || mnemonic.starts_with("v_mad_i64_i32")
        || mnemonic.starts_with("v_swap_");
    if two { 2 } else { 1 }
}

fn operands(mnemonic: &str, text: &str) -> (Vec<Operand>, Modifiers) {
    let mut operands = Vec::new();
    let mut modifiers = Modifiers::default();
    let dst = destinations(mnemonic);
    let parts = split_top(text, ',');
    for part in parts {
        let mut tokens = split_top(part, ' ').into_iter().filter(|t| !t.is_empty());
        if let Some(token) = tokens.next() {
            // An operand list may be empty: `buffer_wbinvl1_vol`, `ds_read_b32 v0, v1 gds`.
            match operand(token) {
                Some((operand, marks)) => {
                    if let Some(source) = operands.len().checked_sub(dst).filter(|s| *s < 8) {
                        modifiers.neg |= u8::from(marks.neg) << source;
                        modifiers.abs |= u8::from(marks.abs) << source;
                        modifiers.sext |= u8::from(marks.sext) << source;
                    }
                    operands.push(operand);
                }
                None => modifier(token, &mut modifiers),
            }
        }
        for token in tokens {
            modifier(token, &mut modifiers);
        }
    }
    (operands, modifiers)
}

/// Split at a separator outside brackets and bars.
fn split_top(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0i32;
    let mut from = 0;
    for (i, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            c if depth <= 0 && (c == separator || separator == ' ' && c.is_whitespace()) => {
                parts.push(text[from..i].trim());
                from = i + c.len_utf8();
            }
            _ => {}
        }
    }
    let rest = text[from..].trim();
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

fn modifier(token: &str, into: &mut Modifiers) {
    match token {
        "clamp" => into.clamp = true,
        "mul:2" => into.omod = 2.0,
        "mul:4" => into.omod = 4.0,
        "div:2" => into.omod = 0.5,
        _ => {
            let (name, value) = token.split_once(':').unwrap_or((token, ""));
            into.named.push((name.to_owned(), value.to_owned()));
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Marks {
    neg: bool,
    abs: bool,
    sext: bool,
}

fn operand(token: &str) -> Option<(Operand, Marks)> {
    let mut marks = Marks::default();
    let mut t = token;
    if let Some(inner) = t.strip_prefix("sext(").and_then(|r| r.strip_suffix(')')) {
        marks.sext = true;
        t = inner;
    }
    if let Some(inner) = t.strip_prefix("neg(").and_then(|r| r.strip_suffix(')')) {
        marks.neg = true;
        t = inner;
    } else if let Some(rest) = t.strip_prefix('-')
        && !rest.starts_with(|c: char| c.is_ascii_digit())
    {
        marks.neg = true;
        t = rest;
    }
    if let Some(inner) = t.strip_prefix('|').and_then(|r| r.strip_suffix('|')) {
        marks.abs = true;
        t = inner;
    } else if let Some(inner) = t.strip_prefix("abs(").and_then(|r| r.strip_suffix(')')) {
        marks.abs = true;
        t = inner;
    }
    plain_operand(t).map(|o| (o, marks))
}

fn plain_operand(t: &str) -> Option<Operand> {
    if let Some(register) = register(t) {
        return Some(register);
    }
    let sgpr = |first, count| Some(Operand::Sgpr { first, count });
    let special = |s| Some(Operand::Special(s));
    match t {
        "vcc" => return sgpr(VCC_LO, 2),
        "vcc_lo" => return sgpr(VCC_LO, 1),
        "vcc_hi" => return sgpr(VCC_LO + 1, 1),
        "exec" => return sgpr(EXEC_LO, 2),
        "exec_lo" => return sgpr(EXEC_LO, 1),
        "exec_hi" => return sgpr(EXEC_LO + 1, 1),
        "m0" => return sgpr(M0, 1),
        "flat_scratch" => return sgpr(102, 2),
        "flat_scratch_lo" => return sgpr(102, 1),
        "flat_scratch_hi" => return sgpr(103, 1),
        "xnack_mask" => return sgpr(104, 2),
        "xnack_mask_lo" => return sgpr(104, 1),
        "xnack_mask_hi" => return sgpr(105, 1),
        "off" => return special(Special::Off),
        "null" => return special(Special::Null),
        "scc" | "src_scc" => return special(Special::Scc),
        "vccz" | "src_vccz" => return special(Special::Vccz),
        "execz" | "src_execz" => return special(Special::Execz),
        "src_shared_base" | "shared_base" => return special(Special::SharedBase),
        "src_shared_limit" | "shared_limit" => return special(Special::SharedLimit),
        "src_private_base" | "private_base" => return special(Special::PrivateBase),
        "src_private_limit" | "private_limit" => return special(Special::PrivateLimit),
        _ => {}
    }
    if t.starts_with("-0x") {
        return i32::try_from(parse_int(t)?).ok().map(Operand::Int);
    }
    if let Some(hex) = t.strip_prefix("0x") {
        let value = u64::from_str_radix(hex, 16).ok()?;
        return u32::try_from(value).ok().map(Operand::Literal);
    }
    if let Ok(int) = t.parse::<i64>() {
        return i32::try_from(int)
            .ok()
            .or_else(|| u32::try_from(int).ok().map(|u| u as i32))
            .map(Operand::Int);
    }
    let numeric = t.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    numeric
        .then(|| t.parse::<f64>().ok().map(Operand::Float))
        .flatten()
}

/// `v4`, `v[4:5]`, `s3`, `a[0:3]`, `ttmp7`.
fn register(t: &str) -> Option<Operand> {
    let (kind, rest) = if let Some(rest) = t.strip_prefix("ttmp") {
        ('t', rest)
    } else {
        let kind = t.chars().next().filter(|c| matches!(c, 'v' | 's' | 'a'))?;
        (kind, &t[1..])
    };
    let (first, count) =
        if let Some(range) = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')) {
            match range.split_once(':') {
                Some((a, b)) => {
                    let (a, b): (u16, u16) = (a.parse().ok()?, b.parse().ok()?);
                    (a, u8::try_from(b.checked_sub(a)? + 1).ok()?)
                }
                None => (range.parse().ok()?, 1),
            }
        } else {
            if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (rest.parse().ok()?, 1)
        };
    if first > 511 {
        return None;
    }
    match kind {
        'v' => Some(Operand::Vgpr { first, count }),
        'a' => Some(Operand::Agpr { first, count }),
        's' => (first + u16::from(count) <= 106).then_some(Operand::Sgpr {
            first: first as u8,
            count,
        }),
        _ => (first + u16::from(count) <= 16).then_some(Operand::Sgpr {
            first: first as u8 + 108,
            count,
        }),
    }
}

/// A decimal or hexadecimal number with optional sign.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    i64::checked_mul(sign, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Instruction {
        parse_line(&format!("\t{line} // 000000001900: D2850003 00020405")).unwrap()
    }

    fn v(first: u16, count: u8) -> Operand {
        Operand::Vgpr { first, count }
    }

    fn s(first: u8, count: u8) -> Operand {
        Operand::Sgpr { first, count }
    }

    #[test]
    fn registers_constants_and_ranges() {
        let i = one("v_fma_f32 v1, -|v2|, s3, 0x4f7ffffe clamp mul:2");
        assert_eq!(
            i.operands,
            [v(1, 1), v(2, 1), s(3, 1), Operand::Literal(0x4f7f_fffe)]
        );
        assert_eq!((i.modifiers.neg, i.modifiers.abs), (1, 1));
        assert!(i.modifiers.clamp);
        assert_eq!(i.modifiers.omod, 2.0);
        let i = one("v_addc_co_u32_e32 v3, vcc, v3, v1, vcc");
        assert_eq!(
            i.operands,
            [v(3, 1), s(106, 2), v(3, 1), v(1, 1), s(106, 2)]
        );
        let i = one("v_add_f64 v[0:1], v[2:3], -v[4:5]");
        assert_eq!(i.operands, [v(0, 2), v(2, 2), v(4, 2)]);
        assert_eq!(i.modifiers.neg, 2);
        let i = one("v_mul_f32_e32 v0, -0.5, v1");
        assert_eq!(i.operands[1], Operand::Float(-0.5));
        assert_eq!(i.modifiers.neg, 0);
    }

    #[test]
    fn memory_and_lane_modifiers() {
        let i = one("global_load_dword v6, v4, s[2:3] offset:-16 glc");
        assert_eq!(i.operands, [v(6, 1), v(4, 1), s(2, 2)]);
        assert_eq!(i.number("offset"), Ok(-16));
        assert!(i.flag("glc") && !i.flag("slc"));
        let i = one("v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf");
        assert_eq!(i.operands, [v(1, 1), v(2, 1)]);
        assert_eq!(i.modifiers.get("quad_perm"), Some("[1,0,3,2]"));
        let i = one("v_add_u16_sdwa v1, sext(v2), v3 dst_sel:WORD_1 src1_sel:BYTE_0");
        assert_eq!(i.modifiers.sext, 1);
        let i = one("buffer_load_dword v1, off, s[0:3], s33 offset:4");
        assert_eq!(
            i.operands,
            [v(1, 1), Operand::Special(Special::Off), s(0, 4), s(33, 1)]
        );
        let i = one("s_waitcnt vmcnt(0) lgkmcnt(0)");
        assert!(i.operands.is_empty());
        let i = one("s_endpgm");
        assert!(i.operands.is_empty());
    }

    #[test]
    fn lines_that_are_no_instructions() {
        for line in [
            "",
            "0000000000001f00 <_Z4vaddPKfS0_Pfi>:",
            "Disassembly of section .text:",
            "\t...",
            "\ts_nop 0",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_fine(text in ".{0,80}") {
            let _ = parse_line(&text);
            let _ = parse_line(&format!("\tv_x {text} // 000000001900: D2850003"));
        }
    }
}
