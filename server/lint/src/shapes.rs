//! The workgroups that a function may run in: shapes of the launches that reach it and what they bind its template to.

use hipsmith_syntax::Binding as Bound;
use hipsmith_syntax::lanes::{BindingKind, Evaluator, Geometry};

use crate::context::Context;
use crate::facts::Function;

/// A launch that reaches a function, as far as it is known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// Threads in x, y and z; `None` when the launch does not show them.
    pub shape: Option<[u32; 3]>,
    /// What the function's template parameters are.
    pub bound: Vec<(String, Bound)>,
}

impl Setting {
    /// Wavefronts of the workgroup, when its shape is known.
    pub fn waves(&self) -> Option<u32> {
        let threads: u64 = self.shape?.iter().map(|d| u64::from(*d)).product();
        u32::try_from(threads.div_ceil(64)).ok()
    }
}

/// Settings looked at per function: more launches than this add nothing but time.
const MOST: usize = 6;

/// Functions that name a second dimension of the thread: with an unknown shape nothing is known of their lanes.
pub fn is_flat(cx: &Context<'_>, f: &Function<'_>) -> bool {
    let body = cx.text(f.body);
    ![
        "threadIdx.y",
        "threadIdx.z",
        "hipThreadIdx_y",
        "hipThreadIdx_z",
        "blockDim.y",
    ]
    .iter()
    .any(|w| body.contains(w))
}

impl<'t> Context<'t> {
    /// The launches that reach the `index`-th function, without repetition; one of unknown shape when there is none.
    pub fn settings(&self, index: usize) -> Vec<Setting> {
        let mut out: Vec<Setting> = Vec::new();
        for k in self.kernels_reaching(index) {
            let Some(model) = self.functions.get(k).and_then(|kernel| {
                self.model
                    .functions
                    .iter()
                    .position(|m| m.name_range == kernel.name_range)
            }) else {
                continue;
            };
            let mut launched = false;
            for launch in self.model.launches_of(model) {
                launched = true;
                let setting = Setting {
                    shape: launch.block.and_then(|b| {
                        let [x, y, z] =
                            b.map(|d| u32::try_from(d).ok().filter(|d| (1..=1024).contains(d)));
                        Some([x?, y?, z?])
                    }),
                    bound: if k == index {
                        self.model.instance_of(model, launch)
                    } else {
                        Vec::new()
                    },
                };
                if !out.contains(&setting) {
                    out.push(setting);
                }
            }
            if !launched {
                out.push(Setting {
                    shape: None,
                    bound: Vec::new(),
                });
            }
        }
        if out.is_empty() {
            out.push(Setting {
                shape: None,
                bound: Vec::new(),
            });
        }
        out.dedup();
        out.truncate(MOST);
        out
    }

    /// An evaluator for `f` in one wavefront, its template parameters bound as the setting says.
    pub fn evaluator_in<'a>(
        &'a self,
        f: &'a Function<'t>,
        setting: &Setting,
        geometry: Geometry,
    ) -> Evaluator<'a, 't> {
        let eval = self.evaluator(f, geometry);
        for (name, value) in &setting.bound {
            let Bound::Value(v) = value else { continue };
            for b in f
                .bindings
                .iter()
                .filter(|b| b.kind == BindingKind::Template && self.text(b.name) == name)
            {
                eval.pin(b, Some(*v));
            }
        }
        eval
    }
}
