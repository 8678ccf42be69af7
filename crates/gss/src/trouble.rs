//! Kerberos' errors by what has to be done about them.

use crate::c::Status;

macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        /// Kerberos' errors, as `krb5.h` numbers them; the library hands them out as minor statuses.
        pub(crate) mod code {
            $(pub(crate) const $name: i32 = $value;)*

            #[cfg(test)]
            pub(crate) const ALL: &[(&str, i64)] = &[$((stringify!($name), $value)),*];
        }
    };
}

codes! {
    KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN = -1_765_328_378;
    KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN = -1_765_328_377;
    KRB5KDC_ERR_NEVER_VALID = -1_765_328_373;
    KRB5KDC_ERR_ETYPE_NOSUPP = -1_765_328_370;
    KRB5KDC_ERR_CLIENT_REVOKED = -1_765_328_366;
    KRB5KDC_ERR_KEY_EXP = -1_765_328_361;
    KRB5KDC_ERR_PREAUTH_FAILED = -1_765_328_360;
    KRB5KDC_ERR_PATH_NOT_ACCEPTED = -1_765_328_356;
    KRB5KRB_AP_ERR_BAD_INTEGRITY = -1_765_328_353;
    KRB5KRB_AP_ERR_TKT_EXPIRED = -1_765_328_352;
    KRB5KRB_AP_ERR_TKT_NYV = -1_765_328_351;
    KRB5KRB_AP_ERR_REPEAT = -1_765_328_350;
    KRB5KRB_AP_ERR_NOT_US = -1_765_328_349;
    KRB5KRB_AP_ERR_BADMATCH = -1_765_328_348;
    KRB5KRB_AP_ERR_SKEW = -1_765_328_347;
    KRB5KRB_AP_ERR_MSG_TYPE = -1_765_328_344;
    KRB5KRB_AP_ERR_MODIFIED = -1_765_328_343;
    KRB5KRB_AP_ERR_BADKEYVER = -1_765_328_340;
    KRB5KRB_AP_ERR_NOKEY = -1_765_328_339;
    KRB5KRB_AP_ERR_MUT_FAIL = -1_765_328_338;
    KRB5KDC_ERR_WRONG_REALM = -1_765_328_316;
    KRB5_CONFIG_CANTOPEN = -1_765_328_249;
    KRB5_CONFIG_BADFORMAT = -1_765_328_248;
    KRB5_CC_NOTFOUND = -1_765_328_243;
    KRB5_NO_TKT_SUPPLIED = -1_765_328_241;
    KRB5KRB_AP_WRONG_PRINC = -1_765_328_240;
    KRB5_KDCREP_SKEW = -1_765_328_236;
    KRB5_REALM_UNKNOWN = -1_765_328_230;
    KRB5_KDC_UNREACH = -1_765_328_228;
    KRB5_RC_IO = -1_765_328_220;
    KRB5_RC_IO_UNKNOWN = -1_765_328_213;
    KRB5_KT_NOTFOUND = -1_765_328_203;
    KRB5_KT_IOERR = -1_765_328_200;
    KRB5_FCC_PERM = -1_765_328_190;
    KRB5_FCC_NOFILE = -1_765_328_189;
    KRB5_CC_FORMAT = -1_765_328_185;
    KRB5_PREAUTH_FAILED = -1_765_328_174;
    KRB5_KEYTAB_BADVNO = -1_765_328_171;
    KRB5_ERR_HOST_REALM_UNKNOWN = -1_765_328_167;
    KRB5_REALM_CANT_RESOLVE = -1_765_328_164;
    KRB5_CONFIG_NODEFREALM = -1_765_328_160;
    KRB5_KT_KVNONOTFOUND = -1_765_328_154;
    KRB5_KT_FORMAT = -1_765_328_149;
    KRB5_NOPERM_ETYPE = -1_765_328_148;
}

/// The library passes on what the system said. Linux has numbers up to 133.
const ERRNO_MAX: i32 = 133;

/// What was being done. The same error calls for something else by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    /// A keytab is opened, or used to log in.
    Keytab,
    /// Tickets are looked up.
    Tickets,
    /// A peer proves itself.
    Exchange,
    /// A sealed message is made or opened.
    Message,
}

/// What is wrong. Two differ only if something else has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    ClockSkew,
    TicketExpired,
    TicketNotYetValid,
    /// The same proof came before.
    Replay,
    /// The keytab and the KDC do not have the same key.
    StaleKey,
    /// The keytab has no key of this principal, or cannot be read.
    Keytab,
    /// The ticket is for somebody else.
    WrongService,
    UnknownServer,
    UnknownClient,
    /// The client's account is locked, or its password has expired.
    Account,
    /// There is no ticket to begin with.
    NoTicket,
    KdcUnreachable,
    /// No path of trust to the other's realm.
    CrossRealm,
    /// krb5.conf.
    Configuration,
    Encryption,
    /// The system refused a file, as that of the replay cache.
    System,
    /// What came is no token, or was changed on its way.
    Malformed,
    Other,
}

impl Trouble {
    pub(crate) fn of(during: During, status: &Status) -> Self {
        match (during, Self::of_status(status)) {
            // The library did look for tickets and found no key to get some, or found no file.
            (During::Keytab, Self::NoTicket | Self::System) => Self::Keytab,
            // The key is the context's own.
            (During::Message, Self::StaleKey) => Self::Malformed,
            (_, trouble) => trouble,
        }
    }

    fn of_status(status: &Status) -> Self {
        use code::*;
        #[expect(clippy::cast_possible_wrap, reason = "Kerberos' codes are signed, and C carries them as unsigned")]
        let minor = status.minor as i32;
        match minor {
            KRB5KRB_AP_ERR_SKEW | KRB5_KDCREP_SKEW => Self::ClockSkew,
            KRB5KRB_AP_ERR_TKT_EXPIRED => Self::TicketExpired,
            KRB5KRB_AP_ERR_TKT_NYV | KRB5KDC_ERR_NEVER_VALID => Self::TicketNotYetValid,
            KRB5KRB_AP_ERR_REPEAT => Self::Replay,
            KRB5KRB_AP_ERR_BADKEYVER
            | KRB5KRB_AP_ERR_BAD_INTEGRITY
            | KRB5_KT_KVNONOTFOUND
            | KRB5KDC_ERR_PREAUTH_FAILED
            | KRB5_PREAUTH_FAILED => Self::StaleKey,
            KRB5KRB_AP_ERR_NOKEY | KRB5_KT_NOTFOUND | KRB5_KT_IOERR | KRB5_KEYTAB_BADVNO | KRB5_KT_FORMAT => {
                Self::Keytab
            }
            KRB5KRB_AP_ERR_NOT_US | KRB5KRB_AP_WRONG_PRINC | KRB5KRB_AP_ERR_BADMATCH => Self::WrongService,
            KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN => Self::UnknownServer,
            KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN => Self::UnknownClient,
            KRB5KDC_ERR_CLIENT_REVOKED | KRB5KDC_ERR_KEY_EXP => Self::Account,
            KRB5_FCC_NOFILE | KRB5_CC_NOTFOUND | KRB5_NO_TKT_SUPPLIED | KRB5_FCC_PERM | KRB5_CC_FORMAT => {
                Self::NoTicket
            }
            KRB5_KDC_UNREACH | KRB5_REALM_CANT_RESOLVE => Self::KdcUnreachable,
            KRB5_REALM_UNKNOWN
            | KRB5KDC_ERR_PATH_NOT_ACCEPTED
            | KRB5KDC_ERR_WRONG_REALM
            | KRB5_ERR_HOST_REALM_UNKNOWN => Self::CrossRealm,
            KRB5_CONFIG_CANTOPEN | KRB5_CONFIG_BADFORMAT | KRB5_CONFIG_NODEFREALM => Self::Configuration,
            KRB5KDC_ERR_ETYPE_NOSUPP | KRB5_NOPERM_ETYPE => Self::Encryption,
            1..=ERRNO_MAX | KRB5_RC_IO..=KRB5_RC_IO_UNKNOWN => Self::System,
            KRB5KRB_AP_ERR_MODIFIED | KRB5KRB_AP_ERR_MSG_TYPE | KRB5KRB_AP_ERR_MUT_FAIL => Self::Malformed,
            _ => Self::of_major(status.major),
        }
    }

    /// Where Kerberos itself has nothing to say.
    fn of_major(major: u32) -> Self {
        match major >> 16 & 0xff {
            7 => Self::NoTicket,                // GSS_S_NO_CRED
            11 | 12 => Self::TicketExpired,     // GSS_S_CREDENTIALS_EXPIRED, GSS_S_CONTEXT_EXPIRED
            1 | 6 | 9 => Self::Malformed,       // GSS_S_BAD_MECH, GSS_S_BAD_SIG, GSS_S_DEFECTIVE_TOKEN
            0 if major != 0 => Self::Malformed, // sealed messages that come twice, or out of their order
            _ => Self::Other,
        }
    }

    /// In the words that Kerberos' tools, Java and Hadoop have for it. No name and no path is in it, so whoever failed
    /// to prove who he is may hear it.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClockSkew => "Clock skew too great",
            Self::TicketExpired => "Ticket expired",
            Self::TicketNotYetValid => "Ticket not yet valid",
            Self::Replay => "Request is a replay",
            Self::StaleKey => "Specified version of key is not available",
            Self::Keytab => "Cannot find key of appropriate type to decrypt AP REP",
            Self::WrongService => "Wrong principal in request",
            Self::UnknownServer => "Server not found in Kerberos database",
            Self::UnknownClient => "Client not found in Kerberos database",
            Self::Account => "Client's credentials have been revoked",
            Self::NoTicket => "No valid credentials provided",
            Self::KdcUnreachable => "Cannot contact any KDC for the realm",
            Self::CrossRealm => "Fail to create credential: no cross-realm trust",
            Self::Configuration => "Cannot find the default realm",
            Self::Encryption => "KDC has no support for encryption type",
            Self::System => "Input/output error",
            Self::Malformed => "Defective token",
            Self::Other => "Failure unspecified at GSS-API level",
        }
    }

    /// For whoever reads the log.
    pub fn advice(self) -> &'static str {
        match self {
            Self::ClockSkew => {
                "set the clocks of this machine, the other one and the KDC by NTP; Kerberos allows for 5 minutes"
            }
            Self::TicketExpired => "get a new ticket with kinit, or log in by a keytab",
            Self::TicketNotYetValid => "set the clocks, or wait until the ticket's start",
            Self::Replay => {
                "nobody should send the same proof twice; a client that is who it says tries again by itself"
            }
            Self::StaleKey => {
                "compare `klist -kte KEYTAB` with `kvno PRINCIPAL`: make a keytab with the current key, and keep the \
                 previous key in it for as long as tickets live"
            }
            Self::Keytab => "look with `klist -kte KEYTAB` for the principal, and whether this user may read the file",
            Self::WrongService => {
                "compare the principal that clients are configured with and the server's own. If only the hosts \
                 differ, this client's library asks DNS for the host's name: set dns_canonicalize_hostname = false \
                 and rdns = false in [libdefaults] of its krb5.conf"
            }
            Self::UnknownServer => {
                "add the principal to the KDC (kadmin: addprinc -randkey), or correct the name the client asks for; \
                 if it is krbtgt, the realms do not trust each other"
            }
            Self::UnknownClient => "add the principal to the KDC, or correct its name",
            Self::Account => {
                "look at the account on the KDC (kadmin: getprinc): it is locked, or its password has expired"
            }
            Self::NoTicket => {
                "get a ticket with kinit; a service that runs for long names a keytab in KRB5_CLIENT_KTNAME"
            }
            Self::KdcUnreachable => "check the realm's `kdc` in krb5.conf, DNS, and the way to port 88",
            Self::CrossRealm => {
                "check that the realms share a krbtgt key, and [capaths] and [domain_realm] in krb5.conf"
            }
            Self::Configuration => "check krb5.conf, and where KRB5_CONFIG points to",
            Self::Encryption => "check the encryption types of krb5.conf, the keytab and the KDC's principal",
            Self::System => "check that this user may read and write the file",
            Self::Malformed => "something on the way changed or repeated it, or it is no Kerberos",
            Self::Other => "KRB5_TRACE=/dev/stderr shows what the library does",
        }
    }
}
