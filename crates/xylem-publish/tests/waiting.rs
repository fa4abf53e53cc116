//! A disk that blocks until a gate opens, behind a loop that must not block.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::{Stop, UnixTime};
use xylem_faults::Gate;
use xylem_files::walk::Selection;
use xylem_object::naming::{self, ObjectId, PublicationRequest};
use xylem_object::{Publication, PublisherKey, ServeOutcome};
use xylem_packet::{Interest, InterestBuilder, Name};
use xylem_publish::publications::{Publications, ReceivedInterest, ServedContent};
use xylem_publish::publish;
use xylem_store::Store;
use xylem_tree::{SegmentIndex, Tile};

const NOW: Duration = Duration::from_secs(5);

/// Answers an Interest for this request, as the serving loop does.
fn answered(all: &mut Publications, prefix: &Name, request: PublicationRequest) -> ServeOutcome {
    let (name, mut packet) = (naming::encode(prefix.as_ref(), &request), Vec::new());
    InterestBuilder::new(name.as_ref()).nonce([1; 4]).encode(&mut packet).unwrap();
    let interest = Interest::decode(&packet).unwrap();
    let asked = ReceivedInterest { now: NOW, by: 1, interest: &interest, packet: &packet };
    all.answer(&asked, &mut Vec::new()).1.unwrap()
}

#[test]
fn trees_listings_and_opening_wait_on_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (file, folder) = (dir.path().join("file"), dir.path().join("folder"));
    fs::write(&file, vec![1; 1_000_000]).unwrap();
    fs::create_dir(&folder).unwrap();
    for n in 0..100 {
        fs::write(folder.join(format!("{n:03}")), vec![n; 20_000]).unwrap();
    }
    let gate = Gate::closed().with_distance(false);
    let segment =
        |object, index| PublicationRequest::Segment { object, index: SegmentIndex(index) };
    let tile = |object| PublicationRequest::Tile { object, tile: Tile { tier: 0, index: 0 } };
    let requests = [
        (&file, segment(ObjectId::Root, 20)),
        (&file, tile(ObjectId::Root)),
        (&folder, segment(ObjectId::Root, 0)),
        (&folder, segment(ObjectId::File(70), 2)),
    ];
    for (path, request) in requests {
        gate.open();
        let store = Store::open(Arc::new(gate.clone()), &dir.path().join("store")).unwrap();
        let key = PublisherKey::from_bytes(&[7; 32]);
        let name = |file: &[u8]| naming::default_name(&key.public(), file);
        let (selection, now) = (Selection::default(), UnixTime::new(NOW));
        let (published, prefix) =
            publish(&store, path, &name, &selection, now, &Stop::new(), &mut |_| {}).unwrap();
        let packet = published.sign(&prefix, &key).unwrap();
        let publication = Publication::new(prefix.clone(), packet, &key.public()).unwrap().into();
        let serving = Box::new(published.serve_without_waiting(store.medium().clone()));
        let mut all = Publications::default();
        all.add(ServedContent::Still { publication, serving });
        gate.close();
        assert_eq!(answered(&mut all, &prefix, request), ServeOutcome::NotYet, "{request:?}");
        assert!(all.ready(NOW).is_empty());
        gate.open();
        let deadline = Instant::now() + Duration::from_secs(30);
        while all.ready(NOW).is_empty() {
            assert!(Instant::now() < deadline, "{request:?} is never ready");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answered(&mut all, &prefix, request), ServeOutcome::Data, "{request:?}");
    }
}
