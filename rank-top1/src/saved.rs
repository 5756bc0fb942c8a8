//! Retained rows as a table, and the way back: what a ranker writes into canonical checkpoints.
//!
//! A section has the columns of the input, then those that say what the rows alone do not:
//!
//! ```text
//! rank         BIGINT not null       place in the partition from 1; not for the range 1..1
//! rank_end     BIGINT not null       the partition's; only where it is a column of the input
//! accepted_at  BIGINT                milliseconds of the operator's clock; NULL where not known
//! ```
//!
//! Their names have underscores in front where the input has such a column. Rows are ordered by the key
//! rows of their partitions, and by rank.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::checkpoint::{
    CheckpointDir, CheckpointRef, Manifest, SectionReader, SectionWriter, cover,
};
use state_codec::{
    KeyBatch, KeyedState, Rows, Select, Slot, Snapshot, SnapshotView, SortKey, SortKeys,
};

use crate::error::{RankError, RestoreError};
use crate::input::check_no_nulls;
use crate::ranked::{RankedRow, RankedRows, UNKNOWN, Winner};
use crate::spec::RankSpec;

/// Rows and bytes of rows that one record batch of a section has at most, unless a row is larger.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 1 << 20;

/// A value as rows of a section, and back.
pub(crate) trait Saved: Sized {
    /// Calls `row` with each row that is not expired at `now_ms`, its rank and the time of its acceptance,
    /// and returns the rank end.
    fn rows(&self, spec: &RankSpec, now_ms: i64, row: &mut dyn FnMut(&[u8], u64, i64)) -> u64;

    /// The value of a partition's first row.
    fn begin(spec: &RankSpec, row: &SavedRow<'_>) -> Self;

    /// Adds the next row of the partition, if it can be one.
    fn add(&mut self, spec: &RankSpec, row: &SavedRow<'_>) -> Result<(), &'static str>;

    /// Heap bytes that the row will add to a value at most.
    fn growth_bytes(spec: &RankSpec, row: &SavedRow<'_>) -> usize;
}

/// A row of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedRow<'a> {
    row: &'a [u8],
    key: SortKey<'a>,
    rank: i64,
    rank_end: i64,
    write_ms: i64,
}

impl Saved for Winner {
    /// A view has left out what is expired as a whole.
    fn rows(&self, spec: &RankSpec, _: i64, row: &mut dyn FnMut(&[u8], u64, i64)) -> u64 {
        row(self.row(spec), 1, self.write_ms(spec));
        1
    }

    fn begin(spec: &RankSpec, row: &SavedRow<'_>) -> Self {
        Self::new(spec, row.row, row.key, row.write_ms)
    }

    fn add(&mut self, _: &RankSpec, _: &SavedRow<'_>) -> Result<(), &'static str> {
        Err("its partition has a row already")
    }

    fn growth_bytes(spec: &RankSpec, row: &SavedRow<'_>) -> usize {
        Self::bytes_needed(spec, row.row, row.key)
    }
}

impl Saved for RankedRows {
    fn rows(&self, spec: &RankSpec, now_ms: i64, row: &mut dyn FnMut(&[u8], u64, i64)) -> u64 {
        for (rank, kept) in (1..).zip(self.live(spec, now_ms)) {
            row(kept.row(), rank, kept.write_ms);
        }
        self.rank_end
    }

    fn begin(_: &RankSpec, row: &SavedRow<'_>) -> Self {
        let rank_end = u64::try_from(row.rank_end).expect("a rank end was checked");
        let rows = [RankedRow::new(row.row, row.key, row.write_ms)];
        Self {
            rank_end,
            rows: rows.into_iter().collect(),
        }
    }

    fn add(&mut self, spec: &RankSpec, row: &SavedRow<'_>) -> Result<(), &'static str> {
        if row.rank != self.rows.len() as i64 + 1 {
            return Err("its rank does not follow that of the row before");
        }
        if row.rank as u64 > self.rank_end {
            return Err("its rank is beyond the rank end of its partition");
        }
        if row.rank_end as u64 != self.rank_end {
            return Err("its rank end is not that of its partition");
        }
        let last = self.rows.last().expect("a value begins with a row");
        if spec.order.compare(row.key, last.sort_key()).is_lt() {
            return Err("it stands behind a row that it precedes");
        }
        self.rows
            .push(RankedRow::new(row.row, row.key, row.write_ms));
        Ok(())
    }

    fn growth_bytes(_: &RankSpec, row: &SavedRow<'_>) -> usize {
        RankedRow::bytes_needed(row.row, row.key) + 2 * size_of::<RankedRow>()
    }
}

/// The columns of a section.
struct Table {
    schema: SchemaRef,
    has_rank: bool,
    has_rank_end: bool,
}

impl Table {
    fn new(spec: &RankSpec) -> Self {
        let (has_rank, has_rank_end) = (!spec.is_top_1(), spec.rank_end_column.is_some());
        let mut fields: Vec<Field> = spec
            .schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        let mut add = |name: &str, nullable| {
            let mut name = name.to_owned();
            while fields.iter().any(|field| *field.name() == name) {
                name.insert(0, '_');
            }
            fields.push(Field::new(name, DataType::Int64, nullable));
        };
        if has_rank {
            add("rank", false);
        }
        if has_rank_end {
            add("rank_end", false);
        }
        add("accepted_at", true);
        Self {
            schema: Arc::new(Schema::new(fields)),
            has_rank,
            has_rank_end,
        }
    }

    /// The rank end of partitions where it is not a column.
    fn constant_rank_end(spec: &RankSpec) -> i64 {
        match spec.range.end() {
            crate::RankEnd::Constant(end) => i64::try_from(end.get()).unwrap_or(i64::MAX),
            crate::RankEnd::Column(_) => 0,
        }
    }
}

/// Rows that wait to be written as a record batch.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ranks: Vec<i64>,
    rank_ends: Vec<i64>,
    times_ms: Vec<i64>,
}

impl Pending {
    fn push(&mut self, row: &[u8], rank: u64, write_ms: i64) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
        self.ranks.push(saturated(rank));
        self.times_ms.push(write_ms);
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.ranks.clear();
        self.rank_ends.clear();
        self.times_ms.clear();
    }
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes a view as a canonical checkpoint.
pub(crate) fn write<V: Saved, W: SnapshotView<V>>(
    spec: &RankSpec,
    view: &mut W,
    now_ms: i64,
    group_count: GroupCount,
    groups: GroupRange,
    dir: &CheckpointDir,
    id: u64,
) -> Result<Manifest, RankError<W::Error>> {
    let table = Table::new(spec);
    let mut sections = SectionWriter::new(
        dir.begin(id)?,
        table.schema.clone(),
        group_count,
        groups,
        spec.fingerprint(),
    )?;
    let mut pending = Pending::default();
    let mut current = None;
    let mut failure = None;
    let scanned = view.scan(groups, &mut |group, _, value| {
        let mut visit = || {
            if current != Some(group) {
                write_pending(spec, &table, &mut pending, &mut sections)?;
                sections.begin(group)?;
                current = Some(group);
            }
            let rank_end = value.rows(spec, now_ms, &mut |row, rank, write_ms| {
                pending.push(row, rank, write_ms);
            });
            let rank_end = saturated(rank_end);
            pending.rank_ends.resize(pending.ends.len(), rank_end);
            if pending.is_full() {
                write_pending(spec, &table, &mut pending, &mut sections)?;
            }
            Ok(())
        };
        match visit() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    scanned.map_err(RankError::State)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    write_pending(spec, &table, &mut pending, &mut sections)?;
    Ok(sections.finish()?)
}

fn write_pending<E: std::error::Error + 'static>(
    spec: &RankSpec,
    table: &Table,
    pending: &mut Pending,
    sections: &mut SectionWriter<'_>,
) -> Result<(), RankError<E>> {
    let mut start = 0;
    let rows: Vec<&[u8]> = pending
        .ends
        .iter()
        .map(|&end| &pending.bytes[std::mem::replace(&mut start, end)..end])
        .collect();
    write_rows(spec, table, pending, &rows, 0, sections)?;
    pending.clear();
    Ok(())
}

/// Writes the rows from `first` on as a batch, or as two where a dictionary has no room for them all.
fn write_rows<E: std::error::Error + 'static>(
    spec: &RankSpec,
    table: &Table,
    pending: &Pending,
    rows: &[&[u8]],
    first: usize,
    sections: &mut SectionWriter<'_>,
) -> Result<(), RankError<E>> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut columns = match spec.layout.decode(rows) {
        Ok(columns) => columns,
        Err(_) if rows.len() > 1 => {
            let (front, back) = rows.split_at(rows.len() / 2);
            write_rows(spec, table, pending, front, first, sections)?;
            return write_rows(spec, table, pending, back, first + front.len(), sections);
        }
        Err(error) => return Err(error.into()),
    };
    let these = first..first + rows.len();
    let numbers = |all: &[i64]| {
        let numbers = all[these.clone()].iter().copied();
        Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef
    };
    if table.has_rank {
        columns.push(numbers(&pending.ranks));
    }
    if table.has_rank_end {
        columns.push(numbers(&pending.rank_ends));
    }
    let times_ms = pending.times_ms[these].iter();
    let times_ms = times_ms.map(|&time_ms| (time_ms != UNKNOWN).then_some(time_ms));
    columns.push(Arc::new(Int64Array::from_iter(times_ms)));
    let batch = RecordBatch::try_new(table.schema.clone(), columns).map_err(RankError::Output)?;
    sections.write(&batch)?;
    Ok(())
}

/// Fills an empty state with what canonical checkpoints hold of `groups`.
///
/// All of them are checked as a whole before the state is touched. What fails later than that leaves an
/// empty state.
pub(crate) fn restore<V: Saved, S>(
    spec: &RankSpec,
    state: &mut S,
    name: &str,
    group_count: GroupCount,
    parts: &[CheckpointRef],
    groups: GroupRange,
) -> Result<(), RankError<<S as KeyedState<V>>::Error>>
where
    S: KeyedState<V> + Snapshot<V, Error = <S as KeyedState<V>>::Error>,
{
    if !state.is_empty().map_err(RankError::State)? {
        let name = name.to_owned();
        return Err(RestoreError::NotEmpty { name }.into());
    }
    let table = Table::new(spec);
    let mut readers = Vec::with_capacity(parts.len());
    for part in parts {
        let reader = SectionReader::open(part, spec.fingerprint(), group_count)?;
        readers.push(reader);
    }
    let ranges: Vec<GroupRange> = readers
        .iter()
        .map(|reader| reader.manifest().groups)
        .collect();
    cover(&ranges, groups).map_err(RestoreError::from)?;
    for reader in &mut readers {
        reader.verify(groups)?;
    }
    let mut loader = Loader {
        spec,
        table: &table,
        group_count,
        keys: KeyBatch::default(),
        sort_keys: SortKeys::default(),
        rows: Rows::new(),
        slots: Vec::new(),
        key_row: Vec::new(),
    };
    for reader in &mut readers {
        if let Err(failure) = loader.load(state, reader, groups) {
            // The failure says more than that of an emptying that fails as well.
            if state.end_bundle().is_ok() {
                let _ = state.clear();
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// Puts rows of sections into a state, a record batch at a time.
struct Loader<'a> {
    spec: &'a RankSpec,
    table: &'a Table,
    group_count: GroupCount,
    keys: KeyBatch,
    sort_keys: SortKeys,
    rows: Rows,
    slots: Vec<Slot>,
    key_row: Vec<u8>,
}

impl Loader<'_> {
    fn load<V: Saved, S>(
        &mut self,
        state: &mut S,
        reader: &mut SectionReader,
        groups: GroupRange,
    ) -> Result<(), RankError<<S as KeyedState<V>>::Error>>
    where
        S: KeyedState<V>,
    {
        let sections = reader.manifest().sections.iter();
        let sections: Vec<KeyGroup> = sections
            .map(|section| section.group)
            .filter(|&group| groups.contains(group))
            .collect();
        for group in sections {
            let Some(batches) = reader.section(group, &self.table.schema)? else {
                continue;
            };
            let mut first_row = 0;
            for batch in batches {
                let batch = batch?;
                self.load_batch(state, group, first_row, &batch)?;
                first_row += batch.num_rows() as u64;
            }
        }
        Ok(())
    }

    fn load_batch<V: Saved, S: KeyedState<V>>(
        &mut self,
        state: &mut S,
        group: KeyGroup,
        first_row: u64,
        batch: &RecordBatch,
    ) -> Result<(), RankError<S::Error>> {
        let input = &batch.columns()[..self.spec.schema.fields().len()];
        for (field, column) in self.spec.schema.fields().iter().zip(input) {
            if !field.is_nullable() {
                check_no_nulls(field, column)?;
            }
        }
        let numbers = batch.columns()[input.len()..].iter();
        let mut numbers = numbers.map(|column| column.as_primitive::<Int64Type>());
        let mut next = || numbers.next().expect("the schema of a section was checked");
        let ranks = self.table.has_rank.then(&mut next);
        let rank_ends = self.table.has_rank_end.then(&mut next);
        let times_ms = next();

        self.rows.clear();
        self.spec
            .layout
            .encode_into(input, Select::All, &mut self.rows)?;
        self.spec
            .keys
            .encode(input, batch.num_rows(), &mut self.keys)?;
        self.spec.order.encode(input, &mut self.sort_keys);
        let constant_rank_end = Table::constant_rank_end(self.spec);
        let row = |row: usize| SavedRow {
            row: self.rows.get(row),
            key: self.sort_keys.get(row),
            rank: ranks.map_or(1, |ranks| ranks.value(row)),
            rank_end: rank_ends.map_or(constant_rank_end, |ends| ends.value(row)),
            write_ms: if times_ms.is_null(row) {
                UNKNOWN
            } else {
                self.spec.write_ms(times_ms.value(row))
            },
        };
        let refused = |row: usize, reason| RestoreError::Row {
            group,
            row: first_row + row as u64,
            reason,
        };
        for i in 0..batch.num_rows() {
            self.key_row.clear();
            self.keys.write_key_row(i, &mut self.key_row);
            if group_of(&self.key_row, self.group_count) != group {
                return Err(refused(i, "its key is of another group").into());
            }
        }
        state
            .resolve(&self.keys, &mut self.slots)
            .map_err(RankError::State)?;
        let growth = (0..batch.num_rows()).map(|i| V::growth_bytes(self.spec, &row(i)));
        state.claim(growth.sum()).map_err(RankError::State)?;
        for (i, &slot) in self.slots.iter().enumerate() {
            let row = row(i);
            if row.rank == 1 && state.get(slot).is_none() {
                if row.rank_end < 1 {
                    return Err(refused(i, "its rank end is below 1").into());
                }
                state.put(slot, V::begin(self.spec, &row));
                continue;
            }
            let Some(value) = state.get_mut(slot) else {
                return Err(refused(i, "it is not the first and has none before").into());
            };
            value
                .add(self.spec, &row)
                .map_err(|reason| refused(i, reason))?;
        }
        state.end_bundle().map_err(RankError::Write)
    }
}
