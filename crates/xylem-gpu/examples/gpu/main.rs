//! Checks the GPU's values against the processor's, then measures. It needs a GPU.
//!
//!     cargo run --release -p xylem-gpu --example gpu
//!
//! With the argument `check` it only checks.
//!
//! Times are those of a caller, from the call to the values in host memory. The memory's rate is that of a copy within
//! it, with bytes read and bytes written counted.

mod check;

use std::time::{Duration, Instant};

use xylem_gpu::{GpuBuffer, GpuBytes, GpuError, GpuLevel, GpuPending, REGION_LEN};

/// Median time of a call, after two that are not counted.
fn median(mut call: impl FnMut() -> Result<(), GpuError>) -> Result<Duration, GpuError> {
    let mut times = Vec::new();
    for round in 0..11 {
        let before = Instant::now();
        call()?;
        if round >= 2 {
            times.push(before.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

fn main() -> Result<(), GpuError> {
    let began = Instant::now();
    let compared = check::check()?;
    println!("{compared} comparisons with the processor: the same ({:.1?})", began.elapsed());

    if std::env::args().nth(1).as_deref() == Some("check") {
        return Ok(());
    }

    let whole = 8_u64 << 30;
    let mut buffer = GpuBuffer::new(whole + 64)?;
    // Random, and not zeros: a processor may take less power for those, and run faster.
    let content = check::random(64 << 20);
    for offset in (0..whole).step_by(content.len()) {
        buffer.write(offset, &content)?;
    }
    let mut copy = GpuBuffer::new(whole / 2)?;
    let memory = rate(whole, median(|| copy.copy_from(&buffer, 0, whole / 2))?);
    drop(copy);
    println!("{}", buffer.device()?);
    println!("copy within memory: {memory:.0} GB/s");
    println!("| MiB | GB/s | of the memory's rate | GB/s at an odd address | time |");
    println!("|---:|---:|---:|---:|---:|");
    for mebibytes in [1, 4, 16, 64, 256, 1_024, 4_096, 8_192_u64] {
        let len = mebibytes << 20;
        let level = if len < REGION_LEN { GpuLevel::Segments } else { GpuLevel::Regions };
        let times = [0, 1].map(|offset| {
            let bytes = GpuBytes::new(buffer.address() + offset, len, GpuPending::Nothing)?;
            let mut values = Vec::new();
            median(|| {
                values.clear();
                bytes.values(0, len, 0, level, &mut values)
            })
        });
        let [aligned, odd] = times;
        let (aligned, odd) = (aligned?, odd?);
        let (fast, slow) = (rate(len, aligned), rate(len, odd));
        println!("| {mebibytes} | {fast:.0} | {:.2} | {slow:.0} | {aligned:.2?} |", fast / memory);
    }
    let before = Instant::now();
    drop(GpuBytes::new(buffer.address(), whole, GpuPending::Work)?);
    println!("to open and close 8 GiB: {:.2?}", before.elapsed());
    Ok(())
}
