//! [`BucketClient`]: runs requests to buckets on one thread; other threads wait for them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::answers::{OddKey, PageExtras};
use crate::error::BucketError;
use crate::place::BucketPlace;
use crate::settings::Settings;

/// Attempts at a range of which too few bytes arrive, and at an answer that breaks off.
const TRIES: usize = 4;

/// Limits of one list: its pages, and the bytes of all pages. They admit a million objects and more.
const MAX_PAGES: usize = 4_096;
const MAX_LIST: usize = 512 << 20;

/// Interval at which a waiting thread checks whether it is to stop.
const STOP_CHECK_EVERY: Duration = Duration::from_millis(100);

/// Returns whether the program is to stop; requests are then no longer waited for.
pub type IsStopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// The thread of requests, and the clients of the buckets requested so far.
pub(crate) struct BucketClient {
    settings: Settings,
    /// Returns whether to stop waiting.
    is_stopped: IsStopped,
    runtime: Handle,
    /// The thread ends when this is dropped.
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    buckets: Mutex<HashMap<String, Arc<AmazonS3>>>,
}

impl BucketClient {
    pub(crate) fn new(settings: Settings, is_stopped: IsStopped) -> Result<Self, BucketError> {
        let started = |e: std::io::Error| BucketError::Settings(format!("cannot start: {e}"));
        // rustls needs one process-wide provider. Another part of the program may have installed it already, with the
        // same choice.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(started)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("xylem-bucket".into())
            .spawn(move || drop(runtime.block_on(ended)))
            .map_err(started)?;
        let (ends, thread) = (Some(ends), Some(thread));
        Ok(Self { settings, is_stopped, runtime: handle, ends, thread, buckets: Mutex::default() })
    }

    /// Returns the client of a bucket, and makes it at the first call.
    pub(crate) fn bucket(&self, name: &str) -> Result<Arc<AmazonS3>, BucketError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(name) {
            return Ok(bucket.clone());
        }
        let built = self.settings.builder(name)?.build();
        let bucket = Arc::new(built.map_err(BucketError::from)?);
        buckets.insert(name.to_owned(), bucket.clone());
        Ok(bucket)
    }

    /// Runs `work` on the client's thread.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, receiver) = oneshot::channel();
        self.runtime.spawn(async move { drop(done.send(work.await)) });
        receiver
    }

    /// Runs `work` on the client's thread and waits for its result.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
    ) -> Result<T, BucketError> {
        let (done, receiver) = mpsc::channel();
        self.runtime.spawn(async move { drop(done.send(work.await)) });
        let ended = "the thread that sends requests to buckets has ended";
        let answered = self.until(|most| match receiver.recv_timeout(most) {
            Ok(answer) => Some(Some(answer)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Some(Err(BucketError::Failed(ended.into()))))
            }
        });
        answered.unwrap_or_else(|| Err(BucketError::Stopped))
    }

    /// Calls `wait` repeatedly, each time with a short timeout, until it returns `Some`. Returns `None` once the
    /// program is to stop: a store that hangs must not delay the end of the program.
    pub(crate) fn until<T>(
        &self,
        mut wait: impl FnMut(Duration) -> Option<Option<T>>,
    ) -> Option<T> {
        loop {
            if (self.is_stopped)() {
                return None;
            }
            if let Some(given) = wait(STOP_CHECK_EVERY) {
                return given;
            }
        }
    }

    /// Requests the metadata of an object.
    pub(crate) fn head(&self, place: &BucketPlace) -> Result<ObjectMeta, BucketError> {
        let (bucket, key) = (self.bucket(&place.bucket)?, key(place)?);
        self.wait(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            Ok(bucket.get_opts(&key, options).await?.meta)
        })
    }

    /// Lists what lies below a key.
    ///
    /// # Errors
    /// [`BucketError::Endless`]: the list has no end.
    pub(crate) fn list(
        &self,
        place: &BucketPlace,
        depth: Depth,
    ) -> Result<BucketListing, BucketError> {
        let prefix = prefix(place)?;
        let mut tries = 1;
        loop {
            let (bucket, prefix) = (self.bucket(&place.bucket)?, prefix.clone());
            match self.wait(listing(bucket, prefix, depth)) {
                Err(BucketError::Failed(_)) if tries < TRIES => tries += 1,
                listed => return listed,
            }
        }
    }

    /// Requests the first page of what lies one level below a key. The flag is true if that page is all.
    pub(crate) fn page(&self, place: &BucketPlace) -> Result<(BucketListing, bool), BucketError> {
        let (bucket, prefix) = (self.bucket(&place.bucket)?, prefix(place)?);
        self.wait(async move {
            let mut page = BucketListing::default();
            let next = page.add(&bucket, prefix.as_deref(), Depth::One, None).await?;
            page.folders.sort_unstable();
            Ok((page, next.is_none()))
        })
    }

    /// Like [`BucketClient::wait`], for idempotent requests: repeats a request if its answer breaks off. `object_store` does
    /// not.
    pub(crate) fn again<T, F>(
        &self,
        place: &BucketPlace,
        ask: impl Fn(Arc<AmazonS3>, Key) -> F,
    ) -> Result<T, BucketError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, object_store::Error>> + Send + 'static,
    {
        let (bucket, key) = (self.bucket(&place.bucket)?, key(place)?);
        let mut tries = 1;
        loop {
            let asked = ask(bucket.clone(), key.clone());
            match self.wait(async move { Ok(asked.await?) }) {
                Err(BucketError::Failed(_)) if tries < TRIES => tries += 1,
                answered => return answered,
            }
        }
    }
}

impl Drop for BucketClient {
    fn drop(&mut self) {
        self.ends.take();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            drop(thread.join());
        }
    }
}

/// How many levels below a key are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// One level: objects and folders.
    One,
    /// Objects at all levels.
    All,
}

/// Objects and folders below a key.
#[derive(Debug, Default)]
pub(crate) struct BucketListing {
    pub(crate) objects: Vec<ObjectMeta>,
    /// Sorted.
    pub(crate) folders: Vec<Key>,
    /// Keys that cannot be paths.
    pub(crate) odd: Vec<OddKey>,
    has_mark: bool,
    bytes: usize,
}

impl BucketListing {
    /// Returns whether anything was found; a folder's mark counts.
    pub(crate) fn is_there(&self) -> bool {
        let named = !self.objects.is_empty() || !self.folders.is_empty() || !self.odd.is_empty();
        named || self.has_mark
    }

    /// Requests one more page and adds it. Returns the token of the next page, if there is one.
    async fn add(
        &mut self,
        bucket: &AmazonS3,
        prefix: Option<&str>,
        depth: Depth,
        page_token: Option<String>,
    ) -> Result<Option<String>, BucketError> {
        let delimiter = (depth == Depth::One).then(|| "/".into());
        let options =
            PaginatedListOptions { delimiter, page_token, ..PaginatedListOptions::default() };
        let mut page = bucket.list_paginated(prefix, options).await?;
        let besides = page.result.extensions.remove::<PageExtras>().unwrap_or_default();
        self.objects.append(&mut page.result.objects);
        self.folders.append(&mut page.result.common_prefixes);
        self.odd.extend(besides.odd);
        self.has_mark |= besides.has_mark;
        self.bytes = self.bytes.saturating_add(besides.bytes);
        Ok(page.page_token.filter(|token| !token.is_empty()))
    }
}

/// Requests all pages of a list, each once.
async fn listing(
    bucket: Arc<AmazonS3>,
    prefix: Option<String>,
    depth: Depth,
) -> Result<BucketListing, BucketError> {
    let (mut listing, mut asked, mut token) = (BucketListing::default(), HashSet::new(), None);
    loop {
        token = listing.add(&bucket, prefix.as_deref(), depth, token).await?;
        let Some(next) = &token else { break };
        if !asked.insert(next.clone()) {
            return Err(BucketError::Endless("its pages form a loop"));
        }
        if asked.len() >= MAX_PAGES || listing.bytes > MAX_LIST {
            return Err(BucketError::Endless("it exceeds the limit of what is read"));
        }
    }
    listing.folders.sort_unstable();
    listing.folders.dedup();
    Ok(listing)
}

/// Returns the prefix of all keys below a place.
fn prefix(place: &BucketPlace) -> Result<Option<String>, BucketError> {
    let is_bucket = place.key.is_empty();
    if is_bucket { Ok(None) } else { Ok(Some(format!("{}/", key(place)?))) }
}

/// Converts a place's key to the type of `object_store`.
pub(crate) fn key(place: &BucketPlace) -> Result<Key, BucketError> {
    let why = "the key is not a path that can be requested";
    Key::parse(&place.key).map_err(|_| BucketError::NoPlace { name: place.to_string(), why })
}

/// Requests a whole range of an object in the version `tag`.
pub(crate) async fn range(
    bucket: Arc<AmazonS3>,
    key: Key,
    tag: Option<String>,
    range: Range<u64>,
) -> Result<Bytes, BucketError> {
    let wanted = range.end - range.start;
    let mut failed = BucketError::Short;
    for _ in 0..TRIES {
        let range = Some(GetRange::Bounded(range.clone()));
        let options = GetOptions { range, if_match: tag.clone(), ..GetOptions::default() };
        let got = async { collected(bucket.get_opts(&key, options).await?, wanted).await };
        match got.await.map_err(BucketError::from) {
            Ok(Some(bytes)) if bytes.len() as u64 == wanted => return Ok(bytes),
            Ok(_) => failed = BucketError::Short,
            // The answer broke off; `object_store` does not repeat these.
            Err(e @ BucketError::Failed(_)) => failed = e,
            Err(e) => return Err(e),
        }
    }
    Err(failed)
}

/// Collects the content of an object, at most `limit` bytes; `None` if it is longer.
pub(crate) async fn collected(
    found: GetResult,
    limit: u64,
) -> Result<Option<Bytes>, object_store::Error> {
    let mut pieces = found.into_stream();
    let mut whole = BytesMut::new();
    while let Some(piece) = pieces.try_next().await? {
        if piece.len() as u64 > limit.saturating_sub(whole.len() as u64) {
            return Ok(None);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Some(whole.freeze()))
}
