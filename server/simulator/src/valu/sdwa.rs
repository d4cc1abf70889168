//! Sub-dword addressing: parts of sources and destinations.

use super::lane::Row;
use crate::isa::Modifiers;
use crate::machine::LANES;

/// A part of a dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Select {
    Byte(u8),
    Word(u8),
    Dword,
}

impl Select {
    fn parse(name: &str, value: Option<&str>) -> Result<Select, String> {
        Ok(match value {
            None | Some("DWORD") => Select::Dword,
            Some("BYTE_0") => Select::Byte(0),
            Some("BYTE_1") => Select::Byte(1),
            Some("BYTE_2") => Select::Byte(2),
            Some("BYTE_3") => Select::Byte(3),
            Some("WORD_0") => Select::Word(0),
            Some("WORD_1") => Select::Word(1),
            Some(other) => return Err(format!("{name}:{other} is not a part of a dword")),
        })
    }

    /// First bit and width in bits.
    fn bits(self) -> (u32, u32) {
        match self {
            Select::Byte(i) => (8 * u32::from(i), 8),
            Select::Word(i) => (16 * u32::from(i), 16),
            Select::Dword => (0, 32),
        }
    }

    /// Move the part to bit 0, extended with zeros or its sign.
    pub(super) fn read(self, row: &mut Row, sext: bool) {
        let (first, width) = self.bits();
        let up = 32 - width - first;
        for x in row.iter_mut() {
            let top = *x << up;
            *x = if sext {
                ((top as i32) >> (32 - width)) as u32
            } else {
                top >> (32 - width)
            };
        }
    }
}

/// What happens to the bits of the destination outside the selected part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unused {
    Pad,
    Sext,
    Preserve,
}

/// The SDWA part of an instruction.
#[derive(Clone, Debug)]
pub(super) struct Sdwa {
    pub(super) src: [Select; 2],
    dst: Select,
    unused: Unused,
}

impl Sdwa {
    pub(super) fn parse(m: &Modifiers) -> Result<Sdwa, String> {
        let select = |name: &str| Select::parse(name, m.get(name));
        Ok(Sdwa {
            src: [select("src0_sel")?, select("src1_sel")?],
            dst: select("dst_sel")?,
            unused: match m.get("dst_unused") {
                None | Some("UNUSED_PAD") => Unused::Pad,
                Some("UNUSED_SEXT") => Unused::Sext,
                Some("UNUSED_PRESERVE") => Unused::Preserve,
                Some(other) => return Err(format!("dst_unused:{other} is not known")),
            },
        })
    }

    /// Put results into the selected part of the destination, whose former value is `old`.
    pub(super) fn place(&self, row: &mut Row, old: &Row) {
        let (first, width) = self.dst.bits();
        if width == 32 {
            return;
        }
        let part = ((1u32 << width) - 1) << first;
        for l in 0..LANES {
            let value = row[l] << first & part;
            row[l] = match self.unused {
                Unused::Pad => value,
                Unused::Preserve => value | old[l] & !part,
                Unused::Sext => {
                    let up = 32 - width - first;
                    // Bits below the part are zero, bits above repeat its sign.
                    ((value << up) as i32 >> up) as u32
                }
            };
        }
    }
}
