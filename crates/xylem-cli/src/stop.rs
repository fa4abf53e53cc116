//! SIGINT, SIGTERM and SIGHUP ask a run to end in order; a second one ends it at once. A SIGHUP that is ignored when
//! the program starts stays ignored, as `nohup` requires.

use xylem_base::Stop;

use crate::exit::{CommandFailure, Exit};
use std::sync::OnceLock;

/// The stop flag of this process.
static GIVEN: OnceLock<Stop> = OnceLock::new();

/// Whether a signal has asked this process to end.
pub(crate) fn was_raised() -> bool {
    GIVEN.get().is_some_and(Stop::raised)
}

/// A [`Stop`] that the usual signals raise.
///
/// An error if the system does not let this process handle them.
pub(crate) fn on_signals() -> Result<Stop, CommandFailure> {
    let stop = Stop::new();
    let raised = stop.clone();
    let on_signal = move || {
        if raised.raised() {
            std::process::exit(Exit::Interrupted as i32);
        }
        raised.raise();
    };
    listen(on_signal).map_err(|why| {
        CommandFailure::new(Exit::Local, format!("cannot listen for signals: {why}"))
    })?;
    // A second call has failed above.
    let _ = GIVEN.set(stop.clone());
    Ok(stop)
}

#[cfg(unix)]
fn listen(mut on_signal: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    let (mut arrived, sends) = UnixStream::pair()?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if signal != SIGHUP || !is_ignored(signal) {
            signal_hook::low_level::pipe::register(signal, sends.try_clone()?)?;
        }
    }
    let waiting = move || {
        let mut byte = [0];
        while arrived.read_exact(&mut byte).is_ok() {
            on_signal();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(waiting)?;
    Ok(())
}

/// Whether the process was started with this signal ignored. If the system does not report it without `unsafe`, it
/// counts as not ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn listen(on_signal: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(on_signal)
}
