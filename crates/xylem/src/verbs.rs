//! The table of subcommands, in the order of the help: a module each, with its flags and its code.
//!
//! [`command`] builds the whole command line; help, manual pages, completions and wrong usage come from it. To build
//! all flags takes longer than to hash a small file. So a run which names its subcommand first builds only that one
//! ([`command_for`]).

use crate::cli::{Cli, Common};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::{
    bench, ca, ctl, extras, get, inbox, key, mirror, mount, node, peek, ping, put, reach, schema,
    scrub, send, service, share, shares, store, sum, svs, sync, ticket, traffic, trial, ui, verify,
    witness,
};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// The task of a command line, ready to run.
pub(crate) type Task = Box<dyn FnOnce(&Common, &mut Out) -> Result<Exit, CommandFailure>>;

/// One subcommand.
struct Verb {
    name: &'static str,
    /// Adds the help texts and flags.
    arguments: fn(clap::Command) -> clap::Command,
    /// Reads the flags that were given.
    read: fn(&mut ArgMatches) -> Result<Task, clap::Error>,
}

macro_rules! verb {
    ($name:literal, $arguments:ty, $run:expr) => {
        Verb {
            name: $name,
            arguments: <$arguments as Args>::augment_args,
            read: |matches| {
                let arguments = <$arguments as FromArgMatches>::from_arg_matches_mut(matches)?;
                let run: fn($arguments, &Common, &mut Out) -> Result<Exit, CommandFailure> = $run;
                Ok(Box::new(move |common, out| run(arguments, common, out)))
            },
        }
    };
}

const VERBS: &[Verb] = &[
    verb!("share", share::ShareArgs, share::run),
    verb!("shares", shares::SharesArgs, shares::run),
    verb!("unshare", shares::UnshareArgs, shares::unshare),
    verb!("service", service::ServiceArgs, service::run),
    verb!("get", get::GetArgs, get::run),
    verb!("mount", mount::MountArgs, mount::run),
    verb!("mirror", mirror::MirrorArgs, mirror::run),
    verb!("ticket", ticket::TicketArgs, ticket::run),
    verb!("send", send::SendArgs, send::run),
    verb!("inbox", inbox::InboxArgs, inbox::run),
    verb!("ui", ui::UiArgs, ui::run),
    verb!("reach", reach::ReachArgs, reach::run),
    verb!("node", node::NodeArgs, node::run),
    verb!("ctl", ctl::CtlArgs, ctl::run),
    verb!("peek", peek::PeekArgs, peek::run),
    verb!("put", put::PutArgs, put::run),
    verb!("ping", ping::PingArgs, ping::run),
    verb!("traffic", traffic::TrafficArgs, traffic::run),
    verb!("sync", sync::SyncArgs, sync::run),
    verb!("svs", svs::SvsArgs, svs::run),
    verb!("key", key::KeyArgs, key::run),
    verb!("ca", ca::CaArgs, ca::run),
    verb!("schema", schema::SchemaArgs, schema::run),
    verb!("sum", sum::SumArgs, |args, _, out| sum::run(args, out)),
    verb!("verify", verify::VerifyArgs, verify::run),
    verb!("witness", witness::WitnessArgs, witness::run),
    verb!("store", store::StoreArgs, store::run),
    verb!("scrub", scrub::ScrubArgs, scrub::run),
    verb!("try", trial::TryArgs, trial::run),
    verb!("bench", bench::BenchArgs, |args, _, out| bench::run(args, out)),
    verb!("completions", extras::CompletionsArgs, |args, _, out| extras::completions(args, out)),
    verb!("man", extras::ManArgs, |args, _, out| extras::man(args, out)),
];

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    VERBS.iter().fold(Cli::command(), add)
}

/// The part of the command line that `args` can mean; `args` begin with the program's name. That is one subcommand if
/// they name it first, and none if they ask for the version alone.
pub(crate) fn command_for(args: &[OsString]) -> clap::Command {
    let first = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if let Some(verb) = VERBS.iter().find(|verb| verb.name == first) {
        return add(Cli::command(), verb);
    }
    if args.len() == 2 && ["-V", "--version"].contains(&first) { Cli::command() } else { command() }
}

/// Takes the task out of `matches`, which avoids a copy of them.
pub(crate) fn read(mut matches: ArgMatches) -> Result<(Common, Task), clap::Error> {
    let (name, mut flags) = matches.remove_subcommand().expect("clap insists on a subcommand");
    let common = Cli::from_arg_matches_mut(&mut matches)?.common;
    let verb = VERBS.iter().find(|verb| verb.name == name).expect("clap knows only the table's");
    Ok((common, (verb.read)(&mut flags)?))
}

fn add(command: clap::Command, verb: &Verb) -> clap::Command {
    command.subcommand((verb.arguments)(clap::Command::new(verb.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_subcommand_built_alone_has_the_same_help() {
        let help = |mut command: clap::Command, name| {
            command.build();
            let verb = command.find_subcommand_mut(name).expect("it is there");
            verb.render_long_help().to_string()
        };
        for name in VERBS.iter().map(|verb| verb.name) {
            let alone = command_for(&["xylem".into(), name.into()]);
            assert_eq!(alone.get_subcommands().count(), 1, "{name}");
            assert_eq!(help(alone, name), help(command(), name), "{name}");
        }
    }
}
