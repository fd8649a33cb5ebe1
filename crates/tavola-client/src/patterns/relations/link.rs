//! The keys of another entity.

use std::fmt;
use std::marker::PhantomData;

use crate::call::Call;
use crate::client::TableClient;
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::{EntityKey, PointKey, escape_text, unescape_text};
use crate::value::{EdmType, PropertyType, Sealed, Value, ValueRef};

/// The key of an entity of type `E`, stored in a property of another entity: an explicit link.
///
/// In the table it is one text, `{PartitionKey}!{RowKey}`, both escaped as in key templates.
///
/// **Guarantee.** A link is a legal key; that the entity is there nobody checks.
///
/// **Cost** in requests: follow 1.
///
/// An implicit link is a convention instead: the other keys follow from what an entity has anyway.
/// Say it with [`LinksTo`].
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{Link, LinksTo};
/// use tavola_client::{Entity, PointKey, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "dept")]
/// struct Department {
///     dept: String,
///     manager: Option<Link<Employee>>,
/// }
///
/// /// Implicit: the founder of a department has the number 1 in it.
/// impl LinksTo<Employee> for Department {
///     fn link(&self) -> Option<PointKey<Employee>> {
///         Some(Employee::key().dept(&self.dept).id(1))
///     }
/// }
///
/// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
/// table.create().await?;
/// for id in [1, 104] {
///     table.insert(&Employee { dept: "Sales".into(), id }).await?;
/// }
/// let manager = Link::new(Employee::key().dept("Sales").id(104))?;
/// table.insert(&Department { dept: "Sales".into(), manager: Some(manager) }).await?;
///
/// let sales = table.get(Department::key().dept("Sales")).await?.ok_or("none").unwrap();
/// assert_eq!(sales.manager.follow(&table).await?.map(|one| one.id), Some(104));
/// assert_eq!(sales.follow(&table).await?.map(|one| one.id), Some(1));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct Link<E> {
    key: EntityKey,
    text: String,
    of: PhantomData<fn() -> E>,
}

/// What has a link to an entity of type `E`: implicitly, by a convention of keys, or explicitly, as
/// [`Link`] has it.
pub trait LinksTo<E: Entity> {
    /// The key of the other entity; `None` if there is no link.
    fn link(&self) -> Option<PointKey<E>>;

    /// The other entity; `None` if there is no link, or nothing at its end. One request.
    fn follow<'a>(&self, table: &'a TableClient) -> Call<'a, Option<Stored<E>>> {
        let link = self.link();
        Call::new(table.engine().settings(), move |settings| async move {
            match link {
                Some(key) => table.get(key).with_settings(settings).await,
                None => Ok(None),
            }
        })
    }
}

impl<E> Link<E> {
    /// A link to the entity with this key.
    ///
    /// # Errors
    /// If a part does not fit its template, or a key breaks a rule.
    pub fn new(key: impl Into<PointKey<E>>) -> Result<Self, Error> {
        key.into().into_key().map(Self::of)
    }

    fn of(key: EntityKey) -> Self {
        let text = format!("{}!{}", escape_text(key.partition()), escape_text(key.row()));
        Self { key, text, of: PhantomData }
    }

    fn parse(text: &str) -> Option<Self> {
        let (partition, rest) = unescape_text(text)?;
        let (row, "") = unescape_text(rest.strip_prefix('!')?)? else { return None };
        EntityKey::new(partition, row).ok().map(Self::of)
    }

    /// The key at its end.
    #[must_use]
    pub fn key(&self) -> &EntityKey {
        &self.key
    }
}

impl<E: Entity> LinksTo<E> for Link<E> {
    fn link(&self) -> Option<PointKey<E>> {
        Some((&self.key).into())
    }
}

impl<E: Entity> LinksTo<E> for Option<Link<E>> {
    fn link(&self) -> Option<PointKey<E>> {
        self.as_ref().and_then(LinksTo::link)
    }
}

impl<E> Sealed for Link<E> {}

impl<E> PropertyType for Link<E> {
    const EDM: EdmType = EdmType::String;

    fn to_property(&self) -> Option<ValueRef<'_>> {
        Some(ValueRef::String(&self.text))
    }

    fn from_property(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::String(text) => Self::parse(text),
            _ => None,
        }
    }
}

impl<E> From<&Link<E>> for Value {
    fn from(link: &Link<E>) -> Self {
        Self::String(link.text.clone())
    }
}

impl<E> From<&Link<E>> for PointKey<E> {
    fn from(link: &Link<E>) -> Self {
        (&link.key).into()
    }
}

impl<E> Clone for Link<E> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), text: self.text.clone(), of: PhantomData }
    }
}

impl<E> PartialEq for Link<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Link<E> {}

impl<E> fmt::Debug for Link<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link{}", self.key)
    }
}
