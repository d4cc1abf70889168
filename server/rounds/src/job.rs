//! One job from request to report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_devices::harness::{Arg, Case};
use hipsmith_devices::simulated::Simulated;
use hipsmith_devices::{Device, Failure};
use hipsmith_process::{Cancel, Job as Process};
use hipsmith_syntax::{Document, Encoding, FunctionKind, Options};
use hipsmith_target::Target;
use serde::Serialize;

use crate::bench::{self, NOISE, TOO_GOOD, Timing};
use crate::code_object::{CodeObject, signature};
use crate::compile::{CompileError, Compiled, Compiler};
use crate::controls;
use crate::declared::{self, Declared};
use crate::gate::{self, Refusal};
use crate::journal::{self, Journal, Record, Scope};
use crate::proposer::{ArgFact, Brief, Finding, LaunchChange, Proposal, Proposer};
use crate::subject::{self, Subject};
use crate::summary::{diff, duration, nearest, tally};
use crate::verify::cases::Role;
use crate::verify::{Evidence as Verification, Verdict, Verifier, changed};
use crate::{Error, Event, Evidence, Outcome, Report, Request, Round, Status, hash};

/// How many further launches of other shapes are recorded.
const EXTRA_SHAPES: u32 = 2;

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Cancelled => Self::Cancelled,
            CompileError::Broken(why) => Self::Failed(why),
            CompileError::Refused(why) => Self::Failed(format!("the file does not compile: {why}")),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::Anomaly(why) => Self::Failed(why),
            Failure::Kernel { what, .. } => Self::Failed(format!("the original kernel {what}")),
        }
    }
}

impl From<Verdict> for Error {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Cancelled => Self::Cancelled,
            Verdict::Anomaly(why) => Self::Failed(why),
            Verdict::Wrong(why) => Self::Failed(why),
        }
    }
}

/// The best text so far, with everything known of it.
struct Best {
    text: String,
    launch: Vec<LaunchChange>,
    timing: Timing,
    compiled: Compiled,
}

/// What does not change while rounds run.
struct Bench<'a> {
    request: &'a Request,
    cancel: &'a Cancel,
    target: &'static Target,
    compiler: Compiler,
    device: Simulated,
    subject: Subject,
    verifier: Verifier,
    original: CodeObject,
    /// Arguments of the program when the file alone can be built to it.
    rebuild: Option<Vec<String>>,
    state: PathBuf,
    id: String,
    timed: Case,
}

/// How one candidate ended.
struct Judged {
    outcome: Outcome,
    ns: Option<f64>,
    reason: String,
    verification: Option<String>,
    best: Option<Best>,
}

impl Judged {
    fn ended(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            ns: None,
            reason: reason.into(),
            verification: None,
            best: None,
        }
    }
}

/// The record of one verification, stored beside the journal.
#[derive(Serialize)]
struct VerificationRecord<'a> {
    job: &'a str,
    n: u32,
    kernel: &'a str,
    subject: &'a str,
    device: String,
    compiler: &'a str,
    text: String,
    verdict: &'a str,
    reason: Option<&'a str>,
    evidence: Option<&'a Verification>,
}

pub(crate) fn run(
    request: &Request,
    proposer: &mut dyn Proposer,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(Event),
) -> Result<Report, Error> {
    let target = known_target(&request.target)?;
    let document = document(&request.text, target);
    known_kernel(request, &document)?;
    let declared = declared::find(&request.file, &request.kernel).map_err(Error::Failed)?;
    let flags = declared.as_ref().map_or(&[][..], |d| &d.flags);
    let name = request.file.file_name().map_or_else(
        || request.file.display().to_string(),
        |n| n.to_string_lossy().into_owned(),
    );

    on_event(Event::Step(format!("compiling {name}")));
    let compiler = Compiler::find(&request.file, &target.name, flags, cancel)?;
    let compiled = compiler.device(&request.text, cancel)?;
    let device = Simulated::new(target, &compiler.arch, cancel)?;

    let has_main = document
        .model()
        .functions
        .iter()
        .any(|f| f.kind == FunctionKind::Host && f.name == "main");
    let (subject, program_args) = find_subject(
        request, declared, has_main, &compiler, &device, cancel, on_event,
    )?;
    let symbol = resolve(request, &subject, &compiled.object)?;
    let subject = Subject { symbol, ..subject };

    on_event(Event::Step(format!(
        "running the original on {}",
        subject.origin
    )));
    let verifier = Verifier::prepare(&device, &compiled.path, &subject, cancel)?;
    let timed = verifier.timed();
    let state = request.state_dir.clone().unwrap_or_else(|| {
        request
            .file
            .parent()
            .unwrap_or(Path::new("."))
            .join(".hipsmith")
    });
    let bench = Bench {
        request,
        cancel,
        target,
        compiler,
        device,
        original: compiled.object.clone(),
        rebuild: has_main.then_some(program_args).flatten(),
        state,
        id: job_id(),
        timed,
        subject,
        verifier,
    };
    on_event(Event::Step(
        "checking the verifier on known-wrong kernels".to_owned(),
    ));
    bench.check_controls(&compiled)?;
    on_event(Event::Step("timing the original".to_owned()));
    let timing = bench.time(&compiled.path, &[])?;
    let original = Best {
        text: request.text.clone(),
        launch: Vec::new(),
        timing,
        compiled,
    };
    bench.rounds(original, proposer, on_event)
}

fn known_target(name: &str) -> Result<&'static Target, Error> {
    hipsmith_target::by_name(name).ok_or_else(|| {
        let all: Vec<&str> = hipsmith_target::all()
            .iter()
            .map(|t| t.name.as_str())
            .collect();
        Error::Failed(format!(
            "unknown target `{name}`; known are {}",
            all.join(", ")
        ))
    })
}

fn document(text: &str, target: &'static Target) -> Document {
    let options = Options {
        target,
        ..Options::default()
    };
    Document::with_options(text, 0, Arc::new(options))
}

fn known_kernel(request: &Request, document: &Document) -> Result<(), Error> {
    let file = request.file.display();
    if !document.is_parsed() {
        return Err(Error::Failed(format!(
            "{file} cannot be parsed: it is larger than {} MiB or no text",
            hipsmith_syntax::MAX_BYTES >> 20
        )));
    }
    let model = document.model();
    if model.kernel(&request.kernel).is_some() {
        return Ok(());
    }
    let mut names: Vec<&str> = model.kernels().map(|(_, f)| f.name.as_str()).collect();
    names.dedup();
    let near = nearest(&request.kernel, &names);
    Err(Error::Failed(if names.is_empty() {
        format!("{file} holds no kernel (no `__global__` function with a body)")
    } else if near.is_empty() {
        format!(
            "{file} holds no kernel `{}`; it holds {}",
            request.kernel,
            names.join(", ")
        )
    } else {
        format!(
            "{file} holds no kernel `{}`; did you mean {}?",
            request.kernel,
            near.join(" or ")
        )
    }))
}

/// Where the data come from: the request's program, then what is declared, then the file itself. The second
/// part are the program's arguments.
fn find_subject(
    request: &Request,
    declared: Option<Declared>,
    has_main: bool,
    compiler: &Compiler,
    device: &Simulated,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(Event),
) -> Result<(Subject, Option<Vec<String>>), Error> {
    let declared_program = declared.as_ref().and_then(|d| d.program.clone());
    let launches = declared.map(|d| d.launch).unwrap_or_default();
    let program = request.program.clone().or(declared_program);
    let mut _built = None;
    let (program, shown) = match program {
        Some(program) => {
            let shown = program.join(" ");
            (program, shown)
        }
        None if !launches.is_empty() => {
            let shapes = launches
                .iter()
                .map(declared::DeclaredLaunch::shape)
                .collect::<Result<_, _>>()
                .map_err(Error::Failed)?;
            let subject = Subject {
                symbol: String::new(),
                origin: format!("data declared in {}", declared::FILE),
                shapes,
            };
            return Ok((subject, None));
        }
        None if has_main => {
            on_event(Event::Step(format!("building {}", request.file.display())));
            let folder = compiler.program(&request.text, cancel).map_err(|e| match e {
                CompileError::Refused(why) => Error::Failed(format!(
                    "{} does not build to a program of its own: {why}; name the built program (--program), or declare \
                     a subject in {}",
                    request.file.display(),
                    declared::FILE
                )),
                other => other.into(),
            })?;
            let program = vec![folder.path().join("program").display().to_string()];
            _built = Some(folder);
            (
                program,
                format!("the program built from {}", request.file.display()),
            )
        }
        None => {
            return Err(Error::Failed(format!(
                "no data to run `{}` on: name a program that launches it (--program), or declare a subject in {}",
                request.kernel,
                declared::FILE
            )));
        }
    };
    on_event(Event::Step(format!("recording a launch from {shown}")));
    let folder = tempfile::Builder::new()
        .prefix("hipsmith-record-")
        .tempdir()
        .map_err(|e| Error::Failed(format!("no folder to record in: {e}")))?;
    device.record(
        &program,
        &request.kernel,
        EXTRA_SHAPES,
        folder.path(),
        cancel,
    )?;
    let mut subject = subject::read_capture(folder.path()).map_err(Error::Failed)?;
    subject.origin = format!("a launch recorded from {shown}");
    Ok((subject, Some(program.into_iter().skip(1).collect())))
}

/// The kernel's mangled name in the code object: the recorded one, or the only one of that name.
fn resolve(request: &Request, subject: &Subject, object: &CodeObject) -> Result<String, Error> {
    if object.kernel(&subject.symbol).is_some() {
        return Ok(subject.symbol.clone());
    }
    let named: Vec<&str> = object
        .kernels
        .iter()
        .map(|k| k.symbol.as_str())
        .filter(|s| signature(s).name == request.kernel)
        .collect();
    let shown = || {
        named
            .iter()
            .map(|s| signature(s).full)
            .collect::<Vec<_>>()
            .join("; ")
    };
    match (named.as_slice(), subject.symbol.is_empty()) {
        ([one], true) => Ok((*one).to_owned()),
        ([], _) => Err(Error::Failed(format!(
            "{} compiles to no kernel `{}`: a template that nothing in the file launches?",
            request.file.display(),
            request.kernel
        ))),
        (_, true) => Err(Error::Failed(format!(
            "`{}` is compiled to several kernels ({}); record a program's launch instead of declaring the data",
            request.kernel,
            shown()
        ))),
        (_, false) => Err(Error::Failed(format!(
            "the program launched `{}`, but {} compiles to {}; was the program built from this text?",
            signature(&subject.symbol).full,
            request.file.display(),
            shown()
        ))),
    }
}

fn job_id() -> String {
    format!("{:x}-{:x}", journal::now(), std::process::id())
}

impl Bench<'_> {
    /// A verifier that passes a kernel that does nothing, or one with a thread missing, proves nothing.
    fn check_controls(&self, original: &Compiled) -> Result<(), Error> {
        let anomaly = |what: &str| {
            Error::Failed(format!(
                "HARNESS_ANOMALY: {what}, so its verdicts on this launch would be worth nothing"
            ))
        };
        let texts = [
            (
                controls::no_op(&self.request.text, &self.request.kernel),
                "the verifier passes a kernel that does nothing",
            ),
            (
                controls::one_thread_missing(&self.request.text, &self.request.kernel),
                "the verifier passes a kernel whose first thread does nothing",
            ),
        ];
        for (text, what) in texts {
            let control = match self.compiler.device(&text, self.cancel) {
                Ok(control) => control,
                Err(CompileError::Refused(why)) => {
                    return Err(anomaly(&format!(
                        "a control kernel does not compile ({why})"
                    )));
                }
                Err(other) => return Err(other.into()),
            };
            match self
                .verifier
                .check(&self.device, &control.path, &[], self.cancel)
            {
                Ok(_) => return Err(anomaly(what)),
                Err(Verdict::Wrong(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        match self
            .verifier
            .check(&self.device, &original.path, &[], self.cancel)
        {
            Ok(_) => Ok(()),
            Err(Verdict::Wrong(why)) => Err(anomaly(&format!(
                "the verifier refuses the original itself ({why})"
            ))),
            Err(other) => Err(other.into()),
        }
    }

    fn time(&self, module: &Path, launch: &[LaunchChange]) -> Result<Timing, Failure> {
        bench::time(
            &self.device,
            module,
            &self.subject.symbol,
            &changed(&self.timed, launch),
            &self.request.file,
            self.cancel,
        )
    }

    fn rounds(
        &self,
        original: Best,
        proposer: &mut dyn Proposer,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Report, Error> {
        let unwritable = |e: std::io::Error| {
            Error::Failed(format!(
                "the journal in {} cannot be written: {e}",
                self.state.display()
            ))
        };
        let mut journal = Journal::open(&self.state.join("journal.jsonl")).map_err(unwritable)?;
        let scope = Scope {
            target: self.target.name.clone(),
            kernel: self.request.kernel.clone(),
            grid: self.timed.grid,
            block: self.timed.block,
            compiler: self.compiler.version.clone(),
            device: self.device.describe(),
        };
        let baseline_ns = original.timing.ns;
        let mut ladder = vec![original];
        let mut seen = vec![hash(&self.request.text)];
        let mut rounds: Vec<Round> = Vec::new();
        let mut stopped = None;
        for n in 1..=self.request.rounds {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let Some(best) = ladder.last() else { break };
            let entries = journal.entries(&scope, &self.id);
            let proposal = match self.propose(best, &entries, proposer) {
                Ok(Some(proposal)) => proposal,
                Ok(None) => break,
                Err(why) => {
                    stopped = Some(why);
                    break;
                }
            };
            on_event(Event::RoundStarted {
                n,
                of: self.request.rounds,
                hypothesis: proposal.hypothesis.clone(),
            });
            let text = hash(&proposal.new_text);
            let judged = if seen.contains(&text) {
                Judged::ended(
                    Outcome::NotEmitted,
                    "the edit gives a text that this job has judged already",
                )
            } else {
                seen.push(text.clone());
                self.judge(n, best, &proposal)?
            };
            let round = Round {
                n,
                outcome: judged.outcome,
                hypothesis: proposal.hypothesis,
                predicted: proposal.expected_speedup,
                ns: judged.ns,
                reason: judged.reason,
            };
            journal
                .append(Record {
                    v: 1,
                    job: self.id.clone(),
                    time: journal::now(),
                    n,
                    id: proposal.id,
                    outcome: round.outcome,
                    hypothesis: round.hypothesis.clone(),
                    predicted: round.predicted,
                    ns: round.ns,
                    base_ns: Some(best.timing.ns),
                    reason: round.reason.clone(),
                    scope: scope.clone(),
                    base: hash(&best.text),
                    text,
                    verification: judged.verification,
                })
                .map_err(unwritable)?;
            ladder.extend(judged.best);
            on_event(Event::RoundEnded(round.clone()));
            rounds.push(round);
        }
        let mut withdrawn = Vec::new();
        if ladder.len() > 1 {
            on_event(Event::Step(
                "checking the winner once more, on values that nobody has seen".to_owned(),
            ));
            let compiled = self.compiler.device(&self.request.text, self.cancel)?;
            let fresh = self
                .verifier
                .redraw(&self.device, &compiled.path, self.cancel)?;
            while ladder.len() > 1 {
                let Some(best) = ladder.last() else { break };
                match self.confirm(&fresh, best)? {
                    Ok(()) => break,
                    Err(why) => withdrawn.push(why),
                }
                ladder.pop();
            }
        }
        Ok(self.report(&ladder, baseline_ns, rounds, stopped, withdrawn, &journal))
    }

    fn propose(
        &self,
        best: &Best,
        entries: &[journal::Entry],
        proposer: &mut dyn Proposer,
    ) -> Result<Option<Proposal>, String> {
        let launch = changed(&self.timed, &best.launch);
        let findings = self.findings(&best.text);
        let args = self.arguments();
        let brief = Brief {
            file: &self.request.file,
            text: &best.text,
            kernel: &self.request.kernel,
            target: &self.target.name,
            block: launch.block,
            grid: launch.grid,
            dynamic_lds: launch.dynamic_lds,
            args: &args,
            findings: &findings,
            profile: Some(&best.timing.profile),
            resources: Some(best.timing.resources),
            journal: entries,
            skills: &[],
        };
        proposer.propose(&brief, self.cancel)
    }

    fn findings(&self, text: &str) -> Vec<Finding> {
        let document = document(text, self.target);
        let lines = document
            .model()
            .kernel(&self.request.kernel)
            .and_then(|k| document.model().functions.get(k))
            .map(|f| f.range.clone())
            .unwrap_or_default();
        let mut found: Vec<(bool, Finding)> =
            hipsmith_lint::check(&document, &hipsmith_lint::Config::default())
                .into_iter()
                .map(|d| {
                    let elsewhere = !lines.contains(&d.range.start);
                    let line = document.position(d.range.start, Encoding::Utf8).line + 1;
                    let finding = Finding {
                        rule: d.rule.to_owned(),
                        line,
                        message: d.message,
                    };
                    (elsewhere, finding)
                })
                .collect();
        found.sort_by_key(|(elsewhere, f)| (*elsewhere, f.line));
        found.into_iter().map(|(_, f)| f).collect()
    }

    fn arguments(&self) -> Vec<ArgFact> {
        /// What hipMalloc gives at least.
        const ALIGNMENT: u64 = 256;
        self.timed
            .args
            .iter()
            .map(|a| match a {
                Arg::Value(bytes) => ArgFact::Value(bytes.clone()),
                Arg::Pointer { buffer, offset } => ArgFact::Buffer {
                    bytes: (self.timed.buffers.get(*buffer).map_or(0, Vec::len) as u64)
                        .saturating_sub(*offset),
                    align: match offset {
                        0 => ALIGNMENT,
                        n => ALIGNMENT.min(1 << n.trailing_zeros()),
                    },
                    written: self.verifier.role(*buffer) != Role::Input,
                },
            })
            .collect()
    }

    /// One candidate through gate, compiler, gate, verifier and clock.
    fn judge(&self, n: u32, best: &Best, proposal: &Proposal) -> Result<Judged, Error> {
        if proposal.new_text == best.text {
            return Ok(Judged::ended(
                Outcome::NotEmitted,
                "the edit changes nothing",
            ));
        }
        let edit = gate::Edit {
            original: &self.request.text,
            text: &proposal.new_text,
            kernel: &self.request.kernel,
            target: self.target,
        };
        if let Err(refusal) = gate::edit(&edit) {
            return Ok(refused(refusal));
        }
        let compiled = match self.compiler.device(&proposal.new_text, self.cancel) {
            Ok(compiled) => compiled,
            Err(CompileError::Refused(why)) => {
                return Ok(Judged::ended(Outcome::FailedToCompile, why));
            }
            Err(other) => return Err(other.into()),
        };
        let mut launch = best.launch.clone();
        launch.extend(proposal.launch);
        let case = changed(&self.timed, &launch);
        let built = gate::Built {
            original: &self.original,
            object: &compiled.object,
            symbol: &self.subject.symbol,
            block: case.block,
            dynamic_lds: case.dynamic_lds,
            target: self.target,
        };
        if let Err(refusal) = gate::built(&built) {
            return Ok(refused(refusal));
        }
        if proposal.launch.is_some()
            && let Err(why) = self.confirm_launch(&proposal.new_text, &case)?
        {
            return Ok(Judged::ended(Outcome::FailedToCompile, why));
        }
        let same_code = |a: &CodeObject, b: &CodeObject| {
            let code = |o: &CodeObject| o.kernel(&self.subject.symbol).map(|k| k.code.clone());
            code(a) == code(b)
        };
        if proposal.launch.is_none() && same_code(&compiled.object, &best.compiled.object) {
            return Ok(Judged {
                ns: Some(best.timing.ns),
                ..Judged::ended(
                    Outcome::Ineffective,
                    "the compiler makes the same instructions of it",
                )
            });
        }
        let verdict = self
            .verifier
            .check(&self.device, &compiled.path, &launch, self.cancel);
        let verification = Some(self.record(n, &proposal.new_text, &verdict)?);
        match verdict {
            Ok(_) => {}
            Err(Verdict::Wrong(why)) => {
                return Ok(Judged {
                    verification,
                    ..Judged::ended(Outcome::Wrong, why)
                });
            }
            Err(Verdict::Anomaly(why)) => {
                return Ok(Judged {
                    verification,
                    ..Judged::ended(Outcome::Suspect, format!("HARNESS_ANOMALY: {why}"))
                });
            }
            Err(Verdict::Cancelled) => return Err(Error::Cancelled),
        }
        let timing = match self.time(&compiled.path, &launch) {
            Ok(timing) => timing,
            Err(Failure::Cancelled) => return Err(Error::Cancelled),
            Err(Failure::Kernel { what, .. }) => {
                return Ok(Judged {
                    verification,
                    ..Judged::ended(
                        Outcome::Wrong,
                        format!("the kernel {what} when it was timed"),
                    )
                });
            }
            Err(Failure::Anomaly(why)) => {
                return Ok(Judged {
                    verification,
                    ..Judged::ended(Outcome::Suspect, format!("HARNESS_ANOMALY: {why}"))
                });
            }
        };
        let ns = Some(timing.ns);
        let floor = bench::floor_ns(self.verifier.written_bytes(), self.target);
        let gain = best.timing.ns / timing.ns;
        let (outcome, reason) = if timing.ns < floor {
            (
                Outcome::Suspect,
                format!(
                    "{} is less than the {} in which its results can be written to memory",
                    duration(timing.ns),
                    duration(floor)
                ),
            )
        } else if timing.ns < best.timing.ns * (1.0 - NOISE) {
            let looks = if gain > TOO_GOOD {
                "; more than 10 times is rarely true: have a look yourself"
            } else {
                ""
            };
            (
                Outcome::Effective,
                format!(
                    "right in {} launches and {gain:.2} times as fast, now bound by {}{looks}",
                    self.verifier.launches(),
                    timing.bound_by
                ),
            )
        } else {
            (
                Outcome::Ineffective,
                format!(
                    "right in {} launches, but {gain:.2} times as fast is no gain beyond {:.0} %; bound by {}",
                    self.verifier.launches(),
                    100.0 * NOISE,
                    timing.bound_by
                ),
            )
        };
        Ok(Judged {
            outcome,
            ns,
            reason,
            verification,
            best: (outcome == Outcome::Effective).then(|| Best {
                text: proposal.new_text.clone(),
                launch,
                timing,
                compiled,
            }),
        })
    }

    /// Whether the program, built from the candidate's text, launches it as the proposal says.
    fn confirm_launch(&self, text: &str, case: &Case) -> Result<Result<(), String>, Error> {
        let Some(args) = &self.rebuild else {
            let document = document(text, self.target);
            let block = case.block.map(i64::from);
            let launches: Vec<_> = document
                .model()
                .launches
                .iter()
                .filter(|l| l.kernel == self.request.kernel)
                .collect();
            let certain = !launches.is_empty()
                && launches
                    .iter()
                    .all(|l| l.block == Some(block) && l.grid == Some(case.grid.map(i64::from)));
            return Ok(if certain {
                Ok(())
            } else {
                Err(
                    "it changes how the kernel is launched, which cannot be confirmed: the file has no `main` to build \
                     and its launches are not constant"
                        .to_owned(),
                )
            });
        };
        let folder = match self.compiler.program(text, self.cancel) {
            Ok(folder) => folder,
            Err(CompileError::Refused(why)) => {
                return Ok(Err(format!("the program does not build with it: {why}")));
            }
            Err(other) => return Err(other.into()),
        };
        let mut program = vec![folder.path().join("program").display().to_string()];
        program.extend(args.iter().cloned());
        let record = folder.path().join("record");
        std::fs::create_dir_all(&record)
            .map_err(|e| Error::Failed(format!("no folder to record in: {e}")))?;
        match self
            .device
            .record(&program, &self.request.kernel, 0, &record, self.cancel)
        {
            Ok(()) => {}
            Err(Failure::Cancelled) => return Err(Error::Cancelled),
            Err(Failure::Anomaly(why) | Failure::Kernel { what: why, .. }) => return Ok(Err(why)),
        }
        let launched = subject::read_capture(&record).map_err(Error::Failed)?;
        let Some(shape) = launched.shapes.first() else {
            return Ok(Err("its launch could not be recorded".to_owned()));
        };
        let found = (shape.grid, shape.block, shape.dynamic_lds);
        if found == (case.grid, case.block, case.dynamic_lds) {
            return Ok(Ok(()));
        }
        Ok(Err(format!(
            "the proposal says that it is launched with grid {:?}, block {:?}, {} bytes of dynamic LDS; the program \
             launches grid {:?}, block {:?}, {} bytes",
            case.grid, case.block, case.dynamic_lds, found.0, found.1, found.2
        )))
    }

    /// The winner on fresh values, and the user's whole program with it.
    fn confirm(&self, fresh: &Verifier, best: &Best) -> Result<Result<(), String>, Error> {
        match fresh.check(&self.device, &best.compiled.path, &best.launch, self.cancel) {
            Ok(_) => {}
            Err(Verdict::Cancelled) => return Err(Error::Cancelled),
            Err(Verdict::Wrong(why) | Verdict::Anomaly(why)) => {
                return Ok(Err(format!("on fresh values {why}")));
            }
        }
        let Some(args) = &self.rebuild else {
            return Ok(Ok(()));
        };
        let folder = match self.compiler.program(&best.text, self.cancel) {
            Ok(folder) => folder,
            Err(CompileError::Refused(why)) => {
                return Ok(Err(format!("the program does not build with it: {why}")));
            }
            Err(other) => return Err(other.into()),
        };
        let program = folder.path().join("program");
        let job = Process::new(&program).args(args);
        Ok(match self.device.run_program(job, self.cancel) {
            Ok(out) if out.status.success() => Ok(()),
            Ok(out) => Err(format!("the program built with it {}", out.ending())),
            Err(hipsmith_process::Error::Cancelled { .. }) => return Err(Error::Cancelled),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Store what a verification rests on; gives the file's name.
    fn record(
        &self,
        n: u32,
        text: &str,
        verdict: &Result<Verification, Verdict>,
    ) -> Result<String, Error> {
        let (word, reason) = match verdict {
            Ok(_) => ("pass", None),
            Err(Verdict::Wrong(why)) => ("wrong", Some(why.as_str())),
            Err(Verdict::Anomaly(why)) => ("harness-anomaly", Some(why.as_str())),
            Err(Verdict::Cancelled) => return Err(Error::Cancelled),
        };
        let record = VerificationRecord {
            job: &self.id,
            n,
            kernel: &self.subject.symbol,
            subject: &self.subject.origin,
            device: self.device.describe(),
            compiler: &self.compiler.version,
            text: hash(text),
            verdict: word,
            reason,
            evidence: verdict.as_ref().ok(),
        };
        let name = format!("verification/{}-{n}.json", self.id);
        let stored = |what: &str, bytes: &[u8]| {
            let path = self.state.join(what);
            std::fs::create_dir_all(path.parent().unwrap_or(&self.state))
                .and_then(|()| hipsmith_profile::write_atomically(&path, bytes))
                .map_err(|e| Error::Failed(format!("{} cannot be written: {e}", path.display())))
        };
        let json = serde_json::to_vec_pretty(&record).map_err(|e| {
            Error::Failed(format!("the verification record cannot be written: {e}"))
        })?;
        stored(&name, &json)?;
        stored(&format!("candidates/{}.hip", hash(text)), text.as_bytes())?;
        Ok(name)
    }

    fn report(
        &self,
        ladder: &[Best],
        baseline_ns: f64,
        rounds: Vec<Round>,
        stopped: Option<String>,
        withdrawn: Vec<String>,
        journal: &Journal,
    ) -> Report {
        let best = ladder.last().filter(|_| ladder.len() > 1);
        let best_ns = best.map_or(baseline_ns, |b| b.timing.ns);
        let speedup = baseline_ns / best_ns;
        let judged = rounds
            .iter()
            .any(|r| !r.reason.starts_with("HARNESS_ANOMALY") && r.outcome != Outcome::NotEmitted);
        let status = match best {
            Some(_) => Status::Improved,
            None if rounds.is_empty() && stopped.is_some() => Status::Failed,
            None if !rounds.is_empty() && !judged => Status::Failed,
            None => Status::NoImprovement,
        };
        let tally = tally(&rounds);
        let held_out = match self.verifier.held_out() {
            0 => "no held-out shape".to_owned(),
            1 => "1 held-out shape".to_owned(),
            n => format!("{n} held-out shapes"),
        };
        let mut summary = match status {
            Status::Improved => format!(
                "{} is {speedup:.2} times as fast, {} instead of {} ({}), verified against the original in {} launches \
                 with {held_out} and again on fresh values; {tally}",
                self.request.kernel,
                duration(best_ns),
                duration(baseline_ns),
                self.device.describe(),
                self.verifier.launches(),
            ),
            Status::NoImprovement if rounds.is_empty() => format!(
                "no improvement found for {}: the proposer had no idea for it ({} on {})",
                self.request.kernel,
                duration(baseline_ns),
                self.device.describe()
            ),
            Status::NoImprovement => format!(
                "no improvement found for {} ({} on {}); {tally}",
                self.request.kernel,
                duration(baseline_ns),
                self.device.describe()
            ),
            Status::Failed => match (&stopped, rounds.last()) {
                (Some(why), None) => format!("the proposer failed: {why}"),
                (_, Some(round)) => format!("no round could be judged: {}", round.reason),
                (None, None) => "no round could be judged".to_owned(),
            },
        };
        if let (Some(why), false) = (&stopped, rounds.is_empty()) {
            summary.push_str(&format!("; then the proposer failed: {why}"));
        }
        for why in withdrawn {
            summary.push_str(&format!("; one candidate was withdrawn: {why}"));
        }
        let new_text = best.map(|b| b.text.clone());
        Report {
            kernel: self.request.kernel.clone(),
            target: self.target.name.clone(),
            device: self.device.describe(),
            evidence: Evidence::Simulated,
            baseline_ns: Some(baseline_ns),
            best_ns: Some(best_ns),
            speedup: Some(speedup),
            status,
            summary,
            rounds,
            diff: new_text.as_ref().map_or_else(String::new, |new| {
                diff(&self.request.file, &self.request.text, new)
            }),
            new_text,
            journal: Some(journal.path().to_owned()),
        }
    }
}

fn refused(refusal: Refusal) -> Judged {
    match refusal {
        Refusal::Refused(why) => Judged::ended(Outcome::FailedToCompile, format!("refused: {why}")),
        Refusal::Suspect(why) => Judged::ended(Outcome::Suspect, why),
    }
}
