//! `lds-quadratic-in-block`

use std::collections::BTreeSet;

use hipsmith_syntax::{Binding, Launch, Scope, lex};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope as LooksAt};

pub(super) static RULE: Rule = Rule {
    id: "lds-quadratic-in-block",
    family: Family::L,
    severity: Severity::Warning,
    scope: LooksAt::File,
    summary: "The dynamic LDS of a launch grows with the square of the block size and passes the limit at usual sizes.",
    docs: r#"
## What it does
Looks at launches whose block and dynamic LDS follow from one runtime value (a parameter of the host function), and
works out both for blocks of 128 and 256 threads. Reports the launch when 256 threads need more than a workgroup can
have and doubling the value more than triples the bytes.

## Why it matters on 64 lanes
CUDA devices raise the limit of a workgroup to 96 KB and more by an attribute. On Hygon's DCUs and AMD's gfx9 before
gfx950 it is 65,536 bytes whatever is asked for, so such a launch works in a test with few threads and fails in use.

## Example that fires
```hip fires
__global__ void count(int* x) { extern __shared__ int table[]; table[threadIdx.x] = x[0]; }
void run(int* x, int bins) {
  const int threads = max(bins, 64);
  const int bytes = (threads + 1) * bins * sizeof(int);
  count<<<1, threads, bytes>>>(x);
}
```

## Example that does not
```hip quiet
__global__ void count(int* x) { extern __shared__ int table[]; table[threadIdx.x] = x[0]; }
void run(int* x, int bins) {
  const int threads = max(bins, 64);
  const int bytes = 8 * bins * sizeof(int);
  count<<<1, threads, bytes>>>(x);
}
```

## Fix
Keep one factor of the size constant (rows for each wavefront instead of each thread) and loop over the rest. That
changes the algorithm, so no fix is offered.

## Sources
Target tables (`max_bytes_per_workgroup`, from LLVM and device queries).
"#,
    check,
};

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let limit = i64::from(cx.target.lds.max_bytes_per_workgroup);
    for launch in &cx.model.launches {
        let Some(bytes) = launch
            .lds_expr
            .as_ref()
            .filter(|_| launch.lds_bytes.is_none())
        else {
            continue;
        };
        let Some(value) = runtime_value(cx, launch) else {
            continue;
        };
        let at = |n: i64| -> Option<(i64, i64)> {
            let mut bound = vec![(value.clone(), Binding::Value(n))];
            // A name that every project gives to the wavefront's size, and that this file does not define.
            for name in ["WARP_SIZE", "WAVE_SIZE", "kWarpSize"] {
                let known = cx
                    .model
                    .eval(name, &Scope::at(launch.range.start))
                    .is_some();
                if !known {
                    bound.push((
                        name.to_owned(),
                        Binding::Value(i64::from(cx.target.wave_size)),
                    ));
                }
            }
            let scope = Scope::at(launch.range.start).with(&bound);
            let block = cx.model.eval_dims(&launch.block_expr.text, &scope)?;
            let threads = block.iter().try_fold(1i64, |a, b| a.checked_mul(*b))?;
            Some((threads, cx.model.eval(&bytes.text, &scope)?))
        };
        let (Some((128, half)), Some((256, whole))) = (at(128), at(256)) else {
            continue;
        };
        if whole <= limit || half <= 0 || whole / half < 3 {
            continue;
        }
        let from = [160, 192, 128, 96, 64]
            .into_iter()
            .filter_map(|n| Some((n, at(n)?.1)))
            .filter(|(_, b)| *b > limit)
            .min();
        let least = match from {
            Some((n, b)) if n < 256 => format!("; {n} already need {b}"),
            _ => String::new(),
        };
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Warning,
            range: bytes.range.clone(),
            message: format!(
                "the dynamic LDS grows with the square of `{value}`: 256 threads need {whole} bytes{least}, but a workgroup has at most {limit} on {} and no attribute raises that; keep one factor constant and loop",
                cx.target.name
            ),
            related: vec![(
                launch.block_expr.range.clone(),
                "the block grows with it too".to_owned(),
            )],
            fix: None,
        });
    }
}

/// The one variable without a known value that the block follows from.
fn runtime_value(cx: &Context<'_>, launch: &Launch) -> Option<String> {
    let mut leaves = BTreeSet::new();
    let mut todo = vec![(launch.block_expr.text.clone(), launch.range.start, 0)];
    while let Some((text, at, depth)) = todo.pop() {
        if depth > 4 || leaves.len() > 1 {
            return None;
        }
        for t in lex::tokens(&text) {
            let name = t.text(&text);
            if t.kind != lex::TokenKind::Ident || cx.model.eval(name, &Scope::at(at)).is_some() {
                continue;
            }
            let Some(v) = cx.model.variable_at(name, at) else {
                continue;
            };
            if v.ty.pointers > 0 {
                return None;
            }
            match &v.init {
                Some(init) => todo.push((init.text.clone(), init.range.start, depth + 1)),
                None => {
                    leaves.insert(name.to_owned());
                }
            }
        }
    }
    match leaves.len() {
        1 => leaves.pop_first(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn follows_variables_to_the_parameter() {
        expect(
            RULE.id,
            "
void go(int* x, int n, int m) {
  int threads = max((int)n, WARP_SIZE);
  const size_t bytes = ((threads + 1) * n + n + 1) * sizeof(int);
  k<<<1, threads, bytes>>>(x);
                //^ warning: 256 threads need 264,196
  k<<<1, threads, n * m * 4>>>(x);
  k<<<1, n, n * n>>>(x);
  k<<<dim3(4), dim3(n), n * n * 4>>>(x);
                      //^ warning: grows with the square of `n`
  k<<<1, 256, n * n * 4>>>(x);
  k<<<1, n, 512 * n>>>(x);
}
void dispatch(Tensor ids, int64_t n) {
  DISPATCH(ids.type(), \"name\", [&] {
    const int32_t threads = max((int32_t)n, WARP_SIZE);
    const int32_t bytes = ((threads + 1) * n + (n + 1)) * sizeof(int32_t);
    auto kernel = ns::k<scalar_t>;
    CHECK(SetMaxDynamicSharedMemorySize((void*)kernel, bytes));
    kernel<<<1, threads, bytes, stream>>>(ids.data_ptr<scalar_t>());
                       //^ warning: 256 threads need
  });
}
"
            .replace("264,196", "264196")
            .as_str(),
        );
    }
}
