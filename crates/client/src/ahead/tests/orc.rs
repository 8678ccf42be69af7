//! Files that look like ORC's: footers with what says where streams lie, and noise in place of values.

use types::random::{Random, Seeded};

pub(super) struct Stripes {
    column_count: usize,
    /// Of each column of each stripe, and of the footer behind them.
    lens: Vec<u64>,
    bytes: Vec<u8>,
}

impl Stripes {
    /// Streams of about eight bytes a row.
    pub(super) fn new(column_count: usize, stripe_count: usize, rows: u64) -> Self {
        let mut random = Seeded(4);
        let (mut bytes, mut footer, mut lens) = (b"ORC".to_vec(), Vec::new(), Vec::new());
        for _ in 0..stripe_count {
            let (offset, mut stripe) = (bytes.len() as u64, Vec::new());
            for column in 1..=column_count as u64 {
                let len = rows * 8 + random.below(rows as usize) as u64;
                message(&mut stripe, 1, &numbers(&[(1, 1), (2, column), (3, len)]));
                bytes.extend((0..len).map(|_| random.next_u64() as u8));
                lens.push(len);
            }
            lens.push(stripe.len() as u64);
            let data_len = bytes.len() as u64 - offset;
            bytes.extend(&stripe);
            let of_stripe = [(1, offset), (2, 0), (3, data_len), (4, stripe.len() as u64), (5, rows)];
            message(&mut footer, 3, &numbers(&of_stripe));
        }
        let mut root = numbers(&[(1, 12)]);
        for column in 1..=column_count as u64 {
            root.extend(numbers(&[(2, column)]));
            message(&mut root, 3, format!("c{column}").as_bytes());
        }
        message(&mut footer, 4, &root);
        (0..column_count).for_each(|_| message(&mut footer, 4, &numbers(&[(1, 6)])));
        let mut postscript = numbers(&[(1, footer.len() as u64)]);
        message(&mut postscript, 8000, b"ORC");
        bytes.extend([&footer[..], &postscript, &[postscript.len() as u8]].concat());
        Self { column_count, lens, bytes }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// What readers ask for first.
    pub(super) fn tail(&self) -> (u64, u64) {
        let len = self.bytes.len().min(16 << 10) as u64;
        (self.bytes.len() as u64 - len, len)
    }

    pub(super) fn footer(&self, stripe: usize) -> (u64, u64) {
        self.stream(stripe, self.column_count + 1)
    }

    /// Of a column, from 1 on.
    pub(super) fn stream(&self, stripe: usize, column: usize) -> (u64, u64) {
        let at = stripe * (self.column_count + 1) + column - 1;
        (3 + self.lens[..at].iter().sum::<u64>(), self.lens[at])
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Fields of numbers.
fn numbers(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, number) in fields {
        varint(&mut out, id << 3);
        varint(&mut out, *number);
    }
    out
}

fn message(out: &mut Vec<u8>, id: u64, bytes: &[u8]) {
    varint(out, id << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}
