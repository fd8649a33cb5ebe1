//! Some properties of an entity instead of all.

use std::fmt;
use std::marker::PhantomData;

use super::names::expand;
use super::{Decoded, Decoder, DynDecoder, DynEntity, Entity, Name, RowHead, sealed};
use crate::__private::{fill, take};
use crate::error::Error;
use crate::filter::{Column, Comparable};
use crate::value::{PropertyType, ValueRef};

/// Some properties of the entity type `Of`. `#[derive(Projection)]` implements it, and checks names
/// and types against the entity's columns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    note = "write `#[derive(Projection)] #[projection(of = ..)]` on it"
)]
pub trait Projection: Sized + Send + 'static + sealed::Derived {
    /// The entity.
    type Of: Entity;

    #[doc(hidden)]
    const NAMES: &'static [Name];

    #[doc(hidden)]
    type Decoder: Decoder<Out = Self>;

    #[doc(hidden)]
    fn decoder() -> Self::Decoder;
}

/// What a query over `E` asks for: [`only`] a projection, a tuple of columns, or, of entities
/// without a type, a list of names.
pub trait Selection<E: Entity>: Send + sealed::Derived {
    /// What a row becomes.
    type Out: Send + 'static;

    #[doc(hidden)]
    type Decoder: Decoder<Out = Self::Out>;

    #[doc(hidden)]
    fn names(&self) -> Vec<String>;

    #[doc(hidden)]
    fn decoder(&self) -> Self::Decoder;
}

/// Asks for the properties of a projection only.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use tavola_client::{Entity, Projection, only};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee { dept: String, id: u32, last: String, age: Option<i32>, photo: Vec<u8> }
///
/// #[derive(Projection)]
/// #[projection(of = Employee)]
/// struct Card { last: String, age: Option<i32> }
///
/// let card = only::<Card>();
/// # let _ = card; }
/// ```
#[must_use]
pub fn only<P: Projection>() -> Only<P> {
    Only(PhantomData)
}

/// The properties of a projection; see [`only`].
pub struct Only<P>(PhantomData<fn() -> P>);

impl<P> fmt::Debug for Only<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Only")
    }
}

impl<P> sealed::Derived for Only<P> {}

impl<P: Projection> Selection<P::Of> for Only<P> {
    type Out = P;
    type Decoder = P::Decoder;

    fn names(&self) -> Vec<String> {
        expand(P::NAMES)
    }

    fn decoder(&self) -> P::Decoder {
        P::decoder()
    }
}

/// Names that are known only at run time; a property that an entity does not have is absent.
impl sealed::Derived for Vec<String> {}

impl Selection<DynEntity> for Vec<String> {
    type Out = DynEntity;
    type Decoder = DynDecoder;

    fn names(&self) -> Vec<String> {
        self.clone()
    }

    fn decoder(&self) -> DynDecoder {
        DynEntity::decoder()
    }
}

/// Reads a tuple of columns: its names and what was found.
#[doc(hidden)]
#[derive(Debug)]
pub struct TupleDecoder<N, S> {
    names: N,
    slots: S,
    error: Option<Error>,
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $at:tt),+;)+) => {$(
        impl<E, $($type),+> sealed::Derived for ($(Column<E, $type, Comparable>,)+) {}

        impl<E: Entity, $($type: PropertyType + Send + 'static),+> Selection<E>
            for ($(Column<E, $type, Comparable>,)+)
        {
            type Out = ($($type,)+);
            type Decoder = TupleDecoder<[String; $count], ($(Option<$type>,)+)>;

            fn names(&self) -> Vec<String> {
                vec![$(self.$at.name()),+]
            }

            fn decoder(&self) -> Self::Decoder {
                let slots = ($(Option::<$type>::None,)+);
                TupleDecoder { names: [$(self.$at.name()),+], slots, error: None }
            }
        }

        impl<$($type: PropertyType + Send),+> Decoder
            for TupleDecoder<[String; $count], ($(Option<$type>,)+)>
        {
            type Out = ($($type,)+);

            fn property(&mut self, name: &str, value: ValueRef<'_>) {
                $(if self.names[$at] == name {
                    fill(&mut self.slots.$at, &mut self.error, name, value);
                })+
            }

            fn finish(self, _head: &RowHead<'_>) -> Result<Decoded<Self::Out>, Error> {
                if let Some(error) = self.error {
                    return Err(error);
                }
                let value = ($(take(self.slots.$at, &self.names[$at])?,)+);
                Ok(Decoded { value, rest: Vec::new() })
            }
        }
    )+};
}

tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, F 4;
    6: A 0, B 1, C 2, D 3, F 4, G 5;
    7: A 0, B 1, C 2, D 3, F 4, G 5, H 6;
    8: A 0, B 1, C 2, D 3, F 4, G 5, H 6, I 7;
}
