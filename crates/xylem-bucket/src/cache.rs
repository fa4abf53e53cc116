//! [`Cache`]: chunks of objects that are read in order, fetched ahead of the reader.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

/// Size of a chunk, bytes. One request fetches one chunk.
pub(crate) const CHUNK: u64 = 4 << 20;
/// Chunks requested ahead of a sequential reader.
pub(crate) const AHEAD: u64 = 4;
/// Most chunks held, over all objects.
const MOST: usize = 24;

/// A chunk that is here or under way.
#[derive(Default)]
pub(crate) struct Chunk {
    /// `None`: under way. `Some(None)`: the request failed.
    bytes: Mutex<Option<Option<Bytes>>>,
    ready: Condvar,
}

impl Chunk {
    /// Sets the outcome (`None`: the request failed) and wakes all waiting readers.
    pub(crate) fn settle(&self, bytes: Option<Bytes>) {
        *lock(&self.bytes) = Some(bytes);
        self.ready.notify_all();
    }

    /// Waits at most `most` for the chunk. `None`: still under way. `Some(None)`: the request failed.
    pub(crate) fn wait(&self, most: Duration) -> Option<Option<Bytes>> {
        let is_missing = |bytes: &mut Option<_>| bytes.is_none();
        let waited = self.ready.wait_timeout_while(lock(&self.bytes), most, is_missing);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is safe to use: nothing panics half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of an open file, and number of a chunk in it.
type ChunkOf = (u64, u64);

/// The chunks of all open objects. The least recently used chunk is evicted first.
#[derive(Default)]
pub(crate) struct Cache {
    /// Least recently used first.
    chunks: Mutex<Vec<(ChunkOf, Arc<Chunk>)>>,
}

impl Cache {
    /// Returns a chunk that is here or under way, and marks it as used.
    pub(crate) fn get(&self, id: ChunkOf) -> Option<Arc<Chunk>> {
        let mut chunks = lock(&self.chunks);
        let at = chunks.iter().position(|(known, _)| *known == id)?;
        let found = chunks.remove(at);
        let chunk = found.1.clone();
        chunks.push(found);
        Some(chunk)
    }

    /// Adds an empty chunk, which the caller then fetches; `None` if the chunk is here or under way.
    pub(crate) fn put(&self, id: ChunkOf) -> Option<Arc<Chunk>> {
        let mut chunks = lock(&self.chunks);
        if chunks.iter().any(|(known, _)| *known == id) {
            return None;
        }
        if chunks.len() == MOST {
            chunks.remove(0);
        }
        let chunk = Arc::new(Chunk::default());
        chunks.push((id, chunk.clone()));
        Some(chunk)
    }

    /// Removes a chunk after its request failed.
    pub(crate) fn forget(&self, id: ChunkOf) {
        lock(&self.chunks).retain(|(known, _)| *known != id);
    }

    /// Removes all chunks of a closed file.
    pub(crate) fn close(&self, file: u64) {
        lock(&self.chunks).retain(|((of, _), _)| *of != file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_chunk_is_evicted_first() {
        let cache = Cache::default();
        for number in 0..MOST as u64 {
            let chunk = cache.put((1, number)).expect("new");
            chunk.settle(Some(Bytes::from(vec![number as u8])));
        }
        assert!(cache.put((1, 0)).is_none(), "it is there");
        let first = cache.get((1, 0)).expect("there").wait(Duration::ZERO);
        let first = first.flatten().expect("bytes");
        assert_eq!(first[..], [0]);
        assert!(cache.put((2, 0)).is_some());
        assert!(cache.get((1, 1)).is_none(), "the oldest has gone");
        assert!(cache.get((1, 0)).is_some(), "and not what was used");
        cache.forget((1, 0));
        assert!(cache.get((1, 0)).is_none());
        cache.close(1);
        assert!(cache.get((1, 2)).is_none() && cache.get((2, 0)).is_some());
    }
}
