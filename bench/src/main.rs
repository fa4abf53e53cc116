//! `xylem-bench SUBJECT [TABLE]... [--quick] [--json]`: writes the tables as Markdown, or as one JSON
//! event a report. `xylem bench` checks what was typed, has the help, and runs this.

use std::io::{self, Write};
use std::process::ExitCode;

use xylem_bench::peers::QUICK;
use xylem_bench::text::Text;
use xylem_bench::{Effort, Error, Report};

/// One piece of news; its own fields, `report` first, stand beside `event`.
#[derive(serde::Serialize)]
#[serde(tag = "event", rename = "bench")]
struct Row<'a> {
    #[serde(flatten)]
    report: &'a Report,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, mut tables): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|argument| argument.starts_with("--"));
    let json = flags.iter().any(|flag| flag == "--json");
    let effort = if flags.iter().any(|flag| flag == QUICK) { Effort::QUICK } else { Effort::FULL };
    let subject = if tables.is_empty() { String::new() } else { tables.remove(0) };
    let (mut out, mut text) = (io::stdout().lock(), Text::default());
    let mut emit = |report: Report| -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut out, &Row { report: &report })?;
            out.write_all(b"\n")?;
        } else {
            out.write_all(text.render(&report).as_bytes())?;
        }
        out.flush()
    };
    let measured = match subject.as_str() {
        "hash" => xylem_bench::hash::run(&tables, effort, &mut emit),
        "ndn" => xylem_bench::ndn::run(&tables, effort, &mut emit),
        "link" => xylem_bench::link::run(&tables, effort, &mut emit),
        "transfer" => xylem_bench::transfer::run(&tables, effort, &mut emit),
        _ => {
            eprintln!("usage: xylem-bench hash|ndn|link|transfer [TABLE]... [{QUICK}] [--json]");
            return ExitCode::from(2);
        }
    };
    let measured = match measured {
        Ok(()) if !json => out.write_all(text.summary().as_bytes()).map_err(Error::Refused),
        other => other,
    };
    let code = match &measured {
        Ok(()) => return ExitCode::SUCCESS,
        // A reader that went away (`| head`) is not worth a line.
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
