//! `get` of a file that another program published with a SHA-256 tree (signature type 9): proven segment by segment.
#![cfg(unix)]

use crate::common::forwarder::answering;
use crate::common::serving::run;
use crate::common::{assert_exit, stderr, sum, text};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use xylem_object::{
    Manifest, ObjectId, ObjectSource, Publication, PublicationKind, PublisherKey, ServeOutcome,
    sign_manifest,
};
use xylem_packet::{Data, Name};
use xylem_sim::noise;
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentSize, TreeKind};

/// A file in memory, and its tree.
struct Memory(Vec<u8>, Outboard);

impl ObjectSource for Memory {
    type Error = std::io::Error;

    fn geometry(&mut self, _: ObjectId) -> Option<Geometry> {
        None
    }

    fn read_content(&mut self, _: ObjectId, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        out.copy_from_slice(&self.0[at as usize..][..out.len()]);
        Ok(())
    }

    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> std::io::Result<()> {
        let nodes = self.1.as_bytes().read_nodes(slot, out);
        nodes.map_err(|_| std::io::ErrorKind::InvalidInput.into())
    }
}

/// Publishes this content at a socket, its segments damaged by `lie`; returns the publisher and the address.
fn publish(
    dir: &Path,
    content: &[u8],
    change: impl FnOnce(&mut Manifest),
    lie: impl Fn(&str, &mut Vec<u8>) + Send + Sync + 'static,
) -> (String, String) {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let prefix: Name = "/sha/film/v=7".parse().unwrap();
    let outboard = Outboard::of_kind(content, SegmentSize::DEFAULT, TreeKind::Sha256);
    let plain = Manifest::file(outboard.root(), content.len() as u64, b"film");
    let mut manifest = Manifest { tree: TreeKind::Sha256, ..plain };
    change(&mut manifest);
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
    let publication = Publication::new(prefix, packet, &key.public()).unwrap();
    let served = Mutex::new((publication, Memory(content.to_vec(), outboard)));
    let at = answering(&dir.join("peer.sock"), move |interest| {
        let (mut out, mut served) = (Vec::new(), served.lock().unwrap());
        let (publication, memory) = &mut *served;
        match publication.answer(interest, memory, &mut out) {
            Ok(ServeOutcome::Data) => lie(&interest.name().to_string(), &mut out),
            _ => out.clear(),
        }
        out
    });
    (key.public().to_string(), at)
}

fn get(dir: &Path, name: &str, publisher: &str, at: &str, out: &str) -> std::process::Output {
    let publisher = ["--publisher", publisher, "--from", at, "--timeout", "5"];
    run(dir, &[&["get", name, "-o", out, "--no-serve"], &publisher[..]].concat())
}

#[test]
fn a_file_with_a_sha256_tree_is_fetched_and_proven() {
    for len in [0, 1, 8192, 8193, 3_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let content = noise(len, 5);
        let (publisher, at) = publish(dir, &content, |_| (), |_, _| ());
        let output = get(dir, "/sha/film/v=7", &publisher, &at, "got");
        assert_exit(&output, 0);
        let got = dir.join("got");
        assert_eq!(fs::read(&got).unwrap(), content, "{len}");
        // `get` prints the root that `sum` prints of the file, as for any other.
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains(&sum(&got)), "{printed}");
        // To standard output, and one part of it.
        if len == 3_000_000 {
            let all = run(
                dir,
                &["get", "/sha/film/v=7", "-o", "-", "--publisher", &publisher, "--from", &at],
            );
            assert_exit(&all, 0);
            assert!(all.stdout == content);
            let taken = get(dir, "/sha/film/v=7", &publisher, &at, "got");
            assert_exit(&taken, 2);
        }
    }
}

/// A forwarder can't change a segment.
#[test]
fn a_segment_that_is_not_in_the_tree_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let content = noise(100_000, 5);
    let (publisher, at) = publish(
        dir,
        &content,
        |_| (),
        |name, packet| {
            if name.ends_with("/seg=3") {
                let place = Data::decode(packet).unwrap().content_range().start;
                packet[place] ^= 1;
            }
        },
    );
    let output = get(dir, "/sha/film/v=7", &publisher, &at, "got");
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(!dir.join("got").exists());
}

#[test]
fn a_directory_with_a_sha256_tree_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let directory = |manifest: &mut Manifest| {
        (manifest.kind, manifest.file_count) = (PublicationKind::Directory, 1);
    };
    let (publisher, at) = publish(dir, b"a listing", directory, |_, _| ());
    let output = get(dir, "/sha/film/v=7", &publisher, &at, text(&dir.join("got")));
    assert!(!output.status.success());
    assert!(stderr(&output).contains("SHA-256 tree"), "{}", stderr(&output));
}
