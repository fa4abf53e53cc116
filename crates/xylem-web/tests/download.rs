//! Fetches without a browser: peers are packets in memory, and time is simulated.

use core::time::Duration;
use std::collections::HashMap;

use xylem_object::{Manifest, Packets, PublisherKey, Ticket, fetched, naming, produce};
use xylem_packet::{Data, Packet};
use xylem_web::{Download, PageReport};

/// A published file: its ticket, its bytes, and its packets by name.
struct Published {
    ticket: String,
    content: Vec<u8>,
    packets: HashMap<String, Vec<u8>>,
}

fn published(len: usize, named: bool) -> Published {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let prefix = naming::versioned(naming::default_name(&key.public(), b"f").as_ref(), 1).unwrap();
    let content: Vec<u8> = (0..len).map(|i| (i * 31 + i / 8192) as u8).collect();
    let mut packets = Packets::default();
    let like = Manifest::file(xylem_hash::hash(b""), 0, b"f");
    let manifest = produce(&like, prefix.as_ref(), &content, key.signer(), &mut packets).unwrap();
    let ticket = Ticket {
        publisher: key.public(),
        root: manifest.root,
        name: named.then_some(prefix),
        link_key: None,
        size: None,
        kind: None,
        addresses: Vec::new(),
        relays: Vec::new(),
    };
    let by_name =
        |packet: &[u8]| (Data::decode(packet).unwrap().name().to_string(), packet.to_vec());
    Published {
        ticket: ticket.to_string(),
        content,
        packets: packets.iter().map(by_name).collect(),
    }
}

/// Data that a browser would have kept.
#[derive(Default)]
struct Kept {
    data: Vec<u8>,
    nodes: Vec<u8>,
    said: Vec<String>,
    /// Number of answered segments and tiles.
    answers: usize,
    /// Packets after the end, with the peers to send them to.
    last: Vec<(u32, Vec<u8>)>,
}

/// Fetches until it is done, or until `most` packets have come, starting with the kept data. Peer 1, if present,
/// tampers.
fn fetch(of: &Published, kept: &mut Kept, liar: bool, most: usize) {
    let mut download = Download::new(&of.ticket, 1).unwrap();
    let (mut now, mut interest) = (Duration::ZERO, Vec::new());
    download.add_peer(now, 0);
    if liar {
        download.add_peer(now, 1);
    }
    let mut looked = false;
    for _ in 0..10_000 {
        now += Duration::from_millis(1);
        let mut answers = Vec::new();
        while let Some(peer) = download.poll_transmit(now, &mut interest) {
            let Ok(Packet::Interest(asked)) = Packet::decode(&interest) else {
                panic!("an Interest")
            };
            let mut packet = of.packets[&asked.name().to_string()].clone();
            if peer == 1 {
                let middle = packet.len() / 2;
                packet[middle] ^= 1;
            }
            answers.push((peer, packet));
        }
        for (peer, packet) in answers {
            kept.answers += 1;
            download.handle_message(now, peer, packet.into());
        }
        download.handle_timeout(now);
        if kept.answers >= most {
            download.flush();
        }
        while let Some(told) = download.poll_report() {
            match told {
                PageReport::Run(run) => {
                    let end = run.offset as usize + run.bytes.len();
                    kept.data.resize(kept.data.len().max(end), 0);
                    kept.data[run.offset as usize..end].copy_from_slice(&run.bytes);
                }
                PageReport::Nodes(records) => kept.nodes.extend(records),
                PageReport::Text(text) => kept.said.push(text),
            }
        }
        let says =
            |what: &str| kept.said.iter().any(|text| text.contains(&format!("\"is\":\"{what}\"")));
        if says("done") || says("failed") || kept.answers >= most {
            while let Some(peer) = download.poll_transmit(now, &mut interest) {
                kept.last.push((peer, interest.clone()));
            }
            return;
        }
        if says("layout") && !looked {
            looked = true;
            download.load_nodes(&kept.nodes);
            while let Some(range) = download.next_check() {
                let end = (range.end as usize).min(kept.data.len());
                download.check(&kept.data[(range.start as usize).min(end)..end]);
            }
            download.begin();
        }
    }
    panic!("no end: {:?}", kept.said);
}

#[test]
fn bytes_are_exact_whatever_the_length() {
    for len in [0, 1, 8191, 8192, 8193, 70_000, 3_000_000] {
        let file = published(len, true);
        let mut kept = Kept::default();
        fetch(&file, &mut kept, false, usize::MAX);
        assert!(kept.data == file.content, "{len} bytes");
    }
}

#[test]
fn tampered_segments_are_reported_and_asked_of_another_peer() {
    let file = published(3_000_000, true);
    let mut kept = Kept::default();
    fetch(&file, &mut kept, true, usize::MAX);
    assert!(kept.data == file.content);
    assert!(
        kept.said.iter().any(|text| text.contains("\"is\":\"bad\",\"peer\":1")),
        "{:?}",
        kept.said
    );
    assert!(kept.said.iter().any(|text| text.contains("\"is\":\"dropped\",\"peer\":1")));
}

#[test]
fn kept_data_are_fetched_again_only_if_changed() {
    let file = published(3_000_000, true);
    let mut kept = Kept::default();
    fetch(&file, &mut kept, false, 200);
    let before = std::mem::take(&mut kept.answers);
    assert!(before < file.packets.len(), "all of it came: {before}");
    kept.said.clear();
    kept.data[50_000] ^= 1; // the data of a segment
    let last = kept.nodes.len() - 1;
    kept.nodes[last] ^= 1; // the value of a node
    kept.nodes.extend([0xff; 40]); // and a record of no node
    fetch(&file, &mut kept, false, usize::MAX);
    assert!(kept.data == file.content);
    // The parts that depend on the damaged node and segment come again, and the manifest.
    let twice = (before + kept.answers).saturating_sub(file.packets.len());
    assert!(twice < 60, "{twice} of {before} answers once more");
}

#[test]
fn an_unfit_ticket_is_refused_with_the_reason() {
    let why = |ticket: &str| Download::new(ticket, 1).err().unwrap().to_string();
    assert_eq!(why("hello"), "not a ticket: a ticket begins with \"xylem:\"");
    assert!(why(&published(1, false).ticket).contains("xylem share --web"));
}

/// Sharers show and count complete fetches of browsers as those of `xylem get`.
#[test]
fn a_complete_fetch_is_reported_to_its_peers() {
    let file = published(3_000_000, true);
    let mut kept = Kept::default();
    fetch(&file, &mut kept, false, usize::MAX);
    let [(0, notice)] = &kept.last[..] else { panic!("{} packets", kept.last.len()) };
    let Ok(Packet::Interest(notice)) = Packet::decode(notice) else { panic!("an Interest") };
    let ticket: Ticket = file.ticket.parse().unwrap();
    let told = fetched::parse_notice(ticket.name.unwrap().as_ref(), notice.name());
    assert_eq!(told.expect("a notice").1, 3_000_000);
    // A visit that finds all of it kept fetches nothing, and reports nothing.
    (kept.said, kept.last) = Default::default();
    fetch(&file, &mut kept, false, usize::MAX);
    assert!(kept.said.iter().any(|text| text.contains("done")) && kept.last.is_empty());
}

#[test]
fn a_fetch_waits_for_peers_that_have_gone() {
    let file = published(3_000_000, true);
    let mut download = Download::new(&file.ticket, 1).unwrap();
    let (mut now, mut interest) = (Duration::ZERO, Vec::new());
    let said = |download: &mut Download| {
        let reports = std::iter::from_fn(|| download.poll_report());
        let texts = reports.filter_map(|told| match told {
            PageReport::Text(text) => Some(text),
            _ => None,
        });
        texts.collect::<Vec<_>>().concat()
    };
    // No peer is there at first, and none after the manifest has come.
    for peer in 0..3 {
        for _ in 0..120 {
            now += Duration::from_secs(10);
            download.handle_timeout(now);
        }
        assert!(!said(&mut download).contains("failed"), "peer {peer}");
        download.add_peer(now, peer);
        // Few packets from each, so that some are missing at the end.
        for _ in 0..20 {
            let Some(to) = download.poll_transmit(now, &mut interest) else { break };
            let Ok(Packet::Interest(asked)) = Packet::decode(&interest) else { panic!("asked") };
            let packet = file.packets[&asked.name().to_string()].clone();
            download.handle_message(now, to, packet.into());
        }
        download.handle_timeout(now);
        if said(&mut download).contains("layout") {
            download.begin();
        }
        if peer < 2 {
            download.remove_peer(now, peer);
        }
    }
    // A peer that is connected and sends nothing ends the fetch.
    for _ in 0..120 {
        now += Duration::from_secs(10);
        download.handle_timeout(now);
        while download.poll_transmit(now, &mut interest).is_some() {}
    }
    assert!(said(&mut download).contains("failed"));
}
