//! [`Cache`]: chunks of objects that are read in order, fetched ahead of who reads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

/// Bytes of a chunk: one request.
pub(crate) const CHUNK: u64 = 4 << 20;
/// Chunks that are asked for ahead of who reads in order.
pub(crate) const AHEAD: u64 = 4;
/// Chunks of all objects that are held.
const MOST: usize = 24;

/// A chunk, or that it is on its way.
#[derive(Default)]
pub(crate) struct Chunk {
    /// `None`: not there yet. `Some(None)`: it did not come.
    bytes: Mutex<Option<Option<Bytes>>>,
    ready: Condvar,
}

impl Chunk {
    /// It is there, or will not come.
    pub(crate) fn settle(&self, bytes: Option<Bytes>) {
        *lock(&self.bytes) = Some(bytes);
        self.ready.notify_all();
    }

    /// Waits so long for it: `None`: it is not there yet. `Some(None)`: it did not come.
    pub(crate) fn wait(&self, most: Duration) -> Option<Option<Bytes>> {
        let is_missing = |bytes: &mut Option<_>| bytes.is_none();
        let waited = self.ready.wait_timeout_while(lock(&self.bytes), most, is_missing);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of an open file and that of a chunk of it.
type ChunkOf = (u64, u64);

/// The chunks of all open objects; the one that was used longest ago goes first.
#[derive(Default)]
pub(crate) struct Cache {
    /// In the order of their use.
    chunks: Mutex<Vec<(ChunkOf, Arc<Chunk>)>>,
}

impl Cache {
    /// A chunk that is there or on its way.
    pub(crate) fn get(&self, id: ChunkOf) -> Option<Arc<Chunk>> {
        let mut chunks = lock(&self.chunks);
        let at = chunks.iter().position(|(known, _)| *known == id)?;
        let found = chunks.remove(at);
        let chunk = found.1.clone();
        chunks.push(found);
        Some(chunk)
    }

    /// A place for a chunk that is neither: whoever is given one fetches it.
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

    /// Forgets a chunk that did not come.
    pub(crate) fn forget(&self, id: ChunkOf) {
        lock(&self.chunks).retain(|(known, _)| *known != id);
    }

    /// Forgets all of a file that is closed.
    pub(crate) fn close(&self, file: u64) {
        lock(&self.chunks).retain(|((of, _), _)| *of != file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
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
