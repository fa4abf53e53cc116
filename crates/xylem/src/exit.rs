//! The one table of exit codes, and failures that carry one.

use std::io;
use std::process::ExitCode;
use xylem_library::{Blame, Error};

/// What a run ends with; the contract that scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, verified.
    Done = 0,
    /// Data did not verify.
    Damaged = 1,
    /// Wrong usage or bad input.
    Usage = 2,
    /// Nobody reachable has it, or time ran out.
    Unreachable = 3,
    /// Disk full, permission, store in use, or a bug.
    Local = 4,
    /// Interrupted by a signal, or by a reader that closed the pipe.
    Interrupted = 130,
}

impl Exit {
    /// The one with this number, as another process of this program has told it.
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

/// The table as `--help` shows it: a literal, so that subcommands can put their examples before it.
macro_rules! exit_help {
    () => {
        "Exit status:
  0    done, verified
  1    data did not verify
  2    wrong usage or bad input
  3    nobody reachable has it, or time ran out; what was verified is kept
  4    local trouble: disk full, permission, store in use
  130  interrupted; what was verified is kept"
    };
}
pub(crate) use exit_help;

/// Why a run ends early: its exit code and one line for a person.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened and how to mend it; empty where nobody is left to read it (a closed pipe).
    pub(crate) message: String,
}

impl Failure {
    /// A failure with a line to print.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A reader that went away (`| head`) is not worth a line; the exit code is still not 0,
    /// because not everything was done.
    pub(crate) fn closed_pipe() -> Self {
        Self::new(Exit::Interrupted, "")
    }

    /// The system starts no more threads.
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

/// Every error that ends a verb, each of which knows who has to act.
impl<E: Into<Error>> From<E> for Failure {
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

/// How a panic of the standard library begins where the system gives something no more, in whatever
/// thread, and what that is; none of it is a bug. `endings.rs` provokes them.
const OF_THE_SYSTEM: [(&str, &str); 5] = [
    ("failed to spawn thread", "the operating system starts no more threads"),
    ("failed to allocate an alternative stack", "no memory for a thread's stack"),
    ("failed to set up alternative stack guard page", "no memory for a thread's stack"),
    ("failed to generate random data", "the operating system gives no randomness"),
    ("failed to open /dev/urandom", "the operating system gives no randomness"),
];

/// Installs a panic hook: on whichever thread, a bug, or a system that has nothing left to give, prints
/// one line and ends the process with 4.
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

/// Has a write beyond the largest file that is allowed (`ulimit -f`) fail as one to a full disk does,
/// instead of ending the process without a word; and ends with 4, and without a core file of secrets,
/// where the standard library has said its line and gives up: no memory, or a stack that is too small.
#[cfg(unix)]
pub(crate) fn outlive_limits() -> Result<(), Failure> {
    use signal_hook::consts::{SIGABRT, SIGXFSZ};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register(SIGXFSZ, always.clone())
        .and_then(|_| {
            signal_hook::flag::register_conditional_shutdown(SIGABRT, Exit::Local as i32, always)
        })
        .map_err(|error| {
            Failure::new(Exit::Local, format!("cannot listen for signals: {error}"))
        })?;
    Ok(())
}

/// No such signals here.
#[cfg(not(unix))]
pub(crate) fn outlive_limits() -> Result<(), Failure> {
    Ok(())
}

/// Bytes of the stack that a limited address space keeps for the command: what a main thread usually has.
#[cfg(unix)]
const STACK: usize = 8 << 20;

/// Does `run`, and where address space is limited (`ulimit -v`) on a thread whose stack is mapped whole, or
/// not at all, which is a line and 4: the main thread's grows as it is used, and ends the process by a
/// signal where there is no room.
#[cfg(unix)]
pub(crate) fn on_a_whole_stack(run: fn() -> ExitCode) -> ExitCode {
    use rustix::process::{Resource, getrlimit};
    if getrlimit(Resource::As).current.is_none() {
        return run();
    }
    let started = std::thread::Builder::new().stack_size(STACK).spawn(run);
    match started.map(std::thread::JoinHandle::join) {
        // A panic has ended the process before (`report_bugs_in_one_line`).
        Ok(ended) => ended.unwrap_or(Exit::Local.into()),
        Err(error) => {
            crate::output::error_line(&format!("no memory for a stack: {error}"));
            Exit::Local.into()
        }
    }
}

/// No such limit here.
#[cfg(not(unix))]
pub(crate) fn on_a_whole_stack(run: fn() -> ExitCode) -> ExitCode {
    run()
}
