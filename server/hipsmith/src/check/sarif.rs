//! Findings as SARIF 2.1.0, the exchange format that code hosts and editors read.

use std::fmt::Write as _;
use std::path::Path;

use hipsmith_lint::{Diagnostic, Rule, Safety, Severity, rules};
use hipsmith_project::absolute;
use hipsmith_syntax::{Document, Encoding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::baseline::{Key, relative};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Stands for the root in the locations.
const BASE: &str = "%SRCROOT%";

/// One result. `same` counts the findings before it in the file with the same key.
pub fn result(
    root: &Path,
    path: &Path,
    document: &Document,
    d: &Diagnostic,
    key: &Key,
    same: u32,
) -> Value {
    let artifact = artifact(root, path);
    let location = |range: &std::ops::Range<usize>| json!({ "artifactLocation": artifact, "region": region(document, range) });
    let mut out = json!({
        "ruleId": d.rule,
        "level": level(d.severity),
        "message": { "text": d.message },
        "locations": [{ "physicalLocation": location(&d.range) }],
        "partialFingerprints": {
            "hipsmithFinding/v1": fingerprint(&relative(&absolute(path), root), key, same),
        },
    });
    if let Some(index) = rules().iter().position(|r| r.id == d.rule) {
        out["ruleIndex"] = index.into();
    }
    if !d.related.is_empty() {
        let related = d.related.iter().enumerate().map(|(id, (range, message))| {
            json!({
                "id": id,
                "physicalLocation": location(range),
                "message": { "text": message },
            })
        });
        out["relatedLocations"] = related.collect();
    }
    // Readers may apply a fix that they are given; what is only to be read stays in the message.
    if let Some(fix) = &d.fix
        && fix.safety != Safety::ShownOnly
        && !fix.edits.is_empty()
    {
        let text = match fix.safety {
            Safety::Safe => fix.title.clone(),
            _ => format!("{} (may change results: review it)", fix.title),
        };
        let replacements = fix.edits.iter().map(|(range, text)| {
            json!({
                "deletedRegion": region(document, range),
                "insertedContent": { "text": text },
            })
        });
        out["fixes"] = json!([{
            "description": { "text": text },
            "artifactChanges": [{
                "artifactLocation": artifact,
                "replacements": replacements.collect::<Value>(),
            }],
        }]);
    }
    out
}

/// The whole log. `troubles` are files that could not be checked, `notes` what was left out of the others.
pub fn log(
    root: &Path,
    results: Vec<Value>,
    troubles: &[String],
    notes: &[String],
    exit_code: u8,
) -> Value {
    let notification = |level: &'static str| move |text: &String| json!({ "level": level, "message": { "text": text } });
    let notifications: Vec<Value> = troubles
        .iter()
        .map(notification("error"))
        .chain(notes.iter().map(notification("warning")))
        .collect();
    let mut uri = file_uri(root);
    if !uri.ends_with('/') {
        uri.push('/');
    }
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "hipsmith",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules().iter().map(|r| descriptor(r)).collect::<Value>(),
                },
            },
            "columnKind": "utf16CodeUnits",
            "originalUriBaseIds": { BASE: { "uri": uri } },
            "invocations": [{
                "executionSuccessful": troubles.is_empty(),
                "exitCode": exit_code,
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    let page = hipsmith_lint::explain(rule.id).unwrap_or_default();
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.summary },
        "help": { "text": page, "markdown": page },
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": { "tags": [rule.family.title()], "family": rule.family.letter() },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "note",
    }
}

fn region(document: &Document, range: &std::ops::Range<usize>) -> Value {
    let start = document.position(range.start, Encoding::Utf16);
    let end = document.position(range.end.max(range.start), Encoding::Utf16);
    json!({
        "startLine": start.line + 1,
        "startColumn": start.column + 1,
        "endLine": end.line + 1,
        "endColumn": end.column + 1,
    })
}

fn artifact(root: &Path, path: &Path) -> Value {
    let path = absolute(path);
    if path.starts_with(root) {
        json!({ "uri": encoded(&relative(&path, root)), "uriBaseId": BASE })
    } else {
        json!({ "uri": file_uri(&path) })
    }
}

fn file_uri(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let slash = if text.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{}", encoded(&text))
}

/// Percent-encoding of a path in a URI reference.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for b in path.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~/".contains(&b) {
            out.push(b as char);
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out
}

fn fingerprint(file: &str, (rule, line): &Key, same: u32) -> String {
    let hash = Sha256::digest(format!("{file}\n{rule}\n{line}\n{same}").as_bytes());
    hash.iter().take(16).fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn a_result_has_its_place_in_utf16_its_fix_and_its_relations() {
        let (document, d) = finding("// é\nint é𝄞 = wrong;\n", "wrong");
        let key = ("a-rule".to_owned(), "x".to_owned());
        let root = Path::new("/p");
        let v = result(root, Path::new("/p/a b/é.hip"), &document, &d, &key, 0);
        let place = &v["locations"][0]["physicalLocation"];
        assert_eq!(
            place["artifactLocation"],
            json!({ "uri": "a%20b/%C3%A9.hip", "uriBaseId": "%SRCROOT%" })
        );
        assert_eq!(
            place["region"],
            json!({ "startLine": 2, "startColumn": 11, "endLine": 2, "endColumn": 16 })
        );
        assert_eq!(v["level"], "warning");
        assert_eq!(v["relatedLocations"][0]["message"]["text"], "the other end");
        let change = &v["fixes"][0]["artifactChanges"][0];
        assert_eq!(
            change["replacements"][0]["insertedContent"]["text"],
            "right"
        );
        assert_eq!(change["artifactLocation"]["uri"], "a%20b/%C3%A9.hip");
        let print = |same| {
            let v = result(root, Path::new("/p/a"), &document, &d, &key, same);
            v["partialFingerprints"]["hipsmithFinding/v1"].clone()
        };
        assert_ne!(print(0), print(1));
        let outside = result(root, Path::new("/q/a:b.hip"), &document, &d, &key, 0);
        assert_eq!(
            outside["locations"][0]["physicalLocation"]["artifactLocation"],
            json!({ "uri": "file:///q/a%3Ab.hip" })
        );
    }

    #[test]
    fn a_log_names_every_rule_with_its_page() {
        let v = log(Path::new("/p"), Vec::new(), &["bad".to_owned()], &[], 2);
        let run = &v["runs"][0];
        let all = run["tool"]["driver"]["rules"].as_array().expect("rules");
        assert_eq!(all.len(), rules().len());
        for r in all {
            let page = r["help"]["markdown"].as_str().expect("a page");
            assert!(page.contains("## What it does"), "{r}");
        }
        assert_eq!(run["invocations"][0]["executionSuccessful"], false);
        assert_eq!(run["originalUriBaseIds"]["%SRCROOT%"]["uri"], "file:///p/");
    }
}
