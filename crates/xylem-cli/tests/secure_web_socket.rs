//! NDN over WebSocket within TLS: nodes to each other, and a client of another TLS.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::serving::Serving;
use crate::common::{Node, assert_exit, file, finish, noise, skipped, stderr, text, until, xylem};

// For localhost and 127.0.0.1, from 2020, so that a slow clock does not matter, until 2120.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBlzCCAT2gAwIBAgITVIOgrJ/Qy3ebaMmAq8Ro2rDgtTAKBggqhkjOPQQDAjAU
MRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEw
MDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49
AwEHA0IABBgBWxDymcSNLLGng62LTjosjDNJBN3j6u2llBnaQ1nB7JJFGfUEg7vs
zFZ7YSLs2D8RbFTJzkqt+U0p4aY0JBejbDBqMB0GA1UdDgQWBBTViJcQzeZH7avW
W0LqjFKOLInj1zAfBgNVHSMEGDAWgBTViJcQzeZH7avWW0LqjFKOLInj1zAaBgNV
HREEEzARgglsb2NhbGhvc3SHBH8AAAEwDAYDVR0TAQH/BAIwADAKBggqhkjOPQQD
AgNIADBFAiAGZkEExuYDumyaNQv3Okq32bgP4F+cJ2POxnzQMr8GRwIhAKsd4T5S
c2pHX2Yr1MvxVPoLSYNzhbwoXdULCb/S/4Tj
-----END CERTIFICATE-----
";
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTiFA0AXnRjNc9jXQ
hnz3gxfb9zuK5yezObmzAmnY5EWhRANCAAQYAVsQ8pnEjSyxp4Oti046LIwzSQTd
4+rtpZQZ2kNZweySRRn1BIO77MxWe2Ei7Ng/EWxUyc5KrflNKeGmNCQX
-----END PRIVATE KEY-----
";
/// Another authority, which has not signed that certificate.
const OTHER_AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBnTCCAUSgAwIBAgIUGXwGHsmgF3u6Ga/1GcAsr+h5xM8wCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIw
MDEwMTAwMDAwMFowGDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABDOaSLZVL0zj08O0JGxzi9DXFBymNFKL8sziMqYmEdKd
8p+XoNqi3N3JajblIHY1niXBEhwpxgV/YHDji0YtiwujajBoMB0GA1UdDgQWBBRO
1xbmYRXIsu4e51lFcMZ8ECSLDzAfBgNVHSMEGDAWgBRO1xbmYRXIsu4e51lFcMZ8
ECSLDzAYBgNVHREEETAPgg1vdGhlci5leGFtcGxlMAwGA1UdEwEB/wQCMAAwCgYI
KoZIzj0EAwIDRwAwRAIgcj6ja0MQ0l/ceUhTXS9Szs5uNW9b1M+YLjQiMOWi2agC
IEFD+Ir31VnEAfmc5ZBNGBZ4mlVkUCNdy7z8BD1ZWtkZ
-----END CERTIFICATE-----
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

/// A node that dials `to`, and trusts the authorities in this file.
fn client(dir: &Path, to: &str, authorities: &Path) -> Node {
    let settings = format!(
        "[node]\nlisten = [\"unix://{}\"]\n[[node.route]]\nprefix = \"/\"\nto = \"{to}\"\n",
        dir.join("node.sock").display()
    );
    let mut command = xylem(&dir.join("node-store"));
    command.env("SSL_CERT_FILE", authorities);
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
        let near = client(&near_dir, &to, &cert);
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

/// Else whatever is on the path could take the server's place.
#[test]
fn a_server_without_a_certificate_for_its_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let far_dir = home(dir.path(), "far");
    let far = server(&far_dir);
    let cert = far_dir.join("cert.pem");
    let other = file(dir.path(), "other.pem", OTHER_AUTHORITY.as_bytes());
    let port = far.at("wss").rsplit(':').next().unwrap();
    for (case, to, authorities, why) in [
        ("unknown", format!("wss://localhost:{port}"), &other, "invalid peer certificate"),
        ("name", format!("wss://127.0.0.1:{port}?sni=other.example"), &cert, "not valid for"),
    ] {
        let near_dir = home(dir.path(), case);
        let near = client(&near_dir, &to, authorities);
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
