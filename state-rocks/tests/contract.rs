//! The seam's contract, held by the store in RocksDB.

use keygroup::GroupCount;
use state_rocks::RocksBackend;

#[test]
fn the_contract_holds() {
    let groups = GroupCount::new(128).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut backends = 0;
    state_codec::contract::run(groups, |pool| {
        backends += 1;
        let dir = dir.path().join(backends.to_string());
        RocksBackend::new(dir, groups).with_pool(pool)
    });
}
