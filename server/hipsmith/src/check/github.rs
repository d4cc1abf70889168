//! Findings as workflow commands: GitHub shows them at their lines in a pull request.

use std::fmt::Write as _;

use hipsmith_lint::{Diagnostic, Severity};
use hipsmith_syntax::Document;

use super::place;

/// One command; `file` is relative to the root of the repository.
pub fn command(file: &str, document: &Document, d: &Diagnostic) -> String {
    let [line, column, end_line, end_column] = place(document, &d.range);
    let level = match d.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "notice",
    };
    let mut out = format!("::{level} file={},line={line},", property(file));
    // Columns of different lines would be taken for one range in the first.
    if line == end_line {
        let _ = write!(out, "col={column},endColumn={end_column},");
    } else {
        let _ = write!(out, "col={column},");
    }
    let _ = write!(
        out,
        "endLine={end_line},title={}::{}",
        property(&format!("hipsmith: {}", d.rule)),
        data(&d.message)
    );
    out
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn what_would_end_a_property_or_line_is_escaped() {
        let (document, mut d) = finding("int a;\nint b = wrong;\nint c;\n", "wrong");
        d.message = "100 % wrong:\nsee, there".to_owned();
        assert_eq!(
            command("a,b:c%.hip", &document, &d),
            "::warning file=a%2Cb%3Ac%25.hip,line=2,col=9,endColumn=14,endLine=2,title=hipsmith%3A a-rule::100 %25 wrong:%0Asee, there"
        );
        d.range.end += 4;
        assert!(command("a", &document, &d).contains("line=2,col=9,endLine=3,"));
    }
}
