//! `library-wave-size`

use std::collections::HashSet;
use std::ops::Range;

use hipsmith_syntax::{Node, Scope};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::walk;
use crate::rule::{self, Rule};

pub(super) static RULE: Rule = Rule {
    id: "library-wave-size",
    family: Family::W,
    severity: Severity::Error,
    scope: rule::Scope::File,
    summary: "A hipCUB or rocPRIM block primitive that works by wavefronts is given a block that is no multiple of 64 threads.",
    docs: r#"
## What it does
Reports `BlockLoad`, `BlockStore`, `BlockExchange` and their rocPRIM forms with a warp-transpose algorithm and a block size
that is not a multiple of 64, through template parameters down to the call that chooses the size.

`WarpReduce<T, 32>`, `WarpScan<T, 32>` and other primitives with a logical warp size are right on 64 lanes and not looked at.

## Why it matters on 64 lanes
Warp transposes stage the data of one wavefront in LDS, so the library asserts at compile time that the block is made of
whole wavefronts. Blocks of 32 threads, or 96, compile for 32 lanes only.

## Example that fires
```hip fires
template <int THREADS> __global__ void k(const int* in) {
  typedef hipcub::BlockLoad<int, THREADS, 4, hipcub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
  __shared__ typename Load::TempStorage storage;
  int items[4];
  Load(storage).Load(in, items);
}
void go(const int* in) { k<32><<<1, 32>>>(in); }
```

## Example that does not
```hip quiet
template <int THREADS> __global__ void k(const int* in) {
  typedef hipcub::BlockLoad<int, THREADS, 4, hipcub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
  typedef hipcub::WarpReduce<int, 32> Reduce;
  __shared__ typename Load::TempStorage storage;
  int items[4];
  Load(storage).Load(in, items);
}
void go(const int* in) { k<128><<<1, 128>>>(in); }
```

## Fix
A block of 64 threads or a multiple of it, or `BLOCK_LOAD_TRANSPOSE`, which works by blocks. No fix is offered.

## Sources
rocPRIM, `block_load`: "BlockSize must be a multiple of hardware warp size" for warp transposes; HeCBench's blockScan.
"#,
    check,
};

/// Where a block size comes from that a template is given.
enum Origin {
    Value(i64, Range<usize>),
    /// A template parameter, by its place in the function's list.
    Parameter(usize, usize),
}

fn origin(cx: &Context<'_>, text: &str, range: Range<usize>) -> Option<Origin> {
    let text = text.trim();
    let function = cx.model.function_at(range.start);
    if let Some(i) = function
        && let Some(f) = cx.model.functions.get(i)
        && let Some(place) = f.template_params.iter().position(|p| p.name == text)
    {
        return Some(Origin::Parameter(i, place));
    }
    let value = cx.model.eval(text, &Scope::at(range.start))?;
    Some(Origin::Value(value, range))
}

/// The template arguments at `place` with which function `index` is called or launched.
fn given(cx: &Context<'_>, index: usize, place: usize) -> Vec<Origin> {
    let Some(name) = cx.model.functions.get(index).map(|f| f.name.as_str()) else {
        return Vec::new();
    };
    let launched = cx
        .model
        .launches
        .iter()
        .filter(|l| l.kernel == name)
        .filter_map(|l| l.template_args.get(place))
        .map(|e| (e.text.clone(), e.range.clone()));
    let called = cx
        .functions
        .iter()
        .flat_map(|f| &f.calls)
        .filter(|c| c.name == name)
        .filter_map(|c| {
            let list = c
                .node
                .child_by_field_name("function")?
                .child_by_field_name("arguments")?;
            let argument = list.named_children().nth(place)?;
            Some((cx.text(argument).to_owned(), argument.byte_range()))
        });
    launched
        .chain(called)
        .filter_map(|(text, range)| origin(cx, &text, range))
        .collect()
}

fn template<'t>(cx: &Context<'t>, node: Node<'t>) -> Option<(&'t str, Vec<Node<'t>>)> {
    let name = cx.text(node.child_by_field_name("name")?);
    let known = matches!(
        name,
        "BlockLoad"
            | "BlockStore"
            | "BlockExchange"
            | "block_load"
            | "block_store"
            | "block_exchange"
    );
    let arguments = node.child_by_field_name("arguments").filter(|_| known)?;
    let transposes = {
        let text = cx.text(arguments);
        text.contains("WARP_TRANSPOSE") || text.contains("warp_transpose")
    };
    transposes.then(|| {
        (
            name,
            arguments
                .named_children()
                .filter(|n| n.kind() != "comment")
                .collect(),
        )
    })
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.source.contains("WARP_TRANSPOSE") && !cx.source.contains("warp_transpose") {
        return;
    }
    let mut found: Vec<(&str, Range<usize>, Origin)> = Vec::new();
    walk(cx.document.root(), &mut |n| {
        if matches!(n.kind(), "template_type" | "template_function")
            && let Some((name, arguments)) = template(cx, n)
            && let Some(size) = arguments.get(1)
            && let Some(o) = origin(cx, cx.text(*size), size.byte_range())
        {
            found.push((name, n.byte_range(), o));
        }
        true
    });
    let mut seen = HashSet::new();
    // A load and a store get their size from the same place.
    let mut told = HashSet::new();
    found.reverse();
    while let Some((name, place, origin)) = found.pop() {
        match origin {
            Origin::Parameter(function, parameter) => {
                if seen.insert((place.start, function, parameter)) {
                    for next in given(cx, function, parameter) {
                        found.push((name, place.clone(), next));
                    }
                }
            }
            Origin::Value(value, at) if value > 0 && value % 64 != 0 && told.insert(at.start) => {
                let mut d = Diagnostic {
                    rule: RULE.id,
                    family: RULE.family,
                    severity: Severity::Error,
                    range: at.clone(),
                    message: format!(
                        "a block of {value} threads for `{name}` with a warp transpose: the library takes only whole wavefronts of 64 lanes and refuses to compile; use a multiple of 64 or a transpose by blocks"
                    ),
                    related: Vec::new(),
                    fix: None,
                };
                if at.start < place.start || at.end > place.end {
                    d.related
                        .push((place, "the primitive that gets this size".into()));
                }
                out.push(d);
            }
            Origin::Value(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn sizes_through_templates() {
        expect(
            RULE.id,
            "
#define SMALL 96
__global__ void fixed(const int* in) {
  using Load = rocprim::block_load<int, SMALL, 4, rocprim::block_load_method::block_load_warp_transpose>;
                                      //^ error: a block of 96 threads
  using Plain = rocprim::block_load<int, SMALL, 4, rocprim::block_load_method::block_load_transpose>;
  using Wide = hipcub::BlockStore<int, 2 * 64, 4, hipcub::BLOCK_STORE_WARP_TRANSPOSE>;
}
template <int ITEMS, int THREADS> __global__ void k(const int* in) {
  typedef hipcub::BlockLoad<int, THREADS, ITEMS, hipcub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
}
template <int BLOCK> void run(const int* in) { k<4, BLOCK><<<1, BLOCK>>>(in); }
int main() {
  run<256>(nullptr);
  run<32>(nullptr);
    //^ error: a block of 32 threads
  return 0;
}
",
        );
    }
}
