//! [`HasherHandle`]: BLAKE3 for C, through the functions that `include/xylem_blake3.h` declares.
//!
//! This crate is `xylem-hash` behind pointers. Input and output are in the caller's memory; nothing is allocated,
//! stored or printed. The header is the specification: it states what each function does and what its caller must
//! ensure.
//!
//! The functions start no thread and check no pointer (C has no means to do so). They are not for Rust programs, which
//! use `xylem-hash`.
//!
//! Panics: no known input causes a panic. If one happened, an `extern "C"` function would abort the process instead of
//! unwinding into its caller (guaranteed by the language since Rust 1.81).
//!
//! The Python package in `python/` does not use this library; it uses `xylem-hash` directly.

mod raw;

mod hasher;
mod messages;

#[cfg(test)]
mod tests;

pub use hasher::HasherHandle;

use core::ffi::{CStr, c_char};

/// The package's version, with a NUL at the end.
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
