//! `xylem ndn dump` and `xylem ndn dissect` on the real program.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::common::{assert_exit, file, finish, stderr, text, xylem};
use xylem_packet::{
    DataBuilder, InterestBuilder, LpPacket, NackReason, Name, SignatureType, sha256,
};

fn interest(uri: &str) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let mut wire = Vec::new();
    InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).hop_limit(5).encode(&mut wire).unwrap();
    wire
}

fn data(uri: &str) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let mut wire = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(10)
        .signature(SignatureType::DIGEST_SHA256, None)
        .encode(&mut wire, b"hello", |signed, value| value.extend(sha256(signed)))
        .unwrap();
    wire
}

fn nack(interest: &[u8]) -> Vec<u8> {
    let lp = LpPacket {
        nack: Some(NackReason::NO_ROUTE),
        pit_token: Some(&[0xab; 4]),
        fragment: Some(interest),
        ..LpPacket::default()
    };
    let mut wire = Vec::new();
    lp.encode(&mut wire);
    wire
}

/// A pcap file of raw IPv4 packets with these UDP payloads, from 192.0.2.1:4000 to 192.0.2.2:6363.
fn capture(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\x04\0\x65\0\0\0".to_vec();
    for (n, payload) in (1_u32..).zip(payloads) {
        let len = payload.len() as u16 + 28;
        for number in [n, 250_000, len.into(), len.into()] {
            file.extend(number.to_le_bytes());
        }
        file.extend([0x45, 0]);
        file.extend(len.to_be_bytes());
        file.extend([0, 1, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend([4000_u16, 6363, len - 20, 0].map(u16::to_be_bytes).concat());
        file.extend(payload);
    }
    file
}

fn run(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut command = xylem(&dir.join("store"));
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn events(output: &Output) -> Vec<Value> {
    lines(output).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_capture_is_listed_one_line_a_packet() {
    let dir = tempfile::tempdir().unwrap();
    let asked = interest("/alice/note");
    let captured = capture(&[
        asked.clone(),
        data("/alice/note"),
        nack(&asked),
        b"\x05\x02\x07\x01".to_vec(),
        data("/bob"),
    ]);
    let path = file(dir.path(), "capture.pcap", &captured);
    let ends = "udp 192.0.2.1:4000 > 192.0.2.2:6363";
    let wanted = [
        format!("1.250000 {ends} Interest /alice/note nonce 01020304 lifetime 4000 ms hop limit 5"),
        format!("2.250000 {ends} Data /alice/note content 5 B fresh 10 ms DigestSha256"),
        format!(
            "3.250000 {ends} Nack NoRoute /alice/note nonce 01020304 lifetime 4000 ms hop limit 5 token abababab"
        ),
        format!(
            "4.250000 {ends} malformed, 4 bytes: an element extends past the end of its parent"
        ),
        format!("5.250000 {ends} Data /bob content 5 B fresh 10 ms DigestSha256"),
    ];
    // A file, standard input by its name, and standard input without one.
    for (args, input) in [
        (&["ndn", "dump", "-r", text(&path)][..], &b""[..]),
        (&["ndn", "dump", "-r", "-"], &captured),
        (&["ndn", "dump"], &captured),
    ] {
        let output = run(dir.path(), args, input);
        assert_exit(&output, 0);
        assert_eq!(lines(&output), wanted);
    }
    let below = run(dir.path(), &["ndn", "dump", "--below", "/alice"], &captured);
    assert_eq!(lines(&below), wanted[..3]);
}

#[test]
fn a_capture_is_listed_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let asked = interest("/a");
    let output = run(
        dir.path(),
        &["--json", "ndn", "dump"],
        &capture(&[asked.clone(), data("/a"), nack(&asked)]),
    );
    assert_exit(&output, 0);
    let found = events(&output);
    let kinds: Vec<&Value> = found.iter().map(|frame| &frame["kind"]).collect();
    assert_eq!(kinds, ["interest", "data", "nack"]);
    assert_eq!((&found[0]["event"], &found[0]["time"]), (&"frame".into(), &1.25.into()));
    assert_eq!((&found[0]["nonce"], &found[0]["hop_limit"]), (&"01020304".into(), &5.into()));
    assert_eq!(
        (&found[1]["content_bytes"], &found[1]["signature"]),
        (&5.into(), &"DigestSha256".into())
    );
    assert_eq!((&found[2]["nack"], &found[2]["pit_token"]), (&150.into(), &"abababab".into()));
}

#[test]
fn what_is_no_capture_is_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let cut = capture(&[interest("/a"), interest("/b")]);
    let cut = &cut[..cut.len() - 3];
    let output = run(dir.path(), &["ndn", "dump"], cut);
    assert_exit(&output, 2);
    assert_eq!(lines(&output).len(), 1, "what came before is listed");
    assert!(stderr(&output).contains("ends within a record"), "{}", stderr(&output));
    let output = run(dir.path(), &["ndn", "dump"], &interest("/a"));
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("neither a pcap nor a pcapng"), "{}", stderr(&output));
    let mut command = xylem(&dir.path().join("store"));
    command.args(["ndn", "dump", "-r", "absent.pcap"]);
    assert_exit(&finish(command), 2);
}

#[test]
fn a_packet_is_shown_as_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let wire = nack(&interest("/a"));
    let wanted = "    0 100 LpPacket: (33 bytes)
    2   98 PitToken: abababab
    8   800 Nack: (5 bytes)
   12     801 NackReason: 150 (NoRoute)
   17   80 Fragment: (16 bytes)
   19     5 Interest: (14 bytes)
   21       7 Name: /a
   23         8 GenericNameComponent: a
   26       10 Nonce: 01020304
   32       34 HopLimit: 5";
    let path = file(dir.path(), "packet", &wire);
    let digits: String = wire.iter().map(|octet| format!("{octet:02x} ")).collect();
    for (args, input) in [
        (&["ndn", "dissect", text(&path)][..], &b""[..]),
        (&["ndn", "dissect", "-"], &wire),
        (&["ndn", "dissect"], digits.as_bytes()),
    ] {
        let output = run(dir.path(), args, input);
        assert_exit(&output, 0);
        assert_eq!(lines(&output).join("\n"), wanted);
    }
    let found = events(&run(dir.path(), &["--json", "ndn", "dissect"], &wire));
    assert_eq!(found.len(), 10);
    assert_eq!((&found[1]["octets"], &found[1]["text"]), (&"abababab".into(), &Value::Null));
    assert_eq!((&found[6]["name"], &found[6]["text"]), (&"Name".into(), &"/a".into()));
    // A certificate as it is written to files.
    let mut command = xylem(&dir.path().join("store"));
    command.args(["key", "new", "/alice"]);
    assert_exit(&finish(command), 0);
    let mut command = xylem(&dir.path().join("store"));
    command.args(["key", "cert", "/alice"]);
    let certificate = finish(command).stdout;
    let shown = lines(&run(dir.path(), &["ndn", "dissect"], &certificate)).join("\n");
    for part in
        ["ContentType: 2 (KEY)", "ValidityPeriod", "NotBefore: ", "SignatureEd25519", "/alice/KEY/"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn damage_in_a_packet_is_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["ndn", "dissect"], b"\x05\x09\x07\x04\x08\x01a\x08\x22\x01\x03");
    assert_exit(&output, 2);
    assert_eq!(lines(&output).len(), 4, "the rest is shown");
    assert!(stderr(&output).contains("7 bytes from the beginning"), "{}", stderr(&output));
    assert_exit(&run(dir.path(), &["ndn", "dissect"], b""), 2);
    fs::write(dir.path().join("large"), vec![5; (1 << 20) + 1]).unwrap();
    let large = dir.path().join("large");
    assert_exit(&run(dir.path(), &["ndn", "dissect", text(&large)], b""), 2);
}
