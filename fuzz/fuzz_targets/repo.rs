//! The repository's protocol: its records parse the same after they are written again, and no notice, command, packet or
//! check makes it panic, send anything but Interests and Data, or store what no trusted key signed.
#![no_main]
use core::time::Duration;

use xylem_forward::FaceId;
use xylem_mgmt::{
    ProcessId, RepoHost, RepoHostError, RepoNotice, RepoParameters, RepoProtocol, RepoResponse,
    RepoSettings,
};
use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, Name, NameRef, Packet, SignatureType,
};
use xylem_trust::{Certificate, Signer, TrustStore, ValidityPeriod, self_signed};

/// A host that stores a few packets.
#[derive(Default)]
struct Memory {
    packets: Vec<(Name, Vec<u8>)>,
    commands: Vec<[u8; 32]>,
    flushes: u64,
}

impl RepoHost for Memory {
    fn store(&mut self, name: NameRef<'_>, packet: &[u8]) -> Result<(), RepoHostError> {
        if self.packets.len() > 20 {
            return Err(RepoHostError::Full);
        }
        let data = Data::decode(packet).expect("a packet");
        let is_signed = data.signature_info().typ != SignatureType::DIGEST_SHA256;
        assert!(is_signed && data.name() == name);
        self.packets.push((name.to_name(), packet.to_vec()));
        Ok(())
    }
    fn contains(&self, name: NameRef<'_>) -> bool {
        self.packets.iter().any(|(it, _)| it.as_ref() == name)
    }
    fn remove(&mut self, name: NameRef<'_>) -> Result<bool, RepoHostError> {
        let before = self.packets.len();
        self.packets.retain(|(it, _)| it.as_ref() != name);
        Ok(self.packets.len() < before)
    }
    fn remembers(&self, digest: &[u8; 32]) -> bool {
        self.commands.contains(digest)
    }
    fn remember(&mut self, digest: [u8; 32]) -> Result<(), RepoHostError> {
        self.commands.push(digest);
        Ok(())
    }
    fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }
    fn latest_flush(&self) -> u64 {
        self.flushes
    }

    fn flushed(&self, _: u64, flush: u64) -> Option<bool> {
        (flush % 3 != 0).then_some(flush % 2 == 0)
    }
    fn forget_cached(&mut self, _: NameRef<'_>) {}
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name")
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(parameters) = RepoParameters::from_value(input) {
        let mut again = Vec::new();
        parameters.write_value(&mut again);
        assert_eq!(RepoParameters::from_value(&again), Ok(parameters));
    }
    if let Ok(response) = RepoResponse::from_value(input) {
        let mut again = Vec::new();
        response.write_value(&mut again);
        assert_eq!(RepoResponse::from_value(&again), Ok(response));
    }

    let alice = Signer::ed25519(&[1; 32], name("/alice/KEY/1"));
    let validity = ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };
    let anchor = self_signed(&alice, 1, validity).expect("a certificate");
    let mut trust = TrustStore::new();
    trust.add_anchor(&Certificate::decode(&anchor).expect("it")).expect("an anchor");
    let signer = Signer::digest_sha256();
    let settings = RepoSettings { prefix: name("/repo"), trust, signer, seed: 1 };
    let (mut repo, mut host) = (RepoProtocol::new(settings), Memory::default());
    let (mut now, mut out) = (Duration::ZERO, Vec::new());
    let mut rest = input;
    for nonce in 0..8u8 {
        let [step, how, after @ ..] = rest else { break };
        let (piece, after) = after.split_at(after.len().min(usize::from(how >> 3)));
        rest = after;
        let verb = if step & 1 == 0 { "insert" } else { "delete" };
        // A notice and its command, a check, or a packet as it is.
        match step >> 1 & 3 {
            0 | 1 => {
                let mut parameters = piece.to_vec();
                if step & 2 == 0 {
                    parameters.clear();
                    let nonce = ProcessId::new(&[nonce + 1]);
                    let publisher = Some(name("/client"));
                    let notice = RepoNotice { publisher, nonce, forwarding_hint: None };
                    notice.write_value(&mut parameters);
                }
                let mut wire = Vec::new();
                let notice = name(&format!("/repo/{verb}/notify"));
                let built = InterestBuilder::new(notice.as_ref())
                    .encode_with_parameters(&mut wire, &parameters);
                if built.is_ok() {
                    let interest = Interest::decode(&wire).expect("as built");
                    repo.handle_interest(
                        now,
                        FaceId(u64::from(nonce)),
                        &interest,
                        &mut host,
                        &mut out,
                    );
                }
            }
            2 => {
                let check = name("/repo").child(Component::generic(b"insert check"));
                let check = check.child(Component::generic(piece));
                let mut wire = Vec::new();
                if InterestBuilder::new(check.as_ref()).encode(&mut wire).is_ok() {
                    let interest = Interest::decode(&wire).expect("as built");
                    repo.handle_interest(
                        now,
                        FaceId(u64::from(nonce)),
                        &interest,
                        &mut host,
                        &mut out,
                    );
                }
            }
            _ => {
                repo.handle_reply(now, piece, &mut host, &mut out);
            }
        }
        // What it requests is answered by the piece, signed, or by a forgery.
        for _ in 0..20 {
            let Some(wire) = out.pop() else { break };
            let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { continue };
            let mut content = piece.to_vec();
            if how & 1 != 0 {
                content.clear();
                let parameters = RepoParameters {
                    name: Some(name("/alice/x")),
                    start_block: piece.first().map(|n| u64::from(*n % 8)),
                    end_block: piece.get(1).map(|n| u64::from(*n % 16)),
                    process: ProcessId::new(piece),
                    ..RepoParameters::default()
                };
                parameters.write_value(&mut content);
            }
            let forged = how & 6 == 6;
            let content = if forged { b"forged".as_slice() } else { &content };
            let mut data = Vec::new();
            let builder = DataBuilder::new(interest.name());
            let signed = match forged {
                true => Signer::digest_sha256().data(builder, content, &mut data),
                false => alice.data(builder, content, &mut data),
            };
            if signed.is_ok() {
                repo.handle_reply(now, &data, &mut host, &mut out);
            }
        }
        assert!(out.iter().all(|wire| {
            matches!(Packet::decode(wire), Ok(Packet::Interest(_) | Packet::Data(_)))
        }));
        out.clear();
        repo.take_reports();
        if let Some(due) = repo.poll_timeout() {
            now = now.max(due);
            repo.handle_timeout(now, &mut host, &mut out);
        }
    }
});
