//! `s3://BUCKET/KEY` where paths are named: shared in place, written by `get -o`, kept by `mirror`.

mod into;
mod mirror;
mod mirrored;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::stop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xylem_base::{disk, use_medium};
use xylem_bucket::{BucketError, BucketPlace, Buckets, Settings};
use xylem_object::Ticket;

pub(crate) use into::{IntoBucket, into_bucket};
pub(crate) use mirror::{MirrorOptions, mirror};
pub(crate) use xylem_bucket::is_in_bucket;

/// The exit code of an error: it tells a script whether the user, the network or this machine has to change.
fn exit_of(error: &BucketError) -> Exit {
    match error {
        BucketError::NoPlace { .. }
        | BucketError::NoCredentials
        | BucketError::NotThere
        | BucketError::Settings(_) => Exit::Usage,
        BucketError::Stopped => Exit::Interrupted,
        BucketError::Short | BucketError::Failed(_) | BucketError::Endless(_) => Exit::Unreachable,
        BucketError::Changed | BucketError::Incomplete(_) | BucketError::TooLarge => Exit::Damaged,
        _ => Exit::Local,
    }
}

fn failed(error: &BucketError) -> CommandFailure {
    CommandFailure::new(exit_of(error), error.to_string())
}

/// Reads `s3://BUCKET/PREFIX`.
pub(crate) fn place(text: &str) -> Result<BucketPlace, CommandFailure> {
    text.parse().map_err(|e: BucketError| CommandFailure::new(Exit::Usage, e.to_string()))
}

/// Opens a medium of buckets and of this machine's files, with credentials from the environment.
pub(crate) fn buckets() -> Result<Buckets, CommandFailure> {
    let environment = std::env::vars_os();
    let text =
        environment.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let settings = Settings::new(text).map_err(|e| failed(&e))?;
    Buckets::over(disk(), settings, Arc::new(stop::was_raised)).map_err(|e| failed(&e))
}

/// If any of the paths is in a bucket, replaces the process's medium by one that also reads buckets. Returns `None` if
/// none is.
///
/// A path at which `mirror` keeps a publication becomes the path of its content: of the version that `wanted` names, or
/// of the newest.
pub(crate) fn for_paths(
    paths: &mut [PathBuf],
    wanted: Option<&Ticket>,
    common: &Common,
    out: &mut Out,
) -> Result<Option<Arc<Buckets>>, CommandFailure> {
    if !paths.iter().any(|path| is_in_bucket(path)) {
        return Ok(None);
    }
    let (buckets, store) = (Arc::new(buckets()?), common.store()?);
    use_medium(buckets.clone());
    for path in paths.iter_mut().filter(|path| is_in_bucket(path)) {
        // Report missing rights and mistyped names before anything else happens.
        let medium: &dyn xylem_store::Medium = &*buckets;
        if let Err(error) = medium.metadata(path) {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<BucketError>());
            return Err(inner.map_or_else(
                || CommandFailure::new(Exit::Local, format!("{}: {error}", path.display())),
                |inner| at(path, inner),
            ));
        }
        let opened = mirrored::open(&buckets, &store, path, wanted, &mut |e| out.event(e))?;
        *path = opened.unwrap_or_else(|| path.clone());
    }
    Ok(Some(buckets))
}

/// A failure whose message begins with the path.
fn at(path: &Path, error: &BucketError) -> CommandFailure {
    match error {
        // The message names the place already, or the place does not matter.
        BucketError::NoPlace { .. } | BucketError::NoCredentials => failed(error),
        _ => CommandFailure::new(exit_of(error), format!("{}: {error}", path.display())),
    }
}
