//! [`BucketPlace`]: a bucket and a key in it, written `s3://BUCKET/KEY`.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::error::BucketError;

/// Folder of the parts of a kept publication that are not content: versions, signatures, trees.
pub const PARTS: &str = ".xylem";
/// Scheme of a place.
const SCHEME: &str = "s3://";
/// First component of such a path.
const FIRST: &str = "s3:";
/// Longest key in S3, bytes.
pub(crate) const MAX_KEY: usize = 1024;

/// Returns whether a path names something in a bucket: `s3://` and anything.
#[must_use]
pub fn is_in_bucket(path: &Path) -> bool {
    path.components().next() == Some(Component::Normal(FIRST.as_ref()))
        && path.as_os_str().to_str().is_none_or(|text| text.starts_with(SCHEME))
}

/// A bucket and a key in it. An empty key is the whole bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BucketPlace {
    /// The bucket's name.
    pub bucket: String,
    /// Components of the key, joined by `/`; may be empty.
    pub key: String,
}

impl BucketPlace {
    /// Returns the place as a path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.to_string().into()
    }

    /// Returns the place `name` below this one.
    ///
    /// # Errors
    /// [`BucketError::NoPlace`]: the joined key is not valid.
    pub fn below(&self, name: &str) -> Result<Self, BucketError> {
        format!("{self}/{name}").parse()
    }

    /// Returns the place of the list of versions of a publication that is kept here.
    ///
    /// # Errors
    /// [`BucketError::NoPlace`]: the key would be too long.
    pub fn versions(&self) -> Result<Self, BucketError> {
        self.parts()?.below("versions")
    }

    /// Returns the place of the signatures and trees of all its versions.
    ///
    /// # Errors
    /// As [`BucketPlace::versions`].
    pub fn parts(&self) -> Result<Self, BucketError> {
        self.below(PARTS)
    }

    /// Parses a path.
    ///
    /// # Errors
    /// [`BucketError::NoPlace`].
    pub fn of(path: &Path) -> Result<Self, BucketError> {
        let name = || path.to_string_lossy().into_owned();
        let why = "it is not valid text";
        path.to_str().ok_or_else(|| BucketError::NoPlace { name: name(), why })?.parse()
    }
}

impl FromStr for BucketPlace {
    type Err = BucketError;

    /// Applies the bucket rules of old S3 buckets: 3 to 63 letters, digits, dots, hyphens and underscores. A key must
    /// be a path: no component is empty, `.` or `..`.
    fn from_str(text: &str) -> Result<Self, BucketError> {
        let wrong = |why| BucketError::NoPlace { name: text.escape_debug().to_string(), why };
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with s3://"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
            return Err(wrong("a bucket's name is 3 to 63 letters, digits, dots and hyphens"));
        }
        let key = key.strip_suffix('/').unwrap_or(key);
        if key.len() > MAX_KEY {
            return Err(wrong("a key has at most 1024 bytes"));
        }
        if key.chars().any(char::is_control) {
            return Err(wrong("the key has control characters"));
        }
        let odd = |part: &str| part.is_empty() || part == "." || part == "..";
        if !key.is_empty() && key.split('/').any(odd) {
            return Err(wrong("the key is not a valid path: a component is empty, . or .."));
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, key } = self;
        let slash = if key.is_empty() { "" } else { "/" };
        write!(f, "{SCHEME}{bucket}{slash}{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_parse_as_they_are_written() {
        for text in ["s3://abc", "s3://a.b-c/x", "s3://abc/x y/ü/=+&%", "s3://abc/a:b"] {
            let place: BucketPlace = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
            assert_eq!(BucketPlace::of(&place.path()).expect(text), place);
            assert!(is_in_bucket(&place.path()), "{text}");
        }
        assert_eq!("s3://abc/".parse::<BucketPlace>().expect("a bucket").key, "");
        assert_eq!("s3://abc/x/".parse::<BucketPlace>().expect("a folder").key, "x");
    }

    #[test]
    fn invalid_places_are_refused() {
        let long = format!("s3://abc/{}", "x".repeat(1025));
        for text in [
            "",
            "s3:",
            "s3://",
            "s3://a",
            "s3://a/b",
            "s3:///b",
            "s3://a b c/d",
            "s3://abc//d",
            "s3://abc/../d",
            "s3://abc/d/.",
            "s3://abc/a\nb",
            "S3://abc/d",
            "http://abc/d",
            "s3://ab\u{e9}/d",
            &long,
        ] {
            assert!(text.parse::<BucketPlace>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn paths_of_a_disk_are_in_no_bucket() {
        for path in ["s3", "s3:", "s3:/x", "./s3://abc", "/s3://abc", "a/s3://b", ""] {
            assert!(!is_in_bucket(Path::new(path)), "{path}");
        }
    }
}
