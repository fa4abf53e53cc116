//! Runs programs of their own that measure part of a table: other configurations of the official crate, sessions of the
//! link between processes, transfers of ours and of other programs.
//!
//! Cargo unifies features, so one build holds one configuration of `blake3`. `bench/peers` builds the program
//! `xylem-bench-peer` once for each of [`PEERS`]. It races ours against its official crate, in its own process, and
//! writes its [`Report`]s as JSON lines. These are passed on as if they had been made here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::race::Effort;
use crate::report::{Absent, Report};

/// The programs' names, and the configuration of each.
pub const PEERS: [(&str, &str); 2] = [
    ("xylem-bench-avx2", "blake3 with its assembly up to AVX2"),
    ("xylem-bench-pure", "blake3 with its feature `pure`"),
];

/// The program with those tables of the link that take several processes.
pub const SESSION: (&str, &str) =
    ("xylem-bench-session", "sessions between processes, beside quinn");

/// The program with whole transfers, of other programs beside ours.
pub const TRANSFERS: (&str, &str) = ("xylem-bench-transfer", "transfers between two programs");

/// The argument that asks for [`Effort::QUICK`].
pub const QUICK: &str = "--quick";

/// Passes on the reports of each of `peers` (name, configuration) on `table`, and reports those that are missing.
///
/// # Errors
/// The first error of `emit`.
pub fn run<E>(
    table: &str,
    peers: &[(&str, &str)],
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<(), E> {
    for &(name, what) in peers {
        let absent = |why: String| {
            Report::Absent(Absent { table: table.to_owned(), what: what.to_owned(), why })
        };
        let Some(program) = find(name) else {
            let why = format!("no {name} beside this program or on the PATH; bench/peers makes it");
            emit(absent(why))?;
            continue;
        };
        match forward(&program, table, effort, emit)? {
            Ok(()) => {}
            Err(why) => {
                emit(absent(format!("{}: {why}; bench/peers makes it anew", program.display())))?
            }
        }
    }
    Ok(())
}

/// The path of a program: beside this one, or on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = beside.into_iter().chain(std::env::split_paths(&path));
    places.find_map(|dir| Some(dir.join(&file)).filter(|file| file.is_file()))
}

/// A running peer, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end, and only the wait counts.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one peer: the outer error is `emit`'s, the inner one describes the peer's failure.
fn forward<E>(
    program: &Path,
    table: &str,
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<Result<(), String>, E> {
    let quick = (effort.each <= Effort::QUICK.each).then_some(QUICK);
    let command = Command::new(program)
        .arg(table)
        .args(quick)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut running = match command {
        Ok(child) => Running(child),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(output) = running.0.stdout.take() else {
        return Ok(Err("its output could not be read".to_owned()));
    };
    for line in BufReader::new(output).lines() {
        match line.map_err(|e| e.to_string()).and_then(|line| parse(&line)) {
            Ok(report) => emit(report)?,
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(match running.0.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("it ended with {status}")),
        Err(error) => Err(error.to_string()),
    })
}

fn parse(line: &str) -> Result<Report, String> {
    serde_json::from_str(line).map_err(|error| format!("a line that is no report: {error}"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A peer that is this shell script.
    fn peer(name: &str, script: &str) -> (Vec<Report>, Result<(), String>) {
        let dir = std::env::temp_dir().join(format!("xylem-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("peer");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut reports = Vec::new();
        let emit = &mut |report| {
            reports.push(report);
            Ok::<(), Infallible>(())
        };
        let result = forward(&program, "single", Effort::QUICK, emit).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        (reports, result)
    }

    #[test]
    fn reports_come_through_with_the_arguments_it_was_given() {
        let line = r#"{"report":"absent","table":"'$1'","what":"'$2'","why":"z"}"#;
        let (reports, result) = peer("good", &format!("echo '{line}'"));
        assert_eq!(result, Ok(()));
        let [Report::Absent(absent)] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!((absent.table.as_str(), absent.what.as_str()), ("single", QUICK));
    }

    #[test]
    fn failed_peers_and_garbage_are_not_taken_for_reports() {
        let (reports, result) = peer("fails", "exit 3");
        assert!(reports.is_empty() && result.unwrap_err().contains("3"));
        let (reports, result) = peer("nonsense", "echo hello; sleep 60");
        assert!(reports.is_empty() && result.unwrap_err().contains("no report"));
        let nowhere = forward(Path::new("/nonexistent/peer"), "single", Effort::QUICK, &mut |_| {
            Ok::<(), Infallible>(())
        });
        assert!(nowhere.unwrap().is_err());
    }

    #[test]
    fn missing_programs_are_not_found() {
        assert_eq!(find("xylem-bench-of-no-kind"), None);
        assert!(find("sh").is_some());
    }
}
