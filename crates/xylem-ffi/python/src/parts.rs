//! `hash_part` and `merge_parts`: several machines compute one hash.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use xylem_hash::tree::Tree;
use xylem_hash::{Hash, Hasher};
use xylem_tree::parts::{
    AnyTree, Merged, MessagePart, PartMerger, PartMode, PartNode, lines, subtrees,
};

use crate::buffers::{self, BufferSource};
use crate::detached_if_long;
use crate::threads::HashThreads;

/// Bytes that one thread hashes at a time: whole subtrees wherever they begin.
const SHARE_LEN: u64 = 256 * 1024;

/// The mode of a hash, as for the class: plain, keyed or key-deriving.
struct HashMode {
    mode: PartMode,
    tree: Box<dyn AnyTree>,
    hasher: Box<Hasher>,
}

impl HashMode {
    fn of(key: Option<&Bound<'_, PyAny>>, context: Option<&str>) -> PyResult<Self> {
        let (mode, tree, hasher): (_, Box<dyn AnyTree>, _) = match (key, context) {
            (None, None) => (PartMode::Plain, Box::new(Tree::plain()), Hasher::new()),
            (Some(key), None) => {
                let key = buffers::key(key)?;
                (PartMode::Keyed, Box::new(Tree::keyed(&key)), Hasher::new_keyed(&key))
            }
            (None, Some(context)) => (
                PartMode::DeriveKey,
                Box::new(Tree::derive_key(context)),
                Hasher::new_derive_key(context),
            ),
            (Some(_), Some(_)) => {
                let what = "key and derive_key_context cannot be used together";
                return Err(PyValueError::new_err(what));
            }
        };
        Ok(Self { mode, tree, hasher: Box::new(hasher) })
    }
}

/// Returns the part of a hash that `merge_parts` needs, for the bytes of a message from byte `start` on. It is some
/// lines of text, at most two for each time that the bytes can be halved: those of `xylem sum --part`.
///
/// Arguments:
/// - data: the part's bytes. Any contiguous buffer. If they end in the middle of a chunk of 1024
///   bytes, nothing may follow them.
/// - start: where they begin in the message: a multiple of 1024.
/// - total: how many bytes the message has, if that is known. Without it a missing last part is not
///   noticed.
/// - key, derive_key_context: as for `blake3`; the lines do not contain them.
/// - max_threads: as for `blake3`.
#[pyfunction]
#[pyo3(signature = (
    data, /, start = 0, *,
    total = None, key = None, derive_key_context = None, max_threads = 1
))]
pub fn hash_part(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    start: u64,
    total: Option<u64>,
    key: Option<&Bound<'_, PyAny>>,
    derive_key_context: Option<&str>,
    max_threads: isize,
) -> PyResult<String> {
    let kind = HashMode::of(key, derive_key_context)?;
    let threads = HashThreads::at_most(max_threads)?;
    let source = BufferSource::of(data)?;
    let bytes = source.bytes()?;
    if let Some(total) = total
        && start.checked_add(bytes.len() as u64).is_none_or(|end| end > total)
    {
        return Err(PyValueError::new_err("the part ends behind the message"));
    }
    let tree = &*kind.tree;
    let nodes = detached_if_long(py, bytes.len(), || {
        threads.run(|several| nodes(tree, start, bytes, several))
    });
    let mut part = MessagePart::default();
    nodes?.into_iter().for_each(|node| part.push(tree, node));
    let own = || kind.hasher.clone().update(bytes).finalize();
    let lines = lines(kind.mode, total, &part, own);
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// The nodes over `bytes`. Splits them in halves while each half is worth a thread.
fn nodes(tree: &dyn AnyTree, start: u64, bytes: &[u8], several: bool) -> PyResult<Vec<PartNode>> {
    let len = bytes.len() as u64;
    if !several || len < 2 * SHARE_LEN {
        let nodes = subtrees(tree, start, bytes);
        return Ok(nodes.map_err(|error| PyValueError::new_err(error.to_string()))?.collect());
    }
    // Split where a large subtree begins.
    let middle = (start.saturating_add(len / 2)) / SHARE_LEN * SHARE_LEN;
    let (left, right) = bytes.split_at(middle.saturating_sub(start) as usize);
    let (left, right) = rayon_core::join(
        || nodes(tree, start, left, several),
        || nodes(tree, middle, right, several),
    );
    let (mut left, right) = (left?, right?);
    left.extend(right);
    Ok(left)
}

/// Returns the hash of the message whose parts these are, like `blake3(message).digest()`.
///
/// Arguments:
/// - parts: an iterable of texts that `hash_part` or `xylem sum --part` made, in any order. Some may
///   be there twice, as when a worker was lost and its part was hashed again.
/// - key, derive_key_context: those that the parts were made with. Others give another hash: the
///   lines do not contain them.
/// - length, seek: as for `blake3.digest`. For a message of at most 1024 bytes, 32 bytes at most.
///
/// Raises ValueError if a part is missing, contradicts another or is invalid.
#[pyfunction]
#[pyo3(signature = (
    parts, /, *,
    key = None, derive_key_context = None, length = 32, seek = 0
))]
pub fn merge_parts<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyAny>,
    key: Option<&Bound<'py, PyAny>>,
    derive_key_context: Option<&str>,
    length: usize,
    seek: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    if isize::try_from(length).is_err() || seek.checked_add(length as u64).is_none() {
        return Err(PyOverflowError::new_err("no output is so long"));
    }
    let kind = HashMode::of(key, derive_key_context)?;
    let mut whole = PartMerger::default();
    for (number, part) in parts.try_iter()?.enumerate() {
        let part: String = part?.extract()?;
        whole.add_text(&part).map_err(|(line, error)| {
            PyValueError::new_err(format!("part {number}, line {line}: {error}"))
        })?;
    }
    match whole.output(&*kind.tree, kind.mode) {
        Ok(Merged::Output(mut output)) => PyBytes::new_with(py, length, |out| {
            output.set_position(seek);
            output.fill(out);
            Ok(())
        }),
        Ok(Merged::Hash(hash)) => some_of(&hash, length, seek).map_or_else(
            || Err(PyValueError::new_err("a message of at most 1024 bytes: 32 bytes at most")),
            |bytes| Ok(PyBytes::new(py, bytes)),
        ),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

fn some_of(hash: &Hash, length: usize, seek: u64) -> Option<&[u8]> {
    let seek = usize::try_from(seek).ok()?;
    hash.as_bytes().get(seek..seek.checked_add(length)?)
}
