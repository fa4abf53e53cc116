//! [`Paced`]: a connection of which only so much is read in one turn of an event loop.
//!
//! A library that reads until it has a whole message, record or head reads for as long as bytes come, if
//! whoever sends them never makes it whole. Below the library a budget ends that: when it is used up, reading
//! says `WouldBlock`, as if nothing more had come. What is left there is nothing that the system tells of
//! again (readiness is edge-triggered), so whoever called has to come back by itself: [`Paced::is_spent`].

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
    /// A connection of which `budget` bytes are read in one turn; the first begins.
    pub fn new(inner: S, budget: usize) -> Self {
        Self { inner, budget, left: budget, total: 0 }
    }

    /// Begins the next turn.
    pub fn next_turn(&mut self) {
        self.left = self.budget;
    }

    /// Whether this turn's budget is used up: more may have come.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Bytes that were read since the beginning.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The connection.
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
