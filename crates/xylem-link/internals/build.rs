//! Opens the inside of xylem-link's sources to this package, and to no other.

fn main() {
    println!("cargo::rustc-cfg=internals");
    println!("cargo::rerun-if-changed=build.rs");
}
