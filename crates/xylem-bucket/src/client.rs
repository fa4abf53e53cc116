//! [`Client`]: requests to buckets, made on one thread and waited for on others.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ListResult, ObjectMeta, ObjectStore};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::BucketError;
use crate::place::Place;
use crate::settings::Settings;

/// A range of which too little came is asked for this often.
const TRIES: usize = 4;

/// One thread, and the buckets that were asked so far.
pub(crate) struct Client {
    settings: Settings,
    runtime: Handle,
    /// Dropped: the thread ends.
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    buckets: Mutex<HashMap<String, Arc<AmazonS3>>>,
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Result<Self, BucketError> {
        let started = |e: std::io::Error| BucketError::Settings(format!("cannot start: {e}"));
        // The one that TLS is made with elsewhere in this program; it does not matter who says so first.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(started)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("xylem-bucket".into())
            .spawn(move || drop(runtime.block_on(ended)))
            .map_err(started)?;
        let (ends, thread) = (Some(ends), Some(thread));
        Ok(Self { settings, runtime: handle, ends, thread, buckets: Mutex::default() })
    }

    /// What asks a bucket.
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

    /// Does `work` on the client's thread.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, receiver) = oneshot::channel();
        self.runtime.spawn(async move { drop(done.send(work.await)) });
        receiver
    }

    /// As [`Client::start`], and waits for it.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
    ) -> Result<T, BucketError> {
        let ended = || BucketError::Failed("the thread that asks buckets has ended".into());
        self.start(work).blocking_recv().map_err(|_| ended())?
    }

    /// What is known of an object.
    pub(crate) fn head(&self, place: &Place) -> Result<ObjectMeta, BucketError> {
        let (bucket, key) = (self.bucket(&place.bucket)?, key(place)?);
        self.wait(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            Ok(bucket.get_opts(&key, options).await?.meta)
        })
    }

    /// What is below a key, one level.
    pub(crate) fn list(&self, place: &Place) -> Result<ListResult, BucketError> {
        self.again(place, |bucket, key| async move { bucket.list_with_delimiter(Some(&key)).await })
    }

    /// What is below a key, one level, if it is told in one answer; `None`: there is more.
    pub(crate) fn page(&self, place: &Place) -> Result<Option<ListResult>, BucketError> {
        let bucket = self.bucket(&place.bucket)?;
        let prefix = match place.key.is_empty() {
            true => None,
            false => Some(format!("{}/", key(place)?)),
        };
        self.wait(async move {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                ..PaginatedListOptions::default()
            };
            let listed = bucket.list_paginated(prefix.as_deref(), options).await?;
            Ok(listed.page_token.is_none().then_some(listed.result))
        })
    }

    /// As [`Client::wait`] for what may be asked several times: an answer that breaks off is none that the library repeats.
    pub(crate) fn again<T, F>(
        &self,
        place: &Place,
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

impl Drop for Client {
    fn drop(&mut self) {
        self.ends.take();
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            drop(thread.join());
        }
    }
}

/// A key as the library has it.
pub(crate) fn key(place: &Place) -> Result<Key, BucketError> {
    let why = "the key is no path that can be asked for";
    Key::parse(&place.key).map_err(|_| BucketError::NoPlace { name: place.to_string(), why })
}

/// A range of an object in the version `tag`, all of it.
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
        let got = async { bucket.get_opts(&key, options).await?.bytes().await };
        match got.await.map_err(BucketError::from) {
            Ok(bytes) if bytes.len() as u64 == wanted => return Ok(bytes),
            Ok(_) => failed = BucketError::Short,
            // An answer that breaks off, and what the library has not repeated.
            Err(e @ BucketError::Failed(_)) => failed = e,
            Err(e) => return Err(e),
        }
    }
    Err(failed)
}
