//! `xylem completions SHELL` and `xylem man [COMMAND]`: generated from the same definition as the help.

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::verbs;
use clap::Args;
use std::io;

/// Prints a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  xylem completions bash > ~/.local/share/bash-completion/completions/xylem
  xylem completions zsh > ~/.zfunc/_xylem
  xylem completions fish > ~/.config/fish/completions/xylem.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: clap_complete::Shell,
}

/// Prints the manual page of xylem or of one subcommand, in roff
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  xylem man get | man -l -                     reads it here
  xylem man > ~/.local/share/man/man1/xylem.1  keeps it for `man xylem`")]
pub(crate) struct ManArgs {
    /// A subcommand; without one, xylem itself
    command: Option<String>,
}

/// Runs `xylem completions`.
pub(crate) fn completions(args: CompletionsArgs, out: &mut Out) -> Result<Exit, CommandFailure> {
    // Generate into memory: the generator panics if a write fails, such as to a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut verbs::command(), "xylem", &mut script);
    out.bytes(&script)?;
    Ok(Exit::Done)
}

/// Runs `xylem man`.
pub(crate) fn man(args: ManArgs, out: &mut Out) -> Result<Exit, CommandFailure> {
    let name = args.command.unwrap_or_default();
    let page = manual_page(&name).ok_or_else(|| {
        CommandFailure::new(
            Exit::Usage,
            format!("no subcommand {name:?}; see `xylem --help` for the list"),
        )
    })?;
    out.bytes(&page.map_err(|error| CommandFailure::writing(&error))?)?;
    Ok(Exit::Done)
}

/// Every subcommand's name, in the order of the help.
pub(crate) fn subcommands() -> Vec<String> {
    verbs::command().get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

/// The manual page of a subcommand, or of xylem itself if `subcommand` is empty; `None` if there is no such subcommand.
pub(crate) fn manual_page(subcommand: &str) -> Option<io::Result<Vec<u8>>> {
    let mut whole = verbs::command().disable_help_subcommand(true);
    // Building adds global flags and full names to the subcommands.
    whole.build();
    let command = if subcommand.is_empty() {
        whole
    } else {
        let found = whole.find_subcommand(subcommand)?.clone();
        let full_name = format!("xylem-{subcommand}");
        found.display_name(full_name)
    };
    let mut page = Vec::new();
    Some(clap_mangen::Man::new(command).render(&mut page).map(|()| page))
}
