//! Two endpoints under virtual time, and the traffic that an observer between them sees.

use std::time::Duration;

use xylem_link::{Level, LinkConfig, LinkId, LinkSendError, Shaping};
use xylem_sim::{Conditions, ms};

use super::sim::{Net, S};

/// 10 ms each way; the path carries UDP payloads as Ethernet does.
const PATH: Conditions = Conditions { delay: ms(10), mtu: 1_452, ..Conditions::PERFECT };
/// Warm-up without load, in which the path's size is found.
const BEFORE: Duration = Duration::from_secs(5);
/// Observed time after it.
const OBSERVED: Duration = Duration::from_secs(30);
/// Bytes of a question and its answer: an Interest, a Data packet with 8 KiB.
const QUESTION: usize = 60;
const ANSWER: usize = 8_400;
/// Questions that are open while a fetch runs.
const WINDOW: usize = 32;

/// The load of the two sides.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// One side fetches from the other, as fast as it arrives.
    Busy,
    /// One question a second.
    Light,
    /// No load.
    Idle,
}

impl Load {
    /// All loads.
    pub(crate) const ALL: [Self; 3] = [Self::Busy, Self::Light, Self::Idle];

    /// The load's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Light => "light",
            Self::Idle => "idle",
        }
    }
}

/// The answering side's datagrams, as seen on the wire.
#[derive(Default)]
pub(crate) struct Seen {
    /// Sizes of UDP payloads, in bytes.
    pub sizes: Vec<usize>,
    /// Times of the datagrams.
    pub times: Vec<Duration>,
    /// Bytes of answers that arrived.
    pub answered: usize,
}

impl Seen {
    /// Gaps between consecutive datagrams.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Duration> + '_ {
        self.times.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// One line of figures.
    pub(crate) fn summary(&self) -> String {
        let bytes: usize = self.sizes.iter().sum();
        let seconds = OBSERVED.as_secs();
        format!(
            "{:8} datagrams {:10} bytes {:9} bytes/s {:9} bytes/s of answers",
            self.sizes.len(),
            bytes,
            bytes as u64 / seconds,
            self.answered as u64 / seconds
        )
    }
}

/// The fetching program on node 0, and the answers that the other side has yet to send.
struct Programs {
    links: [LinkId; 2],
    /// Questions without an answer, and those that have arrived but are not answered.
    open: usize,
    waiting: usize,
    /// Bytes of answers that arrived.
    answered: usize,
}

impl Programs {
    fn send(&self, net: &mut Net, node: usize, len: usize) -> bool {
        match net.nodes[node].endpoint.send(self.links[node], &vec![7; len]) {
            Ok(()) => true,
            // A real fetching side asks again; here it just asks less fast.
            Err(LinkSendError::Full) => false,
            Err(error) => panic!("the link is up: {error}"),
        }
    }

    fn ask(&mut self, net: &mut Net, questions: usize) {
        self.open += (0..questions).filter(|_| self.send(net, 0, QUESTION)).count();
    }

    /// Answers questions that have arrived, counts answers, and keeps `window` questions open.
    fn act(&mut self, net: &mut Net, window: usize) {
        self.waiting += net.nodes[1].packets.drain(..).count();
        while self.waiting > 0 && self.send(net, 1, ANSWER) {
            self.waiting -= 1;
        }
        for answer in net.nodes[0].packets.drain(..) {
            self.open = self.open.saturating_sub(1);
            self.answered += answer.len();
        }
        self.ask(net, window.saturating_sub(self.open));
    }
}

/// The answering side's traffic at this level under this load.
pub(crate) fn observe(level: Level, load: Load) -> Seen {
    let config = LinkConfig { shaping: Shaping::at(level), ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, PATH);
    let (a, b) = net.connect();
    net.run(BEFORE - net.now());
    net.record = true;
    let mut programs = Programs { links: [a, b], open: 0, waiting: 0, answered: 0 };
    match load {
        Load::Busy => net.run_with(OBSERVED, |net| programs.act(net, WINDOW)),
        Load::Light => {
            for _ in 0..OBSERVED.as_secs() {
                programs.ask(&mut net, 1);
                net.run_with(S, |net| programs.act(net, 0));
            }
        }
        Load::Idle => net.run(OBSERVED),
    }
    let mut seen = Seen { answered: programs.answered, ..Seen::default() };
    for ((from, _, datagram), at) in net.tap.iter().zip(&net.times) {
        if *from == net.nodes[1].at {
            seen.sizes.push(datagram.len());
            seen.times.push(*at);
        }
    }
    seen
}
