//! The ticket of Kerberos that the user of this process has.

use gss::{Initiator, Tickets, Trouble};
use security::kerberos_name::KerberosName;
use std::sync::{Arc, OnceLock};

/// Where the ticket is, by the library's name for it.
const VARIABLE: &str = "KRB5CCNAME";

#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) initiator: Arc<Initiator>,
    /// The short name that it is for, by the rule of Hadoop that needs no settings.
    user: String,
}

/// What the library found: it alone knows where `kinit` leaves tickets (a file, a directory, the kernel's keyring, a
/// daemon), as krb5.conf says.
#[derive(Clone, Debug)]
enum Found {
    Ticket(Ticket),
    /// None that can be used, and why, in words for the user if something is to be done about it.
    None(Option<String>),
}

impl Ticket {
    /// Looked for once. Waits for the disk.
    pub(crate) fn of_environment() -> Option<Self> {
        match found() {
            Found::Ticket(ticket) => Some(ticket.clone()),
            Found::None(_) => None,
        }
    }

    /// The short name of who has the ticket.
    pub(crate) fn user() -> Option<String> {
        Self::of_environment().map(|ticket| ticket.user)
    }

    /// Why there is none, if there was to be one.
    pub(crate) fn why_none() -> Option<String> {
        match found() {
            Found::Ticket(_) => None,
            Found::None(why) => why.clone(),
        }
    }
}

fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(find)
}

fn find() -> Found {
    let named = std::env::var(VARIABLE).ok().filter(|cache| !cache.is_empty());
    let found = Initiator::new(Tickets::DefaultCache, None).and_then(|initiator| Ok((initiator.login()?, initiator)));
    match found {
        Ok((login, initiator)) => match KerberosName::parse(&login.name) {
            Ok(name) => Found::Ticket(Ticket { initiator: Arc::new(initiator), user: name.service }),
            Err(_) => {
                Found::None(Some(format!("the name that the ticket of Kerberos is for, {}, is none", login.name)))
            }
        },
        Err(error) => {
            tracing::debug!(%error, "no ticket of Kerberos is used");
            Found::None(why_none(error.trouble(), &error.to_string(), named.as_deref()))
        }
    }
}

/// Nothing is to be said where nobody has asked for a ticket: most stores want none.
fn why_none(trouble: Option<Trouble>, error: &str, named: Option<&str>) -> Option<String> {
    match (trouble, named) {
        (Some(Trouble::TicketExpired), _) => {
            let cache = named.unwrap_or("the default cache");
            Some(format!(
                "your ticket of Kerberos in {cache} has expired (klist says when): get another one with kinit"
            ))
        }
        (_, Some(named)) => Some(format!("there is no ticket of Kerberos in {named}, which KRB5CCNAME names: {error}")),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_have_a_ticket_hears_why_there_is_none() {
        let expired = why_none(Some(Trouble::TicketExpired), "Success", None).unwrap();
        assert!(expired.contains("has expired") && expired.contains("kinit"), "{expired}");
        assert!(!expired.contains("Success"), "{expired}");
        let named = why_none(Some(Trouble::NoTicket), "no such file", Some("KCM:")).unwrap();
        assert!(named.contains("KCM:") && named.contains("no such file"), "{named}");
        assert_eq!(why_none(Some(Trouble::NoTicket), "no such file", None), None);
        assert_eq!(why_none(None, "no library", None), None);
    }
}
