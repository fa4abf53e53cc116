//! Errors of the crates below, as one line for a person and one [`Blame`] for the exit code.

use std::io;

use xylem_object::Ticket;
use xylem_store::StoreError;

use crate::{Blame, Error};

/// What the store said.
pub fn store(e: &StoreError) -> Error {
    let blame = match e {
        StoreError::NotFound { .. } | StoreError::Exists { .. } => Blame::Usage,
        _ => Blame::Local,
    };
    let mend = match e {
        StoreError::NoSpace { .. } => "; make room and run it again, what was verified is kept",
        StoreError::Busy { .. } => "; another xylem is at work on it",
        StoreError::Changed { .. } => "; share it again",
        StoreError::Exists { .. } => "; choose --overwrite or --rename",
        StoreError::Collision { .. } => "; leave one of the two out with --exclude",
        _ => "",
    };
    Error { blame, message: format!("{e}{mend}") }
}

/// Anything else of the operating system.
pub fn local(doing: &str, e: &io::Error) -> Error {
    Error { blame: Blame::Local, message: format!("{doing}: {e}") }
}

/// Wrong input.
pub fn usage(message: impl Into<String>) -> Error {
    Error { blame: Blame::Usage, message: message.into() }
}

/// A ticket from what was pasted.
pub fn parse_ticket(text: &str) -> Result<Ticket, Error> {
    text.parse().map_err(|e: xylem_object::TicketError| usage(e.to_string()))
}
