//! Messages of a queue.

use tavola_core::DateTime;
use tavola_core::queue::{Delivered, Enqueued, MessageId, MessageState, Peeked, PopReceipt};

use super::XmlError;
use super::element::{Element, Writer, text_of};
use crate::headers::{http_date, read_http_date};
use crate::queue::receipt;

/// Reads the text of a message that is put or updated; `None` if there is no text.
///
/// # Errors
/// If the body is not a `QueueMessage`.
pub fn read_message_text(body: &[u8]) -> Result<Option<String>, XmlError> {
    let root = Element::parse(text_of(body)?, "QueueMessage")?;
    // Markup inside a text is dropped, and what it surrounds stays.
    Ok(root.child("MessageText")?.map(Element::whole_text))
}

/// Writes the answer to a Put.
#[must_use]
pub fn write_enqueued(message: &Enqueued) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.list("QueueMessagesList", std::slice::from_ref(message), |writer, message| {
        writer.element("QueueMessage", |writer| {
            id_and_times(writer, message.id, &message.state);
            receipt_and_visible(writer, &message.receipt);
        });
    });
    writer.finish()
}

/// Writes messages that were taken.
#[must_use]
pub fn write_messages(messages: &[Delivered]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.list("QueueMessagesList", messages, |writer, message| {
        writer.element("QueueMessage", |writer| {
            id_and_times(writer, message.id, &message.state);
            receipt_and_visible(writer, &message.receipt);
            count_and_text(writer, &message.state, &message.text);
        });
    });
    writer.finish()
}

/// Writes messages that were looked at.
#[must_use]
pub fn write_peeked(messages: &[Peeked]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.list("QueueMessagesList", messages, |writer, message| {
        writer.element("QueueMessage", |writer| {
            id_and_times(writer, message.id, &message.state);
            count_and_text(writer, &message.state, &message.text);
        });
    });
    writer.finish()
}

fn id_and_times(writer: &mut Writer, id: MessageId, state: &MessageState) {
    writer.text("MessageId", &id.to_string());
    writer.text("InsertionTime", &http_date(state.inserted));
    writer.text("ExpirationTime", &http_date(state.expires));
}

fn receipt_and_visible(writer: &mut Writer, held: &PopReceipt) {
    writer.text("PopReceipt", &receipt::write(held));
    writer.text("TimeNextVisible", &http_date(held.visible_at));
}

fn count_and_text(writer: &mut Writer, state: &MessageState, text: &str) {
    writer.text("DequeueCount", &state.dequeue_count.to_string());
    writer.text("MessageText", text);
}

/// A message as a client reads it. What an answer does not say is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMessage {
    /// As the server writes it: it need not be ours.
    pub id: String,
    /// When it was put.
    pub inserted: DateTime,
    /// When it is gone.
    pub expires: DateTime,
    /// By which it can be updated or deleted.
    pub receipt: Option<String>,
    /// When it is visible next.
    pub visible_at: Option<DateTime>,
    /// How often it was taken.
    pub dequeue_count: Option<u32>,
    /// What it says.
    pub text: Option<String>,
}

/// Reads the messages of an answer.
///
/// # Errors
/// If it is no list of messages.
pub fn read_messages(body: &[u8]) -> Result<Vec<ReadMessage>, XmlError> {
    let root = Element::parse(text_of(body)?, "QueueMessagesList")?;
    root.children("QueueMessage").map(read_message).collect()
}

fn read_message(message: &Element) -> Result<ReadMessage, XmlError> {
    let time = |name: &str| -> Result<Option<DateTime>, XmlError> {
        let text = message.child(name)?.map(Element::text);
        text.map(|text| read_http_date(text.trim()).ok_or(XmlError)).transpose()
    };
    let text = |name: &str| Ok(message.child(name)?.map(Element::whole_text));
    let count = message.child("DequeueCount")?.map(|count| count.text().trim().parse());
    Ok(ReadMessage {
        id: text("MessageId")?.ok_or(XmlError)?,
        inserted: time("InsertionTime")?.ok_or(XmlError)?,
        expires: time("ExpirationTime")?.ok_or(XmlError)?,
        receipt: text("PopReceipt")?,
        visible_at: time("TimeNextVisible")?,
        dequeue_count: count.transpose().map_err(|_| XmlError)?,
        text: text("MessageText")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tavola_core::TableId;

    use super::*;

    fn delivered(text: &str) -> Delivered {
        let at = |text: &str| DateTime::parse(text).unwrap();
        let state = MessageState {
            inserted: at("2026-10-09T21:04:30Z"),
            expires: at("2026-10-16T21:04:30Z"),
            visible_at: at("2026-10-09T21:05:00Z"),
            sequence: 7,
            dequeue_count: 2,
        };
        let receipt = PopReceipt {
            queue: TableId::new(300),
            shard: 0,
            visible_at: state.visible_at,
            sequence: state.sequence,
        };
        let id = MessageId::parse("5974b586-0df3-4e2d-ad0c-18e3892bfca2").unwrap();
        Delivered { id, state, receipt, text: text.to_owned() }
    }

    #[test]
    fn messages_to_the_byte() {
        let message = delivered("<a> & b\r\n");
        let receipt = receipt::write(&message.receipt);
        let head = r#"<?xml version="1.0" encoding="utf-8"?>"#;
        let times = "<MessageId>5974b586-0df3-4e2d-ad0c-18e3892bfca2</MessageId>\
             <InsertionTime>Fri, 09 Oct 2026 21:04:30 GMT</InsertionTime>\
             <ExpirationTime>Fri, 16 Oct 2026 21:04:30 GMT</ExpirationTime>";
        let held = format!(
            "<PopReceipt>{receipt}</PopReceipt>\
             <TimeNextVisible>Fri, 09 Oct 2026 21:05:00 GMT</TimeNextVisible>"
        );
        let rest = "<DequeueCount>2</DequeueCount>\
             <MessageText>&lt;a&gt; &amp; b&#13;\n</MessageText>";
        let list = |inner: &str| {
            format!(
                "{head}<QueueMessagesList><QueueMessage>{inner}</QueueMessage></QueueMessagesList>"
            )
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let Delivered { id, state, receipt, .. } = message.clone();
        assert_eq!(
            text(write_messages(std::slice::from_ref(&message))),
            list(&format!("{times}{held}{rest}"))
        );
        let enqueued = Enqueued { id, state, receipt };
        assert_eq!(text(write_enqueued(&enqueued)), list(&format!("{times}{held}")));
        let peeked = Peeked { id, state, text: message.text.clone() };
        assert_eq!(text(write_peeked(&[peeked])), list(&format!("{times}{rest}")));
        assert_eq!(text(write_messages(&[])), format!("{head}<QueueMessagesList />"));
    }

    #[test]
    fn texts_of_requests() {
        for (body, expected) in [
            ("<QueueMessage><MessageText>a</MessageText></QueueMessage>", Ok(Some("a"))),
            ("<QueueMessage><MessageText /></QueueMessage>", Ok(Some(""))),
            ("<QueueMessage></QueueMessage>", Ok(None)),
            ("<QueueMessage><MessageText> a\t</MessageText></QueueMessage>", Ok(Some(" a\t"))),
            (
                "<QueueMessage><MessageText><![CDATA[<x>]]></MessageText></QueueMessage>",
                Ok(Some("<x>")),
            ),
            ("<QueueMessage><MessageText>a<b>c</b>d</MessageText></QueueMessage>", Ok(Some("acd"))),
            ("<QueueMessage><MessageText>&#x1;</MessageText></QueueMessage>", Err(XmlError)),
            (
                "<QueueMessage><MessageText>\u{1f600}&#xD;</MessageText></QueueMessage>",
                Ok(Some("\u{1f600}\r")),
            ),
            ("<Message><MessageText>a</MessageText></Message>", Err(XmlError)),
            ("<QueueMessage><MessageText>a</QueueMessage>", Err(XmlError)),
            ("", Err(XmlError)),
        ] {
            let read = read_message_text(body.as_bytes());
            assert_eq!(
                read.as_ref().map(Option::as_deref).map_err(|error| *error),
                expected,
                "{body}"
            );
        }
    }

    proptest! {
        /// Whatever XML can carry comes back as it was.
        #[test]
        fn texts_are_read_as_they_were_written(text in "[\\PC\t\r\n]{0,40}") {
            let body = write_messages(&[delivered(&text)]);
            let read = read_messages(&body).unwrap();
            prop_assert_eq!(read[0].text.as_deref(), Some(text.as_str()));
            prop_assert_eq!(read[0].dequeue_count, Some(2));
            prop_assert_eq!(read[0].visible_at, Some(delivered("").state.visible_at));
        }
    }
}
