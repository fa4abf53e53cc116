//! NDN over WebSocket within TLS: nodes to each other, and a client of another TLS.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::serving::Serving;
use crate::common::{Node, assert_exit, file, finish, noise, skipped, stderr, text, until, xylem};

// Written by OpenSSL 3.0.19: for localhost and 127.0.0.1, until 2126.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBlzCCAT6gAwIBAgIUEGAwVvqvgO966XdgLsi7/pX4rdgwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODIzNDU1MloYDzIxMjYxMTA0
MjM0NTUyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARbG7cfwsSBg4urUCF3wcF2kohcPZanSPSDmkEQKhrzazWrXWL5QwtR
KLLyxMJRakSsHtxzlBINfT4R+Qj3k/HUo2wwajAdBgNVHQ4EFgQUU/uCgByBCqg6
KShBDMESdlx2LGIwHwYDVR0jBBgwFoAUU/uCgByBCqg6KShBDMESdlx2LGIwGgYD
VR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0E
AwIDRwAwRAIgObjhPv+IYvKcpCWCI5bPIbOS2RkxfbfOPP9qvVCw8fICIHU0OHnR
qjfm4BgQtHmUpN2uiqLyf+WoUl8L0f/YZp2m
-----END CERTIFICATE-----
";
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTdJ2hMrq5r6EVhp6
WsUG6O5D5IT2XukKXsy3BHNJD8+hRANCAARbG7cfwsSBg4urUCF3wcF2kohcPZan
SPSDmkEQKhrzazWrXWL5QwtRKLLyxMJRakSsHtxzlBINfT4R+Qj3k/HU
-----END PRIVATE KEY-----
";

/// A node that listens at `wss://` on a free port.
fn server(dir: &Path) -> Node {
    let (cert, key) =
        (file(dir, "cert.pem", CERTIFICATE.as_bytes()), file(dir, "key.pem", KEY.as_bytes()));
    let listen = format!(
        "[node]\nlisten = [\"unix://{}\", \"wss://127.0.0.1:0\"]\ntls_certificate = \"{}\"\ntls_key = \"{}\"\n",
        dir.join("node.sock").display(),
        cert.display(),
        key.display()
    );
    Node::with(dir, &listen)
}

/// Publishes content by a node.
fn put(dir: &Path, node: &Node, name: &str, content: &[u8]) -> Serving {
    let source = file(dir, "source", content);
    let put = Serving::start(dir, &["ndn", "put", name, text(&source), "--at", node.at("unix")]);
    until("the registration", || ctl(dir, node, &["route", "list"]).contains(name));
    put
}

fn ctl(dir: &Path, node: &Node, args: &[&str]) -> String {
    let mut command = xylem(&dir.join("store"));
    command.args(["ndn", "ctl"]).args(args).args(["--at", node.at("unix")]);
    let output = finish(command);
    assert_exit(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

/// A node that dials `to`, and trusts the authorities in this file (without it: those of the system).
fn client(dir: &Path, to: &str, authorities: Option<&Path>) -> Node {
    let settings = format!(
        "[node]\nlisten = [\"unix://{}\"]\n[[node.route]]\nprefix = \"/\"\nto = \"{to}\"\n",
        dir.join("node.sock").display()
    );
    let mut command = xylem(&dir.join("node-store"));
    match authorities {
        Some(path) => command.env("SSL_CERT_FILE", path),
        None => command.env_remove("SSL_CERT_FILE"),
    };
    Node::run(command, dir, &settings)
}

fn home(dir: &Path, name: &str) -> std::path::PathBuf {
    let home = dir.join(name);
    fs::create_dir_all(&home).unwrap();
    home
}

#[test]
fn an_object_is_fetched_over_a_secure_web_socket() {
    let dir = tempfile::tempdir().unwrap();
    let far_dir = home(dir.path(), "far");
    let far = server(&far_dir);
    let content = noise(1_000_000, 1);
    let _put = put(&far_dir, &far, "/far/film", &content);
    let cert = far_dir.join("cert.pem");
    let port = far.at("wss").rsplit(':').next().unwrap();
    for (case, to) in [
        ("name", format!("wss://localhost:{port}")),
        ("address", format!("wss://127.0.0.1:{port}/")),
        ("stated", format!("wss://127.0.0.1:{port}?sni=localhost")),
    ] {
        let near_dir = home(dir.path(), case);
        let near = client(&near_dir, &to, Some(&cert));
        let out = near_dir.join("out");
        let mut get = xylem(&near_dir.join("store"));
        get.args(["get", "/far/film", "--insecure", "--from", near.at("unix"), "-o", text(&out)]);
        assert_exit(&finish(get), 0);
        assert!(fs::read(&out).unwrap() == content, "{case}");
        let faces = ctl(&near_dir, &near, &["face", "list", "--scheme", "wss"]);
        assert!(faces.contains(&format!("remote wss://127.0.0.1:{port} ")), "{faces}");
        let faces = ctl(&far_dir, &far, &["face", "list", "--scheme", "wsclient"]);
        assert!(faces.contains(&format!("local wss://127.0.0.1:{port} ")), "{faces}");
    }
    assert!(ctl(&far_dir, &far, &["channel", "list"]).contains(far.at("wss")));
}

/// Else anybody on the path could take the server's place.
#[test]
fn a_server_without_a_certificate_for_its_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let far_dir = home(dir.path(), "far");
    let far = server(&far_dir);
    let cert = far_dir.join("cert.pem");
    let port = far.at("wss").rsplit(':').next().unwrap();
    for (case, to, authorities, why) in [
        ("unknown", format!("wss://localhost:{port}"), None, "invalid peer certificate"),
        ("name", format!("wss://127.0.0.1:{port}?sni=other.example"), Some(&cert), "not valid for"),
    ] {
        let near_dir = home(dir.path(), case);
        let near = client(&near_dir, &to, authorities.map(|path| path.as_path()));
        let end = || near.told("peer_gone").first().map(|event| event["why"].to_string());
        until("the end of the dial", || end().is_some());
        assert!(end().unwrap().contains(why), "{case}: {:?}", end());
        assert!(near.told("peer_connected").is_empty(), "{case}");
    }
}

#[test]
fn a_node_listens_at_wss_only_with_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(dir.path());
    command.args(["ndn", "node", "--listen", "wss://127.0.0.1:0"]);
    let output = finish(command);
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("set tls_certificate and tls_key"), "{}", stderr(&output));
}

/// A client over OpenSSL, as a page has it: the handshake of RFC 6455 with an Origin, an Interest cut into three
/// records, and a Data back. Then a second connection that stops in the middle of TLS.
const CLIENT: &str = r#"
import base64, os, socket, ssl, struct, sys
port, authority = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=authority)
context.set_alpn_protocols(["http/1.1"])
slow = socket.create_connection(("127.0.0.1", port))
slow.send(b"\x16\x03\x01\x02\x00\x01")
link = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
key = base64.b64encode(os.urandom(16)).decode()
link.sendall((
    f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nOrigin: https://page.example\r\n\r\n"
).encode())
head = b""
while b"\r\n\r\n" not in head:
    head += link.recv(4096)
assert b" 101 " in head.split(b"\r\n")[0], head
interest = b"\x05\x10" + b"\x07\x05\x08\x03far" + b"\x21\x00" + b"\x12\x00" + b"\x0a\x04" + os.urandom(4)
interest = b"\x05" + bytes([len(interest) - 2]) + interest[2:]
mask = os.urandom(4)
frame = bytes([0x82, 0x80 | len(interest)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(interest))
for part in (frame[:1], frame[1:9], frame[9:]):
    link.sendall(part)
answer = link.recv(2)
assert answer[0] == 0x82, answer
length = answer[1]
if length == 126:
    length = struct.unpack(">H", link.recv(2))[0]
data = b""
while len(data) < length:
    data += link.recv(length - len(data))
assert data[0] == 6 and b"a packet" in data, data
print(link.version())
"#;

#[test]
fn a_client_of_another_tls_gets_data() {
    let dir = tempfile::tempdir().unwrap();
    let far = server(dir.path());
    let _put = put(dir.path(), &far, "/far", b"a packet");
    let script = file(dir.path(), "client.py", CLIENT.as_bytes());
    let port = far.at("wss").rsplit(':').next().unwrap();
    let mut client = Command::new("python3");
    client.arg(script).arg(port).arg(dir.path().join("cert.pem")).stdin(Stdio::null());
    let Ok(output) = client.output() else { return skipped("no python3") };
    assert!(output.status.success() && output.stdout == b"TLSv1.3\n", "{}", stderr(&output));
}
