//! Who calls over a connection, and how that was proven.

use hdfs::exception::{ACCESS_CONTROL, Exception};
use security::delegation::Proven;
use security::method::Method;
use security::node_name::{Certified, NodeName};

/// Of a user who proved nothing: no system has longer names.
const USER_LEN_MAX: usize = 255;
/// Of others: a Kerberos name, or the owner of a token.
const WHOLE_NAME_LEN_MAX: usize = security::kerberos_name::NAME_LEN_MAX;

/// Who a connection says it is, and what it proved of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// In whose name calls are made; with Kerberos a whole name, or a short one. Never empty.
    pub effective: String,
    /// Who makes them, when that is somebody else. Whether he may is for the service to decide, but for the real user
    /// of a token, who was asked when the token was issued.
    pub real: Option<String>,
    pub proof: Proof,
}

/// What a connection proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// SIMPLE: nothing. Both names are what the client says.
    Nothing,
    /// That it has a token. Both names are the token's.
    Token(Box<Proven>),
    /// That it has a ticket of this whole name, which is the real user's if there is one.
    Kerberos { name: String },
    /// By its certificate, that it is this node of the store. The effective user is the node's name, whatever it says.
    Node(Certified),
}

impl Proof {
    pub fn method(&self) -> Method {
        match self {
            Self::Nothing => Method::Simple,
            Self::Token(_) => Method::Token,
            Self::Kerberos { .. } => Method::Kerberos,
            Self::Node(_) => Method::Certificate,
        }
    }

    /// The id of the metadata server that it is of, by its certificate.
    pub fn member(&self) -> Option<u64> {
        match self {
            Self::Node(Certified { name: NodeName::Member(id), .. }) => Some(*id),
            _ => None,
        }
    }
}

impl Identity {
    /// The effective user of a connection that named nobody.
    pub const ANONYMOUS: &str = "anonymous";

    /// Of names that nobody proved.
    pub fn simple(effective: impl Into<String>, real: Option<String>) -> Self {
        Self { effective: effective.into(), real, proof: Proof::Nothing }
    }

    /// Of who proved by a ticket to be `name`, and wants to act as `effective`. Whether he may, the service decides.
    pub fn of_ticket(name: String, effective: Option<String>) -> Result<Self, Exception> {
        Self::of_context(Proof::Kerberos { name }, effective, None)
    }

    /// What a connection's context makes of what was proven before: `effective` and `real` are the names in it.
    pub(crate) fn of_context(proof: Proof, effective: Option<String>, real: Option<String>) -> Result<Self, Exception> {
        let len_max = if proof == Proof::Nothing { USER_LEN_MAX } else { WHOLE_NAME_LEN_MAX };
        let named = |name: Option<String>| name.filter(|name| !name.is_empty());
        let (effective, real) = (named(effective), named(real));
        if let Some(name) = [&effective, &real].into_iter().flatten().find(|name| name.len() > len_max) {
            let message = format!("the name of a user has {} bytes: give one of 1 to {len_max}", name.len());
            return Err(Exception::unauthorized(ACCESS_CONTROL, message));
        }
        match proof {
            Proof::Nothing => {
                // No user at all happens after SASL only; where nothing is proven that is as good as any other.
                let effective = effective.unwrap_or_else(|| Self::ANONYMOUS.to_owned());
                let real = real.filter(|real| *real != effective);
                Ok(Self { effective, real, proof: Proof::Nothing })
            }
            Proof::Token(proven) => {
                let (owner, by) = names_of(&proven);
                // Whoever acts for somebody else needs a token that says so.
                if let Some(claimed) = effective.filter(|claimed| *claimed != owner) {
                    let claimed = types::excerpt(&claimed);
                    let message = format!(
                        "Authenticated user ({owner} (auth:TOKEN)) doesn't match what the client claims to be \
                         ({claimed})"
                    );
                    return Err(Exception::unauthorized(ACCESS_CONTROL, message));
                }
                let real = by.filter(|by| *by != owner);
                Ok(Self { effective: owner, real, proof: Proof::Token(proven) })
            }
            Proof::Node(node) => Ok(Self { effective: node.name.to_string(), real: None, proof: Proof::Node(node) }),
            Proof::Kerberos { name } => {
                // The ticket says who the real user is: what the context says of that does not count.
                let effective = effective.unwrap_or_else(|| name.clone());
                let real = (effective != name).then(|| name.clone());
                Ok(Self { effective, real, proof: Proof::Kerberos { name } })
            }
        }
    }
}

/// As whom a token's holder acts, and who asked for the token if that was another.
fn names_of(proven: &Proven) -> (String, Option<String>) {
    let identifier = proven.identifier();
    let real = Some(identifier.real_user.clone()).filter(|real| !real.is_empty());
    (identifier.owner.clone(), real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(proof: Proof, effective: &str, real: &str) -> Result<(String, Option<String>), String> {
        let identity = Identity::of_context(proof, Some(effective.to_owned()), Some(real.to_owned()));
        identity.map(|identity| (identity.effective, identity.real)).map_err(|refused| refused.message)
    }

    fn ticket() -> Proof {
        Proof::Kerberos { name: "ada@EXAMPLE.COM".into() }
    }

    fn acting(effective: &str, real: Option<&str>) -> Result<(String, Option<String>), String> {
        Ok((effective.to_owned(), real.map(str::to_owned)))
    }

    #[test]
    fn without_a_proof_the_context_is_believed() {
        assert_eq!(of(Proof::Nothing, "alice", ""), acting("alice", None));
        assert_eq!(of(Proof::Nothing, "alice", "oozie"), acting("alice", Some("oozie")));
        assert_eq!(of(Proof::Nothing, "alice", "alice"), acting("alice", None));
        assert_eq!(of(Proof::Nothing, "", ""), acting("anonymous", None));
        assert!(of(Proof::Nothing, &"a".repeat(256), "").is_err());
    }

    #[test]
    fn who_has_a_ticket_is_the_real_user() {
        assert_eq!(of(ticket(), "", ""), acting("ada@EXAMPLE.COM", None));
        assert_eq!(of(ticket(), "ada@EXAMPLE.COM", ""), acting("ada@EXAMPLE.COM", None));
        assert_eq!(of(ticket(), "bob", "root"), acting("bob", Some("ada@EXAMPLE.COM")), "it is not root's");
        assert!(of(ticket(), &"a".repeat(1025), "").is_err());
    }
}
