//! What is predicted about kernels and LDS, for everything that shows it: bytes and launches from the model, occupancy
//! with the compiler's registers once they are known.

use hipsmith_syntax::{Binding, Launch, Model, SharedArray};
use hipsmith_target::{Occupancy, Resources as Needs, occupancy};

use crate::session::Snapshot;

/// A number with its thousands apart, as it is read best in a margin: `4,224`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Template parameters as they are bound: `N = 64, T = float`; empty without any.
pub fn bound(bindings: &[(String, Binding)]) -> String {
    let shown: Vec<String> = bindings
        .iter()
        .map(|(name, binding)| format!("{name} = {binding}"))
        .collect();
    shown.join(", ")
}

/// A value for each instance of a function, where the instances differ; one without a name where they agree.
pub struct PerInstance {
    /// The bound template parameters, and bytes where they are known.
    pub values: Vec<(String, Option<u64>)>,
}

impl PerInstance {
    fn new(all: impl IntoIterator<Item = (String, Option<u64>)>) -> Self {
        let mut values: Vec<(String, Option<u64>)> = all.into_iter().collect();
        if let Some((_, first)) = values.first().cloned()
            && values.iter().all(|(_, bytes)| *bytes == first)
        {
            values = vec![(String::new(), first)];
        }
        Self { values }
    }

    /// The one value that holds for all.
    pub fn single(&self) -> Option<u64> {
        match self.values.as_slice() {
            [(_, bytes)] => *bytes,
            _ => None,
        }
    }

    /// `4,224 B`, or `512 B (N = 64), 1,024 B (N = 128)`; `None` when nothing is known.
    pub fn text(&self) -> Option<String> {
        self.values
            .iter()
            .any(|(_, bytes)| bytes.is_some())
            .then(|| {
                let shown: Vec<String> = self
                    .values
                    .iter()
                    .map(|(of, bytes)| {
                        let bytes = bytes.map_or_else(|| "?".to_owned(), grouped);
                        match of.as_str() {
                            "" => format!("{bytes} B"),
                            of => format!("{bytes} B ({of})"),
                        }
                    })
                    .collect();
                shown.join(", ")
            })
    }
}

type Bindings = Vec<(String, Binding)>;

/// What the launches of this file bind the template parameters of a function to, deduced ones included.
fn instances(model: &Model, function: usize) -> Vec<Bindings> {
    let is_template = model
        .functions
        .get(function)
        .is_some_and(|f| !f.template_params.is_empty());
    if !is_template {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for launch in model.launches_of(function) {
        if let Some(bindings) = instance(model, function, launch)
            && !all.contains(&bindings)
        {
            all.push(bindings);
        }
    }
    all
}

/// What a launch binds the template parameters of this kernel to; `None` if it starts another of the same name.
fn instance(model: &Model, kernel: usize, launch: &Launch) -> Option<Bindings> {
    let (found, bindings) = model.launched(launch)?;
    (std::ptr::eq(found.model, model) && found.index == kernel).then_some(bindings)
}

/// Static LDS of a kernel, by instance.
pub fn static_lds(model: &Model, kernel: usize) -> PerInstance {
    PerInstance::new(instances(model, kernel).into_iter().map(|bindings| {
        let bytes = model.static_lds(kernel, &bindings).bytes;
        (bound(&bindings), bytes)
    }))
}

/// Bytes of a static LDS array, by instance of the function it stands in.
pub fn array_bytes(model: &Model, array: &SharedArray) -> PerInstance {
    let mut instances = array
        .function
        .map(|function| instances(model, function))
        .unwrap_or_default();
    if instances.is_empty() {
        instances.push(Vec::new());
    }
    PerInstance::new(
        instances
            .into_iter()
            .map(|bindings| (bound(&bindings), model.shared_bytes(array, &bindings))),
    )
}

/// A launch's shape as it is written in code, with `?` for what is not constant: `<<<?, 16x16, 1,024 B>>>`.
pub fn launch_shape(launch: &Launch) -> String {
    let grid = extent(launch.grid);
    let block = extent(launch.block);
    match (&launch.lds_expr, launch.lds_bytes) {
        (None, _) | (_, Some(0)) => format!("<<<{grid}, {block}>>>"),
        (_, Some(bytes)) => format!(
            "<<<{grid}, {block}, {} B>>>",
            grouped(u64::try_from(bytes).unwrap_or_default())
        ),
        (_, None) => format!("<<<{grid}, {block}, ? B>>>"),
    }
}

fn extent(extent: Option<[i64; 3]>) -> String {
    match extent {
        None => "?".to_owned(),
        Some([x, 1, 1]) => x.to_string(),
        Some([x, y, 1]) => format!("{x}x{y}"),
        Some([x, y, z]) => format!("{x}x{y}x{z}"),
    }
}

/// The lowest occupancy that a launch of this file gives a kernel.
pub struct Predicted {
    pub occupancy: Occupancy,
    /// Lanes of the launch's workgroup.
    pub workgroup: u32,
    /// Its LDS, static and dynamic, bytes.
    pub lds_bytes: u32,
    /// Vector and scalar registers, if this text was compiled; otherwise the occupancy is the most there can be.
    pub registers: Option<(u32, u32)>,
}

/// What occupancy the launches of this file give a kernel; `None` when one of them leaves open what it depends on, or
/// there is none.
pub fn predicted(snapshot: &Snapshot, model: &Model, kernel: usize) -> Option<Predicted> {
    let registers = registers(snapshot, &model.functions.get(kernel)?.name);
    let (vgprs, sgprs) = registers.unwrap_or_default();
    let mut worst: Option<Predicted> = None;
    for launch in model.launches_of(kernel) {
        let Some(bindings) = instance(model, kernel, launch) else {
            continue;
        };
        let fixed = model.static_lds(kernel, &bindings).bytes?;
        let dynamic = u64::try_from(launch.lds_bytes?).ok()?;
        let lds_bytes = u32::try_from(fixed.checked_add(dynamic)?).ok()?;
        let workgroup = launch.block?.into_iter().try_fold(1_u32, |all, side| {
            all.checked_mul(u32::try_from(side).ok().filter(|side| *side > 0)?)
        })?;
        let occupancy = occupancy(
            snapshot.document.target(),
            &Needs {
                vgprs,
                sgprs,
                lds_bytes,
                workgroup,
            },
        );
        if worst
            .as_ref()
            .is_none_or(|w| occupancy.waves_per_simd < w.occupancy.waves_per_simd)
        {
            worst = Some(Predicted {
                occupancy,
                workgroup,
                lds_bytes,
                registers,
            });
        }
    }
    worst
}

/// The most registers that an instance of the kernel uses, if exactly this text was compiled for its target.
fn registers(snapshot: &Snapshot, kernel: &str) -> Option<(u32, u32)> {
    let resources = snapshot.resources.as_ref()?;
    let compilation = resources.result.as_ref().ok()?;
    if *resources.text != *snapshot.document.text() {
        return None;
    }
    let of = || compilation.kernels.iter().filter(|k| k.kernel == kernel);
    Some((of().map(|k| k.vgprs).max()?, of().map(|k| k.sgprs).max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (65_536, "65,536")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
