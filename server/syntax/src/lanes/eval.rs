//! The evaluator: expression nodes to [`Lanes`].

use std::cell::RefCell;
use std::collections::HashMap;

use crate::tree::Node;

use super::bindings::{Binding, BindingKind, Bindings};
use super::value::{LANES, Lanes, Op, Uniform};

/// Names from outside the function: macros, `constexpr`, enums, template parameters with a known value.
pub trait Names {
    /// The integer that `name` stands for at byte `at`, when it has just one.
    fn constant(&self, name: &str, at: usize) -> Option<i64>;

    /// Size in bytes of a type as written, for `sizeof`.
    fn size_of(&self, type_text: &str) -> Option<i64> {
        let _ = type_text;
        None
    }
}

/// How the threads of the workgroup lie in the wavefront.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Geometry {
    /// The workgroup's shape is known; the wavefront is the `wave`-th of it.
    Block {
        /// x, y, z.
        shape: [u32; 3],
        /// Counted from 0.
        wave: u32,
    },
    /// The shape is not known; taken is that x is a multiple of 64, so that a wavefront has one y and one z.
    Wide,
    /// The first wavefront of a one-dimensional workgroup of unknown size: `threadIdx.x` is the lane.
    FirstWave,
}

impl Geometry {
    /// Whether the lane holds a thread of the workgroup.
    pub fn is_active(self, lane: usize) -> bool {
        match self {
            Geometry::Block { shape, wave } => {
                let threads = shape.iter().map(|d| u64::from(*d)).product::<u64>();
                u64::from(wave) * LANES as u64 + (lane as u64) < threads
            }
            Geometry::Wide | Geometry::FirstWave => lane < LANES,
        }
    }

    fn thread_idx(self, axis: usize) -> Option<Lanes> {
        match self {
            Geometry::Block { shape, wave } => {
                let [x, y, _] = shape.map(|d| i64::from(d.max(1)));
                let mut out = [0; LANES];
                for (lane, o) in out.iter_mut().enumerate() {
                    let linear = i64::from(wave) * LANES as i64 + lane as i64;
                    *o = match axis {
                        0 => linear % x,
                        1 => linear / x % y,
                        _ => linear / (x * y),
                    };
                }
                Lanes::known(out)
            }
            Geometry::Wide if axis == 0 => {
                let lanes = Lanes::known(std::array::from_fn(|l| l as i64))?;
                Lanes::apply(Op::Add, &lanes, &Lanes::uniform(LANES as i64, true))
            }
            Geometry::Wide => Some(Lanes::uniform(1, true)),
            Geometry::FirstWave if axis == 0 => Lanes::known(std::array::from_fn(|l| l as i64)),
            Geometry::FirstWave => Lanes::constant(0),
        }
    }

    fn block_dim(self, axis: usize) -> Option<Lanes> {
        match self {
            Geometry::Block { shape, .. } => Lanes::constant(i64::from(*shape.get(axis)?)),
            Geometry::Wide | Geometry::FirstWave if axis == 0 => {
                Some(Lanes::uniform(LANES as i64, true))
            }
            Geometry::Wide => Some(Lanes::uniform(1, true)),
            Geometry::FirstWave => Lanes::constant(1),
        }
    }
}

/// What C makes of an integer: its sign and width decide how it wraps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Type {
    unsigned: bool,
    wide: bool,
}

const INT: Type = Type {
    unsigned: false,
    wide: false,
};
const UINT: Type = Type {
    unsigned: true,
    wide: false,
};

impl Type {
    fn join(self, other: Type) -> Type {
        if self.wide == other.wide {
            Type {
                unsigned: self.unsigned || other.unsigned,
                wide: self.wide,
            }
        } else if self.wide {
            self
        } else {
            other
        }
    }

    /// The integer type written as `text`; `None` for everything else.
    fn parse(text: &str) -> Option<Type> {
        let mut unsigned = false;
        let mut wide = false;
        let mut integer = false;
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            match word {
                "const" | "constexpr" | "static" | "register" | "volatile" | "std" | "" => {}
                "unsigned" | "uint" | "uint32_t" => {
                    unsigned = true;
                    integer = true;
                }
                "int" | "signed" | "int32_t" | "auto" => integer = true,
                "long" | "int64_t" | "ptrdiff_t" | "ssize_t" => {
                    wide = true;
                    integer = true;
                }
                "size_t" | "uint64_t" | "ulong" => {
                    wide = true;
                    unsigned = true;
                    integer = true;
                }
                _ => return None,
            }
        }
        integer.then_some(Type { unsigned, wide })
    }

    /// Bring a value into the type. Known values wrap as C says; an unknown part is left (it cannot overflow in a
    /// correct program), except that an unsigned value that may be negative keeps that doubt.
    fn convert(self, value: Lanes) -> Option<Lanes> {
        let Some(values) = value.values() else {
            let pure = value.lanes().iter().all(|v| *v == 0);
            if self.unsigned
                && pure
                && !value.is_nonnegative()
                && let Uniform::Unknown { multiple, .. } = value.shared()
            {
                // The wrap adds 2^32 or 2^64: only powers of two survive as divisors.
                return Some(Lanes::uniform(1 << multiple.trailing_zeros().min(32), true));
            }
            return Some(value);
        };
        let fits = |v: i64| match self {
            Type {
                unsigned: false,
                wide: false,
            } => i32::try_from(v).is_ok(),
            Type {
                unsigned: true,
                wide: false,
            } => u32::try_from(v).is_ok(),
            Type {
                unsigned: true,
                wide: true,
            } => v >= 0,
            Type {
                unsigned: false,
                wide: true,
            } => true,
        };
        if values.iter().all(|v| fits(*v)) {
            return Some(value);
        }
        if self == UINT {
            let mut out = *values;
            for v in &mut out {
                *v = v.rem_euclid(1 << 32);
            }
            return Lanes::known(out);
        }
        None
    }
}

type Typed = (Lanes, Type);

/// Evaluates expressions of one function.
pub struct Evaluator<'a, 't> {
    source: &'a str,
    names: &'a dyn Names,
    bindings: &'a Bindings<'t>,
    geometry: Geometry,
    /// Parameters are the same for all threads: true of a kernel, not of a device function.
    uniform_parameters: bool,
    /// Loop variables fixed to one iteration and template parameters to one value, by the id of the declaring
    /// name node.
    pinned: RefCell<HashMap<usize, i64>>,
    /// What parameters are at the call, by the id of the name node.
    arguments: RefCell<HashMap<usize, Lanes>>,
    /// Values of bindings already worked out, by the id of the name node and of the definition that is seen.
    memo: RefCell<HashMap<(usize, usize), Option<Typed>>>,
}

/// What a use of a variable sees.
struct Reaching<'n, 't> {
    /// The right side or initial value that is there for sure; `None`: the parameter as it was handed over.
    start: Option<Node<'t>>,
    /// The id of the definition, for the memo.
    id: usize,
    /// Writes that may have come in between.
    between: Vec<Node<'t>>,
    /// The use.
    at: Node<'n>,
}

/// Nesting at which an expression is given up.
const DEPTH: u32 = 64;

impl<'a, 't> Evaluator<'a, 't> {
    /// An evaluator for the function that `bindings` was made of.
    pub fn new(
        source: &'a str,
        names: &'a dyn Names,
        bindings: &'a Bindings<'t>,
        geometry: Geometry,
        uniform_parameters: bool,
    ) -> Self {
        Evaluator {
            source,
            names,
            bindings,
            geometry,
            uniform_parameters,
            pinned: RefCell::default(),
            arguments: RefCell::default(),
            memo: RefCell::default(),
        }
    }

    /// The geometry that expressions are evaluated for.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Take the loop variable or template parameter `binding` as `value` from now on (`None`: as an unknown again).
    pub fn pin(&self, binding: &Binding<'t>, value: Option<i64>) {
        let mut pinned = self.pinned.borrow_mut();
        match value {
            Some(v) => pinned.insert(binding.name.id(), v),
            None => pinned.remove(&binding.name.id()),
        };
        self.memo.borrow_mut().clear();
    }

    /// Take the parameter `binding` as `value` when the function is entered.
    pub fn pass(&self, binding: &Binding<'t>, value: Lanes) {
        self.arguments.borrow_mut().insert(binding.name.id(), value);
        self.memo.borrow_mut().clear();
    }

    /// The expression in all lanes, or `None` when its lanes differ in an unknown way.
    pub fn eval(&self, node: Node<'_>) -> Option<Lanes> {
        self.expression(node, 0).map(|(v, _)| v)
    }

    /// The expression as a known number that all lanes share.
    pub fn constant(&self, node: Node<'_>) -> Option<i64> {
        self.eval(node)?.as_constant()
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        self.source.get(node.byte_range()).unwrap_or("")
    }

    fn expression(&self, node: Node<'_>, depth: u32) -> Option<Typed> {
        if depth > DEPTH || node.has_error() {
            return None;
        }
        let depth = depth + 1;
        match node.kind() {
            "number_literal" => number(self.text(node)),
            "char_literal" => None,
            "true" => Some((Lanes::constant(1)?, INT)),
            "false" => Some((Lanes::constant(0)?, INT)),
            "parenthesized_expression" => self.expression(node.named_child(0)?, depth),
            "identifier" => self.identifier(node, depth),
            "qualified_identifier" => Some((
                Lanes::constant(self.names.constant(self.text(node), node.start_byte())?)?,
                INT,
            )),
            "field_expression" => self.field(node),
            "binary_expression" => {
                let op = Op::from_token(self.text(node.child_by_field_name("operator")?))?;
                let a = self.expression(node.child_by_field_name("left")?, depth);
                let b = self.expression(node.child_by_field_name("right")?, depth);
                binary(op, a, b)
            }
            "unary_expression" => {
                let (v, ty) = self.expression(node.child_by_field_name("argument")?, depth)?;
                match self.text(node.child_by_field_name("operator")?) {
                    "-" => Some((ty.convert(v.negate()?)?, ty)),
                    "+" => Some((v, ty)),
                    "~" => Some((ty.convert(v.complement()?)?, ty)),
                    "!" => Some((v.not()?, INT)),
                    _ => None,
                }
            }
            "conditional_expression" => {
                let c = self.expression(node.child_by_field_name("condition")?, depth);
                let a = self.expression(node.child_by_field_name("consequence")?, depth);
                let b = self.expression(node.child_by_field_name("alternative")?, depth);
                let ty = match (&a, &b) {
                    (Some((_, x)), Some((_, y))) => x.join(*y),
                    (Some((_, x)), None) | (None, Some((_, x))) => *x,
                    (None, None) => return None,
                };
                let value = Lanes::select(
                    c.as_ref().map(|(v, _)| v),
                    a.as_ref().map(|(v, _)| v),
                    b.as_ref().map(|(v, _)| v),
                )?;
                Some((value, ty))
            }
            "cast_expression" => {
                let ty = Type::parse(self.text(node.child_by_field_name("type")?))?;
                let (v, _) = self.expression(node.child_by_field_name("value")?, depth)?;
                Some((ty.convert(v)?, ty))
            }
            "sizeof_expression" => {
                let named = node
                    .child_by_field_name("type")
                    .or_else(|| node.child_by_field_name("value"))?;
                let text = self.text(named).trim_matches(['(', ')', ' ']);
                Some((
                    Lanes::constant(self.names.size_of(text)?)?,
                    Type {
                        unsigned: true,
                        wide: true,
                    },
                ))
            }
            "call_expression" => self.call(node, depth),
            "argument_list" | "initializer_list" if node.named_child_count() == 1 => {
                self.expression(node.named_child(0)?, depth)
            }
            _ => None,
        }
    }

    fn field(&self, node: Node<'_>) -> Option<Typed> {
        let object = self.text(node.child_by_field_name("argument")?);
        let axis = match self.text(node.child_by_field_name("field")?) {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            _ => return None,
        };
        let value = match object {
            "threadIdx" => self.geometry.thread_idx(axis)?,
            "blockDim" => self.geometry.block_dim(axis)?,
            "blockIdx" | "gridDim" => Lanes::uniform(1, true),
            _ => return None,
        };
        Some((value, UINT))
    }

    fn call(&self, node: Node<'_>, depth: u32) -> Option<Typed> {
        let function = node.child_by_field_name("function")?;
        let arguments = node.child_by_field_name("arguments")?;
        let args: Vec<Node<'_>> = arguments
            .named_children()
            .filter(|a| a.kind() != "comment")
            .collect();
        if function.kind() == "template_function" {
            let name = self.text(function.child_by_field_name("name")?);
            let [arg] = args[..] else { return None };
            if name != "static_cast" {
                return None;
            }
            let ty = self.text(function.child_by_field_name("arguments")?);
            let ty = Type::parse(ty.trim_start_matches('<').trim_end_matches('>'))?;
            return Some((ty.convert(self.expression(arg, depth)?.0)?, ty));
        }
        let name = self.text(function);
        if function.kind() == "primitive_type" {
            let ty = Type::parse(name)?;
            let [arg] = args[..] else { return None };
            return Some((ty.convert(self.expression(arg, depth)?.0)?, ty));
        }
        match (name.strip_prefix("std::").unwrap_or(name), &args[..]) {
            ("min", [a, b]) => binary(
                Op::Min,
                self.expression(*a, depth),
                self.expression(*b, depth),
            ),
            ("max", [a, b]) => binary(
                Op::Max,
                self.expression(*a, depth),
                self.expression(*b, depth),
            ),
            ("__mul24" | "__umul24" | "__mul24_i32", [a, b]) => binary(
                Op::Mul,
                self.expression(*a, depth),
                self.expression(*b, depth),
            ),
            ("__lane_id", []) => Some((Lanes::known(std::array::from_fn(|l| l as i64))?, UINT)),
            ("int" | "unsigned" | "size_t", [a]) => {
                let ty = Type::parse(name)?;
                Some((ty.convert(self.expression(*a, depth)?.0)?, ty))
            }
            _ => None,
        }
    }

    fn identifier(&self, node: Node<'_>, depth: u32) -> Option<Typed> {
        let name = self.text(node);
        if let Some(binding) = self.bindings.resolve(name, node.start_byte()) {
            let id = binding.name.id();
            if let Some(v) = self.pinned.borrow().get(&id) {
                return Some((Lanes::constant(*v)?, INT));
            }
            if binding.compound || binding.escapes {
                return None;
            }
            // Most variables are never written again: their value does not depend on the place.
            let reaching = match binding.kind {
                BindingKind::Template => None,
                _ if binding.writes.is_empty() => None,
                BindingKind::Loop if self.steps_once(binding) => None,
                _ => Some(self.reaching(binding, node)?),
            };
            let key = (id, reaching.as_ref().map_or(0, |r| r.key()));
            if let Some(known) = self.memo.borrow().get(&key) {
                return known.clone();
            }
            // A binding that refers to itself has no value.
            self.memo.borrow_mut().insert(key, None);
            let value = match reaching {
                Some(reaching) => self.written(binding, &reaching, depth),
                None => self.binding(binding, depth),
            };
            self.memo.borrow_mut().insert(key, value.clone());
            return value;
        }
        match name {
            "hipThreadIdx_x" => return Some((self.geometry.thread_idx(0)?, UINT)),
            "hipThreadIdx_y" => return Some((self.geometry.thread_idx(1)?, UINT)),
            "hipThreadIdx_z" => return Some((self.geometry.thread_idx(2)?, UINT)),
            "hipBlockDim_x" => return Some((self.geometry.block_dim(0)?, UINT)),
            "hipBlockDim_y" => return Some((self.geometry.block_dim(1)?, UINT)),
            "hipBlockDim_z" => return Some((self.geometry.block_dim(2)?, UINT)),
            "hipBlockIdx_x" | "hipBlockIdx_y" | "hipBlockIdx_z" | "hipGridDim_x"
            | "hipGridDim_y" | "hipGridDim_z" => return Some((Lanes::uniform(1, true), UINT)),
            _ => {}
        }
        if let Some(value) = self.names.constant(name, node.start_byte()) {
            return Some((Lanes::constant(value)?, INT));
        }
        (name == "warpSize").then_some((Lanes::constant(LANES as i64)?, INT))
    }

    /// A variable that has one value from its declaration on, or goes up and down with its loop.
    fn binding(&self, binding: &Binding<'t>, depth: u32) -> Option<Typed> {
        let ty = Type::parse(&binding.type_text)?;
        match binding.kind {
            // One instantiation has one value; which one is not known unless it is pinned.
            BindingKind::Template => Some((Lanes::uniform(1, ty.unsigned), ty)),
            BindingKind::Parameter => self.parameter(binding, ty),
            BindingKind::Local => self.initial(binding, binding.init?, ty, depth),
            BindingKind::Loop => self.loop_variable(binding, ty, depth),
        }
    }

    fn parameter(&self, binding: &Binding<'t>, ty: Type) -> Option<Typed> {
        if let Some(v) = self.arguments.borrow().get(&binding.name.id()) {
            return Some((ty.convert(v.clone())?, ty));
        }
        self.uniform_parameters
            .then(|| (Lanes::uniform(1, ty.unsigned), ty))
    }

    fn initial(
        &self,
        binding: &Binding<'t>,
        init: Node<'t>,
        ty: Type,
        depth: u32,
    ) -> Option<Typed> {
        let (value, from) = self.expression(init, depth)?;
        let ty = if binding.type_text.contains("auto") {
            from
        } else {
            ty
        };
        Some((ty.convert(value)?, ty))
    }

    /// Whether a variable of a `for` changes in the loop's last part only.
    fn steps_once(&self, binding: &Binding<'t>) -> bool {
        let [write] = binding.writes[..] else {
            return false;
        };
        loop_statement(binding)
            .and_then(|l| l.child_by_field_name("update"))
            .is_some_and(|u| contains(u, write))
    }

    /// The definition that is there for sure when `at` is reached, and what may have changed it since.
    fn reaching<'n>(&self, binding: &Binding<'t>, at: Node<'n>) -> Option<Reaching<'n, 't>> {
        let before = |w: &Node<'t>| w.end_byte() <= at.start_byte();
        let mut start = binding.init;
        let mut id = usize::from(start.is_some());
        let mut from = binding.name.start_byte();
        for write in binding.writes.iter().filter(|w| before(w)) {
            if write.kind() != "assignment_expression"
                || self.text(write.child_by_field_name("operator")?) != "="
                || write.start_byte() < from
            {
                continue;
            }
            let right = write.child_by_field_name("right")?;
            // `i = i + 4` moves the variable on; it does not define it.
            if self.names_variable(right, binding) {
                continue;
            }
            if dominated(*write).is_some_and(|scope| contains(scope, at)) {
                start = Some(right);
                id = write.id();
                from = write.end_byte();
            }
        }
        if start.is_none() && binding.kind != BindingKind::Parameter {
            return None;
        }
        // The outermost loop around the use that does not hold the definition may have gone round.
        let mut around = None;
        let mut node = at.parent();
        while let Some(n) = node {
            if n.start_byte() <= from && from <= n.end_byte() {
                // A `for` defines in its head, before it goes round.
                if n.kind() == "for_statement"
                    && n.child_by_field_name("body")
                        .is_some_and(|b| from <= b.start_byte())
                {
                    around = Some(n);
                }
                break;
            }
            if matches!(
                n.kind(),
                "for_statement" | "while_statement" | "do_statement" | "for_range_loop"
            ) {
                around = Some(n);
            }
            node = n.parent();
        }
        let between = binding
            .writes
            .iter()
            .copied()
            .filter(|w| {
                w.start_byte() >= from && (before(w) || around.is_some_and(|l| contains(l, *w)))
            })
            .collect();
        Some(Reaching {
            start,
            id,
            between,
            at,
        })
    }

    fn names_variable(&self, node: Node<'_>, binding: &Binding<'t>) -> bool {
        let name = self.text(binding.name);
        node.descendants()
            .any(|n| n.kind() == "identifier" && self.text(n) == name)
    }

    /// A variable that is written after its declaration: its definition, moved by what may have come since. Moves that
    /// are the same for all lanes keep the differences between lanes; everything else leaves nothing known.
    fn written(
        &self,
        binding: &Binding<'t>,
        reaching: &Reaching<'_, 't>,
        depth: u32,
    ) -> Option<Typed> {
        let ty = Type::parse(&binding.type_text)?;
        let (start, ty) = match reaching.start {
            Some(init) => self.initial(binding, init, ty, depth)?,
            None => self.parameter(binding, ty)?,
        };
        let mut value = start.clone();
        for write in &reaching.between {
            if !self.together(*write, reaching.at, binding, depth) {
                return None;
            }
            let up = match write.kind() {
                "update_expression" => Lanes::uniform(1, self.text(*write).contains("++")),
                _ => {
                    let operator = self.text(write.child_by_field_name("operator")?);
                    let right = write.child_by_field_name("right")?;
                    match (operator, self.step_of(binding, *write, right)) {
                        ("+=" | "-=", _) | ("=", Some(_)) => {
                            let step = match (operator, self.step_of(binding, *write, right)) {
                                ("=", Some((op, step))) => {
                                    let (v, _) = self.expression(step, depth)?;
                                    if op == "-" { v.negate()? } else { v }
                                }
                                ("-=", _) => self.expression(right, depth)?.0.negate()?,
                                _ => self.expression(right, depth)?.0,
                            };
                            let times = Lanes::uniform(1, true);
                            Lanes::apply(Op::Mul, &step, &times)?
                        }
                        _ => {
                            let uniform = start.is_uniform()
                                && match operator {
                                    "=" => self.uniform_but(right, self.text(binding.name), depth),
                                    _ => self.expression(right, depth)?.0.is_uniform(),
                                };
                            if !uniform {
                                return None;
                            }
                            let grows =
                                matches!(operator, "*=" | "/=" | "<<=" | ">>=" | "%=" | "&=");
                            value = Lanes::uniform(1, grows && value.is_nonnegative());
                            continue;
                        }
                    }
                }
            };
            value = Lanes::apply(Op::Add, &value, &up)?;
        }
        Some((value, ty))
    }

    /// `i = i + step`: the operator and the step.
    fn step_of(
        &self,
        binding: &Binding<'t>,
        write: Node<'t>,
        right: Node<'t>,
    ) -> Option<(&'a str, Node<'t>)> {
        let mut right = right;
        while right.kind() == "parenthesized_expression" {
            right = right.named_child(0)?;
        }
        if write.kind() != "assignment_expression" || right.kind() != "binary_expression" {
            return None;
        }
        let name = self.text(binding.name);
        let operator = self.text(right.child_by_field_name("operator")?);
        let (a, b) = (
            right.child_by_field_name("left")?,
            right.child_by_field_name("right")?,
        );
        match operator {
            "+" | "-" if self.text(a) == name && !self.names_variable(b, binding) => {
                Some((operator, b))
            }
            "+" if self.text(b) == name && !self.names_variable(a, binding) => Some((operator, a)),
            _ => None,
        }
    }

    /// Whether all lanes that reach `at` have done `write` equally often: no condition that differs between lanes
    /// stands between them. Lanes that are still in a loop have gone round equally often.
    fn together(&self, write: Node<'t>, at: Node<'_>, binding: &Binding<'t>, depth: u32) -> bool {
        let mut node = write;
        while let Some(parent) = node.parent() {
            if contains(parent, at) && contains(parent, binding.declaration) {
                return true;
            }
            let condition = match parent.kind() {
                "if_statement" | "conditional_expression" | "switch_statement" => {
                    // Both in the same branch is both or none.
                    if contains(node, at) {
                        None
                    } else {
                        parent.child_by_field_name("condition")
                    }
                }
                "for_statement" | "while_statement" | "do_statement" => {
                    if contains(parent, at) {
                        None
                    } else {
                        parent.child_by_field_name("condition")
                    }
                }
                "function_definition" | "lambda_expression" => {
                    return binding.kind == BindingKind::Parameter;
                }
                _ => None,
            };
            if is_loop(parent) && !self.rounds_together(parent, at, depth) {
                return false;
            }
            if let Some(condition) = condition {
                let condition = condition.child_by_field_name("value").unwrap_or(condition);
                if !contains(condition, node)
                    && !self
                        .expression(condition, depth)
                        .is_some_and(|(v, _)| v.is_uniform())
                {
                    return false;
                }
            }
            node = parent;
        }
        true
    }

    /// Whether no lane leaves a round of the loop, or the loop before `at`, without the others.
    fn rounds_together(&self, around: Node<'t>, at: Node<'_>, depth: u32) -> bool {
        let inside = contains(around, at);
        around
            .descendants()
            .filter(|n| {
                n.kind() == "continue_statement" || n.kind() == "break_statement" && !inside
            })
            .all(|way_out| {
                let mut node = way_out;
                while let Some(parent) = node.parent() {
                    if parent.id() == around.id() {
                        break;
                    }
                    // It belongs to an inner loop or switch.
                    if is_loop(parent) || parent.kind() == "switch_statement" {
                        return true;
                    }
                    if parent.kind() == "if_statement" {
                        let condition = parent
                            .child_by_field_name("condition")
                            .map(|c| c.child_by_field_name("value").unwrap_or(c));
                        if !condition
                            .and_then(|c| self.expression(c, depth))
                            .is_some_and(|(v, _)| v.is_uniform())
                        {
                            return false;
                        }
                    }
                    node = parent;
                }
                true
            })
    }

    /// The variable of `for (int i = START; ...; i += STEP)`: in one iteration all lanes that still run have gone
    /// the same number of steps, so it is START plus something uniform when STEP is.
    fn loop_variable(&self, binding: &Binding<'t>, ty: Type, depth: u32) -> Option<Typed> {
        let (start, _) = self.expression(binding.init?, depth)?;
        let [write] = binding.writes[..] else {
            return None;
        };
        let statement = loop_statement(binding)?;
        let update = statement.child_by_field_name("update")?;
        if !contains(update, write) {
            return None;
        }
        if write.kind() == "update_expression" {
            let down = self.text(write).contains("--");
            let moved = Lanes::uniform(1, !down);
            return Some((Lanes::apply(Op::Add, &start, &moved)?, ty));
        }
        let operator = self.text(write.child_by_field_name("operator")?);
        let step = write.child_by_field_name("right");
        match operator {
            "+=" | "-=" => {
                let (step, _) = self.expression(step?, depth)?;
                let times = Lanes::uniform(1, true);
                // A step that differs between lanes makes the distance differ in an unknown way.
                let moved = Lanes::apply(Op::Mul, &step, &times)?;
                let op = if operator == "+=" { Op::Add } else { Op::Sub };
                Some((Lanes::apply(op, &start, &moved)?, ty))
            }
            "*=" | "/=" | "<<=" | ">>=" | "=" if start.is_uniform() => {
                let right = step?;
                let uniform = if operator == "=" {
                    // `i = i * 2`: uniform when all but the variable itself is.
                    self.uniform_but(right, self.text(binding.name), depth)
                } else {
                    self.expression(right, depth)?.0.is_uniform()
                };
                uniform.then(|| (Lanes::uniform(1, start.is_nonnegative()), ty))
            }
            _ => None,
        }
    }

    fn uniform_but(&self, node: Node<'_>, name: &str, depth: u32) -> bool {
        match node.kind() {
            "identifier" if self.text(node) == name => true,
            "binary_expression" => ["left", "right"].iter().all(|side| {
                node.child_by_field_name(side)
                    .is_some_and(|n| self.uniform_but(n, name, depth + 1))
            }),
            "parenthesized_expression" => node
                .named_child(0)
                .is_some_and(|n| self.uniform_but(n, name, depth + 1)),
            _ => self
                .expression(node, depth)
                .is_some_and(|(v, _)| v.is_uniform()),
        }
    }

    /// The values that the loop variable `binding` takes in its first iterations, at most `limit`; empty when its
    /// start or step is not a known number.
    pub fn iterations(&self, binding: &Binding<'t>, limit: usize) -> Vec<i64> {
        self.iterations_at(binding, binding.name, limit)
    }

    /// The values that `binding` has at `at` in the first iterations of the loop that counts with it, at most `limit`;
    /// empty when its start or step is not a known number. It need not be declared in the head of the loop.
    pub fn iterations_at(&self, binding: &Binding<'t>, at: Node<'_>, limit: usize) -> Vec<i64> {
        let mut out = Vec::new();
        let mut late = false;
        let mut run = || -> Option<()> {
            let (statement, write, start) = if binding.kind == BindingKind::Loop {
                let [write] = binding.writes[..] else {
                    return None;
                };
                (loop_statement(binding)?, write, binding.init?)
            } else {
                let mut around = at.parent();
                let statement = loop {
                    let n = around?;
                    if matches!(
                        n.kind(),
                        "for_statement" | "while_statement" | "do_statement"
                    ) && binding.writes.iter().any(|w| {
                        contains(n, *w)
                            && n.child_by_field_name("initializer")
                                .is_none_or(|i| !contains(i, *w))
                    }) {
                        break n;
                    }
                    around = n.parent();
                };
                let reaching = self.reaching(binding, at)?;
                let [write] = reaching.between[..] else {
                    return None;
                };
                if !contains(statement, write) {
                    return None;
                }
                late = write.end_byte() <= at.start_byte()
                    && statement
                        .child_by_field_name("body")
                        .is_some_and(|b| contains(b, write));
                (statement, write, reaching.start?)
            };
            let condition = statement
                .child_by_field_name("condition")
                .map(|c| c.child_by_field_name("value").unwrap_or(c));
            let mut value = self.constant(start)?;
            while out.len() < limit {
                self.pin(binding, Some(value));
                if condition.and_then(|c| self.constant(c)) == Some(0) {
                    break;
                }
                if !late {
                    out.push(value);
                }
                value = match self.text(write.child_by_field_name("operator")?) {
                    "++" => value + 1,
                    "--" => value - 1,
                    "=" => self.constant(write.child_by_field_name("right")?)?,
                    compound => {
                        let op = Op::from_token(compound.strip_suffix('=')?)?;
                        op.apply(value, self.constant(write.child_by_field_name("right")?)?)?
                    }
                };
                if late {
                    out.push(value);
                }
            }
            Some(())
        };
        // Whatever stopped it, the iterations seen so far are right.
        let _ = run();
        self.pin(binding, None);
        out
    }
}

fn loop_statement<'t>(binding: &Binding<'t>) -> Option<Node<'t>> {
    let mut node = binding.declaration.parent()?;
    while node.kind() != "for_statement" {
        node = node.parent()?;
    }
    Some(node)
}

fn is_loop(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "for_statement" | "while_statement" | "do_statement" | "for_range_loop"
    )
}

fn contains(outer: Node<'_>, inner: Node<'_>) -> bool {
    outer.start_byte() <= inner.start_byte() && inner.end_byte() <= outer.end_byte()
}

/// Where a plain assignment is over for sure: the block that it is a statement of, or the `for` whose head it is in.
fn dominated(write: Node<'_>) -> Option<Node<'_>> {
    let mut node = write;
    loop {
        let parent = node.parent()?;
        match parent.kind() {
            "expression_statement" | "comma_expression" | "init_statement" => node = parent,
            "compound_statement" => return Some(parent),
            "for_statement" => {
                return parent
                    .child_by_field_name("initializer")
                    .is_some_and(|i| contains(i, write))
                    .then_some(parent);
            }
            // `a = b = 0` defines both.
            "assignment_expression" => node = parent,
            _ => return None,
        }
    }
}

impl Reaching<'_, '_> {
    /// What tells the values of one variable at different places apart.
    fn key(&self) -> usize {
        self.between
            .iter()
            .fold(self.id, |k, w| k.wrapping_mul(31).wrapping_add(w.id()))
            .max(1)
    }
}

fn binary(op: Op, a: Option<Typed>, b: Option<Typed>) -> Option<Typed> {
    // A known zero decides a product and a conjunction whatever the other side is.
    if let (Op::Mul | Op::And | Op::LogicalAnd, Some((v, ty)), None)
    | (Op::Mul | Op::And | Op::LogicalAnd, None, Some((v, ty))) = (op, &a, &b)
        && v.as_constant() == Some(0)
    {
        return Some((Lanes::constant(0)?, *ty));
    }
    let ((a, x), (b, y)) = (a?, b?);
    let shift = matches!(op, Op::Shl | Op::Shr);
    let ty = if shift { x } else { x.join(y) };
    let (a, b) = if shift {
        (a, b)
    } else {
        (ty.convert(a)?, ty.convert(b)?)
    };
    // An unsigned value that may have wrapped is large, not negative: comparing, dividing and shifting it right
    // would need the wrapped value.
    let order = matches!(
        op,
        Op::Div | Op::Rem | Op::Shr | Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Min | Op::Max
    );
    if ty.unsigned && order && !(a.is_nonnegative() && b.is_nonnegative()) {
        return (a.is_uniform() && b.is_uniform()).then(|| (Lanes::uniform(1, true), ty));
    }
    let value = Lanes::apply(op, &a, &b)?;
    let ty = match op {
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::LogicalAnd | Op::LogicalOr => INT,
        _ => ty,
    };
    Some((ty.convert(value)?, ty))
}

/// An integer literal: decimal, hexadecimal, octal or binary, with its suffix and digit separators.
fn number(text: &str) -> Option<Typed> {
    let text: String = text.chars().filter(|c| *c != '\'').collect();
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = if let Some(rest) = lower.strip_prefix("0x") {
        (rest, 16)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (rest, 2)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (&lower[1..], 8)
    } else {
        (&lower[..], 10)
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let digits = if digits.is_empty() { "0" } else { digits };
    let mut ty = match suffix {
        "" => INT,
        "u" => UINT,
        "l" | "ll" => Type {
            unsigned: false,
            wide: true,
        },
        "ul" | "ull" | "lu" | "llu" | "uz" | "zu" => Type {
            unsigned: true,
            wide: true,
        },
        _ => return None,
    };
    let value = i64::from_str_radix(digits, radix).ok()?;
    if ty == INT && i32::try_from(value).is_err() {
        ty = match u32::try_from(value) {
            Ok(_) if radix != 10 => UINT,
            _ => Type {
                unsigned: false,
                wide: true,
            },
        };
    }
    Some((Lanes::constant(value)?, ty))
}
