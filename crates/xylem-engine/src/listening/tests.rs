//! Programs that connect through shared memory, some of them misbehaving.

use std::io::Write;
use std::path::Path;

use super::*;
use crate::EngineEvent;
use crate::testing::{engine, until};
use xylem_packet::{DataBuilder, InterestBuilder, Name};

/// Connects while the engine runs.
fn join(engine: &mut Engine, path: &Path) -> SharedStream {
    let path = path.to_path_buf();
    let joining = std::thread::spawn(move || SharedStream::join(&path));
    until(&mut [engine], || {}, |_, _| joining.is_finished());
    joining.join().expect("no panic").expect("memory")
}

fn faces_through_memory(engine: &Engine) -> Vec<FaceId> {
    let shared = |face: &EngineFace| match &face.transport {
        Transport::Stream(stream) => stream.is_shared(),
        _ => false,
    };
    engine.faces().filter(|(_, face)| shared(face)).map(|(id, _)| id).collect()
}

fn interest(name: &Name) -> Vec<u8> {
    let mut packet = Vec::new();
    InterestBuilder::new(name.as_ref()).nonce([1; 4]).encode(&mut packet).expect("a name");
    packet
}

/// Sends an Interest below `/p`, which the engine's program answers.
fn is_served(engine: &mut Engine, program: &mut SharedStream, name: &str) {
    let name: Name = name.parse().expect("a name");
    let asked = interest(&name);
    assert_eq!(program.write(&asked).expect("room"), asked.len());
    until(
        &mut [engine],
        || {},
        |engines, events| {
            let came = events.iter().any(
                |e| matches!(e, EngineEvent::Packet { packet, .. } if packet[..] == asked[..]),
            );
            if came {
                let mut data = Vec::new();
                let sign = |_: &[u8], value: &mut Vec<u8>| value.extend([0; 32]);
                DataBuilder::new(name.as_ref()).encode(&mut data, b"yes", sign).expect("it fits");
                engines[0].answer(&asked, &data);
            }
            came
        },
    );
    let mut room = [0; 1_000];
    let mut filled = 0;
    until(
        &mut [engine],
        || {},
        |_, _| {
            filled += program.read(&mut room[filled..]).unwrap_or(0);
            room[..filled].windows(3).any(|bytes| bytes == b"yes")
        },
    );
}

#[test]
fn a_misbehaving_program_loses_only_its_own_face() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("n.sock");
    let mut engine = engine(1);
    engine.bind_unix(&path).expect("a socket");
    engine.serve("/p".parse::<Name>().expect("a name").as_ref()).expect("room");
    let mut honest = join(&mut engine, &path);
    let face = faces_through_memory(&engine)[0];
    let local = FaceUri::Unix(shared::ring_path(&path).to_string_lossy().into_owned());
    assert_eq!(engine.face(face).expect("it is up").local, local);
    assert!(matches!(engine.face(face).expect("it is up").remote, FaceUri::Fd(_)));
    assert_eq!(engine.listens_at().iter().filter(|uri| **uri == local).count(), 0);
    is_served(&mut engine, &mut honest, "/p/1");

    // No packets, and more wake-ups than a program can need.
    let mut nonsense = join(&mut engine, &path);
    nonsense.write(&[0xff; 5_000]).expect("room");
    let mut noisy = join(&mut engine, &path);
    noisy.socket().write_all(&[0; 2_000]).expect("room");
    // One program connects and leaves, another leaves in the middle of a packet.
    drop(join(&mut engine, &path));
    let mut torn = join(&mut engine, &path);
    torn.write(&interest(&"/p/torn".parse().expect("a name"))[..5]).expect("room");
    drop(torn);
    until(&mut [&mut engine], || {}, |engines, _| faces_through_memory(engines[0]) == [face]);
    is_served(&mut engine, &mut honest, "/p/2");
    drop(honest);
    until(&mut [&mut engine], || {}, |engines, _| faces_through_memory(engines[0]).is_empty());
}

/// Its memory is bounded: one ring, and the queue for a slow reader.
#[test]
fn a_program_that_never_reads_holds_up_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("n.sock");
    let mut engine = engine(2);
    engine.bind_unix(&path).expect("a socket");
    let name: Name = "/p".parse().expect("a name");
    let mut silent = join(&mut engine, &path);
    let face = faces_through_memory(&engine)[0];
    engine.forwarder.add_route(name.as_ref(), face, 0).expect("room");
    let content = vec![0; 8_000];
    for number in 0..2_000u32 {
        let name = name.child(xylem_packet::Component::segment(number.into()));
        let mut asked = Vec::new();
        let builder = InterestBuilder::new(name.as_ref()).nonce(number.to_be_bytes());
        builder.encode_with_parameters(&mut asked, &content).expect("a name");
        engine.send(&asked);
        engine.flush();
    }
    let unsent = engine.face(face).expect("it stays").unsent();
    assert!((3 << 20..=4 << 20).contains(&unsent), "{unsent} bytes wait");
    let mut honest = join(&mut engine, &path);
    engine.serve("/q".parse::<Name>().expect("a name").as_ref()).expect("room");
    is_served(&mut engine, &mut honest, "/q/1");
    // Once it reads, the waiting packets arrive.
    let (mut room, mut read) = (vec![0; 100_000], 0);
    until(
        &mut [&mut engine],
        || {},
        |engines, _| {
            read += silent.read(&mut room).unwrap_or(0);
            engines[0].face(face).is_some_and(|face| face.unsent() == 0)
        },
    );
    assert!(read > 3 << 20);
}

/// A program beyond the limit has to use the plain socket.
#[test]
fn shared_memory_faces_are_limited() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("n.sock");
    let mut engine = engine(3);
    engine.bind_unix(&path).expect("a socket");
    let all: Vec<SharedStream> = (0..max_shared()).map(|_| join(&mut engine, &path)).collect();
    let more = path.clone();
    let joining = std::thread::spawn(move || SharedStream::join(&more).is_err());
    until(&mut [&mut engine], || {}, |_, _| joining.is_finished());
    assert!(joining.join().expect("no panic"), "refused");
    drop(all);
    until(&mut [&mut engine], || {}, |engines, _| faces_through_memory(engines[0]).is_empty());
    join(&mut engine, &path);
}
