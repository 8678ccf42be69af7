//! Delegation tokens have expired: nobody needs to remember them.

use crate::context::Context;
use crate::delegation_token;
use crate::error::Failure;
use crate::reply::Reply;

/// Forgets tokens as `read::expired_tokens` listed them; one that was renewed since stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetTokens {
    pub numbers: Vec<u32>,
}
types::record!(ForgetTokens { 0: numbers });

impl ForgetTokens {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        for number in &self.numbers {
            let token = delegation_token::token(context.rows, *number)?;
            if token.is_some_and(|token| token.expires <= context.now) {
                delegation_token::remove(context.rows, *number);
            }
        }
        Ok(Reply::Done)
    }
}
