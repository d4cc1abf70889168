//! Headers on disk and in the editor.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hipsmith_headers::Headers;
use hipsmith_syntax::{Document, Options, Scope};

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders can be made");
    fs::write(path, text).expect("the file can be written");
}

fn open(headers: &Arc<Headers>, folder: &Path, text: &str) -> Document {
    Document::with_options(text, 0, headers.options(&folder.join("main.cu")))
}

fn value(d: &Document, expression: &str) -> Option<i64> {
    d.model().eval(expression, &Scope::file())
}

#[test]
fn names_of_headers_are_known() {
    let dir = tempfile::tempdir().expect("a folder");
    write(
        dir.path(),
        "a.h",
        "#pragma once\n#include \"sub/b.h\"\n#define TILE (2 * HALF)\n",
    );
    write(
        dir.path(),
        "sub/b.h",
        "#define HALF 16\nconst int LIMIT = HALF + 1;\nenum { RED = 4, BLUE };\nstruct P { float x; double y; };\ntypedef P Q;\n\
         template <int N> __device__ float sum(float v) { __shared__ float s[N]; s[0] = v; return s[1]; }\n",
    );
    let headers = Headers::new(Options::default(), Vec::new());
    let d = open(
        &headers,
        dir.path(),
        "#include \"a.h\"\n#if TILE == 32\n__global__ void k(float *x) { x[0] = sum<TILE>(x[0]); }\n#else\nint wrong;\n#endif\n",
    );
    assert_eq!(
        value(&d, "TILE + LIMIT + BLUE + sizeof(Q)"),
        Some(32 + 17 + 5 + 16)
    );
    let k = d.model().kernel("k").expect("it is compiled");
    assert_eq!(d.model().static_lds(k, &[]).bytes, Some(128));
}

#[test]
fn what_is_defined_before_decides_in_the_header() {
    let dir = tempfile::tempdir().expect("a folder");
    write(
        dir.path(),
        "k.h",
        "#ifdef WIDE\n#define N 512\n#else\n#define N 64\n#endif\n__global__ void k(T *x) { __shared__ T s[N]; s[0] = x[1]; x[0] = s[1]; }\n",
    );
    write(
        dir.path(),
        "conf.h",
        "#ifndef CONF\n#define CONF\n#define WIDE\n#endif\n",
    );
    let headers = Headers::new(Options::default(), Vec::new());
    let lds = |before: &str| {
        let d = open(
            &headers,
            dir.path(),
            &format!("{before}\n#include \"k.h\"\n"),
        );
        let (k, bound) = d
            .model()
            .find_instance("k", &[], &[])
            .expect("it is in the header");
        d.model().static_lds_of(k, &bound).bytes
    };
    assert_eq!(lds("#define T float"), Some(256));
    assert_eq!(lds("#define T double\n#include \"conf.h\""), Some(4096));
    assert_eq!(lds("typedef short T;\n#define WIDE 1"), Some(1024));
}

#[test]
fn cycles_missing_files_and_odd_ones_are_no_trouble() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "a.h", "#include \"b.h\"\n#define A 1\n");
    write(
        dir.path(),
        "b.h",
        "#include \"a.h\"\n#include \"b.h\"\n#include \"none.h\"\n#define B 2\n",
    );
    fs::write(dir.path().join("binary.h"), [b'#', 0, 255]).expect("the file can be written");
    fs::create_dir(dir.path().join("folder.h")).expect("folders can be made");
    let mut deep = String::new();
    for i in 0..100 {
        write(
            dir.path(),
            &format!("d{i}.h"),
            &format!("#define D{i} {i}\n#include \"d{}.h\"\n", i + 1),
        );
        deep.push_str(&format!("#include \"d{i}.h\"\n"));
    }
    let headers = Headers::new(Options::default(), Vec::new());
    let text = format!(
        "#include \"a.h\"\n#include \"binary.h\"\n#include \"folder.h\"\n#include \"/\"\n#include \"\"\n#include \"main.cu\"\n{deep}"
    );
    let d = open(&headers, dir.path(), &text);
    assert_eq!(value(&d, "A + B + D99"), Some(102));
}

#[test]
fn folders_are_searched_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "one/x.h", "#define X 1\n");
    write(dir.path(), "two/x.h", "#define X 2\n");
    write(dir.path(), "x.h", "#define X 3\n");
    let folders = vec![dir.path().join("one"), dir.path().join("two")];
    let headers = Headers::new(Options::default(), folders);
    assert_eq!(
        value(&open(&headers, dir.path(), "#include <x.h>\n"), "X"),
        Some(1)
    );
    assert_eq!(
        value(&open(&headers, dir.path(), "#include \"x.h\"\n"), "X"),
        Some(3)
    );
}

#[test]
fn the_editors_text_comes_first_and_changes_are_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "a.h", "#include \"b.h\"\n");
    write(dir.path(), "b.h", "#define N 1\n");
    let headers = Headers::new(Options::default(), Vec::new());
    let n = || value(&open(&headers, dir.path(), "#include \"a.h\"\n"), "N");
    assert_eq!(n(), Some(1));
    let b = dir.path().join("b.h");
    assert!(headers.set_open(&b, Some("#define N 22\n".into())));
    assert_eq!(n(), Some(22), "at once, and through a.h");
    assert!(headers.set_open(&b, Some("#define N 33\n".into())));
    assert_eq!(n(), Some(33));
    assert!(!headers.set_open(&dir.path().join("main.cu"), Some("".into())));
    assert!(headers.set_open(&b, None));
    assert_eq!(n(), Some(1));
    write(dir.path(), "b.h", "#define N 4444\n");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(n(), Some(4444), "the file on disk has changed");
}

#[test]
fn a_header_is_read_once() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "a.h", "#define N 1\n");
    let headers = Headers::new(Options::default(), Vec::new());
    let first = open(&headers, dir.path(), "#include \"a.h\"\n");
    let mut second = open(&headers, dir.path(), "#include \"a.h\"\nint x;");
    second.set_text("#include \"a.h\"\nint xy;", 1);
    assert!(Arc::ptr_eq(
        &first.model().headers()[0],
        &second.model().headers()[0]
    ));
}
