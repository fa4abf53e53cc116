//! Parses the command line. Wrong usage is one line on standard error, with `--json` also an event, and exit code 2.

use crate::cli::{Common, LogFormat};
use crate::exit::{CommandFailure, Exit};
use crate::meant;
use crate::output;
use crate::relays::without_tokens;
use crate::verbs::{self, Task};
use clap::ColorChoice;
use clap::builder::{FalseyValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The task of the command line, or the exit code of a run that is over already (help, version, wrong usage).
pub(crate) fn parse() -> Result<(Common, Task), ExitCode> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // `xylem help VERB`, as with git and cargo.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("-h".into());
    }
    let json = asks_for_json(&args, std::env::var_os("XYLEM_JSON"));
    // Errors of this function are lines of standard error, too.
    if value_of("--log-format", "XYLEM_LOG_FORMAT", &args).as_deref() == Some("json") {
        output::log::set_line_format(LogFormat::Json);
    }
    let mut command = verbs::command_for(&args).color(help_color(&args));
    if args.iter().any(|word| word == "-h") {
        command = verbs::terse(command);
    }
    let parsed = command.try_get_matches_from(&args).and_then(verbs::read);
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Exit::Done.into(),
            Err(error) => {
                let failure = CommandFailure::writing(&error);
                output::error_line(&failure.message);
                failure.exit.into()
            }
        },
        // The command line asks for nothing yet: show the help.
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if !json && !output::log::has_json_lines() =>
        {
            // Ignore a closed standard error.
            let _ = write!(io::stderr().lock(), "{}", verb_of(&args).render_help());
            Exit::Usage.into()
        }
        _ => {
            let verb = verb_of(before_wrong_word(&error, &args));
            let what = advice(&error, verb.get_name())
                .unwrap_or_else(|| one_line(&error.render().to_string()));
            let help = verb.get_bin_name().unwrap_or("xylem");
            let what = without_tokens(&what);
            output::wrong_usage(&format!("{what}; see `{help} --help`"), json);
            Exit::Usage.into()
        }
    })
}

/// Whether results are JSON, for a command line that could not be parsed as a whole.
fn asks_for_json(args: &[OsString], variable: Option<OsString>) -> bool {
    let flag = args.iter().skip(1).take_while(|word| *word != "--").any(|word| *word == "--json");
    // Parse the variable as clap does.
    let set = || FalseyValueParser::new().parse_ref(&clap::Command::new(""), None, &variable?).ok();
    flag || set().unwrap_or(false)
}

/// The value of a common flag, or of its variable, for a command line that could not be parsed as a whole.
fn value_of(flag: &str, variable: &str, args: &[OsString]) -> Option<String> {
    let words = args.iter().skip(1).take_while(|word| *word != "--");
    let mut words = words.filter_map(|word| word.to_str());
    let mut asked = std::env::var(variable).ok();
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => asked = words.next().map(str::to_owned),
            Some(value) if value.starts_with('=') => asked = Some(value[1..].to_owned()),
            Some(_) | None => {}
        }
    }
    asked
}

/// Finds `--color` before the rest is parsed, because parsing may print the help.
fn help_color(args: &[OsString]) -> ColorChoice {
    match value_of("--color", "XYLEM_COLOR", args).as_deref() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// The part of a command line before the word that is no verb; all of it if another thing is wrong.
fn before_wrong_word<'a>(error: &clap::Error, args: &'a [OsString]) -> &'a [OsString] {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return args;
    };
    let end = args.iter().position(|word| word.to_str() == Some(wrong)).unwrap_or(args.len());
    &args[..end]
}

/// The innermost verb that a command line names, such as `store gc`; the whole program if it names none.
fn verb_of(args: &[OsString]) -> clap::Command {
    let mut program = verbs::command();
    program.build();
    let mut verb = &program;
    let mut words = args.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        // Flags and their values may stand between the words of a verb.
        if let Some(flag) = word.strip_prefix("--") {
            let mut flags = verb.get_arguments().filter(|arg| arg.get_long() == Some(flag));
            if flags.any(|arg| arg.get_action().takes_values()) {
                words.next();
            }
            continue;
        }
        match verb.find_subcommand(word) {
            Some(inner) => verb = inner,
            None if word.starts_with('-') || std::ptr::eq(verb, &raw const program) => {}
            None => break,
        }
    }
    verb.clone()
}

/// Options that people may know by another name: the verb (empty: any), that name, and what to type.
const RENAMED: [(&str, &str, &str); 15] = [
    ("node", "--relay", "xylem relay"),
    ("get", "--background", "--low-priority"),
    ("mirror", "--background", "--low-priority"),
    ("get", "--at", "--since VERSION"),
    ("send", "--at", "--to HOST:PORT"),
    ("send", "--via", "--node HOST:PORT"),
    ("inbox", "--from", "--node HOST:PORT"),
    ("card", "--at", "--announce HOST:PORT"),
    ("share", "--key", "--sign ed25519:FILE"),
    ("share", "--keep", "--tee FILE"),
    ("ca", "--key", "--sign key:NAME"),
    ("put", "--announce", "--announce-prefix"),
    ("mirror", "--check", "--repair"),
    ("passphrase", "--remove", "--no-passphrase"),
    ("", "--anchor", "--trust CERT"),
];

/// A hint at what to type instead, if there is one.
fn advice(error: &clap::Error, verb: &str) -> Option<String> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
                return None;
            };
            let grouped = verbs::in_group(word).map(|words| format!("xylem {words}"));
            let foreign = || meant::other_word(word).filter(|_| verb == "xylem");
            let typed = grouped.or_else(|| foreign().map(str::to_owned))?;
            Some(format!("{word} is no verb of {verb}: type {typed}"))
        }
        ErrorKind::UnknownArgument => {
            let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let flag = flag.split_once('=').map_or(&**flag, |(flag, _)| flag);
            let is_it = |(of, old, _): &&(&str, &str, &str)| *old == flag && (*of == verb || of.is_empty());
            let (_, _, new) = RENAMED.iter().find(is_it)?;
            Some(format!("{verb} has no {flag}: type {new}"))
        }
        ErrorKind::MissingRequiredArgument if verb == "send" => Some(
            "send needs the peer to send to; to hand a file to a person whom you tell a code, type xylem share --code FILE".to_owned(),
        ),
        _ => None,
    }
}

/// Converts clap's paragraph (error, hints, usage) to `what; hint`.
fn one_line(rendered: &str) -> String {
    let mut line = String::new();
    for part in rendered.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with("Usage: ") || part.starts_with("For more information") {
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
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_detected_as_clap_parses_it() {
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
            "the following required arguments were not provided: <PATH>, <TICKET>"
        );
    }
}
