//! What protects a connection after the exchange, and in which order of preference.

use super::directives::Directives;
use super::error::DigestError;

/// Quality of protection, by HDFS's words: `authentication`, `integrity`, `privacy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Qop {
    Auth,
    Integrity,
    Privacy,
}

impl Qop {
    /// The best first, as whoever offers and chooses among them prefers them.
    pub const ALL: [Self; 3] = [Self::Privacy, Self::Integrity, Self::Auth];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Integrity => "auth-int",
            Self::Privacy => "auth-conf",
        }
    }

    /// See [`Self::parse_setting`].
    pub fn setting(self) -> &'static str {
        match self {
            Self::Auth => "authentication",
            Self::Integrity => "integrity",
            Self::Privacy => "privacy",
        }
    }

    /// The word of HDFS's settings, as of `hadoop.rpc.protection`.
    pub fn parse_setting(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            "authentication" => Some(Self::Auth),
            "integrity" => Some(Self::Integrity),
            "privacy" => Some(Self::Privacy),
            _ => None,
        }
    }
}

/// Ciphers of the layer for privacy. JDK has weaker ones as well (des, rc4-56, rc4-40), which anybody can break; it
/// chooses them only where nothing else is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// What JDK chooses where it is offered, and all that hdfs-native has.
    TripleDes,
    Rc4,
}

impl Cipher {
    pub const ALL: [Self; 2] = [Self::TripleDes, Self::Rc4];

    pub fn name(self) -> &'static str {
        match self {
            Self::TripleDes => "3des",
            Self::Rc4 => "rc4",
        }
    }
}

/// What one end offers or accepts, the best first. Of a server's list only what the client chose is proven: whoever
/// sits in between can shorten the list. So an end that must not do without privacy accepts nothing else. hdfs-native
/// takes the strongest that is offered; JDK takes the first of its own that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    pub qops: Vec<Qop>,
    pub ciphers: Vec<Cipher>,
}

impl Protection {
    /// With 3des alone: rc4's output can be told from chance, and whoever sits in between could have it chosen, as the
    /// cipher is no part of the proof.
    pub fn of(qops: &[Qop]) -> Self {
        Self { qops: qops.to_vec(), ciphers: vec![Cipher::TripleDes] }
    }

    /// With rc4 as the second, for whoever says so in the settings: it costs a twentieth of 3des.
    #[must_use]
    pub fn with_rc4(self) -> Self {
        Self { ciphers: Cipher::ALL.to_vec(), ..self }
    }

    pub(super) fn qop_list(&self) -> String {
        list(self.qops.iter().map(|qop| qop.name()))
    }

    pub(super) fn cipher_list(&self) -> String {
        list(self.ciphers.iter().map(|cipher| cipher.name()))
    }

    /// The first of ours that a server's challenge offers.
    pub(super) fn choose(&self, challenge: &Directives) -> Result<Chosen, DigestError> {
        // RFC 2831: without a list, the server has authentication alone.
        let offered = challenge.text("qop")?.unwrap_or("auth");
        let qop = self.qops.iter().copied().find(|qop| words(offered).any(|word| word == qop.name()));
        let qop = qop.ok_or(DigestError::Unsupported { name: "qop" })?;
        if qop != Qop::Privacy {
            return Ok(Chosen { qop, cipher: None });
        }
        let offered = challenge.text("cipher")?.ok_or(DigestError::Missing { name: "cipher" })?;
        let cipher = self.ciphers.iter().copied().find(|cipher| words(offered).any(|word| word == cipher.name()));
        Ok(Chosen { qop, cipher: Some(cipher.ok_or(DigestError::Unsupported { name: "cipher" })?) })
    }

    /// What a client's response chose, if it was offered.
    pub(super) fn chosen(&self, response: &Directives) -> Result<Chosen, DigestError> {
        let name = response.text("qop")?.unwrap_or("auth");
        let qop = self.qops.iter().copied().find(|qop| qop.name() == name);
        let qop = qop.ok_or(DigestError::Unsupported { name: "qop" })?;
        if qop != Qop::Privacy {
            return Ok(Chosen { qop, cipher: None });
        }
        let name = response.text("cipher")?.ok_or(DigestError::Missing { name: "cipher" })?;
        let cipher = self.ciphers.iter().copied().find(|cipher| cipher.name() == name);
        Ok(Chosen { qop, cipher: Some(cipher.ok_or(DigestError::Unsupported { name: "cipher" })?) })
    }
}

/// What both ends agreed on: a cipher with privacy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) qop: Qop,
    pub(super) cipher: Option<Cipher>,
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rc4_is_offered_only_where_it_is_asked_for() {
        let protection = Protection::of(&[Qop::Privacy]);
        assert_eq!(protection.cipher_list(), "3des");
        assert_eq!(protection.with_rc4().cipher_list(), "3des,rc4");
    }

    #[test]
    fn settings_have_words_of_their_own() {
        let all = ["authentication", " Integrity", "privacy", "auth"].map(Qop::parse_setting);
        assert_eq!(all, [Some(Qop::Auth), Some(Qop::Integrity), Some(Qop::Privacy), None]);
    }
}
