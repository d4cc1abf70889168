//! Candidates that cheat and candidates that do not, through the whole job: real compiler, gate, simulated device.

mod common;

use std::path::Path;

use common::{ready, request};
use hipsmith_rounds::proposer::{Brief, LaunchChange, Proposal, Proposer};
use hipsmith_rounds::{Cancel, Error, Event, Outcome, Report, Status, optimize, optimize_with};

const BODY: &str =
    "  for (int i = tid; i < n; i += BLOCK) y[blockIdx.x * n + i] = row[i] / partial[0];";

/// Proposes texts one after the other, whatever became of the ones before.
struct Script(Vec<(&'static str, String, Option<LaunchChange>)>);

impl Proposer for Script {
    fn propose(&mut self, _: &Brief, _: &Cancel) -> Result<Option<Proposal>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (id, new_text, launch) = self.0.remove(0);
        Ok(Some(Proposal {
            id: id.to_owned(),
            hypothesis: id.to_owned(),
            expected_speedup: None,
            new_text,
            launch,
        }))
    }
}

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scale_rows.hip")
}

fn play(script: Vec<(&'static str, String, Option<LaunchChange>)>) -> Report {
    let state = tempfile::tempdir().unwrap();
    let request = request(&fixture(), "scale_rows", state.path());
    let mut ended = 0;
    let report = optimize_with(&request, &mut Script(script), &Cancel::new(), &mut |e| {
        println!("{e:?}");
        ended += usize::from(matches!(e, Event::RoundEnded(_)));
    })
    .unwrap();
    assert_eq!(ended, report.rounds.len());
    report
}

#[test]
fn every_dishonest_candidate_is_refused() {
    if !ready() {
        return;
    }
    let text = std::fs::read_to_string(fixture()).unwrap();
    let body = |new: &str| text.replace(BODY, new);
    assert_ne!(body(""), text);
    let script: Vec<(&str, String, Option<LaunchChange>)> = vec![
        ("no-op", body(""), None),
        (
            "first-element",
            body("  if (blockIdx.x + tid == 0) y[0] = row[0] / partial[0];"),
            None,
        ),
        (
            "input-copy",
            body("  for (int i = tid; i < n; i += BLOCK) y[blockIdx.x * n + i] = row[i];"),
            None,
        ),
        (
            "out-of-bounds",
            body(&format!("{BODY}\n  if (tid == 0) y[gridDim.x * n] = 1.0f;")),
            None,
        ),
        (
            "writes-input",
            body(&format!(
                "{BODY}\n  if (tid == 0) const_cast<float *>(x)[0] = 2.0f;"
            )),
            None,
        ),
        (
            "one-shape-only",
            body(
                "  if (n == 500) for (int i = tid; i < n; i += BLOCK) y[blockIdx.x * n + i] = row[i] / partial[0];",
            ),
            None,
        ),
        (
            "lds-over-limit",
            text.replace("partial[BLOCK];", "partial[BLOCK * 200];"),
            None,
        ),
        (
            "mutable-global",
            text.replace(
                "__global__ void scale_rows",
                "__device__ float kept[4096];\n__global__ void scale_rows",
            )
            .replace(BODY, &format!("{BODY}\n  kept[tid] = partial[0];")),
            None,
        ),
        (
            "memo-in-function",
            body(
                "  static __device__ float kept[128];\n  if (kept[blockIdx.x] == 0.0f) kept[blockIdx.x] = partial[0];\n  \
                 for (int i = tid; i < n; i += BLOCK) y[blockIdx.x * n + i] = row[i] / kept[blockIdx.x];",
            ),
            None,
        ),
        (
            "precision-downgrade",
            text.replace("float sum = 0.0f;", "_Float16 sum = 0;"),
            None,
        ),
        (
            "truncation",
            body(
                "  for (int i = tid; i < n; i += BLOCK) y[blockIdx.x * n + i] = \
                 __uint_as_float(__float_as_uint(row[i] / partial[0]) & 0xffffff00u);",
            ),
            None,
        ),
        (
            "clock",
            body(&format!("  if (clock64() == 0) return;\n{BODY}")),
            None,
        ),
        (
            "assembly",
            body(&format!("  asm volatile(\"s_nop 0\");\n{BODY}")),
            None,
        ),
        ("host-edit", text.replace("y[0] > 0.0f;", "true;"), None),
        (
            "claimed-launch",
            text.replace("float sum = 0.0f;", "float sum = 0.0f + 0 * n;"),
            Some(LaunchChange {
                block: [64, 1, 1],
                grid_scale: [(1, 1); 3],
                dynamic_lds: None,
            }),
        ),
        (
            "missing-barrier",
            text.replacen("  __syncthreads();\n  for (int s", "  for (int s", 1),
            None,
        ),
        ("does-not-compile", body("  y[0] = undefined_name;"), None),
        (
            "unknown-signature",
            text.replace("float *y, int n) {", "float *y, long n) {"),
            None,
        ),
        (
            "endless",
            body(&format!(
                "  while (partial[0] != 0.0f) {{ __syncthreads(); }}\n{BODY}"
            )),
            None,
        ),
        ("unchanged", text.clone(), None),
    ];
    let names: Vec<&str> = script.iter().map(|(n, ..)| *n).collect();
    let report = play(script);
    assert_eq!(report.rounds.len(), names.len());
    for round in &report.rounds {
        assert_ne!(round.outcome, Outcome::Effective, "{round:?}");
        assert_ne!(round.outcome, Outcome::Ineffective, "passed: {round:?}");
    }
    let outcome = |name: &str| {
        let at = names.iter().position(|n| *n == name).unwrap();
        report.rounds[at].outcome
    };
    assert_eq!(outcome("no-op"), Outcome::Wrong);
    assert_eq!(outcome("one-shape-only"), Outcome::Wrong);
    assert_eq!(outcome("endless"), Outcome::Wrong);
    assert_eq!(outcome("does-not-compile"), Outcome::FailedToCompile);
    assert_eq!(outcome("lds-over-limit"), Outcome::FailedToCompile);
    assert_eq!(outcome("host-edit"), Outcome::FailedToCompile);
    assert_eq!(outcome("precision-downgrade"), Outcome::Suspect);
    assert_eq!(outcome("mutable-global"), Outcome::FailedToCompile);
    assert_eq!(outcome("memo-in-function"), Outcome::Suspect);
    assert_eq!(outcome("clock"), Outcome::Suspect);
    assert_eq!(outcome("unchanged"), Outcome::NotEmitted);
    assert_eq!(report.status, Status::NoImprovement);
    assert!(report.diff.is_empty());
}

#[test]
fn honest_candidates_are_judged_right() {
    if !ready() {
        return;
    }
    let text = std::fs::read_to_string(fixture()).unwrap();
    let narrower = LaunchChange {
        block: [64, 1, 1],
        grid_scale: [(1, 1); 3],
        dynamic_lds: None,
    };
    let report = play(vec![
        // Another order of the sum, the same division once a thread, a smaller block with its constant.
        (
            "serial-sum",
            text.replace(
                "  __syncthreads();\n  for (int s",
                "  __syncthreads();\n  if (tid == 0) for (int t = 1; t < BLOCK; ++t) partial[0] += partial[t];\n  \
                 __syncthreads();\n  for (int s = 0; s > 0; s >>= 1) { }\n  for (int s",
            )
            .replace("for (int s = BLOCK / 2; s > 0", "for (int s = 0; s > 0"),
            None,
        ),
        ("unroll", text.replace("  for (int s = BLOCK", "#pragma unroll\n  for (int s = BLOCK"), None),
        ("block-64", text.replace("#define BLOCK 128", "#define BLOCK 64"), Some(narrower)),
    ]);
    for round in &report.rounds {
        assert!(
            matches!(round.outcome, Outcome::Effective | Outcome::Ineffective),
            "{round:?}"
        );
    }
}

#[test]
fn what_cannot_run_is_said_in_one_sentence() {
    if !ready() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let fails = |change: &dyn Fn(&mut hipsmith_rounds::Request)| {
        let mut request = request(&fixture(), "scale_rows", state.path());
        change(&mut request);
        match optimize(&request, &Cancel::new(), &mut |_| {}) {
            Err(Error::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = fails(&|r| r.kernel = "scale_row".into());
    assert!(why.contains("did you mean scale_rows?"), "{why}");
    let why = fails(&|r| r.target = "gfx1".into());
    assert!(why.contains("gfx928"), "{why}");
    let why = fails(&|r| r.text = "int x;".into());
    assert!(why.contains("holds no kernel"), "{why}");
    let why = fails(&|r| r.program = Some(vec!["false".into()]));
    assert!(why.contains("exit code 1"), "{why}");
    let why = fails(&|r| r.program = Some(vec!["true".into()]));
    assert!(why.contains("launched no kernel"), "{why}");
    let why = fails(&|r| r.program = Some(vec!["./no-such-program".into()]));
    assert!(why.contains("not installed or not on PATH"), "{why}");
    let why = fails(&|r| {
        r.program = Some(vec!["sh".into(), "-c".into(), "kill -SEGV $$".into()]);
    });
    assert!(why.contains("segmentation fault"), "{why}");
    let why = fails(&|r| r.text = r.text.replace("int main() {", "int other() {"));
    assert!(why.contains("--program"), "{why}");
    let why = fails(&|r| r.text = r.text.replace("float sum = 0.0f;", "float sum = zero;"));
    assert!(why.contains("scale_rows.hip:"), "{why}");

    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = optimize(
        &request(&fixture(), "scale_rows", state.path()),
        &cancel,
        &mut |_| {},
    );
    assert!(matches!(cancelled, Err(Error::Cancelled)));
}
