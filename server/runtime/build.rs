//! Gives the shared library the name and the symbol versions of the library it stands in for, so that the dynamic
//! loader takes it for `libamdhip64.so.5` without a word.
//!
//! rustc hands the linker a version script of its own. LLD, which rustc uses on this platform, accepts a second one;
//! ours only declares the versions. Symbols without a version satisfy a request for any declared one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=versions.map");
    if let Some(dir) = std::env::var_os("CARGO_MANIFEST_DIR") {
        let map = std::path::Path::new(&dir).join("versions.map");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libamdhip64.so.5");
        println!(
            "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
            map.display()
        );
    }
}
