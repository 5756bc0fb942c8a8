//! The seam's contract, held by the store in RocksDB: with every way to keep values between bundles.

use keygroup::GroupCount;
use state_rocks::{RocksBackend, RocksOptions, WritePolicy};

fn contract_holds(options: &RocksOptions) {
    let groups = GroupCount::new(128).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut backends = 0;
    state_codec::contract::run(groups, |pool| {
        backends += 1;
        let dir = dir.path().join(backends.to_string());
        RocksBackend::new(dir, groups)
            .with_options(options.clone())
            .with_pool(pool)
    });
}

#[test]
fn the_contract_holds() {
    contract_holds(&RocksOptions::default());
}

#[test]
fn the_contract_holds_without_a_cache() {
    contract_holds(&RocksOptions {
        cache_bytes: 0,
        ..RocksOptions::default()
    });
}

#[test]
fn the_contract_holds_with_a_cache_for_a_few_values() {
    contract_holds(&RocksOptions {
        cache_bytes: 1000,
        ..RocksOptions::default()
    });
}

#[test]
fn the_contract_holds_with_values_that_wait() {
    contract_holds(&RocksOptions {
        write_policy: WritePolicy::Back {
            limit_bytes: 16 << 20,
        },
        ..RocksOptions::default()
    });
}

#[test]
fn the_contract_holds_with_few_values_that_wait_and_few_in_the_cache() {
    contract_holds(&RocksOptions {
        cache_bytes: 1500,
        write_policy: WritePolicy::Back { limit_bytes: 1500 },
        ..RocksOptions::default()
    });
}

#[test]
fn the_contract_holds_with_values_that_wait_and_no_cache() {
    contract_holds(&RocksOptions {
        cache_bytes: 0,
        write_policy: WritePolicy::Back { limit_bytes: 5000 },
        ..RocksOptions::default()
    });
}
