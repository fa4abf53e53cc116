//! `AsyncFile`: tasks read exactly what was shared, wherever they seek and whichever reads they drop.

use std::future::poll_fn;
use std::io::SeekFrom;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncSeekExt};
use xylem_base::Stop;
use xylem_node::{Event, PeerAddress, ShareOptions, share};
use xylem_object::Ticket;
use xylem_reader::{AsyncFile, Options, Reader};
use xylem_sim::noise;

/// A share of one file on loopback, in this process; ended when dropped.
struct Sharing {
    ticket: Ticket,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Sharing {
    fn start(path: &Path, store: &Path) -> Self {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ShareOptions {
            paths: vec![path.to_owned()],
            listen: vec![PeerAddress::Link { address: here, key: None }],
            store: store.to_owned(),
            ..ShareOptions::default()
        };
        let (stop, (tell, told)) = (Stop::new(), mpsc::channel());
        let until = stop.clone();
        let thread = thread::spawn(move || {
            let shared = share(&options, &until, &mut |event| {
                if let Event::Shared { ticket, .. } = event {
                    tell.send(*ticket).unwrap();
                }
            });
            shared.unwrap();
        });
        Self { ticket: told.recv().unwrap(), stop, thread: Some(thread) }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.stop.raise();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct World {
    content: Vec<u8>,
    reader: Reader,
    sharing: Option<Sharing>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(size: usize, timeout: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (source, content) = (dir.path().join("source"), noise(size, 1));
        std::fs::write(&source, &content).unwrap();
        let sharing = Sharing::start(&source, &dir.path().join("publisher"));
        let options = Options {
            timeout,
            lan: false,
            ..Options::new(sharing.ticket.clone(), dir.path().join("store"))
        };
        let reader = Reader::open(options, &Stop::new(), Box::new(|_| {})).unwrap();
        Self { content, reader, sharing: Some(sharing), _dir: dir }
    }

    fn open(&self) -> AsyncFile {
        self.reader.open_path(b"source").unwrap().into()
    }
}

/// Runs a task; it fails if the task is never woken.
fn run<T>(task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let late = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(late, task).await }).expect("within a minute")
}

/// Polls once a task that can't finish yet.
async fn waits<T>(mut task: Pin<&mut impl Future<Output = T>>) {
    let once = |cx: &mut Context<'_>| Poll::Ready(task.as_mut().poll(cx).is_pending());
    assert!(poll_fn(once).await, "it was there already");
}

#[test]
fn tasks_read_and_seek_in_what_was_shared() {
    let world = World::new(6_000_001, Duration::from_secs(30));
    run(async {
        let mut file = world.open();
        let mut all = Vec::new();
        assert_eq!(file.seek(SeekFrom::End(-1_000_000)).await.unwrap(), 5_000_001);
        file.read_to_end(&mut all).await.unwrap();
        assert!(all == world.content[5_000_001..]);
        file.rewind().await.unwrap();
        all.clear();
        file.read_to_end(&mut all).await.unwrap();
        assert!(all == world.content);
        assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 0, "its end");
        assert!(file.seek(SeekFrom::End(-7_000_000)).await.is_err(), "before its beginning");
        let mut part = [0; 100];
        assert_eq!(file.read_at(&mut part, 5_999_951).await.unwrap(), 50);
        assert!(part[..50] == world.content[5_999_951..]);
    });
}

#[test]
fn many_tasks_of_one_thread_wait_at_once() {
    let world = World::new(8_000_000, Duration::from_secs(30));
    let file = world.open();
    run(async {
        // One task polls them in turn. Each waits for a block of its own that is not stored yet.
        let mut reads: Vec<_> = (0..50)
            .map(|i| {
                let (file, at) = (&file, i * 159_001);
                Box::pin(async move {
                    let mut part = vec![0; 3_000];
                    let got = file.read_at(&mut part, at as u64).await.unwrap();
                    (at, part[..got].to_vec())
                })
            })
            .collect();
        let mut done = 0;
        poll_fn(|cx| {
            reads.retain_mut(|read| match read.as_mut().poll(cx) {
                Poll::Ready((at, part)) => {
                    assert!(part == world.content[at..at + part.len()] && part.len() == 3_000);
                    done += 1;
                    false
                }
                Poll::Pending => true,
            });
            if reads.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(done, 50);
    });
}

#[test]
fn dropped_reads_are_harmless_and_unanswered_ones_fail() {
    let mut world = World::new(8_000_000, Duration::from_secs(1));
    run(async {
        let mut file = world.open();
        // Start a read, see that it waits, and drop it; then read the file elsewhere.
        let mut part = [0; 4_096];
        {
            let begun = std::pin::pin!(file.read_at(&mut part, 7_000_000));
            waits(begun).await;
        }
        waits(std::pin::pin!(file.read(&mut part))).await;
        file.seek(SeekFrom::Start(4_000_000)).await.unwrap();
        file.read_exact(&mut part).await.unwrap();
        assert!(part == world.content[4_000_000..4_004_096]);
    });
    world.sharing = None;
    run(async {
        let mut file = world.open();
        file.seek(SeekFrom::Start(2_000_000)).await.unwrap();
        assert!(file.read_u8().await.is_err(), "nobody has it");
        file.seek(SeekFrom::Start(4_000_000)).await.unwrap();
        assert_eq!(file.read_u8().await.unwrap(), world.content[4_000_000], "it was kept");
    });
}
