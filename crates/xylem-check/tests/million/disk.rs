//! The fault of a run, and the disk that the next run finds.

use xylem_faults::{DiskFault, FaultMedium};
use xylem_sim::Rng;

use crate::counts::Counts;

pub(crate) const FAULTS: [DiskFault; 4] =
    [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full];

/// A defect planted in the harness, to check that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// Flushing to the device does nothing.
    NoSync,
    /// A kill loses what only a loss of power may lose.
    KillsLikePower,
    /// Tree nodes of partial files vanish between two runs.
    NodesVanish,
    /// A byte changes under a final name.
    NamedByte,
}

/// One fault, at one place of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strike {
    /// At a change of the disk, counted from the beginning of the run.
    Change(u64, DiskFault),
    /// At a read.
    Read(u64),
}

impl Strike {
    /// Chooses a random place among `steps` changes, or a read.
    pub(crate) fn anywhere(steps: u64, rng: &mut Rng) -> Self {
        match rng.below(6) {
            0 => Self::Read(rng.below(30)),
            _ => Self::Change(rng.below(steps + 1), FAULTS[rng.index(FAULTS.len())]),
        }
    }

    pub(crate) fn arm(self, medium: &FaultMedium) {
        match self {
            Self::Change(at, fault) => medium.fail_after(at, fault),
            Self::Read(at) => medium.fail_read_after(at),
        }
    }

    /// Returns whether all later operations fail too.
    pub(crate) fn is_the_end(self) -> bool {
        matches!(self, Self::Change(_, DiskFault::Dead | DiskFault::Torn))
    }

    /// Counts the fault if it occurred, and heals the disk; returns whether it occurred.
    pub(crate) fn settle(self, medium: &FaultMedium, counts: &mut Counts) -> bool {
        let struck = medium.has_failed();
        if struck {
            match self {
                Self::Change(_, fault) => counts.struck(fault),
                Self::Read(_) => counts.reads += 1,
            }
        }
        medium.heal();
        struck
    }
}

/// Event between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// The process ended in some way: every completed call has an effect.
    Process,
    /// The power was lost.
    Power,
}

/// Returns the disk that the next run finds.
pub(crate) fn next_disk(
    medium: &FaultMedium,
    between: Between,
    planted: Planted,
    seed: u64,
    counts: &mut Counts,
) -> FaultMedium {
    match between {
        Between::Process if planted == Planted::KillsLikePower => medium.power_cut(seed),
        Between::Process => medium.image(),
        Between::Power => {
            counts.power += 1;
            let image = medium.power_cut(seed);
            counts.taken_back += image.lost_changes();
            image
        }
    }
}
