//! Who acts where nobody says so, found out as Hadoop's clients do.
//!
//! | what | counts |
//! |---|---|
//! | `HADOOP_PROXY_USER` | always: who proves himself, or says who he is, acts for that user |
//! | `HADOOP_USER_NAME` | where nobody proves who he is: a variable does not change whose a ticket is |
//! | a delegation token, else the ticket of Kerberos | whose it is |
//!
//! Whether Kerberos is in use `hadoop.security.authentication` says in `$HADOOP_CONF_DIR/core-site.xml`; where that
//! says nothing, it is if there is a ticket or a token.

use crate::login;
use crate::nameservice;
use crate::ticket::Ticket;

const PROXY: &str = "HADOOP_PROXY_USER";
const NAME: &str = "HADOOP_USER_NAME";

/// Who acts, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acting {
    /// As whom calls are made.
    pub user: String,
    /// Who makes them, if that is somebody else and nobody is asked for a proof: [`crate::Options::real_user`].
    pub real_user: Option<String>,
}

impl Acting {
    /// `given`: by an option or an argument, which comes before all else. `this_process`: its user, if it is known.
    /// `None`: nobody is. Waits for the disk.
    pub fn of_environment(given: Option<String>, this_process: impl FnOnce() -> Option<String>) -> Option<Self> {
        let said = |name: &str| std::env::var(name).ok().filter(|said| !said.is_empty());
        let said = Said {
            given: given.filter(|given| !given.is_empty()),
            proxy: said(PROXY),
            name: said(NAME),
            is_kerberos: nameservice::is_kerberos(),
            token: login::token_owner(),
            ticket: Ticket::user(),
        };
        said.acting(this_process)
    }
}

/// All that has a say.
#[derive(Clone, Debug, Default)]
struct Said {
    given: Option<String>,
    proxy: Option<String>,
    name: Option<String>,
    /// By Hadoop's configuration, if that says anything.
    is_kerberos: Option<bool>,
    /// Whose delegation token there is.
    token: Option<String>,
    /// Whose ticket.
    ticket: Option<String>,
}

impl Said {
    fn acting(self, this_process: impl FnOnce() -> Option<String>) -> Option<Acting> {
        let Self { given, proxy, name, is_kerberos, token, ticket } = self;
        // As for a login: a job may run where somebody else has a ticket. Where Hadoop's configuration has no Kerberos,
        // tickets are for something else.
        let proven = token.or(ticket.filter(|_| is_kerberos != Some(false)));
        let is_kerberos = is_kerberos.unwrap_or(proven.is_some());
        let caller = || name.filter(|_| !is_kerberos).or(proven).or_else(this_process);
        if let Some(user) = given {
            return Some(Acting { user, real_user: None });
        }
        match proxy {
            Some(user) => Some(Acting { real_user: caller().filter(|real| *real != user), user }),
            None => caller().map(|user| Acting { user, real_user: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acting(said: Said) -> (String, Option<String>) {
        let Acting { user, real_user } = said.acting(|| Some("process".into())).unwrap();
        (user, real_user)
    }

    fn some(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn a_variable_names_who_proves_nothing() {
        let named = || Said { name: some("bob"), ..Said::default() };
        assert_eq!(acting(named()), ("bob".into(), None));
        assert_eq!(acting(Said { given: some("eve"), ..named() }), ("eve".into(), None));
        assert_eq!(acting(Said::default()), ("process".into(), None));
        assert_eq!(Said::default().acting(|| None), None);
    }

    #[test]
    fn a_variable_does_not_name_who_has_a_ticket() {
        let ticket = || Said { name: some("bob"), ticket: some("ada"), ..Said::default() };
        assert_eq!(acting(ticket()), ("ada".into(), None));
        // As with Hadoop, whose configuration may say that tickets are for something else, or that there has to be one.
        assert_eq!(acting(Said { is_kerberos: Some(false), ..ticket() }), ("bob".into(), None));
        let nobody_named = Said { is_kerberos: Some(false), name: None, ..ticket() };
        assert_eq!(acting(nobody_named), ("process".into(), None));
        let job = Said { token: some("eve"), is_kerberos: Some(false), name: None, ..ticket() };
        assert_eq!(acting(job), ("eve".into(), None), "somebody gave it to this process for this store");
        let none = Said { is_kerberos: Some(true), ticket: None, ..ticket() };
        assert_eq!(acting(none), ("process".into(), None));
    }

    #[test]
    fn a_proxy_user_has_somebody_real_behind() {
        let proxy = || Said { proxy: some("carol"), ..Said::default() };
        assert_eq!(acting(proxy()), ("carol".into(), some("process")));
        assert_eq!(acting(Said { name: some("bob"), ..proxy() }), ("carol".into(), some("bob")));
        let ticket = Said { name: some("bob"), ticket: some("ada"), ..proxy() };
        assert_eq!(acting(ticket), ("carol".into(), some("ada")));
        assert_eq!(acting(Said { given: some("eve"), ..proxy() }), ("eve".into(), None));
        assert_eq!(acting(Said { name: some("carol"), ..proxy() }), ("carol".into(), None));
    }
}
