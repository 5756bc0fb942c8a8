//! The bytes of a database.

mod support;

use std::fmt::Write;

use state_codec::KeyedState;
use support::{open, resolve};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[test]
fn a_database_is_its_entries_by_group_and_a_record_of_the_layout() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    let slots = resolve(&mut state, [42, 1, 2]).unwrap();
    for (slot, value) in slots.into_iter().zip(["forty-two", "one", ""]) {
        state.put(slot, value.into());
    }
    state.end_bundle().unwrap();
    drop(state);

    let options = rocksdb::Options::default();
    let db = rocksdb::DB::open_for_read_only(&options, dir.path().join("store"), false).unwrap();
    let entries: Vec<String> = db
        .iterator(rocksdb::IteratorMode::Start)
        .map(|entry| entry.unwrap())
        .map(|(key, value)| format!("{} {}", hex(&key), hex(&value)))
        .collect();
    assert_eq!(
        entries,
        [
            "004500000000000000002a00000000000000 666f7274792d74776f",
            "005d00000000000000000200000000000000 ",
            "005e00000000000000000100000000000000 6f6e65",
            "ffff57454952 57454952010080",
        ]
    );
}
