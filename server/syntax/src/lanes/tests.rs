//! Lane evaluation against a plain interpreter: what [`Lanes`] says of an expression must hold for every value that
//! its unknowns can take.

use proptest::prelude::*;

use super::{Bindings, Evaluator, Geometry, LANES, Names, Op, Uniform};

/// An expression with its C text and its meaning.
#[derive(Clone, Debug)]
enum Expr {
    Number(i64),
    /// `threadIdx.x`, `.y`, `.z`
    Thread(usize),
    /// A kernel parameter: the same for all lanes, not known.
    Parameter(usize),
    Binary(Op, &'static str, Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Complement(Box<Expr>),
}

impl Expr {
    fn text(&self) -> String {
        match self {
            Expr::Number(n) => n.to_string(),
            Expr::Thread(axis) => format!("(int)threadIdx.{}", ["x", "y", "z"][*axis]),
            Expr::Parameter(p) => format!("p{p}"),
            Expr::Binary(_, token, a, b) => format!("({} {token} {})", a.text(), b.text()),
            Expr::Choose(c, a, b) => format!("({} ? {} : {})", c.text(), a.text(), b.text()),
            Expr::Negate(a) => format!("(-({}))", a.text()),
            Expr::Complement(a) => format!("(~({}))", a.text()),
        }
    }

    /// The value for one thread; `None` where C leaves it undefined or it leaves the range of `int`.
    fn value(&self, thread: [i64; 3], parameters: &[i64]) -> Option<i64> {
        let v = match self {
            Expr::Number(n) => *n,
            Expr::Thread(axis) => thread[*axis],
            Expr::Parameter(p) => parameters[*p],
            Expr::Binary(op, _, a, b) => {
                // C does not look at the right side when the left one decides.
                let a = a.value(thread, parameters)?;
                match op {
                    Op::LogicalAnd if a == 0 => 0,
                    Op::LogicalOr if a != 0 => 1,
                    _ => op.apply(a, b.value(thread, parameters)?)?,
                }
            }
            Expr::Choose(c, a, b) => {
                if c.value(thread, parameters)? != 0 {
                    a.value(thread, parameters)?
                } else {
                    b.value(thread, parameters)?
                }
            }
            Expr::Negate(a) => -a.value(thread, parameters)?,
            Expr::Complement(a) => !a.value(thread, parameters)?,
        };
        i32::try_from(v).ok().map(i64::from)
    }
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        4 => (0i64..70).prop_map(Expr::Number),
        2 => prop::sample::select(vec![2, 4, 8, 16, 31, 32, 63, 64]).prop_map(Expr::Number),
        5 => (0usize..2).prop_map(Expr::Thread),
        2 => (0usize..2).prop_map(Expr::Parameter),
    ];
    let ops = vec![
        (Op::Add, "+"),
        (Op::Sub, "-"),
        (Op::Mul, "*"),
        (Op::Mul, "*"),
        (Op::Div, "/"),
        (Op::Rem, "%"),
        (Op::Shl, "<<"),
        (Op::Shr, ">>"),
        (Op::And, "&"),
        (Op::Or, "|"),
        (Op::Xor, "^"),
        (Op::Lt, "<"),
        (Op::Ge, ">="),
        (Op::Eq, "=="),
        (Op::LogicalAnd, "&&"),
        (Op::LogicalOr, "||"),
    ];
    leaf.prop_recursive(5, 40, 3, move |inner| {
        prop_oneof![
            8 => (prop::sample::select(ops.clone()), inner.clone(), inner.clone())
                .prop_map(|((op, t), a, b)| Expr::Binary(op, t, a.into(), b.into())),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Expr::Choose(c.into(), a.into(), b.into())),
            1 => inner.clone().prop_map(|a| Expr::Negate(a.into())),
            1 => inner.prop_map(|a| Expr::Complement(a.into())),
        ]
    })
}

struct NoNames;
impl Names for NoNames {
    fn constant(&self, _: &str, _: usize) -> Option<i64> {
        None
    }
}

fn parse(source: &str) -> crate::Document {
    crate::Document::new(source)
}

/// Evaluate the expression that `x` is initialized with in the kernel `source`.
fn evaluate(source: &str, geometry: Geometry) -> Option<super::Lanes> {
    let tree = parse(source);
    let function = tree.root().named_child(0).expect("a function");
    assert_eq!(function.kind(), "function_definition");
    let bindings = Bindings::of(source, function);
    let eval = Evaluator::new(source, &NoNames, &bindings, geometry, true);
    let x = bindings
        .iter()
        .find(|b| &source[b.name.byte_range()] == "x")
        .expect("x is declared");
    eval.eval(x.init.expect("x has a value"))
}

/// Hold what the evaluator says against the interpreter.
fn agrees(e: &Expr, geometry: Geometry, threads: &[[i64; 3]; LANES], parameters: &[i64]) {
    let source = format!("void k(int p0, int p1) {{ int x = {}; }}", e.text());
    let Some(lanes) = evaluate(&source, geometry) else {
        return;
    };
    let mut values = Vec::new();
    for (lane, thread) in threads.iter().enumerate() {
        match e.value(*thread, parameters) {
            Some(v) => values.push((lane, v)),
            // A program that overflows or divides by zero is not correct: nothing is promised.
            None => return,
        }
    }
    let (first, value) = values[0];
    let shared = value - lanes.lanes()[first];
    for (lane, v) in &values {
        assert_eq!(
            v - lanes.lanes()[*lane],
            shared,
            "lane {lane} of {source} with {parameters:?}: {lanes:?}"
        );
    }
    match lanes.shared() {
        Uniform::Zero => assert_eq!(shared, 0, "{source}: {lanes:?}"),
        Uniform::Unknown {
            multiple,
            nonnegative,
        } => {
            assert_eq!(
                shared % multiple,
                0,
                "{source}: {shared} is no multiple of {multiple}"
            );
            assert!(
                !nonnegative || shared >= 0,
                "{source}: {shared} is negative"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holds_in_a_known_block(
        e in expr(),
        x in prop::sample::select(vec![8u32, 16, 32, 64, 128]),
        y in 1u32..5,
        wave in 0u32..2,
        p0 in -100i64..100,
        p1 in 0i64..2000,
    ) {
        let threads: [[i64; 3]; LANES] = std::array::from_fn(|lane| {
            let linear = i64::from(wave) * 64 + lane as i64;
            let (x, y) = (i64::from(x), i64::from(y));
            [linear % x, linear / x % y, linear / (x * y)]
        });
        agrees(&e, Geometry::Block { shape: [x, y, 16], wave }, &threads, &[p0, p1]);
    }

    #[test]
    fn holds_in_any_wide_block(
        e in expr(),
        wave in 0i64..16,
        y in 0i64..4,
        p0 in -100i64..100,
        p1 in 0i64..2000,
    ) {
        let threads: [[i64; 3]; LANES] = std::array::from_fn(|lane| [wave * 64 + lane as i64, y, 0]);
        agrees(&e, Geometry::Wide, &threads, &[p0, p1]);
    }
}

fn known(source: &str, geometry: Geometry) -> Vec<i64> {
    evaluate(source, geometry)
        .and_then(|l| l.values().map(|v| v.to_vec()))
        .unwrap_or_default()
}

#[test]
fn folds_through_variables() {
    let lane32: Vec<i64> = (0..64).map(|l| l % 32).collect();
    for body in [
        "int tid = threadIdx.x; int lane = tid & 31; int x = lane;",
        "const unsigned lane = threadIdx.x % 32u; auto x = lane;",
        "int lane; lane = threadIdx.x & 0x1f; int x = lane;",
        "int x = (blockIdx.x * blockDim.x + threadIdx.x) % 32;",
        "int x(hipThreadIdx_x & (warpSize / 2 - 1));",
        "int x = static_cast<int>(threadIdx.x) & 31;",
    ] {
        assert_eq!(
            known(&format!("void k(int n) {{ {body} }}"), Geometry::Wide),
            lane32,
            "{body}"
        );
    }
}

#[test]
fn no_answer_rather_than_a_guess() {
    for body in [
        "int i = threadIdx.x; i += data[i]; int x = i;",
        "int i = threadIdx.x; if (n) i = 0; int x = i;",
        "int x = threadIdx.x * n;",
        "int x = threadIdx.x / n;",
        "int x = (threadIdx.x + n) / 32;",
        "int x = (threadIdx.x + n) % 32;",
        "int x = data[threadIdx.x];",
        "int i = threadIdx.x; f(&i); int x = i;",
        "float x = threadIdx.x * 0.5f;",
        "for (int i = 0; i < n; i += threadIdx.x) { int x = i; }",
    ] {
        let source = format!("void k(int n) {{ {body} }}");
        assert_eq!(evaluate(&source, Geometry::Wide), None, "{body}");
    }
}

#[test]
fn loops_are_a_start_and_a_uniform_distance() {
    let source = "void k(int n) { for (int i = threadIdx.x; i < n; i += 128) { int x = i & 63; } }";
    let tree = parse(source);
    let f = tree.root().named_child(0).expect("a function");
    let bindings = Bindings::of(source, f);
    let eval = Evaluator::new(source, &NoNames, &bindings, Geometry::Wide, true);
    let x = bindings
        .iter()
        .find(|b| &source[b.name.byte_range()] == "x")
        .expect("x");
    let lanes = eval
        .eval(x.init.expect("a value"))
        .expect("a known lane part");
    assert_eq!(
        lanes.values().map(|v| v.to_vec()),
        Some((0..64).collect::<Vec<i64>>())
    );
}

#[test]
fn iterations_follow_the_step() {
    let steps = |head: &str| {
        let source = format!("void k(int n) {{ for ({head}) {{ f(i); }} }}");
        let tree = parse(&source);
        let f = tree.root().named_child(0).expect("a function");
        let bindings = Bindings::of(&source, f);
        let eval = Evaluator::new(&source, &NoNames, &bindings, Geometry::Wide, true);
        let i = bindings
            .iter()
            .find(|b| &source[b.name.byte_range()] == "i")
            .expect("i");
        eval.iterations(i, 8)
    };
    assert_eq!(steps("int i = 16; i > 0; i >>= 1"), [16, 8, 4, 2, 1]);
    assert_eq!(
        steps("int i = warpSize / 2; i > 0; i /= 2"),
        [32, 16, 8, 4, 2, 1]
    );
    assert_eq!(steps("int i = 1; i < 32; i = i * 2"), [1, 2, 4, 8, 16]);
    assert_eq!(steps("int i = 0; i < 3; ++i"), [0, 1, 2]);
    assert_eq!(steps("int i = 5; i >= 0; i -= 2"), [5, 3, 1]);
    assert_eq!(steps("int i = n; i < 3; ++i"), [0i64; 0]);
}

#[test]
fn template_parameters_are_pinned() {
    let source = "template <int N> void k(int n) { int x = threadIdx.x % N; }";
    let tree = parse(source);
    let function = tree
        .root()
        .descendants()
        .find(|n| n.kind() == "function_definition")
        .expect("a function");
    let bindings = Bindings::of(source, function);
    let eval = Evaluator::new(source, &NoNames, &bindings, Geometry::Wide, true);
    let x = bindings.resolve("x", source.len() - 2).expect("x");
    let init = x.init.expect("a value");
    assert_eq!(eval.eval(init), None);
    let n = bindings.resolve("N", source.len() - 2).expect("N");
    eval.pin(n, Some(16));
    let sixteen: Vec<i64> = (0..64).map(|l| l % 16).collect();
    assert_eq!(
        eval.eval(init).and_then(|l| l.values().map(|v| v.to_vec())),
        Some(sixteen)
    );
}

#[test]
fn variables_that_are_written_again() {
    // The lane parts of `use(x)`, lane 0 taken away; nothing when they are not known.
    let lanes = |body: &str| {
        let source = format!("void k(int n, int* data) {{ int t = threadIdx.x; {body} }}");
        let tree = parse(&source);
        let function = tree.root().named_child(0).expect("a function");
        let bindings = Bindings::of(&source, function);
        let eval = Evaluator::new(&source, &NoNames, &bindings, Geometry::Wide, true);
        let call = function
            .descendants()
            .find(|n| n.kind() == "call_expression" && source[n.byte_range()].starts_with("use("))
            .expect("a use");
        let argument = call
            .child_by_field_name("arguments")
            .and_then(|a| a.named_child(0))
            .expect("an argument");
        let value = eval.eval(argument)?;
        let first = value.lanes()[0];
        Some(value.lanes().map(|v| v - first)[..3].to_vec())
    };
    let together = Some(vec![0, 1, 2]);
    assert_eq!(lanes("int x; x = t; use(x);"), together);
    assert_eq!(lanes("int x = 0; x = t; use(x);"), together);
    assert_eq!(lanes("int x = t; x += n; use(x);"), together);
    assert_eq!(lanes("int x = t; while (n) { use(x); x += 4; }"), together);
    assert_eq!(
        lanes("int x = t; while (n) { x = x + n; } use(x);"),
        together
    );
    assert_eq!(lanes("int x = t; if (n) x++; use(x);"), together);
    assert_eq!(
        lanes("int x; for (x = t; x < n; x += 64) use(x);"),
        together
    );
    assert_eq!(
        lanes("int x = t; if (data[t]) { x = 2 * t; use(x); }"),
        Some(vec![0, 2, 4])
    );
    // Lanes that have gone round more often than others, or moved alone.
    assert_eq!(
        lanes("int x = t; while (data[x]) { x += 4; } use(x);"),
        None
    );
    assert_eq!(lanes("int x = t; if (data[t]) x += 4; use(x);"), None);
    assert_eq!(lanes("int x = t; if (n) x = 2 * t; use(x);"), None);
    assert_eq!(lanes("int x = t; while (n) { use(x); x = 2 * x; }"), None);
    assert_eq!(lanes("int x = t; x += data[t]; use(x);"), None);
    assert_eq!(
        lanes("int x = t; while (n) { if (data[t]) continue; x += 4; use(x); }"),
        None
    );
    assert_eq!(
        lanes("int x = t; while (n) { if (data[t]) break; x += 4; } use(x);"),
        None
    );
    assert_eq!(
        lanes("int x = t; while (n) { if (data[t]) break; x += 4; use(x); }"),
        together
    );
    assert_eq!(lanes("int x = t; f(&x); use(x);"), None);
}
