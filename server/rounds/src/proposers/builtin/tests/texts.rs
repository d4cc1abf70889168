//! The same programs in other clothes: line ends, tabs, comments, macros, namespaces, templates, similar names.

use super::super::*;
use super::{apply, compile_all, program};

/// CRLF text stays CRLF, line for line what the LF text gives.
#[test]
fn line_ends_are_kept() {
    for (file, kernel) in [
        ("rmsnorm.hip", "rmsnorm"),
        ("transpose.hip", "transpose"),
        ("reduce_tree.hip", "reduce_tree"),
    ] {
        let unix = program(file);
        let dos = unix.replace('\n', "\r\n");
        for rewrite in REWRITES {
            let (a, b) = (
                apply(*rewrite, &unix, kernel),
                apply(*rewrite, &dos, kernel),
            );
            assert_eq!(a.len(), b.len());
            for (a, b) in a.iter().zip(&b) {
                assert_eq!(
                    a.new_text.replace('\n', "\r\n"),
                    b.new_text,
                    "{} in {file}",
                    a.id
                );
            }
        }
    }
}

#[test]
fn comments_and_macros_do_not_hide_a_pattern() {
    let text = "#include <hip/hip_runtime.h>\n\
        #define THREADS 128\n#define CEIL(a, b) (((a) + (b)-1) / (b))\n\
        __global__ void k2(float *x) { x[threadIdx.x] = 0; }\n\
        __global__ void k(const float *__restrict__ in, float *__restrict__ out, int n) {\n\
        \tfor (int i = threadIdx.x /* lane */; i < n; /* next */ i += THREADS) { // copy\n\
        \t\t/* each element once */\n\
        \t\tout[i] = in[i]; // for (;;) {\n\
        \t}\n}\n\
        __global__ void k1(float *x) { x[threadIdx.x] = 1; }\n\
        void go(float *a, float *b, int n) {\n  k2<<<1, 64>>>(a);\n  k<<<CEIL(n, n), THREADS>>>(a, b, n);\n  k1<<<1, 32>>>(a);\n}\n";
    let ideas = apply(vector_loads::rewrite, text, "k");
    assert_eq!(ideas.len(), 1);
    let new = &ideas[0].new_text;
    assert!(new.contains("/* each element once */"));
    // Other kernels stay as they are.
    assert!(new.contains("__global__ void k2(float *x) { x[threadIdx.x] = 0; }"));
    assert!(new.contains("__global__ void k1(float *x) { x[threadIdx.x] = 1; }"));
    compile_all(&ideas);
}

#[test]
fn a_template_in_a_namespace() {
    let text = "#include <hip/hip_runtime.h>\nnamespace a { namespace b {\n\
        template <typename T, int N>\n__global__ void __launch_bounds__(N) k(const T *__restrict__ in, T *__restrict__ out, int n) {\n\
        \x20   for (int i = threadIdx.x; i < n; i += N)\n        out[i] = in[i] + T(1);\n}\n}}\n\
        void go(float *a, float *b, int n) { a::b::k<float, 256><<<1, 256>>>(a, b, n); }\n\
        void go(double *a, double *b, int n) { a::b::k<double, 256><<<1, 256>>>(a, b, n); }\n";
    // The step is a template parameter, which no launch proves to be the block here.
    let ideas = apply(
        vector_loads::rewrite,
        &text.replace("i += N", "i += blockDim.x"),
        "k",
    );
    assert_eq!(ideas.len(), 1);
    compile_all(&ideas);
}

#[test]
fn no_text_makes_a_rewrite_panic() {
    let seeds = [
        "rmsnorm.hip",
        "transpose.hip",
        "reduce_tree.hip",
        "matmul_naive.hip",
        "saxpy_good.hip",
    ];
    for file in seeds {
        let text = program(file);
        let kernel = file.trim_end_matches(".hip").trim_end_matches("_good");
        let end = text.find("#define CHECK").unwrap();
        let kernel_text = &text[..end];
        // Cut at every few bytes, and with a piece missing.
        for cut in (0..kernel_text.len())
            .step_by(97)
            .filter(|c| kernel_text.is_char_boundary(*c))
        {
            let launch =
                format!("\nvoid go(float *p) {{ {kernel}<<<1, 256>>>(p, p, p, 1, 1); }}\n");
            let missing = format!(
                "{}{}{launch}",
                &kernel_text[..cut],
                &kernel_text[(cut + 7).min(end)..]
            );
            for text in [format!("{}{launch}", &kernel_text[..cut]), missing] {
                for rewrite in REWRITES {
                    apply(*rewrite, &text, kernel);
                }
            }
        }
    }
}
