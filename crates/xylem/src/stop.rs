//! SIGINT, SIGTERM and SIGHUP ask a run to end in order; a second one ends it at once.

use crate::exit::{Exit, Failure};
use xylem_library::Stop;

/// A [`Stop`] that the usual signals raise.
///
/// Errors where another handler is installed already, which no caller here does.
pub(crate) fn on_signals() -> Result<Stop, Failure> {
    let stop = Stop::new();
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.raised() {
            std::process::exit(Exit::Interrupted as i32);
        }
        raised.raise();
    })
    .map_err(|error| {
        let why = match error {
            ctrlc::Error::System(error) => error.to_string(),
            error => error.to_string(),
        };
        Failure::new(Exit::Local, format!("cannot listen for signals: {why}"))
    })?;
    Ok(stop)
}
