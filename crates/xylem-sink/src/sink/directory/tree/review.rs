//! Reviews the files on disk: those that an earlier run finished, and all of them before the directory gets its name,
//! since other programs may have changed them meanwhile.

use xylem_files::Listed;
use xylem_object::listing::EntryKind;
use xylem_store::{FileKind, FileTime, Meta, SmallFile};

use super::{StagedTree, entry_attributes, small};
use crate::sink::directory::WantedKinds;
use crate::sink::error::SaveError;

/// Most reviews of files that other programs change meanwhile.
const MAX_REVIEWS: u32 = 3;

impl StagedTree {
    /// Returns which entries of a batch are small files that an earlier run finished.
    pub(super) fn intact(&mut self, batch: &[Listed]) -> Result<Vec<bool>, SaveError> {
        let mut intact = vec![false; batch.len()];
        if self.staging.was_resumed() {
            let (places, files): (Vec<usize>, Vec<SmallFile<'_>>) = batch
                .iter()
                .enumerate()
                .filter_map(|(at, listed)| Some((at, small(&listed.entry)?)))
                .unzip();
            // Attributes are set first: an earlier run may have been killed before it set them, and a change during the
            // read then shows in the times.
            let mut set = Vec::with_capacity(places.len());
            for at in &places {
                let entry = &batch[*at].entry;
                set.push(
                    self.staging.set_attributes(&entry.path, &entry_attributes(entry)).is_ok(),
                );
            }
            let right = self.staging.intact(&files)?;
            for ((at, right), set) in places.into_iter().zip(right).zip(set) {
                intact[at] = right && set;
            }
        }
        Ok(intact)
    }

    /// Returns whether all files are as written, looked up by name. If another program has changed or replaced one, all
    /// files are treated like the rest of an earlier run: hashed, and fetched where they are wrong.
    pub(super) fn is_as_written(&mut self) -> Result<bool, SaveError> {
        let mut kinds = WantedKinds::new(&self.listed, &self.exclude, self.merge.as_ref());
        let mut wanted = self.listed.entries().filter(|found| match found {
            Ok(Listed { entry, number, .. }) => {
                let file = matches!(entry.kind, EntryKind::File { .. });
                let kept = self.merge.as_ref().is_some_and(|merge| merge.keeps(*number));
                file && !kept && !self.exclude.leaves_out(entry)
            }
            Err(_) => true,
        });
        // Both are in listing order: the first mismatch shows a change.
        let (mut odd, mut other_time) = (false, None);
        let mut stays = |path: &[u8], meta: &Meta| {
            if odd || meta.kind != FileKind::File {
                return;
            }
            let Some(Ok(Listed { entry, .. })) = wanted.next() else {
                odd = true;
                return;
            };
            let EntryKind::File { size, .. } = entry.kind else { return };
            odd = entry.path != path || meta.size != size;
            let time = FileTime { secs: entry.mtime_s, nanos: entry.mtime_ns };
            if !odd && meta.mtime != time && other_time.is_none() {
                other_time = Some((entry.path, time));
            }
        };
        self.staging.review(&mut |path| kinds.of(path), &mut stays)?;
        odd |= wanted.next().transpose()?.is_some();
        drop(wanted);
        if !odd && let Some((path, time)) = other_time {
            // Some file systems do not store such times, or not so exactly.
            odd = self.staging.keeps_mtime(&path, time)?;
        }
        if !odd {
            return Ok(true);
        }
        self.reviews += 1;
        if self.reviews == MAX_REVIEWS {
            return Err(SaveError::ChangedMeanwhile(self.staging.path().to_path_buf()));
        }
        self.next = Some(self.listed.entries());
        Ok(false)
    }
}
