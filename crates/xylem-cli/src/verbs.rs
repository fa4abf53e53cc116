//! The table of verbs, in the order of the help: a module each, with its flags and its code.
//!
//! [`command`] builds the whole command line; help, manual pages, completions and wrong usage come from it. To build
//! all flags takes longer than to hash a small file. So a run which names its verb first builds only that one
//! ([`command_for`]).

use crate::cli::{Cli, Common};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::{
    bench, ca, ctl, dissect, dump, extras, get, inbox, key, mirror, mount, node, peek, ping, put,
    reach, relay, request, schema, scrub, send, service, share, shares, store, sum, svs, sync,
    ticket, traffic, trial, ui, verify, witness,
};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// The task of a command line, ready to run.
pub(crate) type Task = Box<dyn FnOnce(&Common, &mut Out) -> Result<Exit, CommandFailure>>;

/// One verb.
struct Verb {
    /// What is typed after `xylem`: one word, or a group's and one more, such as `ndn node`.
    words: &'static str,
    /// Flags that `-h` shows, by their long names; `--help` shows all.
    first_flags: &'static [&'static str],
    /// Adds the help texts and flags.
    arguments: fn(clap::Command) -> clap::Command,
    /// Reads the flags that were given.
    read: fn(&mut ArgMatches) -> Result<Task, clap::Error>,
}

/// Several verbs behind one word.
struct VerbGroup {
    name: &'static str,
    about: &'static str,
    examples: &'static str,
}

macro_rules! verb {
    ($words:literal, $arguments:ty, $run:expr, $first_flags:expr) => {
        Verb {
            words: $words,
            first_flags: &$first_flags,
            arguments: <$arguments as Args>::augment_args,
            read: |matches| {
                let arguments = <$arguments as FromArgMatches>::from_arg_matches_mut(matches)?;
                let run: fn($arguments, &Common, &mut Out) -> Result<Exit, CommandFailure> = $run;
                Ok(Box::new(move |common, out| run(arguments, common, out)))
            },
        }
    };
}

const GROUPS: &[VerbGroup] = &[
    VerbGroup {
        name: "ndn",
        about: "NDN: node, ctl, put, peek, ping, traffic, dump, schema, ca and more",
        examples: "Examples:
  xylem ndn node                       a forwarder for this machine's programs
  xylem ndn put /alice/film film.mkv   publishes a file for any NDN program
  xylem ndn ctl status                 what the forwarder has done",
    },
    VerbGroup {
        name: "net",
        about: "Network: reach (how others reach this machine), relay",
        examples: "Examples:
  xylem net reach                               asks the router alone
  xylem net reach --relay KEY@example.org:7348  asks a relay, too
  xylem net relay                               connects peers behind NATs",
    },
];

const VERBS: &[Verb] = &[
    verb!(
        "share",
        share::ShareArgs,
        share::run,
        ["for", "code", "as", "exclude", "follow", "public", "web", "foreground"]
    ),
    verb!(
        "get",
        get::GetArgs,
        get::run,
        ["output", "from", "overwrite", "dry-run", "range", "follow", "seed", "limit", "timeout"]
    ),
    verb!(
        "sync",
        sync::SyncArgs,
        sync::run,
        ["as", "read-only", "status", "history", "restore", "remove", "background", "limit"]
    ),
    verb!("mount", mount::MountArgs, mount::run, ["from", "timeout", "limit"]),
    verb!("send", send::SendArgs, send::run, ["note", "to", "node", "relay"]),
    verb!("inbox", inbox::InboxArgs, inbox::run, ["listen", "node"]),
    verb!(
        "verify",
        verify::VerifyArgs,
        verify::run,
        ["allow-extra", "extends", "evidence", "witness"]
    ),
    verb!("scrub", scrub::ScrubArgs, scrub::run, ["repair", "from", "limit"]),
    verb!(
        "sum",
        sum::SumArgs,
        |args, _, out| sum::run(args, out),
        ["check", "recursive", "tree", "keyed", "length", "no-names", "tag"]
    ),
    verb!(
        "service",
        service::ServiceArgs,
        service::run,
        ["listen", "public", "metrics", "no-start"]
    ),
    verb!("ui", ui::UiArgs, ui::run, ["listen", "at"]),
    verb!("try", trial::TryArgs, trial::run, []),
    verb!(
        "ndn node",
        node::NodeArgs,
        node::run,
        ["listen", "metrics", "accept-open", "shape", "post-quantum"]
    ),
    verb!("ndn ctl", ctl::CtlArgs, ctl::run, ["at", "sign"]),
    verb!("ndn put", put::PutArgs, put::run, ["one", "once", "segments", "sign", "at"]),
    verb!(
        "ndn peek",
        peek::PeekArgs,
        peek::run,
        ["payload", "prefix", "fresh", "lifetime", "key", "at"]
    ),
    verb!("ndn ping", ping::PingArgs, ping::run, ["serve", "count", "interval", "timeout", "at"]),
    verb!(
        "ndn traffic",
        traffic::TrafficArgs,
        traffic::run,
        ["serve", "size", "rate", "duration", "window", "at"]
    ),
    verb!("ndn svs", svs::SvsArgs, svs::run, ["as", "sync-version", "sign", "key", "at"]),
    verb!("ndn dump", dump::DumpArgs, dump::run, ["read", "below"]),
    verb!("ndn dissect", dissect::DissectArgs, dissect::run, []),
    verb!("ndn schema", schema::SchemaArgs, schema::run, []),
    verb!("ndn ca", ca::CaArgs, ca::run, ["sign", "challenge", "accept", "at"]),
    verb!(
        "ndn request",
        request::RequestArgs,
        request::run,
        ["name", "type", "challenge", "email", "ca", "ca-digest", "at"]
    ),
    verb!("key", key::KeyArgs, key::run, []),
    verb!("store", store::StoreArgs, store::run, []),
    verb!("net reach", reach::ReachArgs, reach::run, ["relay", "listen", "no-map"]),
    verb!("net relay", relay::RelayServerArgs, relay::run, RELAY_FLAGS),
    // Typed most often, so it is a verb of its own too.
    verb!("relay", relay::RelayServerArgs, relay::run, RELAY_FLAGS),
    verb!("shares", shares::SharesArgs, shares::run, ["tickets"]),
    verb!("unshare", shares::UnshareArgs, shares::unshare, []),
    verb!("ticket", ticket::TicketArgs, ticket::run, ["offline", "files", "from", "timeout"]),
    verb!("mirror", mirror::MirrorArgs, mirror::run, ["keep", "repair", "from", "limit"]),
    verb!("witness", witness::WitnessArgs, witness::run, ["sign", "once", "from"]),
    verb!("bench", bench::BenchArgs, |args, _, out| bench::run(args, out), []),
    verb!(
        "completions",
        extras::CompletionsArgs,
        |args, _, out| extras::completions(args, out),
        []
    ),
    verb!("man", extras::ManArgs, |args, _, out| extras::man(args, out), ["list"]),
];

/// Most flags of a verb within another one that `-h` shows without a choice.
const MAX_SHOWN_FLAGS: usize = 8;

/// What `--timeout` does in the verbs in which it is not 30 seconds and an end.
const TIMEOUTS: [(&str, &str); 6] = [
    ("get", "[default: 30; with --wait never]"),
    ("mount", "After this time a read of a file fails. [default: 30]"),
    ("send", "After this time it tries again. [default: 10; for a code 30]"),
    ("inbox", "[default: 10]"),
    ("ticket", "[default: 3]"),
    ("witness", "After this time it tries again, except with --once. [default: 30]"),
];

/// The part of the help of `--no-lan` for verbs with `--listen`.
const OF_LISTEN: &str = "; nothing is announced if --listen names loopback alone";

const RELAY_FLAGS: [&str; 3] = ["listen", "metrics", "accept-open"];

/// Verbs and groups that `xylem --help` describes with a line each. It names the others in one line.
const DESCRIBED: [&str; 16] = [
    "share", "get", "sync", "mount", "send", "inbox", "verify", "scrub", "sum", "service", "ui",
    "try", "ndn", "key", "store", "net",
];

impl Verb {
    /// The group, if it is in one, and the verb's own word.
    fn place(&self) -> (Option<&'static str>, &'static str) {
        match self.words.split_once(' ') {
            Some((group, name)) => (Some(group), name),
            None => (None, self.words),
        }
    }

    fn build(&self) -> clap::Command {
        let (_, name) = self.place();
        let built = (self.arguments)(clap::Command::new(name)).disable_help_subcommand(true);
        let built = in_its_words(built, self.words);
        let is_first = |arg: &clap::Arg| {
            arg.is_positional() || arg.get_long().is_some_and(|it| self.first_flags.contains(&it))
        };
        let only_first = |command: clap::Command| {
            command.mut_args(|arg| {
                let hidden = !is_first(&arg);
                arg.hide_short_help(hidden)
            })
        };
        // A verb within this one shows all of its flags if they fit on a screen.
        let built = only_first(built).mut_subcommands(|inner| {
            let fits = inner.get_arguments().count() <= MAX_SHOWN_FLAGS;
            if fits { inner } else { only_first(inner) }
        });
        with_short_help(built, self.words)
    }
}

/// `command`, the verb `words`, whose shared flags describe what they do in this verb.
fn in_its_words(command: clap::Command, words: &str) -> clap::Command {
    let listens = command.get_arguments().any(|arg| arg.get_long() == Some("listen"));
    let timeout = TIMEOUTS.iter().find(|(verb, _)| *verb == words).map(|(_, what)| *what);
    let text =
        |help: Option<&clap::builder::StyledStr>| help.map(ToString::to_string).unwrap_or_default();
    let command = command.mut_args(|arg| match (arg.get_id().as_str(), timeout) {
        ("timeout", Some(what)) => {
            let help = format!("{}\n\n{what}", text(arg.get_help()));
            arg.long_help(help)
        }
        ("no_lan", _) if !listens => {
            let help = text(arg.get_long_help()).replace(OF_LISTEN, "");
            arg.long_help(help)
        }
        _ => arg,
    });
    command.mut_subcommands(|inner| {
        let words = format!("{words} {}", inner.get_name());
        in_its_words(inner, &words)
    })
}

impl VerbGroup {
    /// The group's command without its verbs.
    fn build(&self) -> clap::Command {
        let built = clap::Command::new(self.name)
            .about(self.about)
            .after_help(self.examples)
            .subcommand_required(true)
            .disable_help_subcommand(true);
        with_short_help(built, self.name)
    }
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    let mut whole = root();
    for verb in VERBS {
        whole = match verb.place() {
            (None, _) => whole.subcommand(verb.build()),
            (Some(group), _) => {
                if whole.find_subcommand(group).is_none() {
                    whole = whole.subcommand(group_named(group).build());
                }
                whole.mut_subcommand(group, |it| it.subcommand(verb.build()))
            }
        };
    }
    let help = overview(&whole);
    whole.override_help(help)
}

/// The part of the command line that `args` can mean; `args` begin with the program's name. That is one verb if they
/// name it, behind none but common options, and no verb if they ask for the version alone. The whole costs every run
/// fifty million instructions.
pub(crate) fn command_for(args: &[OsString]) -> clap::Command {
    let root = root();
    let words = &args[first_word(args, &root)..];
    let word = |i: usize| words.get(i).and_then(|word| word.to_str()).unwrap_or_default();
    let named = VERBS.iter().find(|verb| match verb.place() {
        (None, name) => name == word(0),
        (Some(group), name) => group == word(0) && name == word(1),
    });
    if let Some(verb) = named {
        return match verb.place() {
            (None, _) => root.subcommand(verb.build()),
            (Some(group), _) => {
                root.subcommand(group_named(group).build().subcommand(verb.build()))
            }
        };
    }
    let asks_version = |word: &OsString| word == "-V" || word == "--version";
    if args.len() == 2 && asks_version(&args[1]) { root } else { command() }
}

/// The place of the first word behind the common options and their values, at most the number of words.
fn first_word(args: &[OsString], root: &clap::Command) -> usize {
    let takes_value = |word: &str| {
        root.get_arguments().filter(|arg| arg.get_action().takes_values()).any(|arg| {
            let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            long || arg
                .get_short()
                .is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()))
        })
    };
    let mut at = args.len().min(1);
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        // Help before a verb is that of the whole.
        if !word.starts_with('-') || ["--", "-h", "--help"].contains(&word) {
            break;
        }
        at += 1 + usize::from(takes_value(word));
    }
    at.min(args.len())
}

/// Takes the task out of `matches`, which avoids a copy of them.
pub(crate) fn read(mut matches: ArgMatches) -> Result<(Common, Task), clap::Error> {
    let (name, mut flags) = matches.remove_subcommand().expect("clap insists on a subcommand");
    let common = Cli::from_arg_matches_mut(&mut matches)?.common;
    let words = match GROUPS.iter().any(|group| group.name == name) {
        true => {
            let (inner, its_flags) = flags.remove_subcommand().expect("clap insists on one here");
            flags = its_flags;
            format!("{name} {inner}")
        }
        false => name,
    };
    let verb = VERBS.iter().find(|verb| verb.words == words).expect("clap knows only the table's");
    Ok((common, (verb.read)(&mut flags)?))
}

/// `command` for `-h`: the line of an option leaves out its variable and the list of its values.
pub(crate) fn terse(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let has_values = arg.get_action().takes_values();
        arg.hide_env(true).hide_possible_values(has_values)
    });
    command.mut_subcommands(terse)
}

/// `command` for a manual page: the generator leaves out each option that `-h` hides.
pub(crate) fn whole(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(whole)
}

/// Returns the words to type for `word`, if it is the name of a verb in a group.
pub(crate) fn in_group(word: &str) -> Option<&'static str> {
    let is_it = |verb: &&Verb| matches!(verb.place(), (Some(_), name) if name == word);
    VERBS.iter().find(is_it).map(|verb| verb.words)
}

/// Returns the words of each verb, group and verb within another: all that have a manual page, in the help's order.
pub(crate) fn pages() -> Vec<String> {
    let whole = command();
    each(&whole).into_iter().map(|(words, _)| words).filter(|words| !words.is_empty()).collect()
}

/// `command` and all commands within it, in the help's order, each with the words to type for it.
fn each(command: &clap::Command) -> Vec<(String, &clap::Command)> {
    fn below<'a>(
        words: &str,
        command: &'a clap::Command,
        all: &mut Vec<(String, &'a clap::Command)>,
    ) {
        all.push((words.to_owned(), command));
        for inner in command.get_subcommands() {
            below(format!("{words} {}", inner.get_name()).trim_start(), inner, all);
        }
    }
    let mut all = Vec::new();
    below("", command, &mut all);
    all
}

fn root() -> clap::Command {
    headed(Cli::command().mut_args(|arg| arg.hide_short_help(true)).disable_help_subcommand(true))
}

fn group_named(name: &str) -> &'static VerbGroup {
    GROUPS.iter().find(|group| group.name == name).expect("a verb's group is in the table")
}

/// Calls what is within `command` verbs, as all other texts do.
fn headed(command: clap::Command) -> clap::Command {
    let command = command.subcommand_value_name("VERB").subcommand_help_heading("Verbs");
    command.mut_subcommands(headed)
}

/// Gives `-h` the first three examples, and leaves the whole text to `--help`.
fn with_short_help(command: clap::Command, words: &str) -> clap::Command {
    let help = clap::Arg::new("help")
        .short('h')
        .long("help")
        .action(clap::ArgAction::Help)
        .global(true)
        .hide_short_help(true)
        .help("Print help: -h one screen, --help all of it");
    let command = headed(command.disable_help_flag(true).arg(help));
    let Some(whole) = command.get_after_help().map(ToString::to_string) else { return command };
    let mut lines = whole.lines();
    let mut short = String::new();
    let mut examples = 0;
    for line in lines.by_ref().skip_while(|line| *line != "Examples:") {
        examples += usize::from(line.starts_with("  ") && !line.starts_with("   "));
        if line.is_empty() || examples > 3 {
            break;
        }
        short.push_str(line);
        short.push('\n');
    }
    let more = match whole.contains("Exit status") {
        true => format!("All options, and what the exit status means: xylem {words} --help"),
        false if command.has_subcommands() => {
            format!("All options of a verb: xylem {words} VERB -h")
        }
        false => format!("All options: xylem {words} --help"),
    };
    short.push_str(&format!("\n{more}"));
    command.after_help(short).after_long_help(whole)
}

/// The text of `xylem --help`, which fits a screen of 24 lines.
fn overview(whole: &clap::Command) -> String {
    let header = whole.get_styles().get_header();
    let literal = whole.get_styles().get_literal();
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
    let mut text = about(whole).unwrap_or_default();
    text.push_str(&format!(
        "\n\n{header}Usage:{header:#} {literal}xylem{literal:#} VERB [ARGUMENTS]\n\n"
    ));
    for name in DESCRIBED {
        let described = whole.find_subcommand(name).and_then(about).unwrap_or_default();
        text.push_str(&format!("  {literal}{name:<8}{literal:#} {described}\n"));
    }
    let others = whole.get_subcommands().map(clap::Command::get_name);
    let others: Vec<_> = others.filter(|name| !DESCRIBED.contains(name)).collect();
    text.push_str(&format!("{header}Also:{header:#} {}\n\n", others.join(", ")));
    text.push_str(
        "xylem VERB -h: one screen, with examples; --help: all of it. xylem -V: version.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn built(words: &str) -> clap::Command {
        let mut command = command().term_width(80);
        command.build();
        words
            .split(' ')
            .fold(command, |it, word| it.find_subcommand(word).expect("it is there").clone())
    }

    /// The whole command line as `-h` shows it.
    fn everything() -> clap::Command {
        let mut command = terse(command()).term_width(80);
        command.build();
        command
    }

    #[test]
    fn shared_flags_describe_what_they_do_in_each_verb() {
        let whole = command();
        let mut seen = 0;
        for (words, verb) in each(&whole) {
            let has = |long: &str| verb.get_arguments().find(|arg| arg.get_long() == Some(long));
            let help = |long: &str| has(long)?.get_long_help().map(ToString::to_string);
            let own = TIMEOUTS.iter().find(|(verb, _)| *verb == words);
            seen += usize::from(own.is_some());
            // `ping` and others have a flag of their own by this name.
            let shared = |help: &String| help.starts_with("Give up after this long without");
            if let Some(help) = help("timeout").filter(shared) {
                let what = own.map_or("[default: 30]", |(_, what)| *what);
                assert!(help.ends_with(&format!("\n\n{what}")), "{words}: {help}");
            }
            if let Some(help) = help("no-lan") {
                assert_eq!(help.contains(OF_LISTEN), has("listen").is_some(), "{words}: {help}");
                assert!(help.contains("Both are by mDNS"), "{words}: {help}");
            }
        }
        assert_eq!(seen, TIMEOUTS.len());
    }

    /// A name of an option that takes another kind of value elsewhere means another thing there.
    #[test]
    fn an_option_of_one_name_takes_one_kind_of_value_in_every_verb() {
        // `cs config --serve on` is the word of the management protocol (CsEnableServe); `ping --serve` is a role.
        const EXCEPTIONS: [&str; 1] = ["serve"];
        let whole = everything();
        let mut kinds = BTreeMap::<&str, BTreeMap<String, Vec<String>>>::new();
        for (words, command) in each(&whole) {
            for argument in command.get_arguments() {
                let Some(name) = argument.get_long() else { continue };
                let takes_value = argument.get_action().takes_values();
                let values = argument.get_value_names().unwrap_or_default().join(" ");
                let kind = if takes_value { values } else { "none".to_owned() };
                kinds.entry(name).or_default().entry(kind).or_default().push(words.clone());
            }
        }
        assert!(kinds["from"]["PEER"].len() > 5, "the walk finds options of verbs");
        kinds.retain(|name, kinds| kinds.len() > 1 && !EXCEPTIONS.contains(name));
        assert!(kinds.is_empty(), "{kinds:#?}");
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_subcommand_built_alone_has_the_same_help() {
        for verb in VERBS {
            let command_behind = |options: &[&str]| {
                let words = options.iter().copied().chain(verb.words.split(' '));
                let args = ["xylem"].into_iter().chain(words).map(OsString::from);
                let alone = command_for(&args.collect::<Vec<_>>()).term_width(80);
                assert_eq!(alone.get_subcommands().count(), 1, "{options:?} {}", verb.words);
                alone
            };
            // The value of an option may be a verb's name.
            command_behind(&["--store", "get", "--json", "-vq", "--color=never"]);
            let mut alone = command_behind(&[]);
            alone.build();
            let find =
                |it: clap::Command, word| it.find_subcommand(word).expect("it is there").clone();
            let mut alone = verb.words.split(' ').fold(alone, find);
            let whole = built(verb.words).render_long_help().to_string();
            assert_eq!(alone.render_long_help().to_string(), whole, "{}", verb.words);
        }
    }

    #[test]
    fn other_words_before_a_verb_are_looked_up_in_all_verbs() {
        for words in [
            &["--"][..],
            &["--help", "get"],
            &["-h", "get"],
            &["--stor", "x", "get"],
            &["nonsense"],
            &["--store"],
            &["node"],
            &[],
        ] {
            let args = ["xylem"].iter().chain(words).map(OsString::from);
            let found = command_for(&args.collect::<Vec<_>>());
            assert!(found.get_subcommands().count() > 1, "{words:?}");
        }
    }

    #[test]
    fn the_overview_fits_a_screen() {
        let text = command().term_width(80).render_long_help().to_string();
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for name in VERBS.iter().filter_map(|verb| (verb.place().0.is_none()).then_some(verb.words))
        {
            assert!(text.contains(name), "{name}");
        }
    }

    #[test]
    fn short_help_fits_a_screen_and_has_three_examples() {
        let mut bad = Vec::new();
        for (words, command) in each(&everything()) {
            let text = command.clone().render_help().to_string();
            let examples = text.split("Examples:\n").nth(1).unwrap_or_default();
            let examples = examples.lines().take_while(|line| line.starts_with("  "));
            let count = examples.filter(|line| line.contains("xylem ")).count();
            let is_verb = VERBS.iter().any(|verb| verb.words == words);
            let lines = text.lines().count();
            if lines > 24 || (is_verb && count < 3) {
                bad.push(format!("{words}: {lines} lines, {count} examples\n{text}"));
            }
        }
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }

    #[test]
    fn every_command_has_help() {
        for (words, command) in each(&everything()) {
            let args: Vec<&str> = ["xylem"].into_iter().chain(words.split_whitespace()).collect();
            for flag in ["-h", "--help"] {
                let found = self::command().try_get_matches_from(args.iter().chain(&[flag]));
                let kind = found.map(drop).map_err(|error| error.kind());
                assert_eq!(kind, Err(clap::error::ErrorKind::DisplayHelp), "{words} {flag}");
            }
            assert!(!command.clone().render_long_help().to_string().is_empty());
        }
    }

    #[test]
    fn flags_that_short_help_shows_exist() {
        for verb in VERBS {
            let command = built(verb.words);
            for flag in verb.first_flags {
                let is_it = |arg: &clap::Arg| arg.get_long() == Some(flag);
                let inner = command.get_subcommands().flat_map(clap::Command::get_arguments);
                let exists = command.get_arguments().chain(inner).any(is_it);
                assert!(exists, "{}: no --{flag}", verb.words);
            }
        }
    }
}
