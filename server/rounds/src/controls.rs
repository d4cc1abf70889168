//! Known-wrong candidates, made from the original: a verifier that passes one of them proves nothing.

use hipsmith_syntax::{Document, FunctionKind};

/// The text with every kernel of this name doing nothing.
pub fn no_op(text: &str, kernel: &str) -> String {
    rewrite(text, kernel, |_| "{}".to_owned())
}

/// The text with the first thread of the first workgroup leaving at once.
pub fn one_thread_missing(text: &str, kernel: &str) -> String {
    rewrite(text, kernel, |body| {
        let rest = body.strip_prefix('{').unwrap_or(body);
        format!(
            "{{ if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y + threadIdx.z == 0) return; {rest}"
        )
    })
}

fn rewrite(text: &str, kernel: &str, change: impl Fn(&str) -> String) -> String {
    let document = Document::new(text);
    let mut out = text.to_owned();
    let kernels = document
        .model()
        .functions
        .iter()
        .filter(|f| f.kind == FunctionKind::Kernel && f.name == kernel);
    let mut bodies: Vec<_> = kernels.map(|f| f.body.clone()).collect();
    bodies.sort_by_key(|b| std::cmp::Reverse(b.start));
    for body in bodies {
        if let Some(old) = text.get(body.clone()) {
            let new = change(old);
            out.replace_range(body, &new);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_replaced_and_nothing_else() {
        let text = "__global__ void k(float *a) { a[0] = 1; }\n__global__ void l(float *a) { a[0] = 2; }\n";
        assert_eq!(
            no_op(text, "k"),
            "__global__ void k(float *a) {}\n__global__ void l(float *a) { a[0] = 2; }\n"
        );
        let missing = one_thread_missing(text, "l");
        assert!(missing.starts_with("__global__ void k(float *a) { a[0] = 1; }\n"));
        assert!(missing.contains("return;  a[0] = 2; }"), "{missing}");
    }
}
