//! Names of Kerberos: `service/host@REALM`, of which host and realm may be missing.

use std::fmt;

/// Longest name taken. Kerberos has no limit; a guess that is well above any name that is typed.
pub const NAME_LEN_MAX: usize = 1024;

/// What stands for the name of the machine in settings.
pub const HOST_PATTERN: &str = "_HOST";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KerberosName {
    /// A user's name, or a service's.
    pub service: String,
    pub host: Option<String>,
    pub realm: Option<String>,
}

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KerberosNameError {
    #[error("a Kerberos name of {len} bytes, at most {NAME_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("Malformed Kerberos name: {}", types::excerpt(name))]
    Malformed { name: String },
    #[error("the Kerberos name {} has {HOST_PATTERN}, and the name of this machine is not known", types::excerpt(name))]
    HostUnknown { name: String },
}

impl KerberosName {
    /// Hadoop takes a malformed name that has no realm as the name of a user, slashes and all; here it is refused.
    pub fn parse(name: &str) -> Result<Self, KerberosNameError> {
        if name.len() > NAME_LEN_MAX {
            return Err(KerberosNameError::TooLong { len: name.len() });
        }
        let malformed = || KerberosNameError::Malformed { name: name.to_owned() };
        // Lines are separated by these: in a log a name could look like two, and in a rule `.` would not match it.
        if name.chars().any(|letter| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')) {
            return Err(malformed());
        }
        let (front, realm) = match name.split_once('@') {
            Some((front, realm)) => (front, Some(realm)),
            None => (name, None),
        };
        let (service, host) = match front.split_once('/') {
            Some((service, host)) => (service, Some(host)),
            None => (front, None),
        };
        let is_part = |part: &str| !part.is_empty() && !part.contains(['/', '@']);
        if ![Some(service), host, realm].into_iter().flatten().all(is_part) {
            return Err(malformed());
        }
        let [host, realm] = [host, realm].map(|part| part.map(str::to_owned));
        Ok(Self { service: service.to_owned(), host, realm })
    }

    /// A name of the settings, with the name of this machine for `_HOST`: `nn/_HOST@REALM`.
    pub fn of_setting(setting: &str, host: &str) -> Result<Self, KerberosNameError> {
        let parsed = Self::parse(setting.trim())?;
        match (&parsed.host, &parsed.realm) {
            (Some(pattern), Some(_)) if pattern == HOST_PATTERN => {
                let is_known = !host.is_empty() && host != "0.0.0.0" && host != "::" && !host.contains(['/', '@']);
                if !is_known {
                    return Err(KerberosNameError::HostUnknown { name: setting.to_owned() });
                }
                Ok(Self { host: Some(host.to_ascii_lowercase()), ..parsed })
            }
            _ => Ok(parsed),
        }
    }

    /// Parts before the realm.
    pub fn component_count(&self) -> usize {
        if self.host.is_some() { 2 } else { 1 }
    }
}

impl fmt::Display for KerberosName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.service)?;
        if let Some(host) = &self.host {
            write!(f, "/{host}")?;
        }
        if let Some(realm) = &self.realm {
            write!(f, "@{realm}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_up_to_three_parts() {
        for name in ["ada", "ada@X.COM", "nn/host", "nn/host.example.com@X.COM", "a b'c@X"] {
            assert_eq!(KerberosName::parse(name).unwrap().to_string(), name);
        }
        let parsed = KerberosName::parse("nn/host@X").unwrap();
        assert_eq!(
            (parsed.service.as_str(), parsed.host.as_deref(), parsed.realm.as_deref()),
            ("nn", Some("host"), Some("X"))
        );
        assert_eq!(parsed.component_count(), 2);
    }

    #[test]
    fn malformed_names_are_refused() {
        for name in ["", "@X", "/h@X", "a/@X", "a@", "a/b/c", "a/b/c@X", "a@b@X", "a@b/c", "a\nb", "a\u{2028}b"] {
            assert_eq!(KerberosName::parse(name), Err(KerberosNameError::Malformed { name: name.into() }), "{name:?}");
        }
        assert_eq!(KerberosName::parse(&"a".repeat(1025)), Err(KerberosNameError::TooLong { len: 1025 }));
    }

    #[test]
    fn a_setting_may_leave_the_host_open() {
        let of = |setting, host| KerberosName::of_setting(setting, host).map(|name| name.to_string());
        assert_eq!(of("nn/_HOST@X", "Host.Example.Com"), Ok("nn/host.example.com@X".into()));
        assert_eq!(of("nn/other@X", "host"), Ok("nn/other@X".into()));
        assert_eq!(of("_HOST@X", "host"), Ok("_HOST@X".into()));
        for unknown in ["", "0.0.0.0", "a@b"] {
            assert!(matches!(of("nn/_HOST@X", unknown), Err(KerberosNameError::HostUnknown { .. })));
        }
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_printed_again(name in "[a-c/@.\\PC]{0,12}") {
            if let Ok(parsed) = KerberosName::parse(&name) {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }
    }
}
