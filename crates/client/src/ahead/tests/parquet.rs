//! Files that look like Parquet's: a footer with what says where chunks lie, and noise in place of values.

use types::random::{Random, Seeded};

pub(super) struct Table {
    column_count: usize,
    /// Of each chunk, group by group.
    lens: Vec<u64>,
    footer: Vec<u8>,
}

/// Bytes without any order, which end as a Parquet file does, and say that so many are its footer.
pub(super) fn garbage(seed: u64) -> Vec<u8> {
    let len = if seed > 1000 { 6_000_000 } else { 40_000 };
    let mut bytes = noise(seed, len);
    bytes.extend([&[0xff, 0xff, seed as u8, 0][..], b"PAR1"].concat());
    bytes
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Seeded(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

impl Table {
    /// Chunks of about eight bytes a row.
    pub(super) fn new(column_count: usize, group_count: usize, rows: u64) -> Self {
        let mut random = Seeded(3);
        let lens: Vec<u64> =
            (0..column_count * group_count).map(|_| rows * 8 + random.below(rows as usize) as u64).collect();
        let mut footer = Thrift::default();
        footer.list(2, column_count + 1);
        footer.field(4, 8).text("schema").field(1, 5).number(column_count as u64).end();
        for column in 0..column_count {
            footer.field(4, 8).text(&format!("c{column}")).end();
        }
        footer.list_behind(2, 4, group_count);
        let mut offset = 4;
        for group in lens.chunks(column_count) {
            footer.list(1, column_count);
            for len in group {
                // A chunk: its metadata has the length and the first page's offset.
                footer.field(3, 12).field(7, 6).number(*len).field(2, 6).number(offset).end().end();
                offset += len;
            }
            footer.field(2, 6).number(rows).end();
        }
        footer.end();
        Self { column_count, lens, footer: footer.0 }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let data_len: u64 = self.lens.iter().sum();
        let len = (self.footer.len() as u32).to_le_bytes();
        [&b"PAR1"[..], &noise(8, data_len as usize), &self.footer, &len, b"PAR1"].concat()
    }

    pub(super) fn len(&self) -> u64 {
        self.lens.iter().sum::<u64>() + self.footer.len() as u64 + 12
    }

    /// With what follows it.
    pub(super) fn footer(&self) -> (u64, u64) {
        let len = self.footer.len() as u64 + 8;
        (self.len() - len, len)
    }

    pub(super) fn chunk(&self, group: usize, column: usize) -> (u64, u64) {
        let at = group * self.column_count + column;
        (4 + self.lens[..at].iter().sum::<u64>(), self.lens[at])
    }
}

/// Thrift's compact protocol, as far as footers need it.
#[derive(Default)]
struct Thrift(Vec<u8>);

impl Thrift {
    /// The begin of a field: how far its id is from the one before, and its kind.
    fn field(&mut self, distance: u8, kind: u8) -> &mut Self {
        self.0.push(distance << 4 | kind);
        self
    }

    fn varint(&mut self, mut number: u64) -> &mut Self {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    /// Zigzag.
    fn number(&mut self, number: u64) -> &mut Self {
        self.varint(number << 1)
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.varint(text.len() as u64);
        self.0.extend(text.as_bytes());
        self
    }

    /// A list of structs.
    fn list(&mut self, distance: u8, count: usize) -> &mut Self {
        self.field(distance, 9);
        self.0.push(0xf0 | 12);
        self.varint(count as u64)
    }

    fn list_behind(&mut self, before: u8, id: u8, count: usize) -> &mut Self {
        self.list(id - before, count)
    }

    fn end(&mut self) -> &mut Self {
        self.0.push(0);
        self
    }
}
