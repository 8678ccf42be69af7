//! A delegation token counts no more.

use crate::context::Context;
use crate::delegation_token;
use crate::error::Failure;
use crate::reply::Reply;

/// Answers false if there is no token with this number and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelToken {
    pub number: u32,
    pub hash: [u8; 32],
}
types::record!(CancelToken { 0: number, 1: hash });

impl CancelToken {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let token = delegation_token::token(context.rows, self.number)?.filter(|token| token.hash == self.hash);
        if token.is_some() {
            delegation_token::remove(context.rows, self.number);
        }
        Ok(Reply::Bool(token.is_some()))
    }
}
