//! [`AsyncFile`]: a [`File`] for programs on tokio.

use std::future::Future;
use std::io::{self, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

use crate::file::File;

/// Most bytes that one read returns. The calling task reads and proves stored bytes itself, which occupies a thread of
/// its runtime for a fraction of a millisecond.
const MAX_READ: usize = 256 << 10;

/// A [`File`] that is [`AsyncRead`] and [`AsyncSeek`]. The calling task reads stored bytes from disk itself. For other
/// bytes it waits without polling, in any runtime: the reader's thread fetches them and wakes the task. Bytes of a read
/// that is dropped before its end are still fetched and stored.
#[derive(Debug)]
pub struct AsyncFile {
    file: File,
    reading: Option<ReadInProgress>,
}

/// One read in progress.
#[derive(Debug)]
struct ReadInProgress(Arc<Mutex<ReadSlot>>);

#[derive(Debug, Default)]
struct ReadSlot {
    read: Option<io::Result<Vec<u8>>>,
    waker: Option<Waker>,
}

impl ReadInProgress {
    fn start(file: &File, offset: u64, len: usize) -> Self {
        let slot = Arc::new(Mutex::new(ReadSlot::default()));
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

impl Future for ReadInProgress {
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
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Fills `buf` from `offset` on, up to the file's end, with 256 KiB at most. Returns the number of bytes. Any
    /// number of tasks may read at once.
    ///
    /// # Errors
    /// The bytes did not arrive in time.
    pub async fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = ReadInProgress::start(&self.file, offset, buf.len()).await?;
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
        let start = || ReadInProgress::start(&this.file, at, buf.remaining());
        let reading = this.reading.get_or_insert_with(start);
        let read = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        // The buffer may be smaller than at the first poll.
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
