//! Streams of `(key, sort, payload)` rows as text, through a ranker, to changelogs as text.

#![allow(dead_code, unused_macros, reason = "each test file uses a part")]

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use keygroup::{GroupRange, KeyGroup};
use rank_top1::{Changelog, OrderBy, RankError, RankSpec, RankSpecBuilder, Ranker};
use state_codec::{SnapshotView, StateBackend, StoreError};
use state_mem::MemBackend;

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
        Field::new("p", DataType::Utf8, true),
    ]))
}

/// Ascending by `v` within `k`.
pub(crate) fn spec() -> RankSpecBuilder {
    RankSpec::builder(schema())
        .partition_by(["k"])
        .order_by([OrderBy::asc("v")])
}

/// `"a 7 first; b null second"` as a batch.
pub(crate) fn batch(rows: &str) -> RecordBatch {
    let rows: Vec<Vec<&str>> = rows
        .split(';')
        .map(|row| row.split_whitespace().collect())
        .filter(|row: &Vec<&str>| !row.is_empty())
        .collect();
    let text = |column: usize| {
        let values = rows
            .iter()
            .map(|row| (row[column] != "null").then_some(row[column]));
        Arc::new(StringArray::from_iter(values)) as ArrayRef
    };
    let sorts = rows.iter().map(|row| match row[1] {
        "null" => None,
        number => Some(
            number
                .parse::<i64>()
                .expect("the second word of a row is a number"),
        ),
    });
    let sorts = Arc::new(Int64Array::from_iter(sorts)) as ArrayRef;
    RecordBatch::try_new(schema(), vec![text(0), sorts, text(2)]).unwrap()
}

/// A changelog as text: `"+I a 7 first"` a line, the rank last where there is one.
pub(crate) fn text(changelog: Option<Changelog>) -> String {
    let Some(changelog) = changelog else {
        return String::new();
    };
    let batch = changelog.batch();
    let cell = |column: &ArrayRef, row: usize| match column.data_type() {
        _ if column.is_null(row) => "null".to_owned(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        _ => column.as_string::<i32>().value(row).to_owned(),
    };
    let line = |row: usize| {
        let cells = batch.columns().iter().map(|column| cell(column, row));
        [changelog.kinds()[row].to_string()]
            .into_iter()
            .chain(cells)
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..batch.num_rows())
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Pushes each of the batches and joins what comes back with what a flush brings.
pub(crate) fn run<B: StateBackend>(ranker: &mut Ranker<B>, batches: &[&str]) -> String {
    let mut changes = Vec::new();
    for rows in batches {
        changes.push(text(ranker.push(&batch(rows)).unwrap()));
    }
    changes.push(text(ranker.flush().unwrap()));
    changes.retain(|change| !change.is_empty());
    changes.join("\n")
}

/// The ranker that a specification is served by, or the general one.
pub(crate) fn open<B: StateBackend>(
    general: bool,
    spec: RankSpec,
    backend: &B,
    name: &str,
) -> Result<Ranker<B>, RankError<B::Error>> {
    if general {
        Ranker::open_general(spec, backend, name)
    } else {
        Ranker::open(spec, backend, name)
    }
}

/// The changelog of a specification over memory. Both rankers must give it, with the rows cut at
/// the `;;` and with each row alone.
pub(crate) fn changelog(spec: &RankSpecBuilder, rows: &str) -> String {
    let batches: Vec<&str> = rows.split(";;").collect();
    let open = |general: bool| {
        let spec = spec.clone().build().unwrap();
        open(general, spec, &MemBackend::default(), "test").unwrap()
    };
    let expected = run(&mut open(false), &batches);
    assert_eq!(
        run(&mut open(true), &batches),
        expected,
        "the general ranker"
    );
    let alone: Vec<&str> = rows.split(';').collect();
    assert_eq!(run(&mut open(false), &alone), expected, "each row alone");
    assert_eq!(
        run(&mut open(true), &alone),
        expected,
        "each row alone, the general ranker"
    );
    expected
}

/// A generator of everything else from one seed (splitmix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The methods of `KeyedState<V>` of a wrapper around `self.state`, but for `end_bundle`, which the
/// wrapper is there for.
macro_rules! forward_all_but_end_bundle {
    ($error:ty) => {
        type Error = $error;

        fn advance_clock(&mut self, now_ms: i64) {
            self.state.advance_clock(now_ms);
        }

        fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), $error> {
            self.state.resolve(keys, slots).map_err(<$error>::from)
        }

        fn get(&self, slot: Slot) -> Option<&V> {
            self.state.get(slot)
        }

        fn get_mut(&mut self, slot: Slot) -> Option<&mut V> {
            self.state.get_mut(slot)
        }

        fn put(&mut self, slot: Slot, value: V) {
            self.state.put(slot, value);
        }

        fn remove(&mut self, slot: Slot) -> Option<V> {
            self.state.remove(slot)
        }

        fn claim(&mut self, additional: usize) -> Result<(), $error> {
            self.state.claim(additional).map_err(<$error>::from)
        }

        fn abandon_bundle(&mut self) {
            self.state.abandon_bundle();
        }

        fn charged_bytes(&self) -> usize {
            self.state.charged_bytes()
        }

        fn metrics(&self) -> StoreMetrics {
            self.state.metrics()
        }
    };
}

/// The methods of `Snapshot<V>` of a wrapper around `self.state`, whose view is wrapped too.
macro_rules! forward_snapshot {
    ($error:ty, $state:ty) => {
        type Error = $error;
        type View = View<<$state as Snapshot<V>>::View, $error>;

        fn freeze(&mut self) -> Result<Self::View, $error> {
            let view = self.state.freeze().map_err(<$error>::from)?;
            Ok(View(view, PhantomData))
        }

        fn is_empty(&mut self) -> Result<bool, $error> {
            Snapshot::is_empty(&mut self.state).map_err(<$error>::from)
        }

        fn clear(&mut self) -> Result<(), $error> {
            self.state.clear().map_err(<$error>::from)
        }
    };
}

/// A view whose errors are a wrapper's.
pub(crate) struct View<W, E>(pub(crate) W, pub(crate) PhantomData<E>);

impl<V, W: SnapshotView<V>, E: StoreError + From<W::Error>> SnapshotView<V> for View<W, E> {
    type Error = E;

    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V) -> ControlFlow<()>,
    ) -> Result<(), E> {
        Ok(self.0.scan(groups, visit)?)
    }
}
