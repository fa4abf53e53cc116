//! [`Paced`]: a connection with a limit of bytes read in one turn of an event loop.
//!
//! A library that reads until it has a whole message, record or head reads for as long as bytes come, if the peer never
//! completes it. A budget below the library ends that: when it is used up, reading returns `WouldBlock`, as if nothing
//! more had come. The system does not report the remaining data again (readiness is edge-triggered), so the caller has
//! to come back by itself: [`Paced::is_spent`].

use std::io::{self, Read, Write};

/// See the module's documentation.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    budget: usize,
    left: usize,
    total: u64,
}

impl<S> Paced<S> {
    /// Wraps a connection, with `budget` bytes for each turn; the first turn begins.
    pub fn new(inner: S, budget: usize) -> Self {
        Self { inner, budget, left: budget, total: 0 }
    }

    /// Begins the next turn.
    pub fn next_turn(&mut self) {
        self.left = self.budget;
    }

    /// Returns whether this turn's budget is used up: more data may wait.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Bytes that were read since the beginning.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The wrapped connection.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl<S: Read> Read for Paced<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = into.len().min(self.left);
        let len = self.inner.read(&mut into[..most])?;
        self.left = self.left.saturating_sub(len);
        self.total = self.total.saturating_add(len as u64);
        Ok(len)
    }
}

impl<S: Write> Write for Paced<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.inner.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
