//! One path in a process under callgrind.

use std::hint::black_box;
use std::io::Error;
use std::process::{Command, Stdio};

use xylem_bench::paths::{Operation, Path, all};

/// The argument of the process that is counted.
pub(crate) const INSIDE: &str = "--inside";

/// The only place where instructions are counted: callgrind is told its name.
#[inline(never)]
fn counted(operation: &mut Operation, times: u32) {
    for _ in 0..times {
        black_box(&mut *operation)();
    }
}

/// Runs a path, twice of it beforehand: what is made at its first use is no part of it.
pub(crate) fn inside(name: &str) -> Result<(), Error> {
    let path = all().find(|path| path.name == name);
    let path = path.ok_or_else(|| Error::other(format!("there is no path {name:?}")))?;
    let mut operation = (path.prepare)();
    (0..2).for_each(|_| operation());
    counted(&mut operation, path.times);
    Ok(())
}

/// Instructions of one operation.
pub(crate) fn count(path: &Path) -> Result<u64, Error> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*instructions*counting*counted*")
        .arg(std::env::current_exe()?)
        .args([INSIDE, path.name])
        .stdout(Stdio::null())
        .output()?;
    // "==PID== Collected : N" at the end of what it says.
    let said = String::from_utf8_lossy(&ran.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.and_then(|(_, count)| count.trim().parse::<u64>().ok());
    match count {
        Some(count) if ran.status.success() && count > 0 => Ok(count / u64::from(path.times)),
        _ => Err(Error::other(format!("{}: {}: {said}", path.name, ran.status))),
    }
}

/// With what they are counted: other compilers and libraries make other instructions of the same text.
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
