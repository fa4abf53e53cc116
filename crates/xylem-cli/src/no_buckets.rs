//! [`crate::buckets`] of a build without the feature `s3`: each `s3://` is refused.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use std::path::{Path, PathBuf};
use xylem_base::{FileMedium, Stop};
use xylem_files::Existing;
use xylem_object::Ticket;
use xylem_reader::Options;
use xylem_sink::GetSummary;

const NOT_BUILT: &str =
    "buckets (s3://) are not built into this program: it needs the feature `s3`";

fn not_built() -> CommandFailure {
    CommandFailure::new(Exit::Usage, NOT_BUILT)
}

/// Whether a path names something in a bucket.
pub(crate) fn is_in_bucket(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with("s3://"))
}

/// Refuses paths in buckets.
pub(crate) fn for_paths(
    paths: &mut [PathBuf],
    _: Option<&Ticket>,
    _: &Common,
    _: &mut Out,
) -> Result<PathMedium, CommandFailure> {
    if paths.iter().any(|path| is_in_bucket(path)) { Err(not_built()) } else { Ok(PathMedium) }
}

/// Where the paths of a command are: on this machine's disk.
pub(crate) struct PathMedium;

impl PathMedium {
    pub(crate) fn medium(&self) -> FileMedium {
        FileMedium::default()
    }

    pub(crate) fn unlisted(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

/// Where a publication goes in a bucket.
pub(crate) struct IntoBucketOptions {
    pub(crate) options: Options,
    pub(crate) output: PathBuf,
    pub(crate) existing: Existing,
}

pub(crate) fn into_bucket(
    what: IntoBucketOptions,
    _: &Stop,
    _: &mut Out,
) -> Result<GetSummary, CommandFailure> {
    let IntoBucketOptions { options: _, output: _, existing: _ } = what;
    Err(not_built())
}

/// What `mirror` keeps, and where.
pub(crate) struct MirrorOptions {
    pub(crate) options: Options,
    pub(crate) place: String,
    pub(crate) keep: usize,
    pub(crate) repair: bool,
}

pub(crate) fn place(_: &str) -> Result<String, CommandFailure> {
    Err(not_built())
}

pub(crate) fn mirror(
    what: MirrorOptions,
    _: &Stop,
    _: &mut Out,
) -> Result<GetSummary, CommandFailure> {
    let MirrorOptions { options: _, place: _, keep: _, repair: _ } = what;
    Err(not_built())
}
