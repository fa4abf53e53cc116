//! CHALLENGE, the CA's side: runs the challenges that a client has to pass.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Interest, NameRef, SignatureInfo};
use xylem_trust::{Certificate, Verifier};

use super::code::ChallengeCode;
use super::policy;
use super::table::{OpenRequest, RequestStage};
use super::{
    CaAnswer, CaEvent, CertificateAuthority, CertificateRefusal, ENDED_REQUEST_MS, digest_of,
    parameters, refuse,
};
use crate::chance::SeededOctets;
use crate::numbers::{ChallengeKind, ErrorCode, RequestStatus, status_text};
use crate::packets::{
    ChallengeParameters, ChallengeProgress, ChallengeRequest, ChallengeResponse, Encrypted,
};
use crate::proof::{NONCE_LEN, Proof};
use crate::session::RequestId;

/// Limit in octets of the certificate and of the proof that a client sends.
const MAX_CREDENTIAL: usize = 4096;

/// Time limit of a challenge, in milliseconds.
const fn challenge_time_limit_ms(kind: ChallengeKind) -> u64 {
    match kind {
        ChallengeKind::Pin => 3_600_000,
        ChallengeKind::Email => 300_000,
        ChallengeKind::Possession => 60_000,
    }
}

/// The result of one step of a challenge.
enum ChallengeStep {
    /// The challenge goes on.
    Go(&'static str, ChallengeParameters, Option<CaEvent>),
    /// The client has passed the challenge.
    Proven(ChallengeKind),
}

impl CertificateAuthority {
    pub(super) fn challenge(
        &mut self,
        interest: &Interest<'_>,
        now_ms: u64,
        chance: &mut SeededOctets,
    ) -> Result<CaAnswer, CertificateRefusal> {
        let digest = digest_of(interest)?;
        let at = interest.name().len().saturating_sub(2);
        let id = interest.name().get(at).and_then(|component| component.value().try_into().ok());
        let id = RequestId(id.ok_or_else(|| {
            CertificateRefusal(ErrorCode::BAD_INTEREST_FORMAT, "the name has no request id".into())
        })?);
        let unknown =
            || CertificateRefusal(ErrorCode::INVALID_PARAMETER, "no such request is open".into());
        let mut open = self.requests.take(id).ok_or_else(unknown)?;
        let result = self.step(&mut open, id, digest, interest, now_ms, chance);
        self.requests.put_back(id, open);
        result
    }

    fn step(
        &mut self,
        open: &mut OpenRequest,
        id: RequestId,
        digest: [u8; 32],
        interest: &Interest<'_>,
        now_ms: u64,
        chance: &mut SeededOctets,
    ) -> Result<CaAnswer, CertificateRefusal> {
        if let Some((_, answer)) = open.last_challenge.as_ref().filter(|(last, _)| *last == digest)
        {
            return Ok(CaAnswer { data: Some(answer.clone()), event: None });
        }
        if let RequestStage::Over(code) = open.stage {
            return refuse(code, "this request is over");
        }
        // An error up to here may come from a stranger without the session's key, so it changes nothing.
        open.verifier
            .interest(interest)
            .map_err(|why| CertificateRefusal(ErrorCode::BAD_SIGNATURE, why.to_string()))?;
        let sealed = parameters(interest, Encrypted::decode)?;
        let plaintext = open.session.open(&sealed);
        let unread = |why: String| CertificateRefusal(ErrorCode::BAD_PARAMETER_FORMAT, why);
        let plaintext = plaintext.map_err(|why| unread(why.to_string()))?;
        let request =
            ChallengeRequest::decode(&plaintext).map_err(|why| unread(why.to_string()))?;
        let step = match self.advance(open, id, &request, now_ms, chance) {
            Ok(step) => step,
            Err(refusal) => {
                // The refusal that ends a request is also the answer to a repeated Interest.
                if let RequestStage::Over(_) = open.stage {
                    open.expires_ms = now_ms.saturating_add(ENDED_REQUEST_MS);
                }
                return Err(refusal);
            }
        };
        let (response, event) = match step {
            ChallengeStep::Go(word, parameters, event) => {
                (progress_response(open, word, parameters, now_ms), event)
            }
            ChallengeStep::Proven(by) => {
                open.stage = RequestStage::Over(ErrorCode::INVALID_PARAMETER);
                open.expires_ms = now_ms.saturating_add(ENDED_REQUEST_MS);
                let (issued, certificate) = self.issue(open, now_ms)?;
                let response = ChallengeResponse {
                    status: RequestStatus::Success,
                    progress: None,
                    parameters: ChallengeParameters::new(),
                    issued: Some(issued),
                    forwarding_hint: self.config.forwarding_hint.clone(),
                };
                (response, Some(CaEvent::Issued { id, by, certificate }))
            }
        };
        let sealed = open.session.seal(&response.encode());
        let sealed = sealed
            .map_err(|why| CertificateRefusal(ErrorCode::INVALID_PARAMETER, why.to_string()))?;
        let data = self.answer(interest.name(), &sealed.encode())?;
        open.last_challenge = Some((digest, data.clone()));
        Ok(CaAnswer { data: Some(data), event })
    }

    fn advance(
        &mut self,
        open: &mut OpenRequest,
        id: RequestId,
        request: &ChallengeRequest,
        now_ms: u64,
        chance: &mut SeededOctets,
    ) -> Result<ChallengeStep, CertificateRefusal> {
        let kind =
            ChallengeKind::of(&request.challenge).filter(|k| self.config.challenges.contains(k));
        let invalid = |why: &str| CertificateRefusal(ErrorCode::INVALID_PARAMETER, why.to_owned());
        let kind = kind.ok_or_else(|| invalid("no such challenge"))?;
        let stage =
            core::mem::replace(&mut open.stage, RequestStage::Over(ErrorCode::OUT_OF_TRIES));
        match stage {
            RequestStage::Before(misses) => {
                let begun = self.begin(open, id, kind, &request.parameters, now_ms, chance);
                if begun.is_err() && misses.saturating_add(1) < self.config.limits.tries {
                    open.stage = RequestStage::Before(misses.saturating_add(1));
                }
                begun
            }
            RequestStage::Code(chosen, code, tries) if chosen == kind => {
                if code.is(request.parameters.get(status_text::CODE).unwrap_or_default()) {
                    return Ok(ChallengeStep::Proven(kind));
                }
                let tries = tries.saturating_sub(1);
                if tries == 0 {
                    return refuse(ErrorCode::OUT_OF_TRIES, "too many wrong codes");
                }
                open.stage = RequestStage::Code(chosen, code, tries);
                Ok(ChallengeStep::Go(status_text::WRONG_CODE, ChallengeParameters::new(), None))
            }
            RequestStage::Proof(key, nonce) if kind == ChallengeKind::Possession => {
                let proof = request.parameters.get(status_text::PROOF).unwrap_or_default();
                let verifier = Verifier::of(&key).map_err(|why| invalid(&why.to_string()))?;
                let info = SignatureInfo::new(verifier.typ(), None);
                let signed = open.proof.message(&nonce, id, &self.config.prefix, &open.key);
                match verifier.parts(&info, &[&signed], proof) {
                    Ok(()) => Ok(ChallengeStep::Proven(kind)),
                    Err(_) => Err(invalid("the proof is not of that certificate's key")),
                }
            }
            going_on => {
                open.stage = going_on;
                Err(invalid("another challenge is in progress"))
            }
        }
    }

    /// The first step of a challenge.
    fn begin(
        &mut self,
        open: &mut OpenRequest,
        id: RequestId,
        kind: ChallengeKind,
        given: &ChallengeParameters,
        now_ms: u64,
        chance: &mut SeededOctets,
    ) -> Result<ChallengeStep, CertificateRefusal> {
        let key_name = open.key_name.clone();
        let identity = key_name.prefix(key_name.len().saturating_sub(2));
        let not_allowed = |why: xylem_trust::RuleRefusal| {
            CertificateRefusal(ErrorCode::NAME_NOT_ALLOWED, format!("{identity} {why}"))
        };
        let tries = self.config.limits.tries.max(1);
        let step = match kind {
            ChallengeKind::Pin => {
                if !self.given.pin(now_ms, &self.config.limits) {
                    return refuse(
                        ErrorCode::OUT_OF_TRIES,
                        "too many codes were requested in this minute; try again later",
                    );
                }
                let code = ChallengeCode::new(chance.take());
                let event = CaEvent::Pin { id, key_name: key_name.clone(), code: code.text() };
                open.stage = RequestStage::Code(kind, code, tries);
                ChallengeStep::Go(status_text::NEED_CODE, ChallengeParameters::new(), Some(event))
            }
            ChallengeKind::Email => {
                let address = given.get(status_text::EMAIL).and_then(policy::address);
                let Some(address) = address else {
                    return refuse(
                        ErrorCode::INVALID_PARAMETER,
                        "the email address is missing or malformed",
                    );
                };
                self.policy.email(self.below_prefix(identity), &address).map_err(not_allowed)?;
                if !self.given.email(&address, now_ms, &self.config.limits) {
                    return refuse(
                        ErrorCode::OUT_OF_TRIES,
                        "too many emails were requested in this hour; try again later",
                    );
                }
                let code = ChallengeCode::new(chance.take());
                let (key_name, text) = (key_name.clone(), code.text());
                open.stage = RequestStage::Code(kind, code, tries);
                let event = CaEvent::Email { id, key_name, address, code: text };
                ChallengeStep::Go(status_text::NEED_CODE, ChallengeParameters::new(), Some(event))
            }
            ChallengeKind::Possession => {
                if open.proof == Proof::Bare && !self.config.bare_proofs {
                    return refuse(
                        ErrorCode::INVALID_PARAMETER,
                        "this CA accepts only proofs that are bound to it, which this client does not make",
                    );
                }
                let shown = given.get(status_text::ISSUED_CERT).unwrap_or_default();
                let shown = shown.get(..shown.len().min(MAX_CREDENTIAL)).unwrap_or_default();
                let Ok(credential) = Certificate::decode(shown) else {
                    return refuse(
                        ErrorCode::INVALID_PARAMETER,
                        "the certificate to prove possession of is missing or malformed",
                    );
                };
                self.policy.possession(identity, &credential, now_ms).map_err(not_allowed)?;
                let nonce: [u8; NONCE_LEN] = chance.take();
                open.stage = RequestStage::Proof(credential.public_key().clone(), nonce);
                ChallengeStep::Go(
                    status_text::NEED_PROOF,
                    ChallengeParameters::of(status_text::NONCE, &nonce),
                    None,
                )
            }
        };
        open.expires_ms = now_ms.saturating_add(challenge_time_limit_ms(kind));
        Ok(step)
    }

    /// The components of an identity below the CA's prefix.
    fn below_prefix<'n>(&self, identity: NameRef<'n>) -> NameRef<'n> {
        identity.strip_prefix(self.config.prefix.as_ref()).unwrap_or(identity)
    }
}

/// The answer while a challenge goes on.
fn progress_response(
    open: &OpenRequest,
    word: &str,
    parameters: ChallengeParameters,
    now_ms: u64,
) -> ChallengeResponse {
    let tries = match open.stage {
        RequestStage::Code(_, _, tries) => u64::from(tries),
        _ => 1,
    };
    // NDNts accepts no challenge without a time, and the time has to be above zero.
    let time_s = (open.expires_ms.saturating_sub(now_ms) / 1000).max(1);
    ChallengeResponse {
        status: RequestStatus::Challenge,
        progress: Some(ChallengeProgress { word: word.to_owned(), tries, time_s }),
        parameters,
        issued: None,
        forwarding_hint: Vec::new(),
    }
}
