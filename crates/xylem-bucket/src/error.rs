//! [`BucketError`]: why an operation on a bucket failed.

use std::io;

/// Longest text of a server in an error, bytes.
const MAX_MESSAGE: usize = 240;

/// Why an object or bucket cannot be named, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// A name is not of the form `s3://BUCKET/KEY`.
    #[error("{name}: {why}; expected s3://BUCKET/KEY")]
    NoPlace {
        /// The name given.
        name: String,
        /// Why it is not a place.
        why: &'static str,
    },
    /// No credentials are set.
    #[error(
        "no credentials for buckets: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile of \
         ~/.aws/credentials in AWS_PROFILE, or set AWS_SKIP_SIGNATURE=true for public objects"
    )]
    NoCredentials,
    /// The settings contradict each other, or the file with them cannot be read.
    #[error("buckets: {0}")]
    Settings(String),
    /// There is no such object or bucket.
    #[error("there is no such object or bucket")]
    NotThere,
    /// The store refuses the request to these credentials.
    #[error("the store refuses access to these credentials")]
    Refused,
    /// The object is not in the version that was seen first.
    #[error("the object was replaced while it was read")]
    Changed,
    /// A publication is kept at this place, and parts of it are missing.
    #[error("{0}")]
    Incomplete(String),
    /// The object is larger than anything that belongs at this place.
    #[error("the object is too large for this place")]
    TooLarge,
    /// The store's list does not end.
    #[error("the store's list of objects does not end: {0}")]
    Endless(&'static str),
    /// Fewer bytes arrived than were requested, several times.
    #[error("the store's answers were cut short")]
    Short,
    /// The program was interrupted.
    #[error("interrupted")]
    Stopped,
    /// The store failed or was unreachable through all attempts; with its answer, or the HTTP library's text, in one line.
    #[error("{0}")]
    Failed(String),
}

impl From<object_store::Error> for BucketError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error;
        match error {
            Error::NotFound { .. } => Self::NotThere,
            Error::Precondition { .. } | Error::NotModified { .. } => Self::Changed,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Self::Refused,
            // A list of a missing bucket ends here: for lists `object_store` does not read the code.
            other if other.to_string().contains("<Code>NoSuchBucket</Code>") => Self::NotThere,
            other => Self::Failed(line(&other)),
        }
    }
}

/// Returns the error's text as one short line without control characters.
fn line(error: &dyn std::error::Error) -> String {
    let whole = error.to_string();
    let mut said = String::new();
    for word in whole.split_whitespace() {
        if said.len() + word.len() >= MAX_MESSAGE {
            said.push('…');
            break;
        }
        if !said.is_empty() {
            said.push(' ');
        }
        said.extend(word.chars().filter(|c| !c.is_control()));
    }
    said
}

impl From<BucketError> for io::Error {
    fn from(error: BucketError) -> Self {
        let kind = match &error {
            BucketError::NotThere => io::ErrorKind::NotFound,
            BucketError::Refused | BucketError::NoCredentials => io::ErrorKind::PermissionDenied,
            BucketError::NoPlace { .. } => io::ErrorKind::InvalidInput,
            BucketError::Short => io::ErrorKind::UnexpectedEof,
            BucketError::Incomplete(_) | BucketError::TooLarge | BucketError::Endless(_) => {
                io::ErrorKind::InvalidData
            }
            // `Stopped` is not `Interrupted`: callers repeat a call that returns that.
            BucketError::Settings(_)
            | BucketError::Changed
            | BucketError::Failed(_)
            | BucketError::Stopped => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
