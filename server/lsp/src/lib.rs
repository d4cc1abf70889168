//! The language server: the only crate that knows LSP types.
