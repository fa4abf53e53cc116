//! Resources that a process uses: processor time and memory, from `/proc` on Linux.

use std::fs;
use std::time::Duration;

/// Clock ticks a second in `/proc/PID/stat`, the same on every Linux (proc_pid_stat(5), USER_HZ).
const TICKS: u64 = 100;

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time of all threads, in steps of 10 ms.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes.
    pub(crate) memory: u64,
}

/// The usage of the process `pid` (`None`: this one) so far; `None` if the system does not report it or there is no
/// such process.
pub(crate) fn of_process(pid: Option<u32>) -> Option<Usage> {
    let dir = pid.map_or("/proc/self".to_owned(), |pid| format!("/proc/{pid}"));
    let stat = fs::read_to_string(format!("{dir}/stat")).ok()?;
    // The program's name stands in brackets and can contain any byte.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let status = fs::read_to_string(format!("{dir}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = kib.split_whitespace().next()?.parse().ok()?;
    Some(Usage { cpu: Duration::from_millis((user + system) * 1000 / TICKS), memory: kib * 1024 })
}

/// The usage since `before`; `None` if it is not known.
pub(crate) fn since(before: Option<Usage>, pid: Option<u32>) -> Option<Usage> {
    let (before, after) = (before?, of_process(pid)?);
    Some(Usage { cpu: after.cpu.saturating_sub(before.cpu), memory: after.memory })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_pid_0_is_not_there() {
        assert!(of_process(None).unwrap().memory > 100_000);
        assert_eq!(of_process(Some(0)), None);
        let own = of_process(Some(std::process::id())).unwrap();
        assert!(own.cpu >= of_process(None).unwrap().cpu.saturating_sub(Duration::from_secs(60)));
    }
}
