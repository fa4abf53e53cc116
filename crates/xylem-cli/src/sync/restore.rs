//! `xylem sync DIR --restore PATH`: lists the kept versions of a path and of all below it, or puts one back.

use std::path::{Component, Path};

use serde::Serialize;
use xylem_base::{FileMedium, canonical, os_bytes, os_path};
use xylem_folder::{KeptVersion, OWN, Restored, kept_paths, kept_versions, restore};
use xylem_node::wall_clock;
use xylem_trust::{parse_utc, utc};

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::{bytes, clean};

/// Lists the versions of `PATH`. For `PATH@TIME` puts the version of then, or the newest before it, back; for a
/// directory all below it.
pub(super) fn run(folder: &Path, what: &str, out: &mut Out) -> Result<Exit, CommandFailure> {
    let folder = canonical(folder)?;
    let (path, at_ms) = match what.rsplit_once('@').map(|(path, time)| (path, time_of(time))) {
        Some((path, Some(at_ms))) => (path, Some(at_ms)),
        _ => (what, None),
    };
    let below = below(&folder, Path::new(path))?;
    let kept = FolderVersions { folder: &folder };
    let of_file = kept.versions(&below)?;
    let paths = match of_file.is_empty() {
        true => kept_paths(&FileMedium::default(), &folder, &below)
            .map_err(failed(&below))?
            .into_iter()
            .collect(),
        false => vec![below],
    };
    if paths.is_empty() {
        let what = format!("{path}: no version of it is kept here");
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let Some(at_ms) = at_ms else { return kept.list(&paths, path, out) };
    if of_file.is_empty() {
        kept.put_all(&paths, path, at_ms, out)
    } else {
        kept.put(&paths, at_ms, out)
    }
}

fn failed(path: &[u8]) -> impl Fn(std::io::Error) -> CommandFailure {
    let path = shown(path);
    move |e| CommandFailure::new(Exit::Local, format!("{path}: {e}"))
}

fn shown(path: &[u8]) -> String {
    os_path(path).to_string_lossy().into_owned()
}

/// The kept versions of a folder.
struct FolderVersions<'a> {
    folder: &'a Path,
}

impl FolderVersions<'_> {
    fn versions(&self, path: &[u8]) -> Result<Vec<KeptVersion>, CommandFailure> {
        kept_versions(&FileMedium::default(), self.folder, path).map_err(failed(path))
    }

    fn list(&self, paths: &[Vec<u8>], what: &str, out: &mut Out) -> Result<Exit, CommandFailure> {
        let mut newest = 0;
        for path in paths {
            for version in self.versions(path)? {
                newest = newest.max(version.since_ms);
                let (path, time) = (shown(path), utc(version.since_ms));
                if out.is_json() {
                    let at = version.at.to_string_lossy();
                    let bytes = version.bytes;
                    out.json(&KeptRow { path: &path, time: &time, bytes, at: &at })?;
                } else {
                    out.line(&clean(&format!("{time}  {:>10}  {path}", bytes(version.bytes))))?;
                }
            }
        }
        let puts = match paths {
            [_] => "restores that version",
            _ => "restores the files of that time that are missing now",
        };
        out.note(&clean(&format!("--restore {what}@{} {puts}", utc(newest))));
        Ok(Exit::Done)
    }

    /// Puts a version of a file back, whatever is there.
    fn put(&self, paths: &[Vec<u8>], at_ms: u64, out: &mut Out) -> Result<Exit, CommandFailure> {
        for path in paths {
            let versions = self.versions(path)?;
            let Some(version) = as_of(&versions, at_ms) else {
                let oldest = versions.last().map(|version| utc(version.since_ms));
                let what = format!(
                    "{}: no version of that time or before is kept; the oldest is {}",
                    shown(path),
                    oldest.unwrap_or_default()
                );
                return Err(CommandFailure::new(Exit::Usage, what));
            };
            if self.put_one(path, version, out)? == Restored::Occupied {
                let what = "something other than a file has this name now; move it away first";
                return Err(CommandFailure::new(Exit::Usage, format!("{}: {what}", shown(path))));
            }
        }
        Ok(Exit::Done)
    }

    /// Puts back the files below a directory that are missing there.
    fn put_all(
        &self,
        paths: &[Vec<u8>],
        what: &str,
        at_ms: u64,
        out: &mut Out,
    ) -> Result<Exit, CommandFailure> {
        let mut put = 0;
        for path in paths {
            let versions = self.versions(path)?;
            let is_there = self.folder.join(os_path(path)).symlink_metadata().is_ok();
            if let Some(version) = as_of(&versions, at_ms).filter(|_| !is_there)
                && self.put_one(path, version, out)? == Restored::Put
            {
                put += 1;
            }
        }
        if put == 0 {
            let what = format!(
                "{what}: nothing to restore: all paths with a version of that time or before exist"
            );
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        Ok(Exit::Done)
    }

    fn put_one(
        &self,
        path: &[u8],
        version: &KeptVersion,
        out: &mut Out,
    ) -> Result<Restored, CommandFailure> {
        let now_ms = wall_clock().milliseconds();
        let restored = restore(&FileMedium::default(), self.folder, path, version, now_ms)
            .map_err(failed(path))?;
        if restored == Restored::Occupied {
            return Ok(restored);
        }
        let (path, time, replaced) =
            (shown(path), utc(version.since_ms), restored == Restored::Replaced);
        out.json(&RestoredRow { path: &path, time: &time, bytes: version.bytes, replaced })?;
        let then = if replaced { "; the file that was there is kept as a version" } else { "" };
        out.note(&clean(&format!("Restored {path} of {time}{then}")));
        Ok(restored)
    }
}

/// The newest version at or before `at_ms`, to the second, as versions are listed.
fn as_of(versions: &[KeptVersion], at_ms: u64) -> Option<&KeptVersion> {
    versions.iter().find(|version| version.since_ms / 1_000 <= at_ms / 1_000)
}

/// Parses a time as it is listed (`20261124T023410`, UTC), or with separators between its parts.
fn time_of(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | ':' | 'Z')).collect();
    parse_utc(&plain)
}

/// A path below the folder, with `/` between its components; `path` is relative to the folder or absolute.
fn below(folder: &Path, path: &Path) -> Result<Vec<u8>, CommandFailure> {
    let path = path.strip_prefix(folder).unwrap_or(path);
    let mut whole = Vec::new();
    for component in path.components() {
        let Component::Normal(name) = component else {
            if component == Component::CurDir {
                continue;
            }
            let what =
                format!("{}: not below the folder; give a path such as a/b.jpg", path.display());
            return Err(CommandFailure::new(Exit::Usage, what));
        };
        if !whole.is_empty() {
            whole.push(b'/');
        }
        whole.extend_from_slice(&os_bytes(name));
    }
    let first = whole.split(|byte| *byte == b'/').next().unwrap_or_default();
    if first.eq_ignore_ascii_case(OWN.as_bytes()) {
        let what = format!("{}: no versions of files in {OWN} are kept", path.display());
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    Ok(whole)
}

/// Event: a version of a path.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_kept")]
struct KeptRow<'a> {
    path: &'a str,
    time: &'a str,
    bytes: u64,
    at: &'a str,
}

/// Event: a version that was put back.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_restored")]
struct RestoredRow<'a> {
    path: &'a str,
    time: &'a str,
    bytes: u64,
    replaced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let (path, time, bytes) = ("a", "20261124T023410", 1);
        assert_documented(&KeptRow { path, time, bytes, at: "b" });
        assert_documented(&RestoredRow { path, time, bytes, replaced: true });
    }

    #[test]
    fn restore_times_are_parsed_as_listed() {
        let ms = 1_795_487_650_000;
        assert_eq!(utc(ms), "20261124T023410");
        for text in ["20261124T023410", "2026-11-24T02:34:10Z", "2026-11-24T02:34:10"] {
            assert_eq!(time_of(text), Some(ms), "{text}");
        }
        for text in ["", "bob.example", "2026", "20261124T0234", "20261124T023460"] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }

    #[test]
    fn paths_are_below_the_folder() {
        let folder = Path::new("/f");
        let of = |path: &str| below(folder, Path::new(path)).map_err(|e| e.message);
        assert_eq!(of("a/b"), Ok(b"a/b".to_vec()));
        assert_eq!(of("./a//b"), Ok(b"a/b".to_vec()));
        assert_eq!(of("/f/a"), Ok(b"a".to_vec()));
        assert_eq!((of("."), of("/f")), (Ok(Vec::new()), Ok(Vec::new())));
        for wrong in ["..", "a/../../b", "/g/a", ".xylem-sync/index-0", ".XYLEM-sync"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
