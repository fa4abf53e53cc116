//! `xylem sync DIR --restore PATH`: the versions of a path that are kept, and one of them put back.

use std::path::{Component, Path};

use serde::Serialize;
use xylem_library::folder::{KeptVersion, OWN, Restored, kept_versions, restore};
use xylem_library::{canonical, os_bytes};
use xylem_node::wall_clock;
use xylem_trust::{parse_utc, utc};

use crate::exit::{Exit, Failure};
use crate::output::Out;
use crate::output::text::{bytes, clean};

/// Lists the versions of `PATH`, or puts one back: that of `PATH@TIME`, or the newest before it.
pub(super) fn run(folder: &Path, what: &str, out: &mut Out) -> Result<Exit, Failure> {
    let folder = canonical(folder)?;
    let (path, at_ms) = match what.rsplit_once('@').map(|(path, time)| (path, time_of(time))) {
        Some((path, Some(at_ms))) => (path, Some(at_ms)),
        _ => (what, None),
    };
    let below = below(&folder, Path::new(path))?;
    let failed = |e: std::io::Error| Failure::new(Exit::Local, format!("{path}: {e}"));
    let versions = kept_versions(&folder, &below).map_err(failed)?;
    if versions.is_empty() {
        let what = format!("{path}: no version of it is kept here");
        return Err(Failure::new(Exit::Usage, what));
    }
    let Some(at_ms) = at_ms else { return list(path, &versions, out) };
    // Times are listed in seconds.
    let Some(version) = versions.iter().find(|version| version.since_ms / 1_000 <= at_ms / 1_000)
    else {
        let oldest = versions.last().map(|version| utc(version.since_ms)).unwrap_or_default();
        let what = format!("{path}: no version of then or before is kept; the oldest is {oldest}");
        return Err(Failure::new(Exit::Usage, what));
    };
    let restored =
        restore(&folder, &below, version, wall_clock().milliseconds()).map_err(failed)?;
    let replaced = match restored {
        Restored::Put => false,
        Restored::Replaced => true,
        Restored::Occupied => {
            let what = format!(
                "{path}: there is no file of that name, but something else; move it away first"
            );
            return Err(Failure::new(Exit::Usage, what));
        }
    };
    let time = utc(version.since_ms);
    out.json(&RestoredRow { path, time: &time, bytes: version.bytes, replaced })?;
    let then = if replaced { "; what was there is a version now" } else { "" };
    out.note(&clean(&format!("{path} is that of {time} again{then}")));
    Ok(Exit::Done)
}

fn list(path: &str, versions: &[KeptVersion], out: &mut Out) -> Result<Exit, Failure> {
    for version in versions {
        let time = utc(version.since_ms);
        if out.is_json() {
            let at = version.at.to_string_lossy();
            out.json(&KeptRow { path, time: &time, bytes: version.bytes, at: &at })?;
        } else {
            out.line(&clean(&format!("{time}  {:>10}  {path}", bytes(version.bytes))))?;
        }
    }
    let newest = versions.first().map(|version| utc(version.since_ms)).unwrap_or_default();
    out.note(&clean(&format!("--restore {path}@{newest} puts that one back")));
    Ok(Exit::Done)
}

/// A time as it is listed (`20261124T023410`, UTC), or with what people put between its parts.
fn time_of(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | ':' | 'Z')).collect();
    parse_utc(&plain)
}

/// A path below the folder, with `/` between its components: as it is there, or from the root on.
fn below(folder: &Path, path: &Path) -> Result<Vec<u8>, Failure> {
    let path = path.strip_prefix(folder).unwrap_or(path);
    let mut whole = Vec::new();
    for component in path.components() {
        let Component::Normal(name) = component else {
            if component == Component::CurDir {
                continue;
            }
            let what = format!("{}: name it by its path below the folder", path.display());
            return Err(Failure::new(Exit::Usage, what));
        };
        if !whole.is_empty() {
            whole.push(b'/');
        }
        whole.extend_from_slice(&os_bytes(name));
    }
    let first = whole.split(|byte| *byte == b'/').next().unwrap_or_default();
    if whole.is_empty() || first.eq_ignore_ascii_case(OWN.as_bytes()) {
        let what = format!("{}: no versions of that are kept", path.display());
        return Err(Failure::new(Exit::Usage, what));
    }
    Ok(whole)
}

/// A version of a path.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_kept")]
struct KeptRow<'a> {
    path: &'a str,
    time: &'a str,
    bytes: u64,
    at: &'a str,
}

/// A version that was put back.
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
    fn times_are_those_that_are_listed() {
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
        for wrong in ["", "/f", "..", "a/../../b", "/g/a", ".xylem-sync/index-0", ".XYLEM-sync"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
