//! `xylem-bench SUBJECT [TABLE]... [--quick] [--json] [--plot F.svg] [--save F] [--against F]`: writes the tables as
//! Markdown, or as one JSON event a report. `xylem bench` checks the arguments, has the help, and runs this.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use xylem_bench::against::{self, Line};
use xylem_bench::peers::QUICK;
use xylem_bench::text::Text;
use xylem_bench::{Effort, Error, Report, plot};

const USAGE: &str = "usage: xylem-bench hash|ndn|link|transfer [TABLE]... [--quick] [--json] \
                     [--plot FILE] [--save FILE] [--against FILE]";

/// The arguments.
#[derive(Default)]
struct Typed {
    subject: String,
    tables: Vec<String>,
    quick: bool,
    json: bool,
    plot: Option<PathBuf>,
    save: Option<PathBuf>,
    against: Option<PathBuf>,
}

impl Typed {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut typed = Self::default();
        while let Some(argument) = arguments.next() {
            let file = match &*argument {
                "--json" => {
                    typed.json = true;
                    continue;
                }
                QUICK => {
                    typed.quick = true;
                    continue;
                }
                "--plot" => &mut typed.plot,
                "--save" => &mut typed.save,
                "--against" => &mut typed.against,
                flag if flag.starts_with("--") => return None,
                _ if typed.subject.is_empty() => {
                    typed.subject = argument;
                    continue;
                }
                _ => {
                    typed.tables.push(argument);
                    continue;
                }
            };
            *file = Some(arguments.next()?.into());
        }
        Some(typed)
    }
}

/// Reports an error of a file.
fn failed(path: &std::path::Path, error: &io::Error) -> ExitCode {
    eprintln!("xylem: {}: {error}", path.display());
    ExitCode::from(4)
}

fn main() -> ExitCode {
    let Some(typed) = Typed::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Read before the measurement: a mistyped name costs no minutes.
    let before = match typed.against.as_deref().map(|path| (path, against::read(path))) {
        None => None,
        Some((_, Ok(reports))) => Some(reports),
        Some((path, Err(error))) => {
            eprintln!("xylem: {}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    let Typed { json, ref tables, .. } = typed;
    let effort = if typed.quick { Effort::QUICK } else { Effort::FULL };
    let (mut out, mut text, mut reports) = (io::stdout().lock(), Text::default(), Vec::new());
    let mut emit = |report: Report| -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut out, &Line { report: &report })?;
            out.write_all(b"\n")?;
        } else {
            out.write_all(text.render(&report).as_bytes())?;
        }
        reports.push(report);
        out.flush()
    };
    let measured = match typed.subject.as_str() {
        "hash" => xylem_bench::hash::run(tables, effort, &mut emit),
        "ndn" => xylem_bench::ndn::run(tables, effort, &mut emit),
        "link" => xylem_bench::link::run(tables, effort, &mut emit),
        "transfer" => xylem_bench::transfer::run(tables, effort, &mut emit),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let compare = |out: &mut io::StdoutLock<'_>| -> io::Result<()> {
        if json {
            for report in before.iter().flat_map(|before| against::changes(before, &reports)) {
                serde_json::to_writer(&mut *out, &Line { report })?;
                out.write_all(b"\n")?;
            }
            return out.flush();
        }
        let compared = before.as_ref().map(|before| against::table(before, &reports));
        out.write_all((text.summary() + &compared.unwrap_or_default()).as_bytes())
    };
    let measured = measured.and_then(|()| compare(&mut out).map_err(Error::Refused));
    // Measurements made before an error are worth keeping too.
    if let Some(path) = &typed.save {
        let line = |report| serde_json::to_string(&Line { report }).map(|line| line + "\n");
        let lines: Result<String, _> = reports.iter().map(line).collect();
        let written = lines.map_err(io::Error::from).and_then(|text| std::fs::write(path, text));
        if let Err(error) = written {
            return failed(path, &error);
        }
    }
    if let Some(path) = &typed.plot {
        let drawn = plot::svg(&reports)
            .ok_or_else(|| io::Error::other("nothing was measured that could be drawn"));
        if let Err(error) = drawn.and_then(|picture| std::fs::write(path, picture)) {
            return failed(path, &error);
        }
    }
    let code = match &measured {
        Ok(()) => return ExitCode::SUCCESS,
        // A reader that has gone (`| head`) is not worth a line.
        Err(Error::Refused(e)) if e.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::from(130);
        }
        Err(Error::Refused(_)) => 4,
        Err(Error::Differ { .. }) => 1,
        Err(Error::NoSuchTable { .. }) => 2,
    };
    if let Err(error) = measured {
        eprintln!("xylem: {error}");
    }
    ExitCode::from(code)
}
