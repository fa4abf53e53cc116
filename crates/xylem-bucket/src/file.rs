//! [`ObjectFile`]: one version of an object, as a file that can only be read.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use xylem_store::{FileTime, MediumFile, Meta};

use crate::cache::{AHEAD, CHUNK, Cache, Chunk};
use crate::client::{BucketClient, range};

/// Number of the next open file.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An open object; see the module's text.
pub(crate) struct ObjectFile {
    pub(crate) client: Arc<BucketClient>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) bucket: Arc<AmazonS3>,
    pub(crate) key: Key,
    pub(crate) meta: Meta,
    /// The version's `ETag`; each request demands this version.
    pub(crate) tag: Option<String>,
    number: Arc<Number>,
    /// The reader reads all of the object in order: the chunks that follow are requested ahead of it.
    in_order: bool,
    /// Where the last read ended that did not come from a chunk.
    ended: AtomicU64,
}

impl ObjectFile {
    pub(crate) fn new(
        client: Arc<BucketClient>,
        cache: Arc<Cache>,
        bucket: Arc<AmazonS3>,
        key: Key,
        meta: Meta,
        tag: Option<String>,
    ) -> Self {
        let number = Arc::new(Number(NEXT.fetch_add(1, Relaxed), cache.clone()));
        let (in_order, ended) = (false, AtomicU64::new(u64::MAX));
        Self { client, cache, bucket, key, meta, tag, number, in_order, ended }
    }

    fn bytes_of(&self, chunk: u64) -> Option<Range<u64>> {
        let start = chunk.checked_mul(CHUNK).filter(|start| *start < self.meta.size)?;
        Some(start..start.saturating_add(CHUNK).min(self.meta.size))
    }

    /// Requests a part of the object by itself, past the cache.
    fn read_there(&self, buf: &mut [u8], wanted: Range<u64>) -> io::Result<usize> {
        let (bucket, key, tag) = (self.bucket.clone(), self.key.clone(), self.tag.clone());
        let bytes = self.client.wait(range(bucket, key, tag, wanted))?;
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// Requests a chunk unless it is here or under way.
    fn ask(&self, number: u64) -> Option<Arc<Chunk>> {
        let wanted = self.bytes_of(number)?;
        let id = (self.number.0, number);
        let chunk = self.cache.put(id)?;
        let fetched = range(self.bucket.clone(), self.key.clone(), self.tag.clone(), wanted);
        let (settled, cache) = (chunk.clone(), self.cache.clone());
        drop(self.client.start(async move {
            let bytes = fetched.await;
            if bytes.is_err() {
                cache.forget(id);
            }
            settled.settle(bytes.ok());
        }));
        Some(chunk)
    }

    /// Returns the chunk if it is cached, or if the reads are sequential: if they start at offset 0, follow a chunk
    /// before, or continue where the last read ended.
    fn chunk(&self, number: u64, offset: u64) -> Option<Arc<Chunk>> {
        let of = |chunk| (self.number.0, chunk);
        let before = number.checked_sub(1).and_then(|n| self.cache.get(of(n)));
        let known = self.cache.get(of(number));
        let goes_on = before.is_some() || self.ended.load(Relaxed) == offset;
        if known.is_none() && !goes_on && offset != 0 {
            return None;
        }
        let chunk = known.or_else(|| self.ask(number)).or_else(|| self.cache.get(of(number)));
        let ahead = if goes_on { AHEAD } else { 1 };
        for next in (number + 1..).take(ahead as usize) {
            self.ask(next);
        }
        chunk
    }
}

/// Number of an open object, the key of its chunks in the cache. Dropping it removes them.
struct Number(u64, Arc<Cache>);

impl Drop for Number {
    fn drop(&mut self) {
        self.1.close(self.0);
    }
}

impl MediumFile for ObjectFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(buf.len() as u64).min(self.meta.size);
        if offset >= end {
            return Ok(0);
        }
        // After a failed chunk the range is requested once more, to get the error.
        let chunk = self.in_order.then(|| self.chunk(offset / CHUNK, offset)).flatten();
        if let Some(bytes) = chunk.and_then(|chunk| self.client.until(|most| chunk.wait(most))) {
            let from = (offset % CHUNK) as usize;
            let there = bytes.get(from..).unwrap_or_default();
            let len = there.len().min((end - offset) as usize);
            buf[..len].copy_from_slice(&there[..len]);
            return Ok(len);
        }
        let len = self.read_there(buf, offset..end)?;
        self.ended.store(end, Relaxed);
        Ok(len)
    }

    /// Shares the cached chunks with all other handles of this object.
    fn in_order(&self) -> Option<Arc<dyn MediumFile>> {
        let Self { client, cache, bucket, key, tag, number, .. } = self;
        Some(Arc::new(Self {
            client: client.clone(),
            cache: cache.clone(),
            bucket: bucket.clone(),
            key: key.clone(),
            meta: self.meta,
            tag: tag.clone(),
            number: number.clone(),
            in_order: true,
            ended: AtomicU64::new(u64::MAX),
        }))
    }

    /// The chunk stays in the cache: readers of content that is damaged in the bucket must not make all of it be
    /// fetched again.
    fn reread_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(buf.len() as u64).min(self.meta.size);
        if offset >= end { Ok(0) } else { self.read_there(buf, offset..end) }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn metadata(&self) -> io::Result<Meta> {
        Ok(self.meta)
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_mtime(&self, _: FileTime) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
