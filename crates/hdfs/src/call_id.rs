//! Call ids: one number for each call, and a few below zero for what is not a call.
//!
//! A request carries the id zigzag (sint32), an answer carries it as it lies in memory (uint32): −33 comes in as one
//! byte and goes out as 4294967263. prost takes care of the first; [`for_answer`] and [`of_answer`] of the second.

/// Server to client: the connection itself was refused.
pub const REFUSED: i32 = -1;
/// The connection context, once, before the first call. Never answered unless refused.
pub const CONTEXT: i32 = -3;
/// A header alone, from a client that waits for an answer. Never answered.
pub const PING: i32 = -4;
/// Authentication.
pub const SASL: i32 = -33;

pub const fn for_answer(call_id: i32) -> u32 {
    call_id.cast_unsigned()
}

pub const fn of_answer(call_id: u32) -> i32 {
    call_id.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sasl_goes_out_unsigned() {
        assert_eq!(for_answer(SASL), 4_294_967_263);
        assert_eq!(of_answer(4_294_967_263), SASL);
    }
}
