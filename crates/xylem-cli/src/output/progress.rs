//! Progress of long work on standard error: a bar on a terminal, else a plain line now and then.

use super::log;
use super::text::{bytes, count, duration, rate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tracing::Level;

use ProgressPhase::Serving;

/// Plain lines come at most this often.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The rate is an average over this time: a stall shows soon, and the figures do not jump.
const WINDOW: Duration = Duration::from_secs(5);

/// A longer remaining time is unknown: nearly nothing comes.
const MAX_ETA: Duration = Duration::from_secs(1_000 * 3_600);

/// Shortest time between two samples of the window, which bounds their number.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// The kind of work whose progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressPhase {
    /// Reading and hashing on this machine.
    Hashing,
    /// Fetching from peers.
    Fetching,
    /// Sending to getters.
    Serving,
}

/// The form in which progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressForm {
    /// It is not shown.
    Hidden,
    /// A line now and then, for logs.
    Lines,
    /// A bar that is drawn again and again, on a terminal.
    Bar,
}

/// Shows the progress of a run, or nothing.
pub(crate) struct ProgressDisplay {
    form: ProgressForm,
    /// Makes the target that a bar is drawn on.
    screen: Box<dyn Fn() -> ProgressDrawTarget + Send>,
    work: Option<PhaseProgress>,
}

/// The phase in progress.
struct PhaseProgress {
    meter: RateMeter,
    /// The bar, on a terminal.
    bar: Option<ProgressBar>,
    /// Without a bar: when the last line was written, or the phase began.
    last_line: Instant,
}

impl ProgressDisplay {
    /// Nothing is drawn before the first [`Self::update`].
    pub(crate) fn new(form: ProgressForm) -> Self {
        Self { form, screen: Box::new(ProgressDrawTarget::stderr), work: None }
    }

    /// Whether progress is shown as a bar and not as lines.
    pub(crate) fn draws_bars(&self) -> bool {
        self.form == ProgressForm::Bar
    }

    /// Shows that `done` of `total` bytes (0 if unknown) have come from `peers` peers, `relayed` of them through a
    /// relay.
    pub(crate) fn update_from(&mut self, done: u64, total: u64, peers: usize, relayed: usize) {
        if let Some(work) = &mut self.work {
            work.meter.relayed = relayed;
        }
        self.update(ProgressPhase::Fetching, done, total, peers);
    }

    /// Shows that `done` of `total` bytes (0 if unknown) are done.
    pub(crate) fn update(&mut self, phase: ProgressPhase, done: u64, total: u64, peers: usize) {
        if self.form == ProgressForm::Hidden {
            return;
        }
        let now = Instant::now();
        if self.work.as_ref().is_none_or(|work| work.meter.phase != phase) {
            self.clear();
            let bar = self.draws_bars().then(|| {
                let bar = ProgressBar::with_draw_target(Some(total), (self.screen)());
                bar.with_style(style(phase))
            });
            self.work = Some(PhaseProgress { meter: RateMeter::new(phase), bar, last_line: now });
        }
        let Some(work) = &mut self.work else { return };
        work.meter.add(now, done);
        if let Some(bar) = &work.bar {
            bar.set_length(total.max(done).max(1));
            bar.set_position(done);
            bar.set_prefix(work.meter.so_far(total));
            bar.set_message(work.meter.speed(total, peers));
        } else if now.duration_since(work.last_line) >= LINE_EVERY {
            work.last_line = now;
            let line = format!("{}, {}", work.meter.so_far(total), work.meter.speed(total, peers));
            log::write_message(Level::INFO, "", &line);
        }
    }

    /// Shows how many getters there are, and that `sent` bytes were sent to all so far. Only a terminal shows it, on its
    /// last line; nothing without getters.
    pub(crate) fn serving(&mut self, getters: usize, sent: u64) {
        if !self.draws_bars() {
            return;
        }
        let serves = self.work.as_ref().is_some_and(|work| work.meter.phase == Serving);
        match getters {
            0 if serves => self.clear(),
            0 => {}
            _ => self.update(Serving, sent, 0, getters),
        }
    }

    /// Runs `write`, which prints to standard error, with the bar hidden meanwhile.
    pub(crate) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match self.work.as_ref().and_then(|work| work.bar.as_ref()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.work.take().and_then(|work| work.bar) {
            bar.finish_and_clear();
        }
    }
}

fn style(phase: ProgressPhase) -> ProgressStyle {
    // What is served has no end.
    let template = if phase == Serving { "{prefix}, {msg}" } else { "{prefix} {wide_bar} {msg}" };
    ProgressStyle::with_template(template).expect("the template is constant and a test draws it")
}

/// Computes progress, rate and remaining time. Bytes of the first sample count as done but not in the rate, so that a
/// resumed fetch shows the network's rate.
struct RateMeter {
    phase: ProgressPhase,
    /// Samples within [`WINDOW`], oldest first; the last one is the present.
    samples: VecDeque<(Instant, u64)>,
    /// Peers that are reached through a relay.
    relayed: usize,
}

impl RateMeter {
    fn new(phase: ProgressPhase) -> Self {
        Self { phase, samples: VecDeque::new(), relayed: 0 }
    }

    fn add(&mut self, now: Instant, done: u64) {
        // Replace the newest sample until it is old enough to be kept.
        let len = self.samples.len();
        if len >= 2 && now.duration_since(self.samples[len - 2].0) < SAMPLE_EVERY {
            self.samples.pop_back();
        }
        self.samples.push_back((now, done));
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
    }

    /// The progress as `1.00 MiB of 2.00 MiB verified (50 %)`.
    fn so_far(&self, total: u64) -> String {
        let done = self.samples.back().map_or(0, |sample| sample.1);
        let word = match self.phase {
            ProgressPhase::Hashing => "read",
            ProgressPhase::Fetching => "verified",
            Serving => "sent",
        };
        match (u128::from(done.min(total)) * 100).checked_div(total.into()) {
            Some(percent) => format!("{} of {} {word} ({percent} %)", bytes(done), bytes(total)),
            None => format!("{} {word}", bytes(done)),
        }
    }

    /// The rate as `1.00 MiB/s, ETA 3.00 s, 2 peers`.
    fn speed(&self, total: u64, peers: usize) -> String {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return String::new();
        };
        let time = last.0.duration_since(first.0);
        // A rate over a moment means nothing: it counts as not known yet.
        let size = match time >= SAMPLE_EVERY {
            true => last.1.saturating_sub(first.1),
            false => 0,
        };
        let mut speed = rate(size, time);
        if self.phase == Serving {
            return format!("{speed}, {}", count(peers as u64, "getter"));
        }
        let left = total.saturating_sub(last.1) as f64 * time.as_secs_f64() / size as f64;
        let eta = match Duration::try_from_secs_f64(left) {
            Ok(left) if total > 0 && left <= MAX_ETA => duration(left),
            _ => "unknown".to_owned(),
        };
        speed.push_str(&format!(", ETA {eta}"));
        if self.phase == ProgressPhase::Fetching {
            speed.push_str(&format!(", {}", count(peers as u64, "peer")));
            match self.relayed {
                0 => {}
                n if n == peers => speed.push_str(" (relayed)"),
                n => speed.push_str(&format!(" ({n} relayed)")),
            }
        }
        speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_resumed_fetch_shows_the_present_rate() {
        let start = Instant::now();
        let mut meter = RateMeter::new(ProgressPhase::Fetching);
        for second in 0..=4 {
            meter.add(start + Duration::from_secs(second), (10 + second) * MIB);
        }
        assert_eq!(meter.so_far(20 * MIB), "14.00 MiB of 20.00 MiB verified (70 %)");
        assert_eq!(meter.speed(20 * MIB, 1), "1.00 MiB/s, ETA 6.00 s, 1 peer");
        meter.relayed = 1;
        assert_eq!(meter.speed(20 * MIB, 1), "1.00 MiB/s, ETA 6.00 s, 1 peer (relayed)");
        assert_eq!(meter.speed(20 * MIB, 2), "1.00 MiB/s, ETA 6.00 s, 2 peers (1 relayed)");
        meter.relayed = 0;
        // A stall: after the window the rate is zero, and the remaining time is unknown.
        for second in 5..=30 {
            meter.add(start + Duration::from_secs(second), 14 * MIB);
        }
        assert_eq!(meter.speed(20 * MIB, 0), "0 B/s, ETA unknown, 0 peers");
    }

    #[test]
    fn rates_and_times_out_of_range_are_not_shown() {
        let start = Instant::now();
        let mut meter = RateMeter::new(ProgressPhase::Fetching);
        meter.add(start, 0);
        meter.add(start + Duration::from_nanos(1), 1 << 40);
        assert_eq!(meter.speed(2 << 40, 1), "0 B/s, ETA unknown, 1 peer");
        let mut meter = RateMeter::new(ProgressPhase::Fetching);
        meter.add(start, 0);
        meter.add(start + Duration::from_secs(4), 4);
        assert_eq!(meter.speed(1 << 40, 1), "1 B/s, ETA unknown, 1 peer");
        assert_eq!(meter.speed(3_604, 1), "1 B/s, ETA 1 h 0 min, 1 peer");
    }

    #[test]
    fn few_samples_are_kept() {
        let start = Instant::now();
        let mut meter = RateMeter::new(ProgressPhase::Hashing);
        for step in 0..100_000 {
            meter.add(start + Duration::from_millis(step), step * 1024);
        }
        assert!(meter.samples.len() <= 53, "{}", meter.samples.len());
        assert_eq!(meter.speed(0, 0), "1000.00 KiB/s, ETA unknown");
    }

    #[test]
    fn odd_progress_figures_cause_no_panic() {
        let start = Instant::now();
        let mut meter = RateMeter::new(ProgressPhase::Hashing);
        assert_eq!(meter.speed(0, 0), "");
        meter.add(start, 9);
        assert_eq!(
            (meter.so_far(0), meter.speed(0, 0)),
            ("9 B read".into(), "0 B/s, ETA unknown".into())
        );
        meter.add(start, u64::MAX);
        assert!(meter.so_far(u64::MAX).ends_with("(100 %)"));
        meter.add(start + Duration::from_secs(1), 0);
        assert!(meter.speed(u64::MAX, 0).ends_with("ETA unknown"));
    }

    /// A terminal of one line, 80 columns wide.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn shows(&self) -> String {
            self.0.lock().unwrap().clone()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text.trim_start_matches('\r'));
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_draws() {
        let screen = Screen::default();
        let drawn_on = screen.clone();
        let target = move || ProgressDrawTarget::term_like(Box::new(drawn_on.clone()));
        let mut progress =
            ProgressDisplay { screen: Box::new(target), ..ProgressDisplay::new(ProgressForm::Bar) };
        assert_eq!(screen.shows(), "");
        progress.update(ProgressPhase::Hashing, 1, 2, 0);
        let hashing = screen.shows();
        assert!(hashing.starts_with("1 B of 2 B read (50 %) █"), "{hashing:?}");
        assert!(hashing.trim_end().ends_with("░ 0 B/s, ETA unknown"), "{hashing:?}");
        let halves = ["█", "░"].map(|part| hashing.matches(part).count());
        assert!(halves[0] > 5 && halves[0].abs_diff(halves[1]) <= 1, "{halves:?}");
        // The next phase has a bar of its own.
        progress.update(ProgressPhase::Fetching, 1, 0, 3);
        let fetching = screen.shows();
        assert!(fetching.starts_with("1 B verified █"), "{fetching:?}");
        assert!(fetching.trim_end().ends_with("ETA unknown, 3 peers"), "{fetching:?}");
        // The bar is hidden while other text is printed, and drawn again afterwards.
        assert_eq!(progress.aside(|| screen.shows()), "");
        assert_eq!(screen.shows(), fetching);
        // A share has figures without a bar, as long as it has getters.
        progress.serving(2, 3 * MIB);
        assert_eq!(screen.shows().trim_end(), "3.00 MiB sent, 0 B/s, 2 getters");
        progress.serving(0, 4 * MIB);
        assert_eq!(screen.shows(), "");
        progress.update(ProgressPhase::Hashing, 1, 2, 0);
        progress.serving(0, 4 * MIB);
        assert_ne!(screen.shows(), "", "no getter, and other work");
        progress.clear();
        assert_eq!(screen.shows(), "");
    }
}
