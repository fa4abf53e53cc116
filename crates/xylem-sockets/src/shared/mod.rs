//! [`SharedStream`]: a connection between two processes of one machine through shared memory, with one ring of bytes for
//! each direction (docs/spec/faces.md, "Shared memory").
//!
//! It is read and written like the stream beside which it exists, so code that frames packets on streams need not know
//! of it. The stream itself, a Unix socket, carries only wake-up bytes: one when the other end sleeps and has something
//! to do. Its end is the connection's end.
//!
//! The listening end makes the memory and seals it against shrinking, because an access to memory that is gone would
//! kill the process. The other end receives a descriptor of it.

mod ring;

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::net::UnixStream;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use vm_memory::{FileOffset, MmapRegion};

use ring::{REGION_LEN, Ring, RingReader, RingWriter};

/// Bytes sent with the descriptor: they identify the protocol and the memory layout.
const HELLO: [u8; 8] = *b"xring\0\0\x01";
/// How long the listening end may take to hand over the memory; after that the connecting end uses the plain socket.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Most wake-ups that may wait to be read. An honest end sends one at a time, each after this end has gone to sleep.
/// Even if none is read meanwhile, a socket's buffer holds fewer of them.
const MAX_WAKE_UPS: usize = 1024;
/// Most times that one read checks for more data: the other end controls when it comes.
const MAX_ROUNDS: usize = 16;

/// The path at which a node that listens at this Unix socket hands out memory.
#[must_use]
pub fn ring_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ring");
    path.into()
}

/// See the module's documentation.
pub struct SharedStream {
    socket: UnixStream,
    reader: RingReader,
    writer: RingWriter,
    closed: bool,
    /// The last read reached its limit of checks and may have left data.
    reached_limit: bool,
    /// Called when the reader's mark has been set.
    #[cfg(test)]
    marked: Option<Box<dyn FnMut() + Send>>,
}

impl SharedStream {
    /// Makes the listening end: creates the memory and hands it to the peer that has connected.
    ///
    /// # Errors
    /// The system gives no memory, or the other end is gone.
    pub fn host(socket: UnixStream) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("xylem-ring", flags)?;
        ftruncate(&file, REGION_LEN as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&socket, &[IoSlice::new(&HELLO)], &mut control, SendFlags::NOSIGNAL)?;
        Self::over(socket, file, [0, 1])
    }

    /// Makes the connecting end, to the node that listens at the Unix socket of this path.
    ///
    /// # Errors
    /// That node does not speak it, or no node is there.
    pub fn join(socket: &Path) -> io::Result<Self> {
        let path = ring_path(socket);
        // In a directory where every user may create files, this socket must belong to the owner of the other one.
        if path.symlink_metadata()?.uid() != socket.symlink_metadata()?.uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let stream = StdStream::connect(path)?;
        stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
        let file = received(&stream)?;
        let seals = fcntl_get_seals(&file)?;
        let file = File::from(file);
        if !seals.contains(SealFlags::SHRINK) || file.metadata()?.len() != REGION_LEN as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory has the wrong size or seals",
            ));
        }
        stream.set_nonblocking(true)?;
        Self::over(UnixStream::from_std(stream), file.into(), [1, 0])
    }

    /// `reads`, `writes`: the numbers of this end's rings.
    fn over(socket: UnixStream, file: OwnedFd, [reads, writes]: [usize; 2]) -> io::Result<Self> {
        let file = FileOffset::new(File::from(file), 0);
        let region = MmapRegion::from_file(file, REGION_LEN).map_err(io::Error::other)?;
        let region = Arc::new(region);
        let reader = RingReader::new(Ring::new(&region, reads));
        let writer = RingWriter::new(Ring::new(&region, writes));
        Ok(Self {
            socket,
            reader,
            writer,
            closed: false,
            reached_limit: false,
            #[cfg(test)]
            marked: None,
        })
    }

    /// The socket that becomes readable when there is something to read, or room to write.
    pub fn socket(&mut self) -> &mut UnixStream {
        &mut self.socket
    }

    /// Returns whether no wake-up will come for remaining data: the other end has gone, or the last read reached its
    /// limit.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.closed || self.reached_limit
    }

    /// Reads like a stream that does not block: `Ok(0)` at the end. After a read that was shorter than asked, or
    /// `WouldBlock`, the socket wakes this end when more comes.
    ///
    /// # Errors
    /// `WouldBlock`; `InvalidData` if the other end has written invalid values to the memory, or too much to the
    /// socket.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut wakings) = (0, 0);
        self.reached_limit = true;
        for _ in 0..MAX_ROUNDS {
            filled += self.reader.read(&mut into[filled..])?;
            if filled == into.len() {
                break;
            }
            self.reader.wait()?;
            #[cfg(test)]
            self.marked.iter_mut().for_each(|then| then());
            // This comes before the next check of the ring: the other end writes to the ring before it wakes this one.
            let woken = self.take_wake_ups(&mut wakings)?;
            let more = self.reader.read(&mut into[filled..])?;
            filled += more;
            // A wake-up clears the mark, even if its bytes were read before the mark was set. The mark then has to be
            // set again.
            if more == 0 && !woken {
                self.reached_limit = false;
                break;
            }
        }
        if filled > 0 && self.reader.writer_waits()? {
            self.wake()?;
        }
        match filled {
            0 if into.is_empty() || self.closed => Ok(0),
            // An honest end wakes this one only with data.
            0 if self.reached_limit => Err(io::ErrorKind::InvalidData.into()),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            filled => Ok(filled),
        }
    }

    /// Writes like a stream that does not block. After `WouldBlock` the socket wakes this end when there is room.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut wrote = self.writer.write(from)?;
        if wrote == 0 && !from.is_empty() {
            self.writer.wait()?;
            wrote = self.writer.write(from)?;
            if wrote == 0 {
                // The other end is gone and would never make room.
                let end = self.closed
                    || recv(&self.socket, &mut [0], RecvFlags::PEEK)
                        .is_ok_and(|(_, there)| there == 0);
                let kind = if end { io::ErrorKind::BrokenPipe } else { io::ErrorKind::WouldBlock };
                return Err(kind.into());
            }
        }
        if self.writer.reader_waits()? {
            self.wake()?;
        }
        Ok(wrote)
    }

    /// Sends a wake-up byte. If the socket is full, enough of them are on their way. If the other end is gone, reading
    /// reports that, after the remaining data.
    fn wake(&mut self) -> io::Result<()> {
        loop {
            match self.socket.write(&[0]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe
                    ) =>
                {
                    return Ok(());
                }
                sent => return sent.map(drop),
            }
        }
    }

    /// Returns whether there was any; `wakings` counts them.
    fn take_wake_ups(&mut self, wakings: &mut usize) -> io::Result<bool> {
        let (mut room, before) = ([0; MAX_WAKE_UPS], *wakings);
        while !self.closed {
            match self.socket.read(&mut room) {
                Ok(0) => self.closed = true,
                // A short read has emptied the socket, unless its end follows.
                Ok(n) => *wakings += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => self.closed = true,
                Err(e) => return Err(e),
            }
            if *wakings >= MAX_WAKE_UPS {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(*wakings > before)
    }
}

/// Receives the descriptor that the listening end sends first.
fn received(stream: &StdStream) -> io::Result<OwnedFd> {
    let mut hello = [0; HELLO.len()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let room = &mut [IoSliceMut::new(&mut hello)];
    let came = recvmsg(stream, room, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            files.extend(more);
        }
    }
    match files.pop() {
        Some(file) if came.bytes == HELLO.len() && hello == HELLO && files.is_empty() => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the node sent no shared memory")),
    }
}

#[cfg(test)]
mod tests;
