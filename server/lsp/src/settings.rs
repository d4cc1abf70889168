//! What a person can set, from initialization options or `workspace/didChangeConfiguration`.

use hipsmith_target::Target;
use serde_json::Value;

/// When to diagnose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    OnType,
    OnSave,
}

/// Which inlay hints are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// None at all when false.
    pub enable: bool,
    /// Bytes of LDS arrays.
    pub lds_bytes: bool,
    /// LDS and occupancy of kernels.
    pub occupancy: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            enable: true,
            lds_bytes: true,
            occupancy: true,
        }
    }
}

impl Hints {
    /// Names in the settings, as [`Hints::switch`] takes them.
    const SWITCHES: [&str; 3] = ["enable", "ldsBytes", "occupancy"];

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "enable" => Some(&mut self.enable),
            "ldsBytes" => Some(&mut self.lds_bytes),
            "occupancy" => Some(&mut self.occupancy),
            _ => None,
        }
    }

    fn merge(&mut self, value: &Value, problems: &mut Vec<String>) {
        let Some(table) = value.as_object() else {
            problems.push("inlayHints must be an object".to_owned());
            return;
        };
        for (name, value) in table.iter().filter(|(_, value)| !value.is_null()) {
            if let Some(switch) = self.switch(name) {
                match value.as_bool() {
                    Some(value) => *switch = value,
                    None => problems.push(format!("inlayHints.{name} must be true or false")),
                }
            }
        }
    }
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Settings {
    pub target: &'static Target,
    /// Whether somebody chose it.
    pub target_given: bool,
    pub run: Run,
    pub hints: Hints,
    /// Rounds a job may use.
    pub rounds: u32,
    /// The program whose run gives the subject; `None`: the file's own.
    pub program: Option<Vec<String>>,
    /// Whether compiler and programs of this workspace may run.
    pub trusted: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            target: hipsmith_target::default_target(),
            target_given: false,
            run: Run::OnType,
            hints: Hints::default(),
            rounds: 8,
            program: None,
            trusted: false,
        }
    }
}

impl Settings {
    /// Take over what `value` sets and return one sentence for each thing in it that is not understood. `value` may be
    /// the settings themselves or hold them under the key `hipsmith`.
    pub fn merge(&mut self, value: &Value) -> Vec<String> {
        let value = value.get("hipsmith").unwrap_or(value);
        let mut problems = Vec::new();
        let Some(table) = value.as_object() else {
            if !value.is_null() {
                problems.push("the settings are not an object".to_owned());
            }
            return problems;
        };
        // An editor that keeps a setting unset says null.
        for (key, value) in table.iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "target" => match value.as_str().and_then(hipsmith_target::by_name) {
                    Some(target) => {
                        self.target = target;
                        self.target_given = true;
                    }
                    None => problems.push(format!(
                        "target {value} is not known; known are {}",
                        hipsmith_target::all()
                            .iter()
                            .map(|t| t.name.as_str())
                            .collect::<Vec<_>>()
                            .join(", ")
                    )),
                },
                "trusted" => match value.as_bool() {
                    Some(trusted) => self.trusted = trusted,
                    None => problems.push("trusted must be true or false".to_owned()),
                },
                "diagnostics" => match value.get("run").unwrap_or(&Value::Null) {
                    Value::Null if value.is_object() => {}
                    Value::String(run) if run == "onType" => self.run = Run::OnType,
                    Value::String(run) if run == "onSave" => self.run = Run::OnSave,
                    _ => problems.push("diagnostics.run must be onType or onSave".to_owned()),
                },
                "inlayHints" => self.hints.merge(value, &mut problems),
                "optimize" => self.merge_optimize(value, &mut problems),
                // The editor's own affairs, sent along with the rest.
                "server" | "trace" => {}
                other => problems.push(format!("the setting {other} is not known")),
            }
            let inner: &[&str] = match key.as_str() {
                "diagnostics" => &["run"],
                "inlayHints" => &Hints::SWITCHES,
                "optimize" => &["rounds", "program"],
                _ => continue,
            };
            for unknown in value.as_object().into_iter().flat_map(|table| table.keys()) {
                if !inner.contains(&unknown.as_str()) {
                    problems.push(format!("the setting {key}.{unknown} is not known"));
                }
            }
        }
        problems
    }

    fn merge_optimize(&mut self, value: &Value, problems: &mut Vec<String>) {
        match value.get("rounds") {
            None | Some(Value::Null) => {}
            Some(rounds) => match rounds.as_u64().map(u32::try_from) {
                Some(Ok(rounds)) if rounds > 0 => self.rounds = rounds,
                _ => problems.push("optimize.rounds must be a whole number above 0".to_owned()),
            },
        }
        match value.get("program") {
            None | Some(Value::Null) => {}
            Some(program) => match words(program) {
                Some(words) => self.program = (!words.is_empty()).then_some(words),
                None => problems.push(
                    "optimize.program must be a list: the program and its arguments".to_owned(),
                ),
            },
        }
    }
}

/// A JSON list of strings.
pub fn words(value: &Value) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|word| word.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_settings_are_taken_over_from_both_shapes() {
        for value in [
            json!({"target": "gfx906", "trusted": true, "optimize": {"rounds": 3, "program": ["./a", "1"]}, "diagnostics": {"run": "onSave"}}),
            json!({"hipsmith": {"target": "gfx906", "trusted": true, "optimize": {"rounds": 3, "program": ["./a", "1"]}, "diagnostics": {"run": "onSave"}}}),
        ] {
            let mut settings = Settings::default();
            assert_eq!(settings.merge(&value), Vec::<String>::new());
            assert_eq!(settings.target.name, "gfx906");
            assert!(settings.trusted);
            assert_eq!(settings.rounds, 3);
            assert_eq!(
                settings.program.as_deref(),
                Some(&["./a".to_owned(), "1".to_owned()][..])
            );
            assert_eq!(settings.run, Run::OnSave);
        }
    }

    #[test]
    fn what_is_not_understood_is_said_and_changes_nothing() {
        let mut settings = Settings::default();
        let problems = settings.merge(&json!({
            "target": "gfx1",
            "colour": 1,
            "optimize": {"rounds": 0, "speed": 9},
            "diagnostics": "onType",
            "inlayHints": {"enable": "no", "colour": true},
            "trusted": "yes",
        }));
        assert_eq!(problems.len(), 8, "{problems:?}");
        assert_eq!(settings.hints, Hints::default());
        assert_eq!(settings.target.name, hipsmith_target::default_target().name);
        assert!(!settings.trusted);
    }

    #[test]
    fn each_kind_of_hint_has_its_switch() {
        for name in Hints::SWITCHES {
            let mut settings = Settings::default();
            let off = json!({ "inlayHints": { name: false } });
            assert_eq!(settings.merge(&off), Vec::<String>::new());
            let mut expected = Hints::default();
            *expected.switch(name).unwrap() = false;
            assert_eq!(settings.hints, expected);
        }
    }

    #[test]
    fn null_leaves_a_setting_as_it_is() {
        let mut settings = Settings::default();
        settings.merge(&json!({"target": "gfx906", "optimize": {"rounds": 3}}));
        let nothing = json!({
            "target": null,
            "trusted": null,
            "optimize": {"rounds": null, "program": null},
            "diagnostics": {"run": null},
        });
        assert_eq!(settings.merge(&nothing), Vec::<String>::new());
        assert_eq!(
            (settings.target.name.as_str(), settings.rounds),
            ("gfx906", 3)
        );
    }
}
