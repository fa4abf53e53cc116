//! Where a new thread begins. Linux may put it on the processor on which the one that started it is at work, though
//! another is idle, and the two take turns for milliseconds (docs/benchmark-log.md, "xylem sum").

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

    /// Goes on elsewhere where the calling thread runs on this one.
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

/// The other processors that a thread may run on; `None` if there is none, as where the user gave it one.
#[cfg(target_os = "linux")]
fn without(
    mut allowed: rustix::thread::CpuSet,
    processor: usize,
) -> Option<rustix::thread::CpuSet> {
    // Beyond its length a set panics.
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
    fn who_leaves_a_processor_goes_to_the_others_that_it_may_run_on() {
        assert_eq!(without(set(&[0, 3, 1023]), 3), Some(set(&[0, 1023])));
        assert_eq!(without(set(&[0, 3]), 7), Some(set(&[0, 3])));
        assert_eq!(without(set(&[3]), 3), None);
        assert_eq!(without(set(&[0, 3]), 1024), None);
    }

    #[test]
    fn who_leaves_a_processor_may_run_where_it_could_before() {
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
