//! `unused-suppression`: its page. What it finds is known only after all rules have run, so the check itself is in
//! `suppress.rs`.

use crate::diagnostic::{Family, Severity};
use crate::rule::{Rule, Scope};
use crate::suppress::UNUSED;

pub(super) static RULE: Rule = Rule {
    id: UNUSED,
    family: Family::A,
    severity: Severity::Hint,
    scope: Scope::File,
    summary: "A `hipsmith: allow(rule)` comment silences nothing, or names a rule that does not exist.",
    docs: r#"
## What it does
Reports a comment `// hipsmith: allow(rule)` or `allow-file(rule)` whose rule finds nothing in the line or file that
the comment speaks of (hint), names a rule that does not exist, or is not understood (warning). Nothing is said about
rules that are turned off, about code that the target does not compile, and about code that does not parse. The rule
judges for one target: a project that is built for several may need a comment that this one does not.

## Why it matters on 64 lanes
A comment for code that has changed silences the next fault in its line. A ballot that was safe in 32 bits, because
the workgroup had 32 lanes, is not when the workgroup grows.

## Example that fires
```hip fires
__global__ void k(unsigned long long* o, bool p) {
  o[0] = __ballot(p); // hipsmith: allow(ballot-in-32-bits) blocks have 32 lanes
}
```

## Example that does not
```hip quiet
__global__ void k(unsigned* o, bool p) {
  unsigned m = __ballot(p); // hipsmith: allow(ballot-in-32-bits) blocks have 32 lanes
  o[0] = __popc(m);
}
```

## Fix
Remove the name, and the comment with its last name. Safe: only a comment changes. A misspelt name is replaced by the
nearest rule, after a look.

## Sources
Practice of compilers and linters that have such comments (Ruff's `unused-noqa`, ESLint's `--report-unused-disable-directives`).
"#,
    check: |_, _| {},
};
