//! Bytes and listings as streams.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_channel::oneshot;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::{Error, ObjectMeta, Result};
use xylem_object::listing::EntryKind;
use xylem_reader::File;

use crate::names::location_of;
use crate::{STORE, TicketStore, generic};

/// Bytes of one item of a stream of content.
const PIECE: u64 = 1 << 20;
/// Bytes that are read at once at most.
const MAX_READ: u64 = 256 << 10;

/// Reads all bytes of a range within the file. The reads are begun before this is polled, so that several are under way
/// at once.
pub(crate) fn read(
    file: &File,
    range: Range<u64>,
) -> impl Future<Output = Result<Bytes>> + Send + use<> {
    let mut parts = Vec::new();
    let mut from = range.start;
    while from < range.end {
        let len = (range.end - from).min(MAX_READ);
        let (tell, told) = oneshot::channel();
        // A task that is gone needs no bytes.
        let done =
            move |read: std::io::Result<&[u8]>| drop(tell.send(read.map(Bytes::copy_from_slice)));
        file.read_then(from, len as usize, done);
        parts.push((told, len));
        from += len;
    }
    async move {
        let failed = |source| Error::Generic { store: STORE, source };
        let mut whole = BytesMut::new();
        let single = parts.len() == 1;
        for (told, len) in parts {
            let part = told.await.map_err(|_| failed("the reader has ended".into()))?;
            let part = part.map_err(|why| failed(why.into()))?;
            if part.len() as u64 != len {
                return Err(failed("fewer bytes than asked for".into()));
            }
            if single {
                return Ok(part);
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }
}

/// The content of a file, from the beginning of a range on.
pub(crate) struct Contents {
    /// Keeps the reader, which fetches.
    _store: TicketStore,
    file: File,
    left: Range<u64>,
}

impl Contents {
    pub(crate) fn new(store: TicketStore, file: File, range: Range<u64>) -> Self {
        Self { _store: store, file, left: range }
    }

    pub(crate) fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        let next = |mut contents: Self| async move {
            let Range { start, end } = contents.left;
            if start >= end {
                return None;
            }
            let until = start.saturating_add(PIECE).min(end);
            // After an error nothing more comes.
            contents.left = end..end;
            let read = read(&contents.file, start..until).await;
            if read.is_ok() {
                contents.left = until..end;
            }
            Some((read, contents))
        };
        // Callers may ask on after the end.
        stream::unfold(self, next).fuse().boxed()
    }
}

/// The objects below a prefix, in the order of their paths.
pub(crate) struct ListedObjects {
    store: TicketStore,
    /// Folders to list, each with the number of the entry at which to go on.
    folders: Vec<(Vec<u8>, u64)>,
}

impl ListedObjects {
    pub(crate) fn new(store: TicketStore, folder: Option<Vec<u8>>) -> Self {
        Self { store, folders: folder.map(|folder| (folder, 0)).into_iter().collect() }
    }

    fn next(&mut self) -> Option<Result<ObjectMeta>> {
        loop {
            let (folder, from) = self.folders.last()?;
            let item = match self.store.reader().next_in(folder, *from) {
                Ok(item) => item,
                Err(why) => {
                    self.folders.clear();
                    return Some(Err(generic(why)));
                }
            };
            let Some(item) = item else {
                self.folders.pop();
                continue;
            };
            if let Some((_, from)) = self.folders.last_mut() {
                *from = item.number.saturating_add(1);
            }
            match item.entry.kind {
                // A listing has at most 511 folders inside one another.
                EntryKind::Directory => self.folders.push((item.entry.path, item.number)),
                EntryKind::Symlink { .. } => {}
                _ => {
                    return Some(
                        self.store.find(&location_of(&item.entry.path)).map(|found| found.0),
                    );
                }
            }
        }
    }

    pub(crate) fn into_stream(self) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::unfold(self, |mut listed| async { listed.next().map(|found| (found, listed)) })
            .fuse()
            .boxed()
    }
}
