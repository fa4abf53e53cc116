//! [`hash::run`], [`ndn::run`], [`link::run`] and [`transfer::run`]: tables of the hash engine, of
//! tree-signed segments in NDN, of the link and of transfers, measured side by side with what else does the same on this machine.
//!
//! Bytes come from a generator in [`input`]; out go [`Report`]s: what the machine is, the heading
//! of a table, each of its rows as soon as it is measured. [`text`] turns them into Markdown tables,
//! serde into JSON; `xylem bench` prints either.
//!
//! Every row is one [`race`]: its contenders run in turn in short slices, many rounds, in one
//! process, so that whatever else the machine does meets all of them; figures are medians, ratios
//! are ratios of medians. Before a contender is timed its result is held against the others'.
//!
//! One build holds one `blake3` crate, because Cargo unifies features. Its other configurations
//! (see [`peers`]) are this library again, in programs of their own, which race them against ours
//! in *their* process and report here.
//!
//! [`plot`] draws the tables, [`against`] compares two runs.
//!
//! What it does not do: it prints nothing, and it tells the truth about one machine and one hour.

pub mod against;
pub mod busy;
pub mod clock;
pub mod hash;
pub mod input;
pub mod link;
pub mod machine;
pub mod ndn;
pub mod paths;
pub mod peers;
pub mod plot;
pub mod race;
pub mod report;
mod series;
pub mod text;
pub mod transfer;

pub use race::Effort;
pub use report::Report;

use std::fmt;

/// Why a series of tables ends early.
#[derive(Debug)]
pub enum Error<E> {
    /// Two contenders that compute the same function disagree: nothing about them is worth timing.
    Differ {
        /// The row.
        row: String,
        /// The contender whose result the other's was compared with.
        one: String,
        /// The other one.
        other: String,
    },
    /// There is no table of this name.
    NoSuchTable {
        /// What was asked for.
        name: String,
        /// What there is.
        tables: &'static [&'static str],
    },
    /// Whoever takes the reports can take no more.
    Refused(E),
}

impl<E> Error<E> {
    fn no_such_table(name: &str, tables: &'static [&'static str]) -> Self {
        Self::NoSuchTable { name: name.to_owned(), tables }
    }
}

/// The tables that were `asked` for, all where none is named.
fn chosen<'a, E>(
    asked: &'a [impl AsRef<str>],
    tables: &'static [&'static str],
) -> Result<Vec<&'a str>, Error<E>> {
    let named: Vec<&str> = asked.iter().map(AsRef::as_ref).collect();
    match named.iter().find(|name| !tables.contains(name)) {
        Some(name) => Err(Error::no_such_table(name, tables)),
        None if named.is_empty() => Ok(tables.to_vec()),
        None => Ok(named),
    }
}

impl<E> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differ { row, one, other } => {
                write!(f, "{one} and {other} do not give the same result: {row}")
            }
            Self::NoSuchTable { name, tables } => {
                write!(f, "no table {name:?}; there are: {}", tables.join(", "))
            }
            Self::Refused(_) => f.write_str("the report could not be handed over"),
        }
    }
}

impl<E: fmt::Debug> std::error::Error for Error<E> {}
