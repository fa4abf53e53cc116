//! Measures the cost of a call through the C interface, compared with the same call of the Rust crate.
//!
//! `cargo build --release -p xylem-ffi && cargo run --release -p xylem-ffi --example boundary --
//! target/release/libxylem_blake3.so` loads the shared library as a C program would. It times both in turn in one
//! process, in short slices, and prints the medians of [`ROUNDS`] slices each. The library and this program are built
//! from the same sources, so the ratio shows the cost of the boundary.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::mem::{MaybeUninit, transmute};
use std::time::{Duration, Instant};

use xylem_hash::{Hasher, hash};

const ROUNDS: usize = 201;
const SLICE: Duration = Duration::from_micros(500);

/// `sizeof(xylem_blake3_hasher)`.
const HASHER_SIZE: usize = 24_576;

#[repr(C, align(8))]
struct Handle([MaybeUninit<u8>; HASHER_SIZE]);

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

type Init = unsafe extern "C" fn(*mut Handle);
type Update = unsafe extern "C" fn(*mut Handle, *const u8, usize);
type Finalize = unsafe extern "C" fn(*const Handle, *mut u8, usize);
type Hash = unsafe extern "C" fn(*const u8, usize, *mut u8);

/// The functions that are timed.
struct Library {
    init: Init,
    update: Update,
    finalize: Finalize,
    hash: Hash,
}

impl Library {
    fn load(path: &str) -> Result<Self, Box<dyn Error>> {
        let path = CString::new(path)?;
        // SAFETY: the path ends with NUL; loading runs no code of the library.
        let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        if library.is_null() {
            return Err("the library cannot be loaded; give its path with a slash in it".into());
        }
        let find = |name: &CStr| {
            // SAFETY: the library was loaded and stays loaded; the name ends with NUL.
            let found = unsafe { dlsym(library, name.as_ptr()) };
            if found.is_null() { Err(format!("no {name:?} in the library")) } else { Ok(found) }
        };
        // SAFETY: the functions have these signatures (include/xylem_blake3.h).
        unsafe {
            Ok(Self {
                init: transmute::<*mut c_void, Init>(find(c"xylem_blake3_hasher_init")?),
                update: transmute::<*mut c_void, Update>(find(c"xylem_blake3_hasher_update")?),
                finalize: transmute::<*mut c_void, Finalize>(find(
                    c"xylem_blake3_hasher_finalize",
                )?),
                hash: transmute::<*mut c_void, Hash>(find(c"xylem_blake3_hash")?),
            })
        }
    }

    fn hasher(&self, input: &[u8]) -> [u8; 32] {
        let mut handle = MaybeUninit::<Handle>::uninit();
        let mut out = [0; 32];
        // SAFETY: the handle has the size and alignment of the header and is initialized before use; the other pointers
        // belong to the slices beside them.
        unsafe {
            (self.init)(handle.as_mut_ptr());
            (self.update)(handle.as_mut_ptr(), input.as_ptr(), input.len());
            (self.finalize)(handle.as_ptr(), out.as_mut_ptr(), out.len());
        }
        out
    }

    fn hash(&self, input: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        // SAFETY: the pointers belong to the slices beside them.
        unsafe { (self.hash)(input.as_ptr(), input.len(), out.as_mut_ptr()) };
        out
    }
}

/// Nanoseconds per call, measured over one slice.
fn slice(work: &dyn Fn() -> [u8; 32], calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(work());
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// The medians of `left` and `right`, timed in turn.
fn race(left: &dyn Fn() -> [u8; 32], right: &dyn Fn() -> [u8; 32]) -> [f64; 2] {
    assert_eq!(left(), right(), "both hash the same");
    let once = slice(left, 100);
    let calls = (SLICE.as_nanos() as f64 / once).clamp(1.0, 1e6) as u32;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(slice(left, calls));
        times[1].push(slice(right, calls));
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: boundary LIBRARY")?;
    let library = Library::load(&path)?;
    println!("{} rounds of {SLICE:?}, in turn; ns a call; {}", ROUNDS, xylem_hash::platform());
    println!("{:>9}  {:<22} {:>9} {:>9} {:>6}", "bytes", "call", "Rust", "C", "C/Rust");
    for len in [64, 4 << 10, 1 << 20] {
        let input: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let input = black_box(&input[..]);
        let hasher = || *Hasher::new().update(input).finalize().as_bytes();
        let show = |call, [rust, c]: [f64; 2]| {
            println!("{len:>9}  {call:<22} {rust:>9.1} {c:>9.1} {:>6.3}", c / rust);
        };
        show("init, update, finalize", race(&hasher, &|| library.hasher(input)));
        show("hash", race(&|| *hash(input).as_bytes(), &|| library.hash(input)));
    }
    Ok(())
}
