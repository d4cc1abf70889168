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

/// Text of one instruction, through the simulator's own parser.
fn inst(text: &str) -> ValuInst {
    let i = crate::isa::parse_line(&format!("{text} // 000000000000: 00000000"))
        .unwrap_or_else(|| panic!("{text}: not parsed"));
    decode(&i.mnemonic, &i.operands, &i.modifiers)
        .unwrap_or_else(|| panic!("{text}: not known"))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Every mnemonic that LLVM 15 prints for gfx900, gfx906, gfx908 and gfx90a, without suffix, but graphics and matrix
/// instructions.
const MNEMONICS: &str = include_str!("mnemonics.txt");

/// Operands that fit an operation: sources from v2 on, results in v20 and s[30:31].
fn fitting(spec: &Spec) -> Vec<Operand> {
    let mut operands = match spec.form {
        Form::Nothing => vec![],
        Form::ScalarResult => vec![sgpr(MASK_OUT, 2)],
        Form::ToAcc => vec![Operand::Agpr { first: 0, count: 1 }],
        Form::CarryOut | Form::CarryInOut => vec![vgpr(DST, 2), sgpr(MASK_OUT, 2)],
        _ => vec![vgpr(DST, 2)],
    };
    let mut count = spec.src.iter().filter(|k| **k != Kind::None).count();
    if spec.form == Form::Accumulate {
        count -= 1;
    }
    for n in 0..count {
        operands.push(vgpr(2 + 4 * n as u16, 2));
    }
    if matches!(spec.form, Form::Select | Form::CarryInOut) {
        operands.push(sgpr(MASK_IN, 2));
    }
    operands
}

#[test]
fn every_mnemonic_decodes_and_leaves_inactive_lanes_alone() {
    let mut seed = 1u32;
    for mnemonic in MNEMONICS.lines() {
        let spec = find(split(&mnemonic[2..]).0).unwrap_or_else(|| panic!("{mnemonic} is unknown"));
        let inst = decode(mnemonic, &fitting(&spec), &Modifiers::default())
            .expect("known")
            .unwrap_or_else(|e| panic!("{e}"));
        for (exec, denormals) in [(u64::MAX, 3), (SCATTERED, 3), (SCATTERED, 0), (0, 3)] {
            let mut wave = wave();
            for x in wave.v.iter_mut().flatten() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *x = seed;
            }
            wave.mode.denorm_f32 = denormals;
            wave.mode.denorm_f16_f64 = denormals;
            wave.exec = exec;
            let before = wave.clone();
            inst.execute(&mut wave);
            if mnemonic == "v_writelane_b32" {
                continue;
            }
            for (rows, old) in [(&wave.v, &before.v), (&wave.a, &before.a)] {
                for (row, old) in rows.iter().zip(old) {
                    for l in 0..LANES {
                        assert!(
                            exec >> l & 1 != 0 || row[l] == old[l],
                            "{mnemonic} changed lane {l}, which is inactive"
                        );
                    }
                }
            }
            if !mnemonic.contains("lane") {
                assert_eq!(wave.sgpr64(MASK_OUT) & !exec, 0, "{mnemonic}: mask");
            }
        }
    }
}

#[test]
fn what_is_not_supported_is_said() {
    let none = Modifiers::default();
    assert!(decode("v_screen_partition_4se_b32_e32", &[], &none).is_none());
    assert!(decode("s_add_u32", &[], &none).is_none());
    let error = |mnemonic: &str, operands: &[Operand], m: &Modifiers| {
        decode(mnemonic, operands, m)
            .expect("known")
            .expect_err(mnemonic)
    };
    let three = [vgpr(0, 1), vgpr(1, 1), vgpr(2, 1)];
    assert!(error("v_add_f32_e32", &three[..2], &none).contains("missing"));
    assert!(error("v_mov_b32_e32", &three, &none).contains("more than"));
    assert!(error("v_and_b32_e64", &three, &modifiers("clamp")).contains("clamp"));
    assert!(error("v_add_f32_e64", &three, &modifiers("sparkle:1")).contains("sparkle"));
    assert!(error("v_add_f32_dpp", &three, &modifiers("row_shr:99")).contains("row_shr:99"));
    assert!(error("v_add_f32_dpp", &three, &none).contains("DPP"));
    assert!(
        error(
            "v_add_f32_e32",
            &[sgpr(0, 1), vgpr(1, 1), vgpr(2, 1)],
            &none
        )
        .contains("vector register")
    );
}

#[test]
fn registers_beyond_the_allocation_do_not_panic() {
    let i = inst("v_add_f64 v[200:201], v[250:251], v[252:253]");
    assert_eq!(i.vgprs(), 254);
    let mut w = wave();
    i.execute(&mut w);
    assert_eq!(w.v, wave().v);
}

#[test]
fn constants_take_the_operand_type() {
    for (text, lo, hi) in [
        ("v_mov_b32_e32 v20, 1.0", 0x3f80_0000, FILLER),
        ("v_mov_b32_e32 v20, -1", u32::MAX, FILLER),
        ("v_mul_f32_e32 v20, 1.0, v2", 0x4000_0000, FILLER),
        ("v_mul_f32_e32 v20, 0.15915494, v3", 0x3e22_f983, FILLER),
        ("v_add_f16_e32 v20, 1.0, v5", 0x4000, FILLER),
        ("v_mul_f64 v[20:21], 0.5, v[6:7]", 0, 0x3fe0_0000),
        (
            "v_mul_f64 v[20:21], v[6:7], 0.15915494309189532",
            0x6dc9_c882,
            0x3fc4_5f30,
        ),
        ("v_lshlrev_b64 v[20:21], 0, -2", 0xffff_fffe, u32::MAX),
        (
            "v_pk_add_f16 v20, v4, 1.0 op_sel_hi:[1,0]",
            0x4000_4000,
            FILLER,
        ),
        ("v_pk_add_u16 v20, v8, -1 op_sel_hi:[1,0]", 0, FILLER),
    ] {
        let mut w = wave();
        w.v[2] = [0x4000_0000; LANES];
        w.v[3] = [0x3f80_0000; LANES];
        w.v[4] = [0x3c00_3c00; LANES];
        w.v[5] = [0x3c00; LANES];
        w.v[6] = [0; LANES];
        w.v[7] = [0x3ff0_0000; LANES];
        w.v[8] = [0x0001_0001; LANES];
        inst(text).execute(&mut w);
        assert_eq!((w.v[20][5], w.v[21][5]), (lo, hi), "{text}");
    }
}

#[test]
fn denormals_follow_the_mode() {
    let mut w = wave();
    w.mode.denorm_f32 = 0;
    w.v[1] = [0x0040_0000; LANES];
    w.v[2] = [0x8040_0000; LANES];
    inst("v_mul_f32_e32 v20, 1.0, v2").execute(&mut w);
    assert_eq!(w.v[20][0], 0x8000_0000);
    inst("v_cmp_lt_f32_e32 vcc, v2, v1").execute(&mut w);
    assert_eq!(w.sgpr64(VCC_LO), 0);
    inst("v_mov_b32_e32 v20, v1").execute(&mut w);
    assert_eq!(w.v[20][0], 0x0040_0000, "moves are not arithmetic");
    w.mode.denorm_f32 = 1;
    w.v[3] = [0x0080_0000; LANES];
    inst("v_mul_f32_e32 v20, 0.5, v3").execute(&mut w);
    assert_eq!(w.v[20][0], 0, "outputs alone are flushed");
}

#[test]
fn lanes_move_as_each_dpp_control_says() {
    // Lane, source lane or none: hand-made from the definitions.
    type Case = (&'static str, &'static [(usize, Option<u32>)]);
    let cases: &[Case] = &[
        (
            "quad_perm:[1,0,3,2]",
            &[(0, Some(1)), (1, Some(0)), (62, Some(63))],
        ),
        (
            "row_shl:1",
            &[(0, Some(1)), (14, Some(15)), (15, None), (16, Some(17))],
        ),
        (
            "row_shr:1",
            &[(0, None), (1, Some(0)), (16, None), (63, Some(62))],
        ),
        ("row_ror:1", &[(0, Some(15)), (1, Some(0)), (16, Some(31))]),
        ("wave_shl:1", &[(15, Some(16)), (63, None)]),
        ("wave_rol:1", &[(15, Some(16)), (63, Some(0))]),
        ("wave_shr:1", &[(16, Some(15)), (0, None)]),
        ("wave_ror:1", &[(16, Some(15)), (0, Some(63))]),
        ("row_mirror", &[(0, Some(15)), (17, Some(30))]),
        ("row_half_mirror", &[(0, Some(7)), (8, Some(15))]),
        (
            "row_bcast:15",
            &[(0, None), (16, Some(15)), (47, Some(31)), (63, Some(47))],
        ),
        (
            "row_bcast:31",
            &[(31, None), (32, Some(31)), (63, Some(31))],
        ),
        ("row_newbcast:2", &[(0, Some(2)), (31, Some(18))]),
    ];
    for (control, lanes) in cases {
        for bound in ["", " bound_ctrl:0"] {
            let mut w = wave();
            w.v[1] = std::array::from_fn(|l| l as u32);
            inst(&format!(
                "v_mov_b32_dpp v20, v1 {control} row_mask:0xf bank_mask:0xf{bound}"
            ))
            .execute(&mut w);
            for &(lane, from) in *lanes {
                let expected = from.unwrap_or(if bound.is_empty() { FILLER } else { 0 });
                assert_eq!(w.v[20][lane], expected, "{control}{bound} lane {lane}");
            }
        }
    }
}

#[test]
fn dpp_masks_and_inactive_sources() {
    let mut w = wave();
    w.v[1] = std::array::from_fn(|l| l as u32);
    inst("v_mov_b32_dpp v20, v1 row_mirror row_mask:0xa bank_mask:0x3").execute(&mut w);
    for l in 0..LANES {
        let written = (l / 16) % 2 == 1 && l % 16 < 8;
        let expected = if written {
            (l & !15) as u32 + 15 - (l & 15) as u32
        } else {
            FILLER
        };
        assert_eq!(w.v[20][l], expected, "lane {l}");
    }
    let mut w = wave();
    w.v[1] = std::array::from_fn(|l| l as u32);
    w.exec = !(1 << 4);
    inst("v_mov_b32_dpp v20, v1 row_shr:1 row_mask:0xf bank_mask:0xf").execute(&mut w);
    assert_eq!(w.v[20][5], FILLER, "the source lane is inactive");
    assert_eq!(w.v[20][4], FILLER, "the lane itself is inactive");
    assert_eq!(w.v[20][6], 5);
    inst("v_add_u32_dpp v20, v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0")
        .execute(&mut w);
    assert_eq!(w.v[20][5], 5, "an inactive source reads 0");
}

#[test]
fn sdwa_selects_parts() {
    for (tail, expected) in [
        (
            "dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:WORD_0",
            0x89ab + 0x12,
        ),
        (
            "dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_0",
            0x2300,
        ),
        (
            "dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:BYTE_0",
            0xdead_23ef,
        ),
        (
            "dst_sel:BYTE_3 dst_unused:UNUSED_SEXT src0_sel:BYTE_0 src1_sel:BYTE_0",
            0x2300_0000,
        ),
        (
            "dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_1",
            0x1234u32.wrapping_add(0x4567) << 16,
        ),
        (
            "dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:WORD_0 src1_sel:DWORD",
            0x0000_0223,
        ),
    ] {
        let mut w = wave();
        w.v[1] = [0x1234_5678; LANES];
        w.v[2] = [0x4567_89ab; LANES];
        inst(&format!("v_add_u32_sdwa v20, v1, v2 {tail}")).execute(&mut w);
        let expected = if tail.starts_with("dst_sel:WORD_0") {
            // 0x5678 + 0x456789ab = 0x4567e023, of which the low half's sign is repeated.
            0xffff_e023
        } else {
            expected
        };
        assert_eq!(w.v[20][9], expected, "{tail}");
    }
    let mut w = wave();
    w.v[1] = [0x1234_80ff; LANES];
    w.v[2] = [0; LANES];
    inst("v_add_u32_sdwa v20, sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD").execute(&mut w);
    assert_eq!(w.v[20][0], 0xffff_ff80);
    w.v[1] = [0x3c00_0000; LANES];
    inst("v_cvt_f32_f16_sdwa v20, -v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1")
        .execute(&mut w);
    assert_eq!(w.v[20][0], 0xbf80_0000);
    inst("v_cmp_eq_u16_sdwa s[30:31], v1, v1 src0_sel:WORD_1 src1_sel:WORD_0").execute(&mut w);
    assert_eq!(w.sgpr64(MASK_OUT), 0);
}

#[test]
fn lanes_and_counts() {
    let mut w = wave();
    w.v[1] = std::array::from_fn(|l| 100 + l as u32);
    w.exec = 0xf0;
    inst("v_readfirstlane_b32 s4, v1").execute(&mut w);
    assert_eq!(w.s[4], 104);
    inst("v_readlane_b32 s4, v1, 3").execute(&mut w);
    assert_eq!(w.s[4], 103, "reads whatever EXEC says");
    w.s[5] = 63;
    inst("v_readlane_b32 s4, v1, s5").execute(&mut w);
    assert_eq!(w.s[4], 163);
    inst("v_writelane_b32 v1, s5, 0").execute(&mut w);
    assert_eq!((w.v[1][0], w.v[1][1]), (63, 101));
    w.exec = u64::MAX;
    inst("v_mbcnt_lo_u32_b32 v20, -1, 0").execute(&mut w);
    inst("v_mbcnt_hi_u32_b32 v20, -1, v20").execute(&mut w);
    for l in 0..LANES {
        assert_eq!(w.v[20][l], l as u32);
    }
    w.v[2] = [7; LANES];
    w.v[3] = [8; LANES];
    w.exec = 1;
    inst("v_swap_b32 v2, v3").execute(&mut w);
    assert_eq!((w.v[2][0], w.v[3][0], w.v[2][1], w.v[3][1]), (8, 7, 7, 8));
    inst("v_add_u32_e32 v20, v2, v2").execute_indexed(&mut w, 0b1001, 1);
    assert_eq!(w.v[21][0], 15, "source 0 and the destination moved by one");
}

#[test]
fn destinations_may_overlap_sources() {
    let mut w = wave();
    w.v[1] = [0xffff_ffff; LANES];
    w.v[2] = [2; LANES];
    w.v[3] = [1; LANES];
    inst("v_mad_u64_u32 v[1:2], s[30:31], v1, v2, v[2:3]").execute(&mut w);
    let expected = 0xffff_ffffu64 * 2 + 0x1_0000_0002;
    assert_eq!(u64::from(w.v[1][0]) | u64::from(w.v[2][0]) << 32, expected);
    w.v[4] = [5; LANES];
    inst("v_lshlrev_b64 v[3:4], 4, v[3:4]").execute(&mut w);
    assert_eq!((w.v[3][0], w.v[4][0]), (16, 80));
}

/// A division as the compiler writes it.
fn divide32(a: f32, b: f32) -> f32 {
    let (d, _) = float::div_scale32(b, b, a);
    let (n, scaled) = float::div_scale32(a, b, a);
    let r = float::flush32((1.0 / f64::from(float::flush32(d))) as f32);
    let e = float::fma32(-d, r, 1.0);
    let r = float::fma32(e, r, r);
    let q = n * r;
    let e = float::fma32(-d, q, n);
    let q = float::fma32(e, r, q);
    let e = float::fma32(-d, q, n);
    float::div_fixup32(float::div_fmas32(e, r, q, scaled), b, a)
}

fn divide64(a: f64, b: f64) -> f64 {
    let (d, _) = float::div_scale64(b, b, a);
    let (n, scaled) = float::div_scale64(a, b, a);
    let mut r = 1.0 / d;
    for _ in 0..2 {
        let e = float::fma64(-d, r, 1.0);
        r = float::fma64(e, r, r);
    }
    let q = n * r;
    let e = float::fma64(-d, q, n);
    float::div_fixup64(float::div_fmas64(e, r, q, scaled), b, a)
}

/// An f16 as a multiple of 2^-24.
fn fixed(x: half::f16) -> i128 {
    (f64::from(f32::from(x)) * 16_777_216.0) as i128
}

/// A multiple of 2^-48 to f16, nearest even, in integers.
fn rounded(exact: i128) -> u16 {
    let sign = if exact < 0 { 0x8000 } else { 0 };
    let m = exact.unsigned_abs();
    // The unit in the last place is 2^-24 for denormals and grows with the magnitude.
    let top = 128 - m.leading_zeros() as i32;
    let drop = (top - 11).max(24);
    let unit = 1u128 << drop;
    let (mut q, rest) = (m / unit, m % unit);
    if rest * 2 > unit || rest * 2 == unit && q & 1 == 1 {
        q += 1;
    }
    let bits = q as u32 + ((drop - 24) as u32) * 1024;
    sign | bits.min(0x7c00) as u16
}

#[test]
fn every_half_converts_as_the_half_crate_does() {
    for bits in 0..=u16::MAX {
        let h = half::f16::from_bits(bits);
        let x = float::half_to_single(bits);
        if h.is_nan() {
            assert!(x.is_nan());
            continue;
        }
        assert_eq!(x.to_bits(), f32::from(h).to_bits(), "{bits:04x}");
        for near in [-1i32, 0, 1, 0xfff, 0x1000, 0x1001] {
            let y = f32::from_bits(x.to_bits().wrapping_add_signed(near));
            if !y.is_nan() {
                assert_eq!(
                    float::single_to_half(y),
                    half::f16::from_f32(y).to_bits(),
                    "{y:e}"
                );
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn division_is_correctly_rounded_32(a: u32, b: u32) {
        let (a, b) = (f32::from_bits(a), f32::from_bits(b));
        let (q, exact) = (divide32(a, b), a / b);
        proptest::prop_assert!(q.to_bits() == exact.to_bits() || q.is_nan() && exact.is_nan(), "{a:e} / {b:e} = {q:e}, not {exact:e}");
    }

    #[test]
    fn division_is_correctly_rounded_64(a: u64, b: u64) {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        let (q, exact) = (divide64(a, b), a / b);
        // Denormal quotients are rounded twice.
        let near = exact.abs() < f64::MIN_POSITIVE && q.to_bits().abs_diff(exact.to_bits()) <= 1;
        proptest::prop_assert!(q.to_bits() == exact.to_bits() || near || q.is_nan() && exact.is_nan(), "{a:e} / {b:e} = {q:e}, not {exact:e}");
    }

    #[test]
    fn half_arithmetic_rounds_once(a: u16, b: u16, c: u16) {
        let [a, b, c] = [a, b, c].map(half::f16::from_bits);
        if a.is_finite() && b.is_finite() && c.is_finite() {
            let one = half::f16::from_f32(1.0);
            let sum = (fixed(a) + fixed(b)) << 24;
            let product = fixed(a) * fixed(b);
            let fused = product + (fixed(c) << 24);
            for (got, exact) in [(float::add16(a, b), sum), (float::mul16(a, b), product), (float::fma16(a, b, c), fused), (float::fma16(a, one, c), (fixed(a) + fixed(c)) << 24)] {
                if exact != 0 {
                    proptest::prop_assert_eq!(got.to_bits(), rounded(exact), "{} {} {}", a, b, c);
                }
            }
        }
    }

    #[test]
    fn integers_agree_with_wide_arithmetic(a: u32, b: u32, c: u32, exec: u64) {
        let (x, y, z) = (i128::from(a), i128::from(b), i128::from(c));
        let (sx, sy) = (i128::from(a as i32), i128::from(b as i32));
        let cases: [(&str, i128); 18] = [
            ("v_add_u32_e32 v20, v1, v2", x + y),
            ("v_sub_u32_e32 v20, v1, v2", x - y),
            ("v_subrev_u32_e32 v20, v1, v2", y - x),
            ("v_mul_lo_u32 v20, v1, v2", x * y),
            ("v_mul_hi_u32 v20, v1, v2", (x * y) >> 32),
            ("v_mul_hi_i32 v20, v1, v2", (sx * sy) >> 32),
            ("v_add3_u32 v20, v1, v2, v3", x + y + z),
            ("v_lshl_add_u32 v20, v1, v2, v3", (x << (b & 31)) + z),
            ("v_add_lshl_u32 v20, v1, v2, v3", (x + y) << (c & 31)),
            ("v_lshlrev_b32_e32 v20, v1, v2", y << (a & 31)),
            ("v_lshrrev_b32_e32 v20, v1, v2", y >> (a & 31)),
            ("v_ashrrev_i32_e32 v20, v1, v2", sy >> (a & 31)),
            ("v_bfe_u32 v20, v1, v2, v3", (x >> (b & 31)) & ((1 << (c & 31)) - 1)),
            ("v_alignbit_b32 v20, v1, v2, v3", ((x << 32) | y) >> (c & 31)),
            ("v_mad_u32_u24 v20, v1, v2, v3", (x & 0xff_ffff) * (y & 0xff_ffff) + z),
            ("v_min_i32_e32 v20, v1, v2", sx.min(sy)),
            ("v_max_u32_e32 v20, v1, v2", x.max(y)),
            ("v_add_i32 v20, v1, v2 clamp", (sx + sy).clamp(i128::from(i32::MIN), i128::from(i32::MAX))),
        ];
        for (text, expected) in cases {
            let mut w = wave();
            w.v[1] = [a; LANES];
            w.v[2] = [b; LANES];
            w.v[3] = [c; LANES];
            w.exec = exec;
            inst(text).execute(&mut w);
            for l in 0..LANES {
                let e = if exec >> l & 1 != 0 { expected as u32 } else { FILLER };
                proptest::prop_assert_eq!(w.v[20][l], e, "{} lane {}", text, l);
            }
        }
    }

    #[test]
    fn masks_agree_with_lanes(values: [u32; 32], pivot: u32, exec: u64) {
        let mut w = wave();
        w.v[1] = std::array::from_fn(|l| values[l % 32].rotate_left(l as u32 / 32));
        w.s[4] = pivot;
        w.exec = exec;
        inst("v_cmp_gt_u32_e64 s[30:31], s4, v1").execute(&mut w);
        let mut expected = 0u64;
        for l in 0..LANES {
            expected |= u64::from(pivot > w.v[1][l]) << l;
        }
        proptest::prop_assert_eq!(w.sgpr64(MASK_OUT), expected & exec);
        inst("v_add_co_u32_e64 v20, s[30:31], s4, v1").execute(&mut w);
        let mut carries = 0u64;
        for l in 0..LANES {
            carries |= u64::from(pivot.checked_add(w.v[1][l]).is_none()) << l;
        }
        proptest::prop_assert_eq!(w.sgpr64(MASK_OUT), carries & exec);
    }
}
