//! What must be true of a scan, by plain reasoning about times, apart from the search for an order:
//! its message is shorter, and it holds where the search is left undecided.

use super::record::{Answer, Ask, Call, Page, Place, Record, Scan, Verb, Write};

/// Evaluates every scan of a record.
///
/// # Errors
/// The first scan that shows what it must not, or does not show what it must.
pub(super) fn check(record: &Record) -> Result<(), String> {
    let partitions: Vec<Vec<Call>> =
        (0..record.partitions).map(|partition| record.of_partition(partition)).collect();
    record.scans.iter().try_for_each(|scan| {
        check_shape(scan)
            .and_then(|()| scan.pages.iter().try_for_each(|page| check_page(page, &partitions)))
            .and_then(|()| check_whole(scan, &partitions))
            .map_err(|problem| format!("{problem}\nin {}", describe(scan, record.rows)))
    })
}

fn describe(scan: &Scan, rows: u8) -> String {
    let pages = scan.pages.iter().flat_map(|page| page.calls(scan.client, rows));
    let lines: Vec<String> = pages.map(|call| format!("  p{} {call}", call.partition)).collect();
    format!("this scan with $top={}:\n{}", scan.top, lines.join("\n"))
}

fn name((partition, row): Place) -> String {
    format!("p{partition}/r{row:02}")
}

/// In order, none twice, not more than asked for, and each within its page.
fn check_shape(scan: &Scan) -> Result<(), String> {
    let places: Vec<Place> =
        scan.pages.iter().flat_map(|page| page.entities.iter().map(|(place, _)| *place)).collect();
    if let Some(pair) = places.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(format!("{} is followed by {}", name(pair[0]), name(pair[1])));
    }
    for page in &scan.pages {
        if page.entities.len() > scan.top {
            return Err(format!("a page has {} entities", page.entities.len()));
        }
        if let Some((place, _)) =
            page.entities.iter().find(|(place, _)| !page.covers.contains(place))
        {
            return Err(format!("{} does not belong on its page", name(*place)));
        }
    }
    Ok(())
}

/// Each entity is one that was there while the page was read, and batches are whole.
fn check_page(page: &Page, partitions: &[Vec<Call>]) -> Result<(), String> {
    for ((partition, row), entity) in &page.entities {
        let calls = &partitions[usize::from(*partition)];
        let place = name((*partition, *row));
        let Some(writer) = writer(calls, *row, entity.content.last()) else {
            return Err(format!("{place} was never written so: {entity}"));
        };
        if writer.invoked > page.returned {
            return Err(format!("{place} was seen before it was written by\n  {writer}"));
        }
        let after = calls.iter().find(|call| {
            let follows = call.invoked > writer.returned && call.returned < page.invoked;
            follows && matches!(call.answer, Answer::Written(_)) && write_to(call, *row).is_some()
        });
        if let Some(after) = after {
            return Err(format!("{place} had been changed before, by\n  {after}"));
        }
    }
    let mut batches = partitions.iter().flatten().filter(|call| call.possible_writes().len() > 1);
    batches
        .try_for_each(|batch| check_batch(page, batch, &partitions[usize::from(batch.partition)]))
}

/// A page that shows one row of a batch shows no other of its rows as it was before.
fn check_batch(page: &Page, batch: &Call, calls: &[Call]) -> Result<(), String> {
    let seen = |row: u8| page.entities.iter().find(|(place, _)| *place == (batch.partition, row));
    let shown = batch.possible_writes().iter().find_map(|write| {
        let (_, entity) = seen(write.row)?;
        (write.verb != Verb::Delete && entity.content.last() == write.content.last())
            .then_some(entity.version)
    });
    let Some(version) = shown else { return Ok(()) };
    let covered = |write: &&Write| page.covers.contains(&(batch.partition, write.row));
    let torn = batch.possible_writes().iter().filter(covered).find(|write| match seen(write.row) {
        Some((_, entity)) => entity.version < version,
        None => {
            write.verb != Verb::Delete
                && !may_have_been_deleted(calls, write.row, batch.invoked, page.returned)
        }
    });
    match torn {
        None => Ok(()),
        Some(write) => Err(format!(
            "{} is as before this batch, of which the page shows another row:\n  {batch}",
            name((batch.partition, write.row))
        )),
    }
}

/// Whatever was there from before the scan until after it is on one of its pages.
fn check_whole(scan: &Scan, partitions: &[Vec<Call>]) -> Result<(), String> {
    let (Some(first), Some(last)) = (scan.pages.first(), scan.pages.last()) else { return Ok(()) };
    let (begun, ended) = (first.invoked, last.returned);
    for (partition, calls) in (0u8..).zip(partitions) {
        for call in calls.iter().filter(|call| call.returned < begun) {
            let missing = shows(call).into_iter().find(|row| {
                let place = (partition, *row);
                let covered = first.covers.start <= place && place < last.covers.end;
                let listed = || {
                    scan.pages.iter().flat_map(|page| &page.entities).any(|(of, _)| *of == place)
                };
                covered && !listed() && !may_have_been_deleted(calls, *row, call.invoked, ended)
            });
            if let Some(row) = missing {
                return Err(format!(
                    "{} is missing, though it was there all the time since\n  {call}",
                    name((partition, row))
                ));
            }
        }
    }
    Ok(())
}

/// The rows that certainly existed when the call took effect, and after it.
fn shows(call: &Call) -> Vec<u8> {
    match (&call.ask, &call.answer) {
        (Ask::Get(row), Answer::Found(Some(_))) => vec![*row],
        (_, Answer::Rows(rows)) => rows.iter().map(|(row, _)| *row).collect(),
        (Ask::Write(writes), Answer::Written(_)) => writes
            .iter()
            .filter(|write| write.verb != Verb::Delete)
            .map(|write| write.row)
            .collect(),
        _ => Vec::new(),
    }
}

fn may_have_been_deleted(calls: &[Call], row: u8, from: u64, to: u64) -> bool {
    let overlap = calls.iter().filter(|call| call.returned >= from && call.invoked <= to);
    overlap.filter_map(|call| write_to(call, row)).any(|write| write.verb == Verb::Delete)
}

fn write_to(call: &Call, row: u8) -> Option<&Write> {
    call.possible_writes().iter().find(|write| write.row == row)
}

/// The call that wrote this number into this row.
fn writer(calls: &[Call], row: u8, number: u32) -> Option<&Call> {
    calls.iter().find(|call| {
        write_to(call, row).is_some_and(|write| write.content.last() == number && number != 0)
    })
}
