//! From HIP text to a kernel model: mask, parse, model, constants. No LSP, no I/O, never fails.
//!
//! - [`Document`] holds one text: masked form, tree-sitter tree, line index, kept in step by
//!   [`Document::apply`] and [`Document::apply_positions`]. Cloning makes a cheap snapshot.
//! - [`Document::model`] is the kernel model: functions, `__shared__` arrays, launches, constants.
//! - [`Model::eval`] gives the value of a C++ integer constant expression at a place ([`Scope`]).
//! - All offsets, of tree nodes, marks and model ranges, are bytes of the user's text ([`Document::text`]).
//!   The tree itself is of [`Document::masked`]: HIP words and code that the target does not compile are
//!   blank there, and a launch `k<<<g, b>>>(x)` is a call of a call.
//! - A tree may hold errors: skip nodes whose `has_error()` is true, and give no answer rather than a guess.
//!
//! ```
//! use hipsmith_syntax::{Document, FunctionKind, Scope};
//! let doc = Document::new(
//!     "#define N 64\n\
//!      template <int B> __global__ void k(float *x) { __shared__ float s[B][N + 1]; x[0] = s[1][1]; }\n\
//!      void go(float *x) { dim3 block(N, 4); k<4 * N><<<8, block>>>(x); }",
//! );
//! let model = doc.model();
//! let kernel = model.kernel("k").unwrap();
//! assert_eq!(model.functions[kernel].kind, FunctionKind::Kernel);
//! let launch = &model.launches[0];
//! assert_eq!(launch.block, Some([64, 4, 1]));
//! let instance = &model.instances(kernel)[0]; // B = 256, from the launch
//! assert_eq!(model.static_lds(kernel, instance).bytes, Some(256 * 65 * 4));
//! assert_eq!(model.eval("N * 2", &Scope::file()), Some(128));
//! ```

pub mod lanes;
pub mod lex;

mod document;
mod expr;
mod includes;
mod mask;
mod model;
mod preproc;
mod tree;
mod types;

pub use document::{Document, Edit, Encoding, MAX_BYTES, Options, Position};
pub use expr::Macro;
pub use includes::{Header, Include, Includes};
pub use mask::{Mark, MarkKind, MaskConfig, Masked, is_hip, mask};
pub use model::{
    Binding, Expr, Function, FunctionKind, FunctionRef, Launch, LaunchBounds, LaunchSyntax, Model,
    Param, Scope, SharedArray, StaticLds, TemplateParam, Type, Variable,
};
pub use tree::{Children, Descendants, Node, Notable, word_hash};

/// The grammar: tree-sitter's C++.
pub fn language() -> tree_sitter::Language {
    tree_sitter_cpp::LANGUAGE.into()
}
