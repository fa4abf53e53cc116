//! Fetches objects by name from a hostile forwarder at the other end of the socket.
#![cfg(unix)]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xylem_app::object::{FetchedObject, ObjectError, ObjectOptions, get_object};
use xylem_app::{KeyFile, VerifyWith};
use xylem_base::{Blame, Failure, Stop};
use xylem_client::Metadata;
use xylem_files::{Existing, Output};
use xylem_packet::tlv::types;
use xylem_packet::{Component, DataBuilder, Interest, Name, NameRef, frame_len};
use xylem_peers::reachable::PeerUri;
use xylem_trust::{PublicKey, Signer};

const SEGMENT: usize = 1000;
const LAST: u64 = 9;

/// The forwarder's answer to an Interest.
type Answers = Box<dyn FnMut(&Interest<'_>) -> Option<Vec<u8>> + Send>;

/// Listens at `path` and answers one connection until it ends.
fn forwarder(path: &Path, mut answers: Answers) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut held, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            held.extend_from_slice(&chunk[..read]);
            while let Ok(Some(len)) = frame_len(&held) {
                let frame: Vec<u8> = held.drain(..len).collect();
                let interest = Interest::decode(&frame).expect("the client sends bare Interests");
                if let Some(answer) = answers(&interest)
                    && stream.write_all(&answer).is_err()
                {
                    return;
                }
            }
        }
    });
}

/// A publisher that is honest unless a field states otherwise.
struct Publisher {
    signer: Signer,
    metadata_of: Name,
    size: Option<u64>,
    last_of: fn(u64) -> u64,
    len_of: fn(u64) -> usize,
    damage: bool,
    withhold: Option<u64>,
    /// Whether a manifest was requested.
    asked_for_manifest: Arc<AtomicBool>,
}

impl Publisher {
    fn honest() -> Self {
        Self {
            signer: Signer::digest_sha256(),
            metadata_of: "/o/v=1".parse().unwrap(),
            size: Some(SEGMENT as u64 * (LAST + 1)),
            last_of: |_| LAST,
            len_of: |_| SEGMENT,
            damage: false,
            withhold: None,
            asked_for_manifest: Arc::default(),
        }
    }

    fn data(&self, name: NameRef<'_>, content: &[u8], last: Option<u64>) -> Vec<u8> {
        let mut builder = DataBuilder::new(name).freshness_ms(10);
        if let Some(last) = last {
            builder = builder.final_block_id(Component::segment(last));
        }
        let mut out = Vec::new();
        self.signer.data(builder, content, &mut out).unwrap();
        if self.damage && last.is_some() {
            // A forwarder changes the FinalBlockId and leaves the signature as it is.
            let at = out.windows(3).position(|w| w == [0x32, 1, LAST as u8]).unwrap() + 2;
            out[at] = 3;
        }
        out
    }

    fn answers(self) -> Answers {
        let discovery: Name = "/o/32=metadata".parse().unwrap();
        Box::new(move |interest| {
            let name = interest.name();
            if name == discovery {
                let mut content = Vec::new();
                let (segment_size, size) = (self.size.map(|_| SEGMENT as u64), self.size);
                let name = self.metadata_of.as_ref();
                Metadata { name, final_block_id: None, segment_size, size }.encode(&mut content);
                let name = discovery.child(Component::version(1)).child(Component::segment(0));
                return Some(self.data(name.as_ref(), &content, None));
            }
            if name.last()? == Component::generic(b"_root") {
                self.asked_for_manifest.store(true, Ordering::SeqCst);
            }
            let number = name.last()?.as_number_of(types::SEGMENT_COMPONENT)?;
            if number > LAST || self.withhold == Some(number) {
                return None;
            }
            let content = vec![number as u8; (self.len_of)(number)];
            Some(self.data(name, &content, Some((self.last_of)(number))))
        })
    }
}

/// Fetches `/o` from a publisher. Returns the content, and the number of files left behind.
fn fetch(publisher: Publisher, believe: VerifyWith) -> (Result<Vec<u8>, ObjectError>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("forwarder.sock");
    forwarder(&socket, publisher.answers());
    let to = dir.path().join("got/o");
    std::fs::create_dir(dir.path().join("got")).unwrap();
    let options = ObjectOptions {
        at: Some(PeerUri::unix(&socket)),
        name: "/o".to_owned(),
        believe,
        output: Output::At(to.clone()),
        existing: Existing::Refuse,
        give_up: Duration::from_secs(1),
        whole: true,
    };
    let fetched = get_object(&options, &Stop::new(), &mut |_| {});
    let left = std::fs::read_dir(dir.path().join("got")).unwrap().count();
    let fetched = fetched.map(|fetched| match fetched {
        FetchedObject::Object(summary) => {
            let bytes = std::fs::read(&to).unwrap();
            assert_eq!(summary.bytes, bytes.len() as u64);
            bytes
        }
        FetchedObject::Ours { .. } => panic!("no manifest was published"),
    });
    (fetched, left)
}

fn key(dir: &Path) -> (KeyFile, Signer) {
    let path = dir.join("secret");
    std::fs::write(&path, [7; 32]).unwrap();
    let file = format!("hmac:{}", path.display()).parse().unwrap();
    (file, Signer::hmac(&[7; 32], "/o/KEY/1".parse().unwrap()))
}

#[track_caller]
fn refused(publisher: Publisher, believe: VerifyWith, part: &str) {
    let (fetched, left) = fetch(publisher, believe);
    let error = fetched.expect_err("it lies");
    assert_eq!(error.blame(), Blame::Data, "{error}");
    assert!(error.to_string().contains(part), "{error}");
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn an_honest_object_arrives() {
    let whole: Vec<u8> = (0..=LAST as u8).flat_map(|n| vec![n; SEGMENT]).collect();
    let (fetched, left) = fetch(Publisher::honest(), VerifyWith::Nobody);
    assert_eq!((fetched.unwrap(), left), (whole.clone(), 1));
    let dir = tempfile::tempdir().unwrap();
    let (file, signer) = key(dir.path());
    let (fetched, _) = fetch(Publisher { signer, ..Publisher::honest() }, VerifyWith::Key(file));
    assert_eq!(fetched.unwrap(), whole);
}

#[test]
fn a_truncated_object_is_refused_if_its_size_is_known() {
    refused(
        Publisher { last_of: |_| 3, ..Publisher::honest() },
        VerifyWith::Nobody,
        "metadata states",
    );
}

#[test]
fn packets_that_disagree_about_the_end_are_refused() {
    let last_of = |n| if n < 4 { LAST } else { LAST + 1 };
    refused(
        Publisher { last_of, size: None, ..Publisher::honest() },
        VerifyWith::Nobody,
        "different last segments",
    );
    let last_of = |n| if n == 0 { LAST } else { n - 1 };
    refused(
        Publisher { last_of, size: None, ..Publisher::honest() },
        VerifyWith::Nobody,
        "different last segments",
    );
}

#[test]
fn a_changed_final_block_id_breaks_the_signature() {
    let dir = tempfile::tempdir().unwrap();
    let (file, signer) = key(dir.path());
    let publisher = Publisher { signer, damage: true, size: None, ..Publisher::honest() };
    refused(publisher, VerifyWith::Key(file.clone()), "signature is wrong");
    // A correct digest is no signature by the key.
    refused(Publisher::honest(), VerifyWith::Key(file), "signature type 0");
}

#[test]
fn segments_of_other_lengths_are_refused() {
    let len_of = |n| if n == 4 { SEGMENT - 1 } else { SEGMENT };
    refused(Publisher { len_of, ..Publisher::honest() }, VerifyWith::Nobody, "segment 4 has 999");
    let len_of = |n| if n == LAST { SEGMENT / 2 } else { SEGMENT };
    refused(Publisher { len_of, ..Publisher::honest() }, VerifyWith::Nobody, "metadata states");
}

#[test]
fn metadata_of_another_object_is_refused() {
    let publisher = Publisher { metadata_of: "/other/v=1".parse().unwrap(), ..Publisher::honest() };
    refused(publisher, VerifyWith::Nobody, "another object");
}

#[test]
fn a_missing_segment_is_a_network_error() {
    let (fetched, left) =
        fetch(Publisher { withhold: Some(5), ..Publisher::honest() }, VerifyWith::Nobody);
    let error = fetched.expect_err("segment 5 never comes");
    assert_eq!(error.blame(), Blame::Network, "{error}");
    assert!(error.to_string().contains("segment 5"), "{error}");
    assert_eq!(left, 0);
}

/// The publisher would not answer such a request, and the fetch would wait for its timeout.
#[test]
fn no_manifest_is_requested_for_individually_signed_packets() {
    let signer = Signer::ed25519(&[7; 32], "/o/KEY/1".parse().unwrap());
    let Some(PublicKey::Ed25519(key)) = signer.public() else { panic!("an Ed25519 key") };
    let believe = VerifyWith::Publisher(key.iter().map(|b| format!("{b:02x}")).collect());
    let publisher = Publisher { signer, ..Publisher::honest() };
    let asked = publisher.asked_for_manifest.clone();
    let (fetched, _) = fetch(publisher, believe);
    assert_eq!(fetched.unwrap().len(), SEGMENT * (LAST as usize + 1));
    assert!(!asked.load(Ordering::SeqCst));
}
