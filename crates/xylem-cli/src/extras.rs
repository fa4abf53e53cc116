//! `xylem completions SHELL` and `xylem man [VERB]`: generated from the same definition as the help.

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
    /// The shell: bash, elvish, fish, powershell or zsh
    shell: clap_complete::Shell,
}

/// Prints the manual page of xylem or of one verb, in roff
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  xylem man get | man -l -                     reads it here
  xylem man ndn node | man -l -                a verb of a group
  xylem man > ~/.local/share/man/man1/xylem.1  keeps it for `man xylem`
  xylem man --list                             all that have a page, a line each")]
pub(crate) struct ManArgs {
    /// The verb, such as `get` or `ndn node`; without one, xylem itself
    #[arg(value_name = "VERB")]
    verb: Vec<String>,

    /// List all that have a page of their own
    #[arg(long, conflicts_with = "verb")]
    list: bool,
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
    if args.list {
        for words in verbs::pages() {
            out.line(&words)?;
        }
        return Ok(Exit::Done);
    }
    let words = args.verb.join(" ");
    let page = manual_page(&words).ok_or_else(|| {
        let grouped = verbs::in_group(&words).map(|words| format!(": type xylem man {words}"));
        let hint = grouped.unwrap_or_else(|| "; `xylem man --list` lists them".to_owned());
        let what = format!("{words:?} is no verb of xylem{hint}");
        CommandFailure::new(Exit::Usage, what)
    })?;
    out.bytes(&page.map_err(|error| CommandFailure::writing(&error))?)?;
    Ok(Exit::Done)
}

/// The manual page of a verb such as `ndn node`, or of xylem itself if `words` is empty; `None` if there is no such
/// verb.
pub(crate) fn manual_page(words: &str) -> Option<io::Result<Vec<u8>>> {
    let mut command = verbs::whole(verbs::command());
    // Building adds global flags and full names to the verbs.
    command.build();
    for word in words.split_whitespace() {
        command = command.find_subcommand(word)?.clone();
    }
    let name = ["xylem"].into_iter().chain(words.split_whitespace()).collect::<Vec<_>>().join("-");
    let mut page = Vec::new();
    Some(clap_mangen::Man::new(command.display_name(name)).render(&mut page).map(|()| page))
}
