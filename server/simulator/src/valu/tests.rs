//! The table of operations and what else holds for all of them.

use super::*;
use crate::machine::{LANES, Mode};

const MODE: Mode = Mode {
    round_f32: 0,
    round_f16_f64: 0,
    denorm_f32: 3,
    denorm_f16_f64: 3,
    dx10_clamp: true,
    ieee: true,
};

const FILLER: u32 = 0xdead_beef;
const DST: u16 = 20;
const MASK_IN: u8 = 20;
const MASK_OUT: u8 = 30;
const SCATTERED: u64 = 0x8421_0f0f_aaaa_5551;

fn wave() -> Wave {
    Wave {
        v: vec![[FILLER; LANES]; 40],
        a: vec![[FILLER; LANES]; 8],
        s: [0; 128],
        exec: u64::MAX,
        scc: false,
        mode: MODE,
    }
}

fn vgpr(first: u16, count: u8) -> Operand {
    Operand::Vgpr { first, count }
}

fn sgpr(first: u8, count: u8) -> Operand {
    Operand::Sgpr { first, count }
}

/// Modifiers as they are printed after the operands.
fn modifiers(words: &str) -> Modifiers {
    let mut m = Modifiers::default();
    for word in words.split_whitespace() {
        match word {
            "clamp" => m.clamp = true,
            "mul:2" => m.omod = 2.0,
            "mul:4" => m.omod = 4.0,
            "div:2" => m.omod = 0.5,
            _ => {
                let (name, value) = word.split_once(':').unwrap_or((word, ""));
                m.named.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    m
}

#[derive(Debug, PartialEq)]
enum Value {
    Bits(u64, u8),
    Mask(bool),
}

fn value(text: &str) -> Value {
    match text {
        "m0" => Value::Mask(false),
        "m1" => Value::Mask(true),
        _ => Value::Bits(
            u64::from_str_radix(text, 16).unwrap_or_else(|e| panic!("{text}: {e}")),
            (text.len() / 8) as u8,
        ),
    }
}

/// One line of the table, run under one EXEC.
fn run_line(line: &str, exec: u64) {
    let (head, rest) = line.split_once(';').expect("a semicolon");
    let (sources, results) = rest.split_once("=>").expect("an arrow");
    let (mnemonic, words) = head.trim().split_once(' ').unwrap_or((head.trim(), ""));
    let spec = find(split(&mnemonic[2..]).0).unwrap_or_else(|| panic!("{mnemonic} is unknown"));
    let mut m = modifiers(words);
    let mut wave = wave();
    let mut operands = Vec::new();
    let count = spec.src.iter().filter(|k| **k != Kind::None).count();
    match spec.form {
        Form::ScalarResult => operands.push(sgpr(MASK_OUT, 2)),
        Form::CarryOut | Form::CarryInOut => {
            operands.push(vgpr(DST, 2));
            operands.push(sgpr(MASK_OUT, 2));
        }
        _ => operands.push(vgpr(DST, 2)),
    }
    for (n, text) in sources.split_whitespace().enumerate() {
        let bare = text.trim_matches(['-', '|']);
        m.neg |= u8::from(text.starts_with('-')) << n;
        m.abs |= u8::from(text.contains('|')) << n;
        match value(bare) {
            Value::Bits(bits, dwords) => {
                let first = if spec.form == Form::Accumulate && n + 1 == count {
                    DST
                } else {
                    let first = 1 + 2 * n as u16;
                    operands.push(vgpr(first, dwords));
                    first
                };
                wave.v[usize::from(first)] = [bits as u32; LANES];
                if dwords == 2 {
                    wave.v[usize::from(first) + 1] = [(bits >> 32) as u32; LANES];
                }
            }
            Value::Mask(on) => {
                let mask = if on { u64::MAX } else { 0 };
                if spec.form == Form::FromVcc {
                    wave.set_sgpr64(VCC_LO, mask);
                } else {
                    wave.set_sgpr64(MASK_IN, mask);
                    operands.push(sgpr(MASK_IN, 2));
                }
            }
        }
    }
    let before = wave.clone();
    wave.exec = exec;
    let inst = decode(mnemonic, &operands, &m)
        .unwrap_or_else(|| panic!("{line}: not known"))
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    inst.execute(&mut wave);
    let mut written = Vec::new();
    for result in results.split_whitespace() {
        match value(result) {
            Value::Bits(bits, dwords) => {
                for d in 0..dwords {
                    let r = usize::from(DST) + usize::from(d);
                    written.push(r);
                    for l in 0..LANES {
                        let expected = if exec >> l & 1 != 0 {
                            (bits >> (32 * d)) as u32
                        } else {
                            before.v[r][l]
                        };
                        assert_eq!(
                            wave.v[r][l], expected,
                            "{line}: dword {d} of lane {l}: got {:08x}, expected {expected:08x}",
                            wave.v[r][l]
                        );
                    }
                }
            }
            Value::Mask(on) => {
                let expected = if on { exec } else { 0 };
                assert_eq!(wave.sgpr64(MASK_OUT), expected, "{line}: mask");
                if mnemonic.starts_with("v_cmpx") {
                    assert_eq!(wave.exec, expected, "{line}: exec");
                }
            }
        }
    }
    for (r, row) in wave.v.iter().enumerate() {
        if !written.contains(&r) {
            assert_eq!(*row, before.v[r], "{line}: v{r} changed");
        }
    }
}

#[test]
fn table() {
    let mut lines = 0;
    for line in include_str!("table.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        for exec in [u64::MAX, SCATTERED, 1 << 63, 0] {
            run_line(line, exec);
        }
        lines += 1;
    }
    assert!(lines > 100, "only {lines} lines");
}
