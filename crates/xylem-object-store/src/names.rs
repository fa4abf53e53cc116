//! Paths of a publication ↔ locations of an object store. A publication's paths are bytes; a [`Path`] is text without
//! some characters.

use object_store::path::{Path, PathPart};

/// The location of an entry's path. Components that a [`Path`] cannot have as they are, are percent-encoded.
pub(crate) fn location_of(path: &[u8]) -> Path {
    let plain = std::str::from_utf8(path).ok().and_then(|text| Path::parse(text).ok());
    let encoded = || path.split(|byte| *byte == b'/').map(PathPart::from).collect();
    plain.unwrap_or_else(encoded)
}

/// The paths that a location may stand for: itself, and decoded if that is another. A program may have encoded what it
/// need not ([`Path::from`]), so a path that is there as it is has precedence.
pub(crate) fn paths_of(location: &Path) -> Vec<Vec<u8>> {
    let plain = location.as_ref().as_bytes().to_vec();
    let decoded = decoded(&plain);
    match decoded != plain {
        true => vec![plain, decoded],
        false => vec![plain],
    }
}

/// Replaces each `%` with two hexadecimal digits by the byte that they stand for.
fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                // Each is below 16.
                bytes.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_found_by_its_location() {
        let paths: [&[u8]; 8] = [
            b"a/b.csv",
            "jahr/größe = 2 #1.csv".as_bytes(),
            b"100%/50%25",
            b"tab\there",
            b"\xff\xfe/x",
            b"a~b/[c]{d}",
            b"%41",
            b"trailing /.hidden",
        ];
        for path in paths {
            let encoded = path.split(|byte| *byte == b'/').map(PathPart::from).collect();
            for location in [location_of(path), encoded] {
                assert!(paths_of(&location).iter().any(|found| found == path), "{location}");
            }
        }
        assert_eq!(location_of(b"a/b.csv").as_ref(), "a/b.csv");
        assert_eq!(location_of(b"\xff").as_ref(), "%FF");
    }

    #[test]
    fn a_location_that_encodes_nothing_stands_for_one_path() {
        for text in ["a/b", "%", "%4", "%zz"] {
            assert_eq!(paths_of(&Path::parse(text).unwrap()), [text.as_bytes()]);
        }
    }
}
