//! `textDocument/documentSymbol`: kernels with their LDS and launches, other functions, LDS arrays, types and
//! constants, nested as they stand in the text.

use std::ops::Range;

use hipsmith_syntax::{Function, FunctionKind, Model, Scope, SharedArray};
use lsp_types as lsp;

use crate::figures;
use crate::session::Snapshot;
use crate::{convert, requests::document_symbol::nest::nest};

mod nest;

/// Launch shapes shown at a kernel; the others are counted.
const SHAPES: usize = 3;

/// A symbol in bytes of the text.
struct Symbol {
    name: String,
    detail: Option<String>,
    kind: lsp::SymbolKind,
    range: Range<usize>,
    /// The name; inside the range.
    selection: Range<usize>,
    children: Vec<Symbol>,
}

pub fn document_symbols(snapshot: &Snapshot) -> lsp::DocumentSymbolResponse {
    let symbols = nest(symbols(snapshot.document.model()));
    if snapshot.client.nested_symbols {
        let nested: Vec<lsp::DocumentSymbol> =
            symbols.into_iter().map(|s| nested(snapshot, s)).collect();
        nested.into()
    } else {
        let mut list = Vec::new();
        flat(snapshot, symbols, None, &mut list);
        list.into()
    }
}

fn nested(snapshot: &Snapshot, symbol: Symbol) -> lsp::DocumentSymbol {
    let range = |range| convert::range(&snapshot.document, snapshot.client.encoding, range);
    let children: Vec<lsp::DocumentSymbol> = symbol
        .children
        .into_iter()
        .map(|child| nested(snapshot, child))
        .collect();
    #[expect(deprecated, reason = "the type has no other way to be made")]
    lsp::DocumentSymbol {
        name: symbol.name,
        detail: symbol.detail,
        kind: symbol.kind,
        tags: None,
        deprecated: None,
        range: range(&symbol.range),
        selection_range: range(&symbol.selection),
        children: (!children.is_empty()).then_some(children),
    }
}

/// For clients that know no nesting: the same in text order, each with the name of what it stands in.
fn flat(
    snapshot: &Snapshot,
    symbols: Vec<Symbol>,
    container: Option<&str>,
    out: &mut Vec<lsp::SymbolInformation>,
) {
    for symbol in symbols {
        #[expect(deprecated, reason = "the type has no other way to be made")]
        out.push(lsp::SymbolInformation {
            deprecated: None,
            location: lsp::Location {
                uri: snapshot.uri.clone(),
                range: convert::range(&snapshot.document, snapshot.client.encoding, &symbol.range),
            },
            base_symbol_information: lsp::BaseSymbolInformation {
                name: symbol.name.clone(),
                kind: symbol.kind,
                tags: None,
                container_name: container.map(str::to_owned),
            },
        });
        flat(snapshot, symbol.children, Some(&symbol.name), out);
    }
}

/// Every symbol of the text, in no order.
fn symbols(model: &Model) -> Vec<Symbol> {
    let mut all = Vec::new();
    for (index, function) in model.functions.iter().enumerate() {
        all.push(Symbol::new(
            &function.name,
            Some(function_detail(model, index, function)),
            lsp::SymbolKind::Function,
            function.range.clone(),
            function.name_range.clone(),
        ));
    }
    for array in &model.shared {
        all.push(Symbol::new(
            &array.name,
            Some(array_detail(model, array)),
            if array.dims.is_empty() && !array.dynamic {
                lsp::SymbolKind::Variable
            } else {
                lsp::SymbolKind::Array
            },
            array.range.clone(),
            array.name_range.clone(),
        ));
    }
    for (name, range) in model.classes() {
        // The name comes behind `struct` and attributes; a type that only a typedef names has none inside.
        let word = name.split('<').next().unwrap_or(name).trim();
        let at = model
            .text()
            .get(range.clone())
            .and_then(|text| find_word(text, word))
            .map_or(range.start..range.start, |at| {
                range.start + at..range.start + at + word.len()
            });
        all.push(Symbol::new(name, None, lsp::SymbolKind::Struct, range, at));
    }
    for variable in &model.variables {
        let Some(init) = &variable.init else {
            continue;
        };
        // Members of classes are visible where their class is, with its name in front.
        let (member, name) = match variable.name.rsplit_once("::") {
            Some((_, name)) => (true, name),
            None => (false, variable.name.as_str()),
        };
        if !variable.is_const || !(member || variable.scope.start == 0) {
            continue;
        }
        let value = model.eval(&variable.name, &Scope::at(init.range.end));
        all.push(Symbol::new(
            name,
            value.map(|value| format!("= {value}")),
            lsp::SymbolKind::Constant,
            variable.name_range.start..init.range.end,
            variable.name_range.clone(),
        ));
    }
    for (name, found) in model.macros() {
        if found.parameters.is_some() {
            continue;
        }
        let Some(value) = model.eval(name, &Scope::at(found.range.end)) else {
            continue;
        };
        let at = model
            .text()
            .get(found.range.clone())
            .and_then(|text| find_word(text, name));
        let Some(at) = at.map(|at| found.range.start + at) else {
            continue;
        };
        all.push(Symbol::new(
            name,
            Some(format!("= {value}")),
            lsp::SymbolKind::Constant,
            found.range.clone(),
            at..at + name.len(),
        ));
    }
    all.retain(|symbol| !symbol.name.trim().is_empty());
    all
}

impl Symbol {
    fn new(
        name: &str,
        detail: Option<String>,
        kind: lsp::SymbolKind,
        range: Range<usize>,
        selection: Range<usize>,
    ) -> Self {
        // The protocol wants the name inside; around errors in the text it may not be.
        let range = range.start.min(selection.start)..range.end.max(selection.end);
        Self {
            name: name.to_owned(),
            detail,
            kind,
            range,
            selection,
            children: Vec::new(),
        }
    }
}

/// Where `word` stands in `text` as a word of its own.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    (!word.is_empty())
        .then(|| {
            text.match_indices(word).find(|(at, _)| {
                let before = text.get(..*at).and_then(|t| t.chars().next_back());
                let after = text.get(at + word.len()..).and_then(|t| t.chars().next());
                !before.is_some_and(joins) && !after.is_some_and(joins)
            })
        })?
        .map(|(at, _)| at)
}

/// `kernel, LDS 4,224 B, launched <<<?, 256>>>`
fn function_detail(model: &Model, index: usize, function: &Function) -> String {
    let mut parts = vec![
        match function.kind {
            FunctionKind::Kernel => "kernel",
            FunctionKind::Device => "device",
            FunctionKind::HostDevice => "host and device",
            FunctionKind::Host => "host",
        }
        .to_owned(),
    ];
    if function.kind != FunctionKind::Kernel {
        return parts.remove(0);
    }
    let lds = figures::static_lds(model, index);
    // Nothing to say of a kernel without LDS.
    if lds.single() != Some(0) {
        match lds.text() {
            Some(bytes) => parts.push(format!("LDS {bytes}")),
            None => parts.push("LDS of unknown size".to_owned()),
        }
    }
    if model.shared_of(index).any(|(_, array)| array.dynamic) {
        parts.push("dynamic LDS".to_owned());
    }
    let mut shapes: Vec<String> = Vec::new();
    for shape in model.launches_of(index).map(figures::launch_shape) {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    if !shapes.is_empty() {
        let more = shapes.len().saturating_sub(SHAPES);
        shapes.truncate(SHAPES);
        let more = match more {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        parts.push(format!("launched {}{more}", shapes.join(", ")));
    }
    parts.join(", ")
}

fn array_detail(model: &Model, array: &SharedArray) -> String {
    if array.dynamic {
        return "dynamic LDS".to_owned();
    }
    match figures::array_bytes(model, array).text() {
        Some(bytes) => format!("LDS {bytes}"),
        None => "LDS of unknown size".to_owned(),
    }
}
