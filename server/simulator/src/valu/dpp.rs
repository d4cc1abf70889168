//! Data-parallel primitives: source 0 comes from another lane.

use super::lane::Row;
use crate::isa::Modifiers;
use crate::machine::LANES;

/// The DPP part of an instruction.
#[derive(Clone, Debug)]
pub(super) struct Dpp {
    /// The lane that each lane reads; 64 and more where there is none.
    from: [u8; LANES],
    /// Lanes that `row_mask` and `bank_mask` allow.
    allowed: u64,
    /// Invalid sources read 0 instead of disabling the lane.
    bound_zero: bool,
}

const NOWHERE: u8 = u8::MAX;

impl Dpp {
    pub(super) fn parse(m: &Modifiers) -> Result<Dpp, String> {
        let mut from = None;
        let mut masks = [0xfu64; 2];
        for (name, value) in &m.named {
            let control = match name.as_str() {
                "row_mask" | "bank_mask" => {
                    let bits = number(value)
                        .filter(|&n| n <= 0xf)
                        .ok_or_else(|| format!("{name}:{value} is not a mask of four bits"))?;
                    masks[usize::from(name == "bank_mask")] = bits;
                    continue;
                }
                // The disassembler prints the flag as 0 or 1 depending on its age; both mean that it is set.
                "bound_ctrl" => continue,
                other => table(other, value),
            };
            match control {
                Some(Ok(t)) => from = Some(t),
                Some(Err(e)) => return Err(e),
                None => {}
            }
        }
        let from = from.ok_or("the DPP control is missing or not one of gfx9's")?;
        let mut allowed = 0u64;
        for l in 0..LANES {
            if masks[0] >> (l / 16) & 1 != 0 && masks[1] >> (l % 16 / 4) & 1 != 0 {
                allowed |= 1 << l;
            }
        }
        Ok(Dpp {
            from,
            allowed,
            bound_zero: m.get("bound_ctrl").is_some(),
        })
    }

    fn valid(&self, lane: usize, exec: u64) -> bool {
        let from = self.from[lane];
        usize::from(from) < LANES && exec >> from & 1 != 0
    }

    /// The row after the movement; lanes without a valid source get 0.
    pub(super) fn fetch(&self, row: &Row, exec: u64) -> Row {
        std::array::from_fn(|l| {
            if self.valid(l, exec) {
                row[usize::from(self.from[l])]
            } else {
                0
            }
        })
    }

    /// Lanes whose result is stored.
    pub(super) fn written(&self, exec: u64) -> u64 {
        let mut mask = exec & self.allowed;
        if !self.bound_zero {
            for l in 0..LANES {
                if !self.valid(l, exec) {
                    mask &= !(1 << l);
                }
            }
        }
        mask
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Source lanes of a control; `None` when the name is no DPP control.
fn table(name: &str, value: &str) -> Option<Result<[u8; LANES], String>> {
    let bad = || Some(Err(format!("{name}:{value} is not a valid DPP control")));
    let make = |f: &dyn Fn(usize) -> Option<usize>| -> [u8; LANES] {
        std::array::from_fn(|l| f(l).filter(|&s| s < LANES).map_or(NOWHERE, |s| s as u8))
    };
    let row = |l: usize| l & !15;
    let step = |max: usize| {
        number(value)
            .map(|n| n as usize)
            .filter(|&n| n >= 1 && n <= max)
    };
    let table = match name {
        "quad_perm" => {
            let lanes: Vec<usize> = value
                .trim_matches(['[', ']'])
                .split(',')
                .filter_map(|x| x.trim().parse().ok().filter(|&n: &usize| n < 4))
                .collect();
            let [a, b, c, d] = lanes[..] else {
                return bad();
            };
            let quad = [a, b, c, d];
            make(&|l| Some((l & !3) + quad[l & 3]))
        }
        "row_shl" | "row_shr" | "row_ror" => {
            let Some(n) = step(15) else {
                return bad();
            };
            match name {
                "row_shl" => make(&|l| Some(l + n).filter(|&s| row(s) == row(l))),
                "row_shr" => make(&|l| l.checked_sub(n).filter(|&s| row(s) == row(l))),
                _ => make(&|l| Some(row(l) + ((l & 15) + 16 - n) % 16)),
            }
        }
        "wave_shl" | "wave_rol" | "wave_shr" | "wave_ror" => {
            if step(1).is_none() {
                return bad();
            }
            match name {
                "wave_shl" => make(&|l| Some(l + 1)),
                "wave_rol" => make(&|l| Some((l + 1) % LANES)),
                "wave_shr" => make(&|l| l.checked_sub(1)),
                _ => make(&|l| Some((l + LANES - 1) % LANES)),
            }
        }
        "row_mirror" => make(&|l| Some(row(l) + 15 - (l & 15))),
        "row_half_mirror" => make(&|l| Some((l & !7) + 7 - (l & 7))),
        // Lane 15 of each row goes to all lanes of the next row.
        "row_bcast" if number(value) == Some(15) => make(&|l| row(l).checked_sub(1)),
        // Lane 31 goes to rows 2 and 3.
        "row_bcast" if number(value) == Some(31) => make(&|l| (l >= 32).then_some(31)),
        // gfx90a: one lane of each row for all of it.
        "row_newbcast" => {
            let Some(n) = number(value).filter(|&n| n < 16) else {
                return bad();
            };
            make(&|l| Some(row(l) + n as usize))
        }
        "row_bcast" => return bad(),
        _ => return None,
    };
    Some(Ok(table))
}
