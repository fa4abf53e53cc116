//! Against a GPU where there is one; without, the error is the right one.

#[path = "../examples/gpu/check.rs"]
mod check;

use xylem_gpu::{GpuBytes, GpuError, GpuPending};

#[test]
fn values_are_those_of_the_processor() {
    match check::check() {
        Ok(compared) => println!("{compared} comparisons"),
        Err(why @ (GpuError::NoDriver | GpuError::NoDevice)) => {
            println!("SKIPPED: values of a GPU ({why})");
            let opened = GpuBytes::new(0x7000_0000, 8_192, GpuPending::Work);
            assert!(matches!(opened, Err(GpuError::NoDriver | GpuError::NoDevice)));
        }
        Err(why) => panic!("{why}"),
    }
}
