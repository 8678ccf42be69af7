//! Who gets, renews and cancels delegation tokens, and until when they count. The texts are Hadoop's, as its tools
//! print them.

use super::identifier::{Identifier, IdentifierError, NAME_LEN_MAX};
use crate::keys::{KeyRing, KeySet};
use crate::method::Method;
use crate::secret::{Password, Purpose};
use sha2::{Digest, Sha256};
use std::time::Duration;
use types::Millis;

/// How long tokens count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// HDFS's `dfs.namenode.delegation.token.renew-interval`: a day.
    pub renew_interval: Duration,
    /// HDFS's `dfs.namenode.delegation.token.max-lifetime`: a week. No longer than the ring's `token_lifetime`.
    pub lifetime_max: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { renew_interval: Duration::from_secs(86_400), lifetime_max: Duration::from_secs(7 * 86_400) }
    }
}

/// Who asks for a token, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// How who asks proved who it is: the real user if there is one.
    pub method: Method,
    /// Whole names.
    pub owner: &'a str,
    pub real_user: &'a str,
    /// A short name: the caller maps it by the rules of names first, as Hadoop does.
    pub renewer: &'a str,
    pub sequence: u32,
}

/// A token, and what is to be kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub identifier: Identifier,
    pub password: Password,
    pub kept: Kept,
}

/// What is kept of a token, by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Until when it counts if nobody renews it.
    pub expires: Millis,
    /// Of the whole identifier. Hadoop looks a token up by the whole of it, too: a sequence number alone could be that
    /// of another one, as after rows were restored.
    pub hash: IdentifierHash,
}

impl Kept {
    /// Of the token with these bytes, and no other: until when it counts.
    fn of(self, hash: &IdentifierHash) -> Option<Millis> {
        (self.hash == *hash).then_some(self.expires)
    }
}

/// The SHA-256 of an identifier.
pub type IdentifierHash = [u8; 32];

fn hash(bytes: &[u8]) -> IdentifierHash {
    Sha256::digest(bytes).into()
}

/// A token whose password was compared. Only this module makes one, so that nobody can take parsed bytes for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    identifier: Identifier,
    hash: IdentifierHash,
}

impl Proven {
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }
}

/// A token that a client of a SASL exchange says it has, and the password that it still has to prove to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    token: Proven,
    password: Password,
}

impl Claim {
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// Only for SASL, once the client has proven that it knows the password.
    pub(crate) fn proven(self) -> Proven {
        self.token
    }
}

/// Who renews or cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// How it proved who it is.
    pub method: Method,
    pub name: &'a str,
    pub short_name: &'a str,
}

/// Why a token is not issued, renewed, cancelled or believed. Clients get `InvalidToken` for what
/// [`Refusal::is_invalid_token`] says, `IOException` for [`Refusal::Method`], and `AccessControlException` for the
/// rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Identifier(#[from] IdentifierError),
    /// An `IOException` of Hadoop's, which lets a token cancel, and we do not.
    #[error("Delegation Token can be {done} only with kerberos or web authentication")]
    Method { method: Method, done: &'static str },
    #[error("a name of {len} bytes cannot be put into a delegation token, at most {NAME_LEN_MAX} are allowed")]
    Name { len: usize },
    #[error("a name with a control character cannot be put into a delegation token")]
    NameLetters,
    #[error("the key that signs delegation tokens expires at {} ms: the leader has to roll it", expires.0)]
    KeyExpires { expires: Millis },
    #[error("token ({sequence} for {owner}) can't be found in cache")]
    Unknown { owner: String, sequence: u32 },
    #[error("token ({sequence} for {owner}) is expired, current time: {} expected renewal time: {}", now.0, expired.0)]
    Expired { owner: String, sequence: u32, expired: Millis, now: Millis },
    #[error("{caller} is trying to renew a token ({sequence} for {owner}) with wrong password")]
    Password { caller: String, owner: String, sequence: u32 },
    #[error("{caller} tried to renew a token ({sequence} for {owner}) without a renewer")]
    NoRenewer { caller: String, owner: String, sequence: u32 },
    #[error("{caller} tries to renew a token ({sequence} for {owner}) with non-matching renewer {renewer}")]
    Renewer { caller: String, owner: String, sequence: u32, renewer: String },
    #[error("{caller} is not authorized to cancel the token ({sequence} for {owner})")]
    Cancel { caller: String, owner: String, sequence: u32 },
}

impl Refusal {
    /// Whether the token itself is at fault: a client that hears so drops it.
    pub fn is_invalid_token(&self) -> bool {
        match self {
            Self::Identifier(_) | Self::Unknown { .. } | Self::Expired { .. } => true,
            Self::Method { .. }
            | Self::Name { .. }
            | Self::NameLetters
            | Self::KeyExpires { .. }
            | Self::Password { .. }
            | Self::NoRenewer { .. }
            | Self::Renewer { .. }
            | Self::Cancel { .. } => false,
        }
    }
}

impl Rules {
    /// Whether a caller who proved himself so may get a token: ask it before a number is taken for one.
    pub fn may_issue(method: Method) -> Result<(), Refusal> {
        needs_ticket(method, "issued")
    }

    pub fn issue(&self, now: Millis, ring: &KeyRing, request: Request<'_>) -> Result<Issued, Refusal> {
        let Request { method, owner, real_user, renewer, sequence } = request;
        Self::may_issue(method)?;
        if let Some(name) = [owner, real_user, renewer].into_iter().find(|name| name.len() > NAME_LEN_MAX) {
            return Err(Refusal::Name { len: name.len() });
        }
        if [owner, real_user, renewer].iter().any(|name| name.contains(char::is_control)) {
            return Err(Refusal::NameLetters);
        }
        let key = ring.current();
        let max = now.plus(self.lifetime_max);
        // What is signed late, as nobody rolled, could not be verified for as long as the token promises.
        if key.expires < max {
            return Err(Refusal::KeyExpires { expires: key.expires });
        }
        let [owner, real_user, renewer] = [owner, real_user, renewer].map(str::to_owned);
        let identifier = Identifier { owner, renewer, real_user, issued: now, max, sequence, key: key.id };
        let bytes = identifier.encode();
        let password = key.password(Purpose::DelegationToken, &bytes);
        let kept = Kept { expires: max.min(now.plus(self.renew_interval)), hash: hash(&bytes) };
        Ok(Issued { identifier, password, kept })
    }

    /// Until when a token counts from now on. `kept` is what is kept of it; `None`: nothing, it was cancelled.
    pub fn renew(
        &self,
        now: Millis,
        proven: &Proven,
        kept: Option<Kept>,
        caller: Caller<'_>,
    ) -> Result<Millis, Refusal> {
        needs_ticket(caller.method, "renewed")?;
        let token = &proven.identifier;
        let (owner, sequence) = (token.owner.clone(), token.sequence);
        // Hadoop renews what expired for want of a renewal, as long as the last day has not come.
        if token.max < now {
            return Err(Refusal::Expired { owner, sequence, expired: token.max, now });
        }
        if token.renewer.is_empty() {
            return Err(Refusal::NoRenewer { caller: caller.name.to_owned(), owner, sequence });
        }
        if token.renewer != caller.short_name {
            let renewer = token.renewer.clone();
            return Err(Refusal::Renewer { caller: caller.name.to_owned(), owner, sequence, renewer });
        }
        match kept.and_then(|kept| kept.of(&proven.hash)) {
            Some(_) => Ok(token.max.min(now.plus(self.renew_interval))),
            None => Err(Refusal::Unknown { owner, sequence }),
        }
    }
}

/// A token must not beget tokens: whoever got hold of one could go on for ever, past its last day. Nor must a name that
/// nobody proved.
fn needs_ticket(method: Method, done: &'static str) -> Result<(), Refusal> {
    match method {
        Method::Kerberos => Ok(()),
        Method::Simple | Method::Token | Method::Certificate => Err(Refusal::Method { method, done }),
    }
}

/// Whether `caller` may cancel a token: its owner, by the whole name, or its renewer, by the short one.
pub fn cancel(proven: &Proven, kept: Option<Kept>, caller: Caller<'_>) -> Result<(), Refusal> {
    needs_ticket(caller.method, "cancelled")?;
    let token = &proven.identifier;
    let (owner, sequence) = (token.owner.clone(), token.sequence);
    let is_renewer = !token.renewer.is_empty() && token.renewer == caller.short_name;
    if caller.name != token.owner && !is_renewer {
        return Err(Refusal::Cancel { caller: caller.name.to_owned(), owner, sequence });
    }
    if kept.and_then(|kept| kept.of(&proven.hash)).is_none() {
        return Err(Refusal::Unknown { owner, sequence });
    }
    Ok(())
}

/// Whom a SASL exchange is with, and the password that the client proves to know. `kept` looks up what is kept of a
/// token; what was cancelled or has expired gets no password.
pub fn authenticate(
    now: Millis,
    keys: &KeySet,
    bytes: &[u8],
    kept: impl FnOnce(&Identifier) -> Option<Kept>,
) -> Result<Claim, Refusal> {
    let token = Proven { identifier: Identifier::parse(bytes)?, hash: hash(bytes) };
    let (owner, sequence) = (token.identifier.owner.clone(), token.identifier.sequence);
    let expires = kept(&token.identifier).and_then(|kept| kept.of(&token.hash));
    let Some(expired) = expires else { return Err(Refusal::Unknown { owner, sequence }) };
    if expired <= now {
        return Err(Refusal::Expired { owner, sequence, expired, now });
    }
    match token.identifier.password(now, keys, bytes) {
        Some(password) => Ok(Claim { token, password }),
        None => Err(Refusal::Unknown { owner, sequence }),
    }
}

/// A token whose password is its own, as a renewer or canceller sent both. Nothing is said of its expiry.
pub fn check(now: Millis, keys: &KeySet, bytes: &[u8], password: &[u8], caller: Caller<'_>) -> Result<Proven, Refusal> {
    let identifier = Identifier::parse(bytes)?;
    let (owner, sequence) = (identifier.owner.clone(), identifier.sequence);
    match identifier.password(now, keys, bytes) {
        Some(own) if own.is(password) => Ok(Proven { identifier, hash: hash(bytes) }),
        Some(_) => Err(Refusal::Password { caller: caller.name.to_owned(), owner, sequence }),
        None => Err(Refusal::Unknown { owner, sequence }),
    }
}

#[cfg(test)]
impl Claim {
    /// Of a token that somebody else made.
    pub(crate) fn recorded(bytes: &[u8], password: Password) -> Self {
        Self { token: Proven { identifier: Identifier::parse(bytes).unwrap(), hash: hash(bytes) }, password }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KeyId, Lifetimes};
    use crate::secret::{SECRET_LEN, Secret};

    const DAY_MS: u64 = 86_400_000;

    fn ring() -> KeyRing {
        let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
        KeyRing::new(Millis(0), Lifetimes::DELEGATION_TOKENS, KeyId(1), secrets)
    }

    fn request<'a>() -> Request<'a> {
        Request { method: Method::Kerberos, owner: "ada@EXAMPLE.COM", real_user: "", renewer: "yarn", sequence: 5 }
    }

    fn caller<'a>(name: &'a str, short_name: &'a str) -> Caller<'a> {
        Caller { method: Method::Kerberos, name, short_name }
    }

    fn yarn() -> Caller<'static> {
        caller("yarn/rm@EXAMPLE.COM", "yarn")
    }

    fn issued() -> Issued {
        Rules::default().issue(Millis(0), &ring(), request()).unwrap()
    }

    /// A token whose password was shown, and what is kept of it.
    fn proven(request: Request<'_>) -> (Proven, Kept) {
        let Issued { identifier, password, kept } = Rules::default().issue(Millis(0), &ring(), request).unwrap();
        (check(Millis(1), ring().keys(), &identifier.encode(), password.bytes(), yarn()).unwrap(), kept)
    }

    #[test]
    fn a_job_authenticates_until_its_token_expires() {
        let Issued { identifier, password, kept } = issued();
        let (bytes, ring) = (identifier.encode(), ring());
        let at = |now| authenticate(Millis(now), ring.keys(), &bytes, |_| Some(kept));
        let claim = at(DAY_MS - 1).unwrap();
        assert!(*claim.password() == password && *claim.proven().identifier() == identifier);
        assert!(at(DAY_MS).unwrap_err().is_invalid_token());
        let cancelled = authenticate(Millis(1), ring.keys(), &bytes, |_| None).unwrap_err();
        assert_eq!(cancelled.to_string(), "token (5 for ada@EXAMPLE.COM) can't be found in cache");
        assert!(cancelled.is_invalid_token());
    }

    #[test]
    fn renewals_end_on_the_last_day() {
        let rules = Rules::default();
        let (token, kept) = proven(request());
        let renew = |now| rules.renew(Millis(now), &token, Some(kept), yarn());
        assert_eq!(renew(DAY_MS / 2), Ok(Millis(DAY_MS * 3 / 2)));
        assert_eq!(renew(3 * DAY_MS), Ok(Millis(4 * DAY_MS)), "also when nobody renewed in time");
        assert_eq!(renew(7 * DAY_MS - 1), Ok(Millis(7 * DAY_MS)));
        assert!(renew(7 * DAY_MS + 1).unwrap_err().is_invalid_token());
        assert!(rules.renew(Millis(1), &token, None, yarn()).unwrap_err().is_invalid_token());
    }

    #[test]
    fn only_the_renewer_renews() {
        let rules = Rules::default();
        let (token, kept) = proven(request());
        let ada = caller("ada@EXAMPLE.COM", "ada");
        let refused = rules.renew(Millis(1), &token, Some(kept), ada).unwrap_err();
        let text = "ada@EXAMPLE.COM tries to renew a token (5 for ada@EXAMPLE.COM) with non-matching renewer yarn";
        assert_eq!((refused.to_string().as_str(), refused.is_invalid_token()), (text, false));
        let (nobody, kept) = proven(Request { renewer: "", ..request() });
        let refused = rules.renew(Millis(1), &nobody, Some(kept), caller("x", "")).unwrap_err();
        assert!(matches!(refused, Refusal::NoRenewer { .. }));
    }

    #[test]
    fn a_token_begets_no_token() {
        let rules = Rules::default();
        let (token, kept) = proven(request());
        for method in [Method::Token, Method::Simple] {
            let caller = Caller { method, ..yarn() };
            let text = |refused: Refusal| {
                assert!(!refused.is_invalid_token());
                refused.to_string()
            };
            let issued = rules.issue(Millis(0), &ring(), Request { method, ..request() }).unwrap_err();
            let want = "Delegation Token can be issued only with kerberos or web authentication";
            assert_eq!(text(issued), want);
            let renewed = rules.renew(Millis(1), &token, Some(kept), caller).unwrap_err();
            assert_eq!(text(renewed), want.replace("issued", "renewed"));
            let cancelled = cancel(&token, Some(kept), caller).unwrap_err();
            assert_eq!(text(cancelled), want.replace("issued", "cancelled"));
        }
    }

    #[test]
    fn owner_and_renewer_cancel() {
        let (token, kept) = proven(request());
        let kept = Some(kept);
        assert_eq!(cancel(&token, kept, caller("ada@EXAMPLE.COM", "ada")), Ok(()));
        assert_eq!(cancel(&token, kept, yarn()), Ok(()));
        assert!(cancel(&token, None, yarn()).unwrap_err().is_invalid_token());
        let eve = cancel(&token, kept, caller("eve@EXAMPLE.COM", "eve")).unwrap_err();
        assert!(!eve.is_invalid_token());
        let short = cancel(&token, kept, caller("ada", "ada")).unwrap_err();
        assert!(matches!(short, Refusal::Cancel { .. }), "the owner is known by the whole name");
        let (nobody, kept) = proven(Request { renewer: "", ..request() });
        assert!(cancel(&nobody, Some(kept), caller("x", "")).is_err());
    }

    /// A sequence number is no secret, and may come twice after rows were restored: the whole identifier counts.
    #[test]
    fn a_token_of_the_same_number_is_another() {
        let (_, kept) = proven(request());
        let other = Request { owner: "eve@EXAMPLE.COM", ..request() };
        let (eve, _) = proven(other);
        assert_eq!(eve.identifier().sequence, request().sequence);
        assert!(matches!(cancel(&eve, Some(kept), yarn()), Err(Refusal::Unknown { .. })));
        let renewed = Rules::default().renew(Millis(1), &eve, Some(kept), yarn());
        assert!(matches!(renewed, Err(Refusal::Unknown { .. })));
        let bytes = eve.identifier().encode();
        let claimed = authenticate(Millis(1), ring().keys(), &bytes, |_| Some(kept));
        assert!(matches!(claimed, Err(Refusal::Unknown { .. })));
    }

    #[test]
    fn a_password_is_of_one_identifier() {
        let Issued { identifier, password, kept } = issued();
        let ring = ring();
        let bytes = identifier.encode();
        let proven = check(Millis(1), ring.keys(), &bytes, password.bytes(), yarn()).unwrap();
        assert_eq!(*proven.identifier(), identifier);
        let forged = Identifier { owner: "root".into(), ..identifier.clone() }.encode();
        let refused = check(Millis(1), ring.keys(), &forged, password.bytes(), yarn()).unwrap_err();
        assert!(matches!(refused, Refusal::Password { .. }));
        let expired = check(ring.current().expires, ring.keys(), &bytes, password.bytes(), yarn());
        assert!(matches!(expired, Err(Refusal::Unknown { .. })));
        let late = authenticate(ring.current().expires, ring.keys(), &bytes, |_| {
            Some(Kept { expires: Millis(u64::MAX), ..kept })
        });
        assert!(matches!(late, Err(Refusal::Unknown { .. })), "whatever was kept");
        let unknown = Identifier { key: KeyId(9), ..identifier }.encode();
        assert!(matches!(
            check(Millis(1), ring.keys(), &unknown, password.bytes(), yarn()),
            Err(Refusal::Unknown { .. })
        ));
    }

    #[test]
    fn what_could_not_be_verified_to_its_end_is_not_issued() {
        let rules = Rules::default();
        assert!(rules.issue(Millis(DAY_MS), &ring(), request()).is_ok(), "the key signs for a day");
        let late = rules.issue(Millis(DAY_MS + 1), &ring(), request());
        assert_eq!(late, Err(Refusal::KeyExpires { expires: Millis(8 * DAY_MS) }));
        let long = "a".repeat(513);
        let long = rules.issue(Millis(0), &ring(), Request { owner: &long, ..request() });
        assert_eq!(long, Err(Refusal::Name { len: 513 }));
        let lines = rules.issue(Millis(0), &ring(), Request { renewer: "a\nb", ..request() });
        assert_eq!(lines, Err(Refusal::NameLetters));
    }
}
