//! The official vectors on a bare processor: no operating system, no std, no allocator.
#![no_std]
#![no_main]

mod checks;

#[cfg(target_arch = "arm")]
#[path = "cortex_m.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "bochs.rs"]
mod machine;

use core::fmt::Write;
use core::panic::PanicInfo;

use machine::{Console, exit};

fn run() -> ! {
    let mut first = None;
    for name in ["avx512", "avx2", "sse4.1", "portable"] {
        if xylem_hash::set_platform(name) {
            let lengths = checks::official_vectors();
            checks::batches();
            let output = checks::long_output();
            assert!(*first.get_or_insert(output) == output, "{name}: long output");
            let _ = writeln!(Console, "{name}: {lengths} official lengths in 3 modes, batches");
        }
    }
    let _ = writeln!(Console, "all as it should be");
    exit(true)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}");
    exit(false)
}
