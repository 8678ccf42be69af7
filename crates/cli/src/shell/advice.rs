//! What a user of this command can do about an error, where that is not plain.

use client::{Error, ErrorKind};

/// Of refusals that concern who calls: part of the text that HDFS's servers, and ours, or our own client has for it.
/// What Kerberos' library says ends with advice of its own. The first that fits counts.
const OF_CALLERS: &[(&str, Option<&str>)] = &[
    (
        "is not allowed to impersonate",
        Some(
            "the store's settings say who may act for whom (proxy_users, hadoop.proxyuser.*); to act as yourself leave \
             out --user and HADOOP_PROXY_USER",
        ),
    ),
    (
        "No rules applied to",
        Some("the store has no short name for that one: an administrator adds a rule to auth_to_local"),
    ),
    (
        "settings do not allow it",
        Some(
            "a server that asks for no proof may be anybody; if this one is to be believed all the same, set \
             ipc.client.fallback-to-simple-auth-allowed to true in $HADOOP_CONF_DIR/core-site.xml",
        ),
    ),
    ("SIMPLE authentication is not enabled", Some("the store asks for Kerberos: get a ticket with kinit")),
    ("cannot log in", None),
    ("Clock skew too great", Some("set the clocks of this machine and of the server, as by NTP")),
    ("Ticket not yet valid", Some("set the clocks of this machine and of the server, as by NTP")),
    ("Ticket expired", Some("get another ticket with kinit")),
    ("can't be found in cache", Some(TOKEN)),
    ("is expired, current time", Some(TOKEN)),
    ("the token is not valid", Some(TOKEN)),
    ("Superuser privilege is required", Some(SUPERUSER)),
    (
        "Permission denied",
        Some(
            "its owner or a superuser can allow it, see `levada ls -d`; where the store asks for no proof, --user says \
             who acts",
        ),
    ),
];

/// The refusal does not say for whom else it is.
const SUPERUSER: &str = "that is for superusers of the store, and most of `levada admin` for its administrators, too; \
                         `admin datanode invite` and `admin meta backup`, which have keys to all files, are not";

const TOKEN: &str = "the delegation token in the file of HADOOP_TOKEN_FILE_LOCATION counts no more: get another one, \
                     or unset that and use a ticket";

pub(crate) fn on(error: &Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::Denied | ErrorKind::Refused => on_caller(&error.to_string()),
        kind => on_kind(kind),
    }
}

fn on_caller(text: &str) -> Option<&'static str> {
    // Some texts have lost their first capital letter.
    let text = text.to_ascii_lowercase();
    OF_CALLERS.iter().find(|(part, _)| text.contains(&part.to_ascii_lowercase())).and_then(|(_, advice)| *advice)
}

fn on_kind(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Unreachable => "is the store running, and is the address right? see --url",
        ErrorKind::TimedOut => "look at the server's log, and try again",
        ErrorKind::Broken => {
            "look at the server's log, and try again; if the port is a datanode's, give the metadata server's, 8020 if \
             nobody chose another"
        }
        ErrorKind::Protocol => {
            "if the port is a web server's, give the metadata server's RPC port, 8020 if nobody chose another"
        }
        ErrorKind::NotAMetadataServer => {
            "that is no metadata server; if the port is a datanode's, give the metadata server's, 8020 if nobody chose \
             another"
        }
        ErrorKind::SafeMode => {
            "an administrator wants nothing to change; `levada admin safemode wait` tells when it is over"
        }
        ErrorKind::NoSuchDatanode => "see `levada admin datanode list`",
        ErrorKind::NoSuchJob => "see `levada admin jobs`",
        ErrorKind::Busy => "wait for its writer to close it; a dead writer's file is freed after a minute",
        ErrorKind::NoReplica => "are the datanodes running?",
        ErrorKind::NoNodeLeft => {
            "are the datanodes running, and is there room on their disks? `levada admin datanode list` tells; start \
             them, or delete files if the disks are full, then write the file again"
        }
        ErrorKind::NotComplete => "try again; the datanodes may be overloaded",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_what_was_refused() {
        for (text, advice) in [
            ("User: ada@X is not allowed to impersonate bob", "proxy_users"),
            ("Illegal principal name \"ada@Y\": No rules applied to ada@Y", "auth_to_local"),
            ("SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]", "kinit"),
            (
                "cannot log in: the server asks to go on without a proof, and this client's settings do not allow it",
                "ipc.client.fallback-to-simple-auth-allowed",
            ),
            ("GSS initiate failed [Caused by GSSException: Ticket not yet valid]", "NTP"),
            ("GSS initiate failed [Caused by GSSException: Ticket expired]", "kinit"),
            ("token (7 for ada@X) can't be found in cache", "HADOOP_TOKEN_FILE_LOCATION"),
            ("permission denied: user=ada, access=WRITE, inode=\"/\":nn:supergroup:drwxr-xr-x", "its owner"),
            ("Access denied for user ada. Superuser privilege is required", "keys to all files, are not"),
        ] {
            assert!(on_caller(text).is_some_and(|said| said.contains(advice)), "{text}: {:?}", on_caller(text));
        }
    }

    #[test]
    fn nobody_is_sent_to_kinit_by_what_a_ticket_does_not_change() {
        let unreachable = "cannot log in: Kerberos: Kerberos login to nn/localhost: Cannot contact any KDC for realm \
                           'X': check the realm's `kdc` in krb5.conf, DNS, and the way to port 88";
        assert_eq!(on_caller(unreachable), None, "the text ends with what to do");
        assert_eq!(on_caller("a join token is given to nobody where others could hear it"), None);
    }
}
