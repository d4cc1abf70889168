//! `arch-list-misses-target`

use std::ops::Range;

use hipsmith_syntax::lex::tokens;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "arch-list-misses-target",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::File,
    summary: "A list of architectures decides the wave size, and the target is not in it: it gets 32 instead of 64.",
    docs: r#"
## What it does
Looks at macros that are defined as 64 in one branch of a preprocessor condition and as 32 in another. Reports the
condition when it names architectures (`__gfx90a__`, directly or through a macro) and the target falls into the branch
with 32.

## Why it matters on 64 lanes
Allow-lists name the devices that their author had. Hygon's gfx926, gfx928 and gfx936 are in hardly any, and gfx906 is
often left out: the code is then compiled for 32 lanes on a device that runs 64, without a warning.

## Example that fires
```hip fires
#if defined(__gfx90a__) || defined(__gfx942__)
#define MY_WARP_SIZE 64
#else
#define MY_WARP_SIZE 32
#endif
```

## Example that does not
```hip quiet
#if defined(__GFX9__)
#define MY_WARP_SIZE 64
#else
#define MY_WARP_SIZE 32
#endif
```

## Fix
Ask for the family, `__GFX9__`, which all of them define, not for each device. No fix is offered: which devices belong to
the other branch is for the author to say.

## Sources
bitsandbytes and FBGEMM (wave size taken from a list of AMD devices); target tables.
"#,
    check,
};

struct Branch {
    /// The directive's line.
    line: Range<usize>,
    condition: String,
}

/// A conditional that is open while the text is read: its branches so far.
type Open = Vec<Branch>;

struct Definition {
    name: String,
    value: i64,
    at: usize,
    /// Which conditional, and which of its branches.
    conditional: usize,
    branch: usize,
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let text = cx.model.text();
    if !text.contains("64") || !text.contains("32") || !text.contains("#el") {
        return;
    }
    let mut conditionals: Vec<Open> = Vec::new();
    let mut stack: Vec<usize> = Vec::new();
    let mut definitions: Vec<Definition> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let range = start..start + line.trim_end().len();
        start += line.len();
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let directive = directive.trim();
        let word: String = directive
            .chars()
            .take_while(|c| c.is_alphabetic())
            .collect();
        let rest = directive[word.len()..].trim();
        match word.as_str() {
            "if" | "ifdef" | "ifndef" => {
                stack.push(conditionals.len());
                conditionals.push(vec![Branch {
                    line: range,
                    condition: rest.to_owned(),
                }]);
            }
            "elif" | "else" | "elifdef" | "elifndef" => {
                if let Some(open) = stack.last().and_then(|i| conditionals.get_mut(*i)) {
                    open.push(Branch {
                        line: range,
                        condition: rest.to_owned(),
                    });
                }
            }
            "endif" => {
                stack.pop();
            }
            "define" => {
                let mut words = rest.split_whitespace();
                let (Some(name), Some(value), Some(conditional)) =
                    (words.next(), words.next(), stack.last())
                else {
                    continue;
                };
                let Ok(value) = value.trim_matches(['(', ')', 'u', 'U']).parse::<i64>() else {
                    continue;
                };
                if value == 32 || value == 64 {
                    definitions.push(Definition {
                        name: name.to_owned(),
                        value,
                        at: range.start,
                        conditional: *conditional,
                        branch: conditionals[*conditional].len() - 1,
                    });
                }
            }
            _ => {}
        }
    }
    for narrow in definitions.iter().filter(|d| d.value == 32) {
        let line_end = text[narrow.at..]
            .find('\n')
            .map_or(text.len(), |i| narrow.at + i);
        let Some(wide) = definitions.iter().find(|d| {
            d.value == 64
                && d.name == narrow.name
                && d.conditional == narrow.conditional
                && d.branch < narrow.branch
        }) else {
            continue;
        };
        let Some(branch) = conditionals
            .get(wide.conditional)
            .and_then(|c| c.get(wide.branch))
        else {
            continue;
        };
        let lower = narrow.name.to_ascii_lowercase();
        let about_waves = ["warp", "wave", "wf", "lane"]
            .iter()
            .any(|w| lower.contains(w));
        let mut devices = Vec::new();
        if !about_waves
            || !list(cx, &branch.condition, 0, &mut devices)
            || devices.is_empty()
            || devices.contains(&cx.target.macro_name())
        {
            continue;
        }
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Error,
            range: branch.line.clone(),
            message: format!(
                "the devices named here do not include {0}, so `{1}` is 32 there although {0} runs 64 lanes; ask for `__GFX9__` instead of single devices",
                cx.target.name, narrow.name
            ),
            related: vec![(
                narrow.at..line_end,
                format!("this definition is the one that {} gets", cx.target.name),
            )],
            fix: None,
        });
    }
}

/// Collect the devices (`__gfx90a__`) that a condition asks for, directly or through macros; false when it is more than
/// a list of them. Whether the conditional around it is compiled does not matter: such names belong to HIP only.
fn list(cx: &Context<'_>, condition: &str, depth: u32, devices: &mut Vec<String>) -> bool {
    tokens(condition).iter().all(|t| {
        let word = t.text(condition);
        if word.starts_with("__gfx") {
            devices.push(word.to_owned());
            return true;
        }
        if matches!(word, "defined" | "(" | ")" | "||" | "\\") {
            return true;
        }
        depth < 4
            && cx
                .model
                .macros()
                .find(|(name, m)| *name == word && m.parameters.is_none())
                .is_some_and(|(_, m)| list(cx, &m.body, depth + 1, devices))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect_on;

    const SOURCE: &str = "
#define IS_A defined(__gfx90a__)
#define IS_C (IS_A || defined(__gfx942__))
#if IS_C
//~ error: do not include gfx928
#define A_WARP_SIZE 64
#else
#define A_WARP_SIZE 32
#endif
#ifdef WAVE64
#define B_WARP_SIZE 64
#else
#define B_WARP_SIZE 32
#endif
#if defined(__gfx942__)
#define TILE 64
#else
#define TILE 32
#endif
";

    #[test]
    fn lists_of_devices() {
        expect_on(RULE.id, SOURCE, "gfx928");
        let without: String = SOURCE
            .lines()
            .filter(|l| !l.contains("//~"))
            .map(|l| format!("{l}\n"))
            .collect();
        expect_on(RULE.id, &without, "gfx90a");
    }
}
