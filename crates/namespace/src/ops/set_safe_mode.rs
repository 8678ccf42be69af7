//! Safe mode is entered, and left.

use crate::context::Context;
use crate::error::{Failure, NsError};
use crate::reply::Reply;
use crate::safe_mode::{self, SafeMode};
use types::mutation::{self, Mutation};

/// From then on nothing of the namespace changes, until the same with `on` false; the superuser may. Answers whether it
/// is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSafeMode {
    pub on: bool,
}
types::record!(SetSafeMode { 0: on });

impl SetSafeMode {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        if !context.caller.superuser {
            let operation = if self.on { "enterSafeMode" } else { "leaveSafeMode" };
            return Err(NsError::needs_superuser(context.caller, operation).into());
        }
        if !self.on {
            context.effects.left_safe_mode = safe_mode::get(context.rows)?.is_some();
            safe_mode::clear(context.rows);
        } else if safe_mode::get(context.rows)?.is_none() && !mutation::is(Mutation::ForgetSafeMode) {
            // Whoever enters again changes nothing: it says since when the namespace is as it is.
            safe_mode::set(context.rows, &SafeMode { since: context.now, user: context.caller.user.clone() });
        }
        Ok(Reply::Bool(self.on))
    }
}
