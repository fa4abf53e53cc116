//! Codes on an engine. `CodeServer` shows one, beside the other tasks of a program's loop. [`take`] finds the peer that
//! shows a code and gets what the code stands for. `xylem-reach` defines the exchange.

mod dht;
mod nearby;
mod server;
mod take;

pub use crate::meeting::CodeDht;
pub(crate) use server::{CodeServer, ShowOptions};
pub use take::{
    CodeDialError, CodeLookup, RelayDialError, TakeCodeError, TakeOptions, TakenCode, take,
};
pub use xylem_peers::code::{CodeEvent, Offered};
pub use xylem_reach::code::{CodeEnd, CodeError, LIFETIME, SpokenCode, TakeError, looks_like_code};
