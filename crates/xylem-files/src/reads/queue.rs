//! [`ReadQueue`]: chooses the next read. Each asker has its turn, adjacent requests of one asker become one read, and
//! reading ahead for an asker is bounded by what it has taken. No threads, no clock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Largest read, bytes.
pub(super) const MOST_AT_ONCE: u64 = 4 << 20;
/// Most reads for one asker at the same time.
const MOST_FOR_ONE: usize = 4;
/// Most questions of one asker that wait; further ones are not answered.
const MOST_WAITING: usize = 4_096;
/// Most askers remembered, beside those with waiting questions.
const MOST_ASKERS: usize = 256;
/// Most questions for the same bytes, each with another nonce.
const MOST_REPEATED: usize = 4;
/// Reads in a row after which the queue reads ahead.
const IN_A_ROW: u32 = 16;
/// Reading ahead may add one in this many of the bytes taken by an asker. Content requested during that read is read
/// twice, so that all reads exceed the requested bytes by at most a tenth.
const AHEAD_ONE_IN: u64 = 20;
/// An asker with more bytes read for it and not taken gets one small read at a time.
const MOST_OWED: u64 = 4 << 20;

/// One read, and the questions that it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FarRead<F> {
    pub(super) asker: u64,
    pub(super) file: F,
    pub(super) start: u64,
    pub(super) len: u64,
    /// As [`WantedBytes::is_priced`].
    pub(super) is_priced: bool,
    pub(super) questions: Vec<WaitingInterest>,
}

/// An Interest that waits, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WaitingInterest {
    pub(super) packet: Vec<u8>,
    pub(super) until: Duration,
}

/// Bytes of the file with this number.
#[derive(Debug, Clone)]
pub(super) struct WantedBytes<F> {
    pub(super) file: F,
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Each byte may have a price: reads of an asker are bounded by what it takes, and read ahead within that bound.
    pub(super) is_priced: bool,
}

struct PendingRead<F> {
    file: F,
    len: u64,
    is_priced: bool,
    questions: Vec<WaitingInterest>,
}

struct AskerQueue<F> {
    /// By file and offset, so that adjacent requests are found.
    asks: BTreeMap<(u64, u64), PendingRead<F>>,
    /// In order of arrival; some are answered already.
    order: VecDeque<(u64, u64)>,
    reading: usize,
    /// Bytes read for this asker, and bytes of them that it has taken.
    read: u64,
    taken: u64,
    /// Where the bytes it took last end, and how many times in a row it has continued there.
    ended: (u64, u64),
    in_a_row: u32,
}

impl<F> Default for AskerQueue<F> {
    fn default() -> Self {
        let (asks, order) = (BTreeMap::new(), VecDeque::new());
        Self { asks, order, reading: 0, read: 0, taken: 0, ended: (0, 0), in_a_row: 0 }
    }
}

/// Waiting questions of all askers; see the module's documentation. `F` is a file.
pub(super) struct ReadQueue<F> {
    askers: HashMap<u64, AskerQueue<F>>,
    /// Askers with waiting questions, the next one first.
    turn: VecDeque<u64>,
}

impl<F> Default for ReadQueue<F> {
    fn default() -> Self {
        Self { askers: HashMap::new(), turn: VecDeque::new() }
    }
}

impl<F: Clone> ReadQueue<F> {
    /// Adds a question that needs `wanted`. Returns false if too many of the asker's questions wait.
    pub(super) fn ask(
        &mut self,
        asker: u64,
        wanted: WantedBytes<F>,
        question: WaitingInterest,
    ) -> bool {
        let WantedBytes { file, number, offset, len, is_priced } = wanted;
        if self.askers.len() >= MOST_ASKERS && !self.askers.contains_key(&asker) {
            self.askers.retain(|_, waiting| !waiting.asks.is_empty() || waiting.reading > 0);
        }
        let waiting = self.askers.entry(asker).or_default();
        if waiting.asks.len() >= MOST_WAITING {
            return false;
        }
        if waiting.asks.is_empty() {
            waiting.order.clear();
            self.turn.push_back(asker);
        }
        let at = (number, offset);
        let ask = waiting.asks.entry(at).or_insert_with(|| {
            waiting.order.push_back(at);
            PendingRead { file, len: 0, is_priced, questions: Vec::new() }
        });
        ask.len = ask.len.max(len);
        if ask.questions.len() < MOST_REPEATED {
            ask.questions.push(question);
        }
        true
    }

    /// Returns the next read; `None` if none is allowed now. Skips questions that have expired. `ahead`: the read may
    /// exceed the request.
    pub(super) fn next(&mut self, now: Duration, ahead: bool) -> Option<FarRead<F>> {
        for _ in 0..self.turn.len() {
            let asker = self.turn.pop_front()?;
            let Some(waiting) = self.askers.get_mut(&asker) else { continue };
            let owed = waiting.read.saturating_sub(waiting.taken);
            let most = if owed > MOST_OWED { 1 } else { MOST_FOR_ONE };
            let read = match waiting.reading < most {
                true => waiting.next(asker, now, ahead, owed),
                false => None,
            };
            // An asker with all its reads under way goes to the end of the queue.
            if !waiting.asks.is_empty() {
                self.turn.push_back(asker);
            }
            if read.is_some() {
                return read;
            }
        }
        None
    }

    /// Records that a read for an asker has ended, and that `missing` of its priced bytes did not come.
    pub(super) fn ended(&mut self, asker: u64, missing: u64) {
        if let Some(waiting) = self.askers.get_mut(&asker) {
            waiting.reading = waiting.reading.saturating_sub(1);
            waiting.read = waiting.read.saturating_sub(missing);
        }
    }

    /// Records that an asker took bytes of a file, read for it or for another one.
    pub(super) fn record_taken(&mut self, asker: u64, number: u64, offset: u64, len: u64) {
        let Some(waiting) = self.askers.get_mut(&asker) else { return };
        waiting.taken = waiting.taken.saturating_add(len);
        let goes_on = waiting.ended == (number, offset);
        waiting.in_a_row = if goes_on { waiting.in_a_row.saturating_add(1) } else { 0 };
        waiting.ended = (number, offset.saturating_add(len));
    }
}

impl<F: Clone> AskerQueue<F> {
    fn next(&mut self, asker: u64, now: Duration, ahead: bool, owed: u64) -> Option<FarRead<F>> {
        let (number, start, first) = loop {
            let at = self.order.pop_front()?;
            let Some(ask) = self.asks.remove(&at) else { continue };
            if ask.questions.iter().any(|question| question.until > now) {
                break (at.0, at.1, ask);
            }
        };
        let (file, is_priced, mut questions) = (first.file, first.is_priced, first.questions);
        let owed = if is_priced { owed } else { 0 };
        let mut end = start.saturating_add(first.len);
        // Adds the adjacent requests.
        let follows =
            |next: &PendingRead<F>| next.len > 0 && next.questions.iter().any(|q| q.until > now);
        while owed <= MOST_OWED
            && end > start
            && end - start < MOST_AT_ONCE
            && self.asks.get(&(number, end)).is_some_and(follows)
            && let Some(next) = self.asks.remove(&(number, end))
        {
            end = end.saturating_add(next.len);
            questions.extend(next.questions);
        }
        if ahead && is_priced && self.in_a_row >= IN_A_ROW && end > start {
            let spare = (self.taken / AHEAD_ONE_IN).saturating_sub(owed);
            let room = MOST_AT_ONCE.saturating_sub(end - start);
            end = end.saturating_add(spare.min(room));
        }
        let len = end - start;
        self.reading += 1;
        if is_priced {
            self.read = self.read.saturating_add(len);
        }
        questions.retain(|question| question.until > now);
        Some(FarRead { asker, file, start, len, is_priced, questions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 8192;
    const NOW: Duration = Duration::from_secs(5);

    fn question(number: u64) -> WaitingInterest {
        WaitingInterest {
            packet: number.to_be_bytes().to_vec(),
            until: NOW + Duration::from_secs(4),
        }
    }

    fn ask(queue: &mut ReadQueue<char>, asker: u64, segment: u64) -> bool {
        queue.ask(asker, wanted(segment), question(segment))
    }

    fn wanted(segment: u64) -> WantedBytes<char> {
        let (offset, is_priced) = (segment * SEGMENT, true);
        WantedBytes { file: 'f', number: 1, offset, len: SEGMENT, is_priced }
    }

    #[test]
    fn adjacent_requests_become_one_read() {
        let mut queue = ReadQueue::default();
        for segment in [3, 4, 5, 9, 10, 4] {
            assert!(ask(&mut queue, 1, segment));
        }
        let read = queue.next(NOW, true).unwrap();
        assert_eq!((read.start, read.len), (3 * SEGMENT, 3 * SEGMENT));
        let segments = [3, 4, 4, 5].map(question);
        assert_eq!(read.questions, segments);
        let read = queue.next(NOW, true).unwrap();
        assert_eq!((read.start, read.len), (9 * SEGMENT, 2 * SEGMENT));
        assert_eq!(queue.next(NOW, true), None);
    }

    #[test]
    fn askers_take_turns_and_none_takes_all_reads() {
        let mut queue = ReadQueue::default();
        for segment in 0..500 {
            ask(&mut queue, 1, 2 * segment);
        }
        ask(&mut queue, 2, 7);
        ask(&mut queue, 3, 7);
        let askers: Vec<u64> =
            std::iter::from_fn(|| queue.next(NOW, true)).map(|read| read.asker).collect();
        assert_eq!(askers, [1, 2, 3, 1, 1, 1], "four of the first");
        ask(&mut queue, 3, 9);
        assert_eq!(queue.next(NOW, true).map(|read| read.asker), Some(3));
        queue.ended(1, 0);
        assert_eq!(queue.next(NOW, true).map(|read| read.asker), Some(1));
        assert_eq!(queue.next(NOW, true), None);
    }

    #[test]
    fn waiting_questions_are_bounded_and_expire() {
        let mut queue = ReadQueue::default();
        let took = (0..5_000).filter(|segment| ask(&mut queue, 1, 2 * segment)).count();
        assert_eq!(took, MOST_WAITING);
        assert!(ask(&mut queue, 2, 0));
        let later = NOW + Duration::from_secs(4);
        assert_eq!(queue.next(later, true), None, "nobody waits for it any more");
        for asker in 10..10_000 {
            queue.ask(asker, wanted(0), WaitingInterest { until: later, ..question(0) });
            assert!(queue.next(NOW, true).is_some());
            queue.ended(asker, 0);
        }
        assert!(queue.askers.len() <= MOST_ASKERS + 2);
    }

    /// Requests and takes segments one after the other; returns the bytes read for each byte taken.
    fn ratio(segments: impl Iterator<Item = u64>) -> f64 {
        let mut queue = ReadQueue::default();
        let (mut held, mut read, mut taken) = (Vec::<(u64, u64)>::new(), 0, 0);
        for segment in segments {
            let at = segment * SEGMENT;
            if !held.iter().any(|(start, len)| (*start..start + len).contains(&at)) {
                assert!(ask(&mut queue, 1, segment));
                let made = queue.next(NOW, true).unwrap();
                queue.ended(1, 0);
                read += made.len;
                held.push((made.start, made.len));
            }
            queue.record_taken(1, 1, at, SEGMENT);
            taken += SEGMENT;
        }
        read as f64 / taken as f64
    }

    #[test]
    fn reads_exceed_taken_bytes_by_at_most_a_tenth() {
        let mut random = 1_u64;
        let mut place = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % 1_000_000
        };
        assert!(ratio((0..20_000).map(|_| place())) <= 1.1);
        let pairs: Vec<u64> =
            (0..10_000).flat_map(|_| [place()].into_iter().flat_map(|p| [p, p + 1])).collect();
        assert!(ratio(pairs.into_iter()) <= 1.1);
        // Each run is just long enough to cause reading ahead, and then the reader jumps elsewhere.
        let runs: Vec<u64> = (0..1_000)
            .flat_map(|_| {
                let p = place();
                p..p + 18
            })
            .collect();
        assert!(ratio(runs.into_iter()) <= 1.1);
        let in_order = ratio(0..20_000);
        assert!((0.99..=1.1).contains(&in_order), "{in_order}");
    }

    #[test]
    fn reads_without_a_price_are_not_counted() {
        let mut queue = ReadQueue::default();
        for round in 0..10_000 {
            for segment in [1_000 * round, 1_000 * round + 1] {
                let free = WantedBytes { is_priced: false, ..wanted(segment) };
                assert!(queue.ask(1, free, question(segment)));
            }
            let made = queue.next(NOW, true).unwrap();
            assert_eq!((made.len, made.is_priced), (2 * SEGMENT, false));
            queue.ended(1, 0);
        }
        let waiting = &queue.askers[&1];
        assert_eq!((waiting.read, waiting.taken), (0, 0));
    }

    #[test]
    fn an_asker_that_takes_nothing_gets_small_reads() {
        let mut queue = ReadQueue::default();
        let mut read = 0;
        for round in 0..10_000 {
            ask(&mut queue, 1, 1_000 * round);
            ask(&mut queue, 1, 1_000 * round + 1);
            while let Some(made) = queue.next(NOW, true) {
                read += made.len;
                if read > MOST_OWED + 2 * SEGMENT {
                    assert_eq!(made.len, SEGMENT, "one at a time");
                }
                queue.ended(1, 0);
            }
        }
        assert!(read > MOST_OWED);
    }
}
