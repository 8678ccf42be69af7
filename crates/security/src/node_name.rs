//! What a node of the store is called in its certificate: `levada://member/1`, `levada://datanode/UUID`.
//!
//! Promise: a name has one form. What differs from it in case, in a leading zero or in a hyphen is no name, so that two
//! texts never stand for one node.

use std::fmt;
use types::{Millis, NodeId};

const MEMBER: &str = "levada://member/";
const DATANODE: &str = "levada://datanode/";

/// A process of the store, as its certificate names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeName {
    /// A metadata server, by its number in the group.
    Member(u64),
    Datanode(NodeId),
}

impl NodeName {
    /// `None`: no name of a node.
    pub fn parse(text: &str) -> Option<Self> {
        let member = || text.strip_prefix(MEMBER)?.parse().ok().map(Self::Member);
        let datanode = || NodeId::parse(text.strip_prefix(DATANODE)?).map(Self::Datanode);
        member().or_else(datanode).filter(|name| name.to_string() == text)
    }

    pub fn is_member(self) -> bool {
        matches!(self, Self::Member(_))
    }
}

/// What a certificate that counts says of the process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certified {
    pub name: NodeName,
    /// By the clock of whoever made it.
    pub issued_at: Millis,
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(id) => write!(f, "{MEMBER}{id}"),
            Self::Datanode(id) => write!(f, "{DATANODE}{id}"),
        }
    }
}

/// Whom an end of a connection must find at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    AnyMember,
    AnyDatanode,
    Node(NodeName),
}

impl Expected {
    pub fn is(self, name: NodeName) -> bool {
        match self {
            Self::AnyMember => name.is_member(),
            Self::AnyDatanode => !name.is_member(),
            Self::Node(expected) => expected == name,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyMember => f.write_str("a metadata server"),
            Self::AnyDatanode => f.write_str("a datanode"),
            Self::Node(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: NodeId = NodeId([0xab; 16]);

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in [NodeName::Member(0), NodeName::Member(u64::MAX), NodeName::Datanode(ID)] {
            assert_eq!(NodeName::parse(&name.to_string()), Some(name));
        }
    }

    #[test]
    fn another_form_of_a_name_is_none() {
        let datanode = NodeName::Datanode(ID).to_string();
        let shuffled = format!("{DATANODE}{}----", "ab".repeat(16));
        let upper = datanode.replace("ab", "AB");
        let longer = format!("{datanode}0");
        let others =
            ["levada://member/01", "levada://member/+1", "levada://member/", "LEVADA://member/1", "", &shuffled];
        for text in others.into_iter().chain([upper.as_str(), longer.as_str()]) {
            assert_eq!(NodeName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_node_is_what_is_expected_or_refused() {
        let (member, datanode) = (NodeName::Member(1), NodeName::Datanode(ID));
        assert!(Expected::AnyMember.is(member) && !Expected::AnyMember.is(datanode));
        assert!(Expected::AnyDatanode.is(datanode) && !Expected::AnyDatanode.is(member));
        assert!(Expected::Node(member).is(member) && !Expected::Node(member).is(NodeName::Member(2)));
    }

    proptest! {
        #[test]
        fn no_text_has_two_names(text in "(levada://(member|datanode)/)?[0-9a-fA-F-]{0,40}") {
            if let Some(name) = NodeName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
