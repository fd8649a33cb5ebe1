//! Wide entities: which property is in which part.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Ident, Result};

use crate::attributes::TypeAttributes;
use crate::field::{Field, Storage};

/// A transaction writes 100 rows.
const PARTS_MAX: u8 = 100;

/// Where the properties of a wide entity are.
pub(crate) enum Wide {
    /// Part after part, in the order of the fields.
    ByOrder,
    /// The part of each entry in the tree of names.
    Parts(Vec<u8>),
}

impl Wide {
    /// What the attributes say; `None` if the entity is not wide.
    pub(crate) fn new(
        attributes: &TypeAttributes,
        fields: &[Field<'_>],
        has_kind: bool,
    ) -> Result<Option<Self>> {
        let has_parts = fields.iter().any(|field| field.attributes.part.is_some());
        if !attributes.wide && !has_parts {
            return Ok(None);
        }
        check(attributes, fields)?;
        if !has_parts {
            return Ok(Some(Self::ByOrder));
        }
        let mut parts: Vec<u8> = has_kind.then_some(0).into_iter().collect();
        let mut current = 0;
        for field in fields {
            if let Some(part) = &field.attributes.part {
                let error = || Error::new(part.span(), "parts are numbered from 0 to 99");
                let number = part.base10_parse().ok().filter(|number| *number < PARTS_MAX);
                current = number.ok_or_else(error)?;
            }
            if field.name_entry().is_some() {
                parts.push(current);
            } else if let Some(part) = &field.attributes.part {
                return Err(Error::new(part.span(), "there is no property here to be in a part"));
            }
        }
        Ok(Some(Self::Parts(parts)))
    }

    /// What must hold of the names, whose flattened ones are not seen here.
    pub(crate) fn checks(&self) -> TokenStream {
        let names = quote!(::tavola_client::__private::names);
        match self {
            Self::ByOrder => quote! {
                ::core::assert!(
                    #names::fit_by_order(__NAMES),
                    "a wide entity has at most 100 parts of 251 properties"
                );
            },
            Self::Parts(parts) => quote! {
                ::core::assert!(
                    #names::fit_in_parts(__NAMES, &[#(#parts),*]),
                    "a part of a wide entity has at most 251 properties: begin another one with \
                     `#[entity(part = n)]`"
                );
            },
        }
    }

    pub(crate) fn implementation(&self, ident: &Ident) -> TokenStream {
        let parts = match self {
            Self::ByOrder => quote!(::core::option::Option::None),
            Self::Parts(parts) => quote!(::core::option::Option::Some(&[#(#parts),*])),
        };
        quote! {
            impl ::tavola_client::entity::WideEntity for #ident {
                const PARTS: ::core::option::Option<&'static [u8]> = #parts;
            }
        }
    }
}

/// Refuses what a wide entity cannot have.
fn check(attributes: &TypeAttributes, fields: &[Field<'_>]) -> Result<()> {
    if let Some(index) = attributes.indexes.first() {
        let message = "a wide entity is several rows, so that it has no index";
        return Err(Error::new(index.name.span(), message));
    }
    for field in fields {
        let message = if field.storage == Storage::Rest {
            "a wide entity cannot know in which part the rest is: name its properties"
        } else if field.attributes.write_id {
            "the writes of a wide entity have an id of their own, `tv_gen`"
        } else {
            continue;
        };
        return Err(Error::new(field.ident.span(), message));
    }
    Ok(())
}
