//! Packets of NDNts (@ndn/ndncert 0.0.20250307) as CA and as client, recorded by interop/peers/ndncert.mjs with the
//! agreed key. They are parsed, decrypted, and written again the same.

use data_encoding::HEXLOWER;
use xylem_ndncert::packets::{
    CaInfo, ChallengeRequest, ChallengeResponse, Encrypted, NewRequest, NewResponse,
};
use xylem_ndncert::{CaProfile, RequestId, RequestSession, RequestStatus};
use xylem_packet::{Data, Interest};
use xylem_trust::{Certificate, Verifier};

struct Record {
    key: [u8; 16],
    packets: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Record {
    fn read(text: &str) -> Self {
        let line = |line: &str, word: &str| {
            HEXLOWER.decode(line.strip_prefix(word).expect(word).trim().as_bytes()).unwrap()
        };
        let lines: Vec<&str> = text.lines().collect();
        let key = line(lines[0], "key ").try_into().unwrap();
        let pairs = lines[1..].chunks(2);
        let packets = pairs.map(|pair| (line(pair[0], "interest "), line(pair[1], "data ")));
        Record { key, packets: packets.collect() }
    }

    /// The packets of one kind.
    fn of<'r>(&'r self, kind: &str) -> impl Iterator<Item = (Interest<'r>, Data<'r>)> {
        let kind = format!("/authority/CA/{kind}/");
        let packets = self.packets.iter().map(|(interest, data)| {
            (Interest::decode(interest).unwrap(), Data::decode(data).unwrap())
        });
        packets.filter(move |(interest, _)| interest.name().to_string().starts_with(&kind))
    }
}

/// Checks an exchange from profile to certificate; returns the status texts of the challenge.
fn check(text: &str, derivations: &[&str]) -> Vec<String> {
    let record = Record::read(text);
    let profiles = record.of("INFO").filter_map(|(_, data)| {
        let info = CaInfo::decode(data.content()).ok()?;
        assert_eq!(info.encode(), data.content());
        Some(CaProfile::decode(data.wire()).unwrap())
    });
    let profile = profiles.last().expect("a profile");
    let ca = Certificate::decode(&profile.info().certificate).unwrap();
    let ca = Verifier::of(ca.public_key()).unwrap();

    let (interest, data) = record.of("NEW").next().expect("NEW");
    let parameters = interest.app_parameters().unwrap();
    let new = NewRequest::decode(parameters).unwrap();
    assert_eq!(new.encode(), parameters);
    assert_eq!(new.derivations, derivations);
    let asked = Certificate::decode(&new.certificate).unwrap();
    let client = Verifier::of(asked.public_key()).unwrap();
    client.data(asked.data()).unwrap();
    client.interest(&interest).unwrap();
    ca.data(&data).unwrap();
    let response = NewResponse::decode(data.content()).unwrap();
    assert_eq!(response.encode(), data.content());

    let id: RequestId = response.id;
    let mut of_client = RequestSession::new(&record.key, id, [0; 8]);
    let mut of_ca = RequestSession::new(&record.key, id, [1; 8]);
    let (mut words, mut issued) = (Vec::new(), None);
    for (interest, data) in record.of("CHALLENGE") {
        client.interest(&interest).unwrap();
        ca.data(&data).unwrap();
        let parameters = interest.app_parameters().unwrap();
        let sealed = Encrypted::decode(parameters).unwrap();
        assert_eq!(sealed.encode(), parameters);
        let plaintext = of_ca.open(&sealed).unwrap();
        assert_eq!(ChallengeRequest::decode(&plaintext).unwrap().encode(), plaintext);
        let sealed = Encrypted::decode(data.content()).unwrap();
        assert_eq!(sealed.encode(), data.content());
        let plaintext = of_client.open(&sealed).unwrap();
        let response = ChallengeResponse::decode(&plaintext).unwrap();
        assert_eq!(response.encode(), plaintext);
        words.extend(response.progress.map(|progress| progress.word));
        if response.status == RequestStatus::Success {
            issued = response.issued;
        }
    }
    let issued = issued.expect("issued");
    let (interest, data) = record.packets.last().unwrap();
    assert_eq!(Interest::decode(interest).unwrap().name(), issued.as_ref());
    let certificate = Certificate::decode(data).unwrap();
    ca.data(certificate.data()).unwrap();
    assert_eq!(certificate.public_key(), asked.public_key());
    assert_eq!(certificate.key_name(), asked.key_name());
    words
}

#[test]
fn a_ca_of_ndnts() {
    let words = check(include_str!("vectors/ndnts-ca.txt"), &["blake3"]);
    assert_eq!(words, ["need-code", "wrong-code", "wrong-code"]);
}

#[test]
fn clients_of_ndnts() {
    let words = check(include_str!("vectors/ndnts-client-pin.txt"), &[]);
    assert_eq!(words, ["need-code", "wrong-code", "wrong-code"]);
    let words = check(include_str!("vectors/ndnts-client-possession.txt"), &[]);
    assert_eq!(words, ["need-proof"]);
}
