//! Opens what came where nobody else has to wait for it.

use io::task;
use security::sasl::transfer::{ChannelError, Receiving};

/// A longer piece is opened on a thread for what blocks: by 3des it takes a core 4 ms for 64 KiB, which stock clients
/// send, but one second for the longest. Twice a piece of JDK's, for clients whose packets are a little longer.
const INLINE_LEN_MAX: usize = 128 << 10;

/// Appends to `opened` what the first `len` bytes of `sealed` are. All that it is given comes back.
pub(crate) async fn receive(
    mut receiving: Receiving,
    sealed: Vec<u8>,
    len: usize,
    mut opened: Vec<u8>,
) -> Result<(Receiving, Vec<u8>, Vec<u8>), ChannelError> {
    let is_long = receiving.completed_len(&sealed[..len]) > INLINE_LEN_MAX;
    let open = move || {
        receiving.receive(&sealed[..len], &mut opened)?;
        Ok((receiving, sealed, opened))
    };
    if is_long { task::blocking(open).await } else { open() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use security::block_token::{Grant, Mode, Modes, Signer};
    use security::keys::{KeyId, KeyRing, Lifetimes};
    use security::sasl::digest::{NONCE_LEN, Protection, Qop};
    use security::sasl::transfer::{Client, RANDOM_LEN, Secrets, Sending, Server, Settings};
    use security::secret::{SECRET_LEN, Secret};
    use std::pin::pin;
    use std::task::{Context, Waker};
    use types::{InodeId, Millis};

    /// What a client's end sends with, and what a datanode's receives with: 3des.
    fn ends() -> (Sending, Receiving) {
        let (now, protection) = (Millis(1_000), Protection::of(&[Qop::Privacy]));
        let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
        let ring = KeyRing::new(now, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets);
        let grant = Grant { user: "ada", file: InodeId(16_400), modes: Modes::of(&[Mode::Read]), block: None };
        let token = Signer::new(0).sign(now, &ring, grant).unwrap();
        let (identifier, password) = (token.identifier(None), token.password());
        let (mut client, hello) =
            Client::of_token(&identifier, password.bytes(), protection.clone(), false, &[9; NONCE_LEN]).unwrap();
        let mut server = Server::new(Settings { protection, aes: None }, &[7; RANDOM_LEN]);
        let secrets = Secrets { now, keys: ring.keys(), pool: "BP-1" };
        let challenge = server.on_bytes(&hello, |user| secrets.claim(user)).unwrap().send;
        let response = client.on_bytes(&challenge).unwrap().send;
        let accepted = server.on_bytes(&response, |user| secrets.claim(user)).unwrap();
        let channel = client.on_bytes(&accepted.send).unwrap().done.unwrap();
        (channel.split().0, accepted.done.unwrap().channel.split().1)
    }

    /// As stock clients send a packet: in one piece, however long it is.
    fn piece(sending: &mut Sending, len: usize) -> Vec<u8> {
        let Sending::Sealed(sealer) = sending else { panic!("3des") };
        let mut sealed = vec![0; 4];
        sealer.wrap(&vec![5; len], &mut sealed).unwrap();
        let sealed_len = (sealed.len() - 4) as u32;
        sealed[..4].copy_from_slice(&sealed_len.to_be_bytes());
        sealed
    }

    /// A peer that sends long pieces keeps no thread of the runtime from the others.
    #[tokio::test]
    async fn a_long_piece_leaves_the_thread_to_others() {
        for (len, waits) in [(1000, false), (64 << 10, false), (1 << 20, true)] {
            let (mut sending, mut receiving) = ends();
            let mut sealed = piece(&mut sending, len);
            let last = sealed.split_off(sealed.len() - 100);
            let mut opened = Vec::new();
            receiving.receive(&sealed, &mut opened).unwrap();
            assert!(opened.is_empty());
            let (last_len, room) = (last.len(), [&last[..], &[0; 50]].concat());
            let mut opening = pin!(receive(receiving, room, last_len, opened));
            let polled = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled.is_pending(), waits, "a piece of {len} bytes");
            let done = match polled {
                std::task::Poll::Ready(done) => done,
                std::task::Poll::Pending => opening.await,
            };
            assert_eq!(done.unwrap().2, vec![5; len]);
        }
    }
}
