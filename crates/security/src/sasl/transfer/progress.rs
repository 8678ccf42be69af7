//! What a machine says after each call.

/// What a machine made of some bytes.
#[derive(Debug)]
pub struct Progress<T> {
    /// How many of the bytes it used. What is behind them is already of the channel once there is one.
    pub used_len: usize,
    /// What is to be sent.
    pub send: Vec<u8>,
    /// The end of the handshake; `None`: more bytes are needed.
    pub done: Option<T>,
}
