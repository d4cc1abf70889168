//! Sizes and alignments of types on the device (64-bit pointers).

/// Size and alignment of a type, bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout {
    /// Size.
    pub size: u64,
    /// Alignment.
    pub align: u64,
}

impl Layout {
    /// An array of `n`.
    pub(crate) fn times(self, n: u64) -> Option<Self> {
        let size = self.size.checked_mul(n)?;
        Some(Self { size, ..self })
    }
}

/// Size of a type that is one word and needs no lookup.
pub(crate) fn builtin_size(word: &str) -> Option<u64> {
    let word = word.strip_prefix("std::").unwrap_or(word);
    Some(match word {
        "char"
        | "bool"
        | "int8_t"
        | "uint8_t"
        | "uchar"
        | "byte"
        | "__hip_fp8_e4m3"
        | "__hip_fp8_e5m2"
        | "__hip_fp8_e4m3_fnuz"
        | "__hip_fp8_e5m2_fnuz" => 1,
        "short" | "int16_t" | "uint16_t" | "ushort" | "half" | "__half" | "_Float16" | "__fp16"
        | "hip_bfloat16" | "__hip_bfloat16" | "bfloat16" | "bhalf_t" | "half_t" | "char16_t" => 2,
        "int"
        | "unsigned"
        | "signed"
        | "float"
        | "int32_t"
        | "uint32_t"
        | "uint"
        | "wchar_t"
        | "half2"
        | "__half2"
        | "__hip_bfloat162"
        | "char32_t"
        | "hipFloatComplex_part" => 4,
        "long" | "double" | "size_t" | "ssize_t" | "int64_t" | "uint64_t" | "ulong"
        | "longlong" | "ulonglong" | "ptrdiff_t" | "uintptr_t" | "intptr_t" | "hipFloatComplex"
        | "hipComplex" | "clock_t" => 8,
        "hipDoubleComplex" => 16,
        "dim3" => 12,
        _ => return vector(word).map(|l| l.size),
    })
}

/// HIP's vector types, `char1` to `double4`.
fn vector(word: &str) -> Option<Layout> {
    let n = u64::from(word.bytes().last()?.checked_sub(b'0')?);
    if !(1..=4).contains(&n) {
        return None;
    }
    let size = match &word[..word.len() - 1] {
        "char" | "uchar" => 1,
        "short" | "ushort" => 2,
        "int" | "uint" | "float" => 4,
        "long" | "ulong" | "longlong" | "ulonglong" | "double" => 8,
        _ => return None,
    };
    // Three components are as aligned as one; the others as their whole.
    let align = if n == 3 { size } else { size * n };
    Some(Layout {
        size: size * n,
        align,
    })
}

/// Size and alignment of a type that needs no lookup: built in, or a pointer. Template arguments must not be in it.
pub(crate) fn layout_of(ty: &str) -> Option<Layout> {
    if ty.contains(['<', '[', '(']) {
        return None;
    }
    if ty.contains(['*', '&']) {
        return Some(Layout { size: 8, align: 8 });
    }
    let ty = ty.strip_prefix("std :: ").unwrap_or(ty);
    let words: Vec<&str> = ty
        .split_whitespace()
        .filter(|w| !matches!(*w, "const" | "volatile" | "typename"))
        .collect();
    match words.as_slice() {
        [] => None,
        [one] => {
            if let Some(l) = vector(one.strip_prefix("std::").unwrap_or(one)) {
                return Some(l);
            }
            let size = builtin_size(one)?;
            let align = match *one {
                "dim3" => 4,
                _ => size,
            };
            Some(Layout { size, align })
        }
        many => {
            let has = |w: &str| many.contains(&w);
            let all_integer = many.iter().all(|w| {
                matches!(
                    *w,
                    "unsigned" | "signed" | "long" | "short" | "char" | "int"
                )
            });
            let size = if has("double") && has("long") {
                16
            } else if !all_integer {
                return None;
            } else if has("char") {
                1
            } else if has("short") {
                2
            } else if has("long") {
                8
            } else {
                4
            };
            Some(Layout { size, align: size })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let size = |t: &str| layout_of(t).map(|l| (l.size, l.align));
        assert_eq!(size("float"), Some((4, 4)));
        assert_eq!(size("const unsigned long long int"), Some((8, 8)));
        assert_eq!(size("unsigned char"), Some((1, 1)));
        assert_eq!(size("float3"), Some((12, 4)));
        assert_eq!(size("double4"), Some((32, 32)));
        assert_eq!(size("volatile float *"), Some((8, 8)));
        assert_eq!(size("std::uint16_t"), Some((2, 2)));
        assert_eq!(size("Foo"), None);
        assert_eq!(size(""), None);
        assert_eq!(size("int9"), None);
    }
}
