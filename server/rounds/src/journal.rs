//! What was tried and what came of it: JSON lines, append-only, one record a round.
//!
//! A record is one line, written with one `write` and synced. A process that is killed in the middle leaves a
//! torn last line; the next writer cuts it off, readers ignore it. Writers take a file lock, so that an editor
//! and a command line may share a journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// A dead end older than this is forgotten: compilers, drivers and our own model change.
const EXPIRY_SECONDS: u64 = 30 * 24 * 3600;

/// One journalled round, as proposers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The proposal's stable name.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was expected.
    pub hypothesis: String,
    /// Why it ended so.
    pub reason: String,
    /// Hash of the text that it was applied to ([`crate::hash`]).
    pub base: String,
    /// Whether this very job tried it; otherwise an earlier job did.
    pub this_job: bool,
}

/// Where a record holds. What failed on one target, kernel or compiler may work on another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Target name.
    pub target: String,
    /// The kernel's name in the source.
    pub kernel: String,
    /// Workgroups of the subject's dispatch.
    pub grid: [u32; 3],
    /// Threads of a workgroup of the subject's dispatch.
    pub block: [u32; 3],
    /// The compiler's version line.
    pub compiler: String,
    /// The device that ran it.
    pub device: String,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this layout, 1.
    pub v: u32,
    /// The job, the same for all its rounds.
    pub job: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Number of the round, from 1.
    pub n: u32,
    /// The proposal's stable name.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was expected and why, as written down before the round ran.
    pub hypothesis: String,
    /// The proposer's expected speed-up.
    pub predicted: Option<f64>,
    /// The candidate's time, ns.
    pub ns: Option<f64>,
    /// The time of the text it was applied to, ns.
    pub base_ns: Option<f64>,
    /// Why it ended so.
    pub reason: String,
    /// Where this holds.
    pub scope: Scope,
    /// Hash of the text it was applied to.
    pub base: String,
    /// Hash of the candidate's text.
    pub text: String,
    /// File name of the verification record beside the journal, if verification began.
    pub verification: Option<String>,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    records: Vec<Record>,
}

/// Seconds since 1970, by the system's clock.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

impl Journal {
    /// Open or make the journal at `path`, cutting off a torn last line.
    ///
    /// # Errors
    /// When the file or its folder cannot be made, read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        file.lock()?;
        let records = repair(&mut file);
        file.unlock()?;
        Ok(Self {
            path: path.to_owned(),
            file,
            records: records?,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whole records, oldest first; lines that are not records are passed over.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Append one record and sync it.
    ///
    /// # Errors
    /// When it cannot be written; the journal then still holds all earlier records.
    pub fn append(&mut self, record: Record) -> io::Result<()> {
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        self.file.lock()?;
        // Another writer may have died since we opened.
        let written = cut_torn_line(&mut self.file)
            .and_then(|_| self.file.write_all(line.as_bytes()))
            .and_then(|()| self.file.sync_data());
        self.file.unlock()?;
        written?;
        self.records.push(record);
        Ok(())
    }

    /// What proposers are told: the records of this kernel on this target, compiler and device. Dead ends of
    /// other jobs expire; `job` is the running one.
    pub fn entries(&self, scope: &Scope, job: &str) -> Vec<Entry> {
        let now = now();
        self.records
            .iter()
            .filter(|r| {
                r.scope.target == scope.target
                    && r.scope.kernel == scope.kernel
                    && r.scope.compiler == scope.compiler
                    && r.scope.device == scope.device
            })
            .filter(|r| r.job == job || now.saturating_sub(r.time) < EXPIRY_SECONDS)
            .map(|r| Entry {
                id: r.id.clone(),
                outcome: r.outcome,
                hypothesis: r.hypothesis.clone(),
                reason: r.reason.clone(),
                base: r.base.clone(),
                this_job: r.job == job,
            })
            .collect()
    }
}

/// Read all whole lines and leave the file ending in one.
fn repair(file: &mut File) -> io::Result<Vec<Record>> {
    let bytes = cut_torn_line(file)?;
    Ok(bytes
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

/// Truncate after the last line break, and give what remains.
fn cut_torn_line(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
        bytes.truncate(whole);
    }
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn scope() -> Scope {
        Scope {
            target: "gfx928".into(),
            kernel: "k".into(),
            grid: [1, 1, 1],
            block: [64, 1, 1],
            compiler: "c".into(),
            device: "d".into(),
        }
    }

    fn record(n: u32, id: &str, outcome: Outcome) -> Record {
        Record {
            v: 1,
            job: "j1".into(),
            time: now(),
            n,
            id: id.into(),
            outcome,
            hypothesis: "wider \"loads\"\nhelp".into(),
            predicted: Some(1.5),
            ns: Some(0.1 + f64::from(n)),
            base_ns: None,
            reason: "µs".into(),
            scope: scope(),
            base: "b".into(),
            text: "t".into(),
            verification: None,
        }
    }

    #[test]
    fn killed_at_any_byte_it_keeps_every_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whole.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        for n in 1..=3 {
            journal.append(record(n, "a", Outcome::Wrong)).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        let torn = dir.path().join("torn.jsonl");
        for cut in 0..=bytes.len() {
            std::fs::write(&torn, &bytes[..cut]).unwrap();
            let whole = bytes[..cut].iter().filter(|b| **b == b'\n').count();
            let mut journal = Journal::open(&torn).unwrap();
            assert_eq!(journal.records().len(), whole, "cut at byte {cut}");
            journal.append(record(9, "z", Outcome::Effective)).unwrap();
            let again = Journal::open(&torn).unwrap();
            assert_eq!(again.records().len(), whole + 1, "cut at byte {cut}");
            assert_eq!(again.records()[whole], record_like(&again, whole));
            assert_eq!(again.records()[whole].n, 9);
        }
    }

    fn record_like(journal: &Journal, at: usize) -> Record {
        Record {
            time: journal.records()[at].time,
            ..record(9, "z", Outcome::Effective)
        }
    }

    #[test]
    fn a_line_that_is_no_record_is_passed_over_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        std::fs::write(&path, b"{\"v\":1}\n\xff\xfe\n\n").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.append(record(1, "a", Outcome::Wrong)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().records().len(), 1);
        assert!(
            std::fs::read(&path)
                .unwrap()
                .starts_with(b"{\"v\":1}\n\xff\xfe\n\n")
        );
    }

    #[test]
    fn two_writers_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let mut journal = Journal::open(&path).unwrap();
                    for n in 0..10 {
                        journal.append(record(n, "a", Outcome::Wrong)).unwrap();
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(Journal::open(&path).unwrap().records().len(), 40);
    }

    #[test]
    fn dead_ends_have_a_scope_and_expire() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&dir.path().join("j")).unwrap();
        journal.append(record(1, "here", Outcome::Wrong)).unwrap();
        let mut elsewhere = record(2, "elsewhere", Outcome::Wrong);
        elsewhere.scope.compiler = "other".into();
        journal.append(elsewhere).unwrap();
        let mut old = record(3, "old", Outcome::Wrong);
        old.time = 1;
        journal.append(old).unwrap();
        let entries = journal.entries(&scope(), "j2");
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].id.as_str(), entries[0].this_job),
            ("here", false)
        );
    }
}
