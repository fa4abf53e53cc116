//! [`RelayList`]: the relays that an organisation keeps for its members, in a file that it signs (docs/spec/reach.md, "A list
//! of relays").

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use xylem_base::{Blame, Failure, UnixTime, Wake};
use xylem_engine::RelayUse;
use xylem_keys::{KeyFileError, VerifyWith, check_signature};
use xylem_peers::list_file::{ListFileError, list_text};
use xylem_peers::reachable::{HostLookupError, Relay};
use xylem_peers::relay_list::{ListedRelays, RelayLineError, parse_relay_list};

use crate::reaching::to_dial;
use xylem_engine::wall_clock;

/// Most bytes of a list.
const MAX_LIST: u64 = 1 << 16;
/// Time between two readings of the list in a running program, unless [`RelayList::again`] has another one.
const AGAIN: Duration = Duration::from_secs(3_600);
/// How far the clock of the machine that signs may be ahead. A list with a later time is refused, as no list that is signed with the
/// right time would replace it.
const AHEAD_MS: u64 = 24 * 3_600 * 1_000;
/// Pause before a list is read again whose signature is for other content: the two files are replaced one after the other.
const PAIR: Duration = Duration::from_millis(300);

/// The warning for a list past its last day.
pub const OLD_LIST: &str = "the list of relays is past its last day; its relays are used still, and its organisation has to sign a new one";

/// Where the list is, and which key signs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayList {
    /// The file. Its signature, as `xylem key sign` writes it, is beside it, with `.sig` behind the name.
    pub file: PathBuf,
    /// The key of the organisation.
    pub signer: VerifyWith,
    /// Time between two readings in a running program.
    pub again: Duration,
    /// Lists that were signed before this are refused, in milliseconds since 1970. [`RelayList::read`] sets it, so that no
    /// earlier list replaces one in use.
    pub not_before_ms: u64,
}

/// Why a list is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayListError {
    /// The file cannot be read.
    #[error("list of relays {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: ListFileError,
    },
    /// The signature is missing, wrong, or of another key.
    #[error("list of relays: {0}")]
    Signature(#[from] KeyFileError),
    /// It was signed before the list that was used last.
    #[error("list of relays {}: it is older than the one in use", .0.display())]
    Older(PathBuf),
    /// It was signed more than a day from now.
    #[error(
        "list of relays {}: its signature has a time more than a day from now: the clock here is wrong, or that of the \
         machine on which it was signed; set it right, and sign the list again",
        .0.display()
    )]
    Ahead(PathBuf),
    /// It has a wrong line.
    #[error("list of relays {}: line {number}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        number: usize,
        /// The defect.
        why: RelayLineError,
    },
    /// It names no relay.
    #[error("list of relays {}: it names no relay", .0.display())]
    Empty(PathBuf),
    /// The system starts no thread to read it.
    #[error("list of relays {}: it was not read again: no thread: {why}", path.display())]
    Thread {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: std::io::Error,
    },
}

impl Failure for RelayListError {
    fn blame(&self) -> Blame {
        match self {
            Self::Signature(e) => e.blame(),
            Self::Thread { .. } => Blame::Local,
            _ => Blame::Usage,
        }
    }
}

impl RelayList {
    /// The list in this file, signed by this key, which a running program reads each hour.
    pub fn new(file: PathBuf, signer: VerifyWith) -> Self {
        Self { file, signer, again: AGAIN, not_before_ms: 0 }
    }

    /// Reads and verifies the list.
    ///
    /// # Errors
    /// See [`RelayListError`]. A list past its last day is no error.
    pub fn read(&mut self, now: UnixTime) -> Result<ListedRelays, RelayListError> {
        match self.read_once(now) {
            Err(RelayListError::Signature(KeyFileError::OtherFile(_))) => {
                thread::sleep(PAIR);
                self.read_once(now)
            }
            read => read,
        }
    }

    fn read_once(&mut self, now: UnixTime) -> Result<ListedRelays, RelayListError> {
        let path = || self.file.clone();
        let text = list_text(&self.file, MAX_LIST);
        let text = text.map_err(|why| RelayListError::File { path: path(), why })?;
        let mut signature = path().into_os_string();
        signature.push(".sig");
        let hash = xylem_hash::hash(text.as_bytes());
        let signed = check_signature(&hash, &PathBuf::from(signature), &self.signer, now)?;
        if signed.time_ms < self.not_before_ms {
            return Err(RelayListError::Older(path()));
        }
        if signed.time_ms > now.milliseconds().saturating_add(AHEAD_MS) {
            return Err(RelayListError::Ahead(path()));
        }
        let listed = parse_relay_list(&text);
        let listed =
            listed.map_err(|(number, why)| RelayListError::Line { path: path(), number, why })?;
        if listed.relays.is_empty() {
            return Err(RelayListError::Empty(path()));
        }
        self.not_before_ms = signed.time_ms;
        Ok(listed)
    }
}

/// A list that was read again, with the addresses of its relays.
pub(crate) struct LookedUpList {
    /// Whether its last day is over.
    pub(crate) is_old: bool,
    /// The relays to use, with the ways to each.
    pub(crate) relays: Vec<(Relay, Result<RelayUse, HostLookupError>)>,
}

impl LookedUpList {
    /// Looks up the relays' hosts. A name server that is silent is waited for.
    fn of(listed: ListedRelays) -> Self {
        let is_old = listed.is_old(wall_clock());
        let looked_up = |relay: Relay| {
            let ways = to_dial(&relay);
            (relay, ways)
        };
        Self { is_old, relays: listed.relays.into_iter().map(looked_up).collect() }
    }
}

/// What a thread has read.
type WatchedList = Result<LookedUpList, RelayListError>;

/// Reads a list again and again and looks up its relays, on threads of its own: the file may be on a disk that sleeps or on another machine,
/// and a name server may be silent.
pub(crate) struct RelayWatch {
    list: Option<RelayList>,
    next: Duration,
    read: Option<mpsc::Receiver<(RelayList, WatchedList)>>,
    wake: Wake,
}

impl RelayWatch {
    /// Begins; the list was read a moment ago.
    pub(crate) fn new(list: Option<RelayList>, now: Duration, wake: Wake) -> Self {
        let next = list.as_ref().map_or(Duration::MAX, |list| now.saturating_add(list.again));
        Self { list, next, read: None, wake }
    }

    /// When [`RelayWatch::poll`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        (self.list.is_some() && self.read.is_none()).then_some(self.next)
    }

    /// Reads the list if it is due. Returns it once it has been read.
    pub(crate) fn poll(&mut self, now: Duration) -> Option<WatchedList> {
        if let Some(read) = &self.read {
            let (list, listed) = match read.try_recv() {
                Ok(read) => read,
                Err(mpsc::TryRecvError::Empty) => return None,
                // The thread has ended by a defect; the list is read again when it is due.
                Err(mpsc::TryRecvError::Disconnected) => {
                    self.read = None;
                    return None;
                }
            };
            (self.read, self.list) = (None, Some(list));
            return Some(listed);
        }
        let list = self.list.as_ref().filter(|_| now >= self.next)?;
        self.next = now.saturating_add(list.again);
        let (path, mut list, wake) = (list.file.clone(), list.clone(), self.wake.clone());
        let (tell, read) = mpsc::channel();
        let work = move || {
            let listed = list.read(wall_clock()).map(LookedUpList::of);
            // The program may have ended meanwhile.
            let _ = tell.send((list, listed));
            wake();
        };
        match thread::Builder::new().name("relay-list".into()).spawn(work) {
            Ok(_) => self.read = Some(read),
            Err(why) => return Some(Err(RelayListError::Thread { path, why })),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use xylem_keys::{KeyKind, Keyring, sign_hash};

    use super::*;

    fn key(byte: &str) -> String {
        byte.repeat(32)
    }

    fn hosts_of<'a>(relays: impl Iterator<Item = &'a Relay>) -> Vec<String> {
        relays.flat_map(|relay| &relay.at.addresses).map(ToString::to_string).collect()
    }

    fn hosts(listed: &ListedRelays) -> Vec<String> {
        hosts_of(listed.relays.iter())
    }

    /// A list, and the key that signs it.
    struct Signed {
        keyring: Keyring,
        list: RelayList,
        /// When the key was made. A thread that reads the list has the clock of this machine.
        made: UnixTime,
    }

    impl Signed {
        fn new(dir: &Path) -> Self {
            let keyring = Keyring::at(dir);
            let made = wall_clock();
            keyring.create("/org", KeyKind::Ed25519, made).unwrap();
            let certificate = dir.join("org.cert");
            fs::write(&certificate, keyring.certificate("/org").unwrap()).unwrap();
            let signer = VerifyWith::Certificates(vec![certificate]);
            Self { keyring, list: RelayList::new(dir.join("relays"), signer), made }
        }

        /// So many seconds after the key was made.
        fn after(&self, seconds: u64) -> UnixTime {
            UnixTime::new(Duration::from_millis(self.made.milliseconds() + seconds * 1_000))
        }

        fn write(&self, host: &str, seconds: u64) {
            let at = self.after(seconds);
            let text = format!("xylem relays 1\n{}@{host}:1\n", key("a1"));
            let signature =
                sign_hash(&self.keyring, "/org", &xylem_hash::hash(text.as_bytes()), at).unwrap();
            fs::write(&self.list.file, text).unwrap();
            fs::write(self.list.file.with_extension("sig"), signature).unwrap();
        }
    }

    #[test]
    fn a_list_of_another_key_changed_or_older_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut signed = Signed::new(dir.path());
        let now = signed.after(9);
        let read = |list: &mut RelayList| list.read(now);
        assert!(matches!(read(&mut signed.list), Err(RelayListError::File { .. })));
        signed.write("a.example", 5);
        assert_eq!(hosts(&read(&mut signed.list).unwrap()), ["a.example:1"]);
        // An attacker that has replaced the file puts an earlier list there, with its signature.
        signed.write("b.example", 4);
        assert!(matches!(read(&mut signed.list), Err(RelayListError::Older(_))));
        signed.write("b.example", 6);
        assert_eq!(hosts(&read(&mut signed.list).unwrap()), ["b.example:1"]);
        fs::write(&signed.list.file, format!("xylem relays 1\n{}@c.example:1\n", key("a1")))
            .unwrap();
        let changed = read(&mut signed.list).unwrap_err();
        assert!(matches!(changed, RelayListError::Signature(KeyFileError::OtherFile(_))));
        // Anyone has a key, and may call it as the organisation's.
        let other = tempfile::tempdir().unwrap();
        let mut forged = Signed::new(other.path());
        forged.write("c.example", 7);
        forged.list.signer = signed.list.signer.clone();
        let refused = read(&mut forged.list).unwrap_err();
        assert!(matches!(refused, RelayListError::Signature(KeyFileError::NotBelieved { .. })));
    }

    #[test]
    fn a_list_signed_by_a_clock_that_is_ahead_is_refused_and_keeps_no_later_one_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut signed = Signed::new(dir.path());
        let (now, day) = (signed.after(9), 24 * 3_600);
        signed.write("a.example", day + 10);
        assert!(matches!(signed.list.read(now), Err(RelayListError::Ahead(_))));
        signed.write("b.example", 8);
        assert_eq!(hosts(&signed.list.read(now).unwrap()), ["b.example:1"]);
        // Clocks differ by less.
        signed.write("c.example", day);
        assert_eq!(hosts(&signed.list.read(now).unwrap()), ["c.example:1"]);
    }

    #[test]
    fn a_running_program_reads_the_list_each_hour() {
        let dir = tempfile::tempdir().unwrap();
        let signed = Signed::new(dir.path());
        let (woken, wakes) = mpsc::channel();
        let wake: Wake = Arc::new(move || woken.send(()).unwrap_or_default());
        let mut watch = RelayWatch::new(Some(signed.list.clone()), Duration::ZERO, wake);
        let at_hour = |watch: &mut RelayWatch, hour: u32| {
            assert_eq!(watch.poll_timeout(), Some(AGAIN * hour));
            assert!(watch.poll(AGAIN * hour - Duration::from_millis(1)).is_none());
            assert!(watch.poll(AGAIN * hour).is_none());
            wakes.recv().unwrap();
            watch.poll(AGAIN * hour).expect("it was read")
        };
        let hosts = |list: &LookedUpList| hosts_of(list.relays.iter().map(|(relay, _)| relay));
        signed.write("192.0.2.1", 1);
        let read = at_hour(&mut watch, 1).unwrap();
        assert_eq!(hosts(&read), ["192.0.2.1:1"]);
        // The thread has looked it up.
        let udp = read.relays[0].1.as_ref().map(|uses| uses.udp.clone());
        assert_eq!(udp.unwrap(), ["192.0.2.1:1".parse().unwrap()]);
        // An earlier one does not replace it, also later.
        signed.write("192.0.2.2", 0);
        for hour in 2..4 {
            assert!(matches!(at_hour(&mut watch, hour), Err(RelayListError::Older(_))));
        }
        signed.write("192.0.2.3", 2);
        assert_eq!(hosts(&at_hour(&mut watch, 4).unwrap()), ["192.0.2.3:1"]);
    }
}
