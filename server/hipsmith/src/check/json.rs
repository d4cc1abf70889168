//! Findings as objects of our own shape; `docs/check.md` describes it.

use std::path::Path;

use hipsmith_lint::{Diagnostic, Safety};
use hipsmith_syntax::Document;
use serde_json::{Value, json};

use super::place;

/// A finding as an object.
pub fn object(path: &Path, document: &Document, d: &Diagnostic) -> Value {
    let [line, column, end_line, end_column] = place(document, &d.range);
    let mut value = json!({
        "file": path.to_string_lossy(),
        "rule": d.rule,
        "family": d.family.letter(),
        "severity": d.severity.name(),
        "line": line,
        "column": column,
        "endLine": end_line,
        "endColumn": end_column,
        "message": d.message,
    });
    if !d.related.is_empty() {
        let related = d.related.iter().map(|(range, message)| {
            let [line, column, end_line, end_column] = place(document, range);
            json!({
                "line": line, "column": column, "endLine": end_line, "endColumn": end_column, "message": message,
            })
        });
        value["related"] = related.collect();
    }
    if let Some(fix) = &d.fix {
        let edits: Vec<Value> = fix
            .edits
            .iter()
            .map(|(range, text)| {
                let [line, column, end_line, end_column] = place(document, range);
                json!({
                    "line": line, "column": column, "endLine": end_line, "endColumn": end_column, "text": text,
                })
            })
            .collect();
        value["fix"] = json!({ "title": fix.title, "safety": safety(fix.safety), "edits": edits });
    }
    value
}

/// A fix's safety, in a word.
fn safety(s: Safety) -> &'static str {
    match s {
        Safety::Safe => "safe",
        Safety::Unsafe => "unsafe",
        Safety::ShownOnly => "shown-only",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn json_counts_from_one_in_bytes() {
        let (document, d) = finding("// é\r\nint é = wrong;\r\n", "wrong");
        let v = object(Path::new("a.hip"), &document, &d);
        assert_eq!(
            (v["line"].as_u64(), v["column"].as_u64()),
            (Some(2), Some(10))
        );
        assert_eq!(
            (v["endLine"].as_u64(), v["endColumn"].as_u64()),
            (Some(2), Some(15))
        );
        assert_eq!(v["family"], "L");
        assert_eq!(v["fix"]["edits"][0]["text"], "right");
        assert_eq!(v["fix"]["safety"], "safe");
    }
}
