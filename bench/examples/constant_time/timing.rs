//! The t-test.

use std::hint::black_box;
use std::time::Instant;

use xylem_sim::Rng;

use super::subjects::{Subject, all, timed_only};

/// Mean and variance, updated with each value (Welford).
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    fn variance_of_mean(&self) -> f64 {
        self.squares / (self.count - 1.0) / self.count
    }
}

fn welch(classes: &[Moments; 2]) -> f64 {
    let [a, b] = classes;
    (a.mean - b.mean) / (a.variance_of_mean() + b.variance_of_mean()).sqrt()
}

/// The t of all measurements below each of some percentiles. Interrupts and other guests of the machine make a few
/// measurements long, which would hide a small difference.
fn measure(subject: &Subject, count: usize, rng: &mut Rng) -> Vec<f64> {
    let mut times: Vec<(usize, f64)> = Vec::with_capacity(count);
    // Both classes use the same buffer, so that its address makes no difference.
    let mut input = subject.classes[0][0].clone();
    for _ in 0..count {
        // The order of classes must be unpredictable for the processor.
        let drawn = rng.next_u64();
        let class = (drawn >> 63) as usize;
        let inputs = &subject.classes[class];
        input.copy_from_slice(&inputs[drawn as usize % inputs.len()]);
        let start = Instant::now();
        for _ in 0..subject.calls {
            (subject.run)(black_box(&input));
        }
        times.push((class, start.elapsed().as_nanos() as f64));
    }
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let below = |share: f64| {
        let limit = sorted[((sorted.len() - 1) as f64 * share) as usize];
        let mut classes = [Moments::default(); 2];
        for (class, time) in times.iter().filter(|(_, time)| *time <= limit) {
            classes[*class].add(*time);
        }
        welch(&classes)
    };
    [0.5, 0.8, 0.95, 0.99, 1.0].map(below).to_vec()
}

/// Measures and prints the results.
pub(crate) fn run(count: usize) {
    println!(
        "{count} measurements each on {}; |t| < 4.5: no evidence of a leak",
        xylem_hash::platform()
    );
    println!("t of the fastest 50 %, 80 %, 95 %, 99 %, all:");
    let mut rng = Rng::new(1);
    for subject in all().into_iter().chain(timed_only()) {
        // Lets caches and clock speed settle.
        measure(&subject, count / 20 + 2, &mut rng);
        let t = measure(&subject, count, &mut rng);
        let t: Vec<String> = t.iter().map(|t| format!("{t:8.2}")).collect();
        println!("{}  {}", t.join(" "), subject.name);
    }
}
