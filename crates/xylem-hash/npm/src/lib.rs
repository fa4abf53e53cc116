//! Raw exports over `xylem-hash` for `blake3.js`, which is the only caller.
//!
//! Bytes pass through one fixed buffer in the module's memory, the *stage*: on the way in messages by pieces, keys and
//! contexts; on the way out outputs by pieces. Hashers and readers are numbers into a table; the script frees them.
//! Lengths come from the script and are checked: a wrong one traps.

use std::cell::RefCell;

use xylem_hash::{Hasher, OutputReader, platform};

/// Large enough that the call into the module costs nothing beside the hash, small enough for a processor's
/// second-level cache.
const STAGE: usize = 1 << 17;

struct State {
    stage: Box<[u8; STAGE]>,
    table: Vec<Option<Entry>>,
    free: Vec<usize>,
}

enum Entry {
    Hasher(Box<Hasher>),
    Reader(Box<OutputReader>),
}

impl State {
    fn insert(&mut self, entry: Entry) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.table[at] = Some(entry);
                at
            }
            None => {
                self.table.push(Some(entry));
                self.table.len() - 1
            }
        }
    }

    fn hasher(&mut self, at: usize) -> (&mut Hasher, &mut [u8; STAGE]) {
        match self.table[at].as_mut() {
            Some(Entry::Hasher(hasher)) => (hasher, &mut self.stage),
            _ => panic!("no hasher"),
        }
    }

    fn reader(&mut self, at: usize) -> (&mut OutputReader, &mut [u8; STAGE]) {
        match self.table[at].as_mut() {
            Some(Entry::Reader(reader)) => (reader, &mut self.stage),
            _ => panic!("no reader"),
        }
    }

    fn key(&self) -> [u8; 32] {
        *self.stage.first_chunk().expect("the stage is larger than a key")
    }

    /// Wipes the stage after keys and outputs, before the next caller's bytes come. Messages are overwritten by the
    /// next ones only.
    fn wipe(&mut self, len: usize) {
        self.stage[..len].fill(0);
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State {
        stage: Box::new([0; STAGE]),
        table: Vec::new(),
        free: Vec::new(),
    });
}

/// Exports functions on the state. No name is one of C's library, which the compiler may call.
macro_rules! exports {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? { |$state:ident| $body:expr })*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                STATE.with_borrow_mut(|$state| $body)
            }
        )*
    };
}

exports! {
    stage() -> *mut u8 { |s| s.stage.as_mut_ptr() }
    stage_length() -> usize { |_s| STAGE }
    /// Writes the name of the hashing code to the stage; returns its length.
    backend() -> usize {
        |s| {
            let name = platform().as_bytes();
            s.stage[..name.len()].copy_from_slice(name);
            name.len()
        }
    }
    /// A new hasher: plain (0), keyed with the stage's first 32 bytes (1), or key-deriving for the context in the
    /// stage's first `context` bytes (2).
    begin(mode: u32, context: usize) -> usize {
        |s| {
            let hasher = match mode {
                0 => Hasher::new(),
                1 => Hasher::new_keyed(&s.key()),
                _ => Hasher::new_derive_key(str::from_utf8(&s.stage[..context]).expect("UTF-8")),
            };
            s.wipe(if mode == 1 { 32 } else { 0 });
            s.insert(Entry::Hasher(Box::new(hasher)))
        }
    }
    /// Replaces the stage's first bytes by their hash.
    once(len: usize) {
        |s| {
            let hash = xylem_hash::hash(&s.stage[..len]);
            s.stage[..32].copy_from_slice(hash.as_bytes());
        }
    }
    copy(hasher: usize) -> usize {
        |s| {
            let copy = s.hasher(hasher).0.clone();
            s.insert(Entry::Hasher(Box::new(copy)))
        }
    }
    update(hasher: usize, len: usize) {
        |s| {
            let (hasher, stage) = s.hasher(hasher);
            hasher.update(&stage[..len]);
        }
    }
    /// A reader of the hasher's output; the hasher remains.
    output(hasher: usize) -> usize {
        |s| {
            let reader = s.hasher(hasher).0.finalize_xof();
            s.insert(Entry::Reader(Box::new(reader)))
        }
    }
    seek(reader: usize, position: u64) {
        |s| s.reader(reader).0.set_position(position)
    }
    fill(reader: usize, len: usize) {
        |s| {
            let (reader, stage) = s.reader(reader);
            reader.fill(&mut stage[..len]);
        }
    }
    wipe(len: usize) { |s| s.wipe(len) }
    release(at: usize) {
        |s| {
            if s.table[at].take().is_some() {
                s.free.push(at);
            }
        }
    }
}
