//! Symbols into the symbols that they stand in.

use super::Symbol;

/// Symbols inside one another that are shown so; deeper ones stand beside each other.
const DEPTH: usize = 32;

/// Sort `symbols` by their place, and move each into the innermost one that holds it whole.
pub fn nest(mut symbols: Vec<Symbol>) -> Vec<Symbol> {
    symbols.sort_by(|a, b| {
        (a.range.start, b.range.end, a.selection.start).cmp(&(
            b.range.start,
            a.range.end,
            b.selection.start,
        ))
    });
    let mut top = Vec::new();
    let mut open: Vec<Symbol> = Vec::new();
    for symbol in symbols {
        let mut deep = open.len() >= DEPTH;
        while let Some(last) = open.pop_if(|last| deep || !holds(last, &symbol)) {
            deep = false;
            close(last, &mut open, &mut top);
        }
        open.push(symbol);
    }
    while let Some(last) = open.pop() {
        close(last, &mut open, &mut top);
    }
    top
}

/// Arrays of one declaration have the same range, and none is inside the other.
fn holds(outer: &Symbol, inner: &Symbol) -> bool {
    outer.range != inner.range
        && outer.range.start <= inner.range.start
        && inner.range.end <= outer.range.end
}

fn close(symbol: Symbol, open: &mut [Symbol], top: &mut Vec<Symbol>) {
    match open.last_mut() {
        Some(outer) => outer.children.push(symbol),
        None => top.push(symbol),
    }
}
