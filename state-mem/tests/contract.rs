//! The seam's contract, held by the store in memory.

use keygroup::GroupCount;
use state_mem::MemBackend;

#[test]
fn the_contract_holds() {
    let groups = GroupCount::new(128).unwrap();
    state_codec::contract::run(groups, |pool| MemBackend::new(groups).with_pool(pool));
}
