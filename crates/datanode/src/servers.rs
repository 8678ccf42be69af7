//! Which of the metadata servers leads, as far as the sessions with them know.

use crate::known::Known;
use std::collections::BTreeSet;
use types::mutation::{self, Mutation};
use wire::node::Orders;

#[derive(Debug)]
pub struct Servers {
    /// Sessions with numbers below are those with servers that the configuration names.
    configured_count: usize,
    /// How many servers there are, as far as is known.
    count: usize,
    /// Sessions with one that leads and knows this node: two, for a while, if two are with the same server, or if it is
    /// not known yet that one leads no more.
    leading: BTreeSet<usize>,
    /// The highest that any server named.
    term: u64,
    /// What they said of each other.
    known: Known,
    /// Sessions with servers of another block pool, until they are of this node's.
    foreign: BTreeSet<usize>,
}

impl Servers {
    pub(crate) fn new(configured_count: usize) -> Self {
        let (known, leading, foreign) = (Known::default(), BTreeSet::new(), BTreeSet::new());
        Self { configured_count, count: configured_count, leading, term: 0, known, foreign }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn known(&self) -> &Known {
        &self.known
    }

    /// True while a session is with a server that leads and knows this node.
    pub fn has_leader(&self) -> bool {
        !self.leading.is_empty()
    }

    /// Takes in what the server of session `number` said of itself and the others. True if there is news.
    pub fn hear(&mut self, number: usize, orders: &Orders) -> bool {
        let is_news = self.known.take(number, orders);
        if is_news {
            self.count = self.count.max(self.known.member_count());
        }
        is_news
    }

    /// Notes whether the server of session `number` leads. True if it was so before.
    pub fn note(&mut self, number: usize, leads: bool) -> bool {
        if leads { !self.leading.insert(number) } else { self.leading.remove(&number) }
    }

    /// The highest term that any server named.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// False for a server that does not know that another one was elected after it. One that is alone is always
    /// believed: its log may have been put back from a copy.
    pub(crate) fn is_believed(&mut self, term: u64) -> bool {
        let is_latest = self.term <= term || mutation::is(Mutation::ObeyFormerLeaders);
        self.term = self.term.max(term);
        is_latest || self.count == 1
    }

    /// Notes whether the server of session `number` is of another block pool. True if it was so before.
    pub fn note_foreign(&mut self, number: usize, is_foreign: bool) -> bool {
        if is_foreign { !self.foreign.insert(number) } else { self.foreign.remove(&number) }
    }

    /// True if no server is left that may be of this node's block pool: all that the configuration names are of
    /// another, and there is no session with one that joined them. A server among several may have lost its data and
    /// begun a store anew.
    pub fn is_all_foreign(&self) -> bool {
        (0..self.configured_count).all(|number| self.foreign.contains(&number))
            && self.known.sessions().all(|number| self.foreign.contains(&number))
    }

    /// A session ended for good.
    pub fn end(&mut self, number: usize) {
        self.note(number, false);
        self.note_foreign(number, false);
        self.known.forget(number);
    }

    pub(crate) fn check(&self) {
        assert!(self.count >= self.configured_count, "servers are counted as they become known");
        assert!(self.leading.is_disjoint(&self.foreign), "a server of another block pool does not lead this node");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_of_before_is_believed_only_where_it_is_alone() {
        let (mut several, mut alone) = (Servers::new(3), Servers::new(1));
        assert!(several.is_believed(4) && several.is_believed(4) && !several.is_believed(3) && several.is_believed(5));
        assert!(alone.is_believed(4) && alone.is_believed(3), "its log was put back from a copy");
    }

    #[test]
    fn one_foreign_server_among_several_does_not_end_the_node() {
        let mut servers = Servers::new(2);
        assert!(!servers.note_foreign(0, true) && servers.note_foreign(0, true));
        assert!(!servers.is_all_foreign());
        servers.note_foreign(1, true);
        assert!(servers.is_all_foreign());
        servers.end(0);
        assert!(!servers.is_all_foreign());
        servers.check();
    }

    #[test]
    fn a_server_leads_as_long_as_one_session_says_so() {
        let mut servers = Servers::new(3);
        assert!(!servers.note(0, true) && !servers.note(2, true) && servers.note(2, true));
        assert!(servers.note(0, false) && !servers.note(0, false) && servers.has_leader());
        assert!(servers.note(2, false) && !servers.has_leader());
    }
}
