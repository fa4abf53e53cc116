//! Gives the shared library the name under which programs ask for it at run time.

/// Counts incompatible changes of `include/xylem_blake3.h`; `install` makes the links.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(os.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libxylem_blake3.so.{ABI}");
    }
}
