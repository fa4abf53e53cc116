//! [`Buckets`]: objects of S3 buckets as files under `s3://BUCKET/KEY`, beside the files of a disk.
//!
//! A bucket is read in place. The code that walks, hashes and serves files does the same with objects, by range
//! requests ahead of the reader. Each request names the version (`ETag`) that was seen first: an object that changes
//! meanwhile is an error, never two halves of two versions. [`Upload`] writes one object by parts, and a later run can
//! continue it.
//!
//! The crate `object_store` makes, repeats and signs requests, on one thread of its own. Credentials are taken from the
//! places that other S3 programs use ([`Settings`]). No request is conditional on what it would replace: not every
//! store supports that.
//!
//! A publication that is kept in a bucket (docs/spec/mirror.md) appears as its listing describes it
//! ([`Buckets::show`]).
//!
//! Nothing in a bucket can be locked, linked or written in place. The content of a bucket is not trusted: the reader of
//! a publication verifies each piece.

mod error;

// Names, places and credentials.
mod pages;
mod place;
mod settings;

mod answers;
mod client;

// Reading.
mod cache;
mod file;
mod medium;
mod objects;

// Writing.
mod upload;

// Publications that are kept in a bucket.
mod shown;

pub use client::IsStopped;
pub use error::BucketError;
pub use medium::Buckets;
pub use objects::ListedObject;
pub use place::{BucketPlace, PARTS, is_in_bucket};
pub use settings::Settings;
pub use upload::{Upload, UploadPart, Uploaded};
