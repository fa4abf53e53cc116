//! The one table of exit codes, and failures that carry one.

use std::io;
use std::process::ExitCode;
use xylem_base::{Blame, Error};

/// Exit codes of the command: a contract that scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, verified.
    Done = 0,
    /// Data did not verify.
    Damaged = 1,
    /// Wrong usage or bad input.
    Usage = 2,
    /// No reachable peer has it, or time ran out.
    Unreachable = 3,
    /// Disk full, permission, store in use, or a bug.
    Local = 4,
    /// Interrupted by a signal, or by a reader that closed the pipe.
    Interrupted = 130,
}

impl Exit {
    /// The code with this number, as another process of this program has reported it.
    pub(crate) fn from_code(code: u8) -> Self {
        let all = [Self::Done, Self::Damaged, Self::Usage, Self::Unreachable, Self::Interrupted];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Local)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The table as `--help` shows it. It is a literal, so that subcommands can put their examples before it.
macro_rules! exit_help {
    () => {
        "Exit status:
  0    done; what was fetched is verified
  1    data did not verify, or a check failed
  2    wrong usage or bad input
  3    no peer or forwarder answered, or time ran out; what was verified is kept
  4    trouble on this machine: disk full, permission, store in use
  130  interrupted; what was verified is kept"
    };
}
pub(crate) use exit_help;

/// Why a run ends early: its exit code and one line for a person.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened and how to mend it; empty if the reader is gone (a closed pipe).
    pub(crate) message: String,
}

impl CommandFailure {
    /// A failure with a line to print.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A reader that went away (`| head`) is not worth a message. The exit code is still not 0, because not everything
    /// was done.
    pub(crate) fn closed_pipe() -> Self {
        Self::new(Exit::Interrupted, "")
    }

    /// The system cannot start another thread.
    pub(crate) fn no_thread(error: &io::Error) -> Self {
        Self::new(Exit::Local, format!("cannot start a thread: {error}"))
    }

    /// Writing a result failed.
    pub(crate) fn writing(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::closed_pipe();
        }
        Self::new(Exit::Local, format!("cannot write to standard output: {error}"))
    }
}

/// Every error that ends a verb; each maps to an exit code.
impl<E: Into<Error>> From<E> for CommandFailure {
    fn from(error: E) -> Self {
        let Error { blame, message } = error.into();
        let exit = match blame {
            Blame::Data => Exit::Damaged,
            Blame::Usage => Exit::Usage,
            Blame::Network => Exit::Unreachable,
            Blame::Local => Exit::Local,
            Blame::Interrupted => Exit::Interrupted,
        };
        Self { exit, message }
    }
}

/// The beginnings of the standard library's panic messages when the system refuses a resource, on any thread, and the
/// resource's name. None of them is a bug. `endings.rs` provokes them.
const OF_THE_SYSTEM: [(&str, &str); 5] = [
    ("failed to spawn thread", "the operating system refuses to start another thread"),
    ("failed to allocate an alternative stack", "no memory for a thread's stack"),
    ("failed to set up alternative stack guard page", "no memory for a thread's stack"),
    ("failed to generate random data", "the operating system gives no randomness"),
    ("failed to open /dev/urandom", "the operating system gives no randomness"),
];

/// Installs a panic hook. On any thread, a bug or a system without resources prints one line and ends the process with
/// 4.
///
/// Nothing verified is lost by ending here: what is on disk is consistent after every write.
pub(crate) fn report_bugs_in_one_line() {
    std::panic::set_hook(Box::new(|info| {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line()));
        let line = match OF_THE_SYSTEM.iter().find(|(words, _)| what.starts_with(words)) {
            Some((_, said)) => (*said).to_owned(),
            None => format!(
                "this is a bug in xylem {}, please report it: {what}{}",
                env!("CARGO_PKG_VERSION"),
                place.unwrap_or_default()
            ),
        };
        crate::output::error_line(&line);
        std::process::exit(Exit::Local as i32);
    }));
}

/// Makes three ends of the process orderly. A write beyond the file size limit (`ulimit -f`) fails like a write to a
/// full disk, instead of ending the process by a signal. Where the standard library prints a message and aborts (no
/// memory, or too small a stack), the process ends with 4 and without a core file, which could hold secrets.
#[cfg(unix)]
pub(crate) fn handle_resource_limits() -> Result<(), CommandFailure> {
    use signal_hook::consts::{SIGABRT, SIGXFSZ};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register(SIGXFSZ, always.clone())
        .and_then(|_| {
            signal_hook::flag::register_conditional_shutdown(SIGABRT, Exit::Local as i32, always)
        })
        .map_err(|error| {
            CommandFailure::new(Exit::Local, format!("cannot listen for signals: {error}"))
        })?;
    Ok(())
}

/// This system has no such signals.
#[cfg(not(unix))]
pub(crate) fn handle_resource_limits() -> Result<(), CommandFailure> {
    Ok(())
}

/// Bytes of the command's stack under a limited address space: the usual size of a main thread's stack.
#[cfg(unix)]
const STACK: usize = 8 << 20;

/// Does `run`. Where address space is limited (`ulimit -v`), does it on a thread whose stack is mapped as a whole; if
/// that is impossible, prints one line and ends with 4. A main thread's stack grows as it is used, and a signal ends
/// the process if there is no room.
#[cfg(unix)]
pub(crate) fn with_mapped_stack(run: fn() -> ExitCode) -> ExitCode {
    use rustix::process::{Resource, getrlimit};
    if getrlimit(Resource::As).current.is_none() {
        return run();
    }
    let started = std::thread::Builder::new().stack_size(STACK).spawn(run);
    match started.map(std::thread::JoinHandle::join) {
        // A panic has ended the process already (`report_bugs_in_one_line`).
        Ok(ended) => ended.unwrap_or(Exit::Local.into()),
        Err(error) => {
            crate::output::error_line(&format!("no memory for a stack: {error}"));
            Exit::Local.into()
        }
    }
}

/// This system has no such limit.
#[cfg(not(unix))]
pub(crate) fn with_mapped_stack(run: fn() -> ExitCode) -> ExitCode {
    run()
}
