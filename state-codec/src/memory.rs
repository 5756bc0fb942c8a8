//! One budget of bytes for all that a task retains, shared by several holders.
//!
//! A [`MemoryPool`] is the budget; each holder takes a [`Reservation`] of it and resizes that as what
//! it retains grows and shrinks. Growth beyond the budget is refused with a [`MemoryDenied`], an
//! ordinary value: the holder decides whether to shed, to spill or to fail.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many holders a denial names.
const NAMED_IN_DENIAL: usize = 3;

/// A budget in bytes. Clones share it, also across threads.
///
/// The pool counts what its holders say that they retain; it allocates nothing for them. Each call
/// takes one lock for a few instructions, so a holder settles its reservation once per batch or bundle
/// rather than once per value.
///
/// ```
/// # use state_codec::MemoryPool;
/// let pool = MemoryPool::new(1_000);
/// let mut winners = pool.reserve("winners");
/// let mut cache = pool.reserve("cache");
/// winners.try_resize(100)?;
/// cache.try_resize(800)?;
/// assert_eq!(pool.used_bytes(), 900);
///
/// let denied = winners.try_grow(512).unwrap_err();
/// assert_eq!(
///     denied.to_string(),
///     r#""winners" asked for 512 bytes more, but 900 of 1000 are held; largest: "cache" 800, "winners" 100"#,
/// );
/// assert_eq!(winners.bytes(), 100); // a denial changes nothing
///
/// drop(cache); // a reservation is given back on drop
/// winners.try_grow(512)?;
/// assert_eq!(pool.used_bytes(), 612);
/// # Ok::<(), state_codec::MemoryDenied>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: usize,
    books: Mutex<Books>,
}

/// Who holds what. `used_bytes` is always the sum over `holders`, and never above the limit.
#[derive(Debug, Default)]
struct Books {
    used_bytes: usize,
    /// By a number that grows with each reservation, so that equally large holders keep that order.
    holders: BTreeMap<u64, Holder>,
    next_id: u64,
}

impl Books {
    fn largest_first(&self) -> Vec<Holder> {
        let mut holders: Vec<Holder> = self.holders.values().cloned().collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
    }

    fn set(&mut self, id: u64, bytes: usize) {
        let holder = self.holders.get_mut(&id);
        holder.expect("a living reservation is in the books").bytes = bytes;
    }
}

impl MemoryPool {
    /// A pool of `limit_bytes`. With 0, every growth is denied.
    pub fn new(limit_bytes: usize) -> Self {
        let books = Mutex::new(Books::default());
        Self {
            shared: Arc::new(Shared { limit_bytes, books }),
        }
    }

    /// A pool that denies nothing but still counts: its limit is `usize::MAX`, the most that can be
    /// counted.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// The budget in bytes; `usize::MAX` for an [`unlimited`](Self::unlimited) pool.
    pub fn limit_bytes(&self) -> usize {
        self.shared.limit_bytes
    }

    /// The bytes that all reservations hold now.
    pub fn used_bytes(&self) -> usize {
        self.shared.books.lock().used_bytes
    }

    /// The holders and what each holds, largest first, and those that hold equally much in the order in
    /// which they reserved. One entry per living reservation, empty ones and equal names too.
    pub fn holders(&self) -> Vec<Holder> {
        self.shared.books.lock().largest_first()
    }

    /// An empty reservation under `name`, which denials show. The name need not be unique.
    pub fn reserve(&self, name: &str) -> Reservation {
        let name: Arc<str> = name.into();
        let mut books = self.shared.books.lock();
        let id = books.next_id;
        books.next_id += 1;
        books.holders.insert(
            id,
            Holder {
                name: Arc::clone(&name),
                bytes: 0,
            },
        );
        drop(books);
        Reservation {
            pool: self.clone(),
            id,
            name,
            bytes: 0,
        }
    }
}

/// One holder of a pool and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name that it reserved under.
    pub name: Arc<str>,
    /// What it holds.
    pub bytes: usize,
}

/// The bytes that one holder has of a pool; given back on drop.
///
/// ```
/// # use state_codec::MemoryPool;
/// let pool = MemoryPool::new(1_000);
/// let mut slab = pool.reserve("slab");
/// slab.try_resize(640)?; // what the slab allocated
/// slab.try_resize(320)?; // and after it shrank
/// assert_eq!((slab.bytes(), pool.used_bytes()), (320, 320));
/// # Ok::<(), state_codec::MemoryDenied>(())
/// ```
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    id: u64,
    name: Arc<str>,
    bytes: usize,
}

impl Reservation {
    /// The name that denials show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pool that this is a part of.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// The bytes held. Takes no lock.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes what is held to `bytes`. Shrinking and staying the same never fail.
    ///
    /// # Errors
    ///
    /// [`MemoryDenied`] if the pool would be over its limit; then nothing changes.
    pub fn try_resize(&mut self, bytes: usize) -> Result<(), MemoryDenied> {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => {
                self.shrink(bytes);
                Ok(())
            }
            Some(additional) => self.try_grow(additional),
        }
    }

    /// Adds `additional` bytes to what is held.
    ///
    /// # Errors
    ///
    /// [`MemoryDenied`] if the pool would be over its limit, or over `usize::MAX`; then nothing changes.
    pub fn try_grow(&mut self, additional: usize) -> Result<(), MemoryDenied> {
        let mut books = self.pool.shared.books.lock();
        let limit_bytes = self.pool.shared.limit_bytes;
        match books.used_bytes.checked_add(additional) {
            Some(used) if used <= limit_bytes => {
                books.used_bytes = used;
                // No holder has more than all of them, so this sum cannot overflow either.
                self.bytes += additional;
                books.set(self.id, self.bytes);
                Ok(())
            }
            _ => {
                let used_bytes = books.used_bytes;
                let mut largest = books.largest_first();
                drop(books);
                largest.retain(|holder| holder.bytes > 0);
                largest.truncate(NAMED_IN_DENIAL);
                Err(MemoryDenied {
                    holder: Arc::clone(&self.name),
                    requested_bytes: additional,
                    held_bytes: self.bytes,
                    limit_bytes,
                    used_bytes,
                    largest,
                })
            }
        }
    }

    fn shrink(&mut self, bytes: usize) {
        let mut books = self.pool.shared.books.lock();
        books.used_bytes -= self.bytes - bytes;
        self.bytes = bytes;
        books.set(self.id, bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.pool.shared.books.lock();
        books.used_bytes -= self.bytes;
        books.holders.remove(&self.id);
    }
}

/// The pool has not got what was asked for. Nothing changed.
///
/// It is a snapshot taken at the moment of the denial: other holders may have given back since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDenied {
    holder: Arc<str>,
    requested_bytes: usize,
    held_bytes: usize,
    limit_bytes: usize,
    used_bytes: usize,
    largest: Vec<Holder>,
}

impl MemoryDenied {
    /// The name of the holder that asked.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// The bytes that it asked for, beyond those it held.
    pub fn requested_bytes(&self) -> usize {
        self.requested_bytes
    }

    /// The bytes that it held, and still holds.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The budget of the pool.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// The bytes that all holders had together.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The up to three holders that had the most, largest first; none that held nothing.
    pub fn largest(&self) -> &[Holder] {
        &self.largest
    }
}

impl fmt::Display for MemoryDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} asked for {} bytes more, but {} of {} are held",
            self.holder, self.requested_bytes, self.used_bytes, self.limit_bytes
        )?;
        for (i, holder) in self.largest.iter().enumerate() {
            let before = if i == 0 { "; largest: " } else { ", " };
            write!(f, "{before}{:?} {}", holder.name, holder.bytes)?;
        }
        Ok(())
    }
}

impl std::error::Error for MemoryDenied {}
