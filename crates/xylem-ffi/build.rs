//! Sets the soname of the shared library: the name under which the loader looks for it.

/// Number of the binary interface; an incompatible change of `include/xylem_blake3.h` increases it. `install` makes the
/// symbolic links.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(os.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libxylem_blake3.so.{ABI}");
    }
}
