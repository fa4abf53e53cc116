//! [`PieceMap`]: shows which parts of a fetch are here. [`ProgressSnapshot`]: that, and the peers that it uses.
//!
//! It is for display alone: the store has the authoritative state. A result is cut into at most [`CELLS`] cells, each
//! with a count of its proven bytes.

use xylem_link::LinkStats;
use xylem_object::ObjectId;
use xylem_peers::reachable::FaceAddress;
use xylem_transfer::PeerStats;

/// Most cells.
pub const CELLS: u64 = 512;
/// Least size of a cell, bytes: one block.
const LEAST: u64 = 16 * 1024;
/// Most files of a directory with a known place. With more files, progress fills the cells in order.
const MAX_FILES: usize = 4096;

/// Cells of one fetch; see the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct PieceMap {
    /// Offset in the object at which the fetched range begins.
    begins: u64,
    /// Files of a directory in listing order: number and offset.
    files: Vec<(u64, u64)>,
    is_directory: bool,
    /// Proven bytes of each cell.
    cells: Vec<u64>,
}

impl PieceMap {
    /// Sets the offset in the object at which the fetched range begins.
    pub(crate) fn begin_at(&mut self, start: u64) {
        self.begins = start;
    }

    /// Adds the next file of a directory, which begins at `start`.
    pub(crate) fn file(&mut self, number: u64, start: u64) {
        self.is_directory = true;
        if self.files.len() <= MAX_FILES {
            self.files.push((number, start));
        }
    }

    /// Records that `len` bytes of an object from `start` on are proven. `total`: size of the whole result, 0 if
    /// unknown.
    pub(crate) fn add(&mut self, total: u64, object: ObjectId, start: u64, len: u64) {
        let start = match object {
            ObjectId::Root if !self.is_directory => start.saturating_sub(self.begins),
            ObjectId::File(number) if self.files.len() <= MAX_FILES => {
                match self.files.binary_search_by_key(&number, |(number, _)| *number) {
                    Ok(at) => self.files[at].1.saturating_add(start),
                    Err(_) => return,
                }
            }
            _ => return,
        };
        let Some(size) = cell_size(total) else { return };
        self.cells.resize(total.div_ceil(size) as usize, 0);
        let end = start.saturating_add(len).min(total);
        let mut at = start;
        while at < end {
            let next = ((at / size + 1).saturating_mul(size)).min(end);
            if let Some(cell) = self.cells.get_mut((at / size) as usize) {
                *cell = cell.saturating_add(next - at);
            }
            at = next;
        }
    }

    /// Returns a digit for each cell: from 0, nothing is here, to 9, all is. Bytes in `verified` without a known place,
    /// such as those found in an old copy, are shown at the front.
    pub fn digits(&self, total: u64, verified: u64) -> String {
        let Some(size) = cell_size(total) else { return String::new() };
        let count = total.div_ceil(size);
        let capacity = |cell: u64| size.min(total - cell * size);
        let placed = |cell: u64| {
            let bytes = self.cells.get(cell as usize).copied().unwrap_or(0);
            bytes.min(capacity(cell))
        };
        let mut elsewhere = verified.saturating_sub((0..count).map(placed).sum());
        let mut digit = |cell: u64| {
            let more = (capacity(cell) - placed(cell)).min(elsewhere);
            elsewhere -= more;
            match (placed(cell) + more, capacity(cell)) {
                (0, _) => 0,
                (all, most) if all == most => 9,
                (some, most) => (u128::from(some) * 9 / u128::from(most)).clamp(1, 8) as u8,
            }
        };
        (0..count).map(|cell| char::from(b'0' + digit(cell))).collect()
    }
}

/// Returns the size of a cell; `None` if there is nothing to show.
fn cell_size(total: u64) -> Option<u64> {
    (total > 0).then(|| total.div_ceil(CELLS).max(LEAST))
}

/// State of a fetch at one moment, for display.
#[derive(Clone, Debug, Default)]
pub struct ProgressSnapshot {
    /// As [`PieceMap::digits`] writes them.
    pub pieces: String,
    /// The peers that are asked.
    pub peers: Vec<PeerPicture>,
}

/// One peer of a fetch.
#[derive(Clone, Debug)]
pub struct PeerPicture {
    /// Its address.
    pub peer: FaceAddress,
    /// Requests sent to it and data received from it.
    pub stats: PeerStats,
    /// Its encrypted link.
    pub link: Option<LinkStats>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_file_fills_where_its_segments_come() {
        let mut pieces = PieceMap::default();
        assert_eq!(pieces.digits(0, 0), "");
        assert_eq!(pieces.digits(1, 0), "0");
        assert_eq!(pieces.digits(1, 1), "9");
        let total = 10 * LEAST;
        pieces.add(total, ObjectId::Root, 3 * LEAST, LEAST / 2);
        pieces.add(total, ObjectId::Root, 5 * LEAST, LEAST);
        assert_eq!(pieces.digits(total, LEAST + LEAST / 2), "0004090000");
        // Bytes without a place were found elsewhere.
        assert_eq!(pieces.digits(total, 3 * LEAST), "9404090000");
        pieces.add(total, ObjectId::Sums, 0, LEAST);
        pieces.add(total, ObjectId::File(0), 0, LEAST);
        assert_eq!(pieces.digits(total, 0), "0004090000", "of other objects");
        // The same bytes again, and bytes past the end.
        pieces.add(total, ObjectId::Root, 5 * LEAST, u64::MAX);
        assert_eq!(pieces.digits(total, 0), "0004099999");
    }

    #[test]
    fn cells_are_bounded_and_span_segments() {
        let mut pieces = PieceMap::default();
        let total = 100 * 1024 * MIB + 1;
        pieces.begin_at(7 * MIB);
        pieces.add(total, ObjectId::Root, 7 * MIB, 64 * 1024);
        let digits = pieces.digits(total, 0);
        assert!(digits.len() as u64 <= CELLS && digits.starts_with('1'), "{digits}");
        pieces.add(total, ObjectId::Root, 0, u64::MAX);
        assert!(pieces.digits(total, total).bytes().all(|digit| digit == b'9'));
        assert_eq!(PieceMap::default().digits(u64::MAX, 1).len() as u64, CELLS);
    }

    #[test]
    fn files_of_a_directory_have_places() {
        let mut pieces = PieceMap::default();
        let total = 4 * LEAST;
        pieces.file(2, 0);
        pieces.file(5, 3 * LEAST);
        pieces.add(total, ObjectId::Root, 0, LEAST);
        pieces.add(total, ObjectId::File(5), 0, LEAST);
        pieces.add(total, ObjectId::File(3), 0, LEAST);
        assert_eq!(pieces.digits(total, 0), "0009");
        for number in 6..10_000 {
            pieces.file(number, 0);
        }
        pieces.add(total, ObjectId::File(2), 0, LEAST);
        assert_eq!(pieces.digits(total, 2 * LEAST), "9009", "too many: in order");
        assert!(pieces.files.len() <= MAX_FILES + 1);
    }
}
