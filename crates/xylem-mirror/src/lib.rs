//! Publications in S3 buckets: [`get_into_bucket`] fetches one into a bucket, [`mirror`] keeps one there with its newer
//! versions, [`open_mirrored`] opens what is kept, to serve it or to compare it.
//!
//! Each call blocks, reports [`Event`](xylem_node::Event)s to a closure and ends early when its
//! [`Stop`](xylem_base::Stop) is raised. None of the content is written to this machine's disk. Layout of a mirror:
//! docs/spec/mirror.md.

mod error;
mod into;
mod mirror;
mod mirrored;

pub use error::MirrorError;
pub use into::{IntoBucketOptions, get_into_bucket};
pub use mirror::{MirrorOptions, mirror};
pub use mirrored::open_mirrored;
pub use xylem_bucket::{BucketError, BucketPlace, Buckets, Settings, is_in_bucket};
