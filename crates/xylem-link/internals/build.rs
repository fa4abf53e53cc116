//! Makes the internals in xylem-link's sources visible to this package, and to no other.

fn main() {
    println!("cargo::rustc-cfg=internals");
    println!("cargo::rerun-if-changed=build.rs");
}
