//! Moves a new thread to an idle processor. Linux may start it on the processor where its parent runs, though another
//! is idle, and the two then take turns for milliseconds (docs/explanation/hash.md, "xylem sum").

/// The processor that a thread runs on.
#[derive(Clone, Copy)]
pub(super) struct Processor {
    #[cfg(target_os = "linux")]
    number: usize,
}

impl Processor {
    pub(super) fn this() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            number: rustix::thread::sched_getcpu(),
        }
    }

    /// Moves the calling thread to another processor if it runs on this one.
    #[cfg(target_os = "linux")]
    pub(super) fn leave(self) {
        use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
        if sched_getcpu() != self.number {
            return;
        }
        let Ok(allowed) = sched_getaffinity(None) else { return };
        if let Some(others) = without(allowed, self.number)
            && sched_setaffinity(None, &others).is_ok()
        {
            let _ = sched_setaffinity(None, &allowed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn leave(self) {}
}

/// The other processors that a thread may run on; `None` if there is none, as when the user has allowed one only.
#[cfg(target_os = "linux")]
fn without(
    mut allowed: rustix::thread::CpuSet,
    processor: usize,
) -> Option<rustix::thread::CpuSet> {
    // An index beyond the set's length panics.
    if processor >= rustix::thread::CpuSet::MAX_CPU {
        return None;
    }
    allowed.unset(processor);
    (allowed.count() > 0).then_some(allowed)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    fn set(processors: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        set
    }

    #[test]
    fn a_leaving_thread_may_use_the_other_processors() {
        assert_eq!(without(set(&[0, 3, 1023]), 3), Some(set(&[0, 1023])));
        assert_eq!(without(set(&[0, 3]), 7), Some(set(&[0, 3])));
        assert_eq!(without(set(&[3]), 3), None);
        assert_eq!(without(set(&[0, 3]), 1024), None);
    }

    #[test]
    fn leaving_a_processor_keeps_the_affinity() {
        let Ok(allowed) = sched_getaffinity(None) else { return };
        Processor::this().leave();
        assert_eq!(sched_getaffinity(None).expect("as before"), allowed);
        // A thread with one processor, as under `taskset`.
        let one = set(&[sched_getcpu()]);
        sched_setaffinity(None, &one).expect("it is one of those allowed");
        Processor::this().leave();
        assert_eq!(sched_getaffinity(None).expect("as before"), one);
    }
}
