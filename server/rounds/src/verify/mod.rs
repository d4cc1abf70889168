//! Whether a candidate computes what the original computes, on data it has never seen.
//!
//! The original kernel is the reference: it ran in another process, on the same inputs and the same poison, and
//! its results stay in this process, out of the candidate's reach. What is compared is every byte of every
//! buffer, red zones included.

pub mod cases;
pub mod compare;
pub mod element;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use hipsmith_devices::harness::{Case, Launches};
use hipsmith_devices::{Device, Failure};
use hipsmith_process::Cancel;
use serde::Serialize;

use self::cases::{Poison, Role, Spec, Values};
use self::compare::{Agreement, Tolerance, compare};
use crate::proposer::LaunchChange;
use crate::subject::{Shape, Subject};

/// Why a verification gave no "right".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate is wrong, for this reason.
    Wrong(String),
    /// There is no verdict; the harness or the device is to blame.
    Anomaly(String),
    /// Somebody cancelled.
    Cancelled,
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Kernel { what, .. } => Self::Wrong(format!("the kernel {what}")),
            Failure::Anomaly(why) => Self::Anomaly(why),
            Failure::Cancelled => Self::Cancelled,
        }
    }
}

/// What a passed verification rests on; stored beside the journal.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// Seed of all draws, from the operating system, written down only afterwards.
    pub seed: u64,
    /// What each buffer is to the kernel.
    pub roles: Vec<Role>,
    /// Whether the original gives the same bits for the same input.
    pub reference_repeats: bool,
    /// One entry a launch.
    pub launches: Vec<LaunchEvidence>,
}

/// What one launch showed.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchEvidence {
    /// Which launch.
    #[serde(flatten)]
    pub spec: Spec,
    /// How near each written buffer came to the reference, by buffer number.
    pub agreement: Vec<(usize, Agreement)>,
}

/// The original's results, ready to judge candidates.
#[derive(Debug)]
pub struct Verifier {
    symbol: String,
    shapes: Vec<Shape>,
    roles: Vec<Role>,
    seed: u64,
    specs: Vec<Spec>,
    cases: Vec<Case>,
    /// The original's buffers after each case, without red zones.
    wanted: Results,
    repeats: bool,
    limit: Duration,
}

/// Contents of every buffer after each case.
type Results = Vec<Vec<Vec<u8>>>;

/// A job's verification of one candidate may take about this long on the device.
const BUDGET: Duration = Duration::from_secs(60);
const MOST_CASES: usize = 16;

impl Verifier {
    /// Run the original on everything that candidates will be run on.
    ///
    /// # Errors
    /// [`Verdict`]; `Wrong` here means that the original itself faults.
    pub fn prepare(
        device: &dyn Device,
        original: &Path,
        subject: &Subject,
        cancel: &Cancel,
    ) -> Result<Self, Verdict> {
        let mut this = Self {
            symbol: subject.symbol.clone(),
            shapes: subject.shapes.clone(),
            roles: Vec::new(),
            seed: cases::entropy(),
            specs: Vec::new(),
            cases: Vec::new(),
            wanted: Vec::new(),
            repeats: true,
            limit: Duration::from_secs(120),
        };
        let wall = this.reproduce(device, original, cancel)?;
        this.find_roles(device, original, cancel)?;
        let buffers = this.roles.len();
        this.shapes.retain(|s| s.buffers.len() == buffers);
        let affordable = BUDGET.as_secs_f64() / wall.as_secs_f64().max(1e-3);
        this.reference(device, original, affordable as usize, cancel)?;
        Ok(this)
    }

    /// The same, on values that nobody has seen yet.
    ///
    /// # Errors
    /// [`Verdict`].
    pub fn redraw(
        &self,
        device: &dyn Device,
        original: &Path,
        cancel: &Cancel,
    ) -> Result<Self, Verdict> {
        let mut this = Self {
            symbol: self.symbol.clone(),
            shapes: self.shapes.clone(),
            roles: self.roles.clone(),
            seed: cases::entropy(),
            specs: Vec::new(),
            cases: Vec::new(),
            wanted: Vec::new(),
            repeats: true,
            limit: self.limit,
        };
        this.reference(device, original, self.specs.len(), cancel)?;
        Ok(this)
    }

    /// The recorded launch, as it is timed.
    pub fn timed(&self) -> Case {
        recorded(&self.shapes[0])
    }

    /// What a buffer is to the kernel.
    pub fn role(&self, buffer: usize) -> Role {
        self.roles.get(buffer).copied().unwrap_or(Role::Input)
    }

    /// Bytes that the original changes in the recorded launch; a candidate must write at least these.
    pub fn written_bytes(&self) -> u64 {
        let (Some(spec), Some(wanted)) = (self.specs.first(), self.wanted.first()) else {
            return 0;
        };
        self.roles
            .iter()
            .enumerate()
            .map(|(b, role)| {
                let data = &self.shapes[spec.shape].buffers[b];
                let before = cases::contents(spec, data, *role, b as u64);
                before
                    .iter()
                    .zip(&wanted[b])
                    .filter(|(x, y)| x != y)
                    .count() as u64
            })
            .sum()
    }

    /// How many held-out shapes are part of it.
    pub fn held_out(&self) -> usize {
        let mut shapes: Vec<usize> = self.specs.iter().map(|s| s.shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes.len().saturating_sub(1)
    }

    /// How many launches decide.
    pub fn launches(&self) -> usize {
        self.specs.len()
    }

    /// Judge a candidate.
    ///
    /// # Errors
    /// [`Verdict`].
    pub fn check(
        &self,
        device: &dyn Device,
        module: &Path,
        launch: &[LaunchChange],
        cancel: &Cancel,
    ) -> Result<Evidence, Verdict> {
        let cases: Vec<Case> = self.cases.iter().map(|c| changed(c, launch)).collect();
        let ran = device
            .launch(
                &Launches {
                    module,
                    kernel: &self.symbol,
                    cases: &cases,
                    timeout: self.limit,
                },
                cancel,
            )
            .map_err(|failure| match failure {
                Failure::Kernel { case, what } => Verdict::Wrong(format!(
                    "the kernel {what} ({})",
                    cases.get(case).map_or("unknown launch", |c| &c.name)
                )),
                other => other.into(),
            })?;
        let mut launches = Vec::new();
        for (i, spec) in self.specs.iter().enumerate() {
            let name = &cases[i].name;
            let mut agreement = Vec::new();
            for (b, role) in self.roles.iter().enumerate() {
                let wrong =
                    |why: String| Verdict::Wrong(format!("buffer {b} {why} (launch with {name})"));
                let got = cases::unguard(spec, &ran.buffers[i][b]).map_err(wrong)?;
                let data = &self.shapes[spec.shape].buffers[b];
                let before = cases::contents(spec, data, *role, b as u64);
                if *role == Role::Input {
                    if got != before {
                        return Err(wrong("is an input and was changed".to_owned()));
                    }
                    continue;
                }
                let tolerance = Tolerance::of(data.element, self.terms(spec.shape));
                let near = compare(data.element, got, &self.wanted[i][b], &before, tolerance)
                    .map_err(|why| wrong(format!("is wrong: {why}")))?;
                agreement.push((b, near));
            }
            launches.push(LaunchEvidence {
                spec: spec.clone(),
                agreement,
            });
        }
        // The plan ends with a launch that it has made before.
        if let Some(last) = self.specs.len().checked_sub(1)
            && self.repeats
            && let Some(first) = self.specs[..last]
                .iter()
                .position(|s| *s == self.specs[last])
            && ran.buffers[first] != ran.buffers[last]
        {
            return Err(Verdict::Wrong(
                "the same input gives other results at a later launch (a race, or state kept between launches)"
                    .to_owned(),
            ));
        }
        Ok(Evidence {
            seed: self.seed,
            roles: self.roles.clone(),
            reference_repeats: self.repeats,
            launches,
        })
    }

    /// The most terms that one result may have accumulated: the elements of the largest float input.
    fn terms(&self, shape: usize) -> usize {
        self.shapes[shape]
            .buffers
            .iter()
            .zip(&self.roles)
            .filter(|(d, r)| **r != Role::Output && d.element.is_float())
            .map(|(d, _)| d.before.len() / d.element.size())
            .max()
            .unwrap_or(1)
    }

    /// The harness must give what the program's own run gave, or nothing that follows means anything.
    fn reproduce(
        &self,
        device: &dyn Device,
        original: &Path,
        cancel: &Cancel,
    ) -> Result<Duration, Verdict> {
        let shape = &self.shapes[0];
        let case = recorded(shape);
        let ran = self.run(device, original, &[case], cancel)?;
        for (b, data) in shape.buffers.iter().enumerate() {
            let Some(after) = &data.after else { continue };
            let largest = data.before.len() / data.element.size();
            compare(
                data.element,
                &ran.0[0][b],
                after,
                &data.before,
                Tolerance::of(data.element, largest),
            )
            .map_err(|why| {
                Verdict::Anomaly(format!(
                    "the harness does not reproduce what the program computed (buffer {b}: {why}); does the kernel \
                     depend on something other than its arguments, or is the program built from another text?"
                ))
            })?;
        }
        Ok(ran.1)
    }

    fn run(
        &self,
        device: &dyn Device,
        module: &Path,
        cases: &[Case],
        cancel: &Cancel,
    ) -> Result<(Results, Duration), Verdict> {
        let launches = Launches {
            module,
            kernel: &self.symbol,
            cases,
            timeout: self.limit,
        };
        let ran = device.launch(&launches, cancel)?;
        Ok((ran.buffers, ran.wall))
    }

    /// Which buffers are outputs: run the original on two poisons and see what follows from what.
    fn find_roles(
        &mut self,
        device: &dyn Device,
        original: &Path,
        cancel: &Cancel,
    ) -> Result<(), Verdict> {
        let shape = &self.shapes[0];
        let poisons = [0xAAu8, 0x55];
        let base = self.run(device, original, &[recorded(shape)], cancel)?.0;
        let mut roles = Vec::new();
        for (b, data) in shape.buffers.iter().enumerate() {
            if !data.writable {
                roles.push(Role::Input);
                continue;
            }
            let cases: Vec<Case> = poisons
                .iter()
                .map(|p| {
                    let mut case = recorded(shape);
                    case.buffers[b].fill(*p);
                    case
                })
                .collect();
            let changed = base[0][b] != data.before;
            let old_matters = if changed { Role::InOut } else { Role::Input };
            let ran = match self.run(device, original, &cases, cancel) {
                Ok((ran, _)) => ran,
                // It faults on poison, as a kernel does whose indices are in there.
                Err(Verdict::Wrong(_)) => {
                    roles.push(old_matters);
                    continue;
                }
                Err(other) => return Err(other),
            };
            let others_depend = (0..shape.buffers.len())
                .any(|o| o != b && (ran[0][o] != base[0][o] || ran[1][o] != base[0][o]));
            let mut written = false;
            let mut depends = others_depend;
            for (i, (x, y)) in ran[0][b].iter().zip(&ran[1][b]).enumerate() {
                let untouched = *x == poisons[0] && *y == poisons[1];
                if !untouched {
                    written = true;
                    depends |= x != y || *x != base[0][b][i];
                }
            }
            roles.push(match (depends, written) {
                (true, _) => old_matters,
                (false, true) => Role::Output,
                (false, false) => Role::Input,
            });
        }
        if roles.iter().all(|r| *r == Role::Input) {
            return Err(Verdict::Anomaly(
                "the kernel changes none of the memory that its arguments point to, so nothing can be checked"
                    .to_owned(),
            ));
        }
        self.roles = roles;
        Ok(())
    }

    /// Fill `specs`, `cases` and `wanted` from the original.
    fn reference(
        &mut self,
        device: &dyn Device,
        original: &Path,
        affordable: usize,
        cancel: &Cancel,
    ) -> Result<(), Verdict> {
        let floats = self.shapes[0]
            .buffers
            .iter()
            .zip(&self.roles)
            .any(|(d, r)| *r != Role::Output && d.element.is_float());
        let mut specs = cases::plan(
            self.shapes.len(),
            floats,
            affordable.min(MOST_CASES),
            self.seed,
        );
        let (cases, ran, wall) = loop {
            let cases: Vec<Case> = specs
                .iter()
                .map(|s| cases::build(s, &self.shapes[s.shape], &self.roles))
                .collect();
            let launches = Launches {
                module: original,
                kernel: &self.symbol,
                cases: &cases,
                timeout: self.limit,
            };
            match device.launch(&launches, cancel) {
                Ok(ran) => break (cases, ran.buffers, ran.wall),
                // The original cannot take these values: they are no test of anything.
                Err(Failure::Kernel { case, what }) => match specs.get(case).map(|s| s.values) {
                    Some(Values::Recorded) | None => {
                        return Err(Verdict::Wrong(format!("the original kernel {what}")));
                    }
                    Some(_) => {
                        specs.remove(case);
                    }
                },
                Err(other) => return Err(other.into()),
            }
        };
        let mut kept = Vec::new();
        for ((spec, case), buffers) in specs.into_iter().zip(cases).zip(ran) {
            let mut wanted = Vec::new();
            for (b, bytes) in buffers.iter().enumerate() {
                let inner = cases::unguard(&spec, bytes).map_err(|why| {
                    Verdict::Wrong(format!("the original kernel is faulty: buffer {b} {why}"))
                })?;
                wanted.push(inner.to_vec());
            }
            // Where only overflow is left, an honest candidate may overflow elsewhere.
            let extreme = matches!(spec.values, Values::Large | Values::Tiny);
            if extreme && self.overflows(&spec, &wanted) {
                continue;
            }
            kept.push((spec, case, wanted));
        }
        let redrawn = |s: &Spec| s.shape == 0 && s.values != Values::Recorded;
        if kept.iter().any(|(s, ..)| redrawn(s)) {
            let first = &kept[0].2;
            let insensitive = kept.iter().filter(|(s, ..)| redrawn(s)).all(|(s, _, w)| {
                self.roles.iter().enumerate().all(|(b, r)| {
                    *r == Role::Input
                        || w[b] == first[b]
                        || self.unwritten_alike(s, b, &w[b], &kept[0].0, &first[b])
                })
            });
            if insensitive {
                return Err(Verdict::Anomaly(
                    "the kernel's results do not depend on its inputs in this launch, so a check of them would prove \
                     nothing"
                        .to_owned(),
                ));
            }
        }
        let first_twice = kept.len() >= 3 && kept[1].0 == kept[kept.len() - 1].0;
        self.repeats = !first_twice || kept[1].2 == kept[kept.len() - 1].2;
        self.limit = (wall * 10).max(Duration::from_secs(20));
        for (spec, case, wanted) in kept {
            self.specs.push(spec);
            self.cases.push(case);
            self.wanted.push(wanted);
        }
        Ok(())
    }

    /// Whether two results of an output buffer differ only where the poison before them differed.
    fn unwritten_alike(
        &self,
        spec: &Spec,
        buffer: usize,
        bytes: &[u8],
        other_spec: &Spec,
        other: &[u8],
    ) -> bool {
        if self.roles[buffer] != Role::Output {
            return false;
        }
        let data = &self.shapes[0].buffers[buffer];
        let before = cases::poison(spec.poison, data);
        let other_before = cases::poison(other_spec.poison, data);
        (0..bytes.len())
            .all(|i| bytes[i] == other[i] || (bytes[i] == before[i] && other[i] == other_before[i]))
    }

    fn overflows(&self, spec: &Spec, wanted: &[Vec<u8>]) -> bool {
        self.roles.iter().enumerate().any(|(b, role)| {
            let data = &self.shapes[spec.shape].buffers[b];
            let element = data.element;
            let poisoned_with_nan = *role == Role::Output && spec.poison == Poison::Nan;
            let before = cases::contents(spec, data, *role, b as u64);
            *role != Role::Input
                && element.is_float()
                && (0..wanted[b].len() / element.size()).any(|i| {
                    let at = i * element.size()..(i + 1) * element.size();
                    let untouched = poisoned_with_nan && wanted[b][at.clone()] == before[at];
                    !untouched && !element.get(&wanted[b], i).is_finite()
                })
        })
    }
}

fn recorded(shape: &Shape) -> Case {
    Case {
        name: "recorded values".to_owned(),
        grid: shape.grid,
        block: shape.block,
        dynamic_lds: shape.dynamic_lds,
        buffers: shape.buffers.iter().map(|b| b.before.clone()).collect(),
        args: shape.args.clone(),
        globals: shape.globals.clone(),
        fresh: false,
    }
}

/// The launch of a candidate whose edits changed how it is launched, one change after the other.
pub fn changed(case: &Case, changes: &[LaunchChange]) -> Case {
    let mut case = case.clone();
    for change in changes {
        case.block = change.block;
        for (axis, (numerator, denominator)) in change.grid_scale.iter().enumerate() {
            let scaled = u64::from(case.grid[axis]) * u64::from(*numerator);
            let grid = scaled.div_ceil(u64::from((*denominator).max(1)));
            case.grid[axis] = u32::try_from(grid).unwrap_or(u32::MAX).max(1);
        }
        case.dynamic_lds = change.dynamic_lds.unwrap_or(case.dynamic_lds);
    }
    case
}
