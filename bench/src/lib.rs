//! [`hash::run`], [`ndn::run`], [`link::run`] and [`transfer::run`]: tables of the hash engine, of tree-signed segments
//! in NDN, of the link and of transfers, each beside other software for the same work on this machine.
//!
//! Bytes come from a generator in [`input`]. The results are [`Report`]s: the machine, the heading of a table, and each
//! of its rows as soon as it is measured. [`text`] turns them into Markdown tables, serde into JSON; `xylem bench`
//! prints either.
//!
//! Every row is one [`race`]: its contenders run in turn in short slices, many rounds, in one process, so that other
//! load on the machine affects all of them. Figures are medians, ratios are ratios of medians. Before a contender is
//! timed its result is compared with the others'.
//!
//! One build holds one `blake3` crate, because Cargo unifies features. For other configurations (see [`peers`]) this
//! library is built again into programs of their own. They race that crate against ours in *their* process and report
//! here.
//!
//! [`plot`] draws the tables, [`against`] compares two runs.
//!
//! It prints nothing. Its figures hold for one machine at one time.

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

/// Reasons for which a series of tables ends early.
#[derive(Debug)]
pub enum Error<E> {
    /// Two contenders with the same function disagree, so their times are useless.
    Differ {
        /// The row.
        row: String,
        /// The contender with the reference result.
        one: String,
        /// The other one.
        other: String,
    },
    /// There is no table of this name.
    NoSuchTable {
        /// The requested name.
        name: String,
        /// The existing tables.
        tables: &'static [&'static str],
    },
    /// The receiver of the reports failed.
    Refused(E),
}

impl<E> Error<E> {
    fn no_such_table(name: &str, tables: &'static [&'static str]) -> Self {
        Self::NoSuchTable { name: name.to_owned(), tables }
    }
}

/// The tables named in `asked`; all, if none is named.
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
