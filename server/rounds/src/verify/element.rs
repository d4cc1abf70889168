//! What a buffer holds, from the type of the kernel parameter that points to it.

/// Element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE double.
    F64,
    /// IEEE single, alone or in vectors.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Anything else: integers, structs, unknown. Never redrawn, compared bit by bit.
    Bytes,
}

impl Element {
    /// From a demangled parameter type such as `HIP_vector_type<float, (unsigned int)4> const*`.
    pub fn of(param: &str) -> Self {
        let Some(pointee) = param
            .trim()
            .strip_suffix("__restrict__")
            .unwrap_or(param)
            .trim()
            .strip_suffix('*')
        else {
            return Self::Bytes;
        };
        let pointee: String = pointee
            .replace("const", " ")
            .replace("volatile", " ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let scalar = pointee
            .strip_prefix("HIP_vector_type<")
            .and_then(|rest| rest.split(',').next())
            .unwrap_or(&pointee)
            .trim();
        match scalar {
            "double" => Self::F64,
            "float" => Self::F32,
            "__half" | "__half2" | "half" | "_Float16" => Self::F16,
            "hip_bfloat16" | "__hip_bfloat16" | "__hip_bfloat162" | "__bf16" => Self::Bf16,
            _ => Self::Bytes,
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Bytes => 1,
        }
    }

    /// Whether values of it may be redrawn and compared within a tolerance.
    pub fn is_float(self) -> bool {
        self != Self::Bytes
    }

    /// The distance of 1.0 to the next larger value.
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON,
            Self::F32 => f64::from(f32::EPSILON),
            Self::F16 => 2f64.powi(-10),
            Self::Bf16 => 2f64.powi(-7),
            Self::Bytes => 0.0,
        }
    }

    /// The value at element `index` of `bytes`; NaN past the end.
    pub fn get(self, bytes: &[u8], index: usize) -> f64 {
        let at = index * self.size();
        let Some(raw) = bytes.get(at..at + self.size()) else {
            return f64::NAN;
        };
        match (self, raw) {
            (Self::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (Self::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (Self::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f64(),
            (Self::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f64(),
            (_, &[a]) => f64::from(a),
            _ => f64::NAN,
        }
    }

    /// Put a value, rounded to the type, at element `index`; nothing past the end.
    pub fn put(self, bytes: &mut [u8], index: usize, value: f64) {
        let at = index * self.size();
        let Some(raw) = bytes.get_mut(at..at + self.size()) else {
            return;
        };
        match self {
            Self::F64 => raw.copy_from_slice(&value.to_le_bytes()),
            Self::F32 => raw.copy_from_slice(&(value as f32).to_le_bytes()),
            Self::F16 => raw.copy_from_slice(&half::f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => raw.copy_from_slice(&half::bf16::from_f64(value).to_le_bytes()),
            Self::Bytes => raw[0] = value as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_parameters() {
        for (param, element) in [
            ("float const*", Element::F32),
            ("float*", Element::F32),
            (
                "HIP_vector_type<float, (unsigned int)4> const*",
                Element::F32,
            ),
            ("__half*", Element::F16),
            ("_Float16 const*", Element::F16),
            ("hip_bfloat16*", Element::Bf16),
            ("double*", Element::F64),
            ("int const*", Element::Bytes),
            ("unsigned char*", Element::Bytes),
            ("Particle*", Element::Bytes),
            ("float", Element::Bytes),
            ("float**", Element::Bytes),
        ] {
            assert_eq!(Element::of(param), element, "{param}");
        }
    }

    #[test]
    fn what_is_put_is_got() {
        for e in [Element::F64, Element::F32, Element::F16, Element::Bf16] {
            let mut bytes = vec![0; 8 * e.size()];
            e.put(&mut bytes, 3, -1.5);
            assert_eq!(e.get(&bytes, 3), -1.5);
            assert_eq!(e.get(&bytes, 2), 0.0);
            e.put(&mut bytes, 99, 1.0);
            assert!(e.get(&bytes, 99).is_nan());
        }
    }
}
