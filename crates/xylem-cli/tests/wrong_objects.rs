//! `get NAME` brings the object of exactly that name, or nothing.
#![cfg(unix)]

use crate::common::forwarder::answering;
use crate::common::{Node, assert_exit, file, finish, stderr, text, xylem};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use xylem_client::{Metadata, satisfies};
use xylem_packet::{Component, ContentType, Data, DataBuilder, Name};
use xylem_trust::{PublicKey, Signer};

/// `xylem ndn put`, killed when dropped.
struct Put(Child);

impl Put {
    fn start(dir: &Path, at: &str, name: &str, source: &Path, more: &[&str]) -> Self {
        let mut command = xylem(&dir.join("store"));
        command
            .args(["ndn", "put", name, text(source), "--at", at, "--freshness", "3600"])
            .args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).unwrap();
        assert!(line.starts_with(name), "{line}");
        Self(child)
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fetches a name into a folder of its own, from `from` alone; returns the output and the files in the folder.
fn get(dir: &Path, name: &str, publisher: &str, from: &str, to: &str) -> (Output, Vec<PathBuf>) {
    let to = dir.join(to);
    fs::create_dir(&to).unwrap();
    let mut command = xylem(&dir.join("store"));
    command.args(["get", name, "--publisher", publisher, "--from", from, "--timeout", "5"]);
    command.current_dir(&to).stdin(Stdio::null());
    let output = finish(command);
    let there = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path()).collect();
    (output, there)
}

/// A signing key, and its `--publisher` text.
fn signer(seed: &[u8; 32]) -> (Signer, String) {
    let signer = Signer::ed25519(seed, "/p/KEY/1".parse().unwrap());
    let Some(PublicKey::Ed25519(key)) = signer.public() else { panic!("an Ed25519 key") };
    (signer, key.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn a_name_never_fetches_an_object_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let secret = file(dir, "secret", b"not for everybody");
    let _one = Put::start(dir, at, "/conf/drafts/secret", &secret, &[]);
    let _many = Put::start(dir, at, "/long/drafts/secret", &secret, &["--segments"]);
    let seed = fs::read(dir.join("store/keys/publisher")).unwrap().try_into().unwrap();
    let (_, publisher) = signer(&seed);
    // Fetched once, both lie in the forwarder's cache, which answers any prefix of their names.
    for (i, name) in ["/conf", "/long"].into_iter().enumerate() {
        let full = format!("{name}/drafts/secret");
        let (output, there) = get(dir, &full, &publisher, at, &format!("right-{i}"));
        assert_exit(&output, 0);
        assert_eq!(fs::read(&there[0]).unwrap(), b"not for everybody");
        for (j, wrong) in [name.to_owned(), format!("{name}/drafts")].iter().enumerate() {
            let (output, there) = get(dir, wrong, &publisher, at, &format!("wrong-{i}-{j}"));
            assert_exit(&output, 3);
            assert!(stderr(&output).contains(&format!("the answer was {full}")), "{output:?}");
            assert_eq!(there, Vec::<PathBuf>::new());
        }
    }
}

/// Runs `get /conf` where only one packet exists, signed by the publisher; returns the output and the resulting files.
fn get_conf(number: usize, name: &str, typ: u64, content: &[u8]) -> (Output, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (signer, publisher) = signer(&[7; 32]);
    let name: Name = name.parse().unwrap();
    let builder = DataBuilder::new(name.as_ref())
        .content_type(ContentType(typ))
        .freshness_ms(3_600_000)
        .final_block_id(Component::segment(0));
    let mut packet = Vec::new();
    signer.data(builder, content, &mut packet).unwrap();
    let socket = dir.join(format!("{number}.sock"));
    // Answers as a cache with no other packet may.
    let from = answering(&socket, move |asked| {
        let data = Data::decode(&packet).unwrap();
        if satisfies(&data, asked) { packet.clone() } else { Vec::new() }
    });
    let (output, there) = get(dir, "/conf", &publisher, &from, "got");
    (output, there.iter().map(|path| fs::read(path).unwrap()).collect())
}

fn pointer(to: &str) -> Vec<u8> {
    let (mut content, to): (_, Name) = (Vec::new(), to.parse().unwrap());
    let name = to.as_ref();
    Metadata { name, final_block_id: None, segment_size: None, size: None }.encode(&mut content);
    content
}

#[test]
fn a_signed_packet_of_another_kind_is_refused_and_named() {
    let cases: Vec<(&str, u64, Vec<u8>, i32)> = vec![
        ("/conf/drafts/secret", 0, b"draft".to_vec(), 3),
        ("/conf/drafts/v=1/seg=0", 0, b"draft".to_vec(), 3),
        ("/conf/v=1/v=1/seg=0", 0, b"draft".to_vec(), 3),
        ("/conf/v=1/32=file/seq=0/seg=0", 0, b"draft".to_vec(), 3),
        ("/conf/v=1/_root", 0, b"a manifest".to_vec(), 3),
        ("/conf/v=1", 0, b"no segment".to_vec(), 3),
        ("/conf/KEY/1/self/v=1", 2, b"a certificate".to_vec(), 3),
        ("/conf", 2, b"a key".to_vec(), 3),
        ("/conf", 3, b"a refusal".to_vec(), 3),
        ("/conf", 1, b"a link".to_vec(), 3),
        ("/conf/v=1/seg=0", 3, b"a refusal".to_vec(), 3),
        ("/conf/32=metadata", 3, b"a refusal".to_vec(), 3),
        ("/conf/32=metadata", 0, pointer("/conf/v=1"), 3),
        ("/conf/drafts/32=metadata/v=1/seg=0", 0, pointer("/conf/drafts/v=1"), 3),
        // False signed metadata.
        ("/conf/32=metadata/v=1/seg=0", 0, pointer("/conf/drafts/v=1"), 1),
        ("/conf/32=metadata/v=1/seg=0", 0, pointer("/conf"), 1),
        ("/conf/32=metadata/v=1/seg=0", 0, pointer("/con/v=1"), 1),
    ];
    let run = |(number, case): (usize, (&'static str, u64, Vec<u8>, i32))| {
        std::thread::spawn(move || {
            let (name, typ, content, code) = case;
            let (output, there) = get_conf(number, name, typ, &content);
            assert_eq!(output.status.code(), Some(code), "{name} {typ}: {output:?}");
            let said = stderr(&output);
            assert!(said.contains(name) || code == 1, "{name} {typ}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(there.is_empty(), "{name} {typ} left {there:?}");
        })
    };
    let runs: Vec<_> = cases.into_iter().enumerate().map(run).collect();
    runs.into_iter().for_each(|run| run.join().unwrap());
}

#[test]
fn every_form_in_which_others_publish_is_found() {
    for (number, name) in ["/conf", "/conf/seg=0", "/conf/v=9/seg=0"].into_iter().enumerate() {
        let (output, there) = get_conf(number, name, 0, b"settings");
        assert_exit(&output, 0);
        assert_eq!(there, [b"settings"], "{name}");
    }
}
