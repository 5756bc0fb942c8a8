//! Decoding inverts encoding, over random types, nulls and slices; and takes any bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray,
    DictionaryArray, FixedSizeBinaryArray, LargeBinaryArray, LargeListArray, LargeStringArray,
    ListArray, MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray,
    StructArray, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, FieldRef, Fields, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt16Type,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use state_codec::{RowForm, RowLayout, Rows, Select};

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn decoding_inverts_encoding(
        types in vec(any_type(), 0..6),
        key in any::<bool>(),
        rows in 0usize..20,
        seed: u64,
    ) {
        let Some((layout, columns)) = batch(&types, key, rows, seed) else { return Ok(()) };
        let mut encoded = Rows::new();
        encode_all(&layout, &columns, rows, &mut encoded);
        prop_assert_eq!(encoded.len(), rows);
        let decoded = layout.decode(&encoded.iter().collect::<Vec<_>>()).unwrap();
        for ((decoded, column), field) in decoded.iter().zip(&columns).zip(layout.fields()) {
            prop_assert_eq!(decoded.data_type(), field.data_type());
            prop_assert_eq!(&plain(decoded), &plain(column));
        }

        let mut again = Rows::new();
        encode_all(&layout, &decoded, rows, &mut again);
        prop_assert!(again.iter().eq(encoded.iter()));
        if let Some(bytes) = layout.uniform_bytes() {
            prop_assert!(encoded.iter().all(|row| row.len() == bytes));
        }
    }

    #[test]
    fn rows_do_not_depend_on_how_they_are_selected(
        types in vec(any_type(), 1..6),
        key in any::<bool>(),
        rows in 1usize..20,
        picks in vec(any::<u32>(), 0..30),
        seed: u64,
    ) {
        let Some((layout, columns)) = batch(&types, key, rows, seed) else { return Ok(()) };
        let picks: Vec<u32> = picks.iter().map(|pick| pick % rows as u32).collect();
        let (mut all, mut selected, mut compacted) = (Rows::new(), Rows::new(), Rows::new());
        encode_all(&layout, &columns, rows, &mut all);
        layout.encode_into(&columns, Select::Indices(&picks), &mut selected).unwrap();
        prop_assert!(selected.iter().eq(picks.iter().map(|&pick| all.get(pick as usize))));

        let picks = UInt32Array::from(picks);
        let taken: Vec<_> = columns.iter().map(|column| take(column, &picks, None).unwrap()).collect();
        layout.encode_into(&taken, Select::All, &mut compacted).unwrap();
        prop_assert!(compacted.iter().eq(selected.iter()));
    }

    #[test]
    fn damaged_rows_are_an_error_or_other_values(
        types in vec(any_type(), 0..5),
        key in any::<bool>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        seed: u64,
    ) {
        let Some((layout, columns)) = batch(&types, key, 3, seed) else { return Ok(()) };
        let mut encoded = Rows::new();
        encode_all(&layout, &columns, 3, &mut encoded);
        let mut damaged = encoded.get(1).to_vec();
        for (at, byte) in damage {
            let at = at.index(damaged.len());
            // Small numbers make offsets and lengths that are nearly right.
            damaged[at] = if byte < 128 { byte % 48 } else { damaged[at] ^ byte };
        }
        damaged.truncate(cut.map_or(damaged.len(), |cut| cut.index(damaged.len() + 1)));
        for field in 0..types.len() {
            let null = layout.is_null(&damaged, field);
            let value = layout.read(&damaged, field);
            prop_assert!(null.is_ok() || value.is_err());
        }
        if let Ok(columns) = layout.decode(&[encoded.get(0), &damaged]) {
            prop_assert!(columns.iter().all(|column| column.len() == 2));
            let bytes: usize = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
            let (given, columns) = (encoded.get(0).len() + damaged.len(), columns.len());
            prop_assert!(bytes <= 16 * given + 2_000 * columns, "{bytes} bytes from {given}");
        }
    }
}

/// A layout of fields with these types and columns of `rows` rows for it, the slices of longer
/// arrays; nothing if the types cannot be those of a key.
fn batch(
    types: &[DataType],
    key: bool,
    rows: usize,
    seed: u64,
) -> Option<(RowLayout, Vec<ArrayRef>)> {
    let mut random = Random(seed);
    let fields: Vec<FieldRef> = types
        .iter()
        .enumerate()
        .map(|(i, data_type)| {
            let nullable = random.below(4) > 0 || may_be_all_null(data_type);
            Arc::new(Field::new(format!("c{i}"), data_type.clone(), nullable))
        })
        .collect();
    let form = if key { RowForm::Key } else { RowForm::Payload };
    let layout = RowLayout::new(&fields, form).ok().or_else(|| {
        assert!(key && types.iter().any(DataType::is_nested), "{types:?}");
        None
    })?;
    let columns = fields.iter().map(|field| {
        let (before, after) = (random.below(10), random.below(3));
        random
            .array(
                field.data_type(),
                field.is_nullable(),
                before + rows + after,
            )
            .slice(before, rows)
    });
    let columns = columns.collect();
    Some((layout, columns))
}

fn encode_all(layout: &RowLayout, columns: &[ArrayRef], rows: usize, out: &mut Rows) {
    let indices: Vec<u32> = (0..rows as u32).collect();
    let select = if columns.is_empty() {
        Select::Indices(&indices)
    } else {
        Select::All
    };
    layout.encode_into(columns, select, out).unwrap();
}

fn any_type() -> impl Strategy<Value = DataType> {
    let zone = || Some("Europe/Paris".into());
    let flat = vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Second, zone()),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, zone()),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, zone()),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, zone()),
        DataType::Decimal128(9, 2),
        DataType::Decimal128(18, 0),
        DataType::Decimal128(19, 3),
        DataType::Decimal128(38, 10),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        DataType::FixedSizeBinary(9),
        DataType::Null,
    ];
    let dictionary = (
        select(vec![DataType::Int8, DataType::Int32, DataType::UInt16]),
        select(flat.clone()),
    )
        .prop_map(|(key, value)| DataType::Dictionary(Box::new(key), Box::new(value)));
    let leaf = prop_oneof![4 => select(flat), 1 => dictionary];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let field = |name| {
            move |(data_type, nullable): (DataType, bool)| {
                let nullable = nullable || may_be_all_null(&data_type);
                Arc::new(Field::new(name, data_type, nullable))
            }
        };
        let part = || (inner.clone(), any::<bool>());
        let map = (inner.clone(), inner.clone()).prop_filter_map(
            "a key is not NULL",
            move |(key, value)| {
                let fields = Fields::from(vec![
                    Field::new("key", key.clone(), false),
                    Field::new("value", value, true),
                ]);
                let entries = Field::new("entries", DataType::Struct(fields), false);
                (!may_be_all_null(&key)).then(|| DataType::Map(Arc::new(entries), false))
            },
        );
        prop_oneof![
            part().prop_map(field("item")).prop_map(DataType::List),
            part().prop_map(field("item")).prop_map(DataType::LargeList),
            vec(part().prop_map(field("part")), 0..4)
                .prop_map(|parts| DataType::Struct(parts.into())),
            map,
        ]
    })
}

fn may_be_all_null(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_null(),
        data_type => data_type.is_null(),
    }
}

/// The array with the values of dictionaries in their places.
fn plain(array: &ArrayRef) -> ArrayRef {
    fn plain_field(field: &FieldRef) -> FieldRef {
        Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(plain_type(field.data_type())),
        )
    }
    fn plain_type(data_type: &DataType) -> DataType {
        match data_type {
            DataType::Dictionary(_, value) => value.as_ref().clone(),
            DataType::List(item) => DataType::List(plain_field(item)),
            DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
            DataType::Struct(parts) => DataType::Struct(parts.iter().map(plain_field).collect()),
            DataType::Map(entries, ordered) => DataType::Map(plain_field(entries), *ordered),
            data_type => data_type.clone(),
        }
    }
    cast(array, &plain_type(array.data_type())).unwrap()
}

/// A source of arrays (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> usize {
        (self.next() % bound) as usize
    }

    /// Any number, often a small one or an extreme.
    fn number(&mut self) -> i64 {
        match self.below(6) {
            0 => [i64::MIN, i64::MAX, 0, -1, i64::MIN + 1][self.below(5)],
            1 | 2 => self.next() as i64 % 3,
            n => self.next() as i64 >> (n * 8),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = [0, 1, 3, 7, 8, 9, 12, 13, 16, 40][self.below(10)];
        let letters = [b'a', b'b', 0, b'z'];
        (0..length)
            .map(|i| if i < 6 { b'a' } else { letters[self.below(4)] })
            .collect()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes()).unwrap().replace('z', "é")
    }

    fn nulls(&mut self, nullable: bool, rows: usize) -> Option<NullBuffer> {
        (nullable && self.below(4) > 0).then(|| (0..rows).map(|_| self.below(3) > 0).collect())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        nullable: bool,
        rows: usize,
        value: impl Fn(&mut Self) -> T::Native,
    ) -> ArrayRef {
        let values: Vec<T::Native> = (0..rows).map(|_| value(self)).collect();
        let array = PrimitiveArray::<T>::new(values.into(), self.nulls(nullable, rows));
        Arc::new(array.with_data_type(data_type.clone()))
    }

    fn offsets<O: OffsetSizeTrait>(&mut self, rows: usize) -> OffsetBuffer<O> {
        OffsetBuffer::from_lengths((0..rows).map(|_| self.below(4)))
    }

    /// An array with values, of any kind, below its NULLs.
    fn array(&mut self, data_type: &DataType, nullable: bool, rows: usize) -> ArrayRef {
        macro_rules! primitive {
            ($type:ty, $value:expr) => {
                self.primitive::<$type>(data_type, nullable, rows, $value)
            };
        }
        macro_rules! bytes {
            ($array:ty, $value:expr) => {{
                let values = (0..rows).map(|_| $value(self)).collect::<Vec<_>>();
                let (offsets, values, _) = <$array>::from_iter_values(values).into_parts();
                Arc::new(<$array>::new(offsets, values, self.nulls(nullable, rows)))
            }};
        }
        macro_rules! views {
            ($array:ty, $value:expr) => {{
                let values = (0..rows).map(|_| $value(self)).collect::<Vec<_>>();
                let (views, buffers, _) = <$array>::from_iter_values(values).into_parts();
                Arc::new(<$array>::new(views, buffers, self.nulls(nullable, rows)))
            }};
        }
        match data_type {
            DataType::Null => Arc::new(NullArray::new(rows)),
            DataType::Boolean => {
                let values = (0..rows).map(|_| self.below(2) == 0).collect();
                Arc::new(BooleanArray::new(values, self.nulls(nullable, rows)))
            }
            DataType::Int8 => primitive!(Int8Type, |random| random.number() as i8),
            DataType::Int16 => primitive!(Int16Type, |random| random.number() as i16),
            DataType::Int32 => primitive!(Int32Type, |random| random.number() as i32),
            DataType::Int64 => primitive!(Int64Type, Self::number),
            DataType::Float32 => {
                primitive!(Float32Type, |random| f32::from_bits(random.number() as u32))
            }
            DataType::Float64 => {
                primitive!(Float64Type, |random| f64::from_bits(random.number() as u64))
            }
            DataType::Date32 => primitive!(Date32Type, |random| random.number() as i32),
            DataType::Time32(_) => {
                primitive!(Time32MillisecondType, |random| random.number() as i32)
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                primitive!(TimestampSecondType, |random| random.number() / 1000)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                primitive!(TimestampMillisecondType, Self::number)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                primitive!(TimestampMicrosecondType, Self::number)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                primitive!(TimestampNanosecondType, Self::number)
            }
            DataType::Decimal128(precision, _) if *precision <= 18 => {
                primitive!(Decimal128Type, |random| random.number().into())
            }
            DataType::Decimal128(..) => primitive!(Decimal128Type, |random| {
                i128::from(random.number()) << (random.below(9) * 8)
            }),
            DataType::Utf8 => bytes!(StringArray, Self::text),
            DataType::LargeUtf8 => bytes!(LargeStringArray, Self::text),
            DataType::Utf8View => views!(StringViewArray, Self::text),
            DataType::Binary => bytes!(BinaryArray, Self::bytes),
            DataType::LargeBinary => bytes!(LargeBinaryArray, Self::bytes),
            DataType::BinaryView => views!(BinaryViewArray, Self::bytes),
            DataType::FixedSizeBinary(width) => {
                let values = (0..rows * *width as usize)
                    .map(|_| self.below(3) as u8)
                    .collect();
                let nulls = self.nulls(nullable, rows);
                Arc::new(FixedSizeBinaryArray::new(
                    *width,
                    Buffer::from_vec::<u8>(values),
                    nulls,
                ))
            }
            DataType::Dictionary(key, value) => {
                let size = 1 + self.below(5);
                let values = self.array(value, nullable, size);
                let nulls = self.nulls(nullable, rows);
                let keys = (0..rows)
                    .map(|_| self.below(size as u64))
                    .collect::<Vec<_>>();
                macro_rules! dictionary {
                    ($type:ty, $native:ty) => {{
                        let keys = keys.iter().map(|&key| key as $native).collect::<Vec<_>>();
                        let keys = PrimitiveArray::<$type>::new(keys.into(), nulls);
                        Arc::new(DictionaryArray::new(keys, values))
                    }};
                }
                match key.as_ref() {
                    DataType::Int8 => dictionary!(Int8Type, i8),
                    DataType::Int32 => dictionary!(Int32Type, i32),
                    _ => dictionary!(UInt16Type, u16),
                }
            }
            DataType::List(item) => {
                let offsets = self.offsets::<i32>(rows);
                let length = offsets[rows] as usize;
                let values = self.array(item.data_type(), item.is_nullable(), length);
                let nulls = self.nulls(nullable, rows);
                Arc::new(ListArray::new(Arc::clone(item), offsets, values, nulls))
            }
            DataType::LargeList(item) => {
                let offsets = self.offsets::<i64>(rows);
                let length = offsets[rows] as usize;
                let values = self.array(item.data_type(), item.is_nullable(), length);
                let nulls = self.nulls(nullable, rows);
                Arc::new(LargeListArray::new(
                    Arc::clone(item),
                    offsets,
                    values,
                    nulls,
                ))
            }
            DataType::Struct(parts) => {
                let part = |part: &FieldRef| self.array(part.data_type(), part.is_nullable(), rows);
                let columns = parts.iter().map(part).collect();
                let nulls = self.nulls(nullable, rows);
                Arc::new(
                    StructArray::try_new_with_length(parts.clone(), columns, nulls, rows).unwrap(),
                )
            }
            DataType::Map(entries, ordered) => {
                let offsets = self.offsets::<i32>(rows);
                let pairs = self.array(entries.data_type(), false, offsets[rows] as usize);
                let pairs = pairs
                    .as_any()
                    .downcast_ref::<StructArray>()
                    .unwrap()
                    .clone();
                let nulls = self.nulls(nullable, rows);
                Arc::new(MapArray::new(
                    Arc::clone(entries),
                    offsets,
                    pairs,
                    nulls,
                    *ordered,
                ))
            }
            data_type => unreachable!("{data_type} is not among the types"),
        }
    }
}
