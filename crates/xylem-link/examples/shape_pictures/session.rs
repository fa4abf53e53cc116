//! Two endpoints under virtual time, and what passes an observer between them.

use std::time::Duration;

use xylem_link::{Config, Level, LinkId, SendError, Shaping};
use xylem_sim::{Conditions, ms};

use super::sim::{Net, S};

/// 10 ms each way; the path carries UDP payloads as Ethernet does.
const PATH: Conditions = Conditions { delay: ms(10), mtu: 1_452, ..Conditions::PERFECT };
/// Left alone, so that the path's size is found.
const BEFORE: Duration = Duration::from_secs(5);
/// Then observed.
const OBSERVED: Duration = Duration::from_secs(30);
/// A question and its answer: an Interest, a Data packet with 8 KiB.
const QUESTION: usize = 60;
const ANSWER: usize = 8_400;
/// Questions that are open while a fetch runs.
const WINDOW: usize = 32;

/// What the two do.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// One fetches from the other, as fast as it comes.
    Busy,
    /// One question a second.
    Light,
    /// Nothing.
    Idle,
}

impl Load {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Busy, Self::Light, Self::Idle];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Light => "light",
            Self::Idle => "idle",
        }
    }
}

/// What the answering side sent, as seen on the wire.
#[derive(Default)]
pub(crate) struct Seen {
    /// UDP payloads, in bytes.
    pub sizes: Vec<usize>,
    /// When.
    pub times: Vec<Duration>,
    /// Bytes of answers that arrived.
    pub answered: usize,
}

impl Seen {
    /// Gaps between datagrams that follow one another.
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

/// The fetching side, node 0, and what the answering side has yet to send.
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
            // The other side asks again; here it is simply not asked so fast.
            Err(SendError::Full) => false,
            Err(error) => panic!("the link is up: {error}"),
        }
    }

    fn ask(&mut self, net: &mut Net, questions: usize) {
        self.open += (0..questions).filter(|_| self.send(net, 0, QUESTION)).count();
    }

    /// Answers what has arrived, counts answers, and keeps so many questions open.
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

/// What the answering side's datagrams show of this level under this load.
pub(crate) fn observe(level: Level, load: Load) -> Seen {
    let config = Config { shaping: Shaping::at(level), ..Config::default() };
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
