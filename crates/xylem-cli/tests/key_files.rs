//! Key files of programs outside NDN, and the list of `xylem key list`, which gives the values that options of other
//! verbs take: the real program.

use crate::common;
use crate::common::{Share, assert_exit, file, finish, stderr, text, xylem};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

// Written by OpenSSL 3.0.19; the passphrase is horse.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEICrQVBndBsGXijOaqSKkrb9qUxUl+u3eTz3pTjETmWsi
-----END PRIVATE KEY-----
";
const ED25519_PUBLIC: &str = "78670aa525c247c05684ad80f29ad43660eee2b7462ca616af264144669b5b86";
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAibgWHA+pNoOQICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEGZqC2UI1yI7PZc4DHubBRYEQEAQ
jtUKYHa9YvHitlJd883ZutypD6SM72c2Y9n+sntHMPkigBvqGrO5uJNQaqJNHQr7
9Bxe1gaKgWik99z5U+Y=
-----END ENCRYPTED PRIVATE KEY-----
";
const P256: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIMDfDi0QIoRO1gnrvc/fL5P49XoVEG2ooGDsIfpXE6zroAoGCCqGSM49
AwEHoUQDQgAEXS+qRZ/QQ7PT8KPEYYvRPe+ePbzdzwfvhtqdHjZFJvfxmkerNpeN
Q3bX6FXI9mNP+tydJT2eiU7PPtWboEVADA==
-----END EC PRIVATE KEY-----
";
const P256_FINGERPRINT: &str = "2b63034e3883bed3123609acc36d25f523e2e1ac863b6c01c573eb11f02606f9";
const P384: &str = "-----BEGIN EC PRIVATE KEY-----
MIGkAgEBBDBSYyBVfgF+Ar4uNU3If6I3VucD2CwXFuqmocGJbClVZlCZz5EKeHF3
5mJA/Q5ZxdSgBwYFK4EEACKhZANiAARtb3yauomRmNr7HnCjEMWKB1waIjlRSlT5
ZCpQevfIu62qGFl1Y+A7J7DToUsbKfsGzk8cOpVaSe4zuxvauydS/89yHV0LmHpA
YDDpNAQNyCA71p6cmbGh8oOyuv72FVY=
-----END EC PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAeGcKpSXCR8BWhK2A8prUNmDu4rdGLKYWryZBRGabW4Y=
-----END PUBLIC KEY-----
";

// Written by python-ndn 0.5.2 (`pyndnsec New-Item /pib/alice`, `Export-Cert`), its name as ndn-cxx names it.
const TPM_NAME: &str = "1a4898b4a28720deb3a894563fc420cb7a16f2cea23610b4b01277d0d2fb331d";
const TPM_KEY: &str = "MHcCAQEEICZzaG37gJRegFJRO7Tq8Bl5ii5xZ7eUVtgSnMzdi+FCoAoGCCqGSM49
AwEHoUQDQgAE5/Vfu7k1XtzHlLhaUvwAl5yD0MADwN9Coxb5Ri/DTEHU6Y/nZqkb
HK9kXCrKu4UXvxiovAuBZRogyhYsBdHpzQ==";
const TPM_CERTIFICATE: &str = "Bv0BLAcrCANwaWIIBWFsaWNlCANLRVkICDvbk724loNaCARzZWxmNggAAAGiJIaj
bxQJGAECGQQANu6AFVswWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATn9V+7uTVe
3MeUuFpS/ACXnIPQwAPA30KjFvlGL8NMQdTpj+dmqRscr2RcKsq7hRe/GKi8C4Fl
GiDKFiwF0enNFkwbAQMcHQcbCANwaWIIBWFsaWNlCANLRVkICDvbk724loNa/QD9
Jv0A/g8xOTcwMDEwMVQwMDAwMDD9AP8PMjA0NjExMjhUMjMzODUzF0cwRQIgbtaZ
qPNNbo9gqWKemOSxL3jG86Ikvg20hm2mYp8USfwCIQC4jIxTefbpw79GN43OT7XF
vnzjzztM/CwBKWULJKmeQw==";

fn run(store: &Path, args: &[&str]) -> Output {
    let mut command = xylem(store);
    command.args(args);
    finish(command)
}

fn printed(store: &Path, args: &[&str]) -> String {
    let output = run(store, args);
    assert_exit(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

/// One line on standard error, with exit code 2.
fn refused(store: &Path, args: &[&str]) -> String {
    let output = run(store, args);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// The content of a PEM block.
fn der(pem: &str) -> Vec<u8> {
    xylem_trust::Armor::decode(pem.as_bytes()).unwrap()
}

fn events(store: &Path, name: &str) -> Vec<Value> {
    let lines = printed(store, &["--json", "key", "list"]);
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event"] == name).collect()
}

/// Such keys have no name, so one has to be given; then they sign as any other key.
#[test]
fn keys_of_openssl_are_imported_under_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let pass = file(dir.path(), "pass", b"horse\n");
    let der_of_it = der(ED25519);
    let files: [(&str, &[u8], &str); 5] = [
        ("ed.pem", ED25519.as_bytes(), ED25519_PUBLIC),
        ("ed.der", &der_of_it, ED25519_PUBLIC),
        ("enc.pem", ENCRYPTED.as_bytes(), ED25519_PUBLIC),
        ("ec.pem", P256.as_bytes(), P256_FINGERPRINT),
        ("ec.der", &der(&P256[P256.find("-----BEGIN EC PRIVATE").unwrap()..]), P256_FINGERPRINT),
    ];
    for (name, bytes, shows) in files {
        let store = dir.path().join(format!("{name}-store"));
        let path = file(dir.path(), name, bytes);
        let import = ["key", "import", text(&path)];
        let said = refused(&store, &import);
        assert!(
            said.contains("a private key without a name") && said.contains("--identity"),
            "{said}"
        );
        let named = [&import[..], &["--identity", "/alice", "--passphrase-file", text(&pass)]];
        let came = printed(&store, &named.concat());
        assert!(came.starts_with("/alice/KEY/"), "{came}");
        assert_eq!(came.trim_end().ends_with("encrypted"), name == "enc.pem", "{came}");
        assert!(printed(&store, &["key", "list"]).contains(shows));
        let sums = file(dir.path(), "SUMS", b"0000  a\n");
        let sign = ["key", "sign", text(&sums), "--by", "/alice", "--passphrase-file", text(&pass)];
        let signature = file(dir.path(), "SUMS.sig", printed(&store, &sign).as_bytes());
        let cert = file(dir.path(), "cert", printed(&store, &["key", "cert", "/alice"]).as_bytes());
        let check = ["key", "check", text(&sums), text(&signature), "--trust", text(&cert)];
        printed(&store, &check);
        let again = refused(&store, &named.concat());
        assert!(again.contains("already in the keyring"), "{again}");
    }
    // A key that has a name keeps it.
    let store = dir.path().join("store");
    printed(&store, &["key", "new", "/bob"]);
    let bobs = dir.path().join("bob.key");
    assert_exit(&run(&store, &["key", "export", "/bob", "-o", text(&bobs)]), 0);
    let other = dir.path().join("other");
    let said = refused(&other, &["key", "import", text(&bobs), "--identity", "/alice"]);
    assert!(said.contains("the key in it has a name"), "{said}");
}

/// The file has neither a name nor its owner's: the certificate has.
#[test]
fn a_key_of_ndn_cxx_is_imported_by_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let cert = file(dir.path(), "alice.cert", TPM_CERTIFICATE.as_bytes());
    for (case, name) in [("lower", TPM_NAME.to_owned()), ("upper", TPM_NAME.to_uppercase())] {
        let tpm = dir.path().join(case);
        fs::create_dir_all(&tpm).unwrap();
        let store = dir.path().join(format!("{case}-store"));
        let import = ["key", "import", text(&cert), "--tpm", text(&tpm)];
        let said = refused(&store, &import);
        assert!(said.contains("has no key /pib/alice/KEY/"), "{said}");
        let other = &P256[P256.find("-----BEGIN EC PRIVATE").unwrap()..];
        let path = file(&tpm, &format!("{name}.privkey"), other.as_bytes());
        let said = refused(&store, &import);
        assert!(said.contains("another key with the same name"), "{said}");
        assert!(events(&store, "key").is_empty(), "nothing was imported");

        fs::write(&path, TPM_KEY).unwrap();
        let came = printed(&store, &import);
        assert!(came.starts_with("/pib/alice/KEY/%3B%DB%93%BD%B8%96%83Z"), "{came}");
        let certificate = events(&store, "key")[0]["certificate"].to_string();
        assert!(certificate.contains("/self/v=1795909133167"), "{certificate}");
        // Again, as after a renewal of the certificate.
        printed(&store, &import);
        let sums = file(dir.path(), "SUMS", b"0000  a\n");
        let sign = ["key", "sign", text(&sums), "--by", "/pib/alice"];
        let signature = file(dir.path(), "SUMS.sig", printed(&store, &sign).as_bytes());
        let check = ["key", "check", text(&sums), text(&signature), "--trust", text(&cert)];
        printed(&store, &check);
    }
}

/// The error names the kind of file that can't be imported.
#[test]
fn a_file_that_is_no_ndn_key_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let encrypted_before = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n\
                            AAAA\n-----END EC PRIVATE KEY-----\n";
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    let cases = [
        (PUBLIC.as_bytes().to_vec(), "a public key, which cannot sign"),
        (der(PUBLIC), "not a private key"),
        (P384.as_bytes().to_vec(), "P-384"),
        (encrypted_before.into(), "openssl pkcs8 -topk8"),
        (block("OPENSSH PRIVATE KEY").into(), "OpenSSH's format"),
        (block("CERTIFICATE").into(), "X.509"),
        (block("PRIVATE KEY").into(), "not a private key"),
        (der(ED25519)[..20].to_vec(), "not a private key"),
        (b"\x30\x03abc".to_vec(), "not a private key"),
    ];
    for (bytes, says) in cases {
        let path = file(dir.path(), "file", &bytes);
        for more in [&[][..], &["--identity", "/alice"]] {
            let said = refused(&store, &[&["key", "import", text(&path)], more].concat());
            assert!(said.contains(says), "{says}: {said}");
        }
    }
    let wrong = file(dir.path(), "wrong", b"cow\n");
    let path = file(dir.path(), "file", ENCRYPTED.as_bytes());
    let import = ["key", "import", text(&path), "--identity", "/alice"];
    let said = refused(&store, &[&import[..], &["--passphrase-file", text(&wrong)]].concat());
    assert!(said.contains("wrong passphrase"), "{said}");
    assert!(
        !store.join("keys/ndn").exists()
            || fs::read_dir(store.join("keys/ndn")).unwrap().next().is_none()
    );
}

#[test]
fn the_list_has_the_values_for_options_of_other_verbs() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // In an empty store the list names the commands that make keys, and makes nothing.
    let empty = run(&store, &["key", "list"]);
    assert_exit(&empty, 0);
    assert_eq!(empty.stdout, b"");
    for hint in ["`xylem key new /NAME`", "`xylem share`", "`xylem inbox card`"] {
        assert!(stderr(&empty).contains(hint), "{}", stderr(&empty));
    }
    assert!(!store.exists());

    printed(&store, &["key", "new", "/org"]);
    printed(&store, &["key", "new", "/old", "--type", "ecdsa"]);
    let card = printed(&store, &["inbox", "card"]);
    let list = printed(&store, &["key", "list"]);
    let keys = events(&store, "key");
    let [old, org] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(old["public"], Value::Null);
    for (label, value) in
        [("digest", &old["digest"]), ("digest", &org["digest"]), ("public", &org["public"])]
    {
        let line = format!("    {label} {}\n", value.as_str().unwrap());
        assert!(list.contains(&line), "{line} {list}");
    }
    // The publisher's key is known before the first share.
    let publisher = events(&store, "publisher")[0]["key"].as_str().unwrap().to_owned();
    let content = file(dir.path(), "content", b"content");
    let share = Share::start(&content, &store);
    let away = dir.path().join("away");
    let ticket: Value = serde_json::from_str(
        printed(&away, &["--json", "ticket", &share.ticket]).lines().next().unwrap(),
    )
    .unwrap();
    assert_eq!(ticket["publisher"], publisher.as_str());
    // The card is that of `inbox card`, and --for takes it.
    let own = events(&store, "card")[0]["card"].as_str().unwrap().to_owned();
    assert!(list.contains("card xylem-peer:"), "{list}");
    assert_eq!(own.split(':').next(), card.split(':').next());
    let private = Share::with(&content, &dir.path().join("theirs"), &["--for", &own]);
    let out = dir.path().join("out");
    assert_exit(&common::get(&store, &[&private.ticket, "-o", text(&out)]), 0);
    assert_eq!(fs::read(&out).unwrap(), b"content");
    // --key ed25519:FILE takes the public half from a file, and refuses another's.
    let sums = file(dir.path(), "SUMS", b"0000  a\n");
    let signature = printed(&store, &["key", "sign", text(&sums), "--by", "/org"]);
    let signature = file(dir.path(), "SUMS.sig", signature.as_bytes());
    let public = file(dir.path(), "org.pub", org["public"].as_str().unwrap().as_bytes());
    let believed = format!("ed25519:{}", text(&public));
    printed(&away, &["key", "check", text(&sums), text(&signature), "--key", &believed]);
    fs::write(&public, &publisher).unwrap();
    let other = run(&away, &["key", "check", text(&sums), text(&signature), "--key", &believed]);
    assert_exit(&other, 1);
    // A publisher under a passphrase is listed without asking for it.
    let pass = file(dir.path(), "pass", b"horse\n");
    let seal = ["key", "passphrase", "publisher", "--new-passphrase-file", text(&pass)];
    drop(share);
    printed(&store, &seal);
    let sealed = run(&store, &["key", "list"]);
    assert_exit(&sealed, 0);
    assert!(stderr(&sealed).contains(&publisher) && stderr(&sealed).contains("`xylem inbox card`"));
}
