//! Whether time depends on data: Welch's t-test between two classes of input, after dudect
//! (Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! Each subject runs many times on inputs of two classes, in random order: one fixed input, and
//! another that is special in what could leak (equal against unequal hashes, zeros against random
//! bytes, letters against digits). Were the time of one class other than that of the other, |t|
//! would grow with the number of measurements, without bound. |t| below 4.5 is what dudect calls no
//! evidence of a leak; a positive control, which does leak, shows that the test can see one.
//!
//! Nothing is asserted: timings on a shared machine are evidence for a reader, not for a test.
//!
//! ```text
//! cargo run --release -p xylem-hash --example constant_time [MEASUREMENTS]
//! ```

use std::hint::black_box;
use std::time::Instant;

use xylem_hash::{Hash, Hasher, keyed_hash};
use xylem_sim::Rng;

const INPUT: usize = 4_096;

/// One thing to be timed, on one of two prepared inputs.
struct Subject {
    name: &'static str,
    /// Calls that are timed together, so that a measurement is well above the clock's step.
    calls: u32,
    classes: [Vec<u8>; 2],
    run: fn(&[u8]),
}

/// Mean and variance, kept as values come in (Welford).
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

/// The t of all measurements below each of some percentiles: interrupts and other guests of the
/// machine make a few measurements long, and they would drown a small difference.
fn measure(subject: &Subject, count: usize, rng: &mut Rng) -> Vec<(f64, f64)> {
    let mut times: Vec<(usize, f64)> = Vec::with_capacity(count);
    // Both classes through the same buffer, so that its place in memory is no difference.
    let mut input = vec![0; subject.classes[0].len()];
    for _ in 0..count {
        let class = (rng.next_u64() >> 63) as usize;
        input.copy_from_slice(&subject.classes[class]);
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
        (share, welch(&classes))
    };
    [0.5, 0.8, 0.95, 0.99, 1.0].map(below).to_vec()
}

fn subjects(rng: &mut Rng) -> Vec<Subject> {
    let one = rng.bytes(32);
    let (mut first, mut last) = (one.clone(), one.clone());
    first[0] ^= 1;
    last[31] ^= 0x80;
    let pair = |other: &[u8]| [&one[..], other].concat();
    let hex = |digits: &[u8]| -> Vec<u8> { digits.iter().copied().cycle().take(64).collect() };
    let (zeros, noise) = (vec![0; INPUT], rng.bytes(INPUT));
    let compare = |bytes: &[u8]| {
        let (left, right) = bytes.split_at(32);
        let [left, right] = [left, right].map(|b| Hash::from_slice(b).expect("32 bytes"));
        black_box(left == right);
    };
    let keyed = |message: &[u8]| {
        black_box(keyed_hash(&[0x42; 32], message));
    };
    let keys = |key: &[u8]| {
        let key = key.try_into().expect("32 bytes");
        black_box(Hasher::new_keyed(key).update(&[7; 300]).finalize());
    };
    vec![
        Subject {
            name: "control, leaks: slices with ==, first byte differs | last byte differs",
            calls: 64,
            classes: [pair(&first), pair(&last)],
            run: |bytes| {
                // Byte by byte with an early end, as a careless comparison is.
                let (left, right) = bytes.split_at(32);
                black_box(left.iter().zip(right).all(|(l, r)| black_box(*l) == *r));
            },
        },
        Subject {
            name: "Hash ==, equal | first byte differs",
            calls: 64,
            classes: [pair(&one), pair(&first)],
            run: compare,
        },
        Subject {
            name: "Hash ==, first | last byte differs",
            calls: 64,
            classes: [pair(&first), pair(&last)],
            run: compare,
        },
        Subject {
            name: "Hash::to_hex, zeros | random",
            calls: 32,
            classes: [vec![0; 32], one.clone()],
            run: |bytes| {
                black_box(Hash::from_slice(bytes).expect("32 bytes").to_hex());
            },
        },
        Subject {
            name: "Hash::from_hex, digits | letters of both cases",
            calls: 32,
            classes: [hex(b"0123456789"), hex(b"abcdefABCDEF")],
            run: |text| {
                black_box(Hash::from_hex(text).is_ok());
            },
        },
        Subject {
            name: "keyed_hash of 64 B, zeros | random",
            calls: 16,
            classes: [zeros[..64].to_vec(), noise[..64].to_vec()],
            run: keyed,
        },
        Subject {
            name: "keyed_hash of 4 KiB, zeros | random",
            calls: 1,
            classes: [zeros, noise],
            run: keyed,
        },
        Subject {
            name: "keyed Hasher, key of zeros | random",
            calls: 4,
            classes: [vec![0; 32], one],
            run: keys,
        },
    ]
}

fn main() {
    let count = std::env::args().nth(1).map_or(200_000, |n| n.parse().expect("a number"));
    // The order of classes must not be one that a processor could foresee.
    let mut rng = Rng::new(1);
    println!(
        "{count} measurements each on {}; |t| < 4.5: no evidence of a leak",
        xylem_hash::platform()
    );
    println!("t of the fastest 50 %, 80 %, 95 %, 99 %, all:");
    for subject in subjects(&mut rng) {
        // Caches and clock speed settle.
        measure(&subject, count / 20 + 2, &mut rng);
        let t: Vec<String> =
            measure(&subject, count, &mut rng).iter().map(|(_, t)| format!("{t:8.2}")).collect();
        println!("{}  {}", t.join(" "), subject.name);
    }
}
