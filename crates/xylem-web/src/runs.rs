//! [`OpenRuns`]: joins adjacent segments to one write.

/// Maximum bytes of one write: large enough that a call into the browser costs little beside it.
const MAX_RUN: usize = 256 << 10;
/// Number of runs that are open at once: several peers bring several parts of a file.
const OPEN: usize = 8;

/// Proven bytes at their place.
#[derive(Debug, PartialEq, Eq)]
pub struct ProvenRun {
    /// Offset of the first byte among all files' bytes.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Runs that may still grow; the one that grew last is at the end.
#[derive(Debug, Default)]
pub struct OpenRuns {
    open: Vec<ProvenRun>,
}

impl OpenRuns {
    /// Adds a segment; returns a run that will not grow any more.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) -> Option<ProvenRun> {
        let follows = |run: &ProvenRun| run.offset + run.bytes.len() as u64 == offset;
        let mut run = match self.open.iter().position(follows) {
            Some(at) => self.open.remove(at),
            None => ProvenRun { offset, bytes: Vec::with_capacity(MAX_RUN) },
        };
        run.bytes.extend_from_slice(bytes);
        if run.bytes.len() >= MAX_RUN {
            return Some(run);
        }
        self.open.push(run);
        (self.open.len() > OPEN).then(|| self.open.remove(0))
    }

    /// Removes the oldest open run.
    pub fn take(&mut self) -> Option<ProvenRun> {
        (!self.open.is_empty()).then(|| self.open.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_grow_side_by_side_and_nothing_is_lost() {
        let mut runs = OpenRuns::default();
        let mut out = vec![0u8; 2 << 20];
        let mut put = |run: ProvenRun| {
            out[run.offset as usize..][..run.bytes.len()].copy_from_slice(&run.bytes)
        };
        let mut writes = 0;
        for i in 0..128u64 {
            for at in [i * 8192, (1 << 20) + i * 8192] {
                if let Some(run) = runs.add(at, &[i as u8 + 1; 8192]) {
                    writes += 1;
                    put(run);
                }
            }
        }
        std::iter::from_fn(|| runs.take()).for_each(&mut put);
        assert_eq!(writes, 2 * (1 << 20) / MAX_RUN);
        assert!(out.chunks(8192).enumerate().all(|(i, c)| c == [(i % 128) as u8 + 1; 8192]));
    }

    #[test]
    fn scattered_segments_are_bounded() {
        let mut runs = OpenRuns::default();
        let given = (0..100u64).filter_map(|i| runs.add(i * 100_000, b"x")).count();
        assert_eq!(given, 100 - OPEN);
    }
}
