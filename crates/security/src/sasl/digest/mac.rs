//! HMAC-MD5 (RFC 2104) of several numbered messages side by side.

use super::md5::{self, BLOCK_LEN, Block, Compress, START, State};

/// Most messages at a time.
pub(in crate::sasl) const LANES: usize = 8;
/// Where the processor has no vectors of eight words: SSE2 and NEON have four.
const FEW_LANES: usize = 4;
pub(super) const MAC_LEN: usize = 16;
/// What goes before a message.
const NUMBER_LEN: usize = 4;
/// Behind it comes one bit, in a byte, and the length at the end of a block.
const PADDING: u8 = 0x80;
const LENGTH_LEN: usize = 8;

type Mac = [u8; MAC_LEN];

/// A key that has gone through both halves of HMAC.
pub(super) struct Keyed {
    inner: State,
    outer: State,
}

impl Keyed {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let [inner, outer] = [0x36, 0x5c].map(|pad| {
            let mut block = [pad; BLOCK_LEN];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            let mut state = START.map(|word| [word]);
            md5::compress(&mut state, [&block]);
            state.map(|[word]| word)
        });
        Self { inner, outer }
    }

    /// Of at most [`LANES`] messages that are numbered from `first`, one MAC each; what follows them means nothing.
    pub(super) fn macs(&self, first: u32, messages: &[&[u8]]) -> [Mac; LANES] {
        self.macs_with(md5::eight_lanes(), first, messages)
    }

    fn macs_with(&self, eight: Option<Compress<LANES>>, first: u32, messages: &[&[u8]]) -> [Mac; LANES] {
        let mut macs = [[0; MAC_LEN]; LANES];
        if messages.len() <= 1 {
            self.fill(first, messages, &mut macs, md5::compress::<1>);
        } else if let Some(compress) = eight {
            self.fill(first, messages, &mut macs, compress);
        } else {
            let numbers = (0..).step_by(FEW_LANES).map(|at| first.wrapping_add(at));
            for ((number, few), macs) in numbers.zip(messages.chunks(FEW_LANES)).zip(macs.chunks_mut(FEW_LANES)) {
                self.fill(number, few, macs, md5::compress::<FEW_LANES>);
            }
        }
        macs
    }

    fn fill<const N: usize>(&self, first: u32, messages: &[&[u8]], macs: &mut [Mac], compress: Compress<N>) {
        let lane =
            |i| Numbered { number: first.wrapping_add(i as u32), message: messages.get(i).copied().unwrap_or(&[]) };
        let lanes: [Numbered<'_>; N] = std::array::from_fn(lane);
        let last: [Block; N] = inner_digests(self.inner, &lanes, compress).map(|digest| {
            let mut block = [0; BLOCK_LEN];
            block[..MAC_LEN].copy_from_slice(&bytes(digest));
            block[MAC_LEN] = PADDING;
            put_length(&mut block, BLOCK_LEN + MAC_LEN);
            block
        });
        let mut state = self.outer.map(|word| [word; N]);
        compress(&mut state, last.each_ref());
        for (i, mac) in macs.iter_mut().enumerate().take(N) {
            *mac = bytes(state.map(|word| word[i]));
        }
    }
}

/// A message behind its number.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    number: u32,
    message: &'a [u8],
}

impl<'a> Numbered<'a> {
    fn blocks(self) -> usize {
        (NUMBER_LEN + self.message.len() + 1 + LENGTH_LEN).div_ceil(BLOCK_LEN)
    }

    /// The block at `k`, where it is nothing but message.
    fn whole(self, k: usize) -> Option<&'a Block> {
        self.message.get((k * BLOCK_LEN).checked_sub(NUMBER_LEN)?..)?.first_chunk()
    }

    /// Any block: the first one, which begins with the number, the last two, and none beyond them.
    fn made(self, k: usize) -> Block {
        let mut block = [0; BLOCK_LEN];
        let start = k * BLOCK_LEN;
        let number_len = if k == 0 { NUMBER_LEN } else { 0 };
        block[..number_len].copy_from_slice(&self.number.to_be_bytes()[..number_len]);
        let rest = self.message.get((start + number_len).saturating_sub(NUMBER_LEN)..).unwrap_or(&[]);
        let taken = rest.len().min(BLOCK_LEN - number_len);
        block[number_len..number_len + taken].copy_from_slice(&rest[..taken]);
        let len = NUMBER_LEN + self.message.len();
        if let Some(end) = len.checked_sub(start)
            && end < BLOCK_LEN
        {
            block[end] = PADDING;
        }
        if k + 1 == self.blocks() {
            put_length(&mut block, BLOCK_LEN + len);
        }
        block
    }
}

fn inner_digests<const N: usize>(start: State, lanes: &[Numbered<'_>; N], compress: Compress<N>) -> [State; N] {
    let mut state = start.map(|word| [word; N]);
    let mut digests = [START; N];
    let longest = lanes.iter().map(|lane| lane.blocks()).max().unwrap_or(0);
    let mut made = [[0; BLOCK_LEN]; N];
    for k in 0..longest {
        let whole = lanes.map(|lane| lane.whole(k));
        for ((made, lane), _) in made.iter_mut().zip(lanes).zip(&whole).filter(|(_, whole)| whole.is_none()) {
            *made = lane.made(k);
        }
        compress(&mut state, std::array::from_fn(|i| whole[i].unwrap_or(&made[i])));
        for (i, digest) in digests.iter_mut().enumerate().filter(|(i, _)| lanes[*i].blocks() == k + 1) {
            *digest = state.map(|word| word[i]);
        }
    }
    digests
}

/// What was hashed in all, in bits.
fn put_length(block: &mut Block, whole: usize) {
    block[BLOCK_LEN - LENGTH_LEN..].copy_from_slice(&(8 * whole as u64).to_le_bytes());
}

fn bytes(state: State) -> Mac {
    let mut mac = [0; MAC_LEN];
    mac.chunks_exact_mut(4).zip(state).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::md5::Md5;
    use hmac::{Hmac, KeyInit, Mac as _};
    use proptest::prelude::*;

    fn by_the_library(key: [u8; 16], number: u32, message: &[u8]) -> Mac {
        let mut mac = Hmac::<Md5>::new_from_slice(&key).unwrap();
        mac.update(&number.to_be_bytes());
        mac.update(message);
        mac.finalize().into_bytes().into()
    }

    /// All lengths around the edges of blocks, alone and beside others.
    #[test]
    fn each_message_gets_the_mac_it_gets_alone() {
        let key = *b"0123456789abcdef";
        let keyed = Keyed::new(key);
        let text: Vec<u8> = (0..300_u32).map(|i| i as u8).collect();
        for (count, len) in [1, 2, 4, 5, LANES].into_iter().flat_map(|count| (0..=200).map(move |len| (count, len))) {
            for eight in [md5::eight_lanes(), None] {
                let messages: Vec<_> = (0..count).map(|i| &text[i..(i + len * (i + 1) / count).max(i)]).collect();
                let macs = keyed.macs_with(eight, u32::MAX - 1, &messages);
                for (i, (mac, message)) in macs.iter().zip(&messages).enumerate() {
                    let number = (u32::MAX - 1).wrapping_add(i as u32);
                    assert_eq!(*mac, by_the_library(key, number, message), "{i} of {count}, {} bytes", message.len());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn messages_of_any_lengths(key: [u8; 16], first: u32,
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..=LANES)) {
            let slices: Vec<_> = messages.iter().map(Vec::as_slice).collect();
            let macs = Keyed::new(key).macs(first, &slices);
            for (i, message) in messages.iter().enumerate() {
                prop_assert_eq!(macs[i], by_the_library(key, first.wrapping_add(i as u32), message));
            }
        }
    }
}
