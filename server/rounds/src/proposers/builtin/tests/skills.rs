//! Every skill is valid against the open format: front matter with the folder's name and a description.

use std::path::Path;

#[test]
fn every_skill_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../skills");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(path.join("SKILL.md")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("---"), "{}", path.display());
        let head: Vec<&str> = lines.by_ref().take_while(|l| *l != "---").collect();
        let field = |key: &str| head.iter().find_map(|l| l.strip_prefix(key)).map(str::trim);
        let name = field("name:").unwrap();
        assert_eq!(Some(name), path.file_name().and_then(|n| n.to_str()));
        assert!(
            name.len() <= 64
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        );
        let description = field("description:").unwrap();
        // An unquoted YAML value must not hold ": ".
        assert!(
            (40..=1024).contains(&description.len()) && !description.contains(": "),
            "{name}"
        );
        let rest: Vec<&str> = lines.collect();
        for heading in ["## Known dead ends", "Sources: "] {
            assert!(
                rest.iter().any(|l| l.starts_with(heading)),
                "{name}: {heading}"
            );
        }
        count += 1;
    }
    assert!(count >= 8);
}
