//! One path in a process under callgrind.

use std::io::Error;
use std::process::{Command, Stdio};

use xylem_bench::paths::{Path, all};

/// The argument of the process that is counted.
pub(crate) const INSIDE: &str = "--inside";

/// Runs a path this many times, after two runs for preparation: work at the first use is not counted.
pub(crate) fn inside(name: &str, times: &str) -> Result<(), Error> {
    let path = all().find(|path| path.name == name);
    let path = path.ok_or_else(|| Error::other(format!("there is no path {name:?}")))?;
    let times: u32 = times.parse().map_err(Error::other)?;
    let mut operation = (path.prepare)();
    (0..2 + times).for_each(|_| operation());
    Ok(())
}

/// Instructions of one operation: those of a process that repeats it, less those of a process without any. This needs
/// no symbols, which a release does not have.
pub(crate) fn count(path: &Path) -> Result<u64, Error> {
    let with = collected(path, path.times)?;
    let without = collected(path, 0)?;
    let of_these = with.checked_sub(without).filter(|of_these| *of_these > 0);
    let of_these =
        of_these.ok_or_else(|| Error::other(format!("{}: nothing is done", path.name)))?;
    Ok(of_these / u64::from(path.times))
}

fn collected(path: &Path, times: u32) -> Result<u64, Error> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([INSIDE, path.name, &times.to_string()])
        .stdout(Stdio::null())
        .output()?;
    // "==PID== Collected : N" at the end of its output.
    let said = String::from_utf8_lossy(&ran.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    match count {
        Some(count) if ran.status.success() => Ok(count),
        _ => Err(Error::other(format!("{}: {}: {said}", path.name, ran.status))),
    }
}

/// Compiler and libraries of the counts: others generate other instructions from the same source.
pub(crate) fn with() -> Result<String, Error> {
    let first = |program: &str| -> Result<String, Error> {
        let said = Command::new(program).arg("--version").stderr(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(said.lines().next().unwrap_or_default().to_owned())
    };
    let rustc = first("rustc")?;
    let rustc = rustc.split(" (").next().unwrap_or(&rustc).to_owned();
    Ok(format!("{rustc}, {}, {}", first("ldd")?, first("valgrind")?))
}
