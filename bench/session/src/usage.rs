//! Processor time and memory of this process.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Seconds of processor time, of all threads, in the program and in the kernel.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes of memory that are resident now; 0 where the system does not report them.
pub(crate) fn resident_bytes() -> u64 {
    status("VmRSS:")
}

/// The maximum of resident bytes so far.
pub(crate) fn peak_bytes() -> u64 {
    status("VmHWM:")
}

/// A line of `/proc/self/status`, which counts in KiB.
fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_memory_are_reported_and_grow() {
        let (time, memory) = (cpu_seconds(), resident_bytes());
        let held = std::hint::black_box(vec![7_u8; 64 << 20]);
        assert!(held.iter().map(|byte| u64::from(*byte)).sum::<u64>() == 7 * (64 << 20));
        assert!(cpu_seconds() > time);
        assert!(resident_bytes() > memory + (32 << 20) && peak_bytes() >= resident_bytes());
    }
}
