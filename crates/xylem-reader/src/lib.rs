//! [`Reader`]: what a ticket names, read as files before it is fetched.
//!
//! A reader opens a publication and gives its files as [`File`]s, which are [`std::io::Read`] and
//! [`std::io::Seek`]. What is read is fetched as it is asked for, from everybody who has it, with what is likely to
//! come next; each block is proven against the publisher's signature before anybody sees it, and kept in the
//! store, where it is proven again each time that it is read back. One thread owns the sockets; any number of
//! others may read.
//!
//! It does not write results under names ([`xylem_node::get`]), serve others ([`xylem_node::share`]), or know of mount
//! points: `xylem mount` is this behind FUSE, and the Python package `xylem` all three.
//!
//! # What to call
//!
//! | to | call | example |
//! |---|---|---|
//! | publish files and serve them | [`xylem_node::share`] with [`ShareOptions`](xylem_node::ShareOptions) | `cargo run -p xylem-reader --example share -- PATH` |
//! | fetch into a file or folder, and resume | [`xylem_node::get`] with [`GetOptions`](xylem_node::GetOptions) | `--example get -- TICKET OUTPUT` |
//! | read where it is | [`Reader::open`], [`Reader::open_path`], [`File`] | `--example read -- TICKET [PATH]` |
//! | the same in a program on tokio | `AsyncFile`, with the feature `tokio` | |
//! | compare what is on disk | [`xylem_node::verify`] | |
//!
//! Each is one call that blocks, takes a [`Stop`](xylem_library::Stop) with which another thread ends it, tells
//! [`Event`](xylem_node::Event)s while it runs, and returns an error that says who has to act
//! ([`xylem_library::Failure`]). Nothing is printed, no signal handled, and no thread left behind.
//!
//! ```no_run
//! use std::io::{Read, Seek, SeekFrom};
//! use std::path::PathBuf;
//! use xylem_library::Stop;
//! use xylem_reader::{Options, Reader};
//!
//! let ticket = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let options = Options::new(ticket, PathBuf::from("/var/cache/xylem"));
//! let reader = Reader::open(options, &Stop::new(), Box::new(|_event| {}))?;
//! let mut file = reader.open_path(b"weights/layer-7.bin")?;
//! file.seek(SeekFrom::Start(1 << 30))?;
//! let mut header = [0; 64];
//! file.read_exact(&mut header)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;

// What is kept of a file; what is asked for before somebody reads it.
mod ahead;
mod cached;

// The thread that fetches.
mod demand;
mod worker;

// What programs see.
mod file;
mod place;
mod reader;
#[cfg(feature = "tokio")]
mod with_tokio;

pub use error::OpenError;
pub use file::File;
pub use place::usual_store;
pub use reader::{Item, Options, Reader};
#[cfg(feature = "tokio")]
pub use with_tokio::AsyncFile;
