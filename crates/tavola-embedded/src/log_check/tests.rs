use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Checked, LogError, LogState, check};
use crate::files::log::{BLOCK_BYTES, FIRST, HEADER_BYTES, LAST, MIDDLE, WHOLE};
use crate::files::masked_crc32c as checksum;

/// The payload of a write: its sequence number, one change, and bytes.
fn write(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut payload = sequence.to_le_bytes().to_vec();
    payload.extend_from_slice(&1_u32.to_le_bytes());
    payload.extend((0..bytes).map(|at| (at % 251) as u8 + 1));
    payload
}

/// A log as the engine writes it.
fn log(records: &[Vec<u8>]) -> Vec<u8> {
    let mut log = Vec::new();
    for record in records {
        let (mut rest, mut is_first) = (&record[..], true);
        loop {
            let mut room = BLOCK_BYTES - log.len() % BLOCK_BYTES;
            if room < HEADER_BYTES {
                log.resize(log.len() + room, 0);
                room = BLOCK_BYTES;
            }
            let (part, left) = rest.split_at(rest.len().min(room - HEADER_BYTES));
            let kind = match (is_first, left.is_empty()) {
                (true, true) => WHOLE,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            let covered = [&[kind], part].concat();
            log.extend_from_slice(&checksum(&covered).to_le_bytes());
            log.extend_from_slice(&(part.len() as u16).to_le_bytes());
            log.extend_from_slice(&covered);
            (rest, is_first) = (left, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    log
}

fn verdict(folder: &Path) -> Result<LogState, String> {
    checked(folder).map(|checked| checked.logs)
}

fn checked(folder: &Path) -> Result<Checked, String> {
    check(folder, None).map_err(|error| match error {
        LogError::Damaged(what) => what,
        LogError::Io(path, error) => panic!("{path:?}: {error}"),
    })
}

/// What is said about a folder with these logs and a sound record of files.
fn evaluate(logs: &[&[u8]]) -> Result<LogState, String> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.join("MANIFEST-000001"), log(&[vec![1; 50], vec![2; 20]])).unwrap();
    for (number, bytes) in logs.iter().enumerate() {
        fs::write(folder.join(format!("{:06}.log", number + 5)), bytes).unwrap();
    }
    verdict(folder)
}

fn is_damaged(logs: &[&[u8]]) -> bool {
    evaluate(logs).is_err()
}

/// Small records, all in one block, which is also the last: here the engine's own reader is most
/// forgiving.
fn small() -> (Vec<Vec<u8>>, Vec<u8>) {
    let records: Vec<Vec<u8>> = (0..6).map(|n| write(100 + n, 40 + n as usize)).collect();
    let bytes = log(&records);
    (records, bytes)
}

/// Records across several blocks.
fn large() -> (Vec<Vec<u8>>, Vec<u8>) {
    let records =
        vec![write(1, 100), write(2, 70_000), write(3, 10), write(4, 40_000), write(5, 90_000)];
    let bytes = log(&records);
    (records, bytes)
}

#[test]
fn whole_logs() {
    assert_eq!(evaluate(&[]), Ok(LogState::Whole));
    assert_eq!(evaluate(&[&[]]), Ok(LogState::Whole));
    assert_eq!(evaluate(&[&small().1, &large().1]), Ok(LogState::Whole));
}

#[test]
fn a_log_cut_anywhere_is_torn() {
    let (records, bytes) = small();
    let ends: Vec<usize> = (0..=records.len()).map(|count| log(&records[..count]).len()).collect();
    for end in 0..bytes.len() {
        let expected = if ends.contains(&end) { LogState::Whole } else { LogState::TornTail };
        assert_eq!(evaluate(&[&bytes[..end]]), Ok(expected), "cut at {end}");
    }
    let (_, bytes) = large();
    for end in (0..bytes.len()).step_by(997).chain([BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
    {
        assert!(evaluate(&[&bytes[..end]]).is_ok(), "cut at {end}");
    }
}

#[test]
fn any_bit_before_the_last_record_is_damage() {
    let (records, bytes) = small();
    let last = log(&records[..records.len() - 1]).len();
    for at in 0..last {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(is_damaged(&[&bytes]), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn any_bit_of_the_last_record_is_damage_unless_it_may_have_been_cut() {
    let (records, bytes) = small();
    let last = log(&records[..records.len() - 1]).len();
    for at in last..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(is_damaged(&[&bytes]), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn bytes_of_large_records_are_noticed() {
    let (records, bytes) = large();
    let last = log(&records[..records.len() - 1]).len();
    for at in (0..last).step_by(499).chain([BLOCK_BYTES, BLOCK_BYTES + 4, BLOCK_BYTES + 6]) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        assert!(is_damaged(&[&bytes]), "byte {at}");
    }
}

#[test]
fn sectors_that_were_never_written() {
    let (records, bytes) = large();
    let last = log(&records[..records.len() - 1]).len();
    let zeroed = |from: usize, to: usize| {
        let mut bytes = bytes.clone();
        let to = to.min(bytes.len());
        bytes[from..to].fill(0);
        bytes
    };
    // A crash may keep any sectors of the last record from the disk, in any order.
    let first_sector = last.next_multiple_of(512);
    for from in (first_sector..bytes.len()).step_by(512 * 7) {
        for sectors in [1, 8, 64, 1000] {
            assert_eq!(
                evaluate(&[&zeroed(from, from + 512 * sectors)]),
                Ok(LogState::TornTail),
                "{from} {sectors}"
            );
        }
    }
    assert_eq!(evaluate(&[&zeroed(last, bytes.len())]), Ok(LogState::TornTail), "not a byte of it");
    // The same in an older record is damage.
    for from in (0..first_sector - 512).step_by(512 * 7) {
        assert!(is_damaged(&[&zeroed(from, from + 512)]), "{from}");
    }
}

#[test]
fn a_torn_log_that_was_recovered_before_may_still_lie_there() {
    let (_, bytes) = small();
    let torn = &bytes[..bytes.len() - 10];
    assert_eq!(evaluate(&[torn]), Ok(LogState::TornTail));
    assert_eq!(evaluate(&[torn, &[]]), Ok(LogState::TornTail), "a crash during that recovery");
    // Five writes were whole, 100 to 104: the engine went on with 105.
    assert_eq!(evaluate(&[torn, &log(&[write(105, 5)])]), Ok(LogState::TornTail));
    assert!(is_damaged(&[torn, &log(&[write(106, 5)])]), "105 is missing");
    assert!(
        is_damaged(&[&bytes[..3], &log(&[write(1, 5)])]),
        "nothing proves that nothing is missing"
    );
}

/// A record of files as the engine writes it: its last sequence number, and the oldest log that
/// counts.
fn manifest(last_sequence: u8, log_number: u8) -> Vec<u8> {
    log(&[vec![2, log_number, 3, 9, 4, last_sequence]])
}

/// What is said about these logs if table files hold everything up to number 99, and this much was
/// acknowledged.
fn judge_after_99(logs: &[&[u8]], synced: Option<u64>) -> Result<LogState, String> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.join("MANIFEST-000001"), manifest(99, 5)).unwrap();
    // An older log, which the engine does not look at any more.
    fs::write(folder.join("000004.log"), log(&[write(1, 5)])).unwrap();
    for (number, bytes) in logs.iter().enumerate() {
        fs::write(folder.join(format!("{:06}.log", number + 5)), bytes).unwrap();
    }
    check(folder, synced).map(|checked| checked.logs).map_err(|error| format!("{error:?}"))
}

#[test]
fn numbers_go_on_without_a_gap() {
    let (first, second) = (log(&[write(100, 5), write(101, 5)]), log(&[write(102, 5)]));
    assert_eq!(judge_after_99(&[&first, &second], None), Ok(LogState::Whole));
    assert_eq!(
        judge_after_99(&[&log(&[write(90, 5)])], None),
        Ok(LogState::Whole),
        "some are in table files as well"
    );
    for missing in [
        &[&second[..]][..],
        &[&first, &log(&[write(103, 5)])],
        &[&log(&[write(100, 5), write(102, 5)])],
    ] {
        assert!(judge_after_99(missing, None).unwrap_err().contains("are missing"));
    }
    // A write that failed, and whose number was given to the next.
    assert_eq!(judge_after_99(&[&first, &log(&[write(101, 9)])], None), Ok(LogState::Whole));
}

#[test]
fn a_torn_first_record_that_was_recovered_before() {
    let torn = log(&[write(100, 50)]);
    assert_eq!(
        judge_after_99(&[&torn[..20], &log(&[write(100, 5)])], None),
        Ok(LogState::TornTail)
    );
}

#[test]
fn what_was_acknowledged_is_there() {
    let logs = log(&[write(100, 5), write(101, 5)]);
    for synced in [None, Some(0), Some(99), Some(101)] {
        assert_eq!(judge_after_99(&[&logs], synced), Ok(LogState::Whole), "{synced:?}");
    }
    assert!(judge_after_99(&[&logs], Some(102)).unwrap_err().contains("SYNCED"));
    assert_eq!(judge_after_99(&[&[]], Some(99)), Ok(LogState::Whole));
    assert!(judge_after_99(&[&[]], Some(100)).unwrap_err().contains("SYNCED"));
    let torn = &logs[..logs.len() - 3];
    assert_eq!(
        judge_after_99(&[torn], Some(100)),
        Ok(LogState::TornTail),
        "the second was not acknowledged"
    );
    assert!(judge_after_99(&[torn], Some(101)).unwrap_err().contains("SYNCED"), "it was");
}

#[test]
fn the_record_of_files_is_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let manifest = folder.join("MANIFEST-000001");
    fs::write(folder.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    assert!(verdict(folder).unwrap_err().contains("CURRENT names"));
    let bytes = log(&[vec![1; 50], vec![2; 20]]);
    for at in 0..50 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        fs::write(&manifest, &bytes).unwrap();
        assert!(verdict(folder).unwrap_err().contains("MANIFEST-000001 at byte 0"), "byte {at}");
    }
    fs::write(&manifest, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(
        verdict(folder),
        Ok(LogState::Whole),
        "a torn tail of it says nothing about the writes"
    );
    fs::write(folder.join("CURRENT"), [0xff, 0xfe]).unwrap();
    assert!(verdict(folder).is_err());
}

/// The cut comes before the whole edit, not before the fragment that was torn.
#[test]
fn a_torn_edit_is_cut_off_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    let manifest = folder.join("MANIFEST-000001");
    let sound = log(&[vec![1; 50], vec![2; 20]]);
    fs::write(&manifest, &sound).unwrap();
    assert_eq!(checked(folder).unwrap().torn_edit, None);
    let mut torn = log(&[vec![1; 50], vec![2; 20], vec![3; 40_000]]);
    torn[BLOCK_BYTES + 1024..BLOCK_BYTES + 2048].fill(0);
    fs::write(&manifest, &torn).unwrap();
    checked(folder).unwrap().torn_edit.unwrap().cut_off().unwrap();
    assert_eq!(fs::read(&manifest).unwrap(), sound);
}

/// A power failure kept a sector of an edit from the disk, and not the next one, which held the
/// rest of it and a second edit of the same sync. The folder was refused, although nothing had
/// relied on either.
#[test]
fn edits_that_shared_a_sync_may_be_torn_in_the_first_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.join("000005.log"), log(&[write(100, 5)])).unwrap();
    let path = folder.join("MANIFEST-000001");
    // Fields that may be passed over, so that the edits are understood and as long as they need to
    // be.
    let passed_over = |bytes: u8| [vec![0x80, 0x40, bytes], vec![7; usize::from(bytes)]].concat();
    let sound = [vec![vec![2, 5, 3, 9, 4, 99]], vec![passed_over(120); 3]].concat();
    let unsynced = log(&[sound.clone(), vec![passed_over(120), vec![2, 5]]].concat());
    let sound = log(&sound);
    let border = 512;
    assert!(
        sound.len() < border && border < unsynced.len() - 20,
        "a border of sectors lies in the first of the two"
    );
    let mut torn = unsynced.clone();
    torn[sound.len()..border].fill(0);
    fs::write(&path, &torn).unwrap();
    assert_eq!(checked(folder).unwrap().logs, LogState::Whole);
    checked(folder).unwrap().torn_edit.unwrap().cut_off().unwrap();
    assert_eq!(fs::read(&path).unwrap(), sound);
    // With writes missing from the logs the edits had been relied on.
    fs::write(&path, &torn).unwrap();
    fs::write(folder.join("000005.log"), log(&[write(102, 5)])).unwrap();
    assert!(checked(folder).is_err());
    // What was written and changed since is no torn edit.
    fs::write(folder.join("000005.log"), log(&[write(100, 5)])).unwrap();
    let mut flipped = unsynced;
    flipped[sound.len() + 20] ^= 1;
    fs::write(&path, &flipped).unwrap();
    assert!(checked(folder).is_err());
}

#[test]
fn the_message_says_where() {
    let (_, mut bytes) = small();
    bytes[70] ^= 1;
    let message = evaluate(&[&bytes]).unwrap_err();
    assert!(message.contains("000005.log at byte 59"), "{message}");
    assert!(message.contains("checksum") && message.contains("follow"), "{message}");
}

/// Bytes behind the last record that look like one of a kind that we never write, cut off by the
/// end of the file, were taken for a torn tail. The engine was then opened on them, and never came
/// back: it reads such a record again and again.
#[test]
fn a_kind_that_is_never_written_is_no_torn_tail() {
    let (_, sound) = small();
    for kind in LAST + 1..=u8::MAX {
        let mut bytes = sound.clone();
        bytes.extend_from_slice(&[1, 2, 3, 4, 0xff, 0x7f, kind, 7, 7, 7]);
        assert!(is_damaged(&[&bytes]), "kind {kind}");
    }
    for kind in WHOLE..=LAST {
        let mut bytes = sound.clone();
        bytes.extend_from_slice(&[1, 2, 3, 4, 0xff, 0x7f, kind, 7, 7, 7]);
        assert_eq!(evaluate(&[&bytes]), Ok(LogState::TornTail), "kind {kind}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..2000), zeros in 0..600_usize) {
        let mut bytes = bytes;
        bytes.extend(std::iter::repeat_n(0, zeros));
        let _ = evaluate(&[&bytes]);
    }

    #[test]
    fn a_cut_is_never_taken_for_damage(sizes in vec(0..40_000_usize, 1..6), cut in any::<prop::sample::Index>()) {
        let records: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, size)| write(n as u64, *size)).collect();
        let bytes = log(&records);
        prop_assert!(evaluate(&[&bytes[..cut.index(bytes.len())]]).is_ok());
    }

    #[test]
    fn a_flip_before_the_last_record_is_never_taken_for_a_cut(
        sizes in vec(0..40_000_usize, 2..6),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let records: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, size)| write(n as u64, *size)).collect();
        let mut bytes = log(&records);
        let before_last = log(&records[..records.len() - 1]).len();
        let at = at.index(before_last);
        // The filling at the end of a block means nothing.
        let is_filling = bytes[at] == 0 && BLOCK_BYTES - at % BLOCK_BYTES < HEADER_BYTES;
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(is_filling || is_damaged(&[&bytes]));
    }
}
