//! A ring of bytes in memory that another process can write to: one end writes, the other reads.
//!
//! The other end is not trusted. It can change the memory and nothing else. An end keeps its own index private, accepts
//! the other's only if the distance between the two fits the ring, and copies bytes out before they are looked at,
//! since they may change meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use vm_memory::{Bytes, MmapRegion, VolatileMemory};

/// Bytes that one ring holds; a power of two, so that indices wrap around.
pub(super) const RING_LEN: usize = 1 << 20;
/// Offsets of a ring's fields, in a page of their own. They are 64 bytes apart, so that the two ends do not share a
/// cache line.
const PAGE: usize = 4096;
/// Bytes ever written, modulo 2³².
const TAIL: usize = 0;
/// Bytes ever read, modulo 2³².
const HEAD: usize = 64;
/// 1: the reader sleeps until it is woken.
const READER_WAITS: usize = 128;
/// 1: the writer sleeps until it is woken.
const WRITER_WAITS: usize = 192;
/// A sleeping writer is woken when this much room is there, not for each packet.
const ROOM: usize = RING_LEN / 2;
/// Length of the memory of both rings, in bytes.
pub(super) const REGION_LEN: usize = 2 * (PAGE + RING_LEN);

/// The memory of one of the two rings.
#[derive(Clone)]
pub(super) struct Ring {
    region: Arc<MmapRegion>,
    start: usize,
}

impl Ring {
    /// Ring 0 or 1 of a region of [`REGION_LEN`] bytes.
    pub(super) fn new(region: &Arc<MmapRegion>, number: usize) -> Self {
        debug_assert!(number < 2 && region.size() >= REGION_LEN);
        Self { region: Arc::clone(region), start: number * (PAGE + RING_LEN) }
    }

    fn load(&self, field: usize, order: Ordering) -> io::Result<u32> {
        self.region.as_volatile_slice().load(self.start + field, order).map_err(io::Error::other)
    }

    fn store(&self, field: usize, value: u32, order: Ordering) -> io::Result<()> {
        let memory = self.region.as_volatile_slice();
        memory.store(value, self.start + field, order).map_err(io::Error::other)
    }

    /// Clears a flag; returns whether it was set.
    fn take(&self, flag: usize) -> io::Result<bool> {
        // This end's published data must be visible before the flag is read: the other end sets the flag and then
        // checks once more.
        fence(Ordering::SeqCst);
        let up = self.load(flag, Ordering::Relaxed)? == 1;
        if up {
            self.store(flag, 0, Ordering::Relaxed)?;
        }
        Ok(up)
    }

    fn raise(&self, flag: usize) -> io::Result<()> {
        self.store(flag, 1, Ordering::Relaxed)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Positions of `len` bytes from index `at` on: up to the end, and the rest from the beginning.
    fn places(&self, at: u32, len: usize) -> [(usize, usize); 2] {
        let from = at as usize % RING_LEN;
        let first = len.min(RING_LEN - from);
        let data = self.start + PAGE;
        [(data + from, first), (data, len - first)]
    }
}

/// Bytes between two indices.
fn between(tail: u32, head: u32) -> io::Result<usize> {
    let used = tail.wrapping_sub(head) as usize;
    if used <= RING_LEN {
        return Ok(used);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "an index of the ring that cannot be"))
}

/// The end that writes.
pub(super) struct RingWriter {
    ring: Ring,
    tail: u32,
}

impl RingWriter {
    pub(super) fn new(ring: Ring) -> Self {
        Self { ring, tail: 0 }
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// `InvalidData` if the other end's index is impossible.
    pub(super) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let used = between(self.tail, self.ring.load(HEAD, Ordering::Acquire)?)?;
        let len = from.len().min(RING_LEN - used);
        let memory = self.ring.region.as_volatile_slice();
        let mut rest = &from[..len];
        for (at, count) in self.ring.places(self.tail, len) {
            let (now, later) = rest.split_at(count);
            memory.subslice(at, count).map_err(io::Error::other)?.copy_from(now);
            rest = later;
        }
        self.tail = self.tail.wrapping_add(len as u32);
        self.ring.store(TAIL, self.tail, Ordering::Release)?;
        Ok(len)
    }

    /// Returns whether the reader sleeps; it counts as woken from now on.
    pub(super) fn reader_waits(&self) -> io::Result<bool> {
        self.ring.take(READER_WAITS)
    }

    /// Marks that this end waits for room; check for room again afterwards.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.ring.raise(WRITER_WAITS)
    }
}

/// The end that reads.
pub(super) struct RingReader {
    ring: Ring,
    head: u32,
}

impl RingReader {
    pub(super) fn new(ring: Ring) -> Self {
        Self { ring, head: 0 }
    }

    /// Reads as much as there is and `into` has room for.
    ///
    /// # Errors
    /// As for [`RingWriter::write`].
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = between(self.ring.load(TAIL, Ordering::Acquire)?, self.head)?;
        let len = into.len().min(there);
        let memory = self.ring.region.as_volatile_slice();
        let mut rest = &mut into[..len];
        for (at, count) in self.ring.places(self.head, len) {
            let (now, later) = rest.split_at_mut(count);
            memory.subslice(at, count).map_err(io::Error::other)?.copy_to(now);
            rest = later;
        }
        self.head = self.head.wrapping_add(len as u32);
        self.ring.store(HEAD, self.head, Ordering::Release)?;
        Ok(len)
    }

    /// Returns whether the writer sleeps and has room again; it counts as woken from now on.
    pub(super) fn writer_waits(&self) -> io::Result<bool> {
        let there = between(self.ring.load(TAIL, Ordering::Acquire)?, self.head)?;
        Ok(there + ROOM <= RING_LEN && self.ring.take(WRITER_WAITS)?)
    }

    #[cfg(test)]
    pub(super) fn is_marked(&self) -> bool {
        self.ring.load(READER_WAITS, Ordering::SeqCst).unwrap() == 1
    }

    /// Marks that this end waits for bytes; check for bytes again afterwards.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.ring.raise(READER_WAITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn memory() -> Arc<MmapRegion> {
        Arc::new(MmapRegion::new(REGION_LEN).unwrap())
    }

    /// Both ends of ring `number`, their indices `from` bytes after the beginning.
    fn ends(region: &Arc<MmapRegion>, number: usize, from: u32) -> (RingWriter, RingReader) {
        let ring = Ring::new(region, number);
        ring.store(HEAD, from, Ordering::Relaxed).unwrap();
        ring.store(TAIL, from, Ordering::Relaxed).unwrap();
        (RingWriter { ring: ring.clone(), tail: from }, RingReader { ring, head: from })
    }

    #[derive(Clone, Debug)]
    enum RingStep {
        Write(usize),
        Read(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<RingStep>> {
        let len = prop_oneof![0..10_000usize, 0..2 * RING_LEN];
        let step = prop_oneof![len.clone().prop_map(RingStep::Write), len.prop_map(RingStep::Read)];
        proptest::collection::vec(step, 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares with a queue of bytes, also where indices wrap around; the other ring stays unchanged.
        #[test]
        fn a_ring_is_a_queue(steps in steps(), number in 0..2usize, from: u32) {
            let region = memory();
            let (mut writer, mut reader) = ends(&region, number, from);
            let (mut other_writer, mut other_reader) = ends(&region, 1 - number, !from);
            prop_assert_eq!(other_writer.write(b"other").unwrap(), 5);
            let (mut model, mut next) = (VecDeque::new(), 0u8);
            for step in steps {
                match step {
                    RingStep::Write(len) => {
                        let bytes: Vec<u8> = (0..len).map(|_| { next = next.wrapping_mul(5).wrapping_add(1); next }).collect();
                        let wrote = writer.write(&bytes).unwrap();
                        prop_assert_eq!(wrote, len.min(RING_LEN - model.len()));
                        model.extend(&bytes[..wrote]);
                    }
                    RingStep::Read(len) => {
                        let mut bytes = vec![0; len];
                        let read = reader.read(&mut bytes).unwrap();
                        prop_assert_eq!(read, len.min(model.len()));
                        let expected: Vec<u8> = model.drain(..read).collect();
                        prop_assert!(bytes[..read] == expected[..]);
                    }
                }
            }
            let mut bytes = [0; 8];
            prop_assert_eq!(other_reader.read(&mut bytes).unwrap(), 5);
            prop_assert_eq!(&bytes[..5], b"other");
        }

        /// Whatever the other end writes into the fields: an error, or bytes of the ring, and no more of them than it
        /// holds.
        #[test]
        fn hostile_fields_give_errors_or_bytes_of_the_ring(
            fields in proptest::collection::vec((prop_oneof![Just(HEAD), Just(TAIL), Just(READER_WAITS), Just(WRITER_WAITS)], any::<u32>()), 1..20),
            from: u32,
        ) {
            let region = memory();
            let (mut writer, mut reader) = ends(&region, 1, from);
            let mut room = vec![0; 2 * RING_LEN];
            for (field, value) in fields {
                writer.ring.store(field, value, Ordering::Relaxed).unwrap();
                if let Ok(read) = reader.read(&mut room) {
                    prop_assert!(read <= RING_LEN);
                }
                if let Ok(wrote) = writer.write(&room) {
                    prop_assert!(wrote <= RING_LEN);
                }
                let _ = (reader.writer_waits(), writer.reader_waits());
            }
            // Nothing outside of the ring was touched.
            let other = Ring::new(&region, 0);
            let mut before = vec![1u8; PAGE + RING_LEN];
            region.as_volatile_slice().subslice(other.start, before.len()).unwrap().copy_to(&mut before);
            prop_assert!(before.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn impossible_indices_are_errors() {
        let region = memory();
        let (mut writer, mut reader) = ends(&region, 0, 7);
        let broken = |outcome: io::Result<usize>| outcome.unwrap_err().kind();
        for tail in [6, 8 + RING_LEN as u32, 7 + (1 << 31)] {
            reader.ring.store(TAIL, tail, Ordering::Relaxed).unwrap();
            assert_eq!(broken(reader.read(&mut [0; 10])), io::ErrorKind::InvalidData, "{tail}");
        }
        for head in [8, 7u32.wrapping_sub(RING_LEN as u32 + 1)] {
            writer.ring.store(HEAD, head, Ordering::Relaxed).unwrap();
            assert_eq!(broken(writer.write(b"x")), io::ErrorKind::InvalidData, "{head}");
        }
    }

    /// Bytes that were read do not change when the memory does.
    #[test]
    fn bytes_read_do_not_change_with_the_memory() {
        let region = memory();
        let (mut writer, mut reader) = ends(&region, 0, 0);
        writer.write(b"as it was").unwrap();
        let mut room = [0; 9];
        assert_eq!(reader.read(&mut room).unwrap(), 9);
        let at = PAGE;
        region.as_volatile_slice().subslice(at, 9).unwrap().copy_from(b"otherwise");
        assert_eq!(&room, b"as it was");
    }

    /// A sleeper is woken once, a writer only for half a ring.
    #[test]
    fn a_waiting_end_is_woken_once() {
        let region = memory();
        let (mut writer, mut reader) = ends(&region, 0, 0);
        assert!(!writer.reader_waits().unwrap());
        reader.wait().unwrap();
        assert!(writer.reader_waits().unwrap() && !writer.reader_waits().unwrap());
        assert_eq!(writer.write(&vec![1; RING_LEN + 1]).unwrap(), RING_LEN);
        writer.wait().unwrap();
        let mut room = vec![0; ROOM];
        assert_eq!(reader.read(&mut room[1..]).unwrap(), ROOM - 1);
        assert!(!reader.writer_waits().unwrap());
        assert_eq!(reader.read(&mut room[..1]).unwrap(), 1);
        assert!(reader.writer_waits().unwrap() && !reader.writer_waits().unwrap());
    }
}
