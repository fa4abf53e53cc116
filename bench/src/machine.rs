//! Description of the machine, the date, and the hash backends.

use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock;
use crate::race::{Effort, race};
use crate::report::Machine;

/// Version of the official crate, as in Cargo.lock (a test compares).
pub const BLAKE3_VERSION: &str = "1.8.7";

/// Configuration of this build's official crate, for titles: Cargo's features decide.
pub const OFFICIAL: &str = if cfg!(feature = "blake3-pure") {
    "pure"
} else if cfg!(feature = "blake3-avx2") {
    "assembly up to AVX2"
} else {
    "assembly"
};

/// Possible names of xylem-hash's backends, fastest first on each architecture.
const BACKENDS: [&str; 7] = ["avx512", "avx2", "sse4.1", "sse2", "neon", "simd128", "portable"];

/// The backends that this processor supports, fastest first; xylem-hash stays on the first.
#[must_use]
pub fn backends() -> Vec<&'static str> {
    let found: Vec<_> =
        BACKENDS.into_iter().filter(|name| xylem_hash::set_platform(name)).collect();
    if let Some(best) = found.first() {
        xylem_hash::set_platform(best);
    }
    found
}

/// The fastest backend, and AVX2 where there is a faster one: the targets are for these.
#[must_use]
pub fn judged_backends() -> Vec<&'static str> {
    let backends = backends();
    let judged = backends.iter().enumerate().filter(|(at, name)| *at == 0 || **name == "avx2");
    judged.map(|(_, name)| *name).collect()
}

/// Describes this machine.
#[must_use]
pub fn machine() -> Machine {
    let backends = backends();
    let (backend, others) = backends.split_first().expect("every build has the portable code");
    let level = blake3::platform::Platform::detect();
    Machine {
        processor: processor(),
        cores: thread::available_parallelism().map_or(1, usize::from),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        date: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or_else(|_| "before 1970".to_owned(), |since| date(since.as_secs())),
        load: load(),
        backend: (*backend).to_owned(),
        other_backends: others.iter().map(|name| (*name).to_owned()).collect(),
        official: format!("blake3 {BLAKE3_VERSION} ({OFFICIAL}) on {level:?}"),
        gigahertz: gigahertz(),
    }
}

fn processor() -> String {
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let name = field("model name")?;
        // Virtual machines shorten the name; family and model still identify the generation.
        match (field("cpu family"), field("model\t")) {
            (Some(family), Some(model)) => Some(format!("{name} (family {family}, model {model})")),
            _ => Some(name),
        }
    });
    name.unwrap_or_else(|| "unknown processor".to_owned())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn gigahertz() -> f64 {
    let timings = race(&mut [clock::chain()], Effort { most: 21, ..Effort::QUICK });
    let median = timings.ok().and_then(|timings| Some(timings.first()?.median));
    median.map_or(0.0, clock::gigahertz)
}

/// The date in the form `2026-11-22 01:10`, from seconds since 1970, in the Gregorian calendar.
fn date(seconds: u64) -> String {
    let (mut day, minute) = (seconds / 86_400, seconds % 86_400 / 60);
    let mut year = 1970;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02} {:02}:{:02}", month + 1, day + 1, minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59");
        assert_eq!(date(1_795_309_800), "2026-11-22 01:10");
    }

    #[test]
    fn the_official_version_is_the_one_that_is_linked() {
        let lock = include_str!("../../Cargo.lock");
        let entry = format!("name = \"blake3\"\nversion = \"{BLAKE3_VERSION}\"");
        assert!(lock.contains(&entry), "Cargo.lock has another blake3");
    }

    #[test]
    fn there_is_a_backend_on_every_machine() {
        let machine = machine();
        let mut all = machine.other_backends;
        all.insert(0, machine.backend);
        assert_eq!(all, backends());
        assert_eq!(all.last().map(String::as_str), Some("portable"));
        assert!(judged_backends().iter().all(|name| all.contains(&(*name).to_owned())));
    }
}
