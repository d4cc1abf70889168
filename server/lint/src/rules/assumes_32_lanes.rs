//! `assumes-32-lanes`

use hipsmith_syntax::Node;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::facts::{Function, binary, unparenthesized, walk};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "assumes-32-lanes",
    family: Family::W,
    severity: Severity::Error,
    scope: Scope::Function,
    summary: "The code asserts, or gives up unless, the wave size is 32: on 64 lanes it stops there.",
    docs: r#"
## What it does
Reports an assertion that the device's wave size (`warpSize`, a field of that name, or a variable that the program asks the
device for) is 32, and an `if` on it that leaves: returns an error, exits, aborts or throws.

Silent for a constant of the program's own, such as `static_assert(kWarp == 32)`: that says how the code works, not what
the device is.

## Why it matters on 64 lanes
The wave size of all targets here is 64. The assertion fails at compile time or in the first run, and behind it stands code
that needs 32 lanes: both have to change.

## Example that fires
```hip fires
__global__ void k(float* x) {
  assert(warpSize == 32);
  x[threadIdx.x] *= 2;
}
```

## Example that does not
```hip quiet
constexpr int kWarp = 32;
static_assert(kWarp == 32, "tiles are laid out for this");
__global__ void k(float* x) {
  if (warpSize == 32) x[0] = 1;
  x[threadIdx.x / kWarp] *= 2;
}
```

## Fix
Make the code behind it independent of the wave size, or give it groups of 32 lanes (shuffles with a width of 32), and drop
the assertion. No fix is offered.

## Sources
QMCPACK and HeCBench's mpc, which refuse to run on 64 lanes.
"#,
    check,
};

/// Whether `node` is the device's wave size.
fn is_wave_size<'t>(cx: &Context<'t>, f: Option<&Function<'t>>, node: Node<'t>) -> bool {
    let node = unparenthesized(node);
    let named = |text: &str| {
        let plain = text.to_ascii_lowercase().replace('_', "");
        plain == "warpsize" || plain == "wavefrontsize" || plain == "wavesize"
    };
    match node.kind() {
        "field_expression" => node
            .child_by_field_name("field")
            .is_some_and(|n| named(cx.text(n))),
        "identifier" => {
            let name = cx.text(node);
            if name == "warpSize" && !cx.redefines(name) {
                let own = f.and_then(|f| f.bindings.resolve(name, node.start_byte()));
                if own.is_none() {
                    return true;
                }
            }
            // `int warp_size = prop.warpSize;`, `hipDeviceGetAttribute(&warp_size, hipDeviceAttributeWarpSize, 0);`
            let Some(f) = f else { return false };
            f.bindings
                .resolve(name, node.start_byte())
                .is_some_and(|b| {
                    let read = b
                        .init
                        .is_some_and(|i| i.kind() != "identifier" && is_wave_size(cx, None, i));
                    let asked = b.escapes
                        && f.calls.iter().any(|c| {
                            c.name.contains("DeviceGetAttribute")
                                && c.args
                                    .first()
                                    .is_some_and(|a| cx.text(*a).trim_start_matches('&') == name)
                                && c.args
                                    .get(1)
                                    .is_some_and(|a| cx.text(*a).contains("WarpSize"))
                        });
                    read || asked
                })
        }
        _ => false,
    }
}

/// A comparison in `node` that is true (`wanted`) or false on 32 lanes only.
fn tests_for_32<'t>(
    cx: &Context<'t>,
    f: Option<&Function<'t>>,
    node: Node<'t>,
    wanted: bool,
) -> Option<Node<'t>> {
    let node = unparenthesized(node);
    let b = binary(node)?;
    match (b.operator, wanted) {
        ("&&", true) | ("||", false) => {
            return tests_for_32(cx, f, b.left, wanted)
                .or_else(|| tests_for_32(cx, f, b.right, wanted));
        }
        ("==", true) | ("!=", false) => {}
        _ => return None,
    }
    [(b.left, b.right), (b.right, b.left)]
        .into_iter()
        .any(|(size, number)| cx.text(unparenthesized(number)) == "32" && is_wave_size(cx, f, size))
        .then_some(node)
}

/// Whether a statement ends the program or the function.
fn gives_up(cx: &Context<'_>, body: Node<'_>) -> bool {
    let mut found = false;
    walk(body, &mut |n| {
        found |= match n.kind() {
            "throw_statement" => true,
            // A function without a result may return early for other reasons than a fault.
            "return_statement" => n.named_child_count() > 0,
            "call_expression" => {
                let name = crate::facts::callee_name(cx.source, n);
                matches!(
                    name,
                    "exit" | "abort" | "_Exit" | "quick_exit" | "terminate" | "assert" | "__trap"
                )
            }
            _ => false,
        };
        !found
    });
    found
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    // The size is asked for by this name, or by the attribute's.
    if !cx.source.contains("32")
        || !["arpSize", "warp_size"]
            .iter()
            .any(|w| cx.source.contains(w))
    {
        return;
    }
    for (_, f) in cx.subjects() {
        for call in &f.calls {
            let lower = call.name.to_ascii_lowercase();
            let asserts = ["assert", "check", "require", "verify"]
                .iter()
                .any(|w| lower.contains(w));
            if !asserts {
                continue;
            }
            let equal = lower.ends_with("_eq");
            let test = match call.args[..] {
                [a, b, ..] if equal => {
                    let (a, b) = if cx.text(a) == "32" { (b, a) } else { (a, b) };
                    (cx.text(b) == "32" && is_wave_size(cx, Some(f), a)).then_some(call.node)
                }
                [test, ..] => tests_for_32(cx, Some(f), test, true),
                [] => None,
            };
            if let Some(test) = test.filter(|t| !cx.only_on_32(f, *t)) {
                out.push(diagnostic(cx, test, "the assertion fails"));
            }
        }
        if cx.text(f.body).contains("static_assert") {
            static_asserts(cx, Some(f), f.body, out);
        }
        for (what, node) in f.body.notable() {
            if what != hipsmith_syntax::Notable::If || node.has_error() {
                continue;
            }
            let (Some(condition), Some(then)) = (
                node.child_by_field_name("condition"),
                node.child_by_field_name("consequence"),
            ) else {
                continue;
            };
            let condition = condition
                .child_by_field_name("value")
                .filter(|_| condition.kind() == "condition_clause")
                .unwrap_or(condition);
            if let Some(test) = tests_for_32(cx, Some(f), condition, false)
                && gives_up(cx, then)
            {
                out.push(diagnostic(cx, test, "the code gives up here"));
            }
        }
    }
    if cx.is_outside_functions() && cx.source.contains("static_assert") {
        let root = cx.document.root();
        static_asserts(cx, None, root, out);
    }
}

/// The `static_assert`s in a function, or outside of all.
fn static_asserts<'t>(
    cx: &Context<'t>,
    f: Option<&Function<'t>>,
    node: Node<'t>,
    out: &mut Vec<Diagnostic>,
) {
    walk(node, &mut |n| {
        if n.kind() == "static_assert_declaration" {
            let condition = n.child_by_field_name("condition");
            if let Some(test) = condition.and_then(|c| tests_for_32(cx, f, c, true)) {
                out.push(diagnostic(cx, test, "this does not compile"));
            }
            return false;
        }
        // Expressions hold no declarations of this kind.
        !n.kind().ends_with("expression") && (f.is_some() || n.kind() != "function_definition")
    });
}

fn diagnostic(cx: &Context<'_>, test: Node<'_>, effect: &str) -> Diagnostic {
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity: Severity::Error,
        range: test.byte_range(),
        message: format!(
            "{} runs 64 lanes, so {effect}; make what needs 32 lanes independent of the wave size, or give it groups of 32 (shuffles with a width)",
            cx.target.name
        ),
        related: Vec::new(),
        fix: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::expect;

    #[test]
    fn assertions_and_exits() {
        expect(
            RULE.id,
            "
constexpr int kWarp = 32;
static_assert(kWarp == 32, \"\");
static_assert(warpSize == 32, \"\");
            //^ error: does not compile
__global__ void k(float* x) {
  assert(warpSize == 32 && x);
       //^ error: the assertion fails
  MY_ASSERT(32 == warpSize);
          //^ error: the assertion fails
  static_assert(kWarp == 32, \"\");
  assert(warpSize == 64);
  if (warpSize != 32) return;
}
int main() {
  hipDeviceProp_t prop;
  hipGetDeviceProperties(&prop, 0);
  if (prop.warpSize != 32) { printf(\"no\"); exit(1); }
    //^ error: gives up here
  CHECK_EQ(prop.warpSize, 32);
//^ error: the assertion fails
  int warp_size = prop.warpSize;
  if (warp_size != 32 || !prop.name) return -1;
    //^ error: gives up here
  int asked;
  hipDeviceGetAttribute(&asked, hipDeviceAttributeWarpSize, 0);
  if (32 != asked) abort();
    //^ error: gives up here
  if (prop.warpSize != 32) printf(\"slow\");
  if (prop.warpSize == 32) return 1;
  int warpSize = 32;
  assert(warpSize == 32);
}
",
        );
    }
}
