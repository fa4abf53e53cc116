//! `s3://BUCKET/KEY` where paths are named: shared in place, and written by `get -o`.

mod into;

use crate::exit::{Exit, Failure};
use std::path::Path;
use std::sync::Arc;
use xylem_bucket::{BucketError, Buckets, Settings, is_in_bucket};
use xylem_library::{disk, use_medium};

pub(crate) use into::{IntoBucket, into_bucket};

/// Who has to act.
fn exit_of(error: &BucketError) -> Exit {
    match error {
        BucketError::NoPlace { .. }
        | BucketError::NoCredentials
        | BucketError::NotThere
        | BucketError::Settings(_) => Exit::Usage,
        BucketError::Short | BucketError::Failed(_) => Exit::Unreachable,
        BucketError::Changed => Exit::Damaged,
        _ => Exit::Local,
    }
}

fn failed(error: &BucketError) -> Failure {
    Failure::new(exit_of(error), error.to_string())
}

/// Buckets beside this machine's files, asked as whom the environment says.
pub(crate) fn buckets() -> Result<Buckets, Failure> {
    let environment = std::env::vars_os();
    let text =
        environment.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let settings = Settings::new(text).map_err(|e| failed(&e))?;
    Buckets::over(disk(), settings).map_err(|e| failed(&e))
}

/// If any of the paths is in a bucket, whatever reads files reads those of buckets too, from now on.
pub(crate) fn for_paths<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<(), Failure> {
    let mut named = paths.into_iter().filter(|path| is_in_bucket(path)).peekable();
    if named.peek().is_none() {
        return Ok(());
    }
    let buckets = Arc::new(buckets()?);
    for path in named {
        // Whoever has no right to it, or mistyped it, is told so before anything else.
        let medium: &dyn xylem_store::Medium = &*buckets;
        if let Err(error) = medium.metadata(path) {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<BucketError>());
            return Err(inner.map_or_else(
                || Failure::new(Exit::Local, format!("{}: {error}", path.display())),
                |inner| at(path, inner),
            ));
        }
    }
    use_medium(buckets);
    Ok(())
}

/// A failure that says where.
fn at(path: &Path, error: &BucketError) -> Failure {
    match error {
        // They say so themselves, or it does not matter.
        BucketError::NoPlace { .. } | BucketError::NoCredentials => failed(error),
        _ => Failure::new(exit_of(error), format!("{}: {error}", path.display())),
    }
}
