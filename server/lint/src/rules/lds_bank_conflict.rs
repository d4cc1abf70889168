//! `lds-bank-conflict`

use std::collections::HashSet;

use hipsmith_syntax::{Node, Scope, SharedArray};
use hipsmith_target::LdsAccess;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::facts::{Function, ancestor, walk};
use crate::lds::{Access, Degree, Padding, analyse};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lds-bank-conflict",
    family: Family::B,
    severity: Severity::Warning,
    scope: LooksAt::Function,
    summary: "The lanes of one LDS access meet on the same bank and take turns.",
    docs: r#"
## What it does
Works out the address of every lane for each read and write of a `__shared__` array and counts, with the target's lane
groups and banks, how many different words the busiest bank has to give in one turn. Four or more is a warning, two or
three a hint. Loop variables are unknown, or tried in their first iterations where the answer depends on them; guards
such as `if (tid < 32)` take lanes out.

Silent where the index, the size of an element or the shape of the block is not known. A kernel that uses only
`threadIdx.x` counts as one-dimensional.

## Why it matters on 64 lanes
The LDS has 32 banks of 4 bytes and serves a 4-byte access of a wavefront in two turns of 32 lanes. An array with rows
of 32 words has a whole column in one bank: reading it takes 32 turns instead of one, 16 times longer than the rest of
the access.

## Example that fires
```hip fires
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
void launch(const float* in, float* out, int n) { transpose<<<1, dim3(32, 32)>>>(in, out, n); }
```

## Example that does not
```hip quiet
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][32 + 1];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
void launch(const float* in, float* out, int n) { transpose<<<1, dim3(32, 32)>>>(in, out, n); }
```

## Fix
For a two-dimensional array: the smallest padding of a row that leaves none of its accesses in conflict and keeps
vector accesses aligned. Safe when the array is local to the function, is used only through its two subscripts, and
still fits the LDS. Otherwise the stride has to be changed by hand, or the column swizzled with an XOR.

## Sources
Target tables (`lds.read`, `lds.write`, lane groups); AMD's "LDS bank conflict" article and the CK-tile documentation.
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let Some((index, f)) = cx.subjects().next() else {
        return;
    };
    let accesses = analyse(cx, &[], Some(index), None);
    let mut said: HashSet<(Option<usize>, &str)> = HashSet::new();
    // The padding of an array is worked out once.
    let mut pads: Vec<(usize, Option<Fix>)> = Vec::new();
    for a in &accesses {
        let Ok(worst) = a.found.degree else { continue };
        let text = cx.source.get(a.found.range.clone()).unwrap_or_default();
        if worst.ways < 2 || !said.insert((a.array, text)) {
            continue;
        }
        let Some(array) = a.array else { continue };
        let Some(shared) = cx.model.shared.get(array) else {
            continue;
        };
        let fix = match pads.iter().find(|(i, _)| *i == array) {
            Some((_, fix)) => fix.clone(),
            None => {
                let fix = padding(cx, index, f, array, shared, &accesses);
                pads.push((array, fix.clone()));
                fix
            }
        };
        out.push(report(cx, shared, a, &worst, fix));
    }
}

fn report(
    cx: &Context<'_>,
    shared: &SharedArray,
    a: &Access,
    worst: &Degree,
    fix: Option<Fix>,
) -> Diagnostic {
    let kind = match (worst.access, a.found.reads) {
        (LdsAccess::Read, _) => "read",
        (LdsAccess::Write, _) => "write",
    };
    let doubt = if cx.target.lds.banks_known {
        ""
    } else {
        " (its bank count is not published; 32 is supposed)"
    };
    let advice = match &fix {
        Some(fix) => fix.title.clone(),
        None => "change the stride between lanes to an odd number of words, or swizzle the column"
            .into(),
    };
    let mut message = format!(
        "{}{}-way LDS bank conflict: this {kind} of {} bytes per lane takes {} turns of a wavefront instead of {} on {}{doubt}; {}",
        if worst.some_iterations { "up to " } else { "" },
        worst.ways,
        a.found.width_bytes.unwrap_or(0),
        worst.cycles,
        worst.ideal_cycles,
        cx.target.name,
        lower_first(&advice),
    );
    if worst.supposed_flat {
        message.push_str(" (supposing a one-dimensional block)");
    }
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: if worst.ways >= 4 {
            Severity::Warning
        } else {
            Severity::Hint
        },
        range: a.found.range.clone(),
        message,
        related: vec![(
            shared.name_range.clone(),
            format!("`{}` is declared here", shared.name),
        )],
        fix,
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_lowercase().chain(chars).collect())
}

/// The row padding that leaves no access of a two-dimensional array in conflict.
fn padding(
    cx: &Context<'_>,
    index: usize,
    f: &Function<'_>,
    array: usize,
    shared: &SharedArray,
    accesses: &[Access],
) -> Option<Fix> {
    if shared.dynamic || shared.dims.len() != 2 {
        return None;
    }
    let settings = cx.settings(index);
    let bound = settings
        .first()
        .map(|s| s.bound.as_slice())
        .unwrap_or_default();
    let scope = Scope::at(shared.name_range.start).with(bound);
    let element = i64::try_from(cx.model.size_of(&shared.element, &scope)?)
        .ok()
        .filter(|e| *e > 0)?;
    let own: Vec<&Access> = accesses.iter().filter(|a| a.array == Some(array)).collect();
    let widest = own
        .iter()
        .filter_map(|a| a.found.width_bytes)
        .map(i64::from)
        .max()
        .unwrap_or(element)
        .max(element);
    let unit = (widest / element).max(1);
    let pad = (1..=8).map(|k| k * unit).find(|pad| {
        let after = analyse(
            cx,
            &[],
            Some(index),
            Some(Padding {
                array,
                elements: *pad,
            }),
        );
        own.iter().all(|a| {
            // What is not known now stays as it is.
            let Ok(before) = a.found.degree else {
                return true;
            };
            after
                .iter()
                .find(|b| b.found.range == a.found.range)
                .and_then(|b| b.found.degree.ok())
                .is_some_and(|after| {
                    after.ways <= 1 || after.ways < before.ways && after.ways <= 2 && unit > 1
                })
        })
    })?;
    let last = shared.dims.last()?;
    let simple = last
        .text
        .trim()
        .chars()
        .all(|c| c.is_alphanumeric() || "_ *+-:".contains(c));
    let end = last.range.end;
    let edits = if simple {
        vec![(end..end, format!(" + {pad}"))]
    } else {
        vec![
            (last.range.start..last.range.start, "(".to_owned()),
            (end..end, format!(") + {pad}")),
        ]
    };
    // Only when every use goes through both subscripts does nothing else see the stride.
    let owner = shared.function.and_then(|m| cx.model.functions.get(m));
    let local = owner.is_some_and(|m| m.name_range == f.name_range);
    let mut covered = local;
    walk(f.body, &mut |n| {
        if n.kind() == "identifier"
            && cx.text(n) == shared.name
            && n.byte_range() != shared.name_range
        {
            covered &= ancestor(n, &["subscript_expression"], f.body)
                .is_some_and(|s| whole(cx, s, &shared.name) || vector(cx, s, &own));
        }
        true
    });
    let rows = shared
        .dims
        .first()
        .and_then(|d| cx.model.eval(&d.text, &scope));
    let fits = rows
        .and_then(|r| r.checked_mul(pad)?.checked_mul(element))
        .and_then(|more| u64::try_from(more).ok())
        .is_some_and(|more| fits(cx, f, more));
    let safety = if covered && fits {
        Safety::Safe
    } else {
        Safety::Unsafe
    };
    Some(Fix::new(
        format!(
            "Pad the rows of `{}` by {pad} element{}",
            shared.name,
            if pad == 1 { "" } else { "s" }
        ),
        edits,
        safety,
    ))
}

/// Whether `inner` is the row of a subscript that a known access goes through.
fn vector(cx: &Context<'_>, inner: Node<'_>, own: &[&Access]) -> bool {
    inner.parent().is_some_and(|outer| {
        outer.kind() == "subscript_expression"
            && outer.child_by_field_name("argument") == Some(inner)
            && own.iter().any(|a| {
                a.found.range.start <= outer.start_byte()
                    && outer.end_byte() <= a.found.range.end
                    && cx.text(outer).len() < a.found.range.len()
            })
    })
}

/// Whether a subscript is `name[i][j]` used as a value.
fn whole(cx: &Context<'_>, inner: Node<'_>, name: &str) -> bool {
    let Some(outer) = inner.parent() else {
        return false;
    };
    outer.kind() == "subscript_expression"
        && outer.child_by_field_name("argument") == Some(inner)
        && inner
            .child_by_field_name("argument")
            .is_some_and(|a| cx.text(a) == name)
        && outer
            .parent()
            .is_none_or(|p| !matches!(p.kind(), "pointer_expression" | "subscript_expression"))
}

/// Whether `more` bytes fit beside the LDS that every kernel with this function has now.
fn fits(cx: &Context<'_>, f: &Function<'_>, more: u64) -> bool {
    let limit = u64::from(cx.target.lds.max_bytes_per_workgroup);
    let Some(m) = cx
        .model
        .functions
        .iter()
        .position(|m| m.name_range == f.name_range)
    else {
        return false;
    };
    if cx.model.functions[m].kind != hipsmith_syntax::FunctionKind::Kernel {
        return false;
    }
    let launches: Vec<_> = cx.model.launches_of(m).collect();
    if launches.is_empty() {
        return cx
            .model
            .static_lds(m, &[])
            .bytes
            .is_some_and(|b| b + more <= limit);
    }
    launches.iter().all(|l| {
        let bound = cx.model.instance_of(m, l);
        let fixed = cx.model.static_lds(m, &bound).bytes;
        let dynamic = l.lds_bytes.and_then(|b| u64::try_from(b).ok());
        fixed
            .zip(dynamic)
            .is_some_and(|(a, b)| a + b + more <= limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn strides() {
        expect(
            RULE.id,
            "
__global__ void k(float* x, int n) {
  __shared__ float s[2048];
  __shared__ double d[64];
  s[threadIdx.x * 32] = x[0];
  //~ warning: 32-way LDS bank conflict: this write of 4 bytes per lane takes 64 turns of a wavefront instead of 2
  s[threadIdx.x * 2 + n] = x[1];
  //~ hint: 2-way
  s[threadIdx.x * 33] = x[2];
  s[threadIdx.x] = d[threadIdx.x];
  x[0] = s[n] + s[(threadIdx.x ^ 5) % 64] + s[n * threadIdx.x];
  if (threadIdx.x < 2) x[1] = s[threadIdx.x * 96];
                            //^ hint: 2-way
  if (threadIdx.x == n) x[2] = s[threadIdx.x * 32];
  for (int i = 0; i < 64; ++i) x[i] = s[threadIdx.x * 64 + (i ^ (threadIdx.x & 31))];
  for (int i = 0; i < 64; ++i) x[i] = s[threadIdx.x * 64 + i];
                                    //^ warning: 32-way
  for (int i = 1; i < 64; i *= 2) if (threadIdx.x * i * 2 < 64) x[i] = s[threadIdx.x * i * 2];
                                                                     //^ hint: up to 2-way
}
",
        );
    }

    #[test]
    fn two_dimensional_blocks_need_a_known_shape() {
        expect(
            RULE.id,
            "
#define N 16
template <int T> __global__ void t(float* x) {
  __shared__ float s[T][T];
  x[0] = s[threadIdx.x][threadIdx.y];
       //^ warning: 16-way
}
__global__ void u(float* x) {
  __shared__ float s[N][N];
  x[0] = s[threadIdx.x][threadIdx.y];
}
void go(float* x, dim3 b) {
  dim3 block(32, 8);
  t<32><<<1, block>>>(x);
  u<<<1, b>>>(x);
}
"
            .replace("16-way", "32-way")
            .as_str(),
        );
    }

    #[test]
    fn fix_pads_the_rows() {
        let head = "__global__ void t(float* x) {\n  __shared__ float s[32][32";
        let tail = "];\n  s[threadIdx.y][threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n  \
                    x[0] = s[threadIdx.x][threadIdx.y];\n}\nvoid go(float* x) { t<<<1, dim3(32, 32)>>>(x); }\n";
        expect_fix(
            RULE.id,
            &format!("{head}{tail}"),
            &format!("{head} + 1{tail}"),
            Safety::Safe,
        );
    }

    #[test]
    fn fix_of_an_array_that_is_handed_on_is_unsafe() {
        let source = |pad: &str| {
            format!(
                "__device__ void f(float (*s)[32]);\n__global__ void t(float* x) {{\n  __shared__ float s[32][32{pad}];\n  \
                 f(s);\n  x[0] = s[threadIdx.x][threadIdx.y];\n}}\nvoid go(float* x) {{ t<<<1, dim3(32, 32)>>>(x); }}\n"
            )
        };
        expect_fix(RULE.id, &source(""), &source(" + 1"), Safety::Unsafe);
    }
}
