//! The LMDB file: one database, keys with the table's number in front, values with a checksum in front.
//!
//! ```text
//! key    [table u8][key]
//! value  [sum u32 big-endian][value]      sum = CRC-32C(value) xor CRC-32C(key) rotated left by one bit
//! ```

use crate::KvError;
use crate::layer::Layer;
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, RoTxn, WithoutTls};
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use types::ChecksumKind;

pub(crate) struct Disk {
    env: Env<WithoutTls>,
    rows: Database<Bytes, Bytes>,
    dir: PathBuf,
    map_len: usize,
    /// Held locked as long as the store is open: LMDB itself would let two processes in.
    _lock: File,
}

/// Readers at the same time. Each view of each thread is one; the default of LMDB, 126, is below our thread limits.
const READERS_MAX: u32 = 4096;
const SUM_LEN: usize = 4;

pub(crate) type Row<'t> = (&'t [u8], &'t [u8]);

impl Disk {
    pub(crate) fn open(dir: &Path, map_len: usize) -> Result<Self, KvError> {
        let io = |op| move |source| KvError::Io { op, dir: dir.to_owned(), source };
        std::fs::create_dir_all(dir).map_err(io("making the directory"))?;
        let lock = File::options().create(true).append(true).open(dir.join("lock")).map_err(io("opening the lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(KvError::InUse { dir: dir.to_owned() }),
            Err(std::fs::TryLockError::Error(source)) => return Err(io("locking the directory")(source)),
        }
        let lmdb = |op| move |error| Self::error(dir, map_len, op, error);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_len).max_readers(READERS_MAX).max_dbs(0);
        // SAFETY: the map stays sound as long as nobody else changes the file: the lock above keeps other processes of
        // ours out, and this process opens a directory once, as it would fail to lock it twice. No sync flag is touched.
        #[allow(unsafe_code)]
        let env = unsafe { options.open(dir) }.map_err(lmdb("opening the store"))?;
        let mut write = env.write_txn().map_err(lmdb("opening the store"))?;
        let rows = env.create_database(&mut write, None).map_err(lmdb("opening the store"))?;
        write.commit().map_err(lmdb("opening the store"))?;
        Ok(Self { env, rows, dir: dir.to_owned(), map_len, _lock: lock })
    }

    fn error(dir: &Path, map_len: usize, op: &'static str, error: heed::Error) -> KvError {
        match error {
            heed::Error::Mdb(heed::MdbError::MapFull) => KvError::Full { map_len },
            heed::Error::Io(source) => KvError::Io { op, dir: dir.to_owned(), source },
            other => KvError::Lmdb { op, dir: dir.to_owned(), reason: other.to_string() },
        }
    }

    fn fault(&self, op: &'static str) -> impl Fn(heed::Error) -> KvError {
        move |error| Self::error(&self.dir, self.map_len, op, error)
    }

    pub(crate) fn read(&self) -> Result<RoTxn<'_, WithoutTls>, KvError> {
        self.env.read_txn().map_err(self.fault("beginning to read"))
    }

    pub(crate) fn get<'t>(&self, read: &'t RoTxn<'_, WithoutTls>, full: &[u8]) -> Result<Option<&'t [u8]>, KvError> {
        let stored = self.rows.get(read, full).map_err(self.fault("reading"))?;
        stored.map(|stored| checked(full, stored)).transpose()
    }

    pub(crate) fn range<'t>(
        &self,
        read: &'t RoTxn<'_, WithoutTls>,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, KvError>> + use<'_, 't>, KvError> {
        let rows = self.rows.range(read, &(from, Bound::Unbounded)).map_err(self.fault("reading"))?;
        Ok(rows.map(move |row| {
            let (full, stored) = row.map_err(self.fault("reading"))?;
            Ok((full, checked(full, stored)?))
        }))
    }

    /// Rows up to the bound, descending.
    pub(crate) fn descend<'t>(
        &self,
        read: &'t RoTxn<'_, WithoutTls>,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, KvError>> + use<'_, 't>, KvError> {
        let rows = self.rows.rev_range(read, &(Bound::Unbounded, to)).map_err(self.fault("reading"))?;
        Ok(rows.map(move |row| {
            let (full, stored) = row.map_err(self.fault("reading"))?;
            Ok((full, checked(full, stored)?))
        }))
    }

    /// All rows of `layer`, in one transaction, synced.
    pub(crate) fn commit(&self, layer: &Layer) -> Result<(), KvError> {
        let mut write = self.env.write_txn().map_err(self.fault("beginning to write"))?;
        let mut stored = Vec::new();
        for (full, value) in layer.range(Bound::Unbounded) {
            match value {
                Some(value) => {
                    stored.clear();
                    stored.extend_from_slice(&sum(full, value).to_be_bytes());
                    stored.extend_from_slice(value);
                    self.rows.put(&mut write, full, &stored).map_err(self.fault("writing"))?;
                }
                None => {
                    self.rows.delete(&mut write, full).map_err(self.fault("writing"))?;
                }
            }
        }
        write.commit().map_err(self.fault("committing"))
    }
}

/// The key is covered too, so that a row found under a wrong key is noticed.
fn sum(full: &[u8], value: &[u8]) -> u32 {
    // Two sums joined by a rotation cost no copy; any single flipped bit changes one of them.
    ChecksumKind::Crc32c.of(value) ^ ChecksumKind::Crc32c.of(full).rotate_left(1)
}

fn checked<'t>(full: &[u8], stored: &'t [u8]) -> Result<&'t [u8], KvError> {
    let damaged = KvError::Damaged { table: full.first().copied().unwrap_or(0) };
    match stored.split_first_chunk::<SUM_LEN>() {
        Some((have, value)) if u32::from_be_bytes(*have) == sum(full, value) => Ok(value),
        _ => Err(damaged),
    }
}
