//! Kills, damage, liars and a full disk, with the real program in two processes: never a wrong file, never a panic, and
//! no verified data lost.

mod common;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Share, assert_exit, file, finish, get, get_json, noise, stderr, text, xylem};
use xylem_packet::{Data, Packet};

const SIZE: usize = 40_000_000;

/// Starts a slow `get`, kills it with SIGKILL once about `bytes` have been verified, and returns
/// how many it had reported as verified.
fn killed_get(store: &Path, ticket: &str, out: &Path, bytes: u64) -> u64 {
    let mut command = xylem(store);
    command.args(["--json", "get", ticket, "--limit", "40M", "-o"]).arg(out);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut verified = 0;
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "progress" {
            verified = event["verified"].as_u64().unwrap();
        }
        assert!(event["event"] != "done", "the transfer was over before the kill");
        if verified >= bytes {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    verified
}

fn part_of(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap().to_str().unwrap();
    out.with_file_name(format!(".{name}.xylem-part"))
}

#[test]
fn a_killed_get_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let content = noise(SIZE, 1);
    let source = file(dir.path(), "source", &content);
    let share = Share::start(&source, &store);
    let out = dir.path().join("out");
    for stop_at in [2_000_000, 12_000_000, 25_000_000] {
        let verified = killed_get(&other, &share.ticket, &out, stop_at);
        assert!(!out.exists() && part_of(&out).exists());
        // Data verified before are there again, except for at most 1 %.
        let mut command = xylem(&other);
        command.args(["--json", "get", &share.ticket, "--limit", "40M", "-o", text(&out)]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let resumed = lines
            .map(|l| serde_json::from_str::<serde_json::Value>(&l.unwrap()).unwrap())
            .find(|e| e["event"] == "resumed")
            .expect("an interrupted get resumes");
        child.kill().unwrap();
        child.wait().unwrap();
        let resumed = resumed["bytes"].as_u64().unwrap();
        assert!(resumed * 100 >= verified * 99, "verified {verified}, resumed {resumed}");
    }
    let (code, done) = get_json(&other, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    assert!(done["resumed"].as_u64().unwrap() >= 24_750_000, "{done}");
    assert!(fs::read(&out).unwrap() == content);
    assert!(!part_of(&out).exists());
}

#[test]
fn a_byte_flipped_in_the_partial_file_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let content = noise(SIZE, 2);
    let source = file(dir.path(), "source", &content);
    let share = Share::start(&source, &store);
    let out = dir.path().join("out");
    killed_get(&other, &share.ticket, &out, 15_000_000);
    let part = fs::OpenOptions::new().read(true).write(true).open(part_of(&out)).unwrap();
    let mut byte = [0];
    part.read_exact_at(&mut byte, 5_000_000).unwrap();
    part.write_all_at(&[byte[0] ^ 0x10], 5_000_000).unwrap();
    let (code, done) = get_json(&other, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    let (resumed, fetched) = (done["resumed"].as_u64().unwrap(), done["fetched"].as_u64().unwrap());
    assert!(resumed > 14_000_000, "one flipped byte costs a piece, not the file: {done}");
    assert!(resumed + fetched >= SIZE as u64, "{done}");
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn a_killed_directory_get_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let source = dir.path().join("tree");
    fs::create_dir_all(source.join("sub")).unwrap();
    for i in 0..600 {
        file(&source.join("sub"), &format!("small-{i:03}"), &noise(20_000, i));
    }
    file(&source, "big", &noise(15_000_000, 3));
    let share = Share::start(&source, &store);
    let out = dir.path().join("out");
    let verified = killed_get(&other, &share.ticket, &out, 20_000_000);
    assert!(!out.exists() && part_of(&out).is_dir());
    let (code, done) = get_json(&other, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    assert!(done["resumed"].as_u64().unwrap() * 100 >= verified * 99, "{verified}: {done}");
    let same = std::process::Command::new("diff").arg("-r").args([&source, &out]).status().unwrap();
    assert!(same.success());
}

#[test]
fn a_get_that_a_signal_ends_keeps_verified_data() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let source = file(dir.path(), "source", &noise(SIZE, 4));
    let share = Share::start(&source, &store);
    let out = dir.path().join("out");
    let mut command = xylem(&other);
    command.args(["get", &share.ticket, "--limit", "20M", "-o", text(&out)]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (code, done) = get_json(&other, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    assert!(done["resumed"].as_u64().unwrap() > 2_000_000, "{done}");
    assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap());
}

/// Changes a byte of a shared file behind the publisher's back: size and time stay.
fn tamper(path: &Path, offset: u64) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    file.set_modified(before).unwrap();
}

#[test]
fn a_wrong_byte_over_the_encrypted_link_never_becomes_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(8_000_000, 5));
    let share = Share::start(&source, &dir.path().join("store"));
    tamper(&source, 4_000_000);
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "-o", text(&out), "--timeout", "5"];
    let output = get(&dir.path().join("store-2"), &arguments);
    assert_exit(&output, 3);
    assert!(!out.exists(), "a wrong file must never appear");
    assert_eq!(stderr(&output).lines().filter(|l| l.starts_with("xylem:")).count(), 1);
    // Once mended, the rest is fetched; segments that had been verified are not asked for again.
    tamper(&source, 4_000_000);
    let (code, done) = get_json(&dir.path().join("store-2"), &arguments);
    assert_eq!(code, Some(0));
    assert!(done["resumed"].as_u64().unwrap() > 1_000_000, "{done}");
    assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap());
}

/// How a lying peer changes the Data that pass through it.
#[derive(Clone, Copy)]
enum Lie {
    /// No change: an honest peer at the distance of the liars.
    None,
    FlipContent {
        every: u64,
    },
    FlipProof {
        every: u64,
    },
    FlipManifestSignature,
    Truncate {
        every: u64,
    },
    Oversize {
        every: u64,
    },
    Garbage {
        every: u64,
    },
    WrongName {
        every: u64,
    },
    Silence {
        after: u64,
    },
}

/// A peer that speaks plain NDN over UDP, asks an honest one, and lies about the answers.
struct Proxy {
    address: SocketAddr,
    share: Share,
    lies: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Proxy {
    fn to(share: Share, lie: Lie) -> Self {
        let upstream: SocketAddr = share.plain.as_deref().unwrap().parse().unwrap();
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(upstream).unwrap();
        front.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        back.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let address = front.local_addr().unwrap();
        let (stop, lies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, told) = (stop.clone(), lies.clone());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let (mut client, mut seen) = (None, 0);
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((len, from)) = front.recv_from(&mut buffer) {
                    client = Some(from);
                    let _ = back.send(&buffer[..len]);
                }
                while let Ok(len) = back.recv(&mut buffer) {
                    seen += 1;
                    let Some(client) = client else { continue };
                    let answer = twist(lie, &buffer[..len], seen);
                    if answer != buffer[..len] {
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                    if !answer.is_empty() {
                        let _ = front.send_to(&answer, client);
                    }
                }
            }
        });
        Self { address, share, lies, stop }
    }

    fn url(&self) -> String {
        format!("udp://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn twist(lie: Lie, packet: &[u8], seen: u64) -> Vec<u8> {
    let mut answer = packet.to_vec();
    let Ok(Packet::Data(data)) = Packet::decode(packet) else { return answer };
    let manifest = data.name().to_string().ends_with("/_root");
    let now = |every: u64| !manifest && seen.is_multiple_of(every);
    match lie {
        Lie::FlipContent { every } if now(every) && !data.content().is_empty() => {
            answer[data.content_range().start] ^= 1;
        }
        Lie::FlipProof { every } if now(every) => *answer.last_mut().unwrap() ^= 1,
        Lie::FlipManifestSignature if manifest => *answer.last_mut().unwrap() ^= 1,
        Lie::Truncate { every } if now(every) => answer.truncate(packet.len() / 2),
        Lie::Oversize { every } if now(every) => answer.resize(20_000, 0xaa),
        Lie::Garbage { every } if now(every) => answer = noise(packet.len(), seen),
        Lie::WrongName { every } if now(every) => answer = renamed(&data),
        Lie::Silence { after } if seen > after => answer.clear(),
        _ => {}
    }
    answer
}

/// The same Data under the name of another segment.
fn renamed(data: &Data<'_>) -> Vec<u8> {
    let mut answer = data.wire().to_vec();
    let name = data.name().value();
    let at = answer.windows(name.len()).position(|w| w == name).unwrap();
    answer[at + name.len() - 1] ^= 1;
    answer
}

const LIES: [(&str, Lie); 8] = [
    ("wrong byte", Lie::FlipContent { every: 9 }),
    ("wrong proof", Lie::FlipProof { every: 9 }),
    ("wrong manifest signature", Lie::FlipManifestSignature),
    ("truncated", Lie::Truncate { every: 9 }),
    ("oversized", Lie::Oversize { every: 9 }),
    ("garbage", Lie::Garbage { every: 9 }),
    ("another segment's name", Lie::WrongName { every: 9 }),
    ("falls silent", Lie::Silence { after: 100 }),
];

#[test]
fn with_a_second_peer_every_liar_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(6_000_000, 6);
    let source = file(dir.path(), "source", &content);
    let store = dir.path().join("store");
    for (i, (what, lie)) in LIES.into_iter().enumerate() {
        // Behind a proxy too: otherwise it might deliver everything before the liar sends any Data.
        let honest = Proxy::to(Share::plain(&source, &store), Lie::None);
        let honest_url = honest.url();
        let liar = Proxy::to(Share::plain(&source, &store), lie);
        let out = dir.path().join(format!("out-{i}"));
        let liar_url = liar.url();
        let arguments =
            [&liar.share.ticket, "--from", &liar_url, "--from", &honest_url, "-o", text(&out)];
        let output = get(&dir.path().join(format!("store-{i}")), &arguments);
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == content, "{what}");
        assert!(liar.lies.load(Ordering::Relaxed) > 0, "{what}: the liar was never asked");
    }
}

#[test]
fn a_liar_alone_ends_with_a_clear_line_and_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(3_000_000, 7));
    let store = dir.path().join("store");
    for (i, (what, lie)) in LIES.into_iter().enumerate() {
        let lie = match lie {
            Lie::FlipContent { .. } => Lie::FlipContent { every: 1 },
            Lie::FlipProof { .. } => Lie::FlipProof { every: 1 },
            Lie::Truncate { .. } => Lie::Truncate { every: 1 },
            Lie::Oversize { .. } => Lie::Oversize { every: 1 },
            Lie::Garbage { .. } => Lie::Garbage { every: 1 },
            Lie::WrongName { .. } => Lie::WrongName { every: 1 },
            Lie::FlipManifestSignature | Lie::None => lie,
            Lie::Silence { .. } => Lie::Silence { after: 20 },
        };
        let liar = Proxy::to(Share::plain(&source, &store), lie);
        let out = dir.path().join(format!("out-{i}"));
        let url = liar.url();
        let arguments = [&liar.share.ticket, "--from", &url, "-o", text(&out), "--timeout", "3"];
        let begun = Instant::now();
        let output = get(&dir.path().join(format!("store-{i}")), &arguments);
        assert_exit(&output, 3);
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        assert!(!out.exists(), "{what}");
        let lines = stderr(&output).lines().filter(|l| l.starts_with("xylem:")).count();
        assert_eq!(lines, 1, "{what}: {}", stderr(&output));
    }
}

#[test]
fn an_edited_file_is_no_longer_served_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(3_000_000, 8));
    let share = Share::start(&source, &dir.path().join("store"));
    fs::write(&source, noise(3_000_000, 9)).unwrap();
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out), "--timeout", "3"]);
    assert_exit(&output, 3);
    assert!(!out.exists());
}

#[test]
fn the_ticket_binds_the_peer() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(100_000, 10));
    let share = Share::start(&source, &dir.path().join("store"));
    let stranger = Share::start(&source, &dir.path().join("store-2"));
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "--from", &stranger.link, "-o", text(&out), "--timeout", "3"];
    let output = get(&dir.path().join("store-3"), &arguments);
    assert_exit(&output, 3);
    assert!(!out.exists());
}

#[test]
fn nobody_there_is_exit_3() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(100_000, 11));
    let ticket = Share::start(&source, &dir.path().join("store")).ticket.clone();
    let output = get(&dir.path().join("store-2"), &[&ticket, "--timeout", "2"]);
    assert_exit(&output, 3);
}

/// A small file system of its own, unmounted when dropped; `None` where that isn't allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, bytes: usize) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let options = format!("size={bytes}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|s| s.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_exit_4_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let content = noise(12_000_000, 12);
    let source = file(dir.path(), "source", &content);
    let share = Share::start(&source, &store);
    let Some(disk) = SmallDisk::mount(dir.path().join("disk"), 8 << 20) else {
        common::skipped("no right to mount a small file system");
        return;
    };
    let out = disk.0.join("out");
    // As when another program fills the disk meanwhile, which no check at the beginning can find.
    let output = get(&other, &[&share.ticket, "-o", text(&out), "--no-space-check"]);
    assert_exit(&output, 4);
    assert!(stderr(&output).to_lowercase().contains("no space"), "{}", stderr(&output));
    assert!(!out.exists());
    let grown =
        std::process::Command::new("mount").args(["-o", "remount,size=32m"]).arg(&disk.0).status();
    assert!(grown.unwrap().success());
    let (code, done) = get_json(&other, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    assert!(done["resumed"].as_u64().unwrap() > 7_000_000, "{done}");
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn a_share_on_a_full_disk_reports_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(40_000_000, 13));
    let Some(disk) = SmallDisk::mount(dir.path().join("disk"), 128 << 10) else {
        common::skipped("no right to mount a small file system");
        return;
    };
    let mut command = xylem(&disk.0.join("store"));
    command.args(["share", "--listen", "127.0.0.1:0"]).arg(&source);
    assert_exit(&finish(command), 4);
}
