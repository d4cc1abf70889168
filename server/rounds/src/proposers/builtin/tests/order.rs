//! In which order the proposer offers its ideas, and when it stops.

use std::path::Path;

use super::super::*;
use super::program;
use crate::Outcome;
use crate::journal::Entry;
use crate::proposer::KernelProfile;

fn brief<'a>(text: &'a str, kernel: &'a str, block: [u32; 3], journal: &'a [Entry]) -> Brief<'a> {
    Brief {
        file: Path::new("a.hip"),
        text,
        kernel,
        target: "gfx928",
        block,
        grid: [4096, 1, 1],
        dynamic_lds: 0,
        args: &[],
        findings: &[],
        profile: None,
        resources: None,
        journal,
        skills: &[],
    }
}

fn tried(text: &str, id: &str, this_job: bool) -> Entry {
    Entry {
        id: id.to_owned(),
        outcome: Outcome::Ineffective,
        hypothesis: String::new(),
        reason: String::new(),
        base: crate::hash(text),
        this_job,
    }
}

fn next(brief: &Brief) -> Option<Proposal> {
    Builtin::new().propose(brief, &Cancel::new()).unwrap()
}

#[test]
fn every_idea_comes_once_and_then_none() {
    let text = program("rmsnorm.hip");
    let mut journal = Vec::new();
    let mut ids = Vec::new();
    while let Some(p) = next(&brief(&text, "rmsnorm", [256, 1, 1], &journal)) {
        assert!(p.hypothesis.contains("Expected: "), "{}", p.hypothesis);
        assert!(!ids.contains(&p.id), "{} twice", p.id);
        journal.push(tried(&text, &p.id, true));
        ids.push(p.id);
        assert!(ids.len() < 20);
    }
    assert_eq!(
        ids.first().map(String::as_str),
        Some("vector-loads/16-bytes")
    );
    assert_eq!(
        ids.get(1).map(String::as_str),
        Some("lds-reduction-to-shuffle")
    );
    assert_eq!(ids.last().map(String::as_str), Some("unroll/4"));
}

#[test]
fn a_dead_end_of_an_earlier_job_comes_later_but_comes() {
    let text = program("rmsnorm.hip");
    let journal = [tried("another text", "vector-loads/16-bytes", false)];
    let first = next(&brief(&text, "rmsnorm", [256, 1, 1], &journal)).unwrap();
    assert_eq!(first.id, "lds-reduction-to-shuffle");
}

#[test]
fn conflicts_in_the_profile_bring_the_layout_first() {
    let text = program("matmul_naive.hip");
    let profile = KernelProfile {
        counters: vec![
            ("SQ_LDS_BANK_CONFLICT".into(), 9000.0),
            ("SQ_INSTS_LDS".into(), 1000.0),
        ],
        ..KernelProfile::default()
    };
    let mut brief = brief(&text, "matmul_naive", [16, 16, 1], &[]);
    brief.profile = Some(&profile);
    let first = next(&brief).unwrap();
    assert_eq!(first.id, "lds-stride/pad");
    assert!(
        first.hypothesis.contains("SQ_LDS_BANK_CONFLICT = 9000"),
        "{}",
        first.hypothesis
    );
}

#[test]
fn larger_blocks_come_early_when_the_machine_is_not_full() {
    let text = program("rmsnorm.hip");
    let mut brief = brief(&text, "rmsnorm", [256, 1, 1], &[]);
    brief.grid = [32, 1, 1];
    let journal = [tried(&text, "vector-loads/16-bytes", true)];
    brief.journal = &journal;
    assert_eq!(next(&brief).unwrap().id, "constant/BLOCK=512");
}

#[test]
fn nothing_is_offered_for_what_is_not_there() {
    let text = program("rmsnorm.hip");
    assert_eq!(
        next(&brief(&text, "no_such_kernel", [256, 1, 1], &[])),
        None
    );
    assert_eq!(next(&brief("", "rmsnorm", [256, 1, 1], &[])), None);
    let cancel = Cancel::new();
    cancel.cancel();
    let stopped = Builtin::new().propose(&brief(&text, "rmsnorm", [256, 1, 1], &[]), &cancel);
    assert_eq!(stopped.unwrap(), None);
}
