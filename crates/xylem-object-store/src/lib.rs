//! [`TicketStore`]: what a ticket names, as an [`ObjectStore`] to read.
//!
//! Programs on the crate `object_store` (DataFusion, Arrow, Parquet, Delta) read a publication with it as they read a
//! bucket. Bytes are fetched when they are asked for, proven on arrival, and kept in the xylem store; a later run needs
//! no peer for them. Nothing can be written: each such call ends with [`Error::NotSupported`].
//!
//! Objects are the regular files and hard links of a directory, or the one file. Symbolic links are not among them. A
//! name with characters that a [`Path`] cannot have is percent-encoded, as [`Path::from`] does. The ETag of an object is
//! its BLAKE3 hash, the one that `xylem sum` and `b3sum` print.
//!
//! Works in any runtime: the reader's own thread fetches, and wakes the task that waits. The calling task reads kept
//! bytes and the listing from disk itself.
//!
//! ```
//! use object_store::{ObjectStore, ObjectStoreExt, path::Path};
//! use xylem_object_store::TicketStore;
//! use xylem_reader::Options;
//! # let dir = tempfile::tempdir()?;
//! # let ends = xylem_base::Stop::new();
//! # let (ticket, sharer) = {
//! #     std::fs::create_dir(dir.path().join("data"))?;
//! #     std::fs::write(dir.path().join("data/a.csv"), "x\n1\n")?;
//! #     let (paths, store) = (vec![dir.path().join("data")], dir.path().join("sharer"));
//! #     let options = xylem_node::ShareOptions { paths, store, ..Default::default() };
//! #     let (stop, (tell, told)) = (ends.clone(), std::sync::mpsc::channel());
//! #     let sharer = std::thread::spawn(move || xylem_node::share(&options, &stop, &mut |event| {
//! #         if let xylem_node::Event::Shared { ticket, .. } = event { tell.send(ticket.to_string()).unwrap() }
//! #     }));
//! #     (told.recv()?, sharer)
//! # };
//!
//! let store = TicketStore::open(Options::new(ticket.parse()?, dir.path().join("store")))?;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let listed = store.list_with_delimiter(None).await?;
//! assert_eq!(listed.objects[0].location, Path::from("a.csv"));
//! let bytes = store.get_range(&Path::from("a.csv"), 2..4).await?;
//! assert_eq!(bytes, "1\n");
//! // With DataFusion: context.register_object_store(&"xylem://data".parse()?, Arc::new(store))
//! # Ok::<(), object_store::Error>(())
//! # })?;
//! # ends.raise();
//! # sharer.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod names;
mod streams;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use xylem_base::Stop;
use xylem_object::listing::EntryKind;
use xylem_reader::{Options, PublicationEntry, Reader, ReaderError};

use names::{location_of, paths_of};
use streams::{Contents, ListedObjects, read};

/// Name of this store in errors.
const STORE: &str = "xylem";
/// Most links that lead to one file.
const MAX_HOPS: usize = 8;

/// What a ticket names, to read. It is cheap to clone; the last one dropped ends the reader's thread.
#[derive(Clone, Debug)]
pub struct TicketStore {
    reader: Arc<Reader>,
}

impl TicketStore {
    /// Opens what a ticket names. This blocks until a peer has sent the manifest and the listing, or they were kept:
    /// call it before the runtime is entered, or on a thread for blocking work.
    ///
    /// # Errors
    /// See [`ReaderError`].
    pub fn open(options: Options) -> std::result::Result<Self, ReaderError> {
        Ok(Reader::open(options, &Stop::new(), Box::new(|_| {}))?.into())
    }

    /// The reader behind it.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The folder that a prefix stands for, if anything is in it. One file is in none.
    fn folder(&self, prefix: Option<&Path>) -> Result<Option<Vec<u8>>> {
        let Some(prefix) = prefix.filter(|prefix| !prefix.as_ref().is_empty()) else {
            return Ok(Some(Vec::new()));
        };
        for path in paths_of(prefix).into_iter().filter(|_| self.reader.is_directory()) {
            if self.reader.next_in(&path, 0).map_err(generic)?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The entry of a regular file at `location`, and the same with what it is a link to.
    fn find(&self, location: &Path) -> Result<(ObjectMeta, PublicationEntry)> {
        for path in paths_of(location) {
            let Some(mut item) = self.reader.find(&path).map_err(generic)? else { continue };
            let entry = item.entry.clone();
            for _ in 0..MAX_HOPS {
                let EntryKind::HardLink { target } = &item.entry.kind else { break };
                let Some(next) = self.reader.find(target).map_err(generic)? else { break };
                item = next;
            }
            let EntryKind::File { size, root } = item.entry.kind else { break };
            let at = DateTime::from_timestamp(entry.mtime_s, entry.mtime_ns);
            let meta = ObjectMeta {
                location: location.clone(),
                last_modified: at.unwrap_or(DateTime::<Utc>::UNIX_EPOCH),
                size,
                e_tag: Some(format!("\"{root}\"")),
                version: None,
            };
            return Ok((meta, item));
        }
        let source = Box::new(ReaderError::NotThere(location.as_ref().into()));
        Err(Error::NotFound { path: location.to_string(), source })
    }
}

impl From<Reader> for TicketStore {
    fn from(reader: Reader) -> Self {
        Self { reader: Arc::new(reader) }
    }
}

impl fmt::Display for TicketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xylem({})", self.reader.manifest().root)
    }
}

fn generic(source: ReaderError) -> Error {
    Error::Generic { store: STORE, source: Box::new(source) }
}

/// The refusal of a call that writes.
fn refused(call: &'static str) -> Error {
    let source = format!("{call}: what a ticket names is never written to; share it anew").into();
    Error::NotSupported { source }
}

#[async_trait::async_trait]
impl ObjectStore for TicketStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(refused("put"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(refused("put_multipart"))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.version.is_some() {
            let source = "version: a ticket names one version of each object".into();
            return Err(Error::NotSupported { source });
        }
        let (meta, item) = self.find(location)?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range
                .as_range(meta.size)
                .map_err(|why| Error::Generic { store: STORE, source: Box::new(why) })?,
            None => 0..meta.size,
        };
        let payload = match options.head {
            true => stream::empty().boxed(),
            false => {
                let file = self.reader.open_item(&item).map_err(generic)?;
                Contents::new(self.clone(), file, range.clone()).into_stream()
            }
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (meta, item) = self.find(location)?;
        let file = self.reader.open_item(&item).map_err(generic)?;
        // All are asked for at once: the reader fetches what they need in one round trip.
        let mut reads = Vec::with_capacity(ranges.len());
        for range in ranges {
            let range = object_store::GetRange::Bounded(range.clone())
                .as_range(meta.size)
                .map_err(|why| Error::Generic { store: STORE, source: Box::new(why) })?;
            reads.push(read(&file, range));
        }
        futures_util::future::try_join_all(reads).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        locations.map(|location| location.and(Err(refused("delete")))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.folder(prefix) {
            Ok(folder) => ListedObjects::new(self.clone(), folder).into_stream(),
            Err(why) => stream::once(async { Err(why) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        let Some(folder) = self.folder(prefix)? else { return Ok(listed) };
        let mut from = 0;
        while let Some(item) = self.reader.next_in(&folder, from).map_err(generic)? {
            from = item.number.saturating_add(1);
            let location = location_of(&item.entry.path);
            match item.entry.kind {
                EntryKind::Directory => listed.common_prefixes.push(location),
                EntryKind::Symlink { .. } => {}
                _ => listed.objects.push(self.find(&location)?.0),
            }
        }
        Ok(listed)
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(refused("copy"))
    }

    async fn rename_opts(&self, _: &Path, _: &Path, _: RenameOptions) -> Result<()> {
        Err(refused("rename"))
    }
}
