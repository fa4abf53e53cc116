//! [`race`]: runs contenders in turn, in short slices, many rounds; the results are medians.
//!
//! A machine's clock, neighbours and caches change from second to second, but for all contenders. Slices of a
//! millisecond or two, in an order that changes from round to round, expose every contender to the same conditions. The
//! median drops disturbances of single slices.

use std::hint::black_box;
use std::time::{Duration, Instant};

use xylem_hash::set_platform;

/// The result of a contender's run, padded with zeros to 32 bytes; compared, never shown.
pub type Answer = [u8; 32];

/// One contender of a race.
pub struct Contender<'a> {
    name: String,
    /// Contenders with the same function have to give the same answer.
    function: &'static str,
    /// The backend of xylem-hash during this contender's slices.
    backend: Option<&'static str>,
    slice: Box<dyn FnMut(u64) -> Answer + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender with `work` as its run, an implementation of `function`.
    pub fn new(
        name: impl Into<String>,
        function: &'static str,
        mut work: impl FnMut() -> Answer + 'a,
    ) -> Self {
        // One call through the box for a whole slice: only the work is timed, inlined here.
        let slice = move |runs| {
            let mut answer = [0; 32];
            for _ in 0..runs {
                answer = black_box(work());
            }
            answer
        };
        Self { name: name.into(), function, backend: None, slice: Box::new(slice) }
    }

    /// The same with xylem-hash on this backend.
    #[must_use]
    pub fn on(mut self, backend: &'static str) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Its name in a table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Performs this many runs; returns their total time, and the last one's answer.
    pub fn run(&mut self, runs: u64) -> (Duration, Answer) {
        if let Some(backend) = self.backend {
            set_platform(backend);
        }
        let start = Instant::now();
        let answer = (self.slice)(runs);
        (start.elapsed(), answer)
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time of one slice; a longer run makes a slice of its own.
    pub slice: Duration,
    /// Time for each contender of a race, within the limits of rounds.
    pub each: Duration,
    /// Minimum number of rounds.
    pub fewest: usize,
    /// Maximum number of rounds.
    pub most: usize,
    /// Inputs longer than this are left out, in bytes.
    pub longest: usize,
}

impl Effort {
    /// All rows of all tables in under four minutes.
    pub const FULL: Self = Self {
        slice: Duration::from_millis(2),
        each: Duration::from_millis(200),
        fewest: 7,
        most: 101,
        longest: usize::MAX,
    };

    /// All rows of all tables in some twenty seconds.
    pub const QUICK: Self = Self {
        slice: Duration::from_micros(500),
        each: Duration::from_millis(10),
        fewest: 3,
        most: 41,
        longest: usize::MAX,
    };

    /// Every contender once, on inputs of up to 4 MiB: checks that they run and agree, not their speed.
    pub const ONCE: Self =
        Self { slice: Duration::ZERO, each: Duration::ZERO, fewest: 1, most: 1, longest: 4 << 20 };
}

/// The result of a race for one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The contender's name.
    pub name: String,
    /// Median time of one run, in nanoseconds.
    pub median: f64,
    /// Distance of the quartiles divided by the median, a measure of noise.
    pub spread: f64,
    /// Number of timed slices.
    pub rounds: usize,
}

/// Two contenders with the same function and different results.
#[derive(Debug, PartialEq, Eq)]
pub struct Differ {
    /// The earlier one.
    pub one: String,
    /// The later one.
    pub other: String,
}

/// Races the contenders; returns timings in their order.
///
/// # Errors
/// [`Differ`], before anything is timed.
pub fn race(contenders: &mut [Contender<'_>], effort: Effort) -> Result<Vec<Timing>, Differ> {
    agree(contenders)?;
    let runs: Vec<u64> = contenders.iter_mut().map(|c| runs_per_slice(c, effort.slice)).collect();
    let mut samples = vec![Vec::new(); contenders.len()];
    let together = effort.each * u32::try_from(contenders.len()).unwrap_or(u32::MAX);
    let start = Instant::now();
    for round in 0.. {
        let over = start.elapsed() >= together;
        if round >= effort.most || (round >= effort.fewest && over) {
            break;
        }
        for at in order(contenders.len(), round) {
            // An untimed eighth of a slice first, for this contender's caches and branch predictors, and for the clock,
            // which wide vectors may lower.
            contenders[at].run(runs[at] / 8);
            let (time, _) = contenders[at].run(runs[at]);
            samples[at].push(time.as_nanos() as f64 / runs[at] as f64);
        }
    }
    let timing = |(contender, mut samples): (&Contender<'_>, Vec<f64>)| {
        let [low, median, high] = quartiles(&mut samples);
        let spread = if median > 0.0 { (high - low) / median } else { 0.0 };
        Timing { name: contender.name.clone(), median, spread, rounds: samples.len() }
    };
    Ok(contenders.iter().zip(samples).map(timing).collect())
}

/// Runs each contender once and compares the answers.
fn agree(contenders: &mut [Contender<'_>]) -> Result<(), Differ> {
    let mut seen: Vec<(&str, &str, Answer)> = Vec::new();
    for contender in contenders {
        let (_, answer) = contender.run(1);
        let same = seen.iter().find(|(function, ..)| *function == contender.function);
        match same {
            Some((_, name, known)) if *known != answer => {
                return Err(Differ { one: (*name).to_owned(), other: contender.name.clone() });
            }
            Some(_) => {}
            None => seen.push((contender.function, &contender.name, answer)),
        }
    }
    Ok(())
}

/// How many runs take about `slice`; at least one.
fn runs_per_slice(contender: &mut Contender<'_>, slice: Duration) -> u64 {
    let mut runs = 1;
    loop {
        let (time, _) = contender.run(runs);
        if time * 4 >= slice {
            let each = time.as_nanos().max(1) / u128::from(runs);
            return u64::try_from(slice.as_nanos() / each.max(1)).unwrap_or(u64::MAX).max(1);
        }
        runs *= 2;
    }
}

/// The order of contenders in a round: the start moves on by one and the direction reverses with every round.
fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    let place = move |i: usize| if round.is_multiple_of(2) { i } else { count - 1 - i };
    (0..count).map(move |i| place((i + round / 2) % count))
}

/// First quartile, median and third quartile; sorts the samples. Zeros if there are none.
fn quartiles(samples: &mut [f64]) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let Some(last) = samples.len().checked_sub(1) else { return 0.0 };
        let place = share * last as f64;
        let (below, above) = (samples[place.floor() as usize], samples[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    [quantile(0.25), quantile(0.5), quantile(0.75)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn quartiles_of_few_and_many() {
        assert_eq!(quartiles(&mut []), [0.0; 3]);
        assert_eq!(quartiles(&mut [5.0]), [5.0; 3]);
        assert_eq!(quartiles(&mut [4.0, 1.0]), [1.75, 2.5, 3.25]);
        assert_eq!(quartiles(&mut [9.0, 1.0, 2.0]), [1.5, 2.0, 5.5]);
        assert_eq!(quartiles(&mut [5.0, 3.0, 1.0, 2.0, 1_000.0]), [2.0, 3.0, 5.0]);
    }

    #[test]
    fn each_contender_has_one_turn_a_round_in_changing_order() {
        for count in 1..5 {
            let mut firsts = Vec::new();
            for round in 0..2 * count {
                let mut turns: Vec<usize> = order(count, round).collect();
                firsts.push(turns[0]);
                turns.sort_unstable();
                assert_eq!(turns, (0..count).collect::<Vec<_>>());
            }
            for contender in 0..count {
                assert_eq!(firsts.iter().filter(|first| **first == contender).count(), 2);
            }
        }
    }

    #[test]
    fn all_contenders_are_timed_equally_often() {
        let effort = Effort { fewest: 4, most: 4, ..Effort::ONCE };
        let ran = Cell::new(0);
        let mut contenders = [
            Contender::new("a", "f", || {
                ran.set(ran.get() + 1);
                [7; 32]
            }),
            Contender::new("b", "f", || [7; 32]),
            Contender::new("c", "g", || [9; 32]),
        ];
        let timings = race(&mut contenders, effort).unwrap();
        assert!(timings.iter().all(|timing| timing.rounds == 4));
        assert_eq!(timings.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        // Once for the comparison, once to find the slice, four rounds of one run.
        assert_eq!(ran.get(), 6);
    }

    #[test]
    fn contenders_that_differ_are_not_timed() {
        let mut contenders =
            [Contender::new("a", "f", || [1; 32]), Contender::new("b", "f", || [2; 32])];
        let differ = Differ { one: "a".into(), other: "b".into() };
        assert_eq!(race(&mut contenders, Effort::ONCE), Err(differ));
    }

    #[test]
    fn slices_hold_as_many_runs_as_fit() {
        let mut slow = Contender::new("slow", "f", || {
            std::thread::sleep(Duration::from_millis(2));
            [0; 32]
        });
        assert_eq!(runs_per_slice(&mut slow, Duration::from_millis(2)), 1);
        // A sleep is never shorter than requested, so five can not fit into four.
        assert!(runs_per_slice(&mut slow, Duration::from_millis(8)) <= 4);
    }
}
