//! Prints the backends that this processor has and lacks, to show what a test run has covered.
//!
//! It prints a line for each backend of this kind of processor, best first, and checks that the first one present is
//! chosen. `targets/run` runs it on processors of several ages.

/// Best first, as in the crate.
const NAMES: &[&str] = if cfg!(target_arch = "x86_64") {
    &["avx512", "avx2", "sse4.1", "portable"]
} else if cfg!(target_arch = "aarch64") {
    &["neon", "portable"]
} else {
    &["portable"]
};

fn main() {
    let chosen = xylem_hash::platform();
    let want = xylem_hash::hash(&[7; 70_000]);
    let mut best = None;
    for name in NAMES {
        if xylem_hash::set_platform(name) {
            assert_eq!(xylem_hash::hash(&[7; 70_000]), want, "{name}");
            best = best.or(Some(*name));
            println!("{name}: present");
        } else {
            println!("{name}: ABSENT, compiled but not run");
        }
    }
    assert_eq!(best, Some(chosen), "the best one present is chosen");
    println!("chosen: {chosen}");
}
