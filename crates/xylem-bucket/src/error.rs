//! [`BucketError`]: why a bucket could not be asked.

use std::io;

/// Longest line that a server's own words may take in an error.
const SAID: usize = 240;

/// Why something of a bucket can't be named, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// Not of the form `s3://BUCKET/KEY`.
    #[error("{name}: {why}; expected s3://BUCKET/KEY")]
    NoPlace {
        /// What was said instead.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody has said who asks.
    #[error(
        "no credentials for buckets: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile of \
         ~/.aws/credentials in AWS_PROFILE, or set AWS_SKIP_SIGNATURE=true for what everybody may read"
    )]
    NoCredentials,
    /// The settings do not fit together, or the file with them can't be read.
    #[error("buckets: {0}")]
    Settings(String),
    /// Nothing is there.
    #[error("there is no such object or bucket")]
    NotThere,
    /// The store does not let us.
    #[error("the store refuses it to these credentials")]
    Refused,
    /// It is not what it was when it was looked at first.
    #[error("it is not what it was: the object was replaced meanwhile")]
    Changed,
    /// A publication is kept at this place, and not all of it is there.
    #[error("{0}")]
    Incomplete(String),
    /// What is at this place is larger than anything that it can be.
    #[error("it is larger than anything that can stand there")]
    TooLarge,
    /// A list that the store goes on with for ever.
    #[error("the store's list of what is there has no end: {0}")]
    Endless(&'static str),
    /// Fewer bytes came than were asked for, several times.
    #[error("answers were cut short")]
    Short,
    /// Whoever asks was told to end.
    #[error("interrupted")]
    Stopped,
    /// The store has failed, or was not reached, for as long as it was asked.
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
            // Said of a list, where the library looks at no code.
            other if other.to_string().contains("<Code>NoSuchBucket</Code>") => Self::NotThere,
            other => Self::Failed(line(&other)),
        }
    }
}

/// The innermost reason in one short line: the outer ones repeat it, with what was tried.
fn line(error: &dyn std::error::Error) -> String {
    let whole = error.to_string();
    let mut said = String::new();
    for word in whole.split_whitespace() {
        if said.len() + word.len() >= SAID {
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
            // Not `Interrupted`, after which all would ask again.
            BucketError::Settings(_)
            | BucketError::Changed
            | BucketError::Failed(_)
            | BucketError::Stopped => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
