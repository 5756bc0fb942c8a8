//! The memory pool: what is granted, what is denied and how, and that no byte is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use state_codec::{Holder, MemoryDenied, MemoryPool, Reservation};

/// A pool of `limit` bytes and one reservation per `(name, bytes)`.
fn pool(limit: usize, held: &[(&str, usize)]) -> (MemoryPool, Vec<Reservation>) {
    let pool = MemoryPool::new(limit);
    let reservations = held
        .iter()
        .map(|&(name, bytes)| {
            let mut reservation = pool.reserve(name);
            reservation
                .try_resize(bytes)
                .expect("the test stays within its limit");
            reservation
        })
        .collect();
    (pool, reservations)
}

fn holders(pool: &MemoryPool) -> Vec<(String, usize)> {
    pool.holders()
        .into_iter()
        .map(|Holder { name, bytes }| (name.to_string(), bytes))
        .collect()
}

#[test]
fn a_reservation_starts_empty_and_is_listed() {
    let pool = MemoryPool::new(10);
    let reservation = pool.reserve("winners");
    assert_eq!(
        (reservation.name(), reservation.bytes(), pool.used_bytes()),
        ("winners", 0, 0)
    );
    assert_eq!(holders(&pool), [("winners".to_owned(), 0)]);
    assert_eq!(reservation.pool().limit_bytes(), 10);
}

#[test]
fn exactly_the_limit_is_granted_and_one_byte_more_is_not() {
    let (pool, mut held) = pool(1_000, &[("a", 400), ("b", 0)]);
    held[1].try_grow(600).expect("it fits");
    assert_eq!(pool.used_bytes(), 1_000);
    assert_eq!(held[0].try_grow(1).unwrap_err().requested_bytes(), 1);
    assert_eq!(held[0].try_resize(401).unwrap_err().requested_bytes(), 1);
    held[0].try_grow(0).expect("nothing was asked for");
}

#[test]
fn a_denial_says_who_asked_for_what_and_who_holds_the_most() {
    let (_pool, mut held) = pool(
        1_000,
        &[
            ("winners", 100),
            ("cache", 500),
            ("batch", 250),
            ("idle", 0),
            ("index", 50),
        ],
    );
    let denied = held[0].try_resize(612).unwrap_err();
    insta::assert_snapshot!(
        denied,
        @r#""winners" asked for 512 bytes more, but 900 of 1000 are held; largest: "cache" 500, "batch" 250, "winners" 100"#
    );
    assert_eq!(denied.holder(), "winners");
    assert_eq!(
        (
            denied.requested_bytes(),
            denied.held_bytes(),
            denied.used_bytes(),
            denied.limit_bytes()
        ),
        (512, 100, 900, 1_000)
    );
    let largest: Vec<(&str, usize)> = denied
        .largest()
        .iter()
        .map(|h| (&*h.name, h.bytes))
        .collect();
    assert_eq!(largest, [("cache", 500), ("batch", 250), ("winners", 100)]);
}

#[test]
fn a_denial_by_an_empty_pool_names_no_holder() {
    let (_pool, mut held) = pool(0, &[("a \"quoted\" name", 0)]);
    insta::assert_snapshot!(
        held[0].try_grow(1).unwrap_err(),
        @r#""a \"quoted\" name" asked for 1 bytes more, but 0 of 0 are held"#
    );
}

#[test]
fn a_denial_changes_nothing() {
    let (pool, mut held) = pool(1_000, &[("a", 900), ("b", 50)]);
    let before = pool.holders();
    assert!(held[1].try_grow(51).is_err());
    assert!(held[1].try_resize(usize::MAX).is_err());
    assert_eq!(
        (held[1].bytes(), pool.used_bytes(), pool.holders()),
        (50, 950, before)
    );
    held[1].try_grow(50).expect("the rest is still there");
}

#[test]
fn dropping_and_shrinking_give_back() {
    let (pool, mut held) = pool(1_000, &[("a", 600), ("b", 400)]);
    held[0].try_resize(100).expect("shrinking never fails");
    assert_eq!(pool.used_bytes(), 500);
    drop(held.remove(1));
    assert_eq!(
        (pool.used_bytes(), holders(&pool)),
        (100, vec![("a".to_owned(), 100)])
    );
    drop(held);
    assert_eq!((pool.used_bytes(), holders(&pool)), (0, vec![]));
}

#[test]
fn equal_holders_keep_the_order_in_which_they_reserved() {
    let (pool, _held) = pool(1_000, &[("x", 10), ("b", 20), ("a", 10), ("x", 10)]);
    let names: Vec<String> = holders(&pool).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "x", "a", "x"]);
}

#[test]
fn growth_beyond_what_can_be_counted_is_denied_even_without_a_limit() {
    let pool = MemoryPool::unlimited();
    let (mut a, mut b) = (pool.reserve("a"), pool.reserve("b"));
    a.try_grow(usize::MAX - 1).expect("unlimited");
    assert!(a.try_grow(2).is_err());
    assert!(b.try_resize(usize::MAX).is_err());
    b.try_grow(1).expect("the last byte");
    assert_eq!(
        (pool.used_bytes(), pool.limit_bytes()),
        (usize::MAX, usize::MAX)
    );
}

#[test]
fn clones_are_one_budget() {
    let pool = MemoryPool::new(100);
    let mut a = pool.clone().reserve("a");
    a.try_grow(60).expect("it fits");
    assert!(pool.reserve("b").try_grow(41).is_err());
}

#[test]
fn pools_and_reservations_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<MemoryPool>();
    crosses::<Reservation>();
    crosses::<MemoryDenied>();
}

#[test]
fn no_byte_is_lost_or_made_by_many_threads() {
    const THREADS: usize = 8;
    const STEPS: usize = 2_000;
    let pool = MemoryPool::new(10_000);
    let (granted, denied) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (pool, granted, denied) = (pool.clone(), granted.clone(), denied.clone());
            std::thread::spawn(move || {
                let mut reservation = pool.reserve(&format!("worker {thread}"));
                let mut state = thread as u64 + 1;
                for _ in 0..STEPS {
                    // A linear congruential generator is random enough, and the same in every run.
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let wanted = (state >> 33) as usize % 4_000;
                    let held = reservation.bytes();
                    match reservation.try_resize(wanted) {
                        Ok(()) => granted.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert!(wanted > held);
                            assert!(error.used_bytes() + error.requested_bytes() > 10_000);
                            assert_eq!(reservation.bytes(), held);
                            denied.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                    assert!(pool.used_bytes() <= 10_000);
                }
                reservation
            })
        })
        .collect();
    let held: Vec<Reservation> = workers
        .into_iter()
        .map(|worker| worker.join().expect("no worker panics"))
        .collect();
    let sum: usize = held.iter().map(Reservation::bytes).sum();
    assert_eq!(pool.used_bytes(), sum);
    assert_eq!(
        pool.holders()
            .iter()
            .map(|holder| holder.bytes)
            .sum::<usize>(),
        sum
    );
    assert_eq!(
        granted.load(Ordering::Relaxed) + denied.load(Ordering::Relaxed),
        THREADS * STEPS
    );
    drop(held);
    assert_eq!(pool.used_bytes(), 0);
}

proptest! {
    #[test]
    fn the_pool_agrees_with_a_plain_sum(
        limit in 0_usize..200,
        steps in prop::collection::vec((0_usize..4, 0_usize..3, 0_usize..120), 0..60),
    ) {
        let pool = MemoryPool::new(limit);
        let mut held: Vec<Reservation> = ["a", "b", "c", "d"].iter().map(|n| pool.reserve(n)).collect();
        let mut model = [0_usize; 4];
        for (who, what, bytes) in steps {
            let wanted = match what {
                0 => bytes,
                1 => model[who] + bytes,
                _ => {
                    held[who] = pool.reserve("again");
                    model[who] = 0;
                    continue;
                }
            };
            let others: usize = model.iter().sum::<usize>() - model[who];
            let fits = wanted <= model[who] || others + wanted <= limit;
            let result =
                if what == 0 { held[who].try_resize(bytes) } else { held[who].try_grow(bytes) };
            prop_assert_eq!(result.is_ok(), fits);
            if fits {
                model[who] = wanted;
            }
            prop_assert_eq!(pool.used_bytes(), model.iter().sum::<usize>());
            for (reservation, bytes) in held.iter().zip(model) {
                prop_assert_eq!(reservation.bytes(), bytes);
            }
        }
    }
}
