//! Which compiler builtins and instructions a target has: one table with its sources, `targets/builtins.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::Target;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    starts: Option<String>,
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    have: Vec<String>,
    #[serde(default)]
    unknown: Vec<String>,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    builtin: Vec<Entry>,
}

static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    // Compiled in, and parsed by a test: a fault here cannot reach a user.
    let table: Table = toml::from_str(include_str!("../targets/builtins.toml"))
        .unwrap_or_else(|e| panic!("targets/builtins.toml: {e}"));
    table.builtin
});

/// A builtin that a target lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lack {
    /// Targets that have it, by name.
    pub have: &'static [String],
    /// Where this comes from.
    pub source: &'static str,
}

impl Target {
    /// Says when the target is known to lack a builtin (`__builtin_amdgcn_mfma_f32_16x16x16f16`) or an instruction
    /// (`v_mfma_f32_16x16x16f16`); `None` when it has it or nothing is known.
    pub fn lacks(&self, name: &str) -> Option<Lack> {
        let short = name
            .strip_prefix("__builtin_amdgcn_")
            .or_else(|| {
                name.strip_prefix("__builtin_")
                    .filter(|n| n.starts_with("hcu_"))
            })
            .or_else(|| name.strip_prefix("v_"))?;
        let entry = TABLE.iter().find(|e| {
            e.names.iter().any(|n| n == short)
                || e.starts.as_ref().is_some_and(|s| {
                    short.starts_with(s.as_str())
                        && (e.contains.is_empty()
                            || e.contains.iter().any(|c| short.contains(c.as_str())))
                })
        })?;
        let known = |list: &[String]| list.contains(&self.name);
        (!known(&entry.have) && !known(&entry.unknown)).then_some(Lack {
            have: &entry.have,
            source: &entry.source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, by_name};

    #[test]
    fn the_table_names_targets_and_agrees_with_their_files() {
        assert!(!TABLE.is_empty());
        for e in TABLE.iter() {
            assert!(!e.source.is_empty());
            assert!(e.starts.is_some() || !e.names.is_empty());
            for name in e.have.iter().chain(&e.unknown) {
                assert!(all().iter().any(|t| t.name == *name), "{name}");
            }
        }
        for t in all() {
            for b in &t.compute.matrix_builtins {
                assert_eq!(t.lacks(b), None, "{}: {b}", t.name);
            }
        }
    }

    #[test]
    fn who_lacks_what() {
        let lacks = |t: &str, b: &str| {
            by_name(t).is_some_and(|t| t.lacks(&format!("__builtin_{b}")).is_some())
        };
        assert!(lacks("gfx906", "amdgcn_mfma_f32_16x16x16f16"));
        assert!(!lacks("gfx90a", "amdgcn_mfma_f32_16x16x16f16"));
        assert!(lacks("gfx928", "amdgcn_mfma_f32_16x16x16f16"));
        assert!(lacks("gfx908", "amdgcn_mfma_f32_16x16x16bf16_1k"));
        assert!(lacks("gfx950", "amdgcn_mfma_f32_16x16x8_xf32"));
        assert!(lacks("gfx926", "hcu_mmac_f32_16x16x16_f16"));
        assert!(!lacks("gfx928", "hcu_mmac_f32_16x16x16_f16"));
        assert!(lacks("gfx942", "hcu_mmac_f32_16x16x16_f16"));
        assert!(lacks("gfx900", "amdgcn_sdot4"));
        assert!(!lacks("gfx928", "amdgcn_sdot4"));
        assert!(!lacks("gfx906", "amdgcn_readfirstlane"));
        assert!(by_name("gfx906").is_some_and(|t| t.lacks("v_mfma_f32_4x4x1f32").is_some()));
    }
}
