//! What happens to messages, as tables.

use super::*;

/// A second of the test's clock.
fn at(seconds: u64) -> DateTime {
    DateTime::from_ticks((1_000_000 + seconds) * TICKS_PER_SECOND).unwrap()
}

/// `inserted 0 expires 100 visible 30 seq 2 count 1`
fn state(text: &str) -> Option<MessageState> {
    if text == "-" {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |name: &str| -> u64 {
        let at = words.iter().position(|word| *word == name).expect(name);
        words[at + 1].parse().unwrap()
    };
    let expires = if text.contains("expires never") { NEVER } else { at(number("expires")) };
    Some(MessageState {
        inserted: at(number("inserted")),
        expires,
        visible_at: at(number("visible")),
        sequence: number("seq"),
        dequeue_count: u32::try_from(number("count")).unwrap(),
    })
}

/// `take 30`, `update 30@2 60` (with the receipt visible 30, sequence 2), `delete 30@2`, `peek`,
/// `put 100 0`, `put never 0`
fn event(text: &str) -> Event {
    let words: Vec<&str> = text.split_whitespace().collect();
    let receipt = |word: &str| {
        let (visible, sequence) = word.split_once('@').unwrap();
        (at(visible.parse().unwrap()), sequence.parse().unwrap())
    };
    match words[..] {
        ["put", "never", hidden] => {
            Event::Put { time_to_live: TimeToLive::Never, hidden_for: hidden.parse().unwrap() }
        }
        ["put", live, hidden] => Event::Put {
            time_to_live: TimeToLive::Seconds(live.parse().unwrap()),
            hidden_for: hidden.parse().unwrap(),
        },
        ["take", hidden] => Event::Take { hidden_for: hidden.parse().unwrap() },
        ["peek"] => Event::Peek,
        ["update", held, hidden] => {
            let (visible_at, sequence) = receipt(held);
            Event::Update { visible_at, sequence, hidden_for: hidden.parse().unwrap() }
        }
        ["delete", held] => {
            let (visible_at, sequence) = receipt(held);
            Event::Delete { visible_at, sequence }
        }
        _ => panic!("{text}"),
    }
}

/// Rows `now | stored | event | result`; the event's own number is 9.
#[test]
fn events() {
    const PLAIN: &str = "inserted 0 expires 100 visible 0 seq 1 count 0";
    const HELD: &str = "inserted 0 expires 100 visible 30 seq 2 count 1";
    let table = [
        // Put.
        (5, "-", "put 100 0", "inserted 5 expires 105 visible 5 seq 9 count 0"),
        (5, "-", "put 100 10", "inserted 5 expires 105 visible 15 seq 9 count 0"),
        (5, "-", "put never 0", "inserted 5 expires never visible 5 seq 9 count 0"),
        // Take.
        (5, PLAIN, "take 30", "inserted 0 expires 100 visible 35 seq 9 count 1"),
        (29, HELD, "take 30", "hidden"),
        (30, HELD, "take 30", "inserted 0 expires 100 visible 60 seq 9 count 2"),
        // A Get may hide a message beyond its end.
        (99, PLAIN, "take 30", "inserted 0 expires 100 visible 129 seq 9 count 1"),
        (100, PLAIN, "take 30", "not found"),
        (5, "-", "take 30", "not found"),
        // Peek.
        (0, PLAIN, "peek", "show"),
        (29, HELD, "peek", "hidden"),
        (100, PLAIN, "peek", "not found"),
        // Update: by the latest receipt, also when the message is visible again.
        (10, HELD, "update 30@2 60", "inserted 0 expires 100 visible 70 seq 9 count 1"),
        (10, HELD, "update 30@2 0", "inserted 0 expires 100 visible 10 seq 9 count 1"),
        (50, HELD, "update 30@2 60", "inserted 0 expires 100 visible 110 seq 9 count 1"),
        (10, HELD, "update 30@1 60", "stale"),
        (10, HELD, "update 0@2 60", "stale"),
        (100, HELD, "update 30@2 60", "not found"),
        (10, "-", "update 30@2 60", "not found"),
        // Delete.
        (10, HELD, "delete 30@2", "remove"),
        (50, HELD, "delete 30@2", "remove"),
        (10, HELD, "delete 0@1", "stale"),
        (100, HELD, "delete 30@2", "not found"),
        (10, "-", "delete 30@2", "not found"),
        // The receipt of a Put.
        (10, PLAIN, "delete 0@1", "remove"),
    ];
    for (now, stored, happens, expected) in table {
        let result = decide(event(happens), state(stored).as_ref(), at(now), 9);
        let shown = match result {
            Ok(MessageChange::Write(written)) => {
                assert_eq!(Some(written), state(expected), "{now}: {stored} {happens}");
                continue;
            }
            Ok(MessageChange::Show) => "show",
            Ok(MessageChange::Remove) => "remove",
            Err(MessageError::NotFound) => "not found",
            Err(MessageError::StaleReceipt) => "stale",
            Err(MessageError::Hidden) => "hidden",
        };
        assert_eq!(shown, expected, "{now}: {stored} {happens}");
    }
}

/// Sums beyond the last date are that date.
#[test]
fn times_do_not_overflow() {
    let event = Event::Put { time_to_live: TimeToLive::Seconds(u64::MAX), hidden_for: u32::MAX };
    for now in [at(0), NEVER, DateTime::MAX] {
        let Ok(MessageChange::Write(state)) = decide(event, None, now, 1) else { panic!() };
        assert_eq!(state.expires, NEVER);
        assert!(state.visible_at >= now);
    }
    assert_eq!(NEVER.to_text_full(), "9999-12-31T23:59:59.0000000Z");
}

#[test]
fn ids_are_guids() {
    let id = MessageId::new(0x5974_b586_0df3_4e2d_ad0c_18e3_892b_fca2);
    assert_eq!(id.to_string(), "5974b586-0df3-4e2d-ad0c-18e3892bfca2");
    assert_eq!(MessageId::parse(&id.to_string()), Some(id));
    assert_eq!(MessageId::parse(&id.to_string().to_uppercase()), Some(id));
    for wrong in
        ["", "1", "5974b5860df34e2dad0c18e3892bfca2", "5974b586-0df3-4e2d-ad0c-18e3892bfcaé"]
    {
        assert_eq!(MessageId::parse(wrong), None, "{wrong}");
    }
}
