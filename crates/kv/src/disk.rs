//! The LMDB file: one database, keys with the table's number in front, values with a checksum in front.
//!
//! ```text
//! key    [table u8][key]                  table 0 is the store's own: the key "format" has the version of all this
//! value  [sum u32 big-endian][value]      sum = CRC-32C(value) xor CRC-32C(key) rotated left by one bit
//! ```

use crate::error::KvError;
use crate::layer::{FULL_KEY_LEN_MAX, Layer};
use crate::sum::{self, SUM_LEN, checked};
use crate::tree::Range;
use crate::{cold, pages};
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, PutFlags, RoTxn, RwTxn, WithoutTls};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Disk {
    // Dropped in this order: the lock goes when the map is gone.
    env: Env<WithoutTls>,
    rows: Database<Bytes, Bytes>,
    dir: PathBuf,
    map_len: usize,
    /// Held locked as long as the store is open: LMDB itself would let two processes in.
    _lock: File,
}

/// Readers at the same time. Each view of each thread is one; the default of LMDB, 126, is below our thread limits.
const READERS_MAX: u32 = 4096;
/// Stores up to this length are read whole when they are opened: some tenths of a second if the machine has them in
/// memory.
const CHECKED_LEN_MAX: u64 = 256 << 20;
/// As LMDB calls it.
const FILE: &str = "data.mdb";
/// At the beginning of LMDB's file.
const META_PAGE_COUNT: usize = 2;
pub(crate) const FORMAT_KEY: &[u8] = b"\0format";
const FORMAT: &[u8] = &[1];

pub(crate) type Row<'t> = (&'t [u8], &'t [u8]);

impl Disk {
    pub(crate) fn open(dir: &Path, map_len: usize) -> Result<Self, KvError> {
        let fault = |op| move |source| fault(dir, map_len, op, heed::Error::Io(source));
        std::fs::create_dir_all(dir).map_err(fault("making the directory"))?;
        let lock = io::file::lock(&dir.join("lock")).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => KvError::InUse { dir: dir.to_owned() },
            _ => fault("locking the directory")(error),
        })?;
        if !dir.join(FILE).try_exists().map_err(fault("looking for the store"))? {
            make(dir, map_len)?;
        }
        check_pages(dir)
            .map_err(fault("reading the store"))?
            .map_err(|reason| KvError::Unsound { dir: dir.to_owned(), reason })?;
        let (env, rows) = open_map(dir, map_len)?;
        // The files' names must not be lost while their content is kept.
        io::file::sync_dir(dir).map_err(fault("syncing the directory"))?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            io::file::sync_dir(parent).map_err(fault("syncing the directory"))?;
        }
        let disk = Self { env, rows, dir: dir.to_owned(), map_len, _lock: lock };
        disk.check_format()?;
        Ok(disk)
    }

    /// Writes the format's version into a new store, and refuses one that another program wrote.
    fn check_format(&self) -> Result<(), KvError> {
        let found = {
            let read = self.read()?;
            let found = self.get(&read, FORMAT_KEY)?.map(<[u8]>::to_vec);
            match found {
                None if self.rows.is_empty(&read).map_err(self.fault("reading"))? => None,
                found => Some(found.unwrap_or_default()),
            }
        };
        match found {
            None => {
                let mut write = self.env.write_txn().map_err(self.fault("beginning to write"))?;
                self.put(&mut write, FORMAT_KEY, FORMAT)?;
                write.commit().map_err(self.fault("committing"))
            }
            Some(found) if found == FORMAT => Ok(()),
            Some(found) => Err(KvError::Format { dir: self.dir.clone(), found }),
        }
    }

    fn fault(&self, op: &'static str) -> impl Fn(heed::Error) -> KvError {
        move |error| fault(&self.dir, self.map_len, op, error)
    }

    pub(crate) fn read(&self) -> Result<RoTxn<'_, WithoutTls>, KvError> {
        self.env.read_txn().map_err(self.fault("beginning to read"))
    }

    /// Why a view of it answers nothing: `error` met it when it began.
    pub(crate) fn unreadable(&self, error: &KvError) -> KvError {
        KvError::Lmdb { op: "beginning to read", dir: self.dir.clone(), reason: error.to_string() }
    }

    /// As [`Disk::read`], for long: it keeps the map open by itself.
    pub(crate) fn read_static(&self) -> Result<RoTxn<'static, WithoutTls>, KvError> {
        self.env.clone().static_read_txn().map_err(self.fault("beginning to read"))
    }

    /// `full` is no longer than [`FULL_KEY_LEN_MAX`].
    pub(crate) fn get<'t>(&self, read: &'t RoTxn<'_, WithoutTls>, full: &[u8]) -> Result<Option<&'t [u8]>, KvError> {
        let stored = self.rows.get(read, full).map_err(self.fault("reading"))?;
        let Some(stored) = stored else { return Ok(None) };
        cold::visit(stored);
        checked(full, stored).map(Some)
    }

    /// Bytes inside the file that nothing is stored in. (`Env::non_free_pages_size` visits every row.)
    pub(crate) fn reusable_len(&self) -> Result<u64, KvError> {
        let read = self.read()?;
        let stat = self.rows.stat(&read).map_err(self.fault("counting pages"))?;
        let page_len = u64::from(stat.page_size);
        let used = stat.branch_pages + stat.leaf_pages + stat.overflow_pages + META_PAGE_COUNT;
        let all = self.env.info().last_page_number + 1;
        let free = all.saturating_sub(used) as u64 * page_len;
        // LMDB lists the free pages in pages of its own, which it does not let us count: eight bytes each, pages at
        // least half full.
        Ok(free - free.div_ceil(page_len / 16))
    }

    pub(crate) fn file_len(&self) -> Result<u64, KvError> {
        self.env.real_disk_size().map_err(self.fault("measuring the file"))
    }

    pub(crate) fn map_len(&self) -> usize {
        self.map_len
    }

    pub(crate) fn range<'t>(
        &self,
        read: &'t RoTxn<'_, WithoutTls>,
        range: Range<'_>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, KvError>> + use<'_, 't>, KvError> {
        let rows = self.rows.range(read, &range).map_err(self.fault("reading"))?;
        Ok(rows.map(|row| self.check(row)))
    }

    /// The same, descending.
    pub(crate) fn descend<'t>(
        &self,
        read: &'t RoTxn<'_, WithoutTls>,
        range: Range<'_>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, KvError>> + use<'_, 't>, KvError> {
        let rows = self.rows.rev_range(read, &range).map_err(self.fault("reading"))?;
        Ok(rows.map(|row| self.check(row)))
    }

    fn check<'t>(&self, row: heed::Result<Row<'t>>) -> Result<Row<'t>, KvError> {
        let (full, stored) = row.map_err(self.fault("reading"))?;
        cold::visit(stored);
        Ok((full, checked(full, stored)?))
    }

    /// All rows of `layer`, in one transaction, synced.
    pub(crate) fn commit(&self, layer: &Layer) -> Result<(), KvError> {
        let mut write = self.env.write_txn().map_err(self.fault("beginning to write"))?;
        for (full, value) in layer.iter() {
            match value {
                Some(value) => self.put(&mut write, full, value)?,
                None => {
                    self.rows.delete(&mut write, full).map_err(self.fault("writing"))?;
                }
            }
        }
        // LMDB syncs the pages, and then the one that names them.
        io::file::count_syncs(2);
        write.commit().map_err(self.fault("committing"))
    }

    /// Begins to put other rows in the place of all there are; see [`Replacement`].
    pub(crate) fn replace(&self) -> Result<Replacement<'_>, KvError> {
        let mut write = self.env.write_txn().map_err(self.fault("beginning to write"))?;
        self.rows.clear(&mut write).map_err(self.fault("writing"))?;
        self.put(&mut write, FORMAT_KEY, FORMAT)?;
        Ok(Replacement { disk: self, write })
    }

    fn put(&self, write: &mut RwTxn<'_>, full: &[u8], value: &[u8]) -> Result<(), KvError> {
        put(&self.rows, write, full, value).map_err(self.fault("writing"))
    }
}

fn put(rows: &Database<Bytes, Bytes>, write: &mut RwTxn<'_>, full: &[u8], value: &[u8]) -> heed::Result<()> {
    let sum = sum::of(full, value).to_be_bytes();
    rows.put_reserved(write, full, SUM_LEN + value.len(), |space| {
        space.write_all(&sum)?;
        space.write_all(value)
    })
}

/// New rows for the whole store. Until [`Replacement::commit`] nobody sees them; dropped, they are gone.
pub(crate) struct Replacement<'d> {
    disk: &'d Disk,
    write: RwTxn<'d>,
}

impl Replacement<'_> {
    /// A row behind all before it.
    pub(crate) fn append(&mut self, full: &[u8], value: &[u8]) -> Result<(), KvError> {
        let mut stored = Vec::with_capacity(SUM_LEN + value.len());
        stored.extend_from_slice(&sum::of(full, value).to_be_bytes());
        stored.extend_from_slice(value);
        let put = self.disk.rows.put_with_flags(&mut self.write, PutFlags::APPEND, full, &stored);
        put.map_err(self.disk.fault("writing"))
    }

    /// A row anywhere.
    pub(crate) fn put(&mut self, full: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.disk.put(&mut self.write, full, value)
    }

    pub(crate) fn commit(self) -> Result<(), KvError> {
        self.write.commit().map_err(self.disk.fault("committing"))
    }
}

/// Makes an empty store, whole or not at all: LMDB writes the two heads of a new file without a sync, and a loss of
/// power between them would leave something that is neither a store nor none. So it is made beside, and named when it
/// is on disk.
fn make(dir: &Path, map_len: usize) -> Result<(), KvError> {
    let fault = |op| move |source| fault(dir, map_len, op, heed::Error::Io(source));
    let beside = dir.join("new");
    match std::fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(fault("removing a store half made")(error)),
        _ => {}
    }
    std::fs::create_dir(&beside).map_err(fault("making the store"))?;
    let (env, rows) = open_map(&beside, map_len)?;
    let begun = || -> heed::Result<()> {
        let mut write = env.write_txn()?;
        put(&rows, &mut write, FORMAT_KEY, FORMAT)?;
        write.commit()
    };
    begun().map_err(|error| self::fault(dir, map_len, "making the store", error))?;
    env.prepare_for_closing().wait();
    std::fs::rename(beside.join(FILE), dir.join(FILE)).map_err(fault("naming the store"))?;
    io::file::sync_dir(dir).map_err(fault("syncing the directory"))?;
    std::fs::remove_dir_all(&beside).map_err(fault("removing what is left of making the store"))
}

/// Reads all of a store that is not large. The inner error tells of damage.
fn check_pages(dir: &Path) -> std::io::Result<Result<(), pages::Fault>> {
    let file = match File::open(dir.join(FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(())),
        file => file?,
    };
    let is_large = file.metadata()?.len() > CHECKED_LEN_MAX;
    Ok(if is_large { Ok(()) } else { pages::check(&file) })
}

fn open_map(dir: &Path, map_len: usize) -> Result<(Env<WithoutTls>, Database<Bytes, Bytes>), KvError> {
    let open = || {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_len).max_readers(READERS_MAX).max_dbs(0);
        // SAFETY: the map stays sound as long as nobody else changes the file: the caller's lock keeps other processes
        // of ours out, and this process opens a directory once, as it would fail to lock it twice. No sync flag is
        // touched.
        #[allow(unsafe_code)]
        let env = unsafe { options.open(dir) }?;
        let mut write = env.write_txn()?;
        let rows = env.create_database(&mut write, None)?;
        write.commit()?;
        Ok((env, rows))
    };
    let opened: heed::Result<(Env<WithoutTls>, Database<Bytes, Bytes>)> = open();
    let (env, rows) = opened.map_err(|error| fault(dir, map_len, "opening the store", error))?;
    assert!(env.max_key_size() >= FULL_KEY_LEN_MAX, "LMDB was built for shorter keys");
    Ok((env, rows))
}

fn fault(dir: &Path, map_len: usize, op: &'static str, error: heed::Error) -> KvError {
    match error {
        heed::Error::Mdb(heed::MdbError::MapFull) => KvError::Full { map_len },
        heed::Error::Io(source) if is_no_space(&source, dir) => KvError::NoSpace { op, dir: dir.to_owned() },
        heed::Error::Io(source) => KvError::Io { op, dir: dir.to_owned(), source },
        other => KvError::Lmdb { op, dir: dir.to_owned(), reason: other.to_string() },
    }
}

/// LMDB tells a write that was cut short by a full disk as an I/O error, so the disk is asked.
fn is_no_space(error: &std::io::Error, dir: &Path) -> bool {
    /// No write of LMDB is as long.
    const LITTLE_LEN: u64 = 16 << 20;
    let is_cut_short = || io::file::space_of(dir).is_ok_and(|space| space.available < LITTLE_LEN);
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => true,
        _ => Errno::from_io_error(error) == Some(Errno::IO) && is_cut_short(),
    }
}
