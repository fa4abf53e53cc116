//! docs/instructions.md: one row a path, with its instructions and the reason for that number.

use std::fs;
use std::io::Error;
use std::path::PathBuf;

use xylem_bench::paths::{Path, all};

use super::counting::{count, with};

/// Tolerance in percent: a larger excess over the row is a regression.
const HUNDREDTHS: u64 = 2;
const WITH: &str = "Counted with: ";
const HEAD: &str = "\
# Instructions of hot paths

Each row counts one operation on one core with `callgrind` (`cargo run --release -p xylem-bench --example instructions`).
Valgrind's processor has AVX2 and AES, and neither AVX-512 nor the instructions for SHA-256. `.ci/long` fails when a path takes
more than 2 % over its row. A change that is worth its cost rewrites the row with a reason (`--write WHY [PART OF A NAME]`).
Times of the same paths: `cargo bench -p xylem-bench --bench paths`.
";

struct Row {
    name: String,
    count: u64,
    why: String,
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/instructions.md")
}

/// Compiler and libraries of the counts, and the rows.
fn read() -> Result<(String, Vec<Row>), Error> {
    let text = fs::read_to_string(file())?;
    let with = text.lines().find_map(|line| line.strip_prefix(WITH)).unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let (name, count, why) = (cells.next()?, cells.next()?, cells.next()?);
        let count = count.replace(',', "").parse().ok()?;
        Some(Row { name: name.to_owned(), count, why: why.to_owned() })
    };
    Ok((with.to_owned(), text.lines().filter_map(row).collect()))
}

/// Counts and compares; returns whether no path exceeds its row.
pub(crate) fn check() -> Result<bool, Error> {
    let (with_then, rows) = read()?;
    let with_now = match with() {
        Ok(with) => with,
        Err(why) => {
            println!("instructions: no valgrind ({why}); SKIPPED");
            return Ok(true);
        }
    };
    if with_now != with_then {
        println!("instructions: counted with {with_then}; here is {with_now}; SKIPPED");
        return Ok(true);
    }
    if !xylem_bench::machine::backends().contains(&"avx2") {
        println!("instructions: no AVX2; SKIPPED");
        return Ok(true);
    }
    let mut good = true;
    for path in all() {
        let now = count(path)?;
        let row = rows.iter().find(|row| row.name == path.name);
        let said = match row {
            None => {
                good = false;
                "HAS NO ROW in docs/instructions.md".to_owned()
            }
            Some(row) if now > row.count + row.count * HUNDREDTHS / 100 => {
                good = false;
                format!("MORE than {}, its row in docs/instructions.md", row.count)
            }
            Some(row) => format!("{:.4} of its row", now as f64 / row.count as f64),
        };
        println!("{now:>12} {}: {said}", path.name);
    }
    for row in rows.iter().filter(|row| !all().any(|path| path.name == row.name)) {
        println!("{:>12} {}: NO SUCH PATH any more", row.count, row.name);
        good = false;
    }
    Ok(good)
}

/// Counts the paths with `part` in their names anew, with the reason `why`.
pub(crate) fn write(why: &str, part: &str) -> Result<(), Error> {
    let rows = read().map(|(_, rows)| rows).unwrap_or_default();
    let mut text =
        format!("{HEAD}\n{WITH}{}\n\n| path | instructions | why |\n|---|---|---|\n", with()?);
    let row = |path: &&Path| -> Result<String, Error> {
        let before = rows.iter().find(|row| row.name == path.name);
        let (count, why) = match before {
            Some(row) if !path.name.contains(part) => (row.count, row.why.as_str()),
            _ => (count(path)?, why),
        };
        let count = xylem_bench::input::thousands(usize::try_from(count).map_err(Error::other)?);
        Ok(format!("| {} | {count} | {why} |\n", path.name))
    };
    for path in all() {
        text.push_str(&row(&path)?);
    }
    fs::write(file(), text)
}
