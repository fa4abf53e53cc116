//! Compares values of the GPU with those of the processor.

use xylem_gpu::{GpuBuffer, GpuBytes, GpuError, GpuLevel, GpuPending, REGION_LEN, SEGMENT_LEN};
use xylem_hash::tree::{ChainingValue, chunk_group_cvs};

/// Bytes of random content.
pub(crate) fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).expect("random bytes");
    bytes
}

fn expected(bytes: &[u8], level: GpuLevel, first_chunk: u64) -> Vec<ChainingValue> {
    let mut values = Vec::new();
    chunk_group_cvs(bytes, level.bytes() as usize, first_chunk, &mut values);
    values
}

/// Compares values at all alignments, several lengths and several places in a file. Returns the number of comparisons.
pub(crate) fn check() -> Result<u32, GpuError> {
    let content = random(21 << 20);
    let mut buffer = GpuBuffer::new(content.len() as u64)?;
    buffer.write(0, &content)?;
    let mut compared = 0;
    let mut compare = |offset: u64, count: u64, first_chunk: u64, level: GpuLevel| {
        let len = count * level.bytes();
        // The memory may begin anywhere, and the bytes anywhere in it.
        let before = offset / 3;
        let address = buffer.address() + before;
        let memory = GpuBytes::new(address, offset - before + len, GpuPending::Nothing)?;
        let mut values = vec![ChainingValue::from_bytes([0xA5; 32])];
        memory.values(offset - before, len, first_chunk, level, &mut values)?;
        let bytes = &content[offset as usize..][..len as usize];
        let same = values[1..] == expected(bytes, level, first_chunk);
        assert!(same, "{level:?}: {count} from byte {offset}, chunk {first_chunk}");
        compared += 1;
        Ok::<(), GpuError>(())
    };
    for offset in 0..32 {
        compare(offset, 1, 0, GpuLevel::Segments)?;
        compare(offset, 33, 8, GpuLevel::Segments)?;
        compare(offset, 1, 4_096, GpuLevel::Regions)?;
    }
    for count in [2, 3, 31, 32, 63, 64, 65, 511, 512, 513, 2_559] {
        for first_chunk in [0, 8 * 5, (1 << 32) - 8, 1 << 40] {
            for offset in [0, 1, 4, 6, 8, 15, 16, 4_097] {
                compare(offset, count, first_chunk, GpuLevel::Segments)?;
            }
        }
    }
    for count in 1..=5 {
        for offset in [0, 13, 64] {
            compare(offset, count, 1 << 42, GpuLevel::Regions)?;
        }
    }
    assert_eq!((SEGMENT_LEN, REGION_LEN), (8 << 10, 4 << 20));

    let memory = GpuBytes::new(buffer.address() + 3, 100_000, GpuPending::Work)?;
    let mut part = vec![0; 5_000];
    memory.read(77, &mut part)?;
    assert_eq!(part, content[80..5_080]);
    let range =
        |offset, len, first| memory.values(offset, len, first, GpuLevel::Segments, &mut Vec::new());
    assert!(matches!(range(0, SEGMENT_LEN - 1, 0), Err(GpuError::OutOfRange { .. })));
    assert!(matches!(range(92_000, SEGMENT_LEN, 0), Err(GpuError::OutOfRange { .. })));
    assert!(matches!(range(u64::MAX, SEGMENT_LEN, 0), Err(GpuError::OutOfRange { .. })));
    assert!(matches!(range(0, SEGMENT_LEN, 3), Err(GpuError::OutOfRange { .. })));
    assert!(memory.read(99_999, &mut [0; 2]).is_err());

    let foreign = GpuBytes::new(content.as_ptr() as u64, 1, GpuPending::Nothing);
    assert!(matches!(foreign, Err(GpuError::NotThere { .. })));
    let longer = GpuBytes::new(buffer.address(), 1 << 45, GpuPending::Nothing);
    assert!(matches!(longer, Err(GpuError::NotThere { .. })));
    let wraps = GpuBytes::new(u64::MAX, 2, GpuPending::Nothing);
    assert!(matches!(wraps, Err(GpuError::NotThere { .. })));
    Ok(compared)
}
