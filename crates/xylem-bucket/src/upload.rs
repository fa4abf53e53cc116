//! [`Upload`]: one object, written by parts in any number of runs.
//!
//! An object appears whole or not at all: a store shows a multipart upload only when it is completed. The caller
//! records the progress ([`Upload::kept`]), and a later run continues from it. Parts that were under way are sent
//! again.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
};
use tokio::sync::oneshot;

use crate::client::{BucketClient, key};
use crate::error::BucketError;
use crate::medium::Buckets;
use crate::place::BucketPlace;

/// Size of a part, bytes, unless there would be too many.
const PART: u64 = 8 << 20;
/// Most parts that S3 accepts.
const MOST_PARTS: u64 = 10_000;
/// Parts under way at once.
const AT_ONCE: usize = 3;
/// First line of the record of an upload.
const HEAD: &str = "xylem upload 1";
/// Metadata key of an object under which the BLAKE3 root of its content stands.
const ROOT: &str = "xylem-root";

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPart {
    /// Its number, from 0.
    pub number: u64,
    /// Its bytes within the object.
    pub bytes: Range<u64>,
}

/// Size and claimed root of an existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Its size, bytes.
    pub size: u64,
    /// The root of its content as its uploader claims; not verified.
    pub root: Option<String>,
}

/// An upload in progress; see the module's text.
pub struct Upload {
    client: Arc<BucketClient>,
    bucket: Arc<AmazonS3>,
    key: Key,
    size: u64,
    root: String,
    /// The store's id of the upload; `None`: the object is one part, put by a plain request.
    id: Option<String>,
    /// Tags of parts by number; `None`: not uploaded yet.
    parts: Vec<Option<String>>,
    under_way: Vec<(usize, oneshot::Receiver<Result<String, BucketError>>)>,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("key", &self.key).finish_non_exhaustive()
    }
}

fn part_len(size: u64) -> u64 {
    let least = size.div_ceil(MOST_PARTS);
    if least <= PART { PART } else { least.div_ceil(1 << 20) << 20 }
}

fn attributes(root: &str) -> Attributes {
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata(ROOT.into()), root.to_owned().into());
    attributes
}

impl Buckets {
    /// Returns the size and claimed root of the object at `place`; `None` if there is none.
    ///
    /// # Errors
    /// See [`BucketError`].
    pub fn existing(&self, place: &BucketPlace) -> Result<Option<Uploaded>, BucketError> {
        let client = self.client();
        let (bucket, key) = (client.bucket(&place.bucket)?, key(place)?);
        let asked = client.wait(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            let there = bucket.get_opts(&key, options).await?;
            let root = there.attributes.get(&Attribute::Metadata(ROOT.into()));
            Ok(Uploaded { size: there.meta.size, root: root.map(|root| root.as_ref().to_owned()) })
        });
        match asked {
            Ok(there) => Ok(Some(there)),
            Err(BucketError::NotThere) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Begins to upload `size` bytes with this BLAKE3 root to `place`, or continues from the record `kept` of an
    /// earlier run with the same content.
    ///
    /// # Errors
    /// See [`BucketError`].
    pub fn upload(
        &self,
        place: &BucketPlace,
        size: u64,
        root: &str,
        kept: Option<&str>,
    ) -> Result<Upload, BucketError> {
        let client = self.client().clone();
        let (bucket, key) = (client.bucket(&place.bucket)?, key(place)?);
        let count = size.div_ceil(part_len(size)).max(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (mut id, mut parts) = (None, vec![None; count]);
        if count > 1 {
            match kept.and_then(|kept| read_kept(kept, size, root, count)) {
                Some((known, there)) => (id, parts) = (Some(known), there),
                None => {
                    let (bucket, key, attributes) = (bucket.clone(), key.clone(), attributes(root));
                    let options = PutMultipartOptions { attributes, ..Default::default() };
                    id = Some(client.wait(async move {
                        Ok(bucket.create_multipart_opts(&key, options).await?)
                    })?);
                }
            }
        }
        let (root, under_way) = (root.to_owned(), Vec::new());
        Ok(Upload { client, bucket, key, size, root, id, parts, under_way })
    }
}

/// Parses the record of an upload of the same content: the store's id, and the tags of its parts.
fn read_kept(
    kept: &str,
    size: u64,
    root: &str,
    count: usize,
) -> Option<(String, Vec<Option<String>>)> {
    let mut lines = kept.lines();
    let (head, what, id) = (lines.next()?, lines.next()?, lines.next()?);
    if head != HEAD || what != format!("{size} {root}") || id.is_empty() {
        return None;
    }
    let mut parts = vec![None; count];
    for line in lines {
        let (number, tag) = line.split_once(' ')?;
        *parts.get_mut(number.parse::<usize>().ok()?)? = Some(tag.to_owned());
    }
    Some((id.to_owned(), parts))
}

impl Upload {
    /// Returns the parts that are neither uploaded nor under way, in order.
    pub fn missing(&self) -> impl Iterator<Item = UploadPart> + '_ {
        let len = part_len(self.size);
        let absent = (0..).zip(&self.parts).filter(|(_, part)| part.is_none());
        let absent = absent.map(|(number, _): (u64, _)| number);
        let under_way = |number: &u64| self.under_way.iter().any(|(n, _)| *n as u64 == *number);
        absent.filter(move |number| !under_way(number)).map(move |number| {
            let start = number.saturating_mul(len);
            UploadPart { number, bytes: start..start.saturating_add(len).min(self.size) }
        })
    }

    /// Returns the number of bytes uploaded.
    #[must_use]
    pub fn done(&self) -> u64 {
        let len = part_len(self.size);
        let there = (0_u64..).zip(&self.parts).filter(|(_, part)| part.is_some());
        there.map(|(n, _)| len.min(self.size.saturating_sub(n.saturating_mul(len)))).sum()
    }

    /// Sends a part; waits if several are under way. The request's signature covers a hash of the content, so that a
    /// store accepts nothing else.
    ///
    /// # Errors
    /// Those of this part or an earlier one. [`BucketError::NotThere`]: the store no longer knows this upload.
    pub fn put(&mut self, part: &UploadPart, content: Bytes) -> Result<(), BucketError> {
        // Finished parts are recorded as soon as their answers arrive.
        while self.under_way.len() >= AT_ONCE || self.first_is_there() {
            self.settle_one()?;
        }
        let number = usize::try_from(part.number).unwrap_or(usize::MAX);
        let (bucket, key, id) = (self.bucket.clone(), self.key.clone(), self.id.clone());
        let attributes = attributes(&self.root);
        let sent = self.client.start(async move {
            let payload = PutPayload::from_bytes(content);
            match id {
                Some(id) => Ok(bucket.put_part(&key, &id, number, payload).await?.content_id),
                None => {
                    let options = PutOptions { attributes, ..PutOptions::default() };
                    bucket.put_opts(&key, payload, options).await?;
                    Ok(String::new())
                }
            }
        });
        self.under_way.push((number, sent));
        Ok(())
    }

    fn first_is_there(&self) -> bool {
        self.under_way.first().is_some_and(|(_, sent)| !sent.is_empty())
    }

    fn settle_one(&mut self) -> Result<(), BucketError> {
        if self.under_way.is_empty() {
            return Ok(());
        }
        let (number, sent) = self.under_way.remove(0);
        let ended =
            || BucketError::Failed("the thread that sends requests to buckets has ended".into());
        let tag = self.client.wait(async move { sent.await.map_err(|_| ended())? })?;
        if let Some(part) = self.parts.get_mut(number) {
            *part = Some(tag);
        }
        Ok(())
    }

    /// Waits for the parts under way.
    ///
    /// # Errors
    /// As [`Upload::put`].
    pub fn settle(&mut self) -> Result<(), BucketError> {
        while !self.under_way.is_empty() {
            self.settle_one()?;
        }
        Ok(())
    }

    /// Returns the record from which a later run continues; `None` if the object is one part.
    #[must_use]
    pub fn kept(&self) -> Option<String> {
        let mut kept = format!("{HEAD}\n{} {}\n{}\n", self.size, self.root, self.id.as_ref()?);
        for (number, tag) in self.parts.iter().enumerate() {
            if let Some(tag) = tag {
                // Writing to a string does not fail.
                let _ = writeln!(kept, "{number} {tag}");
            }
        }
        Some(kept)
    }

    /// Completes the object from its parts, and checks the size of the result.
    ///
    /// # Errors
    /// [`BucketError::Short`] if the size differs from what was sent; otherwise as [`Upload::put`].
    pub fn finish(mut self) -> Result<(), BucketError> {
        self.settle()?;
        let (bucket, key, id) = (self.bucket.clone(), self.key.clone(), self.id.take());
        let parts: Option<Vec<PartId>> = std::mem::take(&mut self.parts)
            .into_iter()
            .map(|tag| tag.map(|content_id| PartId { content_id }))
            .collect();
        let parts = parts.ok_or(BucketError::Short)?;
        let size = self.size;
        self.client.wait(async move {
            if let Some(id) = id {
                bucket.complete_multipart(&key, &id, parts).await?;
            }
            let options = GetOptions { head: true, ..GetOptions::default() };
            match bucket.get_opts(&key, options).await?.meta.size == size {
                true => Ok(()),
                false => Err(BucketError::Short),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_continues_the_same_content_only() {
        let kept = format!("{HEAD}\n20 aa\nid\n1 \"tag\"\n");
        let (id, parts) = read_kept(&kept, 20, "aa", 3).expect("the same");
        assert_eq!((id.as_str(), parts), ("id", vec![None, Some("\"tag\"".into()), None]));
        assert!(read_kept(&kept, 21, "aa", 3).is_none());
        assert!(read_kept(&kept, 20, "ab", 3).is_none());
        assert!(read_kept(&kept, 20, "aa", 1).is_none(), "a part that there is not");
        for torn in 0..kept.len() {
            drop(read_kept(&kept[..torn], 20, "aa", 3));
        }
    }

    #[test]
    fn there_are_never_too_many_parts() {
        for size in [0, 1, PART, PART + 1, PART * MOST_PARTS, PART * MOST_PARTS + 1, 5 << 40] {
            let len = part_len(size);
            assert!(len >= PART && size.div_ceil(len) <= MOST_PARTS, "{size}");
        }
    }
}
