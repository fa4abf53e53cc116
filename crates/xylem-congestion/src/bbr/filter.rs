//! The largest of the recent values in constant space (windowed max, after Kathleen Nichols).

/// The maximum over `window` steps of an ascending clock: rounds, or probing cycles.
#[derive(Clone, Debug)]
pub(crate) struct MaxFilter {
    /// The three best values, in descending order and each later than the one before it, with their steps.
    best: [(u64, f64); 3],
}

impl MaxFilter {
    pub(crate) const fn new() -> Self {
        Self { best: [(0, 0.0); 3] }
    }

    pub(crate) fn get(&self) -> f64 {
        self.best[0].1
    }

    /// Adds `value` at step `at`; values older than `window` steps expire.
    pub(crate) fn update(&mut self, window: u64, at: u64, value: f64) {
        let new = (at, value);
        if value >= self.best[0].1 || at - self.best[2].0 > window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            (self.best[1], self.best[2]) = (new, new);
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        self.age(window, new);
    }

    fn age(&mut self, window: u64, new: (u64, f64)) {
        let since = new.0 - self.best[0].0;
        if since > window {
            self.best = [self.best[1], self.best[2], new];
            if new.0 - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && since > window / 4 {
            // A quarter of the window has no second best value: use the new one.
            (self.best[1], self.best[2]) = (new, new);
        } else if self.best[2].0 == self.best[1].0 && since > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a filter that keeps everything: never less than the best of the last quarter, and never an expired
    /// value.
    #[test]
    fn stays_between_the_recent_and_the_whole_window() {
        let mut rng = xylem_sim::Rng::new(7);
        let mut filter = MaxFilter::new();
        let mut all = Vec::new();
        for at in 0..2_000_u64 {
            let value = (rng.below(1_000) + 1) as f64;
            filter.update(10, at, value);
            all.push(value);
            let over = |n: usize| all.iter().rev().take(n).copied().fold(0.0, f64::max);
            assert!(filter.get() <= over(11), "at {at}");
            assert!(filter.get() >= over(3), "at {at}");
        }
        filter.update(10, 5_000, 3.0);
        assert_eq!(filter.get(), 3.0);
    }
}
