//! [`Shared`]: a connection between two processes of one machine through memory that both have, two rings of
//! bytes, one for each way (docs/spec/faces.md, "Shared memory").
//!
//! It is read and written as the stream beside which it stands, so that whoever frames packets on streams need
//! not know of it. The stream itself, a Unix socket, carries nothing but bytes that wake: one when the other end
//! sleeps and has something to do; and its end is the connection's.
//!
//! The memory is made by the end that listens and is sealed against shrinking, so that nobody is killed by
//! touching what is no longer there; the other gets a descriptor of it.

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

use ring::{REGION_LEN, Reader, Ring, Writer};

/// What comes with the descriptor: that it is this, in this layout.
const HELLO: [u8; 8] = *b"xring\0\0\x01";
/// How long the listening end may take to hand the memory over; whoever waits then uses the plain socket.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wakings that may wait to be read. An honest end sends one at a time, each when this one has gone to sleep: even if
/// none is read meanwhile, a socket's buffer holds fewer of them.
const MAX_WAKINGS: usize = 1024;
/// One read looks so often for more than it has: the other end decides when it comes.
const MAX_ROUNDS: usize = 16;

/// Where a node that listens at this Unix socket hands out memory.
#[must_use]
pub fn ring_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ring");
    path.into()
}

/// See the module's documentation.
pub struct Shared {
    socket: UnixStream,
    reader: Reader,
    writer: Writer,
    closed: bool,
    /// The last read looked so often that it left some for the next.
    more: bool,
    /// Called when the reader's mark has been set.
    #[cfg(test)]
    marked: Option<Box<dyn FnMut() + Send>>,
}

impl Shared {
    /// The end that listens: makes the memory and hands it to whoever has connected.
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

    /// The end that connects, to the node that listens at the Unix socket of this path.
    ///
    /// # Errors
    /// That node does not speak it, or nobody is there.
    pub fn join(socket: &Path) -> io::Result<Self> {
        let path = ring_path(socket);
        // In a directory where everybody may make files this one has to be of who made the other.
        if path.symlink_metadata()?.uid() != socket.symlink_metadata()?.uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let stream = StdStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let file = received(&stream)?;
        let seals = fcntl_get_seals(&file)?;
        let file = File::from(file);
        if !seals.contains(SealFlags::SHRINK) || file.metadata()?.len() != REGION_LEN as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "memory of another kind"));
        }
        stream.set_nonblocking(true)?;
        Self::over(UnixStream::from_std(stream), file.into(), [1, 0])
    }

    /// `reads`, `writes`: the rings of this end.
    fn over(socket: UnixStream, file: OwnedFd, [reads, writes]: [usize; 2]) -> io::Result<Self> {
        let file = FileOffset::new(File::from(file), 0);
        let region = MmapRegion::from_file(file, REGION_LEN).map_err(io::Error::other)?;
        let region = Arc::new(region);
        let reader = Reader::new(Ring::new(&region, reads));
        let writer = Writer::new(Ring::new(&region, writes));
        Ok(Self {
            socket,
            reader,
            writer,
            closed: false,
            more: false,
            #[cfg(test)]
            marked: None,
        })
    }

    /// What becomes readable when there is something to read, or room to write.
    pub fn socket(&mut self) -> &mut UnixStream {
        &mut self.socket
    }

    /// Whether nothing will wake for what is to come: the other end has gone, or there was more than one read looks at.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.closed || self.more
    }

    /// As a stream that does not block: `Ok(0)` at the end. After a read that was shorter than asked, or
    /// `WouldBlock`, the socket wakes for what comes next.
    ///
    /// # Errors
    /// `WouldBlock`; `InvalidData` if the other end has written to the memory, or to the socket, what cannot be.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut wakings) = (0, 0);
        self.more = true;
        for _ in 0..MAX_ROUNDS {
            filled += self.reader.read(&mut into[filled..])?;
            if filled == into.len() {
                break;
            }
            self.reader.wait()?;
            #[cfg(test)]
            self.marked.iter_mut().for_each(|then| then());
            // Before the ring is looked at again: who wakes has written to the ring before.
            let woken = self.take_wakings(&mut wakings)?;
            let more = self.reader.read(&mut into[filled..])?;
            filled += more;
            // Who wakes has taken the mark down, also if what it wrote was read before the mark was set: it has to
            // be set once more.
            if more == 0 && !woken {
                self.more = false;
                break;
            }
        }
        if filled > 0 && self.reader.writer_waits()? {
            self.wake()?;
        }
        match filled {
            0 if into.is_empty() || self.closed => Ok(0),
            // An honest end wakes for something.
            0 if self.more => Err(io::ErrorKind::InvalidData.into()),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            filled => Ok(filled),
        }
    }

    /// As a stream that does not block. After `WouldBlock` the socket wakes when there is room.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut wrote = self.writer.write(from)?;
        if wrote == 0 && !from.is_empty() {
            self.writer.wait()?;
            wrote = self.writer.write(from)?;
            if wrote == 0 {
                // Nobody would make room any more.
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

    /// Sends a byte that wakes. Where the socket is full, enough of them are on their way; where the other end is
    /// gone, reading says so, after what it had written.
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

    /// Whether there was any; `wakings` counts them.
    fn take_wakings(&mut self, wakings: &mut usize) -> io::Result<bool> {
        let (mut room, before) = ([0; MAX_WAKINGS], *wakings);
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
            if *wakings >= MAX_WAKINGS {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(*wakings > before)
    }
}

/// The descriptor that the listening end hands over first.
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
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no memory came")),
    }
}

#[cfg(test)]
mod tests;
