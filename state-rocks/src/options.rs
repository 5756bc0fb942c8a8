//! How RocksDB is set up.

use std::path::PathBuf;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, LogLevel, Options,
};

/// RocksDB makes a smaller write buffer this large.
const SMALLEST_WRITE_BUFFER_BYTES: usize = 64 << 10;

/// How the databases of a backend are set up.
///
/// What cannot be chosen: the write-ahead log is off, for a stream processor replays its input from
/// the last checkpoint and would pay for every write twice; paranoid checks are on; checksums are
/// verified on every read; and nothing stalls writers across databases, for there is no write buffer
/// manager.
///
/// ```
/// use state_rocks::RocksOptions;
///
/// let options = RocksOptions {
///     write_buffer_bytes: 16 << 20,
///     ..RocksOptions::default()
/// };
/// assert_eq!(options.effective_arena_block_bytes(), 64 << 10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RocksOptions {
    /// Bytes that a database collects in memory before it writes a file. Default 64 MiB, RocksDB's
    /// own: large enough that keys which change often are written to a file once and not many times.
    /// At least 64 KiB.
    pub write_buffer_bytes: usize,
    /// How many such buffers a database may have, those being written to a file included. Default 2,
    /// RocksDB's own: one fills while one is written. More of them absorb longer bursts, for
    /// [`write_buffer_bytes`](Self::write_buffer_bytes) each.
    pub write_buffers: u16,
    /// The steps in which a write buffer takes memory, bounded by an eighth of
    /// [`write_buffer_bytes`](Self::write_buffer_bytes). Default 64 KiB, where RocksDB would take
    /// 1 MiB: an operator may have many stores that hold little, and each takes a first step with
    /// its first write. An allocation per 64 KiB written is not measurable.
    pub arena_block_bytes: usize,
    /// Bytes of the cache of uncompressed blocks, shared by all stores of a backend. Default 64 MiB.
    /// Indexes and filters are in it too, so it bounds what reading retains however large the
    /// databases grow; those of the newest files are pinned.
    pub block_cache_bytes: usize,
    /// Bits per key of the bloom filters, over whole keys; 0 for no filters. Default 10, with which
    /// about one read in a hundred of an absent key looks into a file. New keys are read before they
    /// are written, so absent keys are common.
    pub bloom_bits_per_key: f64,
    /// The compression of all levels but the last, whose files are short-lived. Default
    /// [`Compression::Lz4`], which costs little enough not to slow down flushes.
    pub compression: Compression,
    /// The compression of the last level, which holds about nine tenths of a large database. Default
    /// [`Compression::Lz4`]: values are small and keys have prefixes in common, so Zstandard made databases of
    /// winners no smaller, and reading one that no cache holds a quarter slower.
    pub bottommost_compression: Compression,
    /// Background threads for flushes and compactions. They are shared by all databases of the
    /// process; the largest number asked for counts. Default 2, RocksDB's own: one of each, which
    /// leaves the other cores to the operators.
    pub background_jobs: u16,
    /// How many files a database keeps open; `None` for all of them. Default `None`, RocksDB's own:
    /// a read never reopens a file. Bound it where many large stores share a limit of descriptors.
    pub max_open_files: Option<u32>,
    /// Where the databases write their logs of events; `None` for the directory of each database.
    /// Default `None`, so that removing that directory removes all of it.
    pub log_dir: Option<PathBuf>,
    /// The most bytes in one write to a database, unless a single value is larger. Default 4 MiB: a
    /// bundle's values exist twice while they are written, so this bounds the second copy, and the
    /// cost of a write is spread over enough values not to be measurable.
    pub write_batch_bytes: usize,
    /// The most bytes of decoded values that a store keeps from one bundle to the next, their keys and
    /// places included; 0 for none. Default 64 MiB, as the block cache. Only values that were read are
    /// kept, so keys that come once do not drive out those that come again; the oldest goes first.
    pub cache_bytes: usize,
    /// When values are written. Default [`WritePolicy::Through`].
    pub write_policy: WritePolicy,
    /// The most bytes of buffers that a store keeps from one bundle to the next. Larger ones are
    /// given back, and taken again by the next large bundle. Default 16 MiB, which is enough for the
    /// working set of 65,536 small values.
    pub kept_buffer_bytes: usize,
}

/// When the values that a bundle changed are written to the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// At the end of the bundle.
    #[default]
    Through,
    /// Not before a checkpoint, a view, the end of the store, or so many bytes of changed values, keys and places
    /// included: a value that changes again and again is written once. The answers are the same, and so is
    /// what survives a crash, for without a write-ahead log that is the last checkpoint.
    ///
    /// What waits is charged to the memory pool; where that refuses, it is written at once. A store that is
    /// dropped writes what waits; whether that succeeded nobody learns, so
    /// [`RocksState::write_back`](crate::RocksState::write_back) is there to be called before.
    Back {
        /// The most bytes that wait.
        limit_bytes: usize,
    },
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: fast.
    Lz4,
    /// Zstandard at its default level: small.
    Zstd,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self {
            write_buffer_bytes: 64 << 20,
            write_buffers: 2,
            arena_block_bytes: 64 << 10,
            block_cache_bytes: 64 << 20,
            bloom_bits_per_key: 10.0,
            compression: Compression::Lz4,
            bottommost_compression: Compression::Lz4,
            background_jobs: 2,
            max_open_files: None,
            log_dir: None,
            write_batch_bytes: 4 << 20,
            cache_bytes: 64 << 20,
            write_policy: WritePolicy::Through,
            kept_buffer_bytes: 16 << 20,
        }
    }
}

impl RocksOptions {
    /// The steps in which a write buffer takes memory:
    /// [`arena_block_bytes`](Self::arena_block_bytes), but at most an eighth of a write buffer. With
    /// larger steps a buffer would be flushed half empty.
    pub fn effective_arena_block_bytes(&self) -> usize {
        let write_buffer = self.write_buffer_bytes.max(SMALLEST_WRITE_BUFFER_BYTES);
        self.arena_block_bytes.min(write_buffer / 8)
    }

    pub(crate) fn block_cache(&self) -> Cache {
        Cache::new_lru_cache(self.block_cache_bytes)
    }

    pub(crate) fn to_engine(&self, block_cache: &Cache) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(block_cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        // Whole indexes and filters are blocks of megabytes, larger than a shard of the cache: each read of a
        // large database took them from the file again, at 25 times the cost.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_pin_top_level_index_and_filter(true);
        if self.bloom_bits_per_key > 0.0 {
            table.set_bloom_filter(self.bloom_bits_per_key, false);
            table.set_whole_key_filtering(true);
        }

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_paranoid_checks(true);
        options.set_write_buffer_size(self.write_buffer_bytes);
        options.set_max_write_buffer_number(self.write_buffers.into());
        options.set_arena_block_size(self.effective_arena_block_bytes());
        // A store has one writer; without this each core would take a part of the arena for itself.
        options.set_allow_concurrent_memtable_write(false);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(self.compression.to_engine());
        options.set_bottommost_compression_type(self.bottommost_compression.to_engine());
        options.set_max_background_jobs(self.background_jobs.into());
        let all = -1;
        let files = self.max_open_files;
        options.set_max_open_files(files.map_or(all, |n| n.try_into().unwrap_or(i32::MAX)));
        if let Some(log_dir) = &self.log_dir {
            options.set_db_log_dir(log_dir);
        }
        // The log of events is for faults: warnings, and of the last two times that it was opened.
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(2);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options
    }
}

impl Compression {
    fn to_engine(self) -> DBCompressionType {
        match self {
            Self::None => DBCompressionType::None,
            Self::Lz4 => DBCompressionType::Lz4,
            Self::Zstd => DBCompressionType::Zstd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RocksOptions;

    fn effective(write_buffer_bytes: usize, arena_block_bytes: usize) -> usize {
        let options = RocksOptions {
            write_buffer_bytes,
            arena_block_bytes,
            ..RocksOptions::default()
        };
        options.effective_arena_block_bytes()
    }

    #[test]
    fn an_arena_block_is_at_most_an_eighth_of_the_write_buffer() {
        assert_eq!(effective(64 << 20, 64 << 10), 64 << 10);
        assert_eq!(effective(64 << 20, 1 << 30), 8 << 20);
        assert_eq!(effective(256 << 10, 64 << 10), 32 << 10);
        assert_eq!(effective(0, 64 << 10), 8 << 10); // RocksDB takes 64 KiB for such a buffer
    }
}
