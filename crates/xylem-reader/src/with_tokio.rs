//! [`AsyncFile`]: a [`File`] for programs on tokio.

use std::future::Future;
use std::io::{self, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

use crate::file::File;

/// Bytes that one read brings at most: what is kept is read back and proven by who asks, and holds up a runtime's thread
/// for a fraction of a millisecond.
const MAX_READ: usize = 256 << 10;

/// A [`File`] that is [`AsyncRead`] and [`AsyncSeek`]. Nothing is polled and no runtime needed while it waits: the
/// reader's thread wakes who asked. What is given up half-way is fetched all the same, and kept.
///
/// What is kept already is read by the task itself, from disk.
#[derive(Debug)]
pub struct AsyncFile {
    file: File,
    reading: Option<Reading>,
}

/// One read, until it is done.
#[derive(Debug)]
struct Reading(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    read: Option<io::Result<Vec<u8>>>,
    waker: Option<Waker>,
}

impl Reading {
    fn start(file: &File, offset: u64, len: usize) -> Self {
        let slot = Arc::new(Mutex::new(Slot::default()));
        let to = slot.clone();
        file.read_then(offset, len.min(MAX_READ), move |read| {
            let mut slot = to.lock().unwrap_or_else(PoisonError::into_inner);
            slot.read = Some(read.map(<[u8]>::to_vec));
            let waker = slot.waker.take();
            drop(slot);
            waker.into_iter().for_each(Waker::wake);
        });
        Self(slot)
    }
}

impl Future for Reading {
    type Output = io::Result<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.read.take() {
            Some(read) => Poll::Ready(read),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl From<File> for AsyncFile {
    fn from(file: File) -> Self {
        Self { file, reading: None }
    }
}

impl AsyncFile {
    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Fills `buf` from `offset` on, as far as the file goes, or 256 KiB; how many bytes came. Any number of tasks may
    /// read at once.
    ///
    /// # Errors
    /// Nobody has brought it in time.
    pub async fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = Reading::start(&self.file, offset, buf.len()).await?;
        buf[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }
}

impl AsyncRead for AsyncFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let at = this.file.stream_position()?;
        let start = || Reading::start(&this.file, at, buf.remaining());
        let reading = this.reading.get_or_insert_with(start);
        let read = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        // There may be less room than when it was asked for.
        let read = read?;
        let fits = &read[..read.len().min(buf.remaining())];
        buf.put_slice(fits);
        this.file.seek(SeekFrom::Start(at + fits.len() as u64))?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for AsyncFile {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.reading = None;
        self.file.seek(to).map(drop)
    }

    fn poll_complete(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(self.file.stream_position())
    }
}
