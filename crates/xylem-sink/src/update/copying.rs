//! [`Copier`]: a thread that reads proven blocks from old copies and verifies what it has read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_tree::{Anchor, Segment, UpdateBlocks, Verified};

use super::Nodes;
use super::search::{Old, OldPlace};

/// Most bytes of copied blocks that wait to be taken.
const WAITING: u64 = 16 << 20;

/// Outcome of copying a block.
pub(super) enum CopyOutcome {
    Block {
        block: u64,
        segments: Vec<Verified<Segment<Bytes>>>,
        nodes: Nodes,
    },
    /// The old copy no longer has these bytes there.
    Gone(u64),
}

struct CopyOrder {
    block: u64,
    place: OldPlace,
    anchor: Anchor,
}

/// The thread and its queues; see the module's own text.
pub(super) struct Copier {
    orders: Option<Sender<CopyOrder>>,
    copied: Option<Receiver<CopyOutcome>>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    pub(super) fn new(
        blocks: UpdateBlocks,
        copies: Arc<Vec<Box<dyn Old>>>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (orders, ordered) = mpsc::channel::<CopyOrder>();
        let room = (WAITING / blocks.block_len()).max(1) as usize;
        let (done, copied) = mpsc::sync_channel(room);
        let thread = thread::Builder::new().spawn(move || {
            for order in ordered {
                let copied = copy(&blocks, &copies, &order);
                if stop.load(Ordering::Relaxed) || done.send(copied).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { orders: Some(orders), copied: Some(copied), thread: Some(thread) })
    }

    /// Orders the copy of a block.
    pub(super) fn copy(&self, block: u64, place: OldPlace, anchor: Anchor) {
        if let Some(orders) = &self.orders {
            // The thread ends before its orders do only if it is stopped.
            let _ = orders.send(CopyOrder { block, place, anchor });
        }
    }

    /// Takes the next copied block, if there is one.
    pub(super) fn next(&self) -> Option<CopyOutcome> {
        self.copied.as_ref()?.try_recv().ok()
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.orders = None;
        self.copied = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn copy(blocks: &UpdateBlocks, copies: &[Box<dyn Old>], order: &CopyOrder) -> CopyOutcome {
    let gone = CopyOutcome::Gone(order.block);
    let range = blocks.range(order.block);
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let Some(old) = copies.get(order.place.copy as usize) else { return gone };
    if old.read(&mut bytes, order.place.offset) < bytes.len() {
        return gone;
    }
    let bytes = Bytes::from(bytes);
    let segment = blocks.geometry().segment_size().bytes();
    let pieces = (0..bytes.len()).step_by(segment);
    let pieces = pieces.map(|at| bytes.slice(at..bytes.len().min(at + segment))).collect();
    match order.anchor.contents(pieces) {
        Ok((segments, nodes)) => CopyOutcome::Block { block: order.block, segments, nodes },
        Err(_) => gone,
    }
}
