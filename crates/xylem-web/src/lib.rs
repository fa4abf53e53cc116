//! [`Download`]: one fetch of a ticket's content, as a page in a browser runs it.
//!
//! ```text
//! WebSocket → packets → Download (xylem-transfer, xylem-tree) → proven runs of bytes → a file of the browser's
//! ```
//! It has no sockets, clocks and files: packets of numbered peers come in, Interests go out, and proven data come out
//! as runs of bytes with their place. Time is milliseconds of the caller's clock. `exports` has the functions for the
//! page's script; it builds for `wasm32-unknown-unknown` and, for tests, for any target. Signatures, trees and
//! scheduling are those of the crates that every other program here uses.
//!
//! It does not open connections, decide where bytes are kept, or decrypt.

mod download;
#[cfg(target_arch = "wasm32")]
mod exports;
mod kept;
mod layout;
mod runs;
mod told;

pub use download::{Download, StartError};
pub use layout::{FileLayout, LayoutError};
pub use told::PageReport;
