//! What the metadata servers said of themselves and each other.

use std::collections::{BTreeMap, BTreeSet};
use wire::node::Orders;

/// More than a group has.
const MEMBER_COUNT_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Which member is at the other end of a session.
    ids: BTreeMap<usize, u64>,
    /// Where each member is.
    members: BTreeMap<u64, String>,
}

impl Known {
    /// Takes in what the server of session `number` answered. True if there is news.
    pub(crate) fn take(&mut self, number: usize, orders: &Orders) -> bool {
        if orders.id == 0 || orders.members.is_empty() || orders.members.len() > MEMBER_COUNT_MAX {
            return false; // alone, or of an earlier version
        }
        let named = orders.members.iter().map(|member| (member.id, member.addr.clone())).collect();
        let before = self.clone();
        self.ids.insert(number, orders.id);
        if orders.standby {
            // One that was removed, or lags, names some that are gone, and lacks others.
            let missing: Vec<_> = BTreeMap::into_iter(named).filter(|(id, _)| !self.members.contains_key(id)).collect();
            self.members.extend(missing);
        } else {
            self.members = named;
        }
        self.members.len() <= 2 * MEMBER_COUNT_MAX && *self != before
    }

    /// Members that none of the configured sessions reaches.
    pub fn others(&self, configured: &[String]) -> BTreeMap<u64, String> {
        let reached: BTreeSet<u64> = self.ids.range(..configured.len()).map(|(_, id)| *id).collect();
        let others = self.members.iter().filter(|(id, addr)| !reached.contains(id) && !configured.contains(addr));
        others.map(|(id, addr)| (*id, addr.clone())).collect()
    }

    pub fn addrs(&self) -> impl Iterator<Item = String> {
        self.members.values().cloned()
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Those over which a server has said who it is.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = usize> {
        self.ids.keys().copied()
    }

    pub(crate) fn forget(&mut self, number: usize) {
        self.ids.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::node::Member;

    fn orders(id: u64, standby: bool, members: &[(u64, &str)]) -> Orders {
        let members = members.iter().map(|(id, addr)| Member { id: *id, addr: (*addr).to_owned() }).collect();
        Orders { known: true, standby, id, members, ..Orders::default() }
    }

    /// Three are configured, by other names than the group has; a fourth joins, and the first leaves.
    #[test]
    fn a_member_that_joined_is_called_and_one_that_left_is_not() {
        let configured: Vec<String> = ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec();
        let three = [(1, "h1:1"), (2, "h2:1"), (3, "h3:1")];
        let four = [(1, "h1:1"), (2, "h2:1"), (3, "h3:1"), (4, "h4:1")];
        let mut known = Known::default();
        assert!(known.take(0, &orders(1, false, &three)));
        assert!(known.take(1, &orders(2, true, &three)) && known.take(2, &orders(3, true, &three)));
        assert!(!known.take(2, &orders(3, true, &three)), "no news");
        assert_eq!(known.others(&configured), BTreeMap::new());
        // One that stands by knows it first; the leader alone says who is gone.
        assert!(known.take(1, &orders(2, true, &four)));
        assert_eq!(known.others(&configured), BTreeMap::from([(4, "h4:1".to_owned())]));
        assert!(known.take(3, &orders(4, false, &four[1..])));
        assert_eq!((known.others(&configured).len(), known.member_count()), (1, 3));
        assert!(known.take(1, &orders(2, false, &three)));
        assert_eq!(known.others(&configured), BTreeMap::new());
    }

    #[test]
    fn a_server_that_is_alone_names_nobody() {
        let mut known = Known::default();
        assert!(!known.take(0, &Orders { known: true, ..Orders::default() }));
    }
}
