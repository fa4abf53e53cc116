//! Parsing the command line; wrong usage is one line on standard error, with `--json` an event as
//! well, and exit 2.

use crate::cli::Common;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::verbs::{self, Task};
use clap::ColorChoice;
use clap::builder::{FalseyValueParser, TypedValueParser};
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// What was asked for, or the exit code of a run that is over already (help, version, wrong usage).
pub(crate) fn parse() -> Result<(Common, Task), ExitCode> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let json = asks_for_json(&args, std::env::var_os("XYLEM_JSON"));
    let command = verbs::command_for(&args).color(help_color(&args));
    let parsed = command.try_get_matches_from(args).and_then(verbs::read);
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Exit::Done.into(),
            Err(error) => {
                let failure = Failure::writing(&error);
                output::error_line(&failure.message);
                failure.exit.into()
            }
        },
        _ => {
            output::wrong_usage(&one_line(&error.render().to_string()), json);
            Exit::Usage.into()
        }
    })
}

/// Whether results are JSON, of a command line that could not be read as a whole.
fn asks_for_json(args: &[OsString], variable: Option<OsString>) -> bool {
    let flag = args.iter().skip(1).take_while(|word| *word != "--").any(|word| *word == "--json");
    // As clap reads the variable.
    let set = || FalseyValueParser::new().parse_ref(&clap::Command::new(""), None, &variable?).ok();
    flag || set().unwrap_or(false)
}

/// `--color` has to be known before the rest is parsed, because parsing may print the help.
fn help_color(args: &[OsString]) -> ColorChoice {
    let mut words = args.iter().filter_map(|a| a.to_str());
    let mut asked = std::env::var("XYLEM_COLOR").ok();
    while let Some(word) = words.next() {
        match word.strip_prefix("--color") {
            Some("") => asked = words.next().map(str::to_owned),
            Some(value) => asked = value.strip_prefix('=').map(str::to_owned),
            None => {}
        }
    }
    match asked.as_deref() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// Folds clap's paragraph (error, hints, usage) into `what; hint; see help`.
fn one_line(rendered: &str) -> String {
    let mut line = String::new();
    let mut help = "xylem --help".to_owned();
    for part in rendered.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if let Some(usage) = part.strip_prefix("Usage: xylem") {
            let words: Vec<&str> = usage
                .split_whitespace()
                .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
                .collect();
            help =
                ["xylem"].into_iter().chain(words).chain(["--help"]).collect::<Vec<_>>().join(" ");
            break;
        }
        if part.starts_with("For more information") {
            break;
        }
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let part = part.strip_prefix("tip: ").unwrap_or(part);
        match line.chars().last() {
            None => {}
            Some(':') => line.push(' '),
            Some('>') => line.push_str(", "),
            Some(_) => line.push_str("; "),
        }
        line.push_str(part);
    }
    format!("{line}; see `{help}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_as_clap_reads_it() {
        let asks = |args: &[&str], variable: Option<&str>| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            asks_for_json(&args, variable.map(OsString::from))
        };
        assert!(asks(&["xylem", "get", "--json"], None));
        assert!(!asks(&["--json", "sum", "--", "--json"], None), "names that follow are no flags");
        for (value, on) in [("1", true), ("yes", true), ("0", false), ("off", false), ("", false)] {
            assert_eq!(asks(&["xylem", "get"], Some(value)), on, "{value}");
        }
    }

    #[test]
    fn folds_missing_arguments() {
        let text = "error: the following required arguments were not provided:\n  <PATH>\n  \
                    <TICKET>\n\nUsage: xylem verify <PATH> <TICKET>\n\nFor more information, try \
                    '--help'.\n";
        assert_eq!(
            one_line(text),
            "the following required arguments were not provided: <PATH>, <TICKET>; see `xylem \
             verify --help`"
        );
    }
}
