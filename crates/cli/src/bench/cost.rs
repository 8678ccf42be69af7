//! What work has cost: processor time and waits for a disk, by role, from two looks at everybody's meters.

use client::{Client, Meter, Role};
use host::process::CpuTime;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Everybody's meters before the work.
pub(super) struct Costs {
    own: CpuTime,
    servers: Option<Vec<Meter>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Client,
    Metadata,
    Datanodes,
    /// Several roles in one process, as `levada up` runs them: nobody can tell them apart.
    Servers,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Metadata => "metadata",
            Self::Datanodes => "datanodes",
            Self::Servers => "servers",
        }
    }
}

/// Of all processes of one side together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) processes: usize,
    pub(super) user: Duration,
    pub(super) system: Duration,
    /// `None` for the client, which waits for no disk.
    pub(super) syncs: Option<u64>,
}

impl Cost {
    pub(super) fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// The client comes first. Servers are missing if the store is not one of Levada.
pub(super) type BySide = BTreeMap<Side, Cost>;

impl Costs {
    pub(super) async fn sample(client: &Client) -> client::Result<Self> {
        let servers = client.meters().await?;
        Ok(Self { servers, own: host::process::cpu_time() })
    }

    pub(super) fn knows_servers(&self) -> bool {
        self.servers.is_some()
    }

    /// What was used since then, of this process until `own`.
    pub(super) async fn until(&self, client: &Client, own: CpuTime) -> client::Result<BySide> {
        let mut costs = BySide::new();
        if let Some(before) = &self.servers {
            costs = difference(before, &client.meters().await?.unwrap_or_default());
        }
        let (user, system) = (own.user.saturating_sub(self.own.user), own.system.saturating_sub(self.own.system));
        costs.insert(Side::Client, Cost { processes: 1, user, system, syncs: None });
        Ok(costs)
    }
}

/// A process that was not there before has used all of it since.
fn difference(before: &[Meter], after: &[Meter]) -> BySide {
    let mut roles: BTreeMap<u64, BTreeSet<Role>> = BTreeMap::new();
    for meter in after {
        roles.entry(meter.process).or_default().insert(meter.role);
    }
    let mut costs = BySide::new();
    for (process, roles) in roles {
        let side = match roles.iter().next() {
            Some(Role::Metadata) if roles.len() == 1 => Side::Metadata,
            Some(Role::Datanode) if roles.len() == 1 => Side::Datanodes,
            _ => Side::Servers,
        };
        let find = |meters: &[Meter]| meters.iter().find(|meter| meter.process == process).cloned();
        let Some(now) = find(after) else { continue };
        let then = find(before);
        let then = |of: fn(&Meter) -> Duration| then.as_ref().map_or(Duration::ZERO, of);
        let syncs_then = find(before).map_or(0, |meter| meter.sync_count);
        let cost = costs.entry(side).or_default();
        cost.processes += 1;
        cost.user += now.user.saturating_sub(then(|meter| meter.user));
        cost.system += now.system.saturating_sub(then(|meter| meter.system));
        cost.syncs = Some(cost.syncs.unwrap_or(0) + now.sync_count.saturating_sub(syncs_then));
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(role: Role, process: u64, used_ms: u64, sync_count: u64) -> Meter {
        let time = Duration::from_millis(used_ms);
        Meter { role, addr: String::new(), process, pid: 1, user: time, system: 2 * time, sync_count }
    }

    fn told(before: &[Meter], after: &[Meter]) -> Vec<(Side, usize, u128, Option<u64>)> {
        let told = |(side, cost): (Side, Cost)| (side, cost.processes, cost.cpu().as_millis(), cost.syncs);
        difference(before, after).into_iter().map(told).collect()
    }

    #[test]
    fn each_process_counts_once_and_for_its_side() {
        use Role::{Datanode, Metadata};
        let before = [meter(Metadata, 1, 10, 5), meter(Datanode, 2, 10, 0), meter(Datanode, 3, 10, 0)];
        let after = [meter(Metadata, 1, 11, 7), meter(Datanode, 2, 12, 1), meter(Datanode, 4, 5, 2)];
        let expected = [(Side::Metadata, 1, 3, Some(2)), (Side::Datanodes, 2, 21, Some(3))];
        assert_eq!(told(&before, &after), expected, "node 4 is new, node 3 is gone");
        let before = [meter(Metadata, 1, 10, 0), meter(Datanode, 1, 10, 0)];
        let after = [meter(Metadata, 1, 11, 3), meter(Datanode, 1, 11, 3)];
        assert_eq!(told(&before, &after), [(Side::Servers, 1, 3, Some(3))], "one process, two roles");
    }
}
