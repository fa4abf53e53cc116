//! `s3://BUCKET/KEY` where paths are named: shared in place, written by `get -o`, kept by `mirror`.

use crate::cli::Common;
use crate::exit::CommandFailure;
use crate::get::ended;
use crate::output::Out;
use crate::stop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xylem_base::{FileMedium, Stop, disk};
use xylem_mirror::{BucketPlace, Buckets, MirrorError, Settings, get_into_bucket, open_mirrored};
use xylem_object::Ticket;
use xylem_sink::GetSummary;

pub(crate) use xylem_mirror::{IntoBucketOptions, MirrorOptions, is_in_bucket};

/// Reads `s3://BUCKET/PREFIX`.
pub(crate) fn place(text: &str) -> Result<BucketPlace, CommandFailure> {
    Ok(text.parse().map_err(MirrorError::Bucket)?)
}

/// Opens a medium of buckets and of this machine's files, with credentials from the environment.
fn buckets() -> Result<Arc<Buckets>, MirrorError> {
    let environment = std::env::vars_os();
    let text =
        environment.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    Ok(Arc::new(Buckets::over(disk(), Settings::new(text)?, Arc::new(stop::was_raised))?))
}

/// Where the paths of a command are: on this machine's disk, or some of them in buckets.
pub(crate) struct PathMedium(Option<Arc<Buckets>>);

impl PathMedium {
    pub(crate) fn medium(&self) -> FileMedium {
        self.0.clone().map_or_else(FileMedium::default, FileMedium::from)
    }

    /// Names of objects beside those of a publication in a mirror, which hides them.
    pub(crate) fn unlisted(&self, top: &Path) -> Vec<String> {
        self.0.as_ref().map(|buckets| buckets.unlisted(top)).unwrap_or_default()
    }
}

/// Opens a medium that also reads buckets, if any of the paths is in one.
///
/// A path at which `mirror` keeps a publication becomes the path of its content: of the version that `wanted` names, or
/// of the newest.
pub(crate) fn for_paths(
    paths: &mut [PathBuf],
    wanted: Option<&Ticket>,
    common: &Common,
    out: &mut Out,
) -> Result<PathMedium, CommandFailure> {
    if !paths.iter().any(|path| is_in_bucket(path)) {
        return Ok(PathMedium(None));
    }
    let (buckets, store) = (buckets()?, common.store()?);
    for path in paths.iter_mut().filter(|path| is_in_bucket(path)) {
        *path = open_mirrored(&buckets, &store, path, wanted, &mut |event| out.event(event))?;
    }
    Ok(PathMedium(Some(buckets)))
}

/// Fetches into a bucket.
pub(crate) fn into_bucket(
    what: IntoBucketOptions,
    stop: &Stop,
    out: &mut Out,
) -> Result<GetSummary, CommandFailure> {
    let copied = get_into_bucket(what, buckets()?, stop, &mut |event| out.event(event));
    out.take_broken()?;
    copied.map_err(|error| ended(error, stop))
}

/// Updates a mirror.
pub(crate) fn mirror(
    what: MirrorOptions,
    stop: &Stop,
    out: &mut Out,
) -> Result<GetSummary, CommandFailure> {
    let kept = xylem_mirror::mirror(what, buckets()?, stop, &mut |event| out.event(event));
    out.take_broken()?;
    kept.map_err(|error| ended(error, stop))
}
