//! Codes on an engine: `CodeServer` shows one, beside whatever else a program's loop does; [`take`] finds who shows
//! a code that was told, and brings what it stands for. The exchange itself is xylem-reach's.

mod nearby;
mod server;
mod take;

pub(crate) use server::{CodeServer, ShowOptions};
pub use take::{Asking, CodeFailed, TakeOptions, Told, take};
pub use xylem_library::code::{CodeEvent, Offered};
pub use xylem_reach::code::{Code, CodeError, LIFETIME, Over, TakeError, looks_like_code};
