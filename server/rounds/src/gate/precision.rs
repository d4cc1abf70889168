//! A candidate must not win by computing less precisely than the original does.

use super::{Edit, Refusal, words};

/// Types and functions of less precision than fp32 arithmetic as HIP defines it.
const NARROW: &[&str] = &[
    "half",
    "half2",
    "__half",
    "__half2",
    "_Float16",
    "__fp16",
    "__bf16",
    "hip_bfloat16",
    "__hip_bfloat16",
    "__hip_bfloat162",
    "__float2half",
    "__float2half_rn",
    "__float22half2_rn",
    "__float2bfloat16",
    "__expf",
    "__exp10f",
    "__logf",
    "__log2f",
    "__log10f",
    "__sinf",
    "__cosf",
    "__tanf",
    "__powf",
    "__fdividef",
    "__builtin_amdgcn_rcpf",
    "__builtin_amdgcn_rsqf",
    "__builtin_amdgcn_sqrtf",
    "__builtin_amdgcn_cvt_pkrtz",
    "__builtin_amdgcn_logf",
    "__builtin_amdgcn_exp2f",
];

pub(super) fn check(edit: &Edit) -> Result<(), Refusal> {
    let narrow = |w: &str| {
        NARROW.contains(&w) || w.ends_with("f16") && w.starts_with(|c: char| c.is_ascii_digit())
    };
    match words::new_among(edit.original, edit.text, narrow) {
        Some(word) => Err(Refusal::Suspect(format!(
            "`{word}` computes less precisely than the original, which does not use it"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrower_type_is_suspect_unless_the_original_has_it() {
        let judge = |original: &str, text: &str| {
            check(&Edit {
                original,
                text,
                kernel: "k",
                target: hipsmith_target::default_target(),
            })
        };
        judge("float a;", "float a, b;").unwrap();
        judge("__half a;", "__half a, b;").unwrap();
        assert!(judge("float a;", "_Float16 a;").is_err());
        assert!(judge("expf(x)", "__expf(x)").is_err());
        assert!(judge("float a;", "auto a = 1f16;").is_err());
    }
}
