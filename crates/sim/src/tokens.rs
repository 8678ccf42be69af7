//! What a datanode asks of tokens, as `datad`'s admission does; and somebody who tries tokens that must not serve.
//!
//! The intruder keeps tokens that readers were given. It asks datanodes for blocks with them: as they are, changed,
//! expired, for blocks of other files. What must be refused must not be served, and a good token of a key that both the
//! leader and the node know must not be refused.

use crate::client::{Client, TIMEOUT};
use crate::datanode::Datanode;
use crate::metad::Located;
use crate::reads::Ask as Read;
use crate::work::Work;
use crate::world::World;
use datanode::tokens::{Ask, Grant};
use hdfs::proto::TokenProto;
use io::{Clock, SystemClock};
use security::block_token::{Identifier, Mode};
use security::keys::KeyId;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, Millis, NodeId};
use wire::Status;
use xfer::answer::Refusal;
use xfer::fault::Fault;
use xfer::read::Extent;

/// Tokens that the intruder keeps.
const SEEN_COUNT_MAX: usize = 300;
const PAUSE: Duration = Duration::from_millis(1500);
const CONNECT: Duration = Duration::from_secs(2);
/// A token that expires sooner may do so on its way. Clocks differ by less.
const SURE: Duration = Duration::from_secs(4);

/// Blocks that readers were told, with tokens that were good then.
pub(crate) type Seen = VecDeque<Located>;

pub(crate) fn note(seen: &mut Seen, located: &Located) {
    if seen.len() >= SEEN_COUNT_MAX {
        seen.pop_front();
    }
    seen.push_back(located.clone());
}

fn now() -> Millis {
    SystemClock::new().now()
}

fn not_admitted() -> Refusal {
    Refusal { status: Status::ERROR_ACCESS_TOKEN, ..Refusal::error("the block token is not valid here") }
}

impl Datanode {
    pub(crate) fn admit(
        &self,
        block: BlockId,
        (mode, makes): (Mode, bool),
        identifier: &[u8],
        password: &[u8],
    ) -> Result<Grant, Refusal> {
        let rules = self.with(|node| node.tokens.rules());
        rules.admit(now(), Ask { block, mode, makes }, identifier, password).map_err(|refused| {
            self.sim.say(|| format!("node {} refuses a token of {block:?}: {refused}", self.number));
            not_admitted()
        })
    }

    pub(crate) fn must_cover(&self, grant: &Grant, file: Option<FileId>) -> Result<(), Refusal> {
        grant.covers(file.unwrap_or_default()).map_err(|refused| {
            self.sim.say(|| format!("node {} refuses a token: {refused}", self.number));
            not_admitted()
        })
    }

    pub(crate) fn key_revision(&self) -> u64 {
        self.with(|node| node.tokens.revision())
    }
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// There is none.
    Absent,
    /// Its password has a bit turned over.
    Forged,
    /// What it says has a bit turned over.
    Changed,
    Expired,
    /// It is of another file.
    Foreign,
}

/// Until the clients are to end.
pub(crate) async fn intrude_always(client: Rc<Client>, work: Rc<Work>) {
    let sim = client.sim.clone();
    while !work.stopping.get() {
        sim.sleep(sim.between(Duration::ZERO, PAUSE)).await;
        intrude(&client).await;
    }
}

async fn intrude(client: &Client) -> Option<()> {
    let (sim, world) = (&client.sim, &client.world);
    let wanted = [Flaw::None, Flaw::Absent, Flaw::Forged, Flaw::Changed, Flaw::Expired, Flaw::Expired, Flaw::Foreign];
    let flaw = wanted[sim.below(wanted.len())];
    let (target, token, flaw) = {
        let seen = world.tokens_seen.borrow();
        let any = || (!seen.is_empty()).then(|| &seen[sim.below(seen.len())]);
        let target = any().filter(|target| !target.token.password.is_empty())?;
        let mut token = target.token.clone();
        let flip = |bytes: &bytes::Bytes| {
            let mut bytes = bytes.to_vec();
            let bit = sim.below(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes.into()
        };
        match flaw {
            Flaw::None | Flaw::Expired => {}
            Flaw::Absent => token = TokenProto::none(),
            Flaw::Forged => token.password = flip(&token.password),
            Flaw::Changed => token.identifier = flip(&token.identifier),
            Flaw::Foreign => token = any()?.token.clone(),
        }
        (target.clone(), token, flaw)
    };
    let expires = expires_of(&target.token)?;
    let is_fresh = |token: &TokenProto| expires_of(token).is_some_and(|expires| expires > now().plus(SURE));
    let flaw = match flaw {
        Flaw::Expired | Flaw::None if expires <= now() => Flaw::Expired,
        Flaw::Expired | Flaw::None => Flaw::None,
        // Behind what is signed is the home of new replicas, which a reader may change.
        Flaw::Changed if home_is_all_that_differs(&token, &target.token) => return None,
        Flaw::Foreign if file_of(&token) == file_of(&target.token) => return None,
        other => other,
    };
    let node = *target.nodes.get(sim.below(target.nodes.len().max(1)))?;
    // Before the first keys nobody is asked for a token, and a node hears of them by its next heartbeat.
    world.node(World::node_number(node)).filter(|node| node.key_revision() > 0)?;
    let knows_before = knows_key(world, node, &token);
    let view = &target.view;
    let read = Read { block: view.block, generation: view.generation, from: 0, end: view.len, extent: Extent::Exact };
    let number = World::node_number(node);
    let was_fresh = is_fresh(&token);
    let answer = world.read_replica(client.host, number, read, token.clone(), (CONNECT, TIMEOUT)).await;
    match (flaw, answer) {
        (Flaw::None, Err(Fault::Refused { status: Status::ERROR_ACCESS_TOKEN, .. })) => {
            let knows = knows_before && knows_key(world, node, &token);
            if was_fresh && is_fresh(&token) && knows {
                world.fail(|| format!("node {number} refuses a good token of {:?}", view.block));
            }
        }
        (Flaw::None, _) | (_, Err(_)) => {}
        (flaw, Ok(bytes)) => {
            let len = bytes.len();
            world.fail(|| format!("an intruder read {len} bytes of {:?} on node {number}: {flaw:?} token", view.block));
        }
    }
    Some(())
}

fn expires_of(token: &TokenProto) -> Option<Millis> {
    Identifier::parse(&token.identifier).ok().map(|(identifier, _)| identifier.expires)
}

fn file_of(token: &TokenProto) -> Option<FileId> {
    Identifier::parse(&token.identifier).ok().map(|(identifier, _)| identifier.file)
}

fn home_is_all_that_differs(one: &TokenProto, other: &TokenProto) -> bool {
    let signed = |token: &TokenProto| {
        Identifier::parse(&token.identifier).ok().map(|(_, signed_len)| token.identifier[..signed_len].to_vec())
    };
    signed(one).is_some() && signed(one) == signed(other)
}

/// The key of the token is in the leader's ring, and the node has the keys of that ring.
fn knows_key(world: &World, node: NodeId, token: &TokenProto) -> bool {
    let Ok((Identifier { key, .. }, _)) = Identifier::parse(&token.identifier) else { return false };
    let Some((revision, keys)) = world.leader().and_then(|leader| leader.token_keys()) else { return false };
    let of_node = world.node(World::node_number(node)).map(|node| node.key_revision());
    of_node == Some(revision) && keys.contains(&KeyId(key.0))
}
