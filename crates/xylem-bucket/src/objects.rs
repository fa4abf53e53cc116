//! Whole objects: reads, puts, copies within a bucket, removes, and lists all below a key.

use bytes::Bytes;
use object_store::{
    CopyOptions, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutOptions, PutPayload,
};

use crate::answers::OddKey;
use crate::client::{Depth, collected, key};
use crate::error::BucketError;
use crate::medium::Buckets;
use crate::place::BucketPlace;

/// An object below a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key relative to the place.
    pub name: String,
    /// Its size, bytes.
    pub size: u64,
    /// Its version.
    pub tag: Option<String>,
}

impl Buckets {
    /// Reads all of an object of at most `limit` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`BucketError::TooLarge`]; see [`BucketError`].
    pub fn whole(&self, place: &BucketPlace, limit: u64) -> Result<Option<Bytes>, BucketError> {
        let asked = self.client().again(place, move |bucket, key| async move {
            let found = bucket.get_opts(&key, GetOptions::default()).await?;
            match found.meta.size <= limit {
                true => collected(found, limit).await,
                false => Ok(None),
            }
        });
        match asked {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(BucketError::TooLarge),
            Err(BucketError::NotThere) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Puts a small object and replaces any that is there.
    ///
    /// # Errors
    /// See [`BucketError`].
    pub fn put(&self, place: &BucketPlace, content: Bytes) -> Result<(), BucketError> {
        self.client().again(place, move |bucket, key| {
            let payload = PutPayload::from_bytes(content.clone());
            async move { bucket.put_opts(&key, payload, PutOptions::default()).await.map(drop) }
        })
    }

    /// Copies an object within its bucket; the store does it.
    ///
    /// # Errors
    /// See [`BucketError`]. Stores limit the size: Amazon to 5 GiB.
    pub fn copy(&self, from: &BucketPlace, to: &BucketPlace) -> Result<(), BucketError> {
        let to = key(to)?;
        self.client().again(from, move |bucket, from| {
            let to = to.clone();
            async move { bucket.copy_opts(&from, &to, CopyOptions::default()).await }
        })
    }

    /// Removes an object; a missing one is no error.
    ///
    /// # Errors
    /// See [`BucketError`].
    pub fn remove(&self, place: &BucketPlace) -> Result<(), BucketError> {
        let removed = self.client().again(place, |bucket, key| async move {
            ObjectStoreExt::delete(&*bucket, &key).await
        });
        match removed {
            Err(BucketError::NotThere) => Ok(()),
            removed => removed,
        }
    }

    /// Lists all objects below a place in the store's order, without keys that are not paths.
    ///
    /// # Errors
    /// [`BucketError::NotThere`]: there is no such bucket; see [`BucketError`].
    pub fn below(&self, place: &BucketPlace) -> Result<Vec<ListedObject>, BucketError> {
        Ok(self.all_below(place)?.0)
    }

    /// Like [`Buckets::below`], and also returns the keys that are not paths.
    pub(crate) fn all_below(
        &self,
        place: &BucketPlace,
    ) -> Result<(Vec<ListedObject>, Vec<String>), BucketError> {
        let found = self.client().list(place, Depth::All)?;
        let prefix = match place.key.as_str() {
            "" => String::new(),
            key => format!("{key}/"),
        };
        let below = |object: ObjectMeta| {
            let name = object.location.as_ref().strip_prefix(&prefix)?.to_owned();
            Some(ListedObject { name, size: object.size, tag: object.e_tag })
        };
        let odd = |odd: OddKey| Some(odd.key.strip_prefix(&prefix)?.to_owned());
        let odd = found.odd.into_iter().filter_map(odd).collect();
        Ok((found.objects.into_iter().filter_map(below).collect(), odd))
    }
}
