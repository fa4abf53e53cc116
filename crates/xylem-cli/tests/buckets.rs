//! Buckets with keys that are no paths, and stores that answer without end. The server is a small one of our own: no
//! other server keeps such keys or answers this way.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Share, assert_exit, file, finish, get, stderr, text, xylem};

/// How the server answers a request for a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// The true list.
    Well,
    /// One page without an end.
    OnePage,
    /// Pages without an end.
    Pages,
    /// One page again and again.
    Again,
}

struct Bucket {
    at: String,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Bytes of lists sent, and number of lists sent.
    sent: Arc<(AtomicU64, AtomicU64)>,
}

impl Bucket {
    fn start(lists: Lists, keys: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let content = |key: &&str| ((*key).to_owned(), key.as_bytes().to_vec());
        let objects = Arc::new(Mutex::new(keys.iter().map(content).collect()));
        let sent = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let bucket = Self { at, objects: objects.clone(), sent: sent.clone() };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (objects, sent) = (objects.clone(), sent.clone());
                // An error means that the other side closed the connection, which ends the thread.
                thread::spawn(move || serve(stream, lists, &objects, &sent));
            }
        });
        bucket
    }

    /// A `xylem` command that uses this server.
    fn asked(&self, store: &Path) -> Command {
        let mut command = xylem(store);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        command
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.at));
        command
    }

    fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }
}

/// Decodes a text from a URL or from XML.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'%' => {
                let code = str::from_utf8(&rest[..2]).unwrap();
                bytes.push(u8::from_str_radix(code, 16).unwrap());
                rest = &rest[2..];
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn in_xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('\t', "&#9;").replace('\0', "&#0;").replace('\n', "&#10;")
}

fn contents(key: &str, size: usize) -> String {
    let (key, tag) = (in_xml(key), key.len());
    format!(
        "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>\"{tag}\"</ETag>\
         <Size>{size}</Size></Contents>"
    )
}

/// A list of all objects below a prefix, in one page.
fn page(objects: &BTreeMap<String, Vec<u8>>, prefix: &str, delimiter: bool) -> String {
    let (mut entries, mut folders) = (String::new(), Vec::new());
    for (key, content) in objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        match key[prefix.len()..].find('/').filter(|_| delimiter) {
            Some(at) => folders.push(key[..=prefix.len() + at].to_owned()),
            None => entries += &contents(key, content.len()),
        }
    }
    folders.dedup();
    for folder in folders {
        let _ = write!(
            entries,
            "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>",
            in_xml(&folder)
        );
    }
    entries
}

fn serve(
    stream: TcpStream,
    lists: Lists,
    objects: &Mutex<BTreeMap<String, Vec<u8>>>,
    sent: &(AtomicU64, AtomicU64),
) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    let mut from = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        while head.last().is_none_or(|line: &String| line != "\r\n") {
            let mut line = String::new();
            from.read_line(&mut line).ok().filter(|read| *read > 0)?;
            head.push(line);
        }
        let header = |name: &str| {
            let line = head.iter().find(|line| line.to_lowercase().starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let mut body = vec![0; header("content-length:").map_or(0, |len| len.parse().unwrap())];
        from.read_exact(&mut body).ok()?;
        let mut words = head[0].split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let key = decoded(path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key));
        let value = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            pair.map(decoded)
        };
        if query.contains("list-type=2") {
            list(&mut out, lists, objects, &value, sent)?;
            continue;
        }
        let mut objects = objects.lock().unwrap();
        if method == "PUT" {
            objects.insert(key, body);
            out.write_all(b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        }
        let Some(content) = objects.get(&key).filter(|_| !key.is_empty()) else {
            let none = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            out.write_all(none.as_bytes()).ok()?;
            continue;
        };
        let range = header("range:").map(|range| {
            let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            from.parse().unwrap()..to.parse::<usize>().unwrap() + 1
        });
        let range = range.map(|range| range.start..range.end.min(content.len()));
        let (status, more) = match &range {
            None => ("200 OK", String::new()),
            Some(range) => {
                let (from, to, of) = (range.start, range.end - 1, content.len());
                ("206 Partial Content", format!("Content-Range: bytes {from}-{to}/{of}\r\n"))
            }
        };
        let part = &content[range.unwrap_or(0..content.len())];
        let (tag, len) = (key.len(), part.len());
        let time = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
        let head = format!(
            "HTTP/1.1 {status}\r\n{more}ETag: \"{tag}\"\r\n{time}\r\nContent-Length: {len}\r\n\r\n"
        );
        out.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            out.write_all(part).ok()?;
        }
    }
}

fn list(
    out: &mut TcpStream,
    lists: Lists,
    objects: &Mutex<BTreeMap<String, Vec<u8>>>,
    value: &dyn Fn(&str) -> Option<String>,
    sent: &(AtomicU64, AtomicU64),
) -> Option<()> {
    let prefix = value("prefix").unwrap_or_default();
    // Misbehave only below the prefix under test. Elsewhere the list is true and empty, so that no mark of a store is
    // found there.
    let lists = if prefix.len() > "x/".len() { Lists::Well } else { lists };
    let number = sent.1.fetch_add(1, SeqCst);
    let (begin, end) =
        ("<?xml version=\"1.0\"?><ListBucketResult><Name>lab</Name>", "</ListBucketResult>");
    if lists == Lists::OnePage {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes()).ok()?;
        let many = contents("a", 1).repeat(1_000);
        let piece = format!("{begin}{many}");
        loop {
            out.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).ok()?;
            sent.0.fetch_add(piece.len() as u64, SeqCst);
        }
    }
    let entries = match lists {
        Lists::Well => page(&objects.lock().unwrap(), &prefix, value("delimiter").is_some()),
        _ => contents(&format!("{prefix}a{number}"), 1),
    };
    let next = match lists {
        Lists::Well => String::new(),
        Lists::Again => "<NextContinuationToken>x</NextContinuationToken>".to_owned(),
        _ => format!("<NextContinuationToken>{number}</NextContinuationToken>"),
    };
    let body = format!("{begin}{entries}{next}{end}");
    let len = body.len();
    sent.0.fetch_add(len as u64, SeqCst);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
    out.write_all((head + &body).as_bytes()).ok()
}

/// Files below a directory, sorted.
fn files(dir: &Path) -> Vec<String> {
    fn below(dir: &Path, root: &Path, found: &mut Vec<String>) {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => below(&path, root, found),
                false => found.push(text(path.strip_prefix(root).unwrap()).to_owned()),
            }
        }
    }
    let mut found = Vec::new();
    below(dir, dir, &mut found);
    found.sort_unstable();
    found
}

#[test]
fn keys_that_are_no_paths_are_reported_others_are_shared() {
    let dir = tempfile::tempdir().unwrap();
    let long = "y".repeat(256);
    let odd = ["/etc/x", "c\tc", "d//e", "dir/", "f0", "g/../h", "n\0l", "w\u{9b}w", &long];
    let good = ["f0/below", "sub/good", "top"];
    let bucket = Bucket::start(Lists::Well, &[&odd[..], &good[..]].concat());
    let (store, away) = (dir.path().join("store"), dir.path().join("away"));
    let share = Share::run(bucket.asked(&store), Path::new("s3://lab"), &[]);
    let told = share.told_before("skipped");
    assert_eq!(told.len(), odd.len(), "{told:#?}");
    for (key, why) in [
        ("s3://lab//\"", "not a valid path"),
        ("s3://lab/d//\"", "not a valid path"),
        ("dir/", "it has content"),
        ("f0", "a folder has the same name"),
        ("../", "not a valid path"),
        ("yyy", "not a valid path"),
        ("c\\tc", "control"),
        ("\\u0000", "control"),
        ("\\u009b", "control"),
    ] {
        assert!(
            told.iter().any(|line| line.contains(key) && line.contains(why)),
            "{key}: {told:#?}"
        );
    }
    let left_out = share.told_before("left_out");
    assert!(left_out[0].contains("\"unreadable\":9"), "{left_out:?}");
    let out = dir.path().join("out");
    assert_exit(&get(&away, &[&share.ticket, "-o", text(&out)]), 0);
    assert_eq!(files(&out), good);
    assert_eq!(fs::read(out.join("f0/below")).unwrap(), b"f0/below");
    drop(share);
    let mut strict = bucket.asked(&store);
    strict.args(["share", "--listen", "127.0.0.1:0", "--strict", "s3://lab"]);
    let strict = finish(strict);
    assert_exit(&strict, 4);
    assert!(stderr(&strict).contains("s3://lab/"), "{}", stderr(&strict));
}

#[test]
fn a_list_without_an_end_is_an_error_that_names_where() {
    let dir = tempfile::tempdir().unwrap();
    for (lists, exit, most_bytes, most_lists) in [
        (Lists::OnePage, 3, 1 << 28, 100),
        (Lists::Pages, 4, 1 << 21, 5_000),
        (Lists::Again, 4, 1 << 21, 50),
    ] {
        let bucket = Bucket::start(lists, &[]);
        let mut share = bucket.asked(&dir.path().join("store"));
        share.args(["share", "--listen", "127.0.0.1:0", "s3://lab/x"]);
        let share = finish(share);
        let said = stderr(&share);
        assert_exit(&share, exit);
        assert!(said.contains("s3://lab/x"), "{said}");
        assert!(said.contains("does not end") || said.contains(&bucket.at), "{said}");
        let (bytes, number) = (bucket.sent.0.load(SeqCst), bucket.sent.1.load(SeqCst));
        assert!(
            bytes < most_bytes && number < most_lists,
            "{bytes} bytes in {number} lists: {said}"
        );
    }
}

#[test]
fn other_objects_beside_a_publication_in_a_bucket_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set(&file(&tree, "a", b"tree/a"), 0o644);
    set(&file(&tree, "sub/b", b"tree/sub/b"), 0o644);
    set(&tree.join("sub"), 0o755);
    let store = dir.path().join("store");
    let share = Share::start(&tree, &store);
    let bucket = Bucket::start(Lists::Well, &["tree/a", "tree/sub/b"]);
    let verify = |more: &[&str]| {
        let mut verify = bucket.asked(&store);
        verify.args(["verify", "s3://lab/tree", &share.ticket]).args(more);
        finish(verify)
    };
    assert_exit(&verify(&[]), 0);
    for key in ["tree/evil", "tree/new/evil", "tree/x//y"] {
        bucket.objects.lock().unwrap().insert(key.to_owned(), b"evil".to_vec());
        let said = verify(&[]);
        assert_exit(&said, 1);
        assert_exit(&verify(&["--allow-extra"]), 0);
        bucket.objects.lock().unwrap().remove(key);
    }
    drop(share);

    // A fetch into a bucket leaves out names that can be no key and reports them. A mirror is whole or fails.
    file(&tree, "line\nbreak", b"odd");
    file(&tree, "z", b"last");
    let share = Share::start(&tree, &store);
    let mut into = bucket.asked(&dir.path().join("into"));
    into.args(["get", &share.ticket, "-o", "s3://lab/copy"]);
    let into = finish(into);
    assert_exit(&into, 2);
    assert!(stderr(&into).contains("line\\nbreak"), "{}", stderr(&into));
    let copied: Vec<String> =
        bucket.keys().into_iter().filter(|key| key.starts_with("copy")).collect();
    assert_eq!(copied, ["copy/a", "copy/sub/b", "copy/z"]);
    let mut mirror = bucket.asked(&dir.path().join("into"));
    mirror.args(["mirror", &share.ticket, "s3://lab/mirror"]);
    assert_exit(&finish(mirror), 2);
    assert!(!bucket.keys().iter().any(|key| key.starts_with("mirror")), "{:?}", bucket.keys());
}
