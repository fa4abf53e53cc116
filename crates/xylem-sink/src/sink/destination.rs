//! [`Destination`]: the names of a result.

use std::path::{Path, PathBuf};

use xylem_base::{disk, os_path};
use xylem_files::ours::part_name;
use xylem_files::{Existing, Output, SaveOptions, SpaceCheck};
use xylem_object::{Manifest, PublicationKind, naming};
use xylem_packet::NameRef;
use xylem_packet::tlv::types;
use xylem_store::{Medium, OverwritePolicy, name_around};

use super::error::SaveError;

/// The final name and the name of the partial data beside it.
pub struct Destination {
    /// The final name.
    pub path: PathBuf,
    /// The name until it is complete, in the same directory.
    pub part: PathBuf,
    /// Treatment of an existing file of the final name.
    pub policy: OverwritePolicy,
}

impl Destination {
    /// Chooses the final name; `None` for standard output.
    ///
    /// # Errors
    /// [`SaveError::NotAName`], [`SaveError::NoDirectory`].
    pub fn choose(options: &SaveOptions, manifest: &Manifest) -> Result<Option<Self>, SaveError> {
        let suggested = || {
            let name = suggested_name(manifest);
            match options.range {
                None => name,
                Some((start, end)) => {
                    fragment(name, start, end.map_or(manifest.size, |end| end.min(manifest.size)))
                }
            }
        };
        Self::place(&options.output, options.existing, suggested)
    }

    /// Like [`Destination::choose`], with a name suggested by the caller. Creates the directory that it goes into, but
    /// none above that.
    ///
    /// # Errors
    /// As there.
    pub fn place(
        output: &Output,
        existing: Existing,
        suggested: impl FnOnce() -> PathBuf,
    ) -> Result<Option<Self>, SaveError> {
        let mut path = match output {
            Output::Stdout => return Ok(None),
            Output::At(path) => path.clone(),
            Output::Into(directory) => directory.join(suggested()),
        };
        if existing == Existing::Rename {
            path = free_name(path);
        }
        let name = path.file_name().ok_or_else(|| SaveError::NotAName(path.clone()))?;
        let part = path.with_file_name(part_name(name));
        let policy = match existing {
            Existing::Overwrite => OverwritePolicy::Replace,
            _ => OverwritePolicy::Never,
        };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty())
            && !parent.is_dir()
            && !(matches!(output, Output::Into(_)) && disk().create_dir(parent, 0o777).is_ok())
        {
            return Err(SaveError::NoDirectory(parent.to_path_buf()));
        }
        Ok(Some(Self { path, part, policy }))
    }
}

/// Refuses a fetch to a disk without room for it. Quotas are not considered.
pub(super) fn require_room(
    medium: &dyn Medium,
    part: &Path,
    needs: u64,
    room: SpaceCheck,
) -> Result<(), SaveError> {
    let above = part.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    // If the free room is unknown, the fetch is attempted.
    match medium.free_bytes(above).ok().flatten().filter(|free| *free < needs) {
        Some(room_is) if room == SpaceCheck::ForAll => {
            Err(SaveError::NoRoom { path: above.to_path_buf(), needs, room: room_is })
        }
        _ => Ok(()),
    }
}

/// Returns the publisher's file name, which the manifest's check has made a plain component.
fn suggested_name(manifest: &Manifest) -> PathBuf {
    if manifest.file_name.is_empty() {
        let kind = if manifest.kind == PublicationKind::Directory { "directory" } else { "file" };
        return PathBuf::from(format!("xylem-{kind}-{}", &manifest.root.to_string()[..16]));
    }
    os_path(&manifest.file_name)
}

/// Names a part of a file `NAME.START-END.part`, END exclusive; never the file's own name.
fn fragment(name: PathBuf, start: u64, end: u64) -> PathBuf {
    name_around("", name.as_os_str(), &format!(".{start}-{end}.part")).into()
}

/// Returns the first free one of `path`, `path.1`, `path.2`, …
fn free_name(path: PathBuf) -> PathBuf {
    let taken = |p: &Path| disk().metadata(p).is_ok();
    let Some(name) = path.file_name() else { return path };
    let numbered = (1_u32..).map(|n| path.with_file_name(name_around("", name, &format!(".{n}"))));
    let mut candidates = std::iter::once(path.clone()).chain(numbered);
    candidates.find(|p| !taken(p)).unwrap_or_else(|| path.clone())
}

/// Makes a file name of the last generic component of an NDN name.
#[must_use]
pub fn file_name_of(name: NameRef<'_>) -> PathBuf {
    let said = name.iter().filter(|c| c.typ() == types::GENERIC_COMPONENT).last();
    let text = said.map(|c| String::from_utf8_lossy(c.value()).into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_control() || matches!(c, '/' | '\\' | ':') { '_' } else { c };
    let mut kept: String = text.chars().map(plain).collect();
    while kept.len() > naming::MAX_DEFAULT_FILE_NAME {
        kept.pop();
    }
    // The name is neither hidden nor leads out of the directory.
    let kept = kept.trim_start_matches('.');
    os_path(if kept.is_empty() { "object" } else { kept }.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Name;

    #[test]
    fn ndn_names_become_safe_file_names() {
        for (name, file) in [
            ("/a/report.pdf", "report.pdf"),
            ("/a/report.pdf/v=7", "report.pdf"),
            ("/a/b/32=metadata", "b"),
            ("/a/8=..%2F..%2Fetc", "_.._etc"),
            ("/a/.bashrc", "bashrc"),
            ("/v=7", "object"),
            ("/a/%00x%0a", "_x_"),
        ] {
            let name: Name = name.parse().unwrap();
            assert_eq!(file_name_of(name.as_ref()), PathBuf::from(file));
        }
        let long: Name = format!("/{}", "é".repeat(300)).parse().unwrap();
        assert!(file_name_of(long.as_ref()).as_os_str().len() <= naming::MAX_DEFAULT_FILE_NAME);
    }
}
