//! [`Download`]: one fetch of what a ticket names, as a page in a browser runs it.
//!
//! ```text
//! WebSocket → packets → Download (xylem-transfer, xylem-tree) → proven runs of bytes → a file of the browser's
//! ```
//! Without sockets, clocks and files: packets of numbered peers come in, Interests go out, time is
//! milliseconds of the caller's clock, and what is proven comes out as runs of bytes with their place. `exports`
//! is what the page's script calls of it; it builds for `wasm32-unknown-unknown` and, for tests, for anything.
//! Signatures, trees and what to ask whom are the crates' that every other program here uses.
//!
//! It does not open connections, decide where bytes are kept, or decrypt.

#![deny(unsafe_code)]

mod download;
#[cfg(target_arch = "wasm32")]
mod exports;
mod kept;
mod layout;
mod runs;
mod told;

pub use download::{Download, StartError};
pub use layout::{Layout, LayoutError};
pub use told::Told;
