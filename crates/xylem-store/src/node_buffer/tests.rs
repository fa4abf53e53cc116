use std::io;
use std::sync::{Arc, Mutex};

use super::*;
use crate::medium::{FileTime, MediumFile, Meta};

/// A file in memory that counts its writes.
#[derive(Default)]
struct Memory {
    bytes: Mutex<Vec<u8>>,
    writes: Mutex<u64>,
    /// Whether the next write fails.
    fails: Mutex<bool>,
}

impl MediumFile for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        *self.writes.lock().unwrap() += 1;
        if std::mem::take(&mut *self.fails.lock().unwrap()) {
            return Err(io::Error::other("the disk failed"));
        }
        let (mut bytes, end) = (self.bytes.lock().unwrap(), offset as usize + buf.len());
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[offset as usize..end].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn set_len(&self, _size: u64) -> io::Result<()> {
        unimplemented!("a node buffer only reads and writes")
    }

    fn metadata(&self) -> io::Result<Meta> {
        unimplemented!("a node buffer only reads and writes")
    }

    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        unimplemented!("a node buffer only reads and writes")
    }

    fn set_mtime(&self, _mtime: FileTime) -> io::Result<()> {
        unimplemented!("a node buffer only reads and writes")
    }

    fn sync(&self) -> io::Result<()> {
        unimplemented!("a node buffer only reads and writes")
    }

    fn try_lock(&self) -> io::Result<bool> {
        unimplemented!("a node buffer only reads and writes")
    }
}

fn file() -> (Arc<Memory>, FileRef) {
    let memory = Arc::new(Memory::default());
    (memory.clone(), FileRef::new(memory, "/nodes"))
}

fn node(slot: u64) -> Vec<u8> {
    slot.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(4)
}

fn assert_holds(file: &FileRef, slots: impl IntoIterator<Item = u64>, what: &str) {
    for slot in slots {
        let mut there = [0; NODE_LEN];
        assert_eq!(file.read_full(&mut there, slot * 32).unwrap(), 32, "{what}");
        assert!(there[..] == node(slot), "{what}: slot {slot}");
    }
}

/// Every node is written to its slot in any order. Slots of other writers stay as they are.
#[test]
fn random_nodes_land_where_they_belong() {
    let mut rng = xylem_sim::Rng::new(1);
    let mut random = |n: u64| rng.below(n);
    for round in 0..60 {
        let (_, file) = file();
        let mut buffer =
            if round % 2 == 0 { NodeBuffer::bridging() } else { NodeBuffer::default() };
        // Left by an earlier run.
        let old: Vec<u64> = (0..40).map(|_| random(2_000)).collect();
        for slot in &old {
            file.write_all(&node(*slot), slot * 32).unwrap();
        }
        let mut pushed = Vec::new();
        for _ in 0..random(400) {
            let (slot, count) = (random(2_000), 1 + random(if round % 3 == 0 { 200 } else { 3 }));
            let nodes: Vec<u8> = (slot..slot + count).flat_map(node).collect();
            buffer.push(slot, &nodes);
            pushed.extend(slot..slot + count);
            if random(10) == 0 || buffer.is_full() {
                buffer.write(&file).unwrap();
                assert_holds(&file, pushed.iter().copied(), "written");
            }
        }
        buffer.write(&file).unwrap();
        assert_holds(&file, pushed.iter().chain(&old).copied(), "at the end");
    }
}

/// A tile's nodes, every eighth slot of 2,048; then the seven in each gap.
#[test]
fn a_tile_and_its_gaps_take_few_writes() {
    let (memory, file) = file();
    let steps = || *memory.writes.lock().unwrap();
    let mut buffer = NodeBuffer::bridging();
    let tile: Vec<u64> = (0..256).map(|n| 8 * n + 3).collect();
    tile.iter().for_each(|slot| buffer.push(*slot, &node(*slot)));
    let before = steps();
    buffer.write(&file).unwrap();
    assert!(steps() - before <= 1 + 16, "one write, and at most a read for each block");
    assert_holds(&file, tile.iter().copied(), "tile");
    for run in 0..4 {
        let before = steps();
        for slot in (512 * run..512 * (run + 1)).filter(|slot| slot % 8 != 3) {
            buffer.push(slot, &node(slot));
        }
        buffer.write(&file).unwrap();
        assert_eq!(steps() - before, 1, "run {run}");
    }
    assert_holds(&file, 0..2_048, "all");
}

#[test]
fn a_failed_write_is_repeated() {
    let (memory, file) = file();
    let mut buffer = NodeBuffer::bridging();
    [5, 7, 300, 9_000].into_iter().for_each(|slot| buffer.push(slot, &node(slot)));
    *memory.fails.lock().unwrap() = true;
    while buffer.write(&file).is_err() {}
    assert_holds(&file, [5, 7, 300, 9_000], "second time");
}
