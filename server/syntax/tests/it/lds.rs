//! Sizes of types, and the static LDS of kernel instances.

use hipsmith_syntax::{Binding, Document, Scope};
use proptest::prelude::*;

fn doc(text: &str) -> Document {
    Document::new(text.to_owned())
}

fn sizes(declarations: &str, want: &[(&str, u64, u64)]) {
    let d = doc(declarations);
    for (ty, size, align) in want {
        let at = Scope::file();
        assert_eq!(
            (d.model().size_of(ty, &at), d.model().align_of(ty, &at)),
            (Some(*size), Some(*align)),
            "{ty}"
        );
    }
}

#[test]
fn classes_are_laid_out_as_the_compiler_does() {
    sizes(
        "struct A { char c; double d; short s[3]; };\n\
         struct Empty {};\n\
         struct Derived : public A, Empty { char more; };\n\
         struct OnlyBase : Empty { int x; };\n\
         union U { float f[3]; double d; char c[17]; };\n\
         struct Bits { unsigned a : 3; unsigned b : 30; unsigned char c : 4; int : 0; char d; };\n\
         struct alignas(16) Wide { float x, y, z; };\n\
         struct __align__(8) Old { float x; };\n\
         struct __attribute__((packed)) Packed { char c; int i; };\n\
         struct Member { char c; alignas(16) float f; };\n\
         struct Virtual { virtual void f(); int x; };\n\
         struct Inner { struct { int a, b; }; union { char c; double d; } u[2]; struct Named { short s; }; Named n; };\n\
         struct Functions { Functions() : x(1) {} int f(int a) const { return a; } static int n; static constexpr int k = 4;\n\
           int x = 3, *p = nullptr, q[k]; int (*call)(int); enum E { ONE, TWO }; E e; friend struct A; using T = double; T t; };\n\
         typedef struct { char c; float4 v; } Named;\n\
         typedef float Row[8];\n\
         enum class Small : unsigned char { A, B };\n",
        &[
            ("A", 24, 8),
            ("Empty", 1, 1),
            ("Derived", 32, 8),
            ("OnlyBase", 4, 4),
            ("U", 24, 8),
            ("Bits", 16, 4),
            ("Wide", 16, 16),
            ("Old", 8, 8),
            ("Packed", 5, 1),
            ("Member", 32, 16),
            ("Virtual", 16, 8),
            ("Inner", 32, 8),
            ("Functions", 56, 8),
            ("Named", 32, 16),
            ("Row", 32, 4),
            ("Small", 1, 1),
            ("const struct A *", 8, 8),
            ("std::array<float2, 3>", 24, 8),
        ],
    );
}

#[test]
fn templates_and_their_specializations() {
    sizes(
        "template <typename T, int N = 4> struct Vec { T v[N]; static constexpr int size = N; using type = T; };\n\
         template <typename T> struct Vec<T, 3> { T x, y, z, pad; static constexpr int size = 4; };\n\
         template <> struct Vec<char, 8> { long all; static const int size = 1; };\n\
         template <typename T> struct Vec<T *, 2> { T *p; enum { size = 9 }; };\n\
         template <typename T> struct Traits { static constexpr int K = sizeof(T) * 2; typedef Vec<T, K> Tile; };\n\
         template <> struct Traits<half> { static constexpr int K = 32; typedef Vec<short, 2> Tile; };\n\
         template <typename T> using Pair = Vec<T, 2>;\n\
         struct Base { static constexpr int DEPTH = 3; }; struct More : Base { int x[DEPTH]; };\n\
         namespace ns { template <int N> struct Buffer { unsigned short data[N + 1]; }; }\n\
         using Chosen = std::conditional_t<(sizeof(float) > 2), Vec<float>, char>;\n",
        &[
            ("Vec<float>", 16, 4),
            ("Vec<double, 3>", 32, 8),
            ("Vec<char, 8>", 8, 8),
            ("Vec<int *, 2>", 8, 8),
            ("Vec<Vec<int, 2>, 5>", 40, 4),
            ("Traits<float>::Tile", 32, 4),
            ("typename Traits<half>::Tile", 4, 2),
            ("Pair<double>", 16, 8),
            ("typename Vec<double>::type", 8, 8),
            ("More", 12, 4),
            ("ns::Buffer<2 * 4>", 18, 2),
            ("Chosen", 16, 4),
        ],
    );
    let d = doc(
        "template <typename T, int N> struct V { static constexpr int size = N; };\n\
         template <typename T> struct V<T *, 2> { enum { size = 9 }; };\n\
         struct B { static constexpr int D = 3; }; struct M : B {};\n\
         template <typename T> struct Tr { static constexpr int K = std::is_same<T, float>::value ? 7 : 8; };\n",
    );
    for (text, want) in [
        ("V<int, 4>::size + V<char *, 2>::size", Some(13)),
        ("M::D * 2", Some(6)),
        ("Tr<float>::K * 10 + Tr<int>::K", Some(78)),
        (
            "std::is_same_v<unsigned, uint32_t> && !std::is_same<int, float>{}",
            Some(1),
        ),
        ("V<int, 4>::other", None),
    ] {
        assert_eq!(d.model().eval(text, &Scope::file()), want, "{text}");
    }
}

#[test]
fn functions_with_a_few_statements_have_values() {
    let d = doc(
        "constexpr int pow2(int n) { int p = 1; while (p < n) p *= 2; return p; }\n\
         constexpr int log2i(int n) { int l = 0; for (int i = 1; i < n; i <<= 1) ++l; return l; }\n\
         template <typename T> constexpr int pick(int n) { if constexpr (sizeof(T) == 4) { return n; } else return 2 * n; }\n\
         template <int N> __host__ __device__ constexpr int twice() { const int m = N; return m + m; }\n\
         constexpr int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }\n\
         constexpr int forever(int n) { while (true) { n += 1; } return n; }\n\
         struct S { static constexpr int of(int n) { return n + 1; } };\n\
         int runtime(); constexpr int bad(int n) { int x = runtime(); return x; }\n",
    );
    for (text, want) in [
        ("pow2(100)", Some(128)),
        ("log2i(64) + log2i(65)", Some(13)),
        ("pick<float>(8) + pick<double>(8)", Some(24)),
        ("twice<21>()", Some(42)),
        ("fact(5)", Some(120)),
        ("S::of(4)", Some(5)),
        ("forever(1)", None),
        ("bad(1)", None),
    ] {
        assert_eq!(d.model().eval(text, &Scope::file()), want, "{text}");
    }
}

fn lds(text: &str, bindings: &[(&str, Binding)]) -> Option<u64> {
    let d = doc(text);
    let m = d.model();
    let k = m.kernel("k").expect("there is a kernel k");
    let bound: Vec<(String, Binding)> = bindings
        .iter()
        .map(|(n, b)| ((*n).to_owned(), b.clone()))
        .collect();
    m.static_lds(k, &bound).bytes
}

#[test]
fn only_what_the_compiled_kernel_keeps_counts() {
    for (body, want) in [
        ("__shared__ float s[64];", 0),
        ("__shared__ float s[64]; s[x[0]] = 1;", 0),
        ("__shared__ float s[64]; s[x[0]] += 1;", 256),
        (
            "__shared__ float s[64]; __shared__ char c[3]; x[0] = s[1] + c[2];",
            260,
        ),
        ("__shared__ double a; __shared__ char c; x[0] = a + c;", 16),
        // A 9-byte array is aligned to 16.
        (
            "__shared__ char a[9]; __shared__ char b[9]; x[0] = a[1] + b[2];",
            25,
        ),
        (
            "__shared__ int n; if (x[0]) { n = 0; n += 4; x[1] = n; }",
            0,
        ),
        ("__shared__ int n; if (x[0]) n = 0; x[1] = n;", 4),
        ("__shared__ int n; n = 0; __syncthreads(); x[1] = n;", 4),
        (
            "auto f = [&]() { __shared__ float s[8]; return s[1]; }; x[0] = f();",
            32,
        ),
        (
            "__shared__ float *p; p = x; __syncthreads(); x[0] = p[1];",
            8,
        ),
        ("__shared__ float s[4], t[4]; x[0] = s[1] + t[1];", 32),
    ] {
        let text = format!("__global__ void k(int *x) {{ {body} }}");
        assert_eq!(lds(&text, &[]), Some(want), "{body}");
    }
}

#[test]
fn instances_take_their_branches() {
    let text = "template <typename T> struct Tr { static constexpr int K = 64 / sizeof(T); };\n\
        template <typename T, int N> __device__ T one(T v) { __shared__ T s[N]; s[0] = v; __syncthreads(); return s[1]; }\n\
        template <typename T, bool BIG> __global__ void k(T *x) {\n\
          if constexpr (BIG) { __shared__ T a[1024]; x[0] += a[1]; } else { x[0] = one<T, Tr<T>::K>(x[0]); }\n\
          constexpr int ROWS = Tr<T>::K + 1; using Row = T[4]; __shared__ Row b[ROWS]; x[1] += b[0][1];\n}\n";
    let bound = |ty: &str, big: i64| {
        [
            ("T", Binding::Type(ty.to_owned())),
            ("BIG", Binding::Value(big)),
        ]
    };
    assert_eq!(lds(text, &bound("float", 1)), Some(4096 + 17 * 16));
    assert_eq!(lds(text, &bound("double", 0)), Some(64 + 9 * 32));
    assert_eq!(lds(text, &[]), None);
}

#[test]
fn template_arguments_are_deduced_from_what_is_passed() {
    let text = "template <typename T, int N> struct Tile { T v[N]; };\n\
        template <typename T> __device__ T sum(T v) { __shared__ T s[16]; s[0] = v; __syncthreads(); return s[1]; }\n\
        template <typename T> __device__ void on(const T *p, int n) { __shared__ T s[2]; s[0] += p[n]; }\n\
        template <typename T, int N> __device__ void tiles(Tile<T, N> &t) { __shared__ T s[N]; s[0] += t.v[0]; }\n\
        __device__ float plain(float v) { __shared__ float s[4]; s[0] += v; return s[1]; }\n\
        __device__ double plain(double v, int) { __shared__ double s[400]; s[0] += v; return s[1]; }\n\
        #define CALL(v) plain(v)\n";
    for (body, want) in [
        ("x[0] = sum(x[1]);", 128),
        ("x[0] = sum(1.0f);", 64),
        ("x[0] = sum((short)1);", 32),
        ("float v = 1; x[0] = sum(v) + sum(v + 1);", 64),
        ("x[0] = sum(1) + sum(1.0);", 64 + 128),
        ("on(x, 3);", 16),
        (
            "__shared__ int a[8]; a[1]++; on(&a[2], 3); on(a, 1);",
            32 + 8,
        ),
        ("Tile<int, 12> t; tiles(t);", 48),
        ("x[0] = CALL(2.0f);", 16),
        ("auto v = x[3]; x[0] = sum(v);", 128),
    ] {
        let text = format!("{text}__global__ void k(double *x) {{ {body} }}");
        assert_eq!(lds(&text, &[]), Some(want), "{body}");
    }
}

#[test]
fn members_bring_their_own() {
    let text = "template <int N> struct Reduce { __device__ float operator()(float v); __device__ float run(float v) { __shared__ float s[N]; s[0] += v; return s[1]; } };\n\
        struct Other { __device__ float run(float v) { __shared__ float s[999]; s[0] += v; return s[1]; } };\n\
        __shared__ int shared_by_all[10]; __shared__ int unused[10];\n\
        __device__ void helper() { shared_by_all[1]++; }\n\
        __global__ void k(float *x) { Reduce<8> r; x[0] = r.run(x[1]); helper(); shared_by_all[0]++; }\n";
    assert_eq!(lds(text, &[]), Some(48 + 32));
}

#[test]
fn kernels_that_the_grammar_loses_are_found() {
    let d = doc("#define BOUNDS(a, b) __launch_bounds__(a)\n\
        template <class real>\n__global__ void\nBOUNDS (64, 2)\ngr(const real* P, int n) { __shared__ real s[32]; s[n] = P[0]; P[1] = s[2] @ 3; }\n\
        __global__ void k(float *x) { REPEAT(8, x[0] = ) @@ x[1]; } }\n");
    let m = d.model();
    let (gr, bound) = m
        .find_instance("gr", &["double".to_owned()], &[])
        .expect("it is there");
    assert_eq!(m.static_lds_of(gr, &bound).bytes, Some(256));
    assert_eq!(m.functions.iter().filter(|f| f.name == "gr").count(), 1);
    let f = &m.functions[gr.index];
    assert_eq!(f.params[0].ty.base, "real");
    assert_eq!(
        (f.params[0].ty.pointers, f.params[1].name.as_str()),
        (1, "n")
    );
    assert!(m.kernel("k").is_some());
}

#[test]
fn dynamic_lds_macro_needs_no_semicolon() {
    let d = doc(
        "__global__ void k(int *x) {\n  HIP_DYNAMIC_SHARED(int, dyn)\n  __shared__ int n[2]; n[0] += dyn[0]; x[0] = n[1]; }",
    );
    assert!(!d.root().has_error());
    let m = d.model();
    assert_eq!(m.static_lds(0, &[]).bytes, Some(8));
    assert!(m.shared.iter().any(|s| s.name == "dyn" && s.dynamic));
}

proptest! {
    #[test]
    fn a_structure_is_no_smaller_than_its_parts(
        fields in prop::collection::vec((0usize..6, 1u64..9), 1..8)
    ) {
        let kinds = [("char", 1), ("short", 2), ("int", 4), ("float", 4), ("double", 8), ("float4", 16)];
        let mut text = "struct S { ".to_owned();
        let (mut at, mut align) = (0u64, 1u64);
        for (i, (kind, n)) in fields.iter().enumerate() {
            let (name, size) = kinds[*kind];
            text.push_str(&format!("{name} m{i}[{n}]; "));
            at = at.next_multiple_of(size) + size * n;
            align = align.max(size);
        }
        text.push_str("};");
        let d = doc(&text);
        let got = (d.model().size_of("S", &Scope::file()), d.model().align_of("S", &Scope::file()));
        prop_assert_eq!(got, (Some(at.next_multiple_of(align)), Some(align)), "{}", text);
    }

    #[test]
    fn odd_classes_and_calls_never_panic(
        text in "(struct |template |<|>|T|A|\\{|\\}|;|int |\\[|\\]|3|::|\\(|\\)|,|: |=|static constexpr |virtual |using |__shared__ |__global__ void k|if constexpr|\n|#define A |sizeof){0,60}"
    ) {
        let d = doc(&text);
        let m = d.model();
        let _ = m.size_of("A<T, 3>::A", &Scope::file());
        let _ = m.eval("A<3>::T + A(3) + sizeof(T)", &Scope::file());
        for (k, _) in m.kernels() {
            let _ = m.static_lds(k, &[]);
        }
    }
}
