//! A delegation token counts for longer.

use crate::context::Context;
use crate::delegation_token;
use crate::error::Failure;
use crate::reply::Reply;
use types::Millis;

/// Answers false if the token with this number and hash was cancelled or forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewToken {
    pub number: u32,
    pub hash: [u8; 32],
    pub expires: Millis,
}
types::record!(RenewToken { 0: number, 1: hash, 2: expires });

impl RenewToken {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let token = delegation_token::token(context.rows, self.number)?.filter(|token| token.hash == self.hash);
        let Some(mut token) = token else { return Ok(Reply::Bool(false)) };
        token.expires = self.expires.min(token.max);
        delegation_token::put(context.rows, self.number, &token);
        Ok(Reply::Bool(true))
    }
}
