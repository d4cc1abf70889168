//! What `check` and `fix` are told alike: target, macros, and which rules.

use std::collections::BTreeSet;

use hipsmith_lint::{Config, similar};
use hipsmith_project::{Given, define};

/// Options that win over `hipsmith.toml`.
#[derive(Debug, clap::Args)]
pub struct GivenArgs {
    /// The target, such as gfx928 [default: the project's, else gfx928].
    #[arg(long)]
    target: Option<String>,
    /// A macro as the compiler is given it: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// Run only these rules.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    only: Vec<String>,
    /// Do not run these rules.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    disable: Vec<String>,
}

impl GivenArgs {
    /// What they say.
    ///
    /// # Errors
    /// One sentence for a target or rule that does not exist.
    pub fn given(&self) -> Result<Given, String> {
        let target = match &self.target {
            None => None,
            Some(name) => Some(hipsmith_target::by_name(name).ok_or_else(|| {
                let known: Vec<&str> = hipsmith_target::all()
                    .iter()
                    .map(|t| t.name.as_str())
                    .collect();
                format!("unknown target `{name}`; known are {}", known.join(", "))
            })?),
        };
        Ok(Given {
            target,
            fallback_target: None,
            defines: self.defines.iter().map(|d| define(d)).collect(),
            lint: Config {
                disabled: rules(&self.disable)?,
                only: rules(&self.only)?,
                ..Config::default()
            },
        })
    }
}

fn rules(names: &[String]) -> Result<BTreeSet<String>, String> {
    for name in names {
        if hipsmith_lint::rule(name).is_none() {
            let near = similar(name, hipsmith_lint::rules().iter().map(|r| r.id));
            let hint = match near.first() {
                Some(_) => format!("did you mean `{}`?", near.join("` or `")),
                None => "`hipsmith explain` lists the rules".to_owned(),
            };
            return Err(format!("there is no rule `{name}`; {hint}"));
        }
    }
    Ok(names.iter().cloned().collect())
}
