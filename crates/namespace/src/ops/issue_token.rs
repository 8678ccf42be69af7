//! A delegation token is given out.

use crate::context::Context;
use crate::delegation_token::{self, DelegationToken};
use crate::error::Failure;
use crate::reply::Reply;

/// The leader made the token, under a number that it has given to no other. Answers whether it counts: false if the
/// number was taken meanwhile, so that another one is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueToken {
    pub number: u32,
    pub token: DelegationToken,
}
types::record!(IssueToken { 0: number, 1: token });

impl IssueToken {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let last = delegation_token::last(context.rows)?;
        if delegation_token::token(context.rows, self.number)?.is_some() {
            return Ok(Reply::Bool(false));
        }
        delegation_token::put(context.rows, self.number, &self.token);
        delegation_token::set_last(context.rows, last.max(self.number));
        Ok(Reply::Bool(true))
    }
}
