//! Registers of one 64-lane wavefront.

use crate::isa::Special;

/// Lanes of a wavefront.
pub const LANES: usize = 64;

/// Float mode, from the kernel descriptor and `s_setreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Round mode of f32 (0 nearest even, 1 up, 2 down, 3 to zero).
    pub round_f32: u8,
    /// Round mode of f16 and f64.
    pub round_f16_f64: u8,
    /// Denormals of f32: bit 0 inputs kept, bit 1 outputs kept (3 = full support).
    pub denorm_f32: u8,
    /// Denormals of f16 and f64, same bits.
    pub denorm_f16_f64: u8,
    /// Clamp turns NaN into 0.
    pub dx10_clamp: bool,
    /// IEEE mode: min and max quiet signalling NaN.
    pub ieee: bool,
}

/// Architectural state of one wavefront, without its memory.
#[derive(Clone, Debug)]
pub struct Wave {
    /// Vector registers, one row of 64 lanes each.
    pub v: Vec<[u32; LANES]>,
    /// Accumulation registers (gfx908 and later); empty elsewhere.
    pub a: Vec<[u32; LANES]>,
    /// Scalar registers by gfx9 encoding number; [`Wave::sgpr`] must be used where `exec` can be meant.
    pub s: [u32; 128],
    /// Lanes that execute.
    pub exec: u64,
    /// Scalar condition code.
    pub scc: bool,
    /// Float mode.
    pub mode: Mode,
}

impl Wave {
    /// A scalar register by encoding number, `exec` halves included.
    #[inline]
    pub fn sgpr(&self, i: u8) -> u32 {
        match i {
            126 => self.exec as u32,
            127 => (self.exec >> 32) as u32,
            _ => self.s[i as usize & 127],
        }
    }
    /// Set a scalar register by encoding number, `exec` halves included.
    #[inline]
    pub fn set_sgpr(&mut self, i: u8, value: u32) {
        match i {
            126 => self.exec = self.exec & !0xffff_ffff | u64::from(value),
            127 => self.exec = self.exec & 0xffff_ffff | u64::from(value) << 32,
            _ => self.s[i as usize & 127] = value,
        }
    }
    /// A pair of scalar registers.
    #[inline]
    pub fn sgpr64(&self, i: u8) -> u64 {
        u64::from(self.sgpr(i)) | u64::from(self.sgpr(i + 1)) << 32
    }
    /// Set a pair of scalar registers.
    #[inline]
    pub fn set_sgpr64(&mut self, i: u8, value: u64) {
        self.set_sgpr(i, value as u32);
        self.set_sgpr(i + 1, (value >> 32) as u32);
    }
    /// A special value as a 32-bit number; apertures give their high dword in [`Wave::special64`].
    #[inline]
    pub fn special(&self, what: Special) -> u32 {
        self.special64(what) as u32
    }
    /// A special value as a 64-bit number.
    pub fn special64(&self, what: Special) -> u64 {
        match what {
            Special::Off | Special::Null => 0,
            Special::Scc => u64::from(self.scc),
            Special::Vccz => u64::from(self.sgpr64(106) == 0),
            Special::Execz => u64::from(self.exec == 0),
            Special::SharedBase => SHARED_APERTURE,
            Special::SharedLimit => SHARED_APERTURE | 0xffff_ffff,
            Special::PrivateBase => PRIVATE_APERTURE,
            Special::PrivateLimit => PRIVATE_APERTURE | 0xffff_ffff,
        }
    }
}

/// Base of the LDS aperture in the flat address space; no host mapping lies there.
pub const SHARED_APERTURE: u64 = 0x1_0000_0000_0000 << 8;
/// Base of the scratch aperture in the flat address space; no host mapping lies there.
pub const PRIVATE_APERTURE: u64 = 0x2_0000_0000_0000 << 8;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A wave with all lanes active and 16 zeroed vector registers.
    pub(crate) fn blank() -> Wave {
        Wave {
            v: vec![[0; LANES]; 16],
            a: Vec::new(),
            s: [0; 128],
            exec: u64::MAX,
            scc: false,
            mode: Mode {
                round_f32: 0,
                round_f16_f64: 0,
                denorm_f32: 3,
                denorm_f16_f64: 3,
                dx10_clamp: true,
                ieee: true,
            },
        }
    }

    #[test]
    fn exec_is_seen_through_its_register_numbers() {
        let mut wave = blank();
        wave.set_sgpr64(126, 0x1234_5678_9abc_def0);
        assert_eq!(wave.exec, 0x1234_5678_9abc_def0);
        assert_eq!(wave.sgpr(127), 0x1234_5678);
    }
}
