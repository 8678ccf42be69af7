//! Distance between nodes: the order in which a chain passes nodes, and in which a reader tries them.

use crate::cluster::Cluster;
use crate::member::Member;
use blocks::Node;
use std::time::Duration;
use types::{ContainerId, NodeId, Random};

/// Steps over the network, as far as addresses and racks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    SameHost,
    SameRack,
    Apart,
}

/// Machines of clients whose racks are remembered; beyond that the first is forgotten, and asked about again.
const RACK_COUNT_MAX: usize = 10_000;

/// Where a client is: its host, and the rack, if a node on that host or the topology script gives it.
pub(crate) struct Viewpoint<'a> {
    host: Option<&'a str>,
    rack: Option<String>,
}

impl Viewpoint<'_> {
    pub(crate) fn distance(&self, to: &Node) -> Distance {
        match () {
            () if self.host.is_some_and(|host| to.is_on(host)) => Distance::SameHost,
            () if self.rack.as_ref() == Some(&to.rack) => Distance::SameRack,
            () => Distance::Apart,
        }
    }
}

fn between(from: &Node, to: &Node) -> Distance {
    match () {
        () if from.ip == to.ip => Distance::SameHost,
        () if from.rack == to.rack => Distance::SameRack,
        () => Distance::Apart,
    }
}

impl Cluster {
    pub(crate) fn viewpoint<'a>(&self, host: Option<&'a str>) -> Viewpoint<'a> {
        let neighbour = host.and_then(|host| self.nodes.values().find(|member| member.node.is_on(host)));
        let of_host = || host.and_then(|host| self.racks.get(host)).cloned();
        Viewpoint { host, rack: neighbour.map(|member| member.node.rack.clone()).or_else(of_host) }
    }

    /// False if the rack of this machine is not known yet.
    pub fn knows_rack(&self, host: &str) -> bool {
        self.racks.contains_key(host)
    }

    pub fn on_rack_found(&mut self, host: String, rack: String) {
        if self.racks.len() >= RACK_COUNT_MAX {
            self.racks.pop_first();
        }
        self.racks.insert(host, rack);
    }

    /// The members of a container in the order a reader at `client` should try them: near ones before far ones, and by
    /// chance among equals, so that readers spread. Quiet ones come last, and
    /// after them those that are in maintenance. Those silent for longer, or that have not
    /// copied all blocks yet, are named only if there is no other, and those whose certificates are revoked never: they
    /// are somebody else's now. `complete`: the block is not being written any more, so a member with all complete
    /// blocks suffices.
    pub fn readers_order(
        &self,
        home: ContainerId,
        complete: bool,
        client: Option<&str>,
        now: Duration,
        random: &mut dyn Random,
    ) -> Vec<&Member> {
        let mut members = self.members(home);
        members.retain(|member| !member.revoked && !member.unproven);
        let has = |id| if complete { self.has_complete(home, id) } else { self.is_whole(home, id) };
        let serves = |member: &&Member| member.is_live(now) && has(member.node.id);
        if members.iter().any(serves) {
            members.retain(serves);
        }
        self.nearest_first(&mut members, client, now, random);
        members
    }

    pub(crate) fn nearest_first(
        &self,
        members: &mut [&Member],
        client: Option<&str>,
        now: Duration,
        random: &mut dyn Random,
    ) {
        let view = self.viewpoint(client);
        members.sort_by_cached_key(|member| {
            let may_go = member.leave.is_some();
            (!member.is_live(now), may_go, member.is_quiet(now), view.distance(&member.node), random.next_u64())
        });
    }

    /// The order in which a chain passes `members`: the nearest to the client first, then each nearest to the one
    /// before. Among those equally near, the first is the idlest; the others follow in the order of the pipeline,
    /// around from the one before: all of them get the bytes in any case, and in this way each forwards as much as the
    /// others when all are heads equally often.
    pub(crate) fn chain_order(&self, members: &[NodeId], client: Option<&str>, random: &mut dyn Random) -> Vec<NodeId> {
        let view = self.viewpoint(client);
        let count = members.len();
        let mut left: Vec<(usize, &Member)> =
            members.iter().enumerate().filter_map(|(seat, id)| Some((seat, self.nodes.get(id)?))).collect();
        let mut order: Vec<NodeId> = Vec::with_capacity(left.len());
        let mut last: Option<(usize, &Node)> = None;
        while !left.is_empty() {
            let ranks = left.iter().enumerate().map(|(place, (seat, member))| match last {
                None => ((view.distance(&member.node), member.load() as usize, random.next_u64()), place),
                Some((before, last)) => {
                    let around = (seat + count - before) % count;
                    ((between(last, &member.node), around, 0), place)
                }
            });
            let (_, place) = ranks.min().expect("some are left");
            let (seat, next) = left.swap_remove(place);
            order.push(next.node.id);
            last = Some((seat, &next.node));
        }
        order
    }
}
