//! [`Handle`]: BLAKE3 for C, through the functions that `include/xylem_blake3.h` declares.
//!
//! What it is: `xylem-hash` behind pointers. Bytes come from the caller's memory and hashes go to
//! the caller's memory; nothing is allocated, kept or printed. The header is the specification:
//! what each function does and what its caller owes is said there, once; the functions here say
//! how.
//!
//! What it does not do: it starts no thread, checks no pointer (C cannot say what a pointer points
//! to) and gives no names to Rust programs, which use `xylem-hash`.
//!
//! Panics: nothing here or below is known to panic. If something did, an `extern "C"` function
//! aborts the process instead of unwinding into its caller (the language says so since Rust 1.81).
//!
//! The Python package in `python/` is no user of this library: it stands beside it, on
//! `xylem-hash`.

mod raw;

mod hasher;
mod messages;

#[cfg(test)]
mod tests;

pub use hasher::Handle;

use core::ffi::{CStr, c_char};

/// The package's version, ended by NUL.
static VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL inside (decided while compiling)"),
    };

/// The version of this library, as a static string.
#[unsafe(no_mangle)]
pub extern "C" fn xylem_blake3_version() -> *const c_char {
    VERSION.as_ptr()
}
