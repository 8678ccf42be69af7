//! A rule as it was read.

use super::pattern::Pattern;
use super::substitution::Substitution;
use crate::kerberos_name::KerberosName;

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) text: String,
    pub(super) kind: RuleKind,
    pub(super) is_lower_case: bool,
}

#[derive(Clone, Debug)]
pub(super) enum RuleKind {
    Default,
    Made(Box<Made>),
}

/// What a rule makes of a name of so many parts.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) component_count: usize,
    pub(super) format: Vec<Piece>,
    pub(super) matching: Option<Pattern>,
    pub(super) substitution: Option<Substitution>,
}

/// A piece of what a name is made into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Realm,
    /// From 1 on.
    Component(usize),
}

/// `None`: it asks for a realm, and there is none. Hadoop writes "null" there.
pub(super) fn made(format: &[Piece], whole: &KerberosName) -> Option<String> {
    let mut made = String::new();
    for piece in format {
        made.push_str(match piece {
            Piece::Text(text) => text,
            Piece::Realm => whole.realm.as_deref()?,
            Piece::Component(1) => &whole.service,
            Piece::Component(_) => whole.host.as_deref()?,
        });
    }
    Some(made)
}
