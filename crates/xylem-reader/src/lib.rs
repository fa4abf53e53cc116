//! [`Reader`]: reads the files that a ticket names before they are fetched.
//!
//! A reader opens a publication and gives its files as [`File`]s, which are [`std::io::Read`] and [`std::io::Seek`].
//! Bytes are fetched when they are read, from all peers that have them, together with those that are likely to be read
//! next. Each block is proven against the publisher's signature before it is handed out, and stored; it is proven again
//! each time that it is read back. One thread owns the sockets; any number of others may read.
//!
//! A reader does not write results under names ([`xylem_node::get`]), serve other peers ([`xylem_node::share`]), or
//! know of mount points. `xylem mount` is a reader behind FUSE. The Python package `xylem` wraps `get`, `share`,
//! `verify` and [`Reader`].
//!
//! [`Reader::open`] blocks until the publication is open. A `Reader` has one thread until it is dropped; reads of its
//! files then fail where they need a peer. Programs import it from the crate `xylem`.
//!
//! ```no_run
//! use std::io::{Read, Seek, SeekFrom};
//! use std::path::PathBuf;
//! use xylem_base::Stop;
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

// The stored part of a file, and read-ahead.
mod ahead;
mod cached;

// The fetching thread.
mod demand;
mod worker;

// The public interface.
mod events;
mod file;
mod place;
mod reader;
#[cfg(feature = "tokio")]
mod with_tokio;

pub use error::ReaderError;
pub use events::ReaderEvents;
pub use file::File;
pub use place::usual_store;
pub use reader::{Options, PublicationEntry, Reader};
#[cfg(feature = "tokio")]
pub use with_tokio::AsyncFile;
