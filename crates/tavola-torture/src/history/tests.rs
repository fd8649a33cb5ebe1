//! Histories whose result is known. A checker that is wrong about these proves nothing about a
//! server.

use super::check::{SearchResult, check, check_within};
use super::model::{State, Versions, step};
use super::record::{
    Answer, Ask, Call, Condition, Content, DomainError, Entity, Moment, NEVER, Page, Place, Record,
    Scan, Verb, Write,
};
use super::{report, scans};

const ROWS: u8 = 3;

fn content(last: u32, a: u32, b: u32) -> Content {
    Content([last, a, b, 0, 0])
}

/// What write `number` leaves if it replaces all. In these tests the version of a write is ten
/// times its number.
fn entity(number: u32) -> Entity {
    Entity { content: content(number, number, 0), version: u64::from(number) * 10 }
}

fn call(time: (Moment, Moment), ask: Ask, answer: Answer) -> Call {
    Call { client: 0, partition: 0, ask, answer, invoked: time.0, returned: time.1 }
}

fn get(time: (Moment, Moment), row: u8, found: Option<Entity>) -> Call {
    call(time, Ask::Get(row), Answer::Found(found))
}

/// Insert-or-replace.
fn put(row: u8, number: u32) -> Write {
    Write {
        row,
        verb: Verb::Replace,
        condition: Condition::None,
        content: content(number, number, 0),
    }
}

fn delete(row: u8) -> Write {
    Write { row, verb: Verb::Delete, condition: Condition::Exists, content: Content::default() }
}

fn done(time: (Moment, Moment), writes: &[Write]) -> Call {
    // A batch has the version of its highest number.
    let version = writes.iter().map(|write| entity(write.content.last()).version).max();
    let versions =
        writes.iter().map(|write| version.filter(|_| write.verb != Verb::Delete)).collect();
    call(time, Ask::Write(writes.to_vec()), Answer::Written(versions))
}

fn refused(
    time: (Moment, Moment),
    writes: &[Write],
    index: usize,
    domain_error: DomainError,
) -> Call {
    call(time, Ask::Write(writes.to_vec()), Answer::Refused(index, domain_error))
}

fn unanswered(time: (Moment, Moment), writes: &[Write]) -> Call {
    call(time, Ask::Write(writes.to_vec()), Answer::Unknown)
}

fn evaluate(calls: &[Call]) -> &'static str {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.invoked);
    match Versions::collect(&calls) {
        Err(_) => "contradiction",
        Ok(versions) => match check(&calls, &versions, ROWS) {
            SearchResult::Linearizable => "explained",
            SearchResult::Undecided => "undecided",
            SearchResult::Impossible(_) => "impossible",
        },
    }
}

fn check_result(name: &str, calls: &[Call], expected: &str) {
    assert_eq!(evaluate(calls), expected, "{name}");
}

#[test]
fn reads_and_writes() {
    let write = done((10, 20), &[put(0, 1)]);
    check_result("nothing at all", &[], "explained");
    check_result("read after it", &[write.clone(), get((21, 30), 0, Some(entity(1)))], "explained");
    check_result("stale read", &[write.clone(), get((21, 30), 0, None)], "impossible");
    check_result(
        "read from the future",
        &[get((1, 9), 0, Some(entity(1))), write.clone()],
        "impossible",
    );
    check_result("old while under way", &[write.clone(), get((11, 19), 0, None)], "explained");
    check_result(
        "new while under way",
        &[write.clone(), get((11, 12), 0, Some(entity(1)))],
        "explained",
    );
    let there_and_back = [write, get((11, 12), 0, Some(entity(1))), get((13, 14), 0, None)];
    check_result("a value that vanishes again", &there_and_back, "impossible");
}

#[test]
fn versions_order_writes() {
    let second_first = [done((10, 20), &[put(0, 2)]), done((21, 30), &[put(1, 1)])];
    check_result("a version below an earlier one", &second_first, "impossible");
    let together = [done((10, 20), &[put(0, 2)]), done((11, 19), &[put(1, 1)])];
    check_result("in either order while under way", &together, "explained");

    let other_version = Entity { version: 77, ..entity(1) };
    check_result(
        "a version that changes",
        &[done((1, 2), &[put(0, 1)]), get((3, 4), 0, Some(other_version))],
        "contradiction",
    );
    let same_version = Entity { version: 10, ..entity(2) };
    check_result(
        "a version of two commits",
        &[
            done((1, 2), &[put(0, 1)]),
            unanswered((1, 9), &[put(0, 2)]),
            get((3, 4), 0, Some(same_version)),
        ],
        "contradiction",
    );
    check_result("what nobody wrote", &[get((3, 4), 0, Some(entity(1)))], "contradiction");
    let halves = call(
        (1, 2),
        Ask::Write(vec![put(0, 1), put(1, 2)]),
        Answer::Written(vec![Some(10), Some(20)]),
    );
    check_result("a batch with two versions", &[halves], "contradiction");
}

#[test]
fn conditions() {
    let replace =
        |number, version| Write { condition: Condition::Version(version), ..put(0, number) };
    let first = done((1, 2), &[put(0, 1)]);
    let winner = done((10, 20), &[replace(2, 10)]);
    let loser = |row: DomainError| refused((11, 21), &[replace(3, 10)], 0, row);
    check_result(
        "one winner",
        &[first.clone(), winner.clone(), loser(DomainError::Changed)],
        "explained",
    );
    check_result(
        "refused for another reason",
        &[first.clone(), winner.clone(), loser(DomainError::Missing)],
        "impossible",
    );
    let winners = [first.clone(), winner.clone(), done((11, 21), &[replace(3, 10)])];
    check_result("two winners with one ETag", &winners, "impossible");
    check_result(
        "refused though nothing changed",
        &[first.clone(), loser(DomainError::Changed)],
        "impossible",
    );
    let insert = Write { verb: Verb::Insert, ..put(0, 2) };
    check_result("insert on top", &[first.clone(), done((3, 4), &[insert])], "impossible");
    check_result(
        "insert refused",
        &[first.clone(), refused((3, 4), &[insert], 0, DomainError::Exists)],
        "explained",
    );
    check_result(
        "insert refused for nothing",
        &[refused((3, 4), &[insert], 0, DomainError::Exists)],
        "impossible",
    );
    check_result(
        "deleted twice",
        &[first, done((3, 9), &[delete(0)]), done((3, 9), &[delete(0)])],
        "impossible",
    );
}

#[test]
fn merges_keep_what_others_set() {
    let merge = |number, a, b| Write {
        verb: Verb::Merge,
        content: content(number, a, b),
        ..put(0, number)
    };
    let merges = [done((1, 9), &[merge(1, 1, 0)]), done((1, 9), &[merge(2, 0, 2)])];
    let saw = |a, b| get((10, 11), 0, Some(Entity { content: content(2, a, b), version: 20 }));
    check_result("both", &[&merges[..], &[saw(1, 2)]].concat(), "explained");
    check_result("one was lost", &[&merges[..], &[saw(0, 2)]].concat(), "impossible");
}

#[test]
fn batches_are_whole() {
    let batch = done((1, 9), &[put(0, 1), put(1, 2)]);
    let seen = |row, number| {
        get((2, 3), row, Some(Entity { content: content(number, number, 0), version: 20 }))
    };
    check_result("both rows", &[batch.clone(), seen(0, 1), seen(1, 2)], "explained");
    let torn = [batch.clone(), seen(0, 1), get((4, 5), 1, None)];
    check_result("one row, then not the other", &torn, "impossible");
    let page = |rows: Vec<(u8, Entity)>| call((2, 5), Ask::Page(0..ROWS), Answer::Rows(rows));
    let first = (0, Entity { version: 20, ..entity(1) });
    check_result("a page with one of them", &[batch.clone(), page(vec![first])], "impossible");
    check_result("a page with both", &[batch, page(vec![first, (1, entity(2))])], "explained");

    let failing = [put(0, 1), Write { condition: Condition::Exists, ..put(1, 2) }];
    let not_done = refused((1, 2), &failing, 1, DomainError::Missing);
    check_result("refused", &[not_done.clone(), get((3, 4), 0, None)], "explained");
    check_result(
        "refused and half done",
        &[not_done, get((3, 4), 0, Some(entity(1)))],
        "contradiction",
    );
    let wrong_index = refused((1, 2), &failing, 0, DomainError::Missing);
    check_result("the other operation blamed", &[wrong_index], "impossible");
}

#[test]
fn calls_without_answer() {
    let lost = unanswered((1, 50), &[put(0, 1)]);
    let there = |time| get(time, 0, Some(entity(1)));
    let not_there = |time| get(time, 0, None);
    check_result("never done", &[lost.clone(), not_there((60, 61))], "explained");
    check_result("done", &[lost.clone(), there((60, 61))], "explained");
    check_result(
        "done after a read",
        &[lost.clone(), not_there((2, 3)), there((60, 61))],
        "explained",
    );
    let too_late = [lost, not_there((51, 52)), there((60, 61))];
    check_result("done after its process was dead", &too_late, "impossible");
    let open = unanswered((1, NEVER), &[put(0, 1)]);
    check_result("still under way", &[open, not_there((51, 52)), there((60, 61))], "explained");
    // Nobody saw that write itself, but only it can have been in the way of the insert.
    let insert = Write { verb: Verb::Insert, ..put(0, 2) };
    let in_the_way =
        [unanswered((1, 50), &[put(0, 1)]), refused((60, 61), &[insert], 0, DomainError::Exists)];
    check_result("seen by its effect only", &in_the_way, "explained");
    check_result(
        "an unanswered delete",
        &[done((1, 2), &[put(0, 1)]), unanswered((3, 9), &[delete(0)]), not_there((10, 11))],
        "explained",
    );
}

#[test]
fn a_search_without_end_is_no_verdict() {
    let calls = [done((10, 20), &[put(0, 1)]), get((21, 30), 0, None)];
    let versions = Versions::collect(&calls).unwrap();
    assert!(matches!(check_within(&calls, &versions, ROWS, 1), SearchResult::Undecided));
}

#[test]
fn a_report_ends_where_it_became_impossible() {
    let calls = [
        done((1, 2), &[put(0, 1)]),
        done((3, 4), &[put(0, 2)]),
        get((5, 6), 0, Some(entity(1))),
        done((7, 8), &[put(1, 3)]),
        get((9, 10), 1, Some(entity(3))),
    ];
    let SearchResult::Impossible(stuck) = check(&calls, &Versions::collect(&calls).unwrap(), ROWS)
    else {
        panic!()
    };
    let text = report::report(0, &calls, *stuck, ROWS);
    let stale = "get r00 -> {Last 1, A 1} v0000000010";
    assert!(text.contains(&format!("{stale}\n    r00 is not what it saw")), "{text}");
    assert!(!text.contains("r01 {"), "what came later does not matter: {text}");
}

/// Every order of every choice of calls that must or may have happened.
fn can_be_explained(
    calls: &[Call],
    versions: &Versions,
    state: &State,
    left: &[usize],
    last: Option<u64>,
) -> bool {
    let certain = |call: &Call| call.answer != Answer::Unknown || versions.of_call(call).is_some();
    if !left.iter().any(|&call| certain(&calls[call])) {
        return true;
    }
    left.iter().any(|&next| {
        let others: Vec<usize> = left.iter().copied().filter(|&call| call != next).collect();
        let version = versions.of_call(&calls[next]);
        // Whatever had to come before and is left out now stays out.
        let preceding = |&call: &usize| calls[call].returned < calls[next].invoked;
        let in_time =
            !others.iter().filter(|call| preceding(call)).any(|&call| certain(&calls[call]));
        let others: Vec<usize> = others.into_iter().filter(|call| !preceding(call)).collect();
        let grows = version.is_none_or(|version| last.is_none_or(|last| version > last));
        in_time
            && grows
            && step(state, &calls[next], versions).is_ok_and(|after| {
                let after = after.unwrap_or_else(|| state.clone());
                can_be_explained(calls, versions, &after, &others, version.or(last))
            })
    })
}

/// A few calls with random answers: some can be explained, most cannot.
fn small_history(rng: &mut fastrand::Rng) -> Vec<Call> {
    let mut calls: Vec<Call> = (1..=6u32).map(|number| small_call(rng, number)).collect();
    calls.sort_by_key(|call| call.invoked);
    calls
}

fn small_call(rng: &mut fastrand::Rng, number: u32) -> Call {
    let invoked = rng.u64(..30);
    let time = (invoked, invoked + rng.u64(1..20));
    let row = rng.u8(..2);
    let some_entity = |rng: &mut fastrand::Rng| rng.bool().then(|| entity(rng.u32(1..=6)));
    match rng.u8(..8) {
        0 | 1 => get(time, row, some_entity(rng)),
        2 => {
            let rows = (0..2).filter_map(|row| Some((row, some_entity(rng)?))).collect();
            call(time, Ask::Page(0..2), Answer::Rows(rows))
        }
        3 | 4 => done(time, &[put(row, number)]),
        5 => done(time, &[delete(row)]),
        6 => unanswered(time, &[if rng.bool() { put(row, number) } else { delete(row) }]),
        _ => refused(
            time,
            &[Write { verb: Verb::Insert, ..put(row, number) }],
            0,
            DomainError::Exists,
        ),
    }
}

#[test]
fn agrees_with_trying_everything() {
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut explained, mut impossible) = (0, 0);
    for _ in 0..60_000 {
        let calls = small_history(&mut rng);
        let Ok(versions) = Versions::collect(&calls) else { continue };
        let all: Vec<usize> = (0..calls.len()).collect();
        let expected = can_be_explained(&calls, &versions, &State::empty(ROWS), &all, None);
        let found = matches!(check(&calls, &versions, ROWS), SearchResult::Linearizable);
        let lines = || calls.iter().map(Call::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(found, expected, "{}", lines());
        *if expected { &mut explained } else { &mut impossible } += 1;
    }
    assert!(explained > 500 && impossible > 500, "{explained} explained, {impossible} not");
}

fn scan_of(pages: Vec<Page>) -> Scan {
    Scan { client: 9, top: 3, pages }
}

fn page(time: (Moment, Moment), covers: (u8, u8), rows: &[(u8, Entity)]) -> Page {
    let place = |row| -> Place { if row == ROWS { (1, 0) } else { (0, row) } };
    let entities = rows.iter().map(|(row, entity)| ((0, *row), *entity)).collect();
    Page { invoked: time.0, returned: time.1, covers: place(covers.0)..place(covers.1), entities }
}

/// What is said about a scan after these calls.
fn scan_verdict(calls: &[Call], pages: &[Page]) -> String {
    let record = Record {
        partitions: 1,
        rows: ROWS,
        kills: 0,
        calls: calls.to_vec(),
        scans: vec![scan_of(pages.to_vec())],
    };
    scans::check(&record).err().unwrap_or_default()
}

fn check_scan(calls: &[Call], pages: &[Page], problem: &str) {
    let said = scan_verdict(calls, pages);
    assert!(
        said.starts_with(problem) && problem.is_empty() == said.is_empty(),
        "{problem:?}: {said}"
    );
}

#[test]
fn scans() {
    let calls = [done((1, 2), &[put(0, 1)]), done((3, 4), &[put(2, 2)])];
    let (one, two) = ((0, entity(1)), (2, entity(2)));
    let first = page((10, 11), (0, 2), &[one]);
    check_scan(&calls, &[first.clone(), page((12, 13), (2, ROWS), &[two])], "");
    check_scan(&calls, &[first.clone(), page((12, 13), (2, ROWS), &[])], "p0/r02 is missing");
    check_scan(
        &calls,
        &[first.clone(), page((12, 13), (0, ROWS), &[one, two])],
        "p0/r00 is followed by p0/r00",
    );
    check_scan(&calls, &[page((10, 11), (0, ROWS), &[two, one])], "p0/r02 is followed by p0/r00");
    check_scan(
        &calls,
        &[page((10, 11), (0, ROWS), &[one, (1, entity(3)), two])],
        "p0/r01 was never written so",
    );
    check_scan(
        &calls,
        &[page((10, 11), (0, 1), &[one, two])],
        "p0/r02 does not belong on its page",
    );

    let gone = [&calls[..], &[done((5, 6), &[delete(2)])]].concat();
    check_scan(&gone, &[page((10, 11), (0, ROWS), &[one])], "");
    check_scan(&gone, &[page((10, 11), (0, ROWS), &[one, two])], "p0/r02 had been changed before");
    let going = [&calls[..], &[unanswered((5, NEVER), &[delete(2)])]].concat();
    check_scan(&going, &[page((10, 11), (0, ROWS), &[one])], "");
    check_scan(&going, &[page((10, 11), (0, ROWS), &[one, two])], "");
    let coming = [&calls[..], &[done((20, 21), &[put(1, 3)])]].concat();
    check_scan(
        &coming,
        &[page((10, 11), (0, ROWS), &[one, (1, entity(3)), two])],
        "p0/r01 was seen before",
    );
}

#[test]
fn a_page_shows_batches_whole() {
    let old = done((1, 2), &[put(0, 1), put(1, 2)]);
    let batch = done((10, 30), &[put(0, 4), put(1, 5), delete(2)]);
    let calls = [old, done((3, 4), &[put(2, 3)]), batch];
    let at = |number, version| Entity { version, ..entity(number) };
    let new = [(0, at(4, 50)), (1, at(5, 50))];
    check_scan(&calls, &[page((11, 12), (0, ROWS), &new)], "");
    let torn = [(0, at(1, 20)), new[1]];
    check_scan(&calls, &[page((11, 12), (0, ROWS), &torn)], "p0/r00 is as before this batch");
    let not_deleted = [new[0], new[1], (2, at(3, 30))];
    check_scan(
        &calls,
        &[page((11, 12), (0, ROWS), &not_deleted)],
        "p0/r02 is as before this batch",
    );
    // Two pages are two moments.
    check_scan(
        &calls,
        &[page((11, 12), (0, 1), &torn[..1]), page((13, 14), (1, ROWS), &new[1..])],
        "",
    );
}
