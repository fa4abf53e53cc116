//! Gives this package, and no other, access to the private parts of xylem-mail.

fn main() {
    println!("cargo::rustc-cfg=internals");
    println!("cargo::rerun-if-changed=build.rs");
}
