//! What will be read of a file, asked for before it is.

use std::fs::File;
use std::ops::Range;

/// Bytes that are asked for ahead of who reads a file in order: what disks need to be at work all the time.
const AHEAD: u64 = 16 << 20;

/// What to ask for when `range` is read of a file of `size` bytes, in ranges of one length and in order: all
/// of the file is asked for once, the first of it together with what comes after.
pub(crate) fn ahead_of(range: &Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let len = range.end.saturating_sub(range.start).max(1);
    let end = range.end.saturating_add(AHEAD);
    let start = if range.start == 0 { 0 } else { end.saturating_sub(len) };
    // One read brings all of a file that is no longer.
    let end = if range.start == 0 && range.end >= size { 0 } else { end.min(size) };
    (start..end).step_by(usize::try_from(len).unwrap_or(usize::MAX)).map(move |start| {
        let end = start.saturating_add(len);
        start..end.min(size)
    })
}

/// Has the system bring this range of a file into memory if it is not there yet; returns at once, and what
/// is wrong with the file is for reading it to say.
///
/// Asking for what is in memory costs a tenth of hashing it, so one byte is looked at first. File systems
/// that can't tell whether that would wait are memory themselves, or keep nothing there.
#[cfg(target_os = "linux")]
pub fn will_read(file: &File, range: Range<u64>) {
    use rustix::fs::{Advice, SeekFrom, fadvise, seek};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let Some(last) = range.end.checked_sub(1) else { return };
    let mut byte = [0];
    let bytes = &mut [std::io::IoSliceMut::new(&mut byte)];
    if preadv2(file, bytes, last, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN) {
        return;
    }
    // Zeros of a hole would fill the cache. This moves the handle's cursor, which nothing here uses.
    let start = match seek(file, SeekFrom::Data(range.start)) {
        Err(Errno::NXIO) => return,
        start => start.unwrap_or(range.start),
    };
    let len = range.end.checked_sub(start).and_then(std::num::NonZeroU64::new);
    let _ = len.map(|len| fadvise(file, start, Some(len), Advice::WillNeed));
}

/// Nothing: this system is not asked.
#[cfg(not(target_os = "linux"))]
pub fn will_read(_: &File, _: Range<u64>) {}

#[cfg(test)]
mod ahead_tests {
    use super::*;

    #[test]
    fn all_of_a_file_is_asked_for_once_and_before_it_is_read() {
        let region = 4_u64 << 20;
        for size in [region + 1, 2 * region, 5 * region, 5 * region + 7, 40 * region - 1] {
            let mut asked = 0;
            for start in (0..size).step_by(region as usize) {
                let range = start..(start + region).min(size);
                // A last range that is shorter asks for what is behind the end.
                for ahead in ahead_of(&range, size) {
                    assert_eq!(ahead.start, asked, "{range:?} of {size}");
                    asked = ahead.end;
                }
                assert!(asked >= (range.end + AHEAD).min(size), "{range:?} of {size}: {asked}");
            }
            assert_eq!(asked, size);
        }
    }

    #[test]
    fn of_a_file_that_one_read_brings_nothing_is_asked_for() {
        for (range, size) in [(0..0, 0), (0..1, 1), (0..5, 5), (0..7, 3)] {
            assert_eq!(ahead_of(&range, size).count(), 0, "{range:?} of {size}");
        }
        assert!(ahead_of(&(u64::MAX - 5..u64::MAX), u64::MAX).count() < 2, "no sum is too large");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{IoSliceMut, Write};
    use std::time::Duration;

    use rustix::fs::{Advice, fadvise};
    use rustix::io::{ReadWriteFlags, preadv2};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_there(file: &File, at: u64) -> bool {
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT).is_ok()
    }

    #[test]
    fn data_are_brought_into_memory_and_holes_are_not() {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        file.write_all(&vec![1; 2 * MIB as usize]).expect("and written");
        file.set_len(6 * MIB).expect("and made longer");
        file.sync_all().expect("and reaches the disk");
        fadvise(&file, 0, None, Advice::DontNeed).expect("and is let go");
        if is_there(&file, 2 * MIB - 1) || is_there(&file, 5 * MIB) {
            eprintln!("the temporary directory is in memory, or does not tell; SKIPPED");
            return;
        }
        will_read(&file, 4 * MIB..5 * MIB);
        will_read(&file, 0..2 * MIB);
        // Who waits for a disk may wait long; what is not asked for never comes.
        let came = (0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_there(&file, MIB) && is_there(&file, 2 * MIB - 1)
        });
        assert!(came);
        assert!(!is_there(&file, 5 * MIB - 1));
    }

    #[test]
    fn what_cannot_be_is_asked_for_without_harm() {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        file.write_all(b"short").expect("and written");
        for range in [0..0, 0..u64::MAX, 5..6, u64::MAX - 1..u64::MAX] {
            will_read(&file, range);
        }
    }
}
