//! Kernel models of small texts.

use std::sync::Arc;

use hipsmith_syntax::{Binding, Document, FunctionKind, LaunchSyntax, Options, Scope, is_hip};
use hipsmith_target::by_name;

fn doc(text: &str) -> Document {
    Document::new(text.to_owned())
}

#[test]
fn functions_of_all_kinds() {
    let d = doc("#define HD __host__ __device__\n\
        extern \"C\" __global__ void __launch_bounds__(256, 2) a(const float *__restrict__ x, float y[], int n) {}\n\
        __launch_bounds__(4 * 64)\n__global__ void b() {}\n\
        static __device__ __forceinline__ float &c(float &v) { return v; }\n\
        HD inline int d(int) { return 1; }\n\
        int main() { return 0; }\n\
        template <typename T, int N = 4, class U = T> __global__ /* k */ void e(T *p) { }\n\
        __attribute__((amdgpu_flat_work_group_size(1, 64))) __global__ void f() {}\n\
        __device__ void declared(int);\n\
        namespace n { struct S { __device__ int method(int a) const { return a; } }; }\n");
    let m = d.model();
    let kinds: Vec<(&str, FunctionKind)> = m
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.kind))
        .collect();
    use FunctionKind::*;
    assert_eq!(
        kinds,
        [
            ("a", Kernel),
            ("b", Kernel),
            ("c", Device),
            ("d", HostDevice),
            ("main", Host),
            ("e", Kernel),
            ("f", Kernel),
            ("method", Device)
        ]
    );
    let a = &m.functions[0];
    let bounds = a
        .launch_bounds
        .as_ref()
        .map(|b| (b.max_threads, b.min_blocks));
    assert_eq!(bounds, Some((Some(256), Some(2))));
    assert_eq!(
        m.functions[1]
            .launch_bounds
            .as_ref()
            .and_then(|b| b.max_threads),
        Some(256)
    );
    let x = &a.params[0];
    assert_eq!(
        (x.name.as_str(), x.ty.base.as_str(), x.ty.pointers),
        ("x", "float", 1)
    );
    assert!(x.ty.is_const && x.ty.is_restrict && !x.ty.is_reference);
    assert_eq!(a.params[1].ty.pointers, 1);
    assert_eq!(a.params[2].ty.base, "int");
    assert!(m.functions[2].params[0].ty.is_reference);
    assert_eq!(m.functions[3].params[0].name, "");
    let e = &m.functions[5];
    let template: Vec<_> = e
        .template_params
        .iter()
        .map(|p| (p.name.as_str(), p.is_type, p.default.as_deref()))
        .collect();
    assert_eq!(
        template,
        [
            ("T", true, None),
            ("N", false, Some("4")),
            ("U", true, Some("T"))
        ]
    );
    assert!(d.slice(e.range.clone()).starts_with("template"));
    assert!(d.slice(e.body.clone()).starts_with('{'));
    assert_eq!(m.functions[6].attributes.len(), 1);
    assert!(m.functions.iter().all(|f| !f.has_error));
}

#[test]
fn shared_arrays() {
    let d = doc(
        "#define TILE 16\nconstexpr int PAD = 1;\nenum { ROWS = 4, COLS };\n\
        struct P { float x; char c; double d; };\ntypedef unsigned short u16;\nusing vec = float4;\n\
        template <typename T, int B> __global__ void k() {\n\
          __shared__ float a[TILE][TILE + PAD], b;\n\
          extern __shared__ __align__(16) unsigned char dyn[];\n\
          __shared__ P p[ROWS * COLS];\n  static __shared__ u16 u[8 << 1];\n\
          volatile __shared__ vec v[sizeof(vec)];\n  __shared__ T t[B];\n  __shared__ float *ptr[2];\n\
          HIP_DYNAMIC_SHARED(double, more)\n;\n  __shared__ T unknown[blockDim];\n}\n",
    );
    let m = d.model();
    let got: Vec<_> = m
        .shared
        .iter()
        .map(|s| {
            (
                s.name.as_str(),
                s.element_size,
                s.dim_values.clone(),
                s.dynamic,
            )
        })
        .collect();
    assert_eq!(
        got,
        [
            ("a", Some(4), vec![Some(16), Some(17)], false),
            ("b", Some(4), vec![], false),
            ("dyn", Some(1), vec![], true),
            ("p", Some(16), vec![Some(20)], false),
            ("u", Some(2), vec![Some(16)], false),
            ("v", Some(16), vec![Some(16)], false),
            ("t", None, vec![None], false),
            ("ptr", Some(8), vec![Some(2)], false),
            ("more", Some(8), vec![], true),
            ("unknown", None, vec![None], false),
        ]
    );
    assert_eq!(m.shared[2].align, Some(16));
    assert!(m.shared.iter().all(|s| s.function == Some(0)));
    let t = &m.shared[6];
    let bound = [
        ("T".to_owned(), Binding::Type("double".into())),
        ("B".to_owned(), Binding::Value(32)),
    ];
    assert_eq!(m.shared_bytes(t, &bound), Some(256));
    assert_eq!(m.shared_bytes(t, &[]), None);
}

#[test]
fn launches() {
    let d = doc("#define BLOCK 256\n\
        template <int N, typename T> __global__ void k(T *p) { __shared__ T s[N]; p[0] = s[1]; }\n\
        __global__ void plain(float *p, int n) {}\n\
        void go(float *p, int n, hipStream_t stream) {\n\
          const int threads = BLOCK / 2;\n  dim3 block(16, 8);\n  dim3 grid((n + 15) / 16, 4);\n\
          plain<<<grid, block, block.x * sizeof(float), stream>>>(p, n);\n\
          ns::k<4 * 64, float><<<dim3(2), dim3(threads, 2), 0>>>(p);\n\
          hipLaunchKernelGGL((k<128, double>), 10, dim3{32, 2, 2}, 64, 0, (double *)p);\n\
          hipLaunchKernelGGL(HIP_KERNEL_NAME(plain), dim3(1), dim3(BLOCK), n, stream, p, n);\n\
          int changed = 64; changed *= 2; plain<<<1, changed>>>(p, f(n, 1));\n\
          plain<<<1, n>>>(p, n);\n\
        }\n#define GO(k) k<<<1, 2>>>(p)\n");
    let m = d.model();
    let got: Vec<_> = m
        .launches
        .iter()
        .map(|l| {
            (
                l.kernel.as_str(),
                l.grid,
                l.block,
                l.lds_bytes,
                l.args.len(),
            )
        })
        .collect();
    assert_eq!(
        got,
        [
            ("plain", None, Some([16, 8, 1]), Some(64), 2),
            ("k", Some([2, 1, 1]), Some([128, 2, 1]), Some(0), 1),
            ("k", Some([10, 1, 1]), Some([32, 2, 2]), Some(64), 1),
            ("plain", Some([1, 1, 1]), Some([256, 1, 1]), None, 2),
            ("plain", Some([1, 1, 1]), None, Some(0), 2),
            ("plain", Some([1, 1, 1]), None, Some(0), 2),
        ]
    );
    assert_eq!(m.launches[2].syntax, LaunchSyntax::Macro);
    assert_eq!(
        d.slice(m.launches[1].range.clone()),
        "k<4 * 64, float><<<dim3(2), dim3(threads, 2), 0>>>(p)"
    );
    assert_eq!(
        m.launches[0].stream_expr.as_ref().map(|e| e.text.as_str()),
        Some("stream")
    );
    let k = m.kernel("k").expect("k is a kernel");
    let lds: Vec<_> = m
        .instances(k)
        .iter()
        .map(|i| m.static_lds(k, i).bytes)
        .collect();
    assert_eq!(lds, [Some(1024), Some(1024)]);
    assert_eq!(m.block_shapes(k), [[128, 2, 1], [32, 2, 2]]);
    assert!(
        m.block_shapes(m.kernel("plain").expect("plain is a kernel"))
            .is_empty()
    );
}

#[test]
fn constants() {
    let d = doc(
        "#define N 8\n#define MUL(a, b) ((a) * (b))\nstatic const unsigned char wrapped = 300;\n\
        constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }\n\
        struct Tile { static constexpr int M = 64; enum { K = M / 4 }; };\n\
        enum class Mode { A = 5, B, C };\nint global = 3;\nconst float f = 2;\n\
        #undef N\n#define N 16\n\
        void host() { int once = 5; int twice = 6; twice++; int taken = 7; use(&taken); const int n = N; }\n",
    );
    let m = d.model();
    let at = |needle: &str| d.text().find(needle).expect("the text holds it");
    let inside = at("const int n");
    for (text, place, want) in [
        ("MUL(N, 3) + 1", usize::MAX, Some(49)),
        ("N", at("static const"), Some(8)),
        ("wrapped", usize::MAX, Some(44)),
        ("ceil_div(100, Tile::M)", usize::MAX, Some(2)),
        ("ns::Tile::M", usize::MAX, Some(64)),
        ("Tile::K", usize::MAX, Some(16)),
        ("int(Mode::C)", usize::MAX, Some(7)),
        ("global", usize::MAX, None),
        ("f", usize::MAX, None),
        ("once", inside, Some(5)),
        ("once", usize::MAX, None),
        ("twice", inside, None),
        ("taken", inside, None),
        ("warpSize / 2", inside, Some(32)),
        ("n", d.text().len() - 2, Some(16)),
        ("sizeof(Tile)", usize::MAX, Some(1)),
    ] {
        assert_eq!(m.eval(text, &Scope::at(place)), want, "{text}");
    }
}

#[test]
fn self_reference_ends() {
    let d = doc(
        "#define A B\n#define B A\nconst int x = y; const int y = x + 1;\nusing T = U; using U = T;\n\
        struct S { S s; }; constexpr int f(int a) { return f(a) + f(a); }\nenum { E = E2, E2 = E };",
    );
    let m = d.model();
    for text in ["A", "x", "y", "f(1)", "E", "sizeof(T)", "sizeof(S)"] {
        assert_eq!(m.eval(text, &Scope::file()), None, "{text}");
    }
}

#[test]
fn lds_of_called_functions_counts() {
    let d = doc(
        "template <int N> __device__ float sum(float v) { __shared__ float s[N]; return s[0] + v; }\n\
        __device__ void unused() { __shared__ float u[999]; }\n\
        __global__ void k(float *x) { __shared__ char c[3]; x[c[0]] = sum<64>(x[0]) + sum<64>(x[1]); }",
    );
    let m = d.model();
    let k = m.kernel("k").expect("k is a kernel");
    // 256 + 3, and the structure around them is as aligned as a float.
    assert_eq!(m.static_lds(k, &[]).bytes, Some(64 * 4 + 4));
}

#[test]
fn the_target_decides_what_is_compiled() {
    let text = "#if defined(__gfx906__)\n__global__ void a() {}\n#else\n__global__ void b() {\n#endif\n}\n\
        #ifndef USE_ROCM\n__global__ void cuda() {}\n#endif\n#if 0\n don't {\n#endif\nint tail;\n";
    let names = |target: &str| {
        let options = Options {
            target: by_name(target).expect("a known target"),
            ..Options::default()
        };
        let d = Document::with_options(text, 1, Arc::new(options));
        let names: Vec<String> = d.model().functions.iter().map(|f| f.name.clone()).collect();
        (names, d.root().has_error())
    };
    assert_eq!(names("gfx928"), (vec!["b".to_owned()], false));
    assert_eq!(names("gfx906").0, ["a"]);
    let d = doc(text);
    assert!(d.is_inactive(text.find("don't").expect("is there")));
    assert!(!d.is_inactive(text.find("tail").expect("is there")));
}

#[test]
fn errors_stay_where_they_are() {
    let d = doc(
        "__global__ void a() { int x = ; }\n__global__ void b(float *p) { p[0] = 1; }\n@@@\n\
        __global__ void c() { __shared__ int s[4]; }\n",
    );
    let m = d.model();
    let names: Vec<&str> = m.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(m.functions[0].has_error && !m.functions[1].has_error);
    assert_eq!(m.shared.len(), 1);
}

#[test]
fn hip_markers() {
    assert!(is_hip("", "dir/a.hip"));
    assert!(is_hip("", "a.cu"));
    assert!(is_hip("", "a.hip.cpp"));
    assert!(is_hip("#include <hip/hip_runtime.h>\nint a;", "a.cpp"));
    assert!(is_hip("__global__ void k();", "a.h"));
    assert!(!is_hip(
        "// __global__ is HIP\nconst char *s = \"__shared__\";",
        "a.cpp"
    ));
    assert!(!is_hip("int main() {}", "a.cpp"));
}
