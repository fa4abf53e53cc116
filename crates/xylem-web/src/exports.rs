//! Functions for the page's script, which is their only caller.
//!
//! Bytes come in through a buffer that [`input`] makes room for, and go out through [`output`] with its length in
//! [`output_len`]; both move with each call. Times are milliseconds since the script began. Numbers from the script are
//! checked: a wrong one traps.
#![allow(unsafe_code)]

use core::time::Duration;
use std::cell::RefCell;

use bytes::Bytes;

use crate::{Download, PageReport, StartError};

#[derive(Default)]
struct State {
    download: Option<Download>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The offset of the run in `output`.
    offset: u64,
}

impl State {
    fn download(&mut self) -> &mut Download {
        self.download.as_mut().expect("the script has begun one")
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn time(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1e3)
}

/// A number as a script has it; all are below 2^53.
fn number(n: u64) -> f64 {
    n as f64
}

/// Exports functions on the state. No name may equal one of the C library, which the compiler may call.
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
    /// Makes room for this many bytes.
    input(len: usize) -> *mut u8 {
        |s| {
            s.input.clear();
            s.input.resize(len, 0);
            s.input.as_mut_ptr()
        }
    }
    output() -> *const u8 { |s| s.output.as_ptr() }
    output_len() -> usize { |s| s.output.len() }
    offset() -> f64 { |s| number(s.offset) }
    /// Begins with the ticket in the input. Returns 0, or with the reason in the output 1 (not a ticket) or 2 (a ticket
    /// that a page cannot use).
    start(seed: f64) -> u32 {
        |s| {
            let ticket = String::from_utf8_lossy(&s.input).into_owned();
            match Download::new(&ticket, seed.to_bits()) {
                Ok(download) => {
                    s.download = Some(download);
                    0
                }
                Err(e) => {
                    s.output = e.to_string().into_bytes();
                    match e {
                        StartError::Ticket(_) => 1,
                        StartError::NoName => 2,
                    }
                }
            }
        }
    }
    /// Writes the proof that this page has the ticket in the input: 64 digits in the output, or none.
    pass() {
        |s| {
            let ticket = String::from_utf8_lossy(&s.input).into_owned();
            let pass = ticket.trim().parse().map(|ticket| xylem_object::pass::from_ticket(&ticket));
            s.output = pass.map(String::into_bytes).unwrap_or_default();
        }
    }
    add_peer(peer: u32, now: f64) -> u32 { |s| u32::from(s.download().add_peer(time(now), peer)) }
    remove_peer(peer: u32, now: f64) { |s| s.download().remove_peer(time(now), peer) }
    /// Takes the input as a message of this peer.
    message(peer: u32, now: f64) {
        |s| {
            let message = Bytes::from(core::mem::take(&mut s.input));
            s.download().handle_message(time(now), peer, message);
        }
    }
    tick(now: f64) { |s| s.download().handle_timeout(time(now)) }
    /// Writes the next packet to the output; returns its peer, or -1 if there is none.
    transmit(now: f64) -> i32 {
        |s| {
            let mut packet = core::mem::take(&mut s.output);
            let peer = s.download().poll_transmit(time(now), &mut packet);
            s.output = packet;
            peer.map_or(-1, |peer| peer as i32)
        }
    }
    /// Milliseconds until `tick` is due; -1 if it waits for a message.
    due(now: f64) -> f64 {
        |s| {
            let now = time(now);
            let at = s.download().poll_timeout(now);
            at.map_or(-1.0, |at| at.saturating_sub(now).as_secs_f64() * 1e3)
        }
    }
    /// Writes the next report to the output. Returns 0 for none, 1 for a text, 2 for bytes at `offset`, 3 for records
    /// of nodes.
    told() -> u32 {
        |s| match s.download().poll_report() {
            None => 0,
            Some(PageReport::Text(text)) => {
                s.output = text.into_bytes();
                1
            }
            Some(PageReport::Run(run)) => {
                (s.output, s.offset) = (run.bytes, run.offset);
                2
            }
            Some(PageReport::Nodes(records)) => {
                s.output = records;
                3
            }
        }
    }
    flush() { |s| s.download().flush() }
    /// Takes the input as records of nodes.
    recall() {
        |s| {
            let records = core::mem::take(&mut s.input);
            s.download().load_nodes(&records);
        }
    }
    /// The number of bytes to read back from `offset`; 0 if there are no more.
    next_check() -> f64 {
        |s| match s.download().next_check() {
            Some(range) => {
                s.offset = range.start;
                number(range.end - range.start)
            }
            None => 0.0,
        }
    }
    /// Takes the input as data that were read back; returns how many bytes of it are proven.
    check() -> f64 {
        |s| {
            let bytes = core::mem::take(&mut s.input);
            number(s.download().check(&bytes))
        }
    }
    begin() { |s| s.download().begin() }
    /// Fetches only what `want` names from now on.
    begin_reading() { |s| s.download().begin_reading() }
    /// Opens a file by its number; 0 if it cannot be opened now.
    open_file(file: usize) -> u32 { |s| u32::from(s.download().open_file(file)) }
    /// Wants bytes of an opened file; 0 if it is not open.
    want(file: usize, start: f64, end: f64) -> u32 {
        |s| u32::from(s.download().want(file, start as u64..end as u64))
    }
    close_file(file: usize) { |s| s.download().close_file(file) }
    all_read() { |s| s.download().all_read() }
    state(now: f64) {
        |s| s.output = s.download().state(time(now)).into_bytes()
    }
}
