//! The command line except its subcommands: the text of `xylem --help`, and the flags that every subcommand takes.

use crate::exit::{CommandFailure, Exit};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, Parser, ValueEnum};
use std::fs::File;
use std::path::PathBuf;
use xylem_check::upkeep::close_to_others;

/// Shares files by name; every piece is proven the moment it arrives
///
/// A sharer prints a ticket. Anyone with the ticket fetches the content from any peer that has it, over an encrypted
/// link. Each piece is checked against the publisher's signature before it is written anywhere.
#[derive(Debug, Parser)]
#[command(
    name = "xylem",
    bin_name = "xylem",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = false
)]
pub(crate) struct Cli {
    /// Flags that every subcommand takes.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Columns for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Flags that every subcommand takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print one JSON object per line on standard output instead of text
    #[arg(long, global = true, env = "XYLEM_JSON", hide_env_values = true,
          value_parser = FalseyValueParser::new(), help_heading = "Common options")]
    pub(crate) json: bool,

    /// Print errors only (`sum --check`: no OK lines)
    #[arg(short, long, global = true, env = "XYLEM_QUIET", hide_env_values = true,
          value_parser = FalseyValueParser::new(), help_heading = "Common options")]
    pub(crate) quiet: bool,

    /// Print more, such as every peer that comes and goes; -vv and -vvv log faces, links and fetches to standard error,
    /// as XYLEM_LOG=debug and XYLEM_LOG=trace do
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Common options")]
    pub(crate) verbose: u8,

    /// The format of standard error, with the log of -vv and XYLEM_LOG: text, or one JSON object per line
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        env = "XYLEM_LOG_FORMAT",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) log_format: LogFormat,

    /// No progress bar and no progress lines; with --json no `progress` and `hashing` events
    #[arg(long, global = true, env = "XYLEM_NO_PROGRESS", hide_env_values = true,
          value_parser = FalseyValueParser::new(), help_heading = "Common options")]
    pub(crate) no_progress: bool,

    /// Colour the output
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        env = "XYLEM_COLOR",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) color: Color,

    /// Keep keys and trees here [default: $XDG_DATA_HOME/xylem or ~/.local/share/xylem]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "XYLEM_STORE",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) store: Option<PathBuf>,

    /// Take the passphrase of an encrypted key from the first line of this file (/dev/fd/N: a file
    /// descriptor), instead of asking at the terminal
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "XYLEM_PASSPHRASE_FILE",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// Read this settings file [default: $XDG_CONFIG_HOME/xylem/config.toml, which may be
    /// missing]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "XYLEM_CONFIG",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) config: Option<PathBuf>,
}

impl Common {
    /// Where keys and trees are kept.
    pub(crate) fn store(&self) -> Result<PathBuf, CommandFailure> {
        let dir = self.store_dir()?;
        if let Some(mode) = close_to_others(&dir)?
            && !self.quiet
        {
            crate::output::warning_line(&format!(
                "{}: others could look into this store (mode {mode:04o}); it is closed to them now (0700)",
                dir.display()
            ));
        }
        Ok(dir)
    }

    fn store_dir(&self) -> Result<PathBuf, CommandFailure> {
        if let Some(dir) = &self.store {
            return Ok(dir.clone());
        }
        xylem_reader::usual_store().ok_or_else(|| {
            let what = "no place to keep keys and trees: HOME is not set; give --store DIR";
            CommandFailure::new(Exit::Usage, what)
        })
    }

    /// The settings file: the one named by the flag, or the default one if it exists.
    pub(crate) fn settings(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| {
            let base = absolute("XDG_CONFIG_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
            Some(base.join("xylem/config.toml")).filter(|path| path.exists())
        })
    }

    /// Checks that a settings file named by the flag can be read.
    pub(crate) fn check_config(&self) -> Result<(), CommandFailure> {
        let Some(path) = &self.config else { return Ok(()) };
        let readable = File::open(path).and_then(|file| file.metadata());
        let why = match readable {
            Ok(found) if found.is_file() => return Ok(()),
            Ok(_) => "not a file".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(CommandFailure::new(
            Exit::Usage,
            format!("cannot read settings {}: {why}; name another --config FILE", path.display()),
        ))
    }
}

/// A directory that an environment variable names. Relative paths are ignored, as the XDG base directory specification
/// requires.
pub(crate) fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
