//! The list of an account's queues.

use tavola_core::Metadata;
use tavola_core::queue::{ListQueues, Listed, QueueName};

use super::XmlError;
use super::element::{Element, Writer, text_of};

/// Writes a page of queues. `marker` and `next` are as clients see them.
#[must_use]
pub fn write_queues(
    endpoint: &str,
    asked: &ListQueues,
    marker: Option<&str>,
    queues: &[Listed],
    next: Option<&str>,
) -> Vec<u8> {
    let mut writer = Writer::new();
    let root = ("EnumerationResults", ("ServiceEndpoint", endpoint));
    writer.element_with(root, |writer| {
        if !asked.prefix.is_empty() {
            writer.text("Prefix", &asked.prefix);
        }
        if let Some(marker) = marker {
            writer.text("Marker", marker);
        }
        if let Some(max_results) = asked.max_results {
            writer.text("MaxResults", &max_results.to_string());
        }
        writer.list("Queues", queues, |writer, queue| {
            writer.element("Queue", |writer| {
                writer.text("Name", queue.name.as_str());
                if let Some(metadata) = &queue.metadata {
                    let pairs: Vec<_> = metadata.iter().collect();
                    writer
                        .list("Metadata", &pairs, |writer, (name, value)| writer.text(name, value));
                }
            });
        });
        match next {
            Some(next) => writer.text("NextMarker", next),
            None => writer.list::<()>("NextMarker", &[], |_, ()| {}),
        }
    });
    writer.finish()
}

/// Reads a page of queues and the marker of the next page.
///
/// # Errors
/// If it is no such page.
pub fn read_queues(body: &[u8]) -> Result<(Vec<Listed>, Option<String>), XmlError> {
    let root = Element::parse_long(text_of(body)?, "EnumerationResults")?;
    let queues = root.required("Queues")?.children("Queue").map(|queue| {
        let name = queue.required("Name")?.text();
        let metadata = match queue.child("Metadata")? {
            None => None,
            Some(metadata) => {
                let pairs = metadata.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
                Some(Metadata::new(pairs.collect()).map_err(|_| XmlError)?)
            }
        };
        Ok(Listed { name: QueueName::parse(name).map_err(|_| XmlError)?, metadata })
    });
    let queues = queues.collect::<Result<_, _>>()?;
    let next = root.child("NextMarker")?.map(Element::text).filter(|next| !next.is_empty());
    Ok((queues, next.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_to_the_byte_and_back() {
        let asked = ListQueues {
            prefix: "ord".to_owned(),
            from: None,
            max_results: Some(1),
            with_metadata: true,
        };
        let metadata = Metadata::new(vec![("Category".to_owned(), "a<b".to_owned())]).unwrap();
        let queue = Listed { name: QueueName::parse("orders").unwrap(), metadata: Some(metadata) };
        let page =
            write_queues("http://q/", &asked, Some("m"), std::slice::from_ref(&queue), Some("n"));
        let expected = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
            <EnumerationResults ServiceEndpoint=\"http://q/\"><Prefix>ord</Prefix><Marker>m</Marker>\
            <MaxResults>1</MaxResults><Queues><Queue><Name>orders</Name><Metadata><Category>a&lt;b\
            </Category></Metadata></Queue></Queues><NextMarker>n</NextMarker></EnumerationResults>";
        assert_eq!(String::from_utf8(page.clone()).unwrap(), expected);
        assert_eq!(read_queues(&page), Ok((vec![queue], Some("n".to_owned()))));

        let page = write_queues("http://q/?a&b", &ListQueues::default(), None, &[], None);
        let expected = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
            <EnumerationResults ServiceEndpoint=\"http://q/?a&amp;b\"><Queues /><NextMarker />\
            </EnumerationResults>";
        assert_eq!(String::from_utf8(page.clone()).unwrap(), expected);
        assert_eq!(read_queues(&page), Ok((Vec::new(), None)));
    }

    /// The longest page there is.
    #[test]
    fn five_thousand_queues() {
        let listed = |at: u32| Listed {
            name: QueueName::parse(&format!("q-{at}")).unwrap(),
            metadata: None,
        };
        let queues: Vec<_> = (0..5000).map(listed).collect();
        let page = write_queues("http://q/", &ListQueues::default(), None, &queues, None);
        assert_eq!(read_queues(&page), Ok((queues, None)));
    }
}
