//! [`Buckets`]: objects of S3 buckets as files under `s3://BUCKET/KEY`, beside the files of a disk.
//!
//! A bucket is read where it lies: what walks, hashes and serves files does so with its objects too, by range
//! requests, ahead of who reads in order. Each request names the version (`ETag`) that was seen first, so that an object that
//! changes meanwhile is an error and never two halves of two versions. [`Upload`] writes one object by
//! parts, which a later run can go on with.
//!
//! Requests, their repetition and their signatures are the crate `object_store`'s, on one thread of its own; credentials are taken
//! from where other S3 programs take them ([`Settings`]). No request is made conditional on what
//! it would replace: not every store can do that.
//!
//! A publication that is kept in a bucket (docs/spec/mirror.md) is shown as its listing has it ([`Buckets::show`]).
//!
//! Nothing of a bucket can be locked, linked or written in place, and what is in it is not believed: whoever reads
//! a publication proves each piece of it.

mod error;

// Where: names, and who asks.
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
pub use objects::Below;
pub use place::{PARTS, Place, is_in_bucket};
pub use settings::Settings;
pub use upload::{Part, Upload, Uploaded};
