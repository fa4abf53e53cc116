//! Counts of faults and runs.

use std::fmt;
use std::ops::AddAssign;

use xylem_faults::DiskFault;

/// Faults that occurred, by kind, and outcomes of the runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Runs of the code under test, with or without a fault.
    pub(crate) runs: u64,
    /// Runs that completed.
    pub(crate) done: u64,
    /// The process was killed between two changes of the disk.
    pub(crate) kills: u64,
    /// The process was killed in the middle of a write.
    pub(crate) torn: u64,
    /// One change of the disk failed, and later ones worked.
    pub(crate) errors: u64,
    /// The disk was full from one change on.
    pub(crate) full: u64,
    /// One read failed.
    pub(crate) reads: u64,
    /// The power was lost.
    pub(crate) power: u64,
    /// A byte left by an earlier run was changed before the next one.
    pub(crate) flips: u64,
    /// Packets that differ from those of an honest peer.
    pub(crate) lies: u64,
    /// Interests that a peer deliberately refused or left without an answer.
    pub(crate) silences: u64,
    /// Not counted as faults: packets that the network lost, duplicated or reordered.
    pub(crate) packets: u64,
    /// Not counted as faults: pages and names that a loss of power reverted or tore.
    pub(crate) taken_back: u64,
    /// Results found damaged after a loss of power without `--fsync`, as documented.
    pub(crate) not_synced: u64,
}

impl Counts {
    /// Returns the faults of the disk and ends of the process.
    pub(crate) fn of_disk(&self) -> u64 {
        let Self { kills, torn, errors, full, reads, power, flips, .. } = self;
        kills + torn + errors + full + reads + power + flips
    }

    /// Returns all faults.
    pub(crate) fn faults(&self) -> u64 {
        self.of_disk() + self.lies + self.silences
    }

    pub(crate) fn struck(&mut self, fault: DiskFault) {
        *match fault {
            DiskFault::Dead => &mut self.kills,
            DiskFault::Torn => &mut self.torn,
            DiskFault::Once => &mut self.errors,
            DiskFault::Full => &mut self.full,
        } += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.done += other.done;
        self.kills += other.kills;
        self.torn += other.torn;
        self.errors += other.errors;
        self.full += other.full;
        self.reads += other.reads;
        self.power += other.power;
        self.flips += other.flips;
        self.lies += other.lies;
        self.silences += other.silences;
        self.packets += other.packets;
        self.taken_back += other.taken_back;
        self.not_synced += other.not_synced;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults                    {:>10}", self.faults())?;
        writeln!(f, "  killed between writes   {:>10}", self.kills)?;
        writeln!(f, "  killed within a write   {:>10}", self.torn)?;
        writeln!(f, "  power lost              {:>10}", self.power)?;
        writeln!(f, "  a change failed         {:>10}", self.errors)?;
        writeln!(f, "  the disk was full       {:>10}", self.full)?;
        writeln!(f, "  a read failed           {:>10}", self.reads)?;
        writeln!(f, "  a byte changed          {:>10}", self.flips)?;
        writeln!(f, "  lies of peers           {:>10}", self.lies)?;
        writeln!(f, "  no answer, or refused   {:>10}", self.silences)?;
        writeln!(f, "beside these:")?;
        writeln!(f, "  pages and names undone  {:>10}", self.taken_back)?;
        writeln!(f, "  packets mistreated      {:>10}", self.packets)?;
        writeln!(f, "runs                      {:>10}, {} to their end", self.runs, self.done)?;
        write!(f, "spoiled without --fsync   {:>10}, by losses of power", self.not_synced)
    }
}
