//! The kernel model: what a HIP file defines and launches.

mod build;
mod calls;
mod classes;
mod index;
mod lds;
mod names;
mod recover;

pub use lds::FunctionRef;

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hipsmith_target::Target;

use crate::expr::Macro;
use crate::includes::Header;
use crate::preproc::Preprocessed;

/// What a HIP file defines and launches. Get it from [`crate::Document::model`].
///
/// Code that the target does not compile is not in it.
#[derive(Debug)]
pub struct Model {
    text: Arc<str>,
    target: &'static Target,
    pre: Arc<Preprocessed>,
    /// Functions with a body, in text order: kernels, device functions and host functions.
    pub functions: Vec<Function>,
    /// `__shared__` arrays and variables, `extern` ones and `HIP_DYNAMIC_SHARED` included, in text order.
    pub shared: Vec<SharedArray>,
    /// Launches, in text order.
    pub launches: Vec<Launch>,
    /// Variables with an initializer, constants of classes, and parameters.
    pub variables: Vec<Variable>,
    enumerators: Vec<Enumerator>,
    aliases: Vec<Alias>,
    classes: Vec<Class>,
    index: OnceLock<index::Index>,
}

/// Where a function runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FunctionKind {
    /// `__global__`
    Kernel,
    /// `__device__`
    Device,
    /// `__host__ __device__`
    HostDevice,
    /// Neither.
    Host,
}

/// A piece of the text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Expr {
    /// Its bytes.
    pub range: Range<usize>,
    /// Its text, as the user wrote it.
    pub text: String,
}

/// A type, taken apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Type {
    /// The type without qualifiers, pointers and references, such as `float` or `unsigned int`.
    pub base: String,
    /// `const` before the base: for a pointer, the data it points to.
    pub is_const: bool,
    /// `volatile` before the base.
    pub is_volatile: bool,
    /// Stars, and brackets of an array parameter.
    pub pointers: u8,
    /// `__restrict__`
    pub is_restrict: bool,
    /// `&` or `&&`
    pub is_reference: bool,
}

/// A parameter of a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Param {
    /// Its name; empty if it has none.
    pub name: String,
    /// Bytes of the whole parameter.
    pub range: Range<usize>,
    /// Bytes of the name; empty if it has none.
    pub name_range: Range<usize>,
    /// Its type.
    pub ty: Type,
}

/// A template parameter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TemplateParam {
    /// Its name.
    pub name: String,
    /// Whether it is a type (`typename T`) rather than a value (`int N`).
    pub is_type: bool,
    /// Its default, as written.
    pub default: Option<String>,
}

/// `__launch_bounds__(max_threads, min_blocks)`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LaunchBounds {
    /// Bytes of the word with its arguments.
    pub range: Range<usize>,
    /// The arguments.
    pub arguments: Vec<Expr>,
    /// The first argument, where it has a value without template arguments.
    pub max_threads: Option<i64>,
    /// The second argument, likewise.
    pub min_blocks: Option<i64>,
}

/// A function with a body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name, without qualification.
    pub name: String,
    /// Bytes of the name.
    pub name_range: Range<usize>,
    /// Bytes from the first HIP word, template header or specifier to the closing brace.
    pub range: Range<usize>,
    /// Bytes of the body with its braces.
    pub body: Range<usize>,
    /// Where it runs.
    pub kind: FunctionKind,
    /// The return type as written, without stars.
    pub return_type: String,
    /// Template parameters of the function itself.
    pub template_params: Vec<TemplateParam>,
    /// Parameters.
    pub params: Vec<Param>,
    /// `__launch_bounds__`
    pub launch_bounds: Option<LaunchBounds>,
    /// `__attribute__((...))`: the text between the outer brackets.
    pub attributes: Vec<Expr>,
    /// Whether the grammar found an error in it: its body is then only partly in the tree.
    pub has_error: bool,
}

impl Function {
    /// Whether it runs on the device.
    pub fn is_device(&self) -> bool {
        self.kind != FunctionKind::Host
    }
}

/// A `__shared__` array or variable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharedArray {
    /// Its name.
    pub name: String,
    /// Bytes of the name.
    pub name_range: Range<usize>,
    /// Bytes of the declaration, `__shared__` included.
    pub range: Range<usize>,
    /// Type of an element, without qualifiers.
    pub element: String,
    /// Size of an element in bytes, where known without template arguments.
    pub element_size: Option<u64>,
    /// Dimensions, outermost first; empty for a scalar and for an `extern` array of unknown size.
    pub dims: Vec<Expr>,
    /// Their values, where known without template arguments.
    pub dim_values: Vec<Option<i64>>,
    /// `extern`, without a size: dynamic LDS, sized by the launch.
    pub dynamic: bool,
    /// The function it stands in (index into [`Model::functions`]).
    pub function: Option<usize>,
    /// `__align__` or `alignas`, bytes.
    pub align: Option<u64>,
}

/// How a launch is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaunchSyntax {
    /// `k<<<grid, block>>>(arguments)`
    Chevron,
    /// `hipLaunchKernelGGL(k, grid, block, lds, stream, arguments)`
    Macro,
}

/// A launch of a kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launch {
    /// How it is written.
    pub syntax: LaunchSyntax,
    /// Bytes of the whole launch, from the kernel's name to the closing bracket.
    pub range: Range<usize>,
    /// The kernel's name, without qualification and template arguments.
    pub kernel: String,
    /// Bytes of that name.
    pub kernel_range: Range<usize>,
    /// Template arguments as written.
    pub template_args: Vec<Expr>,
    /// The grid as written.
    pub grid_expr: Expr,
    /// The block as written.
    pub block_expr: Expr,
    /// Dynamic LDS as written; `None` if not given.
    pub lds_expr: Option<Expr>,
    /// The stream as written; `None` if not given.
    pub stream_expr: Option<Expr>,
    /// The kernel's arguments as written.
    pub args: Vec<Expr>,
    /// Grid size in workgroups `[x, y, z]`, if constant.
    pub grid: Option<[i64; 3]>,
    /// Workgroup size in work-items `[x, y, z]`, if constant.
    pub block: Option<[i64; 3]>,
    /// Dynamic LDS in bytes, if constant (0 if not given).
    pub lds_bytes: Option<i64>,
    /// The function that launches (index into [`Model::functions`]).
    pub function: Option<usize>,
}

/// A variable or parameter.
#[derive(Debug)]
pub struct Variable {
    /// Its name, qualified with its class for a member (`Tile::K`).
    pub name: String,
    /// Bytes of the name.
    pub name_range: Range<usize>,
    /// Where the name is visible; the whole text for one outside functions.
    pub scope: Range<usize>,
    /// Its type, taken apart.
    pub ty: Type,
    /// The initializer: what follows `=`, or the bracketed arguments; `None` if there is none.
    pub init: Option<Expr>,
    /// Declared `const` or `constexpr`.
    pub is_const: bool,
    unchanged: OnceLock<bool>,
}

/// A value or type that a template parameter is bound to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Binding {
    /// A value.
    Value(i64),
    /// A type, as written.
    Type(String),
}

impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Binding::Value(value) => write!(f, "{value}"),
            Binding::Type(ty) => f.write_str(ty),
        }
    }
}

/// Where an expression stands, and what template parameters are bound to.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    /// The names visible at this byte count; `usize::MAX` is the end of the file, outside all functions.
    pub at: usize,
    /// Template parameters of the surrounding function.
    pub bindings: &'a [(String, Binding)],
}

impl<'a> Scope<'a> {
    /// At the end of the file, outside all functions.
    pub fn file() -> Self {
        Self::at(usize::MAX)
    }
    /// At the byte `at`.
    pub fn at(at: usize) -> Self {
        Self { at, bindings: &[] }
    }
    /// The same place with template parameters bound.
    pub fn with(self, bindings: &'a [(String, Binding)]) -> Self {
        Self { bindings, ..self }
    }
}

/// Static LDS of a kernel instance.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StaticLds {
    /// The arrays counted (indices into [`Model::shared`]), those of device functions that the kernel calls included.
    pub arrays: Vec<usize>,
    /// Their size in bytes with alignment, or `None` if the size of one is not known. What functions of included files
    /// declare is not seen: the compiler's sum can then be larger.
    pub bytes: Option<u64>,
}

#[derive(Debug)]
struct Enumerator {
    name: String,
    qualified: String,
    /// Value as written; or counted on from the enumerator before.
    value: Option<String>,
    previous: Option<usize>,
    at: usize,
}

/// A `struct`, `class` or `union` with a body. What is in it is read from the text when somebody asks.
#[derive(Debug)]
struct Class {
    /// Its name, with the arguments of a specialization.
    name: String,
    /// From `struct` to the closing brace.
    range: Range<usize>,
    /// Its template parameters, `<` and `>` included.
    template: Option<Range<usize>>,
}

/// A name for a type: `using`, `typedef`, or an enumeration (then for the integer type beneath).
#[derive(Debug)]
struct Alias {
    name: String,
    ty: String,
    at: usize,
    /// Where the name is visible.
    scope: Range<usize>,
    /// Its template parameters, `<` and `>` included.
    template: Option<Range<usize>>,
}

impl Model {
    /// The target that the model was made for.
    pub fn target(&self) -> &'static Target {
        self.target
    }
    pub(crate) fn preprocessed(&self) -> &Preprocessed {
        &self.pre
    }
    /// A hash of what is known in the whole file wherever it is declared, a function's body included: the names of LDS, of
    /// functions and of variables outside functions, constants of classes and enumerations, types. While it stays, the
    /// meaning of a name in a function changes only with the function or with what stands outside functions.
    pub fn names_hash(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        for s in &self.shared {
            (&s.name, &s.element, s.dynamic).hash(&mut hasher);
            s.dims.iter().for_each(|d| d.text.hash(&mut hasher));
        }
        for f in &self.functions {
            (&f.name, f.kind as u8, f.params.len()).hash(&mut hasher);
        }
        for v in self.variables.iter().filter(|v| v.scope.start == 0) {
            let init = v.init.as_ref().map(|i| &i.text);
            (&v.name, &v.ty.base, v.ty.pointers, init).hash(&mut hasher);
        }
        for e in &self.enumerators {
            (&e.qualified, &e.value).hash(&mut hasher);
        }
        for a in &self.aliases {
            (&a.name, &a.ty).hash(&mut hasher);
        }
        for c in &self.classes {
            self.text.get(c.range.clone()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The headers that the file includes, directly or through another, without repetition.
    pub fn headers(&self) -> &[Arc<Header>] {
        &self.pre.headers
    }
    /// The text that the ranges count in.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Index of the kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.functions
            .iter()
            .position(|f| f.kind == FunctionKind::Kernel && f.name == name)
    }
    /// Kernels with their index into [`Model::functions`].
    pub fn kernels(&self) -> impl Iterator<Item = (usize, &Function)> {
        self.functions
            .iter()
            .enumerate()
            .filter(|(_, f)| f.kind == FunctionKind::Kernel)
    }
    /// The innermost function whose range holds the byte `offset`.
    pub fn function_at(&self, offset: usize) -> Option<usize> {
        self.functions
            .iter()
            .enumerate()
            .filter(|(_, f)| f.range.contains(&offset))
            .min_by_key(|(_, f)| f.range.len())
            .map(|(i, _)| i)
    }
    /// The `__shared__` array called `name` that is visible at the byte `offset`.
    pub fn shared_at(&self, name: &str, offset: usize) -> Option<&SharedArray> {
        let function = self.function_at(offset);
        let named = || self.shared.iter().filter(|s| s.name == name);
        named()
            .rfind(|s| s.function == function && s.range.start <= offset)
            .or_else(|| named().find(|s| s.function.is_none()))
    }
    /// `__shared__` arrays declared in a function.
    pub fn shared_of(&self, function: usize) -> impl Iterator<Item = (usize, &SharedArray)> {
        self.shared
            .iter()
            .enumerate()
            .filter(move |(_, s)| s.function == Some(function))
    }
    /// Launches of a function that this file holds.
    pub fn launches_of(&self, function: usize) -> impl Iterator<Item = &Launch> {
        let name = self.functions.get(function).map(|f| f.name.as_str());
        self.launches
            .iter()
            .filter(move |l| Some(l.kernel.as_str()) == name)
    }
    /// The block shapes that the file's launches of a kernel use, without repetition; empty unless all are known.
    pub fn block_shapes(&self, function: usize) -> Vec<[i64; 3]> {
        let mut shapes = Vec::new();
        for launch in self.launches_of(function) {
            match launch.block {
                Some(b) if !shapes.contains(&b) => shapes.push(b),
                Some(_) => {}
                None => return Vec::new(),
            }
        }
        shapes
    }
    /// The macro that holds at the byte `offset`.
    pub fn macro_at(&self, name: &str, offset: usize) -> Option<&Macro> {
        self.pre.macros.get(name, offset).map(Arc::as_ref)
    }
    /// All macros that the text defines, in no order.
    pub fn macros(&self) -> impl Iterator<Item = (&str, &Macro)> {
        self.pre
            .macros
            .iter()
            .map(|(name, m)| (name, m.as_ref()))
            .filter(|(_, m)| !m.range.is_empty())
    }
    /// Files that the text includes, as written, and whether in quotes.
    pub fn includes(&self) -> &[(String, bool)] {
        &self.pre.includes
    }
    /// `struct`, `class` and `union` with a body: the name, with the arguments of a specialization, and the bytes from
    /// `struct` to the closing brace.
    pub fn classes(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.classes
            .iter()
            .map(|class| (class.name.as_str(), class.range.clone()))
    }
    /// The variable or parameter called `name` that is visible at the byte `offset`.
    pub fn variable_at(&self, name: &str, offset: usize) -> Option<&Variable> {
        let last = name.rsplit("::").next().unwrap_or(name);
        self.index()
            .variables
            .get(last)
            .filter_map(|i| self.variables.get(i))
            .filter(|v| {
                v.name == name
                    && (v.scope.contains(&offset) || (offset == usize::MAX && v.scope.start == 0))
                    && (v.name_range.start <= offset)
            })
            .min_by_key(|v| (v.scope.len(), usize::MAX - v.name_range.start))
    }
}
