//! Constructs that a candidate must not bring in: they make it depend on something other than its arguments,
//! escape what the other checks can see, or look for the verifier.

use super::{Edit, Refusal, words};

/// New words that make a candidate untrustworthy, and why.
const SUSPECT: &[(&[&str], &str)] = &[
    (
        &[
            "clock",
            "clock64",
            "wall_clock64",
            "__clock",
            "__clock64",
            "__builtin_readcyclecounter",
            "__builtin_amdgcn_s_memtime",
            "__builtin_amdgcn_s_memrealtime",
            "__builtin_amdgcn_s_getreg",
        ],
        "reads a clock or a hardware register, so that it may behave differently when it is timed",
    ),
    (
        &[
            "isnan",
            "isinf",
            "isfinite",
            "__builtin_isnan",
            "__builtin_isinf",
            "__builtin_isfinite",
            "__isnanf",
            "__isinff",
            "__finitef",
            "0x7fc00000",
            "0xAAAAAAAA",
            "0xaaaaaaaa",
        ],
        "tests for special values, which may be a search for the verifier's poison",
    ),
    (
        &[
            "__managed__",
            "malloc",
            "free",
            "printf",
            "__builtin_trap",
            "abort",
        ],
        "brings in device-side allocation, output or traps",
    ),
];

const REFUSED: &[(&[&str], &str)] = &[
    (
        &["asm", "__asm", "__asm__"],
        "brings in inline assembly, which the checks cannot read",
    ),
    (
        &["optnone", "_Pragma", "annotate"],
        "brings in attributes or pragmas that change how it is compiled",
    ),
];

pub(super) fn check(edit: &Edit) -> Result<(), Refusal> {
    let find = |list: &[(&[&str], &str)]| {
        list.iter().find_map(|(names, why)| {
            let word = words::new_among(edit.original, edit.text, |w| names.contains(&w))?;
            Some(format!("`{word}` {why}"))
        })
    };
    if let Some(why) = find(REFUSED) {
        return Err(Refusal::Refused(why));
    }
    if let Some(line) = new_directive(edit, &["include", "import"]) {
        return Err(Refusal::Refused(format!(
            "`{line}` brings in another file; a candidate must do with what the file includes"
        )));
    }
    if let Some(line) = new_directive(edit, &["pragma"])
        && !["unroll", "nounroll"]
            .iter()
            .any(|p| line.split_whitespace().nth(1) == Some(p))
    {
        return Err(Refusal::Refused(format!(
            "`{line}` changes how the file is compiled; only unroll pragmas are allowed"
        )));
    }
    match find(SUSPECT) {
        Some(why) => Err(Refusal::Suspect(why)),
        None => Ok(()),
    }
}

/// A preprocessor line of one of these kinds that the original does not have.
fn new_directive<'a>(edit: &Edit<'a>, kinds: &[&str]) -> Option<&'a str> {
    fn directives(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.lines().filter_map(|line| {
            let line = line.trim();
            let rest = line.strip_prefix('#')?.trim_start();
            let kind = rest.split(|c: char| !c.is_alphanumeric()).next()?;
            Some((kind, line))
        })
    }
    directives(edit.text)
        .find(|(kind, line)| {
            kinds.contains(kind) && directives(edit.original).all(|(_, old)| old != *line)
        })
        .map(|(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(original: &str, text: &str) -> Result<(), Refusal> {
        check(&Edit {
            original,
            text,
            kernel: "k",
            target: hipsmith_target::default_target(),
        })
    }

    #[test]
    fn what_hides_or_spies_is_refused() {
        let refused = |text: &str| matches!(judge("int x;", text), Err(Refusal::Refused(_)));
        let suspect = |text: &str| matches!(judge("int x;", text), Err(Refusal::Suspect(_)));
        assert!(refused("asm volatile(\"s_nop 0\");"));
        assert!(refused("#include <hip/hip_fp16.h>\n"));
        assert!(refused("#pragma clang fp reassociate(on)\n"));
        assert!(suspect("long t = clock64();"));
        assert!(suspect("if (isnan(out[i])) return;"));
        assert!(suspect("__managed__ int seen;"));
    }

    #[test]
    fn what_the_original_does_and_what_is_harmless_may_stay() {
        judge("asm(\"\"); clock64();", "asm(\"\"); clock64(); clock64();").unwrap();
        judge("x", "#pragma unroll 4\nfor (;;) x;").unwrap();
        judge("x", "x; // asm would be faster").unwrap();
    }
}
