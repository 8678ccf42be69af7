//! What is kept of delegation tokens: which were given out and still count, and until when. What a token says, and who
//! may do what with it, is not known here.
//!
//! Promise: a token counts at all servers that have its row, and at none that has not. Numbers are given out once, as
//! long as the rows last.

use crate::error::corrupt;
use crate::record::{decode, encode};
use crate::tables::{DELEGATION_TOKEN, LAST_TOKEN, LAST_TOKEN_KEY, split_token, token_key};
use std::ops::{Bound, ControlFlow};
use std::time::Duration;
use types::rows::{Rows, RowsError, RowsMut};
use types::{Millis, Skip};

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationToken {
    /// It counts before that.
    pub expires: Millis,
    /// No renewal goes beyond.
    pub max: Millis,
    /// Of its whole identifier: the number alone names no token.
    pub hash: [u8; 32],
    /// For people.
    pub owner: String,
    pub renewer: String,
}
types::record!(DelegationToken { 0: expires, 1: max, 2: hash, 3: owner, 4: renewer });

/// `None`: it was never given out, cancelled, or forgotten after it expired.
pub fn token(rows: &dyn Rows, number: u32) -> Result<Option<DelegationToken>, RowsError> {
    let row = rows.get(DELEGATION_TOKEN, &token_key(number))?;
    row.map(|bytes| decode("reading a delegation token", &bytes)).transpose()
}

/// The number given out last; 0: none was.
pub fn last(rows: &dyn Rows) -> Result<u32, RowsError> {
    let row = rows.get(LAST_TOKEN, LAST_TOKEN_KEY)?;
    Ok(row.and_then(|bytes| split_token(&bytes)).unwrap_or_default())
}

/// Numbers of tokens that have expired at `now`, at most `count_max`, among `look_max` rows behind `after`. The second
/// is where to go on; `None`: that were all.
pub fn expired(
    rows: &dyn Rows,
    now: Millis,
    after: u32,
    look_max: usize,
) -> Result<(Vec<u32>, Option<u32>), RowsError> {
    let (mut expired, mut looked, mut next) = (Vec::new(), 0, None);
    let mut wrong = None;
    let after = token_key(after);
    rows.scan(DELEGATION_TOKEN, Bound::Excluded(&after), &mut |key, value| {
        let Some(number) = split_token(key) else { return ControlFlow::Continue(()) };
        match decode::<DelegationToken>("looking for expired delegation tokens", value) {
            Ok(token) if token.expires <= now => expired.push(number),
            Ok(_) => {}
            Err(error) => {
                wrong = Some(error);
                return ControlFlow::Break(());
            }
        }
        looked += 1;
        if looked < look_max {
            return ControlFlow::Continue(());
        }
        next = Some(number);
        ControlFlow::Break(())
    })?;
    wrong.map_or(Ok((expired, next)), Err)
}

pub(crate) fn put(rows: &mut dyn RowsMut, number: u32, token: &DelegationToken) {
    rows.put(DELEGATION_TOKEN, &token_key(number), encode(token));
}

pub(crate) fn remove(rows: &mut dyn RowsMut, number: u32) {
    rows.delete(DELEGATION_TOKEN, &token_key(number));
}

pub(crate) fn set_last(rows: &mut dyn RowsMut, number: u32) {
    rows.put(LAST_TOKEN, LAST_TOKEN_KEY, token_key(number));
}

/// A job a second, for a hundred years. HDFS's clients read four bytes.
const SKIP: Skip = Skip { count: 1, each: Duration::from_secs(1), least: 1 << 20, max: u32::MAX as u64 >> 1 };

/// None of the numbers is given out again that another store of this origin may have given out at `now`.
pub(crate) fn skip(rows: &mut dyn RowsMut, now: Millis) -> Result<(), RowsError> {
    let next = SKIP.behind(last(rows)?.into(), now).and_then(|next| u32::try_from(next).ok());
    let next = next.ok_or_else(|| corrupt("restore a backup", "no number of a delegation token is left"))?;
    set_last(rows, next);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::check::check;
    use crate::ops::{CancelToken, ForgetTokens, IssueToken, Op, RenewToken, SetSafeMode};
    use crate::reply::Reply;
    use crate::request::Request;
    use types::rows::MemoryRows;

    fn token(expires: u64) -> DelegationToken {
        let (owner, renewer) = ("ada".to_owned(), "yarn".to_owned());
        DelegationToken { expires: Millis(expires), max: Millis(1000), hash: [5; 32], owner, renewer }
    }

    struct World(MemoryRows);

    impl World {
        fn run(&mut self, now: u64, op: impl Into<Op>) -> Option<Reply> {
            let request = Request { now: Millis(now), caller: Caller::system(), retry: None, op: op.into() };
            let answer = crate::apply(&mut self.0, &request).unwrap();
            assert_eq!(check(&self.0).unwrap(), []);
            answer.ok().map(|applied| applied.reply)
        }

        fn expires(&self, number: u32) -> Option<u64> {
            super::token(&self.0, number).unwrap().map(|token| token.expires.0)
        }
    }

    fn issued() -> World {
        let mut world = World(MemoryRows::default());
        for number in [1, 2, 9] {
            let issue = IssueToken { number, token: token(100 * u64::from(number)) };
            assert_eq!(world.run(1, issue), Some(Reply::Bool(true)));
        }
        world
    }

    #[test]
    fn a_number_is_of_one_token() {
        let mut world = issued();
        assert_eq!(world.run(1, IssueToken { number: 2, token: token(900) }), Some(Reply::Bool(false)));
        assert_eq!((world.expires(2), last(&world.0).unwrap()), (Some(200), 9));
    }

    #[test]
    fn a_token_is_renewed_until_its_last_day() {
        let mut world = issued();
        let renew = |expires, hash| RenewToken { number: 1, hash, expires: Millis(expires) };
        assert_eq!(world.run(2, renew(500, [5; 32])), Some(Reply::Bool(true)));
        assert_eq!(world.run(2, renew(700, [6; 32])), Some(Reply::Bool(false)), "another token of that number");
        assert_eq!(world.expires(1), Some(500));
        assert_eq!(world.run(2, renew(5000, [5; 32])), Some(Reply::Bool(true)));
        assert_eq!(world.expires(1), Some(1000));
    }

    #[test]
    fn a_token_is_cancelled_once() {
        let mut world = issued();
        let cancel = |hash| CancelToken { number: 1, hash };
        assert_eq!(world.run(2, cancel([6; 32])), Some(Reply::Bool(false)));
        assert_eq!(world.run(2, cancel([5; 32])), Some(Reply::Bool(true)));
        assert_eq!(world.run(2, cancel([5; 32])), Some(Reply::Bool(false)));
        let renew = RenewToken { number: 1, hash: [5; 32], expires: Millis(900) };
        assert_eq!(world.run(2, renew), Some(Reply::Bool(false)));
        assert_eq!((world.expires(1), last(&world.0).unwrap()), (None, 9), "its number stays taken");
    }

    /// One that was renewed after it was listed stays.
    #[test]
    fn what_has_expired_is_forgotten() {
        let mut world = issued();
        assert_eq!(expired(&world.0, Millis(200), 0, 10).unwrap(), (vec![1, 2], None));
        assert_eq!(expired(&world.0, Millis(200), 0, 2).unwrap(), (vec![1, 2], Some(2)));
        assert_eq!(expired(&world.0, Millis(200), 2, 2).unwrap(), (vec![], None));
        world.run(200, RenewToken { number: 2, hash: [5; 32], expires: Millis(300) });
        assert_eq!(world.run(200, ForgetTokens { numbers: vec![1, 2, 3] }), Some(Reply::Done));
        assert_eq!((world.expires(1), world.expires(2)), (None, Some(300)));
    }

    #[test]
    fn nothing_changes_in_safe_mode() {
        let mut world = issued();
        world.run(1, SetSafeMode { on: true }).unwrap();
        assert_eq!(world.run(500, ForgetTokens { numbers: vec![1] }), None);
        assert_eq!(world.run(1, CancelToken { number: 1, hash: [5; 32] }), None);
        assert_eq!(world.expires(1), Some(100));
    }
}
