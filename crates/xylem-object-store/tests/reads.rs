//! A share of another process, read through the trait [`ObjectStore`].

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, Result};
use tempfile::TempDir;
use xylem_base::Stop;
use xylem_node::{Event, PeerAddress, ShareOptions, share};
use xylem_object_store::TicketStore;
use xylem_reader::Options;
use xylem_sim::noise;

/// The variable that makes this program a sharer, of the path in it.
const SHARES: &str = "XYLEM_TEST_SHARES";

/// No test by itself: the other process.
#[test]
fn sharer() {
    let Some(path) = std::env::var_os(SHARES) else { return };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let store = FilePath::new(&path).with_file_name("publisher");
    let options = ShareOptions {
        paths: vec![path.into()],
        listen: vec![PeerAddress::Link { address: here, key: None }],
        store,
        ..ShareOptions::default()
    };
    share(&options, &Stop::new(), &mut |event| {
        if let Event::Shared { ticket, .. } = event {
            println!("{ticket}");
        }
    })
    .unwrap();
}

/// A share, and a store of what it shares.
struct World {
    dir: TempDir,
    sharer: Child,
    store: Option<TicketStore>,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.sharer.kill();
        let _ = self.sharer.wait();
    }
}

impl World {
    fn of(make: impl FnOnce(&FilePath)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        make(&shared);
        let mut sharer = Command::new(std::env::current_exe().unwrap())
            .args(["sharer", "--exact", "--nocapture"])
            .env(SHARES, &shared)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(sharer.stdout.take().unwrap()).lines();
        let ticket = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line[line.find("xylem:")?..].to_owned())
        });
        let options = Options {
            lan: false,
            timeout: Duration::from_secs(20),
            ..Options::new(ticket.unwrap().parse().unwrap(), dir.path().join("store"))
        };
        let store = TicketStore::open(options).unwrap();
        Self { dir, sharer, store: Some(store) }
    }

    fn store(&self) -> &TicketStore {
        self.store.as_ref().unwrap()
    }

    fn directory() -> Self {
        Self::of(|at| {
            std::fs::create_dir_all(at.join("year=2024")).unwrap();
            std::fs::create_dir_all(at.join("year=2025/deep")).unwrap();
            for (name, content) in files() {
                std::fs::write(at.join(name), content).unwrap();
            }
            std::fs::hard_link(at.join("year=2024/a"), at.join("again")).unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink("year=2024/a", at.join("link")).unwrap();
        })
    }
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("50% of #1", b"encoded".to_vec()),
        ("year=2024/a", noise(3_000_001, 1)),
        ("year=2025/b", noise(70_000, 2)),
        ("year=2025/deep/c", Vec::new()),
        ("year=20250", b"no folder".to_vec()),
    ]
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

async fn listed(store: &TicketStore, prefix: Option<&str>) -> Result<Vec<String>> {
    let prefix = prefix.map(Path::from);
    let found: Vec<_> = store.list(prefix.as_ref()).try_collect().await?;
    let mut names: Vec<_> = found.iter().map(|meta| meta.location.to_string()).collect();
    names.sort();
    Ok(names)
}

#[test]
fn files_are_read_whole_and_by_ranges() -> Result<()> {
    let world = World::directory();
    block_on(async {
        let store: &dyn ObjectStore = world.store();
        for (name, content) in files() {
            let got = store.get(&Path::from(name)).await?;
            assert_eq!(
                (got.meta.size, got.range.clone()),
                (content.len() as u64, 0..content.len() as u64)
            );
            let root = xylem_root(&content);
            assert_eq!(got.meta.e_tag.as_deref(), Some(&*format!("\"{root}\"")));
            assert!(got.bytes().await? == content, "{name}");
        }
        let (big, content) = (Path::from("year=2024/a"), noise(3_000_001, 1));
        let of = |range: std::ops::Range<u64>| &content[range.start as usize..range.end as usize];
        assert_eq!(store.get_range(&big, 2_999_990..3_000_001).await?, of(2_999_990..3_000_001));
        // Apart, adjacent, overlapping, longer than one read, and past the end.
        let ranges = [0..1, 1..2, 999_999..1_900_000, 1_000_000..1_000_010, 2_999_999..9_000_000];
        let got = store.get_ranges(&big, &ranges).await?;
        for (got, range) in got.iter().zip(&ranges) {
            assert!(*got == of(range.start..range.end.min(3_000_001)), "{range:?}");
        }
        let options = GetOptions { range: Some(GetRange::Suffix(5)), ..GetOptions::default() };
        assert_eq!(store.get_opts(&big, options).await?.bytes().await?, of(2_999_996..3_000_001));
        assert!(store.get_range(&big, 3_000_001..3_000_002).await.is_err());
        assert!(store.get_ranges(&big, &[0..1, 4_000_000..4_000_001]).await.is_err());
        // Condition and head.
        let tag = store.head(&big).await?.e_tag;
        let options = GetOptions { if_none_match: tag, ..GetOptions::default() };
        assert!(matches!(store.get_opts(&big, options).await, Err(Error::NotModified { .. })));
        let missing = store.head(&Path::from("year=2024")).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })), "a folder is no object");
        Ok(())
    })
}

/// The hash that `xylem sum` prints.
fn xylem_root(content: &[u8]) -> String {
    xylem_hash::hash(content).to_hex().to_string()
}

#[test]
fn listings_have_files_and_folders_by_components() -> Result<()> {
    let world = World::directory();
    let store = world.store();
    block_on(async {
        let all =
            ["50% of #1", "again", "year=2024/a", "year=2025/b", "year=2025/deep/c", "year=20250"];
        assert_eq!(listed(store, None).await?, all);
        assert_eq!(listed(store, Some("year=2025")).await?, all[3..5]);
        for none in ["year=2024/a", "year=20", "no/such"] {
            assert_eq!(listed(store, Some(none)).await?, [""; 0], "{none}");
        }
        let top = store.list_with_delimiter(None).await?;
        let names = |all: &[Path]| all.iter().map(Path::to_string).collect::<Vec<_>>();
        assert_eq!(names(&top.common_prefixes), ["year=2024", "year=2025"]);
        let objects: Vec<_> = top.objects.iter().map(|meta| meta.location.to_string()).collect();
        assert_eq!(objects, ["50% of #1", "again", "year=20250"]);
        assert_eq!((top.objects[1].size, top.objects[2].size), (3_000_001, 9));
        let inner = store.list_with_delimiter(Some(&Path::from("year=2025"))).await?;
        assert_eq!(names(&inner.common_prefixes), ["year=2025/deep"]);
        assert_eq!(inner.objects.len(), 1);
        let behind: Vec<_> =
            store.list_with_offset(None, &Path::from("year=2025/b")).try_collect().await?;
        assert_eq!(behind.len(), 2);
        // What a listing names is read by that name.
        for name in listed(store, None).await? {
            let path = Path::parse(name).unwrap();
            assert_eq!(store.head(&path).await?.location, path);
        }
        Ok(())
    })
}

#[test]
fn a_publication_of_one_file_is_one_object() -> Result<()> {
    let world = World::of(|at| std::fs::write(at, b"content").unwrap());
    block_on(async {
        assert_eq!(listed(world.store(), None).await?, ["shared"]);
        assert_eq!(listed(world.store(), Some("shared")).await?, [""; 0]);
        let got = world.store().get(&Path::from("shared")).await?.bytes().await?;
        assert_eq!(got, "content");
        Ok(())
    })
}

#[test]
fn each_call_that_writes_is_refused() -> Result<()> {
    let world = World::directory();
    let (store, a, b) = (world.store(), Path::from("year=2024/a"), Path::from("b"));
    let not = |what: &str, done: Option<Error>| {
        assert!(matches!(done, Some(Error::NotSupported { .. })), "{what}: {done:?}");
    };
    block_on(async {
        not("put", store.put(&b, "x".into()).await.err());
        not("multipart", store.put_multipart(&b).await.err());
        not("delete", store.delete(&a).await.err());
        not("copy", store.copy(&a, &b).await.err());
        not("copy if", store.copy_if_not_exists(&a, &b).await.err());
        not("rename", store.rename(&a, &b).await.err());
        let options = GetOptions { version: Some("1".into()), ..GetOptions::default() };
        not("version", store.get_opts(&a, options).await.err());
        Ok(())
    })
}

#[test]
fn what_was_read_needs_no_peer_and_the_rest_fails() -> Result<()> {
    let mut world = World::directory();
    let (a, b) = (Path::from("year=2024/a"), Path::from("year=2025/b"));
    block_on(async {
        let read = world.store().get(&b).await?.bytes().await?;
        world.sharer.kill().unwrap();
        world.sharer.wait().unwrap();
        assert_eq!(world.store().get(&b).await?.bytes().await?, read);
        let ticket_of = world.store().reader().signed().clone();
        // Ends the reader, which keeps others from its files.
        drop(world.store.take());
        let options = Options {
            lan: false,
            timeout: Duration::from_secs(1),
            ..Options::new(
                xylem_object::Ticket {
                    publisher: ticket_of.publisher,
                    root: ticket_of.manifest.root,
                    name: Some(ticket_of.prefix),
                    link_key: None,
                    size: None,
                    kind: None,
                    addresses: vec![xylem_object::ticket::Address::Ip(([127, 0, 0, 1], 9).into())],
                    relays: Vec::new(),
                },
                world.dir.path().join("store"),
            )
        };
        let again = TicketStore::open(options).unwrap();
        assert_eq!(again.get(&b).await?.bytes().await?, read);
        // An error comes once, and then the stream ends.
        let mut stream = again.get(&a).await?.into_stream();
        assert!(stream.next().await.unwrap().is_err());
        assert!(stream.next().await.is_none());
        Ok(())
    })
}
