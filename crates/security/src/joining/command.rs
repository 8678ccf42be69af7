//! The changes of invitations, and what each does to the rows.

use super::row::{self, Invitation, Taken};
use super::token::{SECRET_LEN, is_hash_of};
use types::rows::{Rows, RowsError, RowsMut};
use types::{Millis, NodeId};

/// Invitations that may be open, or taken and not expired: more machines are set up by the same script, one a machine.
pub const INVITATION_COUNT_MAX: usize = 1000;

/// One change, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Those that have expired at `now` are forgotten.
    Invite {
        number: u32,
        now: Millis,
        invitation: Invitation,
    },
    /// A datanode joins by one. Whoever has joined by it already, by the same key, keeps the id that it got then: it
    /// asked again before it had an answer.
    Take {
        number: u32,
        hash: [u8; 32],
        now: Millis,
        by: Taken,
    },
    Withdraw {
        number: u32,
    },
    /// Certificates of `node` that were made before do not count, and no invitation that it joined by, or that is for
    /// it.
    Revoke {
        node: NodeId,
        before: Millis,
    },
}
types::variants!(Command {
    0 => Invite { 0: number, 1: now, 2: invitation },
    1 => Take { 0: number, 1: hash, 2: now, 3: by },
    2 => Withdraw { 0: number },
    3 => Revoke { 0: node, 1: before },
});

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Also of a wrong secret: who guesses learns nothing.
    #[error("the join token is not known: it was withdrawn, expired long ago, or is of another store")]
    Unknown,
    #[error("the join token has expired: ask for another one")]
    Expired,
    /// Who it was is for nobody who only has the token.
    #[error("a datanode has joined by this token already: each token is for one")]
    Taken { node: NodeId },
    #[error("the join token is for datanode {node} alone")]
    OtherNode { node: NodeId },
    #[error("datanode {node} is known already: ask for a token that is for it, by its id")]
    Known { node: NodeId },
    #[error("an invitation has number {number:08x} already")]
    NumberTaken { number: u32 },
    #[error("there are {INVITATION_COUNT_MAX} invitations: withdraw some, or wait until some expire")]
    TooMany,
    /// Applying it panicked. No answer of this crate: whoever applies commands catches that.
    #[error("internal error in {operation}, which changed nothing; report it, with the server's log")]
    Fault { operation: String },
}

/// The invitation that this secret opens at `now`, whether or not somebody joined by it.
pub fn usable(
    rows: &dyn Rows,
    number: u32,
    secret: &[u8; SECRET_LEN],
    now: Millis,
) -> Result<Result<Invitation, JoinError>, RowsError> {
    let found = row::invitation(rows, number)?.filter(|invitation| is_hash_of(&invitation.hash, secret));
    Ok(open(found, now))
}

fn open(found: Option<Invitation>, now: Millis) -> Result<Invitation, JoinError> {
    match found {
        None => Err(JoinError::Unknown),
        Some(invitation) if invitation.expires <= now => Err(JoinError::Expired),
        Some(invitation) => Ok(invitation),
    }
}

/// Whether somebody has this id, as far as these rows tell: its certificates are revoked, or it joined by an
/// invitation.
fn is_known(rows: &dyn Rows, node: NodeId) -> Result<bool, RowsError> {
    let has_joined = |one: &Invitation| one.taken.as_ref().is_some_and(|taken| taken.node == node);
    Ok(row::revoked_before(rows, node)?.is_some() || row::invitations(rows)?.iter().any(|(_, one)| has_joined(one)))
}

/// Forgets those by which nobody has joined, and says how many these were. Of the others is known who has their ids.
pub(crate) fn drop_open(rows: &mut dyn RowsMut) -> Result<usize, RowsError> {
    let open: Vec<u32> =
        row::invitations(rows)?.into_iter().filter(|(_, one)| one.taken.is_none()).map(|(number, _)| number).collect();
    open.iter().for_each(|number| row::remove_invitation(rows, *number));
    Ok(open.len())
}

/// Applies one command. On a refusal (`Ok(Err(..))`) no row was changed.
pub fn apply(rows: &mut dyn RowsMut, command: &Command) -> Result<Result<(), JoinError>, RowsError> {
    match command {
        Command::Invite { number, now, invitation } => {
            let (expired, kept): (Vec<_>, Vec<_>) =
                row::invitations(rows)?.into_iter().partition(|(_, there)| there.expires <= *now);
            if kept.iter().any(|(there, _)| there == number) {
                return Ok(Err(JoinError::NumberTaken { number: *number }));
            }
            if kept.len() >= INVITATION_COUNT_MAX {
                return Ok(Err(JoinError::TooMany));
            }
            expired.iter().for_each(|(number, _)| row::remove_invitation(rows, *number));
            row::put_invitation(rows, *number, invitation);
        }
        Command::Take { number, hash, now, by } => {
            let found = row::invitation(rows, *number)?.filter(|invitation| invitation.hash == *hash);
            match open(found, *now) {
                Err(refused) => return Ok(Err(refused)),
                Ok(Invitation { taken: Some(before), .. }) => {
                    let is_same = before.key == by.key;
                    return Ok(if is_same { Ok(()) } else { Err(JoinError::Taken { node: before.node }) });
                }
                Ok(Invitation { node: Some(meant), .. }) if meant != by.node => {
                    return Ok(Err(JoinError::OtherNode { node: meant }));
                }
                Ok(Invitation { node: None, .. }) if is_known(rows, by.node)? => {
                    return Ok(Err(JoinError::Known { node: by.node }));
                }
                Ok(invitation) => {
                    row::put_invitation(rows, *number, &Invitation { taken: Some(by.clone()), ..invitation });
                }
            }
        }
        Command::Withdraw { number } => {
            if row::invitation(rows, *number)?.is_none() {
                return Ok(Err(JoinError::Unknown));
            }
            row::remove_invitation(rows, *number);
        }
        Command::Revoke { node, before } => {
            let of_node = |invitation: &Invitation| {
                invitation.node == Some(*node) || invitation.taken.as_ref().is_some_and(|taken| taken.node == *node)
            };
            // Who has the token and the key by which the node came gets no further certificate by them.
            let ended: Vec<_> = row::invitations(rows)?.into_iter().filter(|(_, one)| of_node(one)).collect();
            ended.iter().for_each(|(number, _)| row::remove_invitation(rows, *number));
            // Certificates of a node that was revoked before may be from that very time; and a clock that was set back
            // makes nothing count again.
            let later = |there: Millis| there.0.checked_add(1).map(Millis);
            let before = match row::revoked_before(rows, *node)? {
                Some(there) => later(there).map_or(there, |later| later.max(*before)),
                None => *before,
            };
            row::put_revoked(rows, *node, before);
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joining::token::JoinToken;
    use types::rows::MemoryRows;

    const SECRET: [u8; SECRET_LEN] = [5; SECRET_LEN];
    const A: NodeId = NodeId([1; 16]);
    const B: NodeId = NodeId([2; 16]);

    fn invite(number: u32, now: u64, expires: u64, node: Option<NodeId>) -> Command {
        let (hash, made_by) = (JoinToken::hash(&SECRET), "ada".to_owned());
        let invitation = Invitation { hash, expires: Millis(expires), node, made_by, taken: None };
        Command::Invite { number, now: Millis(now), invitation }
    }

    fn take(number: u32, now: u64, node: NodeId, key: u8) -> Command {
        Command::Take { number, hash: JoinToken::hash(&SECRET), now: Millis(now), by: Taken { node, key: [key; 32] } }
    }

    #[derive(Default)]
    struct World(MemoryRows);

    impl World {
        fn run(&mut self, command: &Command) -> Result<(), JoinError> {
            let before = self.0.clone();
            let answer = apply(&mut self.0, command).unwrap();
            assert!(answer.is_ok() || self.0 == before, "what was refused changed rows");
            answer
        }
    }

    #[test]
    fn one_datanode_joins_by_an_invitation() {
        let mut world = World::default();
        world.run(&invite(1, 0, 100, None)).unwrap();
        assert_eq!(world.run(&take(2, 1, A, 1)), Err(JoinError::Unknown));
        world.run(&take(1, 1, A, 1)).unwrap();
        world.run(&take(1, 2, A, 1)).expect("its answer was lost");
        assert_eq!(world.run(&take(1, 2, A, 2)), Err(JoinError::Taken { node: A }), "with a key of somebody else");
        world.run(&take(1, 2, B, 1)).expect("it asked twice, and both calls drew an id");
        assert_eq!(row::invitation(&world.0, 1).unwrap().unwrap().taken, Some(Taken { node: A, key: [1; 32] }));
        assert_eq!(world.run(&take(1, 100, A, 1)), Err(JoinError::Expired));
    }

    #[test]
    fn an_invitation_is_for_the_datanode_that_it_names() {
        let mut world = World::default();
        world.run(&invite(1, 0, 100, Some(A))).unwrap();
        assert_eq!(world.run(&take(1, 1, B, 1)), Err(JoinError::OtherNode { node: A }));
        world.run(&take(1, 1, A, 1)).unwrap();
    }

    #[test]
    fn a_wrong_secret_opens_nothing() {
        let mut world = World::default();
        world.run(&invite(1, 0, 100, None)).unwrap();
        let opened = |secret: &[u8; SECRET_LEN], now| usable(&world.0, 1, secret, Millis(now)).unwrap();
        assert_eq!(opened(&[6; SECRET_LEN], 1), Err(JoinError::Unknown));
        assert_eq!(opened(&[6; SECRET_LEN], 200), Err(JoinError::Unknown), "nor is it told that it has expired");
        assert_eq!(opened(&SECRET, 200), Err(JoinError::Expired));
        assert!(opened(&SECRET, 99).is_ok());
        let forged = Command::Take { number: 1, hash: [0; 32], now: Millis(1), by: Taken { node: A, key: [1; 32] } };
        assert_eq!(world.run(&forged), Err(JoinError::Unknown));
    }

    #[test]
    fn invitations_are_withdrawn_and_forgotten() {
        let mut world = World::default();
        world.run(&invite(1, 0, 100, None)).unwrap();
        assert_eq!(world.run(&invite(1, 50, 200, None)), Err(JoinError::NumberTaken { number: 1 }));
        world.run(&invite(2, 100, 300, None)).unwrap();
        assert_eq!(row::invitations(&world.0).unwrap().len(), 1, "the first one has expired");
        world.run(&Command::Withdraw { number: 2 }).unwrap();
        assert_eq!(world.run(&Command::Withdraw { number: 2 }), Err(JoinError::Unknown));
        assert_eq!(world.run(&take(2, 101, A, 1)), Err(JoinError::Unknown));
    }

    #[test]
    fn invitations_are_counted() {
        let mut world = World(MemoryRows::default());
        for number in 0..INVITATION_COUNT_MAX as u32 {
            apply(&mut world.0, &invite(number, 0, 100, None)).unwrap().unwrap();
        }
        assert_eq!(world.run(&invite(5000, 99, 200, None)), Err(JoinError::TooMany));
        world.run(&invite(5000, 100, 200, None)).unwrap();
    }

    /// Who has the token and the key by which it came would come again.
    #[test]
    fn a_revocation_ends_the_invitations_of_its_datanode() {
        let mut world = World::default();
        for (number, node) in [(1, None), (2, Some(A)), (3, None), (4, None)] {
            world.run(&invite(number, 0, 100, node)).unwrap();
        }
        world.run(&take(1, 1, A, 1)).unwrap();
        world.run(&take(3, 1, B, 1)).unwrap();
        world.run(&Command::Revoke { node: A, before: Millis(50) }).unwrap();
        let left: Vec<u32> = row::invitations(&world.0).unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, [3, 4], "those of others stay");
        assert_eq!(world.run(&take(1, 2, A, 1)), Err(JoinError::Unknown));
    }

    #[test]
    fn an_invitation_for_a_new_datanode_gives_no_id_that_somebody_has() {
        let mut world = World::default();
        for number in [1, 2, 3] {
            world.run(&invite(number, 0, 100, None)).unwrap();
        }
        world.run(&take(1, 1, A, 1)).unwrap();
        assert_eq!(world.run(&take(2, 1, A, 2)), Err(JoinError::Known { node: A }), "it has not registered yet");
        world.run(&Command::Revoke { node: B, before: Millis(50) }).unwrap();
        assert_eq!(world.run(&take(2, 1, B, 2)), Err(JoinError::Known { node: B }));
        world.run(&Command::Revoke { node: A, before: Millis(50) }).unwrap();
        assert_eq!(world.run(&take(2, 1, A, 1)), Err(JoinError::Known { node: A }));
        world.run(&invite(4, 2, 100, Some(A))).unwrap();
        world.run(&take(4, 3, A, 2)).expect("it is for that one");
    }

    #[test]
    fn what_was_revoked_stays_revoked() {
        let mut world = World::default();
        assert_eq!(row::revoked_before(&world.0, A).unwrap(), None);
        // Each one ends also what was signed since the one before, which counts from that time on.
        for (before, is) in [(100, 100), (50, 101), (101, 102), (200, 200)] {
            world.run(&Command::Revoke { node: A, before: Millis(before) }).unwrap();
            assert_eq!(row::revoked_before(&world.0, A).unwrap(), Some(Millis(is)));
        }
        assert_eq!(row::revoked_before(&world.0, B).unwrap(), None);
    }
}
