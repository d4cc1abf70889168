//! Accesses to LDS in the text, and the bank conflict that each of them has.
//!
//! An access is followed from the name of a `__shared__` array, or of a pointer into one, outwards to the place that is
//! read or written. Kernels are looked at for the workgroups that launch them, device functions with what their callers
//! hand them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use hipsmith_syntax::lanes::{
    Binding, BindingKind, Evaluator, Geometry, LANES, Lanes, Op, Uniform,
};
use hipsmith_syntax::{Binding as Bound, Document, Node, Scope};
use hipsmith_target::{LdsAccess, LdsCost};

use crate::context::{self, Context};
use crate::facts::{Function, Place as Runs, unparenthesized, within};
use crate::shapes::{Setting, is_flat};

/// An access to LDS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdsUse {
    /// Bytes of the expression.
    pub range: Range<usize>,
    /// Name of the array; of the pointer, where the array is not known.
    pub array: String,
    /// Bytes that a lane reads or writes, when known.
    pub width_bytes: Option<u32>,
    /// It reads.
    pub reads: bool,
    /// It writes; atomics do both.
    pub writes: bool,
    /// What its lanes cost each other, or why that is not known.
    pub degree: Result<Degree, Unknown>,
}

/// The worst conflict of an access over the launches and the iterations that were looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Degree {
    /// Different words that the busiest bank has to give in one turn: 1 is free of conflict.
    pub ways: u32,
    /// Turns that the access of one wavefront takes.
    pub cycles: u32,
    /// Turns without conflicts.
    pub ideal_cycles: u32,
    /// A conflict of the reading or of the writing side.
    pub access: LdsAccess,
    /// It depends on the iteration of a loop.
    pub some_iterations: bool,
    /// The shape of the workgroup is not known; a one-dimensional one was supposed.
    pub supposed_flat: bool,
}

/// Why the conflict of an access is not known.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Unknown {
    /// The index differs between lanes in a way that the text does not show.
    Index,
    /// The size of the element or of a row is not known.
    Element,
    /// The shape of the workgroup is not known, and it matters.
    Shape,
    /// Which lanes take part is not known, and it matters.
    Lanes,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unknown::Index => {
                "the index differs between lanes in a way that the text does not show"
            }
            Unknown::Element => "the size of the element or of a row is not known",
            Unknown::Shape => "the shape of the workgroup is not known",
            Unknown::Lanes => "which lanes take part is not known",
        })
    }
}

/// A workgroup that a kernel was launched with, for [`lds_accesses_of`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launched {
    /// The kernel's name, without qualification and template arguments.
    pub kernel: String,
    /// Threads in x, y and z.
    pub block: [u32; 3],
    /// What its template parameters are.
    pub bound: Vec<(String, Bound)>,
}

/// All accesses to LDS in `document`, in text order.
pub fn lds_accesses(document: &Document) -> Vec<LdsUse> {
    lds_accesses_of(document, &[])
}

/// As [`lds_accesses`], with the launches that a run made instead of those that the text shows.
pub fn lds_accesses_of(document: &Document, launched: &[Launched]) -> Vec<LdsUse> {
    let mut out = Vec::new();
    context::with(document, &crate::Config::default(), |cx| {
        out = analyse(cx, launched, None, None)
            .into_iter()
            .map(|a| a.found)
            .collect();
    });
    out
}

/// An access with what the rule needs besides.
pub(crate) struct Access {
    pub(crate) found: LdsUse,
    /// Index of the array in the model.
    pub(crate) array: Option<usize>,
}

/// More elements in the rows of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Padding {
    /// Index of the array in the model.
    pub(crate) array: usize,
    /// Elements.
    pub(crate) elements: i64,
}

/// Iterations tried of one loop, and of all together.
const ITERATIONS: usize = 16;
const COMBINED: usize = 64;
/// Calls followed from a kernel, one in the other.
const DEPTH: usize = 4;
/// Functions entered for one kernel and wavefront.
const ENTERED: usize = 64;
/// Launches looked at for one kernel.
const SETTINGS: usize = 16;
/// Kernels looked at for one function.
const KERNELS: usize = 8;
/// Shapes tried when none is known.
const TRIED: [[u32; 3]; 6] = [
    [64, 4, 1],
    [32, 8, 1],
    [32, 32, 1],
    [16, 16, 1],
    [8, 8, 1],
    [128, 2, 1],
];

/// All accesses of the file, or of one function, in text order.
pub(crate) fn analyse(
    cx: &Context<'_>,
    launched: &[Launched],
    only: Option<usize>,
    pad: Option<Padding>,
) -> Vec<Access> {
    if cx.model.shared.is_empty() {
        return Vec::new();
    }
    let mut all = Analysis {
        cx,
        pad,
        only: None,
        ways: HashSet::new(),
        sites: BTreeMap::new(),
        entered: HashSet::new(),
        budget: 0,
        names: HashMap::new(),
    };
    match only {
        Some(index) => {
            if all.may_touch(index) {
                all.function(index, launched);
            }
        }
        None => {
            for (index, f) in cx.functions.iter().enumerate() {
                if f.place != Runs::Unmarked && all.may_touch(index) {
                    all.function(index, launched);
                }
            }
        }
    }
    let mut out: Vec<Access> = all
        .sites
        .into_iter()
        .map(|((start, end), site)| Access {
            found: LdsUse {
                range: start..end,
                array: site.name,
                width_bytes: site.bytes,
                reads: site.reads,
                writes: site.writes,
                degree: match site.worst {
                    Some(degree) => Ok(degree),
                    None => Err(site.why.unwrap_or(Unknown::Index)),
                },
            },
            array: site.array,
        })
        .collect();
    out.sort_by_key(|a| (a.found.range.start, a.found.range.end));
    out
}

/// What is known of one place in the text so far.
struct Site {
    array: Option<usize>,
    name: String,
    bytes: Option<u32>,
    reads: bool,
    writes: bool,
    worst: Option<Degree>,
    why: Option<Unknown>,
}

/// What an expression is a place in.
#[derive(Clone, Debug)]
struct Spot {
    /// Index of the array in the model.
    array: usize,
    /// Bytes from the array's start; `None` when the lanes differ in an unknown way.
    offset: Option<Lanes>,
    /// Bytes of an element and its alignment; `None` when not known.
    element: Option<Element>,
    /// Dimensions that are still to be subscripted, outermost first.
    dims: Vec<Option<i64>>,
    /// It is a pointer to the place rather than the place.
    pointer: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Element {
    ty: String,
    size: i64,
    align: i64,
}

/// One function in one wavefront, entered with known arguments.
struct Frame<'a, 't> {
    index: usize,
    f: &'a Function<'t>,
    eval: Evaluator<'a, 't>,
    bound: Vec<(String, Bound)>,
    /// Parameters that point into LDS, by the id of the name node.
    spots: HashMap<usize, Spot>,
    /// Lanes that are there, and whether more may be missing.
    lanes: Active,
    flat: bool,
}

#[derive(Clone, Debug)]
struct Active {
    lanes: [bool; LANES],
    exact: bool,
}

/// An identifier in a function that may lead into LDS.
#[derive(Clone, Copy)]
struct Root<'t> {
    node: Node<'t>,
}

struct Analysis<'a, 't> {
    cx: &'a Context<'t>,
    pad: Option<Padding>,
    sites: BTreeMap<(usize, usize), Site>,
    /// The function whose accesses are wanted, and those that lead to it.
    only: Option<usize>,
    ways: HashSet<usize>,
    /// Functions looked at.
    entered: HashSet<usize>,
    budget: usize,
    /// Per function, once looked at: where names of LDS stand.
    names: HashMap<usize, Vec<Root<'t>>>,
}

/// What one wavefront saw at a place.
struct Seen {
    key: (usize, usize),
    array: Option<usize>,
    name: String,
    bytes: Option<u32>,
    reads: bool,
    writes: bool,
    result: Result<Degree, Unknown>,
    /// No lane gets there.
    idle: bool,
}

impl<'a, 't> Analysis<'a, 't> {
    /// Whether the function names LDS or can be handed a pointer into it.
    fn may_touch(&self, index: usize) -> bool {
        let cx = self.cx;
        cx.functions.get(index).is_some_and(|f| {
            let body = cx.text(f.body);
            cx.shared_names.iter().any(|n| body.contains(n))
                || f.place != Runs::Kernel
                    && !cx.callers_of(index).is_empty()
                    && parameters(f).iter().any(|p| p.compound)
        })
    }

    /// The accesses of one function, from the kernels that lead to it.
    fn function(&mut self, index: usize, launched: &[Launched]) {
        self.only = Some(index);
        self.ways = HashSet::from([index]);
        let mut queue = vec![index];
        while let Some(i) = queue.pop() {
            for caller in self.cx.callers_of(i) {
                if self.ways.insert(*caller) {
                    queue.push(*caller);
                }
            }
        }
        self.entered.clear();
        let kernels = self.cx.kernels_reaching(index);
        for kernel in kernels.into_iter().take(KERNELS) {
            self.kernel(kernel, launched);
        }
        // No kernel of the file calls it in a way that is understood.
        if !self.entered.contains(&index) {
            self.kernel(index, launched);
        }
    }

    /// A kernel for every workgroup that launches it.
    fn kernel(&mut self, index: usize, launched: &[Launched]) {
        let cx = self.cx;
        let Some(f) = cx.functions.get(index) else {
            return;
        };
        let mut settings = cx.settings(index);
        let given: Vec<&Launched> = launched.iter().filter(|l| l.kernel == f.name).collect();
        if !given.is_empty() {
            // What was really launched says more than what the text shows.
            settings.clear();
            for l in given {
                let one = Setting {
                    shape: Some(l.block),
                    bound: l.bound.clone(),
                };
                if !settings.contains(&one) {
                    settings.push(one);
                }
            }
        }
        settings.truncate(SETTINGS);
        for setting in &settings {
            self.setting(index, f, setting);
        }
    }

    fn setting(&mut self, index: usize, f: &'a Function<'t>, setting: &Setting) {
        let flat = self.is_flat(index);
        let (geometries, supposed): (Vec<Geometry>, bool) = match setting.shape {
            Some(shape) => (waves(shape), false),
            None if flat => (vec![Geometry::FirstWave], true),
            // The answer counts where it is the same for all.
            None => (
                self.tile_shapes(f, setting)
                    .into_iter()
                    .map(|shape| Geometry::Block { shape, wave: 0 })
                    .collect(),
                false,
            ),
        };
        let agree = setting.shape.is_none() && !flat;
        let mut merged: BTreeMap<(usize, usize), Seen> = BTreeMap::new();
        for geometry in geometries {
            self.budget = ENTERED;
            let frame = Frame {
                index,
                f,
                eval: self.cx.evaluator_in(f, setting, geometry),
                bound: setting.bound.clone(),
                spots: HashMap::new(),
                lanes: Active {
                    lanes: std::array::from_fn(|l| geometry.is_active(l)),
                    exact: true,
                },
                flat: supposed,
            };
            let mut seen = Vec::new();
            self.enter(&frame, geometry, &mut vec![index], &mut seen);
            // One wavefront may pass a place several times, through several calls.
            let mut once: BTreeMap<(usize, usize), Seen> = BTreeMap::new();
            for s in seen {
                match once.get_mut(&s.key) {
                    Some(old) => old.worse(s),
                    None => {
                        once.insert(s.key, s);
                    }
                }
            }
            for (key, s) in once {
                match merged.get_mut(&key) {
                    None => {
                        merged.insert(key, s);
                    }
                    Some(old) if agree => {
                        let same = match (&old.result, &s.result) {
                            (Ok(a), Ok(b)) => a.ways == b.ways,
                            _ => false,
                        };
                        if !same && !s.idle && !old.idle {
                            old.result = Err(match (&old.result, &s.result) {
                                (Err(e), _) | (_, Err(e)) => *e,
                                _ => Unknown::Shape,
                            });
                        } else if old.idle {
                            *old = s;
                        }
                    }
                    Some(old) => old.worse(s),
                }
            }
        }
        for (key, s) in merged {
            if s.idle {
                continue;
            }
            let site = self.sites.entry(key).or_insert_with(|| Site {
                array: s.array,
                name: s.name.clone(),
                bytes: s.bytes,
                reads: false,
                writes: false,
                worst: None,
                why: None,
            });
            site.reads |= s.reads;
            site.writes |= s.writes;
            site.bytes = site.bytes.or(s.bytes);
            match s.result {
                Ok(d) => {
                    if site
                        .worst
                        .is_none_or(|w| (d.ways, d.cycles) > (w.ways, w.cycles))
                    {
                        site.worst = Some(d);
                    }
                }
                Err(why) => site.why = site.why.or(Some(why)),
            }
        }
    }

    fn is_flat(&self, index: usize) -> bool {
        let cx = self.cx;
        let mut queue = vec![index];
        let mut seen = HashSet::from([index]);
        while let Some(i) = queue.pop() {
            let Some(f) = cx.functions.get(i) else {
                continue;
            };
            if !is_flat(cx, f) {
                return false;
            }
            for call in &f.calls {
                for callee in cx.by_name.get(&call.name).into_iter().flatten() {
                    if seen.len() < ENTERED && seen.insert(*callee) {
                        queue.push(*callee);
                    }
                }
            }
        }
        true
    }

    /// The shapes that a workgroup of unknown shape may have. A tile that is filled with `[threadIdx.y][threadIdx.x]`
    /// has at least as many columns as the workgroup, and hardly twice as many.
    fn tile_shapes(&self, f: &Function<'t>, setting: &Setting) -> Vec<[u32; 3]> {
        let cx = self.cx;
        let mut out: Vec<[u32; 3]> = TRIED.to_vec();
        for s in &f.subscripts {
            let Some(inner) = s.child_by_field_name("argument") else {
                continue;
            };
            let index = |n: Node<'t>| {
                n.child_by_field_name("indices")
                    .map(|i| cx.text(i).trim_matches(['[', ']', ' ']))
            };
            if inner.kind() != "subscript_expression"
                || index(*s) != Some("threadIdx.x")
                || index(inner) != Some("threadIdx.y")
            {
                continue;
            }
            let Some(base) = inner.child_by_field_name("argument") else {
                continue;
            };
            let Some(shared) = cx.model.shared_at(cx.text(base), base.start_byte()) else {
                continue;
            };
            let scope = Scope::at(shared.name_range.start).with(&setting.bound);
            let dims: Vec<Option<i64>> = shared
                .dims
                .iter()
                .map(|d| cx.model.eval(&d.text, &scope))
                .collect();
            if let [Some(rows), Some(columns)] = dims[..] {
                out.retain(|[x, y, _]| {
                    i64::from(*x) <= columns && i64::from(*x) * 2 > columns && i64::from(*y) <= rows
                });
            }
        }
        if out.is_empty() { TRIED.to_vec() } else { out }
    }

    fn enter(
        &mut self,
        frame: &Frame<'a, 't>,
        geometry: Geometry,
        path: &mut Vec<usize>,
        out: &mut Vec<Seen>,
    ) {
        self.entered.insert(frame.index);
        if self.only == Some(frame.index) {
            for root in self.roots(frame) {
                self.follow(frame, root.node, out);
            }
            return;
        }
        if path.len() > DEPTH {
            return;
        }
        let cx = self.cx;
        for call in &frame.f.calls {
            let Some(callees) = cx.by_name.get(&call.name) else {
                continue;
            };
            let device: Vec<usize> = callees
                .iter()
                .copied()
                .filter(|c| {
                    cx.functions.get(*c).is_some_and(|f| {
                        f.place != Runs::Unmarked || frame.f.place != Runs::Unmarked
                    })
                })
                .collect();
            // Overloads with as many parameters cannot be told apart here.
            let fitting: Vec<usize> = device
                .into_iter()
                .filter(|c| {
                    cx.functions
                        .get(*c)
                        .is_some_and(|f| parameters(f).len() == call.args.len())
                })
                .collect();
            let [callee] = fitting[..] else { continue };
            if path.contains(&callee) || self.budget == 0 || !self.ways.contains(&callee) {
                continue;
            }
            let Some(g) = cx.functions.get(callee) else {
                continue;
            };
            let mut spots = HashMap::new();
            let mut eval_args = Vec::new();
            for (p, arg) in parameters(g).into_iter().zip(&call.args) {
                if p.compound {
                    if let Some(mut spot) = self.spot(frame, *arg, 0) {
                        // A reference stays the place itself; an array becomes a pointer to its first row.
                        if !spot.dims.is_empty() {
                            spot = self.decay(spot);
                        }
                        spots.insert(p.name.id(), spot);
                    }
                } else if let Some(v) = frame.eval.eval(*arg) {
                    eval_args.push((p, v));
                }
            }
            self.budget -= 1;
            let eval = Evaluator::new(cx.source, cx.names, &g.bindings, geometry, false);
            for (p, v) in eval_args {
                eval.pass(p, v);
            }
            let mut bound = Vec::new();
            self.bind_template(frame, call.node, g, &eval, &mut bound);
            let lanes = self.active(frame, call.node);
            let inner = Frame {
                index: callee,
                f: g,
                eval,
                bound,
                spots,
                lanes,
                flat: frame.flat,
            };
            path.push(callee);
            self.enter(&inner, geometry, path, out);
            path.pop();
        }
    }

    /// `f<32>(...)`: what the explicit arguments make of the template's value parameters.
    fn bind_template(
        &self,
        frame: &Frame<'a, 't>,
        call: Node<'t>,
        g: &'a Function<'t>,
        eval: &Evaluator<'a, 't>,
        bound: &mut Vec<(String, Bound)>,
    ) -> Option<()> {
        let function = call.child_by_field_name("function")?;
        if function.kind() != "template_function" {
            return None;
        }
        let arguments = function.child_by_field_name("arguments")?;
        let model = self
            .cx
            .model
            .functions
            .iter()
            .find(|m| m.name_range == g.name_range)?;
        for (p, arg) in model.template_params.iter().zip(arguments.named_children()) {
            if p.is_type {
                let text = self.cx.text(arg).to_owned();
                let ty = frame
                    .bound
                    .iter()
                    .find(|(n, _)| *n == text)
                    .map_or(Bound::Type(text.clone()), |(_, b)| b.clone());
                bound.push((p.name.clone(), ty));
                continue;
            }
            let value = frame.eval.constant(arg).or_else(|| {
                self.cx.model.eval(
                    self.cx.text(arg),
                    &Scope::at(arg.start_byte()).with(&frame.bound),
                )
            });
            let Some(value) = value else { continue };
            bound.push((p.name.clone(), Bound::Value(value)));
            for b in g.bindings.iter() {
                if b.kind == BindingKind::Template && self.cx.text(b.name) == p.name {
                    eval.pin(b, Some(value));
                }
            }
        }
        Some(())
    }

    /// Identifiers in the function that may lead into LDS.
    fn roots(&mut self, frame: &Frame<'a, 't>) -> Vec<Root<'t>> {
        if let Some(known) = self.names.get(&frame.index) {
            return known.clone();
        }
        let cx = self.cx;
        let f = frame.f;
        let mut out = Vec::new();
        // Pointers and references made in the function count when their value mentions LDS or another of them.
        let mut pointers: HashSet<usize> = f
            .bindings
            .iter()
            .filter(|b| b.kind == BindingKind::Parameter && b.compound)
            .map(|b| b.name.id())
            .collect();
        for node in f.body.descendants() {
            if node.kind() != "identifier" || node.is_in_error() {
                continue;
            }
            let name = cx.text(node);
            match f.bindings.resolve(name, node.start_byte()) {
                Some(b) => {
                    if b.name.id() == node.id() {
                        continue;
                    }
                    if pointers.contains(&b.name.id()) || self.shared_of(name, node, f).is_some() {
                        out.push(Root { node });
                        continue;
                    }
                    let value = match (b.init, &b.writes[..]) {
                        (Some(init), _) => Some(init),
                        (None, [write, ..]) => write.child_by_field_name("right"),
                        _ => None,
                    };
                    if b.compound
                        && let Some(value) = value
                        && value.descendants().any(|n| {
                            n.kind() == "identifier"
                                && (cx.shared_names.contains(cx.text(n))
                                    || f.bindings
                                        .resolve(cx.text(n), n.start_byte())
                                        .is_some_and(|b| pointers.contains(&b.name.id())))
                        })
                    {
                        pointers.insert(b.name.id());
                        out.push(Root { node });
                    }
                }
                None if cx.shared_names.contains(name) => out.push(Root { node }),
                None => {}
            }
        }
        self.names.insert(frame.index, out.clone());
        out
    }

    /// The `__shared__` array that a name means.
    fn shared_of(&self, name: &str, node: Node<'t>, f: &Function<'t>) -> Option<usize> {
        let cx = self.cx;
        if !cx.shared_names.contains(name) {
            return None;
        }
        let shared = cx.model.shared_at(name, node.start_byte())?;
        // A local variable or parameter of the same name hides it.
        if let Some(b) = f.bindings.resolve(name, node.start_byte())
            && b.name.byte_range() != shared.name_range
        {
            return None;
        }
        if shared.name_range == node.byte_range() {
            return None;
        }
        cx.model
            .shared
            .iter()
            .position(|s| s.name_range == shared.name_range)
    }

    fn element(&self, frame: &Frame<'a, 't>, ty: &str, at: usize) -> Option<Element> {
        let scope = Scope::at(at).with(&frame.bound);
        let size = i64::try_from(self.cx.model.size_of(ty, &scope)?).ok()?;
        let align = self
            .cx
            .model
            .align_of(ty, &scope)
            .and_then(|a| i64::try_from(a).ok())
            .unwrap_or(size);
        (1..1 << 20).contains(&size).then(|| Element {
            ty: ty.trim().to_owned(),
            size,
            align: align.max(1),
        })
    }

    /// The place or pointer that a name alone is.
    fn named(&self, frame: &Frame<'a, 't>, node: Node<'t>, depth: u32) -> Option<Spot> {
        let cx = self.cx;
        let name = cx.text(node);
        if let Some(array) = self.shared_of(name, node, frame.f) {
            let shared = cx.model.shared.get(array)?;
            let scope = Scope::at(shared.name_range.start).with(&frame.bound);
            let count = shared.dims.len();
            let mut dims: Vec<Option<i64>> = shared
                .dims
                .iter()
                .enumerate()
                .map(|(i, d)| {
                    let pad = self
                        .pad
                        .filter(|p| p.array == array && i + 1 == count)
                        .map_or(0, |p| p.elements);
                    cx.model
                        .eval(&d.text, &scope)
                        .filter(|d| (0..1 << 24).contains(d))
                        .map(|d| d + pad)
                })
                .collect();
            if shared.dynamic && dims.is_empty() {
                dims = vec![None];
            }
            return Some(Spot {
                array,
                offset: Lanes::constant(0),
                element: self.element(frame, &shared.element, shared.name_range.start),
                dims,
                pointer: false,
            });
        }
        let binding = frame.f.bindings.resolve(name, node.start_byte())?;
        if let Some(spot) = frame.spots.get(&binding.name.id()) {
            let mut spot = spot.clone();
            if !binding.writes.is_empty() {
                self.moved(frame, binding, &mut spot);
            }
            return Some(spot);
        }
        if !binding.compound && binding.type_text.trim() != "auto" {
            return None;
        }
        if binding.kind == BindingKind::Parameter || binding.escapes {
            return None;
        }
        let (value, rest) = match (binding.init, &binding.writes[..]) {
            (Some(init), rest) => (init, rest),
            (None, [first, rest @ ..]) => {
                if first.kind() != "assignment_expression" {
                    return None;
                }
                (first.child_by_field_name("right")?, rest)
            }
            _ => return None,
        };
        let mut spot = self.spot(frame, value, depth + 1)?;
        let reference = binding
            .declaration
            .named_children()
            .any(|c| cx.text(c).trim_start().starts_with('&'));
        if !reference {
            if !spot.pointer && spot.dims.is_empty() {
                // A copy of a value is no place in LDS.
                return None;
            }
            spot = self.decay(spot);
        }
        if !rest.is_empty() {
            self.moved(frame, binding, &mut spot);
        }
        Some(spot)
    }

    /// A pointer that goes on: the moves of all lanes together leave the differences between lanes.
    fn moved(&self, frame: &Frame<'a, 't>, binding: &Binding<'t>, spot: &mut Spot) {
        let size = self.stride(spot);
        for write in &binding.writes {
            if binding.init.is_none() && Some(write.id()) == binding.writes.first().map(|w| w.id())
            {
                continue;
            }
            let step = match write.kind() {
                "update_expression" => Some(Lanes::uniform(1, false)),
                _ => write
                    .child_by_field_name("operator")
                    .filter(|o| matches!(self.cx.text(*o), "+=" | "-="))
                    .and_then(|_| write.child_by_field_name("right"))
                    .and_then(|r| frame.eval.eval(r))
                    .filter(Lanes::is_uniform)
                    .and_then(|v| Lanes::apply(Op::Mul, &v, &Lanes::uniform(1, false))),
            };
            spot.offset = (|| {
                let step = Lanes::apply(Op::Mul, &step?, &Lanes::constant(size?)?)?;
                Lanes::apply(Op::Add, spot.offset.as_ref()?, &step)
            })();
        }
    }

    /// An array where a pointer is wanted.
    fn decay(&self, mut spot: Spot) -> Spot {
        if !spot.pointer && !spot.dims.is_empty() {
            spot.dims.remove(0);
            spot.pointer = true;
        }
        spot
    }

    /// Bytes from one element to the next of what a pointer points to.
    fn stride(&self, spot: &Spot) -> Option<i64> {
        let mut out = spot.element.as_ref()?.size;
        for d in &spot.dims {
            out = out.checked_mul((*d)?)?;
        }
        Some(out)
    }

    /// The place that an expression is, or points to.
    fn spot(&self, frame: &Frame<'a, 't>, node: Node<'t>, depth: u32) -> Option<Spot> {
        if depth > 12 || node.has_error() {
            return None;
        }
        let root = root_of(node, self.cx)?;
        let mut spot = self.named(frame, root, depth + 1)?;
        let mut at = root;
        while at.id() != node.id() {
            let parent = at.parent()?;
            spot = self.step(frame, spot, at, parent)?;
            at = parent;
        }
        Some(spot)
    }

    /// What `parent` makes of the place or pointer `spot`, which the node `at` below it is; `None`: neither.
    fn step(
        &self,
        frame: &Frame<'a, 't>,
        spot: Spot,
        at: Node<'t>,
        parent: Node<'t>,
    ) -> Option<Spot> {
        let cx = self.cx;
        match parent.kind() {
            "parenthesized_expression" => Some(spot),
            "initializer_list" | "argument_list" if parent.named_child_count() == 1 => {
                // `T* p{q}`, `reinterpret_cast<T*>(q)`.
                Some(spot)
            }
            "subscript_expression" if parent.child_by_field_name("argument") == Some(at) => {
                let list = parent.child_by_field_name("indices")?;
                if list.named_child_count() != 1 {
                    return None;
                }
                let index = list.named_child(0)?;
                self.subscript(frame, spot, Some(index))
            }
            "pointer_expression" => {
                if cx.text(parent).starts_with('&') {
                    if spot.pointer {
                        return None;
                    }
                    return Some(Spot {
                        pointer: true,
                        ..spot
                    });
                }
                self.subscript(frame, spot, None)
            }
            "binary_expression" => {
                let operator = cx.text(parent.child_by_field_name("operator")?);
                let left = parent.child_by_field_name("left")?;
                let right = parent.child_by_field_name("right")?;
                let spot = self.decay(spot);
                if !spot.pointer {
                    return None;
                }
                let (other, op) = match operator {
                    "+" => (if left == at { right } else { left }, Op::Add),
                    "-" if left == at => (right, Op::Sub),
                    _ => return None,
                };
                let size = self.stride(&spot);
                let offset = (|| {
                    let step = frame.eval.eval(other)?;
                    let step = Lanes::apply(Op::Mul, &step, &Lanes::constant(size?)?)?;
                    Lanes::apply(op, spot.offset.as_ref()?, &step)
                })();
                Some(Spot { offset, ..spot })
            }
            "cast_expression" => {
                let ty = cx.text(parent.child_by_field_name("type")?);
                self.cast(frame, spot, ty, parent.start_byte())
            }
            "call_expression" => {
                let function = parent.child_by_field_name("function")?;
                if function.kind() != "template_function" {
                    return None;
                }
                let name = cx.text(function.child_by_field_name("name")?);
                if !matches!(name, "reinterpret_cast" | "static_cast" | "const_cast") {
                    return None;
                }
                let ty = cx.text(function.child_by_field_name("arguments")?);
                let ty = ty.strip_prefix('<')?.strip_suffix('>')?;
                self.cast(frame, spot, ty, parent.start_byte())
            }
            "field_expression" if parent.child_by_field_name("argument") == Some(at) => {
                let spot = if cx
                    .text(parent)
                    .get(at.byte_range().len()..)
                    .is_some_and(|t| t.trim_start().starts_with("->"))
                {
                    self.subscript(frame, spot, None)?
                } else {
                    spot
                };
                if spot.pointer || !spot.dims.is_empty() {
                    return None;
                }
                let field = cx.text(parent.child_by_field_name("field")?);
                let part = spot
                    .element
                    .as_ref()
                    .and_then(|e| component(&e.ty, field, e.size));
                let (element, shift) = match part {
                    Some((size, shift)) => (
                        Some(Element {
                            ty: String::new(),
                            size,
                            align: size,
                        }),
                        Lanes::constant(shift),
                    ),
                    None => (None, None),
                };
                let offset = (|| Lanes::apply(Op::Add, spot.offset.as_ref()?, &shift?))();
                Some(Spot {
                    element,
                    offset,
                    ..spot
                })
            }
            _ => None,
        }
    }

    fn subscript(
        &self,
        frame: &Frame<'a, 't>,
        spot: Spot,
        index: Option<Node<'t>>,
    ) -> Option<Spot> {
        let mut spot = spot;
        if spot.pointer {
            spot.pointer = false;
        } else if spot.dims.is_empty() {
            return None;
        } else {
            spot.dims.remove(0);
        }
        if let Some(index) = index {
            let size = self.stride(&spot);
            spot.offset = (|| {
                let i = frame.eval.eval(index)?;
                let step = Lanes::apply(Op::Mul, &i, &Lanes::constant(size?)?)?;
                Lanes::apply(Op::Add, spot.offset.as_ref()?, &step)
            })();
        }
        Some(spot)
    }

    fn cast(&self, frame: &Frame<'a, 't>, spot: Spot, ty: &str, at: usize) -> Option<Spot> {
        let ty = ty.trim();
        let reference = ty.ends_with('&');
        let inner = ty
            .strip_suffix('*')
            .or_else(|| ty.strip_suffix('&'))?
            .trim();
        if inner.ends_with('*') {
            return None;
        }
        let spot = if reference {
            if spot.pointer || !spot.dims.is_empty() {
                return None;
            }
            spot
        } else {
            let spot = self.decay(spot);
            if !spot.pointer {
                return None;
            }
            spot
        };
        let words: Vec<&str> = inner
            .split_whitespace()
            .filter(|w| !matches!(*w, "const" | "volatile" | "__restrict__"))
            .collect();
        let plain = words.join(" ");
        Some(Spot {
            element: self.element(frame, &plain, at),
            dims: Vec::new(),
            ..spot
        })
    }

    /// From a name outwards to what is read or written there.
    fn follow(&self, frame: &Frame<'a, 't>, root: Node<'t>, out: &mut Vec<Seen>) {
        let cx = self.cx;
        let Some(mut spot) = self.named(frame, root, 0) else {
            return;
        };
        if self.pad.is_some_and(|p| p.array != spot.array) {
            return;
        }
        let mut at = root;
        loop {
            let Some(parent) = at.parent() else { return };
            let value = !spot.pointer && spot.dims.is_empty();
            // A value ends the way, but for a part of it, its address, and brackets around it.
            let on = match parent.kind() {
                "parenthesized_expression" | "field_expression" => true,
                "pointer_expression" => !value || cx.text(parent).starts_with('&'),
                "argument_list" => {
                    !value
                        && parent.parent().is_some_and(|c| {
                            c.child_by_field_name("function")
                                .is_some_and(|f| f.kind() == "template_function")
                        })
                }
                "call_expression" | "cast_expression" => {
                    !value || parent.kind() == "cast_expression" && cx.text(parent).contains("&)")
                }
                "subscript_expression" | "binary_expression" => !value,
                _ => false,
            };
            if !on {
                break;
            }
            let Some(next) = self.step(frame, spot.clone(), at, parent) else {
                break;
            };
            spot = next;
            at = parent;
        }
        let Some(parent) = at.parent() else { return };
        let (mut reads, mut writes) = (true, false);
        if spot.pointer || !spot.dims.is_empty() {
            // A pointer is not an access, unless an atomic operation takes it.
            let call = parent.parent().filter(|_| parent.kind() == "argument_list");
            let atomic = call
                .and_then(|c| c.child_by_field_name("function"))
                .is_some_and(|f| cx.text(f).starts_with("atomic"));
            if !atomic || parent.named_child(0) != Some(at) {
                return;
            }
            let Some(place) = self.subscript(frame, spot, None) else {
                return;
            };
            spot = place;
            (reads, writes) = (true, true);
            if spot.pointer || !spot.dims.is_empty() {
                return;
            }
            // The place is what is reported, not its address.
            if at.kind() == "pointer_expression"
                && let Some(place) = at.child_by_field_name("argument")
            {
                at = place;
            }
        } else {
            match parent.kind() {
                "assignment_expression" if parent.child_by_field_name("left") == Some(at) => {
                    writes = true;
                    reads = parent
                        .child_by_field_name("operator")
                        .is_some_and(|o| cx.text(o) != "=");
                }
                "update_expression" => writes = true,
                "sizeof_expression" | "decltype" => return,
                // The value of an expression statement is not read; a reference is not an access.
                "expression_statement" => return,
                "init_declarator"
                    if parent
                        .child_by_field_name("declarator")
                        .is_some_and(|d| d.kind() == "reference_declarator") =>
                {
                    return;
                }
                "field_expression" | "subscript_expression" => {
                    // A member that is not known here.
                    spot.element = None;
                }
                _ => {}
            }
        }
        let atomic = reads
            && writes
            && !matches!(parent.kind(), "assignment_expression" | "update_expression");
        let (result, idle) = self.judge(frame, &spot, at, reads, writes, atomic);
        out.push(Seen {
            key: (at.start_byte(), at.end_byte()),
            array: Some(spot.array),
            name: cx
                .model
                .shared
                .get(spot.array)
                .map(|s| s.name.clone())
                .unwrap_or_default(),
            bytes: spot
                .element
                .as_ref()
                .and_then(|e| u32::try_from(e.size).ok()),
            reads,
            writes,
            result,
            idle,
        });
    }

    /// The degree at a place, and whether no lane gets there.
    fn judge(
        &self,
        frame: &Frame<'a, 't>,
        spot: &Spot,
        node: Node<'t>,
        reads: bool,
        writes: bool,
        atomic: bool,
    ) -> (Result<Degree, Unknown>, bool) {
        let Some(element) = &spot.element else {
            return (Err(Unknown::Element), false);
        };
        let sides: &[LdsAccess] = match (reads, writes) {
            _ if atomic => &[LdsAccess::Write],
            (true, true) => &[LdsAccess::Read, LdsAccess::Write],
            (false, true) => &[LdsAccess::Write],
            _ => &[LdsAccess::Read],
        };
        let once = |spot: &Spot| self.cost(frame, spot.offset.as_ref(), element, node, sides);
        let why = match once(spot) {
            Ok(None) => return (Err(Unknown::Lanes), true),
            Ok(Some((cost, access))) => {
                return (Ok(degree(cost, access, false, frame.flat)), false);
            }
            Err(Unknown::Element) => return (Err(Unknown::Element), false),
            Err(found) => found,
        };
        // The answer depends on loop variables: go through their iterations.
        let loops = self.loops(frame, node);
        if loops.is_empty() || loops.len() > 3 {
            return (Err(why), false);
        }
        let mut worst: Option<(LdsCost, LdsAccess)> = None;
        let mut left = COMBINED;
        let result = self.iterate(frame, &loops, node, &mut left, &mut |this| {
            let Some(spot) = this.again(frame, node) else {
                return Err(Unknown::Index);
            };
            if let Some((cost, access)) =
                this.cost(frame, spot.offset.as_ref(), element, node, sides)?
                && worst.is_none_or(|(w, _)| (cost.degree, cost.cycles) > (w.degree, w.cycles))
            {
                worst = Some((cost, access));
            }
            Ok(())
        });
        for b in &loops {
            frame.eval.pin(b, None);
        }
        match (result, worst) {
            (Err(_), _) => (Err(why), false),
            (Ok(()), Some((cost, access))) => (Ok(degree(cost, access, true, frame.flat)), false),
            (Ok(()), None) => (Err(Unknown::Lanes), true),
        }
    }

    fn again(&self, frame: &Frame<'a, 't>, node: Node<'t>) -> Option<Spot> {
        let spot = self.spot(frame, node, 0)?;
        if spot.pointer {
            return self.subscript(frame, spot, None);
        }
        Some(spot)
    }

    fn iterate(
        &self,
        frame: &Frame<'a, 't>,
        loops: &[&'a Binding<'t>],
        node: Node<'t>,
        left: &mut usize,
        body: &mut dyn FnMut(&Self) -> Result<(), Unknown>,
    ) -> Result<(), Unknown> {
        let Some((first, rest)) = loops.split_first() else {
            if *left == 0 {
                return Ok(());
            }
            *left -= 1;
            return body(self);
        };
        let values = frame.eval.iterations_at(first, node, ITERATIONS);
        if values.is_empty() {
            // It may not be counted at all; the others may be enough.
            return self.iterate(frame, rest, node, left, body);
        }
        for v in values {
            frame.eval.pin(first, Some(v));
            let done = self.iterate(frame, rest, node, left, body);
            frame.eval.pin(first, None);
            done?;
        }
        Ok(())
    }

    /// Variables that a place and the conditions around it depend on and that loops around it count.
    fn loops(&self, frame: &Frame<'a, 't>, node: Node<'t>) -> Vec<&'a Binding<'t>> {
        let cx = self.cx;
        let f = frame.f;
        let mut around = Vec::new();
        let mut n = node;
        while n.id() != f.body.id() {
            let Some(parent) = n.parent() else { break };
            if matches!(
                parent.kind(),
                "for_statement" | "while_statement" | "do_statement"
            ) {
                around.push(parent);
            }
            n = parent;
        }
        if around.is_empty() {
            return Vec::new();
        }
        let mut queue: Vec<Node<'t>> = vec![node];
        let mut n = node;
        while n.id() != f.body.id() {
            let Some(parent) = n.parent() else { break };
            if parent.kind() == "if_statement"
                && let Some(c) = parent.child_by_field_name("condition")
            {
                queue.push(c);
            }
            n = parent;
        }
        let mut seen: HashSet<usize> = HashSet::new();
        let mut out: Vec<&'a Binding<'t>> = Vec::new();
        while let Some(expression) = queue.pop() {
            for n in expression
                .descendants()
                .filter(|n| n.kind() == "identifier")
            {
                let Some(b) = f.bindings.resolve(cx.text(n), n.start_byte()) else {
                    continue;
                };
                if !seen.insert(b.name.id()) || seen.len() > 64 {
                    continue;
                }
                let counted = b.kind == BindingKind::Loop
                    || b.writes
                        .iter()
                        .any(|w| around.iter().any(|l| within(*l, *w)));
                if counted && !b.compound && b.kind != BindingKind::Parameter {
                    // A plain definition in the loop is looked through.
                    if b.kind == BindingKind::Loop || b.init.is_some() || b.writes.len() > 1 {
                        out.push(b);
                    }
                }
                if b.kind == BindingKind::Local {
                    queue.extend(b.init);
                    queue.extend(
                        b.writes
                            .iter()
                            .filter_map(|w| w.child_by_field_name("right")),
                    );
                }
            }
        }
        // Outer loops first: the inner may count from them.
        out.sort_by_key(|b| b.name.start_byte());
        out
    }

    /// What the lanes that get to `node` cost each other; nothing when none does.
    fn cost(
        &self,
        frame: &Frame<'a, 't>,
        offset: Option<&Lanes>,
        element: &Element,
        node: Node<'t>,
        sides: &[LdsAccess],
    ) -> Result<Option<(LdsCost, LdsAccess)>, Unknown> {
        let offset = offset.ok_or(Unknown::Index)?;
        let active = self.active(frame, node);
        // Wide and little aligned values move in pieces.
        let piece = match element.size {
            1 | 2 | 4 | 8 | 12 | 16 if element.align >= element.size => element.size,
            12 if element.align >= 16 => 12,
            s if s % element.align == 0 && matches!(element.align, 1 | 2 | 4 | 8 | 16) => {
                element.align
            }
            _ => return Err(Unknown::Element),
        };
        if element.size > 256 {
            return Err(Unknown::Element);
        }
        let width = u32::try_from(piece).map_err(|_| Unknown::Element)?;
        let shifts: Vec<i64> = match offset.shared() {
            // The unknown part may end inside a word.
            Uniform::Unknown { multiple, .. } if multiple % 4 != 0 => {
                let unit = if multiple % 2 == 0 { 2 } else { 1 };
                (0..4).step_by(unit).collect()
            }
            _ => vec![0],
        };
        let mut worst: Option<(LdsCost, LdsAccess)> = None;
        let mut least = u32::MAX;
        for shift in shifts {
            let mut here: Option<LdsCost> = None;
            for part in 0..element.size / piece {
                let mut addresses = [None; LANES];
                for (lane, address) in addresses.iter_mut().enumerate() {
                    if active.lanes.get(lane) == Some(&true) {
                        let byte = offset
                            .lanes()
                            .get(lane)
                            .and_then(|o| o.checked_add(shift + part * piece))
                            .ok_or(Unknown::Index)?;
                        *address = u32::try_from(byte.rem_euclid(1 << 31)).ok();
                    }
                }
                for side in sides {
                    let cost = self.cx.target.lds.cost(*side, width, &addresses);
                    if cost.degree == 0 {
                        return Ok(None);
                    }
                    if here.is_none_or(|h| (cost.degree, cost.cycles) > (h.degree, h.cycles)) {
                        here = Some(cost);
                    }
                    if worst.is_none_or(|(w, _)| (cost.degree, cost.cycles) > (w.degree, w.cycles))
                    {
                        worst = Some((cost, *side));
                    }
                }
            }
            least = least.min(here.map_or(u32::MAX, |h| h.degree));
        }
        let Some((cost, side)) = worst else {
            return Err(Unknown::Element);
        };
        if least != cost.degree {
            return Err(Unknown::Index);
        }
        // Fewer lanes never cost more: without a conflict it does not matter which they are.
        if cost.degree > 1 && !active.exact {
            return Err(Unknown::Lanes);
        }
        Ok(Some((cost, side)))
    }

    /// The lanes that reach a node, by the conditions around it and the ways out before it.
    fn active(&self, frame: &Frame<'a, 't>, node: Node<'t>) -> Active {
        let mut out = frame.lanes.clone();
        let mut n = node;
        while n.id() != frame.f.body.id() {
            let Some(parent) = n.parent() else { break };
            match parent.kind() {
                "if_statement" => {
                    if let Some(c) = parent.child_by_field_name("condition")
                        && !within(c, node)
                    {
                        let inverted = parent
                            .child_by_field_name("consequence")
                            .is_none_or(|b| !within(b, node));
                        let c = c.child_by_field_name("value").or_else(|| c.named_child(0));
                        if let Some(c) = c {
                            self.restrict(frame, c, inverted, &mut out, 0);
                        }
                    }
                }
                "conditional_expression" => {
                    if let Some(c) = parent.child_by_field_name("condition")
                        && !within(c, node)
                    {
                        let inverted = parent
                            .child_by_field_name("consequence")
                            .is_none_or(|b| !within(b, node));
                        self.restrict(frame, c, inverted, &mut out, 0);
                    }
                }
                "binary_expression" => {
                    // `tid < 32 && s[tid]`
                    let operator = parent
                        .child_by_field_name("operator")
                        .map_or("", |o| self.cx.text(o));
                    if let (Some(left), "&&" | "||") =
                        (parent.child_by_field_name("left"), operator)
                        && !within(left, node)
                    {
                        self.restrict(frame, left, operator == "||", &mut out, 0);
                    }
                }
                "for_statement" | "while_statement" => {
                    if let Some(c) = parent.child_by_field_name("condition")
                        && !within(c, node)
                        && parent
                            .child_by_field_name("body")
                            .is_some_and(|b| within(b, node))
                    {
                        let c = c.child_by_field_name("value").unwrap_or(c);
                        self.restrict(frame, c, false, &mut out, 0);
                    }
                }
                "switch_statement" => out.exact = false,
                "compound_statement" => {
                    let mut before = n.prev_named_sibling();
                    let mut steps = 0;
                    while let Some(s) = before {
                        if s.kind() == "if_statement"
                            && s.child_by_field_name("alternative").is_none()
                            && s.child_by_field_name("consequence").is_some_and(leaves)
                            && let Some(c) = s.child_by_field_name("condition")
                        {
                            let c = c.child_by_field_name("value").or_else(|| c.named_child(0));
                            if let Some(c) = c {
                                self.restrict(frame, c, true, &mut out, 0);
                            }
                        }
                        steps += 1;
                        if steps > 200 {
                            break;
                        }
                        before = s.prev_named_sibling();
                    }
                }
                _ => {}
            }
            n = parent;
        }
        out
    }

    fn restrict(
        &self,
        frame: &Frame<'a, 't>,
        condition: Node<'t>,
        inverted: bool,
        out: &mut Active,
        depth: usize,
    ) {
        if depth > 32 {
            out.exact = false;
            return;
        }
        let condition = unparenthesized(condition);
        let value = frame.eval.eval(condition);
        if let Some(values) = value.as_ref().and_then(Lanes::values) {
            for (o, v) in out.lanes.iter_mut().zip(values) {
                *o &= (*v != 0) != inverted;
            }
            return;
        }
        if value.is_some_and(|v| v.is_uniform()) {
            return;
        }
        let parts = (|| {
            let operator = condition.child_by_field_name("operator")?;
            Some((
                self.cx.text(operator),
                condition.child_by_field_name("left")?,
                condition.child_by_field_name("right")?,
            ))
        })();
        let Some((operator, left, right)) = parts else {
            out.exact = false;
            return;
        };
        match operator {
            "&&" | "||" if (operator == "&&") != inverted => {
                self.restrict(frame, left, inverted, out, depth + 1);
                self.restrict(frame, right, inverted, out, depth + 1);
            }
            // Either side may be the reason.
            "&&" | "||" => {}
            // A bound of the data: all lanes of most wavefronts pass it. One that moves with a loop is none.
            "<" | "<=" | ">" | ">=" => {
                let uniform = |n| frame.eval.eval(n).is_some_and(|v| v.is_uniform());
                let counted = !self.loops(frame, condition).is_empty();
                out.exact &= !(counted && (uniform(left) || uniform(right)))
                    || frame.eval.eval(left).is_none()
                    || frame.eval.eval(right).is_none();
            }
            "!=" if !inverted => {}
            "==" if inverted => {}
            // One lane, or those that the data choose.
            _ => out.exact = false,
        }
    }
}

impl Seen {
    /// Take in another passage of the same place.
    fn worse(&mut self, other: Seen) {
        self.reads |= other.reads;
        self.writes |= other.writes;
        if other.idle {
            return;
        }
        let take = self.idle
            || match (&self.result, &other.result) {
                (Ok(a), Ok(b)) => (b.ways, b.cycles) > (a.ways, a.cycles),
                (Ok(_), Err(_)) => true,
                _ => false,
            };
        self.idle = false;
        if take {
            self.result = other.result;
        }
    }
}

fn degree(cost: LdsCost, access: LdsAccess, some_iterations: bool, supposed_flat: bool) -> Degree {
    Degree {
        ways: cost.degree,
        cycles: cost.cycles,
        ideal_cycles: cost.ideal_cycles,
        access,
        some_iterations,
        supposed_flat,
    }
}

/// The wavefronts of a workgroup that can differ in what they do.
fn waves(shape: [u32; 3]) -> Vec<Geometry> {
    let threads: u64 = shape.iter().map(|d| u64::from(*d)).product();
    let count = u32::try_from(threads.div_ceil(LANES as u64))
        .unwrap_or(1)
        .clamp(1, 16);
    let [x, y, _] = shape;
    // Rows of a power of two lie the same in every wavefront, up to what all lanes share.
    let regular = x.is_power_of_two() && (x >= LANES as u32 || y.is_power_of_two());
    (0..count)
        .filter(|w| !regular || *w < 2 || *w + 1 == count)
        .map(|wave| Geometry::Block { shape, wave })
        .collect()
}

/// Parameters of a function, in order.
fn parameters<'a, 't>(f: &'a Function<'t>) -> Vec<&'a Binding<'t>> {
    f.bindings
        .iter()
        .filter(|b| b.kind == BindingKind::Parameter)
        .collect()
}

/// The name at the bottom of an expression that is a place or pointer.
fn root_of<'t>(node: Node<'t>, cx: &Context<'t>) -> Option<Node<'t>> {
    let mut node = node;
    for _ in 0..64 {
        node = match node.kind() {
            "identifier" => return Some(node),
            "parenthesized_expression" => node.named_child(0)?,
            "initializer_list" | "argument_list" if node.named_child_count() == 1 => {
                node.named_child(0)?
            }
            "subscript_expression" | "pointer_expression" | "field_expression" => {
                node.child_by_field_name("argument")?
            }
            "cast_expression" => node.child_by_field_name("value")?,
            "call_expression" => node.child_by_field_name("arguments")?,
            "binary_expression" => {
                let (a, b) = (
                    node.child_by_field_name("left")?,
                    node.child_by_field_name("right")?,
                );
                // The side with the name of LDS or of a pointer; the left one in doubt.
                let named = |n: Node<'t>| {
                    n.descendants()
                        .any(|m| m.kind() == "identifier" && cx.shared_names.contains(cx.text(m)))
                };
                if !named(a) && named(b) { b } else { a }
            }
            _ => return None,
        };
    }
    None
}

/// Size and offset of a component of a HIP vector type.
fn component(ty: &str, field: &str, size: i64) -> Option<(i64, i64)> {
    let name = ty.rsplit([' ', ':']).next()?;
    let count = i64::from(name.bytes().last()?.checked_sub(b'0')?);
    let stem = name.get(..name.len().checked_sub(1)?)?;
    let known = matches!(
        stem,
        "char"
            | "uchar"
            | "short"
            | "ushort"
            | "int"
            | "uint"
            | "float"
            | "long"
            | "ulong"
            | "longlong"
            | "ulonglong"
            | "double"
    );
    if !known || !(1..=4).contains(&count) || size % count != 0 {
        return None;
    }
    let at = match field {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        "w" => 3,
        _ => return None,
    };
    (at < count).then_some((size / count, size / count * at))
}

/// Whether a statement ends in a way out of the function or of this round of the loop.
fn leaves(node: Node<'_>) -> bool {
    let last = match node.kind() {
        "compound_statement" => node
            .named_children()
            .filter(|n| n.kind() != "comment")
            .last(),
        _ => Some(node),
    };
    last.is_some_and(|n| {
        matches!(
            n.kind(),
            "return_statement" | "continue_statement" | "break_statement"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::document;

    /// Each access as `text: ways` or `text: why not`, `up to` before the ways when they depend on a loop.
    fn judged(source: &str) -> Vec<String> {
        lds_accesses(&document(source, "gfx906"))
            .into_iter()
            .map(|a| {
                let text = &source[a.range];
                match a.degree {
                    Ok(d) if d.some_iterations => format!("{text}: up to {}", d.ways),
                    Ok(d) => format!("{text}: {}", d.ways),
                    Err(why) => format!("{text}: {why:?}"),
                }
            })
            .collect()
    }

    #[test]
    fn tree_reductions() {
        let found = judged(
            "
__global__ void k(float* x, int n) {
  __shared__ float s[256];
  int tid = threadIdx.x;
  s[tid] = x[tid];
  for (int i = blockDim.x / 2; i > 0; i >>= 1) {
    if (tid < i) s[tid] += s[tid + i];
    __syncthreads();
  }
  for (unsigned i = 1; i < blockDim.x; i *= 2) {
    int at = 2 * i * tid;
    if (at < blockDim.x) x[0] = s[at + i - 1];
    __syncthreads();
  }
  int step = 128;
  while (step != 0) {
    if (tid < step) x[1] = s[tid * 2 * step];
    step /= 2;
  }
  if (tid == 0) x[0] = s[0];
}
void go(float* x) { k<<<1, 256>>>(x, 3); }
",
        );
        assert_eq!(
            found,
            [
                "s[tid]: 1",
                "s[tid]: 1",
                "s[tid + i]: 1",
                "s[at + i - 1]: up to 8",
                "s[tid * 2 * step]: up to 32",
                "s[0]: 1",
            ]
        );
    }

    #[test]
    fn pointers_casts_and_carve_outs() {
        let found = judged(
            "
__device__ void put(float* row, int at, float v) { row[at * 2] = v; }
__global__ void k(float* x, int n) {
  extern __shared__ char raw[];
  float* a = (float*)raw;
  float4* v = reinterpret_cast<float4*>(a + 4 * n);
  float (&one)[64] = *(float (*)[64])raw;
  int tid = threadIdx.x;
  a[tid * 4] = x[tid];
  v[tid] = make_float4(0, 0, 0, 0);
  x[1] = v[tid].x;
  put(a + 64, tid, 1.0f);
  a += 64;
  *(a + tid) = 2;
  atomicAdd(&a[tid * 32], 1.0f);
  x[2] = a[n];
}
void go(float* x) { k<<<1, 64, 4096>>>(x, 3); }
",
        );
        for want in [
            "row[at * 2]: 2",
            "a[tid * 4]: 4",
            "v[tid]: 1",
            "v[tid].x: 4",
            "*(a + tid): 1",
            "a[tid * 32]: 32",
            "a[n]: 1",
        ] {
            assert!(
                found.iter().any(|f| f == want),
                "{want} is not in {found:?}"
            );
        }
    }

    #[test]
    fn a_filled_tile_tells_the_shape_of_the_workgroup() {
        let found = judged(
            "
__global__ void k(const float* x, float* y) {
  __shared__ float s[32][32];
  s[threadIdx.y][threadIdx.x] = x[threadIdx.x];
  y[0] = s[threadIdx.x][threadIdx.y];
}
__global__ void open(const float* x, float* y) {
  __shared__ float s[4096];
  y[0] = s[threadIdx.y * 64 + threadIdx.x * 32];
  y[1] = s[blockDim.x * threadIdx.y + threadIdx.x];
}
",
        );
        assert_eq!(
            found,
            [
                "s[threadIdx.y][threadIdx.x]: 1",
                "s[threadIdx.x][threadIdx.y]: 32",
                "s[threadIdx.y * 64 + threadIdx.x * 32]: Shape",
                "s[blockDim.x * threadIdx.y + threadIdx.x]: 1",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let found = judged(
            "
__global__ void k(const int* x, int* y, int n) {
  __shared__ int s[1024];
  int tid = threadIdx.x, at = tid;
  if (x[tid] > n) at += 7;
  y[0] = s[x[tid]];
  y[1] = s[at];
  if (tid == x[1]) y[2] = s[tid * 32];
  if (tid == x[1]) y[3] = s[tid];
}
void go(int* x) { k<<<1, 64>>>(x, x, 3); }
",
        );
        assert_eq!(
            found,
            [
                "s[x[tid]]: Index",
                "s[at]: Index",
                "s[tid * 32]: Lanes",
                "s[tid]: 1"
            ]
        );
    }
}
